package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"fairlead.dev/platform/durable"
)

// Put stores the uncompressed tar that r gives. Put refuses bytes that do not match d (ErrCorrupt) or are above the
// limit (ErrRefused). ErrNoSpace: not stored, but what r gives may be good.
func (s *Store) Put(ctx context.Context, d Digest, r io.Reader) error {
	if b, err := s.openStored(d); err == nil {
		return b.Close()
	}
	err := s.storeContent(d, func(w io.Writer) (Summary, error) {
		plain := &meter{w: w, sum: sha256.New(), limit: 1<<63 - 1}
		_, err := io.Copy(plain, &bounded{r: contextReader{ctx, r}, limit: s.limits.Bytes})
		return Summary{Digest: SumDigest(plain.sum.Sum(nil)), Size: plain.n}, err
	})
	if err != nil {
		return fmt.Errorf("store artifact: %w", err)
	}
	return nil
}

// Build stores what build packs with the Writer that it is given, under the digest that comes out.
// With ErrNoSpace the summary is right all the same, but the artifact was not stored.
func (s *Store) Build(build func(*Writer) error) (Summary, error) {
	var sum Summary
	err := s.storeContent("", func(w io.Writer) (Summary, error) {
		// A disk that is full must not keep the digest from being known.
		lossy := &lossyWriter{w: w}
		pack := NewWriter(lossy, s.limits)
		if err := build(pack); err != nil {
			return Summary{}, err
		}
		var err error
		if sum, err = pack.Close(); err != nil {
			return Summary{}, err
		}
		return sum, lossy.err
	})
	switch {
	case err == nil:
		return sum, nil
	case errors.Is(err, ErrNoSpace):
		return sum, err
	default:
		return Summary{}, fmt.Errorf("build artifact: %w", err)
	}
}

// storeContent compresses what produce gives and, if it is what was wanted, makes it an artifact. An artifact that the
// disk does not take is held in memory, if it is small enough.
func (s *Store) storeContent(want Digest, produce func(io.Writer) (Summary, error)) (err error) {
	out := s.newSpool()
	defer func() {
		if err != nil {
			err = errors.Join(err, out.discardFile())
		}
	}()
	sum, err := s.compressInto(out, produce)
	if err != nil {
		return s.countFull(err)
	}
	if want != "" && want != sum.Digest {
		return fmt.Errorf("%w: want %s, got %s", ErrCorrupt, want, sum.Digest)
	}
	if err = s.countFull(out.saveAs(sum.Digest, sum.Size)); errors.Is(err, ErrNoSpace) && out.buf != nil {
		s.spare.keepCopy(sum.Digest, check{size: sum.Size, stored: out.n, sum: out.sum.Sum64()}, out.buf)
	}
	return err
}

// countFull counts what the disk did not take.
func (s *Store) countFull(err error) error {
	if errors.Is(err, ErrNoSpace) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.Full++
	}
	return err
}

// compressInto runs produce into w through zstd.
func (s *Store) compressInto(w io.Writer, produce func(io.Writer) (Summary, error)) (Summary, error) {
	enc, ok := s.encoders.Get().(*zstd.Encoder)
	if ok {
		enc.Reset(w)
	} else {
		var err error
		if enc, err = newEncoder(w); err != nil {
			return Summary{}, err
		}
	}
	sum, err := produce(enc)
	if err = errors.Join(err, enc.Close()); err != nil {
		return Summary{}, err
	}
	enc.Reset(nil) // the encoder must not keep what it wrote to
	s.encoders.Put(enc)
	return sum, nil
}

// newEncoder has one goroutine, the caller's, and a window of 4 MiB: decoders have to hold it, on agents
// too.
func newEncoder(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
}

// publishFile gives a whole file its final name. Another caller may have been faster; either file is good.
func (s *Store) publishFile(d Digest, temp string, good *check) error {
	if err := s.renameFile(d, temp, good); err != nil {
		return diskError(err)
	}
	// Without mu: nobody has to wait for a slow disk.
	if err := durable.SyncDir(s.dir); err != nil {
		// Not known to survive a crash: what is lost then is fetched again.
		s.log.Warn("sync artifact folder", "err", err)
	}
	return nil
}

func (s *Store) renameFile(d Digest, temp string, good *check) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(temp, s.pathOf(d)); err != nil {
		return err
	}
	if e := s.items[d]; e != nil { // replaced
		s.bytes -= e.Value.(*item).stored
		s.recent.Remove(e)
	}
	s.items[d] = s.recent.PushFront(&item{digest: d, stored: good.stored, good: good})
	return nil
}

// reserveBytes makes room for n more bytes.
func (s *Store) reserveBytes(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+n > s.maxBytes {
		if !s.evictOldest() {
			return fmt.Errorf("%w: %d of %d bytes are in use and pinned", ErrNoSpace, s.bytes, s.maxBytes)
		}
	}
	s.bytes += n
	return nil
}

func (s *Store) releaseBytes(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= n
}

// evictOne makes room on a disk that is full: bad files go first.
func (s *Store) evictOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keepQuarantined(0, 0) || s.evictOldest()
}

// evictOldest removes the least recently used artifact that is not pinned. A reader that has it open reads on. mu is
// held.
func (s *Store) evictOldest() bool {
	for e := s.recent.Back(); e != nil; e = e.Prev() {
		d := e.Value.(*item).digest
		if _, pinned := s.pinned[d]; pinned {
			continue
		}
		if err := os.Remove(s.pathOf(d)); err != nil && !os.IsNotExist(err) {
			s.log.Warn("evict artifact", "digest", d, "err", err)
			continue
		}
		s.dropItem(d)
		s.stats.Evicted++
		return true
	}
	return false
}

// diskError says ErrNoSpace where the disk can't take the artifact: the caller can go on without it.
func diskError(err error) error {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EFBIG} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// lossyWriter goes on without its writer after an error.
type lossyWriter struct {
	w   io.Writer
	err error
}

func (l *lossyWriter) Write(p []byte) (int, error) {
	if l.err == nil {
		_, l.err = l.w.Write(p)
	}
	return len(p), nil
}

// contextReader stops between reads when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
