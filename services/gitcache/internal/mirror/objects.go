package mirror

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Errors of an object.
var (
	// ErrMissing: the object is not there.
	ErrMissing = errors.New("object is missing")
	// ErrCorrupt: the object is there and can't be read, or is not what its name says.
	ErrCorrupt = errors.New("object is damaged")
	// ErrTooLarge: the object is larger than the caller takes.
	ErrTooLarge = errors.New("object is too large")
	// ErrKind: the object is another kind of thing than what refers to it says. The object came like that from
	// upstream.
	ErrKind = errors.New("object is of the wrong kind")
)

// Objects reads a mirror, for one goroutine. Packs may come and go meanwhile: an object that was there when Objects was
// opened stays readable, however often the packs are joined meanwhile.
type Objects struct {
	m *Mirror
	// last is the pack that had the last object, which is likely to have the next one. The pack is kept open.
	last *member
	file *pack.File
}

// Close ends the use.
func (o *Objects) Close() {
	if o.last != nil {
		o.m.readers.releasePack(o.last)
		o.last, o.file = nil, nil
	}
}

// Has tells whether an object is there.
func (o *Objects) Has(id git.Hash) bool {
	return o.findPack(id, func(*pack.File, int64) error { return nil }) == nil
}

// Has tells whether an object is here right now.
func (m *Mirror) Has(id git.Hash) bool {
	o := m.Objects()
	defer o.Close()
	return o.Has(id)
}

// Peel is Objects.Peel for a single object.
func (m *Mirror) Peel(id git.Hash) (git.Hash, error) {
	o := m.Objects()
	defer o.Close()
	return o.Peel(id)
}

// CombinationOf is the ref of the several sources that a commit was made of; empty: the commit is of one source, or is
// not here.
func (m *Mirror) CombinationOf(commit git.Hash) string {
	o := m.Objects()
	defer o.Close()
	c, err := o.Commit(commit)
	if err != nil {
		return ""
	}
	return c.Combination
}

// Size returns the size of an object.
func (o *Objects) Size(id git.Hash) (size int64, err error) {
	err = o.findPack(id, func(f *pack.File, at int64) error {
		size, err = f.Size(at)
		return err
	})
	return size, err
}

// Kind returns the type of an object.
func (o *Objects) Kind(id git.Hash) (kind git.Kind, err error) {
	err = o.findPack(id, func(f *pack.File, at int64) error {
		kind, err = f.Kind(at)
		return err
	})
	return kind, err
}

// Read returns an object of at most most bytes, hashed again. The caller must not change it.
func (o *Objects) Read(kind git.Kind, id git.Hash, most int64) (content []byte, err error) {
	err = o.findPack(id, func(f *pack.File, at int64) error {
		content, err = o.readObject(f, at, kind, id, most)
		return err
	})
	return content, err
}

func (o *Objects) readObject(f *pack.File, at int64, kind git.Kind, id git.Hash, most int64) ([]byte, error) {
	got, content, err := f.Read(at, most, o.m.readers.cache, o.m.dir)
	if errors.Is(err, pack.ErrLarge) {
		return nil, fmt.Errorf("%w: %s: %w", ErrTooLarge, id, err)
	}
	if err != nil {
		return nil, err
	}
	if pack.Name(got, content) != id {
		return nil, fmt.Errorf("%w: the bytes do not hash to the name", pack.ErrDamaged)
	}
	if got != kind {
		return nil, fmt.Errorf("%w: %s is a %s, not a %s", ErrKind, id, got, kind)
	}
	return content, nil
}

// findPack has the pack used that holds an object. If that one is damaged another may hold it, too. Packs
// that were replaced in the meantime are no reason to miss anything: then it looks again.
func (o *Objects) findPack(id git.Hash, use func(f *pack.File, at int64) error) error {
	for {
		set := o.m.packs.Load()
		err := o.findIn(*set, id, use)
		if errors.Is(err, fs.ErrNotExist) {
			o.m.awaitChange()
		}
		if err == nil || o.m.packs.Load() == set {
			return readError(id, err)
		}
	}
}

func (o *Objects) findIn(set []*member, id git.Hash, use func(f *pack.File, at int64) error) error {
	trouble := error(nil)
	try := func(f *pack.File) (done bool) {
		at, found, err := f.Index().Find(id)
		if err == nil && found {
			if err = use(f, at); err == nil || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrKind) {
				trouble = err
				return true
			}
		}
		if err != nil {
			trouble = err
		}
		return false
	}
	before := o.last
	if before != nil && try(o.file) {
		return trouble
	}
	for _, m := range set {
		if m == before {
			continue
		}
		f, err := o.m.readers.acquirePack(m)
		if err != nil {
			trouble = err
			continue
		}
		if try(f) {
			o.Close()
			o.last, o.file = m, f
			return trouble
		}
		o.m.readers.releasePack(m)
	}
	if trouble != nil {
		return trouble
	}
	return ErrMissing
}

// readError sorts what can be wrong into the errors above. An error that says nothing about the object stays as it is:
// a mirror is not cloned again because this process is short of something, or a disk is full.
func readError(id git.Hash, err error) error {
	var limit *pack.LimitError
	switch {
	case err == nil, errors.Is(err, ErrCorrupt), errors.Is(err, ErrTooLarge), errors.Is(err, ErrKind):
		return err
	case errors.Is(err, ErrMissing), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrMissing, id)
	case errors.Is(err, pack.ErrDamaged), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, id, err)
	case errors.As(err, &limit):
		return fmt.Errorf("%w: %s: %w", ErrTooLarge, id, err)
	default:
		return fmt.Errorf("read object %s: %w", id, err)
	}
}

// IsUnreadable tells errors of reads that are the mirror's fault from those that are the content's.
func IsUnreadable(err error) bool { return errors.Is(err, ErrMissing) || errors.Is(err, ErrCorrupt) }

// isDamage tells errors that are the mirror's fault from those of a process or machine that is short of
// something.
func isDamage(err error) bool {
	return IsUnreadable(readError(git.Hash{}, err))
}
