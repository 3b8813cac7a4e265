package pack

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
)

// object is what the index says of an object, and what it takes to find that out.
type object struct {
	id  git.Hash
	crc uint32 // of its bytes in the pack
	at  int64
	// turn orders objects such that each comes after those that it is made from: 0 are whole ones.
	turn int64
}

const unresolved = -1 // a delta's turn at first

// Objects are what a pack holds, all of it checked.
type Objects struct{ list []object }

// Len is their number.
func (o *Objects) Len() int { return len(o.list) }

// Has tells whether an object is one of them.
func (o *Objects) Has(id git.Hash) bool {
	_, found := slices.BinarySearchFunc(o.list, id, func(a object, id git.Hash) int { return bytes.Compare(a.id[:], id[:]) })
	return found
}

// Bounds of the work for one pack. The zero value sets none: it is for packs that were accepted before.
type Bounds struct {
	// Expansion is how many times the pack's size all objects may have together, beyond 4 GiB; 0: any.
	Expansion int64
	// Processor is the processor time for any pack, to which one of more bytes gets more; 0: any.
	Processor time.Duration
}

// UsualBounds are for packs of strangers.
func UsualBounds() Bounds { return Bounds{Expansion: UsualExpansion, Processor: checkTime} }

// Check reads a pack of size bytes to its end, names every object by what it holds, and returns what
// belongs into the index. The sum at the end is not looked at: see Sum. dir is for a temporary file. An
// error that is ErrDamaged or a *LimitError is the pack's own fault.
func Check(ctx context.Context, pack io.ReaderAt, size int64, dir string, bounds Bounds) (*Objects, error) {
	runtime.LockOSThread() // whose time is counted
	defer runtime.UnlockOSThread()
	c := &checker{
		ctx: ctx, pack: pack, end: size - sumBytes, names: newNamer(), most: math.MaxInt64,
		space: space{dir: dir, memory: checkMemory}, buffer: make([]byte, 32<<10),
	}
	if bounds.Expansion > 0 {
		c.most = madeBytes + size*min(bounds.Expansion, (math.MaxInt64-madeBytes)/max(size, 1))
	}
	if bounds.Processor > 0 {
		c.limit = bounds.Processor + time.Duration(size)*checkTimePerByte
		c.until = processorTime() + c.limit
	}
	defer c.space.close()
	if err := c.scanObjects(); err != nil {
		return nil, err
	}
	if err := c.resolveDeltas(); err != nil {
		return nil, err
	}
	list := c.objects
	slices.SortFunc(list, func(a, b object) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.turn, b.turn))
	})
	// Of an object that is there twice the first is kept: its base never depends on the second.
	return &Objects{slices.CompactFunc(list, func(a, b object) bool { return a.id == b.id })}, nil
}

// checker is the work on one pack: scan reads it once, front to back, and names what is whole; resolve
// then follows deltas from each base on, so that each is made once.
type checker struct {
	ctx     context.Context //nolint:containedctx // for the length of one call
	pack    io.ReaderAt
	end     int64 // of the last object
	names   namer
	space   space
	buffer  []byte
	objects []object // in the order of the pack

	byPlace []placed // deltas of the kind offsetDelta by their base
	byName  []named  // deltas of the kind namedDelta by their base
	turns   int64

	made, most int64 // bytes of all objects, and the bound of it
	// limit is the processor time that the work may take, until when it is over; 0: any.
	limit, until time.Duration
}

// stopReason says why the work ends here: the caller gave up, or the pack takes too long. A pack that takes longer is
// the pack's own fault.
func (c *checker) stopReason() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.limit > 0 && processorTime() > c.until {
		return overLimit("the history took more than %s of work to check. Keep manifests in a repository of their own", c.limit.Round(time.Second))
	}
	return nil
}

// placed and named are deltas, as indices of objects.
type placed struct {
	base  int64
	delta uint32
}

type named struct {
	base  git.Hash
	delta uint32
}

func (c *checker) scanObjects() error {
	n, err := c.readHeader()
	if err != nil {
		return err
	}
	counted := &counter{r: readerWithEnd{c.stopReason, io.NewSectionReader(c.pack, headBytes, c.end-headBytes)}, n: headBytes}
	src := bufio.NewReaderSize(counted, 64<<10)
	z := &inflater{out: bufio.NewReaderSize(nil, deltaBuffer)}
	c.objects = make([]object, 0, n)
	for range n {
		if err := c.scanObject(src, counted, z); err != nil {
			return err
		}
	}
	if at := counted.n - int64(src.Buffered()); at != c.end {
		return damagedf("%d bytes follow the last object", c.end-at)
	}
	return c.sumUp()
}

