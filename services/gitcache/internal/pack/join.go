package pack

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // as Git's packs have it
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"fairlead.dev/services/gitcache/internal/git"
)

// MaxJoin objects in the packs that are joined: about 70 bytes of memory each.
const MaxJoin = 2_000_000

// part is an object that goes into the new pack.
type part struct {
	id    git.Hash
	file  uint32
	crc   uint32
	at, n int64 // in the old pack
	to    int64 // in the new one; 0: not yet
}

// Join writes a pack with the objects of several. Deltas stay as they are if their base comes from the
// same pack, which keeps them free of circles; others become whole. Objects are copied as they are,
// never held; for the rest what is said at Read holds.
func Join(ctx context.Context, w io.Writer, files []*File, dir string) error {
	j := &joiner{ctx: ctx, files: files, dir: dir, cache: NewCache(readMemory), sum: sha1.New()} //nolint:gosec // as Git's packs have it
	if err := j.chooseObjects(); err != nil {
		return err
	}
	j.w = &counting{w: io.MultiWriter(w, j.sum)}
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(j.parts)))
	if _, err := j.w.Write(head); err != nil {
		return err
	}
	for i := range j.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.addObject(&j.parts[i]); err != nil {
			return fmt.Errorf("copy object %s: %w", j.parts[i].id, err)
		}
	}
	_, err := w.Write(j.sum.Sum(nil))
	return err
}

type joiner struct {
	ctx    context.Context //nolint:containedctx // for the length of one call
	files  []*File
	dir    string
	cache  *Cache
	parts  []part // by file and place
	w      *counting
	sum    hash.Hash
	buffer [32 << 10]byte
	header []byte
}

// chooseObjects takes each object from the first pack that has it.
func (j *joiner) chooseObjects() error {
	n := 0
	for _, f := range j.files {
		n += f.index.Len()
	}
	if n > MaxJoin {
		return fmt.Errorf("join %d objects: more than %d", n, MaxJoin)
	}
	j.parts = make([]part, 0, n)
	for i, f := range j.files {
		if err := j.listObjects(uint32(i), f); err != nil {
			return err
		}
	}
	slices.SortFunc(j.parts, func(a, b part) int { return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.file, b.file)) })
	j.parts = slices.CompactFunc(j.parts, func(a, b part) bool { return a.id == b.id })
	slices.SortFunc(j.parts, byPlace)
	return nil
}

func byPlace(a, b part) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.at, b.at)) }

// listObjects adds all objects of a pack. Where one begins the one before ends.
func (j *joiner) listObjects(number uint32, f *File) error {
	begin := len(j.parts)
	i := int64(0)
	for id, err := range f.index.Names() {
		if err != nil {
			return err
		}
		p := part{id: id, file: number}
		if p.at, err = f.index.placeOf(i); err != nil {
			return err
		}
		if p.crc, err = f.index.crcOf(i); err != nil {
			return err
		}
		j.parts = append(j.parts, p)
		i++
	}
	all := j.parts[begin:]
	slices.SortFunc(all, byPlace)
	held, err := f.countObjects()
	if err != nil {
		return err
	}
	for k := range all {
		p := &all[k]
		if p.n = f.end - p.at; k+1 < len(all) {
			p.n = all[k+1].at - p.at
		}
		if p.n <= 0 || p.at < headBytes {
			return damagedf("the index names places outside of the pack")
		}
		if held == len(all) {
			continue
		}
		// The pack holds an object twice, which is in the index once.
		if p.n, err = f.entryLength(p.at); err != nil {
			return err
		}
	}
	return nil
}

// addObject writes one object.
func (j *joiner) addObject(p *part) error {
	f := j.files[p.file]
	e, err := f.readEntry(p.at)
	if err != nil {
		return err
	}
	to, back := j.w.n, int64(0)
	if e.isDelta() {
		at, err := f.findBase(e)
		if err != nil {
			return err
		}
		base := j.findChosen(p.file, at)
		switch {
		case base == nil, e.kind == offsetDelta && base.to == 0:
			p.to = to
			return j.writeWhole(f, p)
		case e.kind == offsetDelta:
			back = to - base.to
		}
	}
	p.to = to
	j.header = appendEntry(j.header[:0], e, back)
	if _, err := j.w.Write(j.header); err != nil {
		return err
	}
	return j.copyObject(f, p, e)
}

// findChosen finds the object that begins at a place of a pack, if it is taken from there.
func (j *joiner) findChosen(file uint32, at int64) *part {
	i, ok := slices.BinarySearchFunc(j.parts, part{file: file, at: at}, byPlace)
	if !ok {
		return nil
	}
	return &j.parts[i]
}

// copyObject writes an object's compressed bytes, after which it is known whether they were what the index
// says.
func (j *joiner) copyObject(f *File, p *part, e entry) error {
	r := io.NewSectionReader(f.pack, p.at, p.n)
	head := j.buffer[:e.head]
	if _, err := io.ReadFull(r, head); err != nil {
		return cutPack(err)
	}
	crc := crc32.ChecksumIEEE(head)
	for {
		n, err := r.Read(j.buffer[:])
		crc = crc32.Update(crc, crc32.IEEETable, j.buffer[:n])
		if _, err := j.w.Write(j.buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if crc != p.crc {
		return damagedf("its bytes are not what the index says")
	}
	return nil
}

// writeWhole writes an object that was a delta. As such it is no larger than MaxDeltaBytes.
func (j *joiner) writeWhole(f *File, p *part) error {
	s := &space{dir: j.dir, memory: readMemory}
	defer s.close()
	c, err := f.readContent(p.at, s, j.cache)
	if err != nil {
		return err
	}
	j.header = appendEntry(j.header[:0], entry{kind: c.kind, size: c.size}, 0)
	if _, err := j.w.Write(j.header); err != nil {
		return err
	}
	z := zlib.NewWriter(j.w)
	if err := c.copyTo(z, 0, c.size); err != nil {
		return err
	}
	return z.Close()
}

// counting counts what was written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
