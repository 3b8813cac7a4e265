package artifact

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cespare/xxhash/v2"
)

// spoolBytes of a compressed artifact are held in memory until it is whole, if the store has any to
// spare: what the disk does not take then needs not be made again. Most artifacts are far smaller.
const spoolBytes = 4 << 20

// spool is where a compressed artifact goes until its digest is known: memory first, and from limit
// bytes on a temporary file.
type spool struct {
	store    *Store
	limit    int
	sum      *xxhash.Digest
	n        int64
	buf      []byte   // all of it, while there is no file
	file     tempFile // nil: there is none yet
	reserved int64    // of the store's bytes, for the file
}

func (s *Store) newSpool() *spool {
	p := &spool{store: s, sum: xxhash.New()}
	if s.spare.maxBytes > 0 {
		p.limit = spoolBytes
	}
	return p
}

func (p *spool) Write(b []byte) (int, error) {
	_, _ = p.sum.Write(b) // never fails
	p.n += int64(len(b))
	if p.file == nil && len(p.buf)+len(b) <= p.limit {
		p.buf = append(p.buf, b...)
		return len(b), nil
	}
	if p.file == nil {
		if err := p.openFile(); err != nil {
			return 0, err
		}
		p.buf = nil
	}
	if err := p.writeBounded(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// openFile makes the file, with what came so far.
func (p *spool) openFile() error {
	if !p.store.trustsDisk() {
		return fmt.Errorf("%w: the disk has just failed to give back what it took", ErrNoSpace)
	}
	f, err := p.store.newTemp(p.store.dir)
	if err != nil {
		return diskError(err)
	}
	p.file = f
	return p.writeBounded(p.buf)
}

// writeBounded writes within the bounds of the store and of the disk.
func (p *spool) writeBounded(b []byte) error {
	if err := p.store.reserveBytes(int64(len(b))); err != nil {
		return err
	}
	p.reserved += int64(len(b))
	for {
		n, err := p.file.Write(b)
		if err == nil {
			return nil
		}
		b = b[n:]
		// A disk that others fill too may have less room than MaxBytes says.
		if !errors.Is(err, syscall.ENOSPC) || !p.store.evictOne() {
			return diskError(err)
		}
	}
}

// saveAs makes what came the artifact d. The order of the steps is what makes it crash-safe.
func (p *spool) saveAs(d Digest, size int64) error {
	if p.file == nil {
		if err := p.openFile(); err != nil {
			return err
		}
	}
	if err := p.file.Sync(); err != nil {
		return diskError(err) // a file whose fsync failed can't be trusted
	}
	info, err := p.file.Stat()
	if err != nil {
		return diskError(err)
	}
	if err := p.file.Close(); err != nil {
		return diskError(err)
	}
	good := &check{size: size, stored: p.n, sum: p.sum.Sum64(), modTime: info.ModTime()}
	return p.store.publishFile(d, p.file.Name(), good)
}

// discardFile removes the file. Bytes in memory stay.
func (p *spool) discardFile() error {
	p.store.releaseBytes(p.reserved)
	p.reserved = 0
	if p.file == nil {
		return nil
	}
	err := errors.Join(ignoreClosed(p.file.Close()), os.Remove(p.file.Name()))
	p.file = nil
	return err
}
