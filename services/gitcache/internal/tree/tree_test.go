package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/pack"
)

// objects is a Reader of objects in memory.
type objects map[git.Hash][]byte

func (o objects) Read(_ git.Kind, id git.Hash, most int64) ([]byte, error) {
	b, ok := o[id]
	switch {
	case !ok:
		return nil, mirror.ErrMissing
	case int64(len(b)) > most:
		return nil, mirror.ErrTooLarge
	}
	return b, nil
}

func (o objects) add(kind git.Kind, b []byte) git.Hash {
	id := pack.Name(kind, b)
	o[id] = b
	return id
}

func (o objects) blob(s string) git.Hash { return o.add(git.Blob, []byte(s)) }

func (o objects) tree(entries ...entry) git.Hash {
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s\x00%s", e.mode, e.path, e.id[:])
	}
	return o.add(git.Tree, b.Bytes())
}

func pack1(t *testing.T, o objects, root git.Hash, l artifact.Limits) (map[string]string, error) {
	t.Helper()
	return packWith(t, o, root, Options{Limits: l})
}

func packWith(t *testing.T, o objects, root git.Hash, options Options) (map[string]string, error) {
	t.Helper()
	l := options.Limits
	var b bytes.Buffer
	w := artifact.NewWriter(&b, l)
	if err := Pack(t.Context(), o, root, options, w); err != nil {
		return nil, err
	}
	if _, err := w.Close(); err != nil {
		return nil, err
	}
	files := map[string]string{}
	err := artifact.Walk(&b, l, func(e artifact.Entry, r io.Reader) error {
		content, err := io.ReadAll(r)
		files[e.Path] = fmt.Sprint(string(content), e.Link, e.Executable)
		return err
	})
	return files, err
}

var wide = artifact.Limits{Bytes: 1 << 20, FileBytes: 1 << 10, Files: 100, Depth: 5, PathBytes: 100}

func TestPackOrdersByWholePaths(t *testing.T) {
	t.Parallel()
	o := objects{}
	// Git sorts the folder "a" as "a/": after "a-b", before "a0". So do whole paths, but not "a.b/c" against "a/".
	root := o.tree(
		entry{modeFile, "a-b", o.blob("1")},
		entry{modeFolder, "a.b", o.tree(entry{modeExecutable, "c", o.blob("2")})},
		entry{modeFolder, "a", o.tree(entry{modeGroupFile, "x", o.blob("3")}, entry{modeLink, "l", o.blob("x")})},
		entry{modeFile, "a0", o.blob("4")},
	)
	files, err := pack1(t, o, root, wide)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a-b": "1false", "a.b/c": "2true", "a/x": "3false", "a/l": "xfalse", "a0": "4false"}
	if fmt.Sprint(files) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", files, want)
	}
}

func TestLimitsNameThemselvesAndTheOffender(t *testing.T) {
	t.Parallel()
	o := objects{}
	big := o.blob(strings.Repeat("x", 2<<10))
	many := func(n int) git.Hash {
		var entries []entry
		for i := range n {
			entries = append(entries, entry{modeFile, fmt.Sprintf("f%03d", i), o.blob("x")})
		}
		return o.tree(entries...)
	}
	deep := o.tree(entry{modeFile, "f", o.blob("x")})
	for range 10 {
		deep = o.tree(entry{modeFolder, "d", deep})
	}
	for name, tt := range map[string]struct {
		root  git.Hash
		words []string
	}{
		"file size": {o.tree(entry{modeFile, "big.bin", big}), []string{`"big.bin"`, "limit"}},
		"files":     {many(101), []string{`"f100"`, "limit of 100"}},
		"depth":     {deep, []string{"d/d/d/d/d/d", "limit of 5 folders"}},
		"path":      {o.tree(entry{modeFile, strings.Repeat("n", 101), o.blob("x")}), []string{"limit of 100 bytes"}},
		"name":      {o.tree(entry{modeFile, "", o.blob("x")}), []string{"malformed"}},
		"dots":      {o.tree(entry{modeFolder, "..", many(1)}), []string{`".."`}},
	} {
		_, err := pack1(t, o, tt.root, wide)
		if !errors.Is(err, artifact.ErrRefused) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range tt.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", name, err, w)
			}
		}
	}
	if _, err := pack1(t, o, many(100), wide); err != nil {
		t.Errorf("a folder at the limit: %v", err)
	}
}

func TestAMissingObjectIsNotTheContentsFault(t *testing.T) {
	t.Parallel()
	o := objects{}
	root := o.tree(entry{modeFile, "a", git.Hash{1}})
	_, err := pack1(t, o, root, wide)
	if !errors.Is(err, mirror.ErrMissing) || errors.Is(err, artifact.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	o := objects{}
	leaf := o.tree(entry{modeFile, "f", o.blob("x")})
	root := o.tree(entry{modeFolder, "a", o.tree(entry{modeFolder, "b", leaf})},
		entry{modeSubmodule, "s", git.Hash{1}}, entry{modeFile, "f", o.blob("x")})
	if id, err := Find(o, root, "a/b", false); err != nil || id != leaf {
		t.Errorf("a/b is %s, %v", id, err)
	}
	if id, err := Find(o, root, "", false); err != nil || id != root {
		t.Errorf("the root is %s, %v", id, err)
	}
	for path, want := range map[string]error{
		"a/c": ErrNotFound, "f": ErrNotFound, "f/x": ErrNotFound, "A": ErrNotFound,
		"s": artifact.ErrRefused,
	} {
		if _, err := Find(o, root, path, false); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	o := objects{}
	f.Add(o[o.tree(entry{modeFile, "a", git.Hash{1}}, entry{modeFolder, "b", git.Hash{2}})])
	f.Add([]byte("100644 ../x\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("100644 a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseTree(b)
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, e := range entries {
			if slices.Contains([]string{"", ".", ".."}, e.path) || strings.ContainsAny(e.path, "/\x00") {
				t.Errorf("took the name %q", e.path)
			}
			fmt.Fprintf(&again, "%s %s\x00%s", e.mode, e.path, e.id[:])
		}
		if !bytes.Equal(again.Bytes(), b) {
			t.Error("what was read is not what was there")
		}
	})
}
