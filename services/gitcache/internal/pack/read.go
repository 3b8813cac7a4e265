package pack

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"fairlead.dev/services/gitcache/internal/git"
)

// ErrLarge: the object has more bytes than the caller takes.
var ErrLarge = errors.New("larger than asked for")

// Read returns the object that begins at, if it has at most most bytes; its name is for the caller to
// check. All of it comes into memory; of the objects that it is made from readMemory does, the rest is in
// a temporary file in dir. The result may be in the cache: it must not be changed.
func (f *File) Read(at, most int64, cache *Cache, dir string) (git.Kind, []byte, error) {
	if kind, b, ok := cache.getObject(f.number, at); ok {
		return kind, b, checkSize(int64(len(b)), most)
	}
	s := &space{dir: dir, memory: readMemory}
	defer s.close()
	kind, b, err := f.readObject(at, most, s, cache)
	if err != nil {
		return git.UnknownKind, nil, err
	}
	if kind != git.Blob { // objects that are likely to be asked for again
		cache.putObject(f.number, at, kind, b)
	}
	return kind, b, nil
}

func checkSize(size, most int64) error {
	if size > most {
		return fmt.Errorf("%w: %d bytes", ErrLarge, size)
	}
	return nil
}

// readObject makes the object that was asked for. A delta says first how large that is; the rest of it is for
// when its base is there.
func (f *File) readObject(at, most int64, s *space, cache *Cache) (git.Kind, []byte, error) {
	e, z, err := f.openEntry(at)
	if err != nil {
		return 0, nil, err
	}
	defer z.giveBack()
	from, size := int64(0), e.size
	if e.isDelta() {
		if from, size, err = deltaSizes(z.out); err != nil {
			return 0, nil, err
		}
	}
	if err := checkSize(size, most); err != nil {
		return 0, nil, err
	}
	if !e.isDelta() {
		b, err := fillBuffer(size, func(w io.Writer) error { return copyAll(w, z, make([]byte, min(size+1, 32<<10))) })
		return e.kind, b, err
	}
	if at, err = f.findBase(e); err != nil {
		return 0, nil, err
	}
	base, err := f.readContent(at, s, cache)
	if err != nil {
		return 0, nil, err
	}
	if err := suitsBase(from, size, base); err != nil {
		return 0, nil, err
	}
	b, err := fillBuffer(size, func(w io.Writer) error { return applyDelta(z.out, base, size, w) })
	return base.kind, b, err
}

// readContent makes an object that others are made from: down the deltas to one that is whole or in the cache,
// and up again.
func (f *File) readContent(at int64, s *space, cache *Cache) (c *content, err error) {
	var deltas []int64 // their places
	for c == nil {
		if kind, b, ok := cache.getObject(f.number, at); ok {
			c = &content{kind: kind, size: int64(len(b)), mem: b}
			s.memory -= c.size // which free gives back
			break
		}
		e, err := f.readEntry(at)
		switch {
		case err != nil:
			return nil, err
		case !e.isDelta():
			c, err = f.readWhole(at, s)
		case len(deltas) == maxDepth:
			err = damagedf("deltas are more than %d deep", maxDepth)
		default:
			deltas = append(deltas, at)
			at, err = f.findBase(e)
		}
		if err != nil {
			return nil, err
		}
	}
	f.cacheContent(c, at, cache)
	for _, at := range slices.Backward(deltas) {
		next, err := f.readDelta(at, c, s)
		if err != nil {
			return nil, err
		}
		s.freeContent(c)
		c = next
		f.cacheContent(c, at, cache)
	}
	return c, nil
}

// readWhole reads an object that is no delta.
func (f *File) readWhole(at int64, s *space) (*content, error) {
	e, z, err := f.openEntry(at)
	if err != nil {
		return nil, err
	}
	defer z.giveBack()
	return s.holdContent(e.kind, e.size, func(w io.Writer) error { return copyAll(w, z, make([]byte, min(e.size+1, 32<<10))) })
}

// readDelta makes one object from its base.
func (f *File) readDelta(at int64, base *content, s *space) (*content, error) {
	_, z, err := f.openEntry(at)
	if err != nil {
		return nil, err
	}
	defer z.giveBack()
	size, err := beginDelta(z, base)
	if err != nil {
		return nil, err
	}
	return s.holdContent(base.kind, size, func(w io.Writer) error { return applyDelta(z.out, base, size, w) })
}

// cacheContent caches what was made to make others, unless it is large.
func (f *File) cacheContent(c *content, at int64, cache *Cache) {
	if c.file == nil {
		cache.putObject(f.number, at, c.kind, c.mem)
	}
}
