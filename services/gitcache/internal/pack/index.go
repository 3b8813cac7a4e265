package pack

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // as Git's index files have it
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"sync"

	"fairlead.dev/services/gitcache/internal/git"
)

// An index (version 2) is: a mark and the version; how many names begin with a byte of 0, of 0 or 1, and
// so on; the names, sorted; a CRC-32 each; a place each, of which those with the top bit set are numbers
// of the places above 2 GiB that follow; the sum of the pack and that of the index.
const (
	indexMark    = "\377tOc\x00\x00\x00\x02"
	indexNames   = int64(len(indexMark) + 256*4)
	farPlaceMark = 1 << 31
)

// WriteIndex writes the index of a pack with this sum at its end.
func (o *Objects) WriteIndex(w io.Writer, sum git.Hash) error {
	all := sha1.New() //nolint:gosec // as Git's index files have it
	b := &batch{w: io.MultiWriter(w, all)}
	b.addBytes([]byte(indexMark)...)
	n := 0
	for first := range 256 {
		for n < len(o.list) && int(o.list[n].id[0]) <= first {
			n++
		}
		b.addNumber(uint32(n))
	}
	for i := range o.list {
		b.addBytes(o.list[i].id[:]...)
	}
	for i := range o.list {
		b.addNumber(o.list[i].crc)
	}
	var far []int64
	for i := range o.list {
		at := o.list[i].at
		if at >= farPlaceMark {
			far = append(far, at)
			at = farPlaceMark | int64(len(far)-1)
		}
		b.addNumber(uint32(at))
	}
	for _, at := range far {
		b.addBytes(binary.BigEndian.AppendUint64(nil, uint64(at))...)
	}
	b.addBytes(sum[:]...)
	b.flushBytes()
	if b.err == nil {
		_, b.err = w.Write(all.Sum(nil))
	}
	return b.err
}

// batch is a bufio.Writer that keeps the first error for the end.
type batch struct {
	w   io.Writer
	b   []byte
	err error
}

func (b *batch) addBytes(p ...byte) {
	if b.b = append(b.b, p...); len(b.b) >= 32<<10 {
		b.flushBytes()
	}
}

func (b *batch) addNumber(n uint32) { b.addBytes(byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) }

func (b *batch) flushBytes() {
	if b.err == nil {
		_, b.err = b.w.Write(b.b)
	}
	b.b = b.b[:0]
}

// Index finds objects in an index. An Index keeps a KiB in memory. Safe for many goroutines.
type Index struct {
	r      io.ReaderAt
	counts [256]uint32
	n      int64
	far    int64 // number of places above 2 GiB
}

// OpenIndex reads the begin of an index of size bytes.
func OpenIndex(r io.ReaderAt, size int64) (*Index, error) {
	var head [indexNames]byte
	if size < indexNames+2*sumBytes {
		return nil, damagedf("the index is too short")
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	if string(head[:len(indexMark)]) != indexMark {
		return nil, damagedf("not an index of version 2")
	}
	x := &Index{r: r}
	for i := range x.counts {
		x.counts[i] = binary.BigEndian.Uint32(head[len(indexMark)+4*i:])
		if int64(x.counts[i]) < x.n {
			return nil, damagedf("the index is not sorted")
		}
		x.n = int64(x.counts[i])
	}
	rest := size - indexNames - 2*sumBytes - x.n*(20+4+4)
	if rest < 0 || rest%8 != 0 || rest/8 > x.n {
		return nil, damagedf("the index has the wrong size for %d objects", x.n)
	}
	x.far = rest / 8
	return x, nil
}

// Len is the number of objects.
func (x *Index) Len() int { return int(x.n) }

// pageNames are read at once.
const pageNames = 128

//nolint:gochecknoglobals // for reads that are made again and again
var pages = sync.Pool{New: func() any { return new([pageNames * 20]byte) }}

// Find returns the place of an object in the pack.
func (x *Index) Find(id git.Hash) (at int64, found bool, err error) {
	i, found, err := x.Number(id)
	if err != nil || !found {
		return 0, false, err
	}
	at, err = x.placeOf(i)
	return at, err == nil, err
}

// Number returns which of the names, sorted, an object's is.
func (x *Index) Number(id git.Hash) (i int64, found bool, err error) {
	var lo int64
	if id[0] > 0 {
		lo = int64(x.counts[id[0]-1])
	}
	hi := int64(x.counts[id[0]])
	page, _ := pages.Get().(*[pageNames * 20]byte)
	defer pages.Put(page)
	for hi-lo > pageNames {
		middle := (lo + hi) / 2
		if err := x.readAt(page[:20], indexNames+middle*20); err != nil {
			return 0, false, err
		}
		if bytes.Compare(id[:], page[:20]) < 0 {
			hi = middle
		} else {
			lo = middle
		}
	}
	names := page[:(hi-lo)*20]
	if err := x.readAt(names, indexNames+lo*20); err != nil {
		return 0, false, err
	}
	for ; lo < hi; lo, names = lo+1, names[20:] {
		if bytes.Equal(names[:20], id[:]) {
			return lo, true, nil
		}
	}
	return 0, false, nil
}

func (x *Index) readAt(b []byte, at int64) error {
	if _, err := x.r.ReadAt(b, at); err != nil {
		if err == io.EOF {
			return damagedf("the index is cut short")
		}
		return fmt.Errorf("read index: %w", err)
	}
	return nil
}

// placeOf reads the place of the i-th object.
func (x *Index) placeOf(i int64) (int64, error) {
	var b [8]byte
	if err := x.readAt(b[:4], indexNames+x.n*24+i*4); err != nil {
		return 0, err
	}
	at := int64(binary.BigEndian.Uint32(b[:4]))
	if at&farPlaceMark == 0 {
		return at, nil
	}
	if at &^= farPlaceMark; at >= x.far {
		return 0, damagedf("a place in the index")
	}
	if err := x.readAt(b[:], indexNames+x.n*28+at*8); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}

// crcOf reads the checksum of the bytes of the i-th object.
func (x *Index) crcOf(i int64) (uint32, error) {
	var b [4]byte
	err := x.readAt(b[:], indexNames+x.n*20+i*4)
	return binary.BigEndian.Uint32(b[:]), err
}

// Names yields all names, sorted.
func (x *Index) Names() iter.Seq2[git.Hash, error] {
	return func(yield func(git.Hash, error) bool) {
		var page [pageNames * 20]byte
		for i := int64(0); i < x.n; i += pageNames {
			b := page[:min(pageNames, x.n-i)*20]
			if err := x.readAt(b, indexNames+i*20); err != nil {
				yield(git.Hash{}, err)
				return
			}
			for ; len(b) > 0; b = b[20:] {
				if !yield(git.Hash(b[:20]), nil) {
					return
				}
			}
		}
	}
}
