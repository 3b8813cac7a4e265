package build

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// packFile writes a pack, object by object.
type packFile struct {
	t   *testing.T
	out io.Writer
}

// add writes an object and returns its name.
func (p packFile) add(kind git.Kind, content []byte) git.Hash {
	p.t.Helper()
	var body bytes.Buffer
	z := zlib.NewWriter(&body)
	_, err := z.Write(content)
	if err := errors.Join(err, z.Close()); err != nil {
		p.t.Fatal(err)
	}
	p.write(kind, len(content), body.Bytes())
	return pack.Name(kind, content)
}

// addZeros writes a blob of so many MiB of zeros: the same compressed MiB over and over again.
func (p packFile) addZeros(mib int) git.Hash {
	p.t.Helper()
	block, size := make([]byte, 1<<20), mib<<20
	var piece, last bytes.Buffer
	w, err := flate.NewWriter(&piece, flate.BestSpeed)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = w.Write(block)
	if err := errors.Join(err, w.Flush()); err != nil {
		p.t.Fatal(err)
	}
	w.Reset(&last)
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	body := slices.Concat([]byte{0x78, 0x01}, bytes.Repeat(piece.Bytes(), mib), last.Bytes())
	p.write(git.Blob, size, binary.BigEndian.AppendUint32(body, uint32(size%65521)<<16|1)) // Adler-32 of zeros
	name := sha1.New()
	fmt.Fprintf(name, "blob %d\x00", size)
	for range mib {
		_, _ = name.Write(block)
	}
	return git.Hash(name.Sum(nil))
}

// write writes an object whose content is compressed.
func (p packFile) write(kind git.Kind, size int, body []byte) {
	p.t.Helper()
	head := []byte{byte(kind)<<4 | byte(size&15)}
	for rest := size >> 4; rest > 0; rest >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(rest&0x7f))
	}
	if _, err := p.out.Write(append(head, body...)); err != nil {
		p.t.Fatal(err)
	}
}

// One gigabyte in a folder is refused by name and limit and never read, and a filter makes the rest usable.
func TestABlobOfAGigabyteIsRefusedUnlessLeftOut(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a file of 1 GiB")
	w := newWorld(t, 0)
	f, err := os.Create(t.TempDir() + "/pack")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha1.New()
	p := packFile{t, io.MultiWriter(f, sum)}
	_, _ = p.out.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 4))
	small, large := p.add(git.Blob, []byte("a")), p.addZeros(largeMiB)
	var folder bytes.Buffer
	fmt.Fprintf(&folder, "100644 a\x00%s100644 dump.bin\x00%s", small[:], large[:])
	root := p.add(git.Tree, folder.Bytes())
	commit := p.add(git.Commit, fmt.Appendf(nil,
		"tree %s\nauthor A <a> 0 +0000\ncommitter A <a> 0 +0000\n\nx\n", root))
	_, _ = f.Write(sum.Sum(nil))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := w.mirror.AddPack(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	_, err = w.builder.Resolve(t.Context(), place(commit, ""))
	if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), `"dump.bin"`) ||
		!strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	if got := w.files(w.resolve(filtered(t, place(commit, ""), nil, []string{"*.bin"})).Artifact.Digest); len(got) != 1 || got["a"] != "a" {
		t.Errorf("without it there is %q", got)
	}
}
