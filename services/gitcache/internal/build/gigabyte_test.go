package build

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // Git's own
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/artifact"
)

// packFile writes a pack, object by object, so that none needs to be in memory.
type packFile struct {
	t   *testing.T
	out io.Writer
}

// add writes an object of content and then so many zeros, and returns its name.
func (p packFile) add(kind plumbing.ObjectType, content []byte, zeros int) plumbing.Hash {
	p.t.Helper()
	size := uint64(len(content) + zeros)
	head := []byte{byte(kind)<<4 | byte(size&15)}
	for rest := size >> 4; rest > 0; rest >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(rest&0x7f))
	}
	name := sha1.New() //nolint:gosec // Git's own
	fmt.Fprintf(name, "%s %d\x00", kind, size)
	_, err := p.out.Write(head)
	z, err2 := zlib.NewWriterLevel(p.out, zlib.BestSpeed)
	_, err3 := io.MultiWriter(name, z).Write(content)
	block := make([]byte, 1<<20)
	for ; zeros > 0 && err3 == nil; zeros -= len(block) {
		_, err3 = io.MultiWriter(name, z).Write(block[:min(zeros, len(block))])
	}
	if err := errors.Join(err, err2, err3, z.Close()); err != nil {
		p.t.Fatal(err)
	}
	return plumbing.Hash(name.Sum(nil))
}

// One gigabyte in a folder is refused by name and limit and never read, and a filter makes the rest usable.
func TestABlobOfAGigabyteIsRefusedUnlessLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	f, err := os.Create(t.TempDir() + "/pack")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha1.New() //nolint:gosec // Git's own
	p := packFile{t, io.MultiWriter(f, sum)}
	_, _ = p.out.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 4))
	small, large := p.add(plumbing.BlobObject, []byte("a"), 0), p.add(plumbing.BlobObject, nil, 1<<30)
	var folder bytes.Buffer
	fmt.Fprintf(&folder, "100644 a\x00%s100644 dump.bin\x00%s", small[:], large[:])
	root := p.add(plumbing.TreeObject, folder.Bytes(), 0)
	commit := p.add(plumbing.CommitObject, fmt.Appendf(nil, "tree %s\nauthor A <a> 0 +0000\ncommitter A <a> 0 +0000\n\nx\n", root), 0)
	_, _ = f.Write(sum.Sum(nil))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := w.mirror.AddPack(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	_, err = w.builder.Resolve(t.Context(), place(commit, ""))
	if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), `"dump.bin"`) || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	if got := w.files(w.resolve(filtered(t, place(commit, ""), nil, []string{"*.bin"})).Artifact.Digest); len(got) != 1 || got["a"] != "a" {
		t.Errorf("without it there is %q", got)
	}
}
