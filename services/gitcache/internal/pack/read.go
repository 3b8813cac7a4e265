package pack

import (
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// Read returns the object that begins at, whose Size is size; its name is for the caller to check. All of
// it comes into memory; of the objects that it is made from readMemory does, the rest is in a
// temporary file in dir. The result may be in the cache: it must not be changed.
func (f *File) Read(at, size int64, cache *Cache, dir string) (plumbing.ObjectType, []byte, error) {
	if kind, b, ok := cache.get(f.number, at); ok {
		return kind, b, nil
	}
	s := &space{dir: dir, memory: readMemory + size}
	defer s.close()
	c, err := f.content(at, s, cache)
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	if c.file == nil {
		return c.kind, c.mem, nil
	}
	w := &memory{b: make([]byte, 0, c.size)}
	err = c.copyTo(w, 0, c.size)
	return c.kind, w.b, err
}

// content makes an object: down the deltas to one that is whole or in the cache, and up again.
func (f *File) content(at int64, s *space, cache *Cache) (*content, error) {
	var deltas []int64 // their places
	var c *content
	for c == nil {
		if kind, b, ok := cache.get(f.number, at); ok {
			c = &content{kind: kind, size: int64(len(b)), mem: b}
			s.memory -= c.size // which free gives back
			break
		}
		e, z, err := f.open(at)
		if err != nil {
			return nil, err
		}
		if !e.kind.IsDelta() {
			c, err = s.hold(e.kind, e.size, func(w io.Writer) error { return copyAll(w, z, make([]byte, min(e.size+1, 32<<10))) })
		} else {
			if len(deltas) == maxDepth {
				err = damagedf("deltas are more than %d deep", maxDepth)
			}
			deltas = append(deltas, at)
			if err == nil {
				at, err = f.base(e)
			}
		}
		z.giveBack()
		if err != nil {
			return nil, err
		}
	}
	f.remember(c, at, len(deltas) > 0, cache)
	for i, at := range slices.Backward(deltas) {
		next, err := f.delta(at, c, s)
		if err != nil {
			return nil, err
		}
		s.free(c)
		c = next
		f.remember(c, at, i > 0, cache)
	}
	return c, nil
}

// delta makes one object from its base.
func (f *File) delta(at int64, base *content, s *space) (*content, error) {
	_, z, err := f.open(at)
	if err != nil {
		return nil, err
	}
	defer z.giveBack()
	size, err := begin(z, base)
	if err != nil {
		return nil, err
	}
	if size > MaxDeltaBytes {
		return nil, damagedf("a delta makes %d bytes", size)
	}
	return s.hold(base.kind, size, func(w io.Writer) error { return apply(z.out, base, size, w) })
}

// remember caches what is likely to be asked for again: bases, and all but files.
func (f *File) remember(c *content, at int64, isBase bool, cache *Cache) {
	if c.file == nil && (isBase || c.kind != plumbing.BlobObject) {
		cache.put(f.number, at, c.kind, c.mem)
	}
}
