package pack_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

const fuzzHeader = "PACK\x00\x00\x00\x02\x00\x00\x00"

// FuzzCheck takes packs whose sum at the end, which comes first in real life, was right. A pack that Check finds good
// must be read back under the names that it gave.
func FuzzCheck(f *testing.F) {
	blob := "\x31\x78\x9c\x33\x04\x00\x00\x32\x00\x32"
	f.Add([]byte(fuzzHeader + "\x01" + blob))
	f.Add([]byte(fuzzHeader + "\x02" + blob + "\x62\x0a\x78\x9c\x63\x64\x64\x04\x00"))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Add([]byte(fuzzHeader + "\x01\x7f\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add(aDelta())
	f.Add(crafted(whole("x"), byName(pack.Name(git.Blob, []byte("x")), delta(1, 3, "\x03abc"))))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(bytes.Clone(b), make([]byte, 20)...)
		objects, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), dir, pack.UsualBounds())
		if err != nil {
			if objects != nil {
				t.Error("an error and an index")
			}
			return
		}
		readAll(t, b, objects)
	})
}

// readAll reads what was found good through its index.
func readAll(t *testing.T, b []byte, objects *pack.Objects) {
	t.Helper()
	var index bytes.Buffer
	if err := objects.WriteIndex(&index, git.Hash{}); err != nil {
		t.Fatal(err)
	}
	file := open(t, b, index.Bytes())
	for id, err := range file.Index().Names() {
		if err != nil {
			t.Fatal(err)
		}
		at, found, err := file.Index().Find(id)
		if err != nil || !found {
			t.Fatalf("%s: found %t, %v", id, found, err)
		}
		size, err := file.Size(at)
		if err != nil {
			t.Fatal(err)
		}
		kind, content, err := file.Read(at, size, pack.NewCache(1<<20), t.TempDir())
		if err != nil || pack.Name(kind, content) != id {
			t.Errorf("%s: %d bytes, %v", id, len(content), err)
		}
	}
}

func open(t *testing.T, b, index []byte) *pack.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	for ext, content := range map[string][]byte{pack.PackExt: b, pack.IndexExt: index} {
		if err := os.WriteFile(path+ext, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := pack.Open(path)
	if err != nil {
		t.Fatalf("open what is good: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// FuzzOpen reads objects through an index that says anything at all, from a pack that is good.
func FuzzOpen(f *testing.F) {
	b := sealed(aDelta())
	objects, err := pack.Check(f.Context(), bytes.NewReader(b), int64(len(b)), f.TempDir(), pack.UsualBounds())
	if err != nil {
		f.Fatal(err)
	}
	var index bytes.Buffer
	if err := objects.WriteIndex(&index, git.Hash{}); err != nil {
		f.Fatal(err)
	}
	f.Add(index.Bytes())
	f.Add(binary.BigEndian.AppendUint32(nil, 1))
	path := filepath.Join(f.TempDir(), "p")
	if err := os.WriteFile(path+pack.PackExt, b, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, index []byte) {
		if err := os.WriteFile(path+pack.IndexExt, index, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := pack.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		for id, err := range file.Index().Names() {
			if err != nil {
				return
			}
			at, _, err := file.Index().Find(id)
			if err != nil {
				continue
			}
			_, _ = file.Kind(at)
			if size, err := file.Size(at); err == nil && size < 1<<20 {
				_, _, _ = file.Read(at, size, pack.NewCache(1<<10), t.TempDir())
			}
		}
	})
}