func (c *checker) readHeader() (int, error) {
	var head [headBytes]byte
	if c.end < headBytes {
		return 0, damagedf("too short for a pack")
	}
	if _, err := c.pack.ReadAt(head[:], 0); err != nil {
		return 0, fmt.Errorf("read pack: %w", err)
	}
	if string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return 0, damagedf("not a pack of version 2")
	}
	n := int64(binary.BigEndian.Uint32(head[8:]))
	if n > MaxObjects {
		return 0, overLimit("the pack has %d objects, more than the limit of %d", n, MaxObjects)
	}
	// The smallest object has 9 bytes: a header and nothing, compressed. This bounds what a lie costs.
	if n > (c.end-headBytes)/9 {
		return 0, damagedf("the pack says that it has %d objects and is too short for them", n)
	}
	return int(n), nil
}

func (c *checker) scanObject(src *bufio.Reader, counted *counter, z *inflater) error {
	at := counted.n - int64(src.Buffered())
	e, err := readEntry(src, at)
	if err != nil {
		return err
	}
	if e.size > MaxObjectBytes {
		return overLimit("the history has a file of %d MiB, over the limit of %d MiB. Keep manifests in a repository without it", e.size>>20, MaxObjectBytes>>20)
	}
	if err := z.beginStream(src, e.size); err != nil {
		return err
	}
	o := object{at: at}
	if !e.isDelta() {
		if err := c.countMade(e.size); err != nil {
			return err
		}
	}
	if e.isDelta() {
		if err := c.scanDelta(e, &o, z); err != nil {
			return err
		}
	} else {
		c.names.beginObject(e.kind, e.size)
		if err := copyAll(c.names, z, c.buffer); err != nil {
			return err
		}
		o.id = c.names.sumName()
	}
	c.objects = append(c.objects, o)
	return nil
}

// countMade counts the bytes of an object before any work is done for them.
func (c *checker) countMade(size int64) error {
	if c.made += size; c.made > c.most {
		return overLimit("the history has more than %d GiB of files and versions of them in a pack of %d KiB. Keep manifests in a repository of their own, or raise --max-expansion of the gitcaches", c.most>>30, c.end>>10)
	}
	return nil
}

func cutPack(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // as bufio returns them
		return damagedf("the pack ends before its last object")
	}
	return err
}

// scanDelta notes a delta's base and passes over the rest.
func (c *checker) scanDelta(e entry, o *object, z *inflater) error {
	_, result, err := deltaSizes(z.out)
	if err != nil {
		return err
	}
	if result > MaxDeltaBytes {
		return overLimit("the history has a file of %d MiB, kept as a difference to another, over the limit of %d MiB for such files. Keep manifests in a repository without it", result>>20, MaxDeltaBytes>>20)
	}
	if err := c.countMade(result); err != nil {
		return err
	}
	o.turn = unresolved
	i := uint32(len(c.objects))
	if e.kind == offsetDelta {
		c.byPlace = append(c.byPlace, placed{e.base, i})
	} else {
		c.byName = append(c.byName, named{e.baseID, i})
	}
	_, err = io.Copy(io.Discard, z.out)
	return err
}

// sumUp computes the checksum of each object's bytes, which the index holds.
func (c *checker) sumUp() error {
	r := io.NewSectionReader(c.pack, headBytes, c.end-headBytes)
	for i := range c.objects {
		o := &c.objects[i]
		next := c.end
		if i+1 < len(c.objects) {
			next = c.objects[i+1].at
		}
		if i%1024 == 0 {
			if err := c.stopReason(); err != nil {
				return err
			}
		}
		for left := next - o.at; left > 0; {
			part := c.buffer[:min(left, int64(len(c.buffer)))]
			if _, err := io.ReadFull(r, part); err != nil {
				return cutPack(err)
			}
			o.crc = crc32.Update(o.crc, crc32.IEEETable, part)
			left -= int64(len(part))
		}
	}
	return nil
}

// counter counts what was read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// Until reads from r until a context ends: whatever takes long ends with its caller.
func Until(ctx context.Context, r io.Reader) io.Reader { return readerWithEnd{ctx.Err, r} }

type readerWithEnd struct {
	over func() error // why nothing more is read
	r    io.Reader
}

func (r readerWithEnd) Read(p []byte) (int, error) {
	if err := r.over(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
