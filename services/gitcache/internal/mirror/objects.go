package mirror

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// What can go wrong with an object.
var (
	// ErrMissing: the object is not there.
	ErrMissing = errors.New("object is missing")
	// ErrCorrupt: the object is there and can't be read, or is not what its name says.
	ErrCorrupt = errors.New("object is damaged")
	// ErrTooLarge: the object is larger than the caller takes.
	ErrTooLarge = errors.New("object is too large")
)

// readerCache bounds the delta bases that one reader remembers.
const readerCache = 16 * cache.MiByte

// Objects reads a mirror as it was when it was opened. For one goroutine: go-git's storage is not safe
// for more.
type Objects struct {
	storage    *filesystem.Storage
	home       *idleReader // where Close leaves it for the next one
	generation int
}

func openObjects(repo string) *Objects {
	return &Objects{storage: filesystem.NewStorageWithOptions(osfs.New(repo), cache.NewObjectLRU(readerCache), filesystem.Options{
		KeepDescriptors:      true,
		LargeObjectThreshold: 0, // any other value silently gives wrong content
	})}
}

// Close ends the use by this goroutine.
func (o *Objects) Close() {
	if o.home == nil || !o.home.leave(o) {
		_ = o.storage.Close()
	}
}

// idleTime is how long a mirror keeps its last reader open. Opening one reads all indexes, which would
// be done for each of the folders that are asked for after a commit.
const idleTime = 10 * time.Second

// idleReader keeps one reader between uses.
type idleReader struct {
	mu         sync.Mutex // guards what follows
	generation int        // of the packs; a reader does not see later ones
	reader     *Objects
	timer      *time.Timer
}

func (i *idleReader) take(repo string) *Objects {
	i.mu.Lock()
	defer i.mu.Unlock()
	if o := i.reader; o != nil {
		i.reader = nil
		i.timer.Stop()
		return o
	}
	o := openObjects(repo)
	o.home, o.generation = i, i.generation
	return o
}

func (i *idleReader) leave(o *Objects) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reader != nil || o.generation != i.generation {
		return false
	}
	i.reader = o
	i.timer = time.AfterFunc(idleTime, i.drop)
	return true
}

func (i *idleReader) outdate() {
	i.drop()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.generation++
}

func (i *idleReader) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reader == nil {
		return
	}
	i.timer.Stop()
	_ = i.reader.storage.Close()
	i.reader = nil
}

// Has tells whether an object is there.
func (o *Objects) Has(id plumbing.Hash) (has bool) {
	defer func() {
		if recover() != nil {
			has = false
		}
	}()
	return o.storage.HasEncodedObject(id) == nil
}

// Size returns an object's size.
func (o *Objects) Size(id plumbing.Hash) (size int64, err error) {
	defer func() { err = readError(id, err) }()
	defer recoverTo(&err)
	return o.storage.EncodedObjectSize(id)
}

// Read returns an object of at most most bytes, hashed again. The caller must not change it.
func (o *Objects) Read(kind plumbing.ObjectType, id plumbing.Hash, most int64) (content []byte, err error) {
	size, err := o.Size(id)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrTooLarge, id, size)
	}
	defer func() { err = readError(id, err) }()
	defer recoverTo(&err)
	object, err := o.storage.EncodedObject(plumbing.AnyObject, id)
	if err != nil {
		return nil, err
	}
	if object.Type() != kind {
		return nil, fmt.Errorf("want a %s, found a %s", kind, object.Type())
	}
	r, err := object.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content = make([]byte, 0, size+1)
	content, err = readAll(content, r, size)
	if err != nil {
		return nil, err
	}
	if plumbing.ComputeHash(kind, content) != id {
		return nil, errors.New("the bytes do not hash to the name")
	}
	return content, nil
}

func readAll(into []byte, r io.Reader, size int64) ([]byte, error) {
	into = into[:size]
	if _, err := io.ReadFull(r, into); err != nil {
		return nil, fmt.Errorf("shorter than its size of %d: %w", size, err)
	}
	return into, nil
}

// Kind returns the type of an object.
func (o *Objects) Kind(id plumbing.Hash) (kind plumbing.ObjectType, err error) {
	defer func() { err = readError(id, err) }()
	defer recoverTo(&err)
	object, err := o.storage.EncodedObject(plumbing.AnyObject, id)
	if err != nil {
		return plumbing.InvalidObject, err
	}
	return object.Type(), nil
}

// readError sorts what go-git says into the errors above.
func readError(id plumbing.Hash, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrMissing), errors.Is(err, ErrCorrupt), errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return fmt.Errorf("%w: %s", ErrMissing, id)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		// Says nothing about the object: a mirror is not cloned again because this process is short of something.
		return fmt.Errorf("read object %s: %w", id, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, id, err)
	}
}
