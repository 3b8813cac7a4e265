package pack

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// inflater reads one object's compressed bytes: exactly as many as its header says, then io.EOF.
type inflater struct {
	src  *bufio.Reader // compressed
	z    io.ReadCloser // zlib over src; nil before its first use
	out  *bufio.Reader // inflated bytes, for callers that read byte by byte
	left int64
}

const (
	sourceBuffer = 8 << 10
	deltaBuffer  = 4 << 10
)

//nolint:gochecknoglobals // an inflater is 50 KB
var inflaters = sync.Pool{New: func() any {
	return &inflater{src: bufio.NewReaderSize(nil, sourceBuffer), out: bufio.NewReaderSize(nil, deltaBuffer)}
}}

func (i *inflater) giveBack() {
	i.src.Reset(nil)
	i.out.Reset(nil)
	inflaters.Put(i)
}

// beginStream reads from src, which is left right behind the compressed bytes once they are read to the end.
func (i *inflater) beginStream(src *bufio.Reader, size int64) (err error) {
	i.left = size
	if i.z == nil {
		i.z, err = zlib.NewReader(src)
	} else {
		err = i.z.(zlib.Resetter).Reset(src, nil)
	}
	i.out.Reset(i)
	return markDamage(err)
}

// Read is io.Reader. The end comes only after the checksum was right.
func (i *inflater) Read(p []byte) (int, error) {
	if i.left == 0 {
		return 0, i.endStream()
	}
	n, err := i.z.Read(p[:min(int64(len(p)), i.left)])
	i.left -= int64(n)
	switch {
	case err == nil, errors.Is(err, io.EOF) && i.left == 0 && n > 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return n, damagedf("an object is shorter than it says")
	default:
		return n, markDamage(err)
	}
}

func (i *inflater) endStream() error {
	var more [1]byte
	switch n, err := i.z.Read(more[:]); {
	case n > 0:
		return damagedf("an object is longer than it says")
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, io.EOF):
		return io.EOF
	default:
		return markDamage(err)
	}
}
