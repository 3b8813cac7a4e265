package artifact

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"time"
)

// TempFile is tempFile for tests that make a disk fail.
type TempFile = tempFile

// FailWrites makes the store's temporary files fail as wrap says.
func (s *Store) FailWrites(wrap func(TempFile) TempFile) {
	s.newTemp = func(dir string) (tempFile, error) {
		f, err := createTemp(dir)
		if err != nil {
			return nil, err
		}
		return wrap(f), nil
	}
}

// FailCreates makes the store's disk take no new file.
func (s *Store) FailCreates(err error) {
	s.newTemp = func(string) (tempFile, error) { return nil, err }
}

// RetryNow makes the store try the disk again for what it holds in memory.
func (s *Store) RetryNow() {
	s.spare.mu.Lock()
	defer s.spare.mu.Unlock()
	for e := s.spare.recent.Front(); e != nil; e = e.Next() {
		e.Value.(*held).tried = time.Time{}
	}
}

// OnDisk says whether an artifact is there, and not in memory.
func (s *Store) OnDisk(d Digest) bool { return s.isStored(d) }

// FileOf is where an artifact is stored.
func (s *Store) FileOf(d Digest) string { return s.pathOf(d) }

// FileInfo is what TempFile.Stat gives.
type FileInfo = fs.FileInfo

// Decode and ParseRange are the decoders of foreign bytes, for their fuzz targets.
var (
	Decode = func(enc string) func(body readCloser, d Digest, l Limits) (readCloser, error) {
		return func(body readCloser, d Digest, l Limits) (readCloser, error) {
			return decodeBody(body, encoding(enc), d, l)
		}
	}
	ParseRange = func(s string, size int64) (offset, length int64, ok bool) {
		r, ok := parseRange(s)
		if !ok {
			return 0, 0, false
		}
		return r.resolveIn(size)
	}
	Negotiate = func(accept string) string { return string(pickEncoding(accept)) }
)

type readCloser = interface {
	Read([]byte) (int, error)
	Close() error
}

// Trusts says whether an artifact is sent without a look at its bytes.
func (s *Store) Trusts(d Digest) bool {
	b, err := s.openStored(d)
	if err != nil {
		return false
	}
	defer func() { _ = b.Close() }()
	return b.isTrusted()
}

// RangeCost is how many stored bytes are read to serve one range of an artifact.
func (s *Store) RangeCost(d Digest, header string) (read int64, err error) {
	b, err := s.openStored(d)
	if err != nil {
		return 0, err
	}
	defer func() { _ = b.Close() }()
	counted := &counting{ReaderAt: b.stored}
	b.stored = counted
	r := httptest.NewRequest(http.MethodGet, Path+string(d), http.NoBody)
	r.Header.Set("Range", header)
	defer func() {
		if recover() != nil { // the connection is cut
			read, err = counted.n, ErrCorrupt
		}
	}()
	serveBlob(httptest.NewRecorder(), r, b)
	return counted.n, nil
}

type counting struct {
	io.ReaderAt
	n int64
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n += int64(n)
	return n, err
}

// TakeRanges takes all places of ranges.
func (s *Store) TakeRanges() (giveBack func()) {
	for range maxRanges {
		s.ranges <- struct{}{}
	}
	return func() {
		for range maxRanges {
			<-s.ranges
		}
	}
}

// LayerSize is how long the layer of a tar is.
func LayerSize(tar int64) int64 { return layerSize(tar) }

// LayerOf is the layer of a tar.
func LayerOf(tar []byte) []byte { return LayerInPieces(tar, len(tar)+1, 1<<16) }

// LayerInPieces is the layer of a tar that gives so many bytes at a time, read by so many.
func LayerInPieces(tar []byte, from, to int) []byte {
	var out bytes.Buffer
	l := newLayer(pieces{bytes.NewReader(tar), from}, int64(len(tar)))
	if _, err := io.CopyBuffer(struct{ io.Writer }{&out}, struct{ io.Reader }{l}, make([]byte, to)); err != nil {
		panic(err)
	}
	return out.Bytes()
}

type pieces struct {
	io.Reader
	most int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.most)]) }
