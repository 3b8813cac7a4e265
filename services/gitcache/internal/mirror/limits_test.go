package mirror

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// packDeclaring is a pack with one blob that says it has size bytes and has few.
func packDeclaring(t *testing.T, size uint64) []byte {
	t.Helper()
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 1)
	c := byte(plumbing.BlobObject)<<4 | byte(size&0xf)
	for size >>= 4; size > 0; size >>= 7 {
		b, c = append(b, c|0x80), byte(size&0x7f)
	}
	var content bytes.Buffer
	z := zlib.NewWriter(&content)
	_, _ = z.Write([]byte("few"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	b = append(append(b, c), content.Bytes()...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func TestALargeObjectIsRefusedByTheLimitItBreaks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := initBare(dir); err != nil {
		t.Fatal(err)
	}
	_, err := addPack(t.Context(), dir, bytes.NewReader(packDeclaring(t, maxObjectBytes+1)))
	if err == nil || !strings.Contains(err.Error(), "a file over the limit of 256 MiB") {
		t.Errorf("got %v", err)
	}
}

// A process that is short of descriptors must not take its mirrors for damaged: each would be cloned again.
func TestAShortageIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		err := readError(plumbing.ZeroHash, &fs.PathError{Op: "open", Path: "pack", Err: shortage})
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrMissing) || !errors.Is(err, shortage) {
			t.Errorf("%v: %v", shortage, err)
		}
	}
	if err := readError(plumbing.ZeroHash, errors.New("zlib: invalid header")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
