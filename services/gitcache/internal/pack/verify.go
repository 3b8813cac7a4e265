package pack

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // as Git's packs have it
	"hash"
	"io"
	"os"

	"fairlead.dev/services/gitcache/internal/git"
)

// Sum adds up what is written and checks that the last 20 bytes of it are the sum of the rest, as they
// are in a pack and in an index. The zero value is not usable.
type Sum struct {
	sum  hash.Hash
	tail []byte
}

// NewSum begins a sum.
func NewSum() *Sum { return &Sum{sum: sha1.New()} } //nolint:gosec // as Git's packs have it

// Write is io.Writer.
func (s *Sum) Write(p []byte) (int, error) {
	if keep := max(0, sumBytes-len(p)); len(s.tail) > keep {
		s.sum.Write(s.tail[:len(s.tail)-keep])
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-keep:]...)
	}
	cut := max(0, len(p)-sumBytes)
	s.sum.Write(p[:cut])
	s.tail = append(s.tail, p[cut:]...)
	return len(p), nil
}

// Check returns the sum that the bytes end with.
func (s *Sum) Check() (git.Hash, error) {
	if len(s.tail) < sumBytes || !bytes.Equal(s.sum.Sum(nil), s.tail) {
		return git.Hash{}, damagedf("it is cut short or changed: its checksum does not match")
	}
	return git.Hash(s.tail), nil
}

// Verify reads the pack and the index to their ends. The sums say that both are as they were written,
// at which time every object was checked.
func (f *File) Verify(ctx context.Context) error {
	pack, err := VerifyPack(ctx, f.pack)
	if err != nil {
		return err
	}
	info, err := f.idx.Stat()
	if err != nil {
		return err
	}
	if _, err := verifySum(ctx, io.NewSectionReader(f.idx, 0, info.Size())); err != nil {
		return err
	}
	var of git.Hash
	if _, err := f.idx.ReadAt(of[:], info.Size()-2*sumBytes); err != nil {
		return err
	}
	if of != pack {
		return damagedf("the index is that of another pack")
	}
	return nil
}

// VerifyPack reads a pack to its end and returns the sum there, if it is right.
func VerifyPack(ctx context.Context, f *os.File) (git.Hash, error) {
	info, err := f.Stat()
	if err != nil {
		return git.Hash{}, err
	}
	return verifySum(ctx, io.NewSectionReader(f, 0, info.Size()))
}

func verifySum(ctx context.Context, r io.Reader) (git.Hash, error) {
	s := NewSum()
	if _, err := io.Copy(s, Until(ctx, r)); err != nil {
		return git.Hash{}, err
	}
	return s.Check()
}
