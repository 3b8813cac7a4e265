package pack

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"slices"
	"sort"

	"fairlead.dev/services/gitcache/internal/git"
)

// resolveDeltas makes every delta's object, depth first from each whole object that is a base.
func (c *checker) resolveDeltas() error {
	slices.SortFunc(c.byPlace, func(a, b placed) int { return cmp.Compare(a.base, b.base) })
	slices.SortFunc(c.byName, func(a, b named) int { return bytes.Compare(a.base[:], b.base[:]) })
	deltas := len(c.byPlace) + len(c.byName)
	if deltas == 0 {
		return nil
	}
	for i := range c.objects {
		o := &c.objects[i]
		if o.turn != 0 {
			continue
		}
		if f := c.findDeltas(o); f.hasMore() {
			if err := c.resolveFrom(o, f); err != nil {
				return err
			}
		}
	}
	if missing := deltas - int(c.turns); missing > 0 {
		return damagedf("%d objects are made from objects that the pack does not hold", missing)
	}
	return nil
}

// frame is an object whose deltas are being resolved.
type frame struct {
	content *content
	places  []placed
	names   []named
}

func (f *frame) hasMore() bool { return len(f.places)+len(f.names) > 0 }

func (f *frame) nextDelta() (delta uint32) {
	if len(f.places) > 0 {
		delta, f.places = f.places[0].delta, f.places[1:]
	} else {
		delta, f.names = f.names[0].delta, f.names[1:]
	}
	return delta
}

// findDeltas finds the deltas that are made from an object. The deltas that name the object are made from its first
// copy: deltas are taken in their order, so when the last is done none is left for another copy.
func (c *checker) findDeltas(o *object) (f frame) {
	lo, hi := equalRange(len(c.byPlace), func(i int) int { return cmp.Compare(c.byPlace[i].base, o.at) })
	f.places = c.byPlace[lo:hi]
	lo, hi = equalRange(len(c.byName), func(i int) int { return bytes.Compare(c.byName[i].base[:], o.id[:]) })
	if lo < hi && c.objects[c.byName[hi-1].delta].turn == unresolved {
		f.names = c.byName[lo:hi]
	}
	return f
}

// equalRange finds the range for which compare gives 0.
func equalRange(n int, compare func(i int) int) (lo, hi int) {
	lo = sort.Search(n, func(i int) bool { return compare(i) >= 0 })
	hi = lo + sort.Search(n-lo, func(i int) bool { return compare(lo+i) > 0 })
	return lo, hi
}

// resolveFrom resolves all deltas upon a whole object, and those upon them. The objects on the way from it to
// the one at work are held.
func (c *checker) resolveFrom(o *object, f frame) (err error) {
	if f.content, err = c.readWhole(o.at); err != nil {
		return err
	}
	path := []frame{f}
	for len(path) > 0 {
		if err := c.stopReason(); err != nil {
			return err
		}
		top := &path[len(path)-1]
		if !top.hasMore() {
			c.space.freeContent(top.content)
			path = path[:len(path)-1]
			continue
		}
		delta := &c.objects[top.nextDelta()]
		if delta.turn != unresolved {
			continue // upon an object that is in the pack twice
		}
		f, err := c.makeDelta(delta, top.content)
		if err != nil {
			return err
		}
		if f.content == nil {
			continue
		}
		if len(path) == maxDepth {
			return damagedf("deltas are more than %d deep", maxDepth)
		}
		path = append(path, f)
	}
	return nil
}

// readWhole reads an object that is no delta.
func (c *checker) readWhole(at int64) (*content, error) {
	e, z, err := c.openEntry(at)
	if err != nil {
		return nil, err
	}
	defer z.giveBack()
	return c.space.holdContent(e.kind, e.size, func(w io.Writer) error { return copyAll(w, z, c.buffer) })
}

// makeDelta makes the object of a delta, and names it. The object is held if others are made from it.
func (c *checker) makeDelta(o *object, base *content) (f frame, err error) {
	_, z, err := c.openEntry(o.at)
	if err != nil {
		return f, err
	}
	defer z.giveBack()
	size, err := beginDelta(z, base)
	if err != nil {
		return f, err
	}
	f = c.findDeltas(o) // the deltas that point to its place; its name is not known yet
	if len(f.places) == 0 && len(c.byName) == 0 {
		c.names.beginObject(base.kind, size)
		if err := applyDelta(z.out, base, size, c.names); err != nil {
			return f, err
		}
		c.noteResolved(o, c.names.sumName())
		return f, nil
	}
	held, err := c.space.holdContent(base.kind, size, func(w io.Writer) error { return applyDelta(z.out, base, size, w) })
	if err != nil {
		return f, err
	}
	id, err := c.names.nameContent(held)
	if err != nil {
		return f, err
	}
	c.noteResolved(o, id)
	if f = c.findDeltas(o); !f.hasMore() {
		c.space.freeContent(held)
		return f, nil
	}
	f.content = held
	return f, nil
}

func (c *checker) noteResolved(o *object, id git.Hash) {
	c.turns++
	o.id, o.turn = id, c.turns
}

// beginDelta reads the sizes of a delta upon base.
func beginDelta(z *inflater, base *content) (size int64, err error) {
	from, size, err := deltaSizes(z.out)
	if err != nil {
		return 0, err
	}
	return size, suitsBase(from, size, base)
}

// suitsBase tells whether a delta from so many bytes to so many can be one upon base.
func suitsBase(from, size int64, base *content) error {
	if from != base.size {
		return damagedf("a delta is for a base of %d bytes, which has %d", from, base.size)
	}
	if size > MaxDeltaBytes {
		return damagedf("a delta makes %d bytes", size)
	}
	return nil
}

// openEntry begins to read the object at a place.
func (c *checker) openEntry(at int64) (entry, *inflater, error) {
	return openEntry(io.NewSectionReader(c.pack, at, c.end-at), at)
}

// openEntry reads the header of an object that begins at, and begins to inflate the rest of it.
func openEntry(src io.Reader, at int64) (entry, *inflater, error) {
	z, _ := inflaters.Get().(*inflater)
	z.src.Reset(src)
	e, err := readEntry(z.src, at)
	if err == nil {
		err = z.beginStream(z.src, e.size)
	}
	if err != nil {
		z.giveBack()
		return e, nil, err
	}
	return e, z, nil
}

func readEntry(src *bufio.Reader, at int64) (entry, error) {
	head, err := src.Peek(maxEntry)
	if len(head) == 0 && err != nil {
		return entry{}, cutPack(err)
	}
	e, err := parseEntry(head, at)
	if err != nil {
		return e, err
	}
	_, err = src.Discard(int(e.head))
	return e, err
}
