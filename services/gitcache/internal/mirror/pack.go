package mirror

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Git's object names
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"fairlead.dev/platform/durable"
)

const (
	// maxObjects in one pack: the index takes about 100 bytes of memory for each while it is made.
	maxObjects = 5_000_000
	// maxObjectBytes of one object: it is held in memory, with its delta base, while it is indexed.
	maxObjectBytes = 256 << 20
)

// addPack takes in a pack: temporary file, check, index, fsync, rename index, rename pack, fsync
// folder. It does not use go-git's own writer, whose goroutine would end the process if a crafted pack
// made the parser panic, and which does not fsync.
func addPack(ctx context.Context, repo string, pack io.Reader) (size int64, err error) {
	dir := filepath.Join(repo, packFolder)
	f, err := os.CreateTemp(dir, tmpPrefix+"pack_")
	if err != nil {
		return 0, fmt.Errorf("make pack: %w", err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // renamed by now, if all went well
	}()
	size, checksum, err := copyPack(f, readerWithContext{ctx, pack})
	if err != nil {
		return 0, err
	}
	index, err := indexPack(ctx, f)
	if err != nil {
		return 0, fmt.Errorf("check pack: %w", err)
	}
	if index == nil {
		return 0, nil // nothing new
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	base := filepath.Join(dir, "pack-"+checksum.String())
	if err := durable.WriteFile(base+".idx", index, 0o600); err != nil {
		return 0, fmt.Errorf("write index of pack: %w", err)
	}
	if err := os.Rename(f.Name(), base+".pack"); err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	return size, durable.SyncDir(dir)
}

// copyPack copies a pack and checks the sum at its end, which go-git does not.
func copyPack(w io.Writer, r io.Reader) (int64, plumbing.Hash, error) {
	t := &trailing{sum: sha1.New()} //nolint:gosec // Git's object names
	n, err := io.Copy(io.MultiWriter(w, t), r)
	if err != nil {
		return 0, plumbing.ZeroHash, fmt.Errorf("receive pack: %w", err)
	}
	checksum, err := t.check()
	return n, checksum, err
}

// trailing sums up all but the last 20 bytes, which should be that sum.
type trailing struct {
	sum  hash.Hash
	tail []byte
}

func (t *trailing) Write(p []byte) (int, error) {
	t.tail = append(t.tail, p...)
	if cut := len(t.tail) - sha1.Size; cut > 0 {
		t.sum.Write(t.tail[:cut])
		t.tail = append(t.tail[:0], t.tail[cut:]...)
	}
	return len(p), nil
}

func (t *trailing) check() (plumbing.Hash, error) {
	if len(t.tail) < sha1.Size || !bytes.Equal(t.sum.Sum(nil), t.tail) {
		return plumbing.ZeroHash, errors.New("the pack is cut short or damaged: its checksum does not match")
	}
	return plumbing.Hash(t.tail), nil
}

// indexPack checks every object of a pack and returns its index; nil if the pack is empty.
func indexPack(ctx context.Context, f io.ReadSeeker) (index []byte, err error) {
	defer recoverTo(&err)
	objects, err := measure(ctx, f)
	if err != nil || objects == 0 {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	w := new(idxfile.Writer)
	parser, err := packfile.NewParser(packfile.NewScanner(seekerWithContext{ctx, f}), w)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, err
	}
	built, err := w.Index()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := idxfile.NewEncoder(&b).Encode(built); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// measure walks a pack with little memory and refuses it before the parser holds a bomb: go-git's
// parser takes sizes as they are declared, and delta results as large as they come.
func measure(ctx context.Context, f io.ReadSeeker) (objects uint32, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	s := packfile.NewScanner(seekerWithContext{ctx, f})
	_, objects, err = s.Header()
	if err != nil {
		return 0, err
	}
	if objects > maxObjects {
		return 0, fmt.Errorf("the pack has %d objects, more than the limit of %d", objects, maxObjects)
	}
	for range objects {
		h, err := s.NextObjectHeader()
		if err != nil {
			return 0, err
		}
		size := h.Length
		begin := &prefix{}
		if _, _, err := s.NextObject(io.MultiWriter(begin, &ceiling{left: maxObjectBytes})); err != nil {
			return 0, err
		}
		if h.Type.IsDelta() {
			size = max(size, begin.deltaResult())
		}
		if size > maxObjectBytes {
			return 0, errTooLarge()
		}
	}
	return objects, nil
}

// prefix keeps the first bytes of a delta, which hold the sizes of its base and of its result.
type prefix struct{ b []byte }

func (p *prefix) Write(b []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - len(p.b); room > 0 {
		p.b = append(p.b, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// deltaResult is the declared size of what a delta makes; more than any limit if it can't be read.
func (p *prefix) deltaResult() int64 {
	_, n := binary.Uvarint(p.b)
	if n <= 0 {
		return 1 << 62
	}
	size, n := binary.Uvarint(p.b[n:])
	if n <= 0 || size > 1<<62 {
		return 1 << 62
	}
	return int64(size)
}

// ceiling fails when more is written than it has left.
type ceiling struct{ left int64 }

func (c *ceiling) Write(b []byte) (int, error) {
	if c.left -= int64(len(b)); c.left < 0 {
		return 0, errTooLarge()
	}
	return len(b), nil
}

// errTooLarge names no file: a pack doesn't. It is short enough to be shown as it is.
func errTooLarge() error {
	return fmt.Errorf("the history has a file over the limit of %d MiB. Keep manifests in a repository without it", maxObjectBytes>>20)
}

type readerWithContext struct {
	ctx context.Context //nolint:containedctx // for the length of one call
	r   io.Reader
}

func (r readerWithContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// seekerWithContext lets a long check end with its caller.
type seekerWithContext struct {
	ctx context.Context //nolint:containedctx // for the length of one call
	io.ReadSeeker
}

func (r seekerWithContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadSeeker.Read(p)
}

// recoverTo turns a panic of go-git on foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("go-git gave up: %v", p)
	}
}
