// Package pack checks, reads and joins Git's packs (version 2, SHA-1) within a bound of memory, however
// large the pack and the objects in it: what does not fit is kept in a temporary file meanwhile.
//
// A pack is "PACK", the version, the number of objects, the objects, and the sum of all of it. An
// object is a header and compressed bytes: the object itself, or a delta that makes it from another
// object of the pack. The index beside a pack says where each object begins.
//
// Nothing here trusts its input: packs come from upstream and from a disk that may be bad.
package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
)

// ErrDamaged: the bytes are not what a pack or an index is made of.
var ErrDamaged = errors.New("damaged")

// LimitError says which limit a pack breaks. The message is in words for people.
type LimitError struct{ message string }

func (e *LimitError) Error() string { return e.message }

func overLimit(format string, args ...any) error {
	return &LimitError{fmt.Sprintf(format, args...)}
}

const (
	headBytes = 12 // of a pack
	sumBytes  = 20 // at the end of a pack, and twice at the end of an index

	// MaxObjects in one pack: about 50 bytes of memory each while it is checked.
	MaxObjects = 5_000_000
	// MaxObjectBytes of an object that is stored as it is. Such an object is never in memory.
	MaxObjectBytes = 4 << 30
	// MaxDeltaBytes of an object that is stored as a delta. Git makes none of larger ones unless it is
	// told to (core.bigFileThreshold).
	MaxDeltaBytes = 512 << 20
	// madeBytes and, by Bounds, so many bytes per byte of the pack bound what all objects of a pack are together: each
	// is made once to be named. Histories of one large file that changes a little each time reach some hundred bytes
	// per byte of the pack.
	madeBytes = 4 << 30
	// UsualExpansion is the usual bound of bytes that are made per byte of a pack.
	UsualExpansion = 1024
	// checkTime and checkTimePerByte of the pack bound the processor time of a check, and with it its place among the
	// few checks at once.
	checkTime        = 2 * time.Minute
	checkTimePerByte = time.Microsecond // 1 MB/s
	// maxDepth of deltas upon deltas; Git's own limit.
	maxDepth = 4095
	// checkMemory bounds the objects in memory while a pack is checked; readMemory while one is read.
	checkMemory = 64 << 20
	readMemory  = 16 << 20
	// maxScratch bounds a temporary file with the objects that do not fit into memory.
	maxScratch = 4 << 30
)

// markDamage marks what a decoder says, unless it is the disk's or the system's word.
func markDamage(err error) error {
	var system *fs.PathError
	if err == nil || errors.Is(err, ErrDamaged) || errors.As(err, &system) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func damagedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Kinds that only the objects in packs have: a delta is the kind of thing that its base is.
const (
	offsetDelta git.Kind = 6 // its base is so many bytes before it
	namedDelta  git.Kind = 7 // its base has this name
)

// entry is the header of an object in a pack.
type entry struct {
	kind   git.Kind // as it is stored, so it may be a delta
	size   int64    // of what is compressed
	head   int64    // bytes of the header itself
	base   int64    // of an offsetDelta: where its base begins
	baseID git.Hash // of a namedDelta
}

func (e entry) isDelta() bool { return e.kind == offsetDelta || e.kind == namedDelta }

// maxEntry bytes has a header: the size, and a distance or a name.
const maxEntry = 10 + 20

// parseEntry reads the header of the object that begins at.
func parseEntry(b []byte, at int64) (entry, error) {
	var e entry
	if len(b) == 0 {
		return e, damagedf("the pack ends before its last object")
	}
	c := b[0]
	e.kind = git.Kind(c >> 4 & 7)
	size, i := uint64(c&15), 1
	for shift := 4; c&0x80 != 0; shift += 7 {
		if i >= len(b) || shift > 56 {
			return e, damagedf("the size of the object at %d", at)
		}
		c = b[i]
		size |= uint64(c&0x7f) << shift
		i++
	}
	if size > 1<<62 {
		return e, damagedf("the size of the object at %d", at)
	}
	e.size = int64(size)
	n, err := e.parseBase(b[i:], at)
	e.head = int64(i + n)
	return e, err
}

// parseBase reads what a delta's header names its base by.
func (e *entry) parseBase(b []byte, at int64) (n int, err error) {
	switch e.kind {
	case git.Commit, git.Tree, git.Blob, git.Tag:
		return 0, nil
	case namedDelta:
		if len(b) < len(e.baseID) {
			return 0, damagedf("the base of the object at %d", at)
		}
		return copy(e.baseID[:], b), nil
	case offsetDelta:
		var back int64
		for more := true; more; n++ {
			if n >= len(b) || back > 1<<48 {
				return 0, damagedf("the base of the object at %d", at)
			}
			if n > 0 {
				back++
			}
			back = back<<7 | int64(b[n]&0x7f)
			more = b[n]&0x80 != 0
		}
		if e.base = at - back; back <= 0 || e.base < headBytes {
			return 0, damagedf("the base of the object at %d", at)
		}
		return n, nil
	default:
		return 0, damagedf("the object at %d has the unknown type %d", at, e.kind)
	}
}

// appendEntry writes the header of an object. back is the distance to the base of an offsetDelta.
func appendEntry(b []byte, e entry, back int64) []byte {
	c, size := byte(e.kind)<<4|byte(e.size&15), e.size>>4
	for ; size > 0; size >>= 7 {
		b, c = append(b, c|0x80), byte(size&0x7f)
	}
	b = append(b, c)
	switch e.kind {
	case namedDelta:
		b = append(b, e.baseID[:]...)
	case offsetDelta:
		var text [10]byte
		i := len(text) - 1
		text[i] = byte(back & 0x7f)
		for back >>= 7; back > 0; back >>= 7 {
			back--
			i--
			text[i] = 0x80 | byte(back&0x7f)
		}
		b = append(b, text[i:]...)
	}
	return b
}
