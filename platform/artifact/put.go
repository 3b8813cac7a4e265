package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"fairlead.dev/platform/durable"
)

// Put stores the uncompressed tar that r gives. It refuses bytes that do not match d (ErrCorrupt) or
// are above the limit (ErrRefused). ErrNoSpace: not stored, but what r gives may be good.
func (s *Store) Put(ctx context.Context, d Digest, r io.Reader) error {
	if b, err := s.open(d); err == nil {
		return b.Close()
	}
	err := s.store(d, func(w io.Writer) error {
		_, err := io.Copy(w, &bounded{r: contextReader{ctx, r}, limit: s.limits.Bytes})
		return err
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
	packed := func(w io.Writer) error {
		// A disk that is full must not keep the digest from being known.
		lossy := &lossyWriter{w: w}
		pack := NewWriter(lossy, s.limits)
		if err := build(pack); err != nil {
			return err
		}
		var err error
		if sum, err = pack.Close(); err != nil {
			return err
		}
		return lossy.err
	}
	full := s.store("", packed)
	if full == nil {
		return sum, nil
	}
	if !errors.Is(full, ErrNoSpace) {
		return Summary{}, fmt.Errorf("build artifact: %w", full)
	}
	if sum.Digest == "" { // not even a file could be made
		if err := packed(io.Discard); err != nil {
			return Summary{}, fmt.Errorf("build artifact: %w", err)
		}
	}
	return sum, full
}

// store writes what produce gives to a temporary file and, if it is what was wanted and on the disk,
// makes it an artifact. The order of the steps is what makes it crash-safe.
func (s *Store) store(want Digest, produce func(io.Writer) error) (err error) {
	f, err := s.newTemp(s.dir)
	if err != nil {
		return diskError(err)
	}
	out := &storeWriter{store: s, file: f, sum: xxhash.New()}
	defer func() {
		if err != nil {
			s.release(out.n)
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	sum, size, err := compress(out, produce)
	if err != nil {
		return err
	}
	d := SumDigest(sum)
	if want != "" && want != d {
		return fmt.Errorf("%w: want %s, got %s", ErrCorrupt, want, d)
	}
	if err := f.Sync(); err != nil {
		return diskError(err) // what a failed fsync leaves can't be trusted
	}
	info, err := f.Stat()
	if err != nil {
		return diskError(err)
	}
	if err := f.Close(); err != nil {
		return diskError(err)
	}
	good := &check{size: size, stored: out.n, sum: out.sum.Sum64(), modTime: info.ModTime()}
	return s.publish(d, f.Name(), good)
}

// compress runs produce into w through zstd and returns sha256 and size of what was produced.
func compress(w io.Writer, produce func(io.Writer) error) ([]byte, int64, error) {
	// One goroutine and a window of 4 MiB: decoders have to hold it, on agents too.
	enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		return nil, 0, err
	}
	plain := &meter{w: enc, sum: sha256.New(), limit: 1<<63 - 1}
	if err := errors.Join(produce(plain), enc.Close()); err != nil {
		return nil, 0, err
	}
	return plain.sum.Sum(nil), plain.n, nil
}

// publish gives a whole file its final name. Somebody else may have been faster; either file is good.
func (s *Store) publish(d Digest, temp string, good *check) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(temp, s.path(d)); err != nil {
		return diskError(err)
	}
	if e := s.items[d]; e != nil { // replaced
		s.bytes -= e.Value.(*item).stored
		s.recent.Remove(e)
	}
	s.items[d] = s.recent.PushFront(&item{digest: d, stored: good.stored, good: good})
	if err := durable.SyncDir(s.dir); err != nil {
		// Not known to survive a crash: what is lost then is fetched again.
		s.log.Warn("sync artifact folder", "err", err)
	}
	return nil
}

// storeWriter writes to a temporary file, within the bounds of the store and of the disk.
type storeWriter struct {
	store *Store
	file  tempFile
	sum   *xxhash.Digest
	n     int64
}

func (w *storeWriter) Write(p []byte) (int, error) {
	if err := w.store.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	w.n += int64(len(p))
	done := 0
	for {
		n, err := w.file.Write(p[done:])
		done += n
		if err == nil {
			_, _ = w.sum.Write(p)
			return len(p), nil
		}
		// A disk that others fill too may have less room than MaxBytes says.
		if !errors.Is(err, syscall.ENOSPC) || !w.store.evictOne() {
			return done, diskError(err)
		}
	}
}

// reserve makes room for n more bytes.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+n > s.maxBytes {
		if !s.evictOldest() {
			s.stats.Full++
			return fmt.Errorf("%w: %d of %d bytes are in use and pinned", ErrNoSpace, s.bytes, s.maxBytes)
		}
	}
	s.bytes += n
	return nil
}

func (s *Store) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= n
}

func (s *Store) evictOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evictOldest()
}

// evictOldest removes the least recently used artifact that is not pinned. Who has it open reads on.
// mu is held.
func (s *Store) evictOldest() bool {
	for e := s.recent.Back(); e != nil; e = e.Prev() {
		d := e.Value.(*item).digest
		if _, pinned := s.pinned[d]; pinned {
			continue
		}
		if err := os.Remove(s.path(d)); err != nil && !os.IsNotExist(err) {
			s.log.Warn("evict artifact", "digest", d, "err", err)
			continue
		}
		s.drop(d)
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
