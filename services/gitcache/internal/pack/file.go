package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"fairlead.dev/services/gitcache/internal/git"
)

// Extensions of the two files.
const (
	PackExt  = ".pack"
	IndexExt = ".idx"
)

// File is a pack on disk with its index. A File holds two descriptors and a KiB of memory. Safe for many goroutines.
type File struct {
	pack, idx *os.File
	end       int64 // of the last object
	index     *Index
	number    uint64 // unlike that of any other File
}

//nolint:gochecknoglobals // keeps the objects of different files apart in a Cache
var numbers atomic.Uint64

// Open opens a pack by its path without the extension.
func Open(path string) (_ *File, err error) {
	f := &File{number: numbers.Add(1)}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if f.pack, f.end, err = openFile(path + PackExt); err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	if f.end -= sumBytes; f.end < headBytes {
		return nil, damagedf("the pack is too short")
	}
	var size int64
	if f.idx, size, err = openFile(path + IndexExt); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	f.index, err = OpenIndex(f.idx, size)
	return f, err
}

func openFile(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Close gives the descriptors back. No read may be under way.
func (f *File) Close() error {
	var err error
	for _, file := range []*os.File{f.pack, f.idx} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// Index finds the objects.
func (f *File) Index() *Index { return f.index }

// Kind returns the type of the object that begins at.
func (f *File) Kind(at int64) (git.Kind, error) {
	for range maxDepth {
		e, err := f.readEntry(at)
		if err != nil {
			return git.UnknownKind, err
		}
		if !e.isDelta() {
			return e.kind, nil
		}
		if at, err = f.findBase(e); err != nil {
			return git.UnknownKind, err
		}
	}
	return git.UnknownKind, damagedf("deltas are more than %d deep", maxDepth)
}

// Size returns the size of the object that begins at.
func (f *File) Size(at int64) (int64, error) {
	e, err := f.readEntry(at)
	if err != nil || !e.isDelta() {
		return e.size, err
	}
	_, z, err := f.openEntry(at)
	if err != nil {
		return 0, err
	}
	defer z.giveBack()
	_, size, err := deltaSizes(z.out)
	return size, err
}

// readEntry reads the header of an object.
func (f *File) readEntry(at int64) (entry, error) {
	if at < headBytes || at >= f.end {
		return entry{}, damagedf("the index names the place %d, which is outside of the pack", at)
	}
	b := make([]byte, min(maxEntry, f.end-at))
	if _, err := f.pack.ReadAt(b, at); err != nil {
		return entry{}, cutPack(err)
	}
	return parseEntry(b, at)
}

// findBase returns the place of a delta's base.
func (f *File) findBase(e entry) (int64, error) {
	if e.kind == offsetDelta {
		return e.base, nil
	}
	at, found, err := f.index.Find(e.baseID)
	if err == nil && !found {
		err = damagedf("the base %s of a delta is not in its pack", e.baseID)
	}
	return at, err
}

func (f *File) openEntry(at int64) (entry, *inflater, error) {
	if at < headBytes || at >= f.end {
		return entry{}, nil, damagedf("the index names the place %d, which is outside of the pack", at)
	}
	return openEntry(io.NewSectionReader(f.pack, at, f.end-at), at)
}

// countObjects is the number of objects that the pack says it has.
func (f *File) countObjects() (int, error) {
	var n [4]byte
	_, err := f.pack.ReadAt(n[:], headBytes-4)
	return int(binary.BigEndian.Uint32(n[:])), err
}

// entryLength is how many bytes of the pack an object takes.
func (f *File) entryLength(at int64) (int64, error) {
	counted := &counter{r: io.NewSectionReader(f.pack, at, f.end-at)}
	_, z, err := openEntry(counted, at)
	if err != nil {
		return 0, err
	}
	defer z.giveBack()
	err = copyAll(io.Discard, z, make([]byte, 32<<10))
	return counted.n - int64(z.src.Buffered()), err
}

// Gone tells whether an error of Open is that the pack is not there any more.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
