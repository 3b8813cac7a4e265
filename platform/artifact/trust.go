package artifact

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"

	"fairlead.dev/platform/artifact/internal/changetime"
)

const (
	// trustTime is how long a file that was read and found good is sent unread, if nobody touched it. A disk
	// that loses bits by itself is noticed after so long, and by whoever unpacks what it gave.
	trustTime = time.Minute
	// settleTime is how old the last touch of a file must be for the next one to have another time.
	settleTime = time.Second
)

// seen is when a file was read and found good, and when it had been touched last by then.
type seen struct{ at, touched time.Time }

// isTrusted says whether the file may be sent unread.
func (b *Blob) isTrusted() bool {
	return b.file != nil && !b.opened.IsZero() && b.good.seen.touched.Equal(b.opened) && time.Since(b.good.seen.at) < trustTime
}

// isUntouched says whether the file is as it was at Open. Its time of change can't be set by anybody.
func (b *Blob) isUntouched() bool {
	info, err := b.file.Stat()
	return err == nil && b.good.holdsFor(info) && changetime.Of(info).Equal(b.opened)
}

// confirmRead remembers that all of the file was just read, and good.
func (s *Store) confirmRead(b *Blob) {
	now := time.Now()
	if b.file == nil || b.opened.IsZero() || now.Sub(b.opened) < settleTime || !b.isUntouched() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.items[b.digest]
	if e == nil {
		return
	}
	if it := e.Value.(*item); it.good != nil && it.good.sameFile(&b.good) {
		known := *it.good
		known.seen = seen{at: now, touched: b.opened}
		it.good = &known // another goroutine may be reading the old one
	}
}

// compressedReader reads the file as it is, and looks a second time at what was verified at Open: its last bytes
// are given only if all of them are good.
func (b *Blob) compressedReader() io.Reader {
	return &sumReader{blob: b, r: io.NewSectionReader(b.stored, 0, b.good.stored), left: b.good.stored, sum: xxhash.New()}
}

type sumReader struct {
	blob *Blob
	r    io.Reader
	left int64
	sum  *xxhash.Digest
}

func (s *sumReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n])
	s.left -= int64(n)
	ends := n > 0 && s.left == 0
	if ends && s.sum.Sum64() != s.blob.good.sum || errors.Is(err, io.EOF) && s.left > 0 {
		n, err = 0, ErrCorrupt
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.blob.noteSpoilt(err)
	} else if ends {
		s.blob.store.confirmRead(s.blob)
	}
	return n, err
}

// newBlob is an artifact's file, just opened.
func (s *Store) newBlob(d Digest, f *os.File, info fs.FileInfo, good *check) *Blob {
	return &Blob{digest: d, store: s, stored: f, file: f, good: *good, opened: changetime.Of(info)}
}
