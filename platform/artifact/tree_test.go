package artifact_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/platform/artifact"
)

// file is content for tests: a link if link is set.
type file struct {
	body, link string
	exec       bool
}

func pack(t testing.TB, files map[string]file) ([]byte, artifact.Summary) {
	t.Helper()
	var buf bytes.Buffer
	sum, err := tryPack(&buf, files, artifact.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), sum
}

func tryPack(out io.Writer, files map[string]file, l artifact.Limits) (artifact.Summary, error) {
	w := artifact.NewWriter(out, l)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		f := files[p]
		var err error
		if f.link != "" {
			err = w.Symlink(p, f.link)
		} else {
			err = w.File(p, f.exec, int64(len(f.body)), strings.NewReader(f.body))
		}
		if err != nil {
			return artifact.Summary{}, err
		}
	}
	return w.Close()
}

func walk(r io.Reader, l artifact.Limits) (map[string]file, error) {
	got := map[string]file{}
	err := artifact.Walk(r, l, func(e artifact.Entry, content io.Reader) error {
		body, err := io.ReadAll(content)
		got[e.Path] = file{body: string(body), link: e.Link, exec: e.Executable}
		return err
	})
	return got, err
}

func mixed() map[string]file {
	return map[string]file{
		"README.md":             {body: "# hello\n"},
		"a/b/c/deployment.yaml": {body: "kind: Deployment\n"},
		"a/link":                {link: "b/c/deployment.yaml"},
		"a/up":                  {link: "../README.md"},
		"bin/run.sh":            {body: "#!/bin/sh\n", exec: true},
		"empty":                 {},
		"fünf/größe.yaml":       {body: "a: 1\n"},
		strings.Repeat("d/", 60) + strings.Repeat("x", 120): {body: "long path\n"},
		"o'brien \"quoted\".yaml":                           {body: "b: 2\n"},
		strings.Repeat("n", 255):                            {link: strings.Repeat("t", 200)},
	}
}

// The bytes of an artifact are a contract between releases and replicas: a change of them makes
// every cluster of every user download and render everything. UPDATE_GOLDEN=1 rewrites the file.
func TestCanonicalTarIsGolden(t *testing.T) {
	t.Parallel()
	const want = "sha256:a407f5a7b00b368595e73e9e9bc1bcb16f6cd5ca5c21162d7b5b568a5ea2e2da"
	got, sum := pack(t, mixed())
	golden := filepath.Join("testdata", "mixed.tar")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantBytes, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, wantBytes) {
		t.Error("the canonical tar is not the golden one any more")
	}
	if sum.Digest != want || sum.Size != int64(len(got)) || sum.Files != len(mixed()) {
		t.Errorf("got %+v, want digest %s, size %d", sum, want, len(got))
	}
	if _, sum := pack(t, nil); sum.Digest != "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef" || sum.Size != 1024 {
		t.Errorf("empty artifact: %+v", sum)
	}
}

func TestWalkGivesBackWhatWasPacked(t *testing.T) {
	t.Parallel()
	packed, _ := pack(t, mixed())
	got, err := walk(bytes.NewReader(packed), artifact.Limits{})
	if err != nil || !maps.Equal(got, mixed()) {
		t.Errorf("got %v, %v", got, err)
	}
}

// Git holds names of any bytes but NUL, and a disk takes them.
func TestNamesOfAnyBytesComeBack(t *testing.T) {
	t.Parallel()
	odd := map[string]file{
		"high-availability-1.21+/a b.yaml": {body: "a: 1\n"}, "a\x1b[31m": {body: "1"}, "a\nb": {body: "2"},
		"caf\xe9/x": {body: "3"}, "~$#@!%^&*(){}[];'\\|?\"<>": {body: "4"},
		"README": {body: "5"}, "readme": {body: "6"}, "A/x": {body: "7"}, "a/y": {body: "8"}, "k": {body: "9"},
		"\u212A": {body: "10"}, "link": {link: "caf\xe9/x"}, "...": {body: "11"}, "a..b": {body: "12"},
		" ": {body: "13"},
	}
	packed, _ := pack(t, odd)
	if got, err := walk(bytes.NewReader(packed), artifact.Limits{}); err != nil || !maps.Equal(got, odd) {
		t.Errorf("walk: got %v, %v", got, err)
	}
	dir := t.TempDir()
	if err := extract(bytes.NewReader(packed), dir); err != nil {
		t.Fatal(err)
	}
	if got := readTree(t, dir); !maps.Equal(got, odd) {
		t.Errorf("extract: got %v", got)
	}
}

// An artifact names the folder that it is made for, if it holds more than that. These bytes are a contract, too.
func TestAnArtifactNamesItsFolder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := artifact.NewWriter(&out, artifact.Limits{})
	if err := errors.Join(w.Base("deploy/1.21+/caf\xe9"),
		w.File("base/a", false, 1, strings.NewReader("x"))); err != nil {
		t.Fatal(err)
	}
	sum, err := w.Close()
	if want := artifact.Digest("sha256:5463890bf9f6a998f10f85a683c36de481f5661b9b653da374d4283b97c64cad"); err != nil ||
		sum.Digest != want {
		t.Errorf("got %v, %v", sum.Digest, err)
	}
	bases := map[string]string{}
	err = artifact.Walk(bytes.NewReader(out.Bytes()), artifact.Limits{}, func(e artifact.Entry, _ io.Reader) error {
		bases[e.Path] = e.Base
		return nil
	})
	if err != nil || len(bases) != 1 || bases["base/a"] != "deploy/1.21+/caf\xe9" {
		t.Errorf("got %q, %v", bases, err)
	}
	for _, bad := range []string{"", ".", "/a", "../a", "a/", "a/../b", ".git"} {
		if err := artifact.NewWriter(io.Discard, artifact.Limits{}).Base(bad); !errors.Is(err, artifact.ErrRefused) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	w = artifact.NewWriter(io.Discard, artifact.Limits{})
	if err := errors.Join(w.File("a", false, 0, strings.NewReader("")),
		w.Base("b")); !errors.Is(err, artifact.ErrRefused) {
		t.Errorf("after the beginning: %v", err)
	}
}

func TestPrintableEscapesWhatATerminalWouldObey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"größe 1.21+.yaml": "größe 1.21+.yaml", "a\x1b[31m": `a\x1b[31m`, "caf\xe9": `caf\xe9`,
		"two\nlines": "two\nlines", "\r\u202e\x00": `\r\u202e\x00`,
	} {
		if got := artifact.Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestExtractGivesBackWhatWasPacked(t *testing.T) {
	t.Parallel()
	packed, _ := pack(t, mixed())
	dir := t.TempDir()
	if err := extract(bytes.NewReader(packed), dir); err != nil {
		t.Fatal(err)
	}
	if got := readTree(t, dir); !maps.Equal(got, mixed()) {
		t.Errorf("got %v", got)
	}
}

func extract(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(artifact.Extract(r, root, artifact.Limits{}), root.Close())
}

func readTree(t testing.TB, dir string) map[string]file {
	t.Helper()
	got := map[string]file{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if e.Type() == fs.ModeSymlink {
			link, err := os.Readlink(p)
			got[rel] = file{link: link}
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if m := info.Mode(); m != 0o644 && m != 0o755 {
			t.Errorf("%s has mode %v", rel, m)
		}
		body, err := os.ReadFile(p)
		got[rel] = file{body: string(body), exec: info.Mode() == 0o755}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refusals are trees that no artifact may hold: paths in the order given.
func refusals() map[string][]file2 {
	long := strings.Repeat("x", 300)
	return map[string][]file2{
		"absolute":                     {{path: "/etc/passwd"}},
		"parent":                       {{path: "../x"}},
		"parent inside":                {{path: "a/../x"}},
		"dot":                          {{path: "./x"}},
		"empty":                        {{path: ""}},
		"trailing slash":               {{path: "a/"}},
		"double slash":                 {{path: "a//b"}},
		"NUL":                          {{path: "a\x00b"}},
		"long name":                    {{path: long}},
		"long path":                    {{path: strings.Repeat(long[:200]+"/", 6) + "x"}},
		"deep":                         {{path: strings.Repeat("d/", 65) + "x"}},
		".git":                         {{path: ".git/config"}},
		".git as a file":               {{path: "sub/.git"}},
		".GIT":                         {{path: "sub/.GIT/hooks/x"}},
		".git with dots and spaces":    {{path: ".git . ./x"}},
		".git stream":                  {{path: ".git::$INDEX_ALLOCATION/x"}},
		"git~1":                        {{path: "GIT~1/config"}},
		".git with ignored code point": {{path: ".g\u200cit/config"}},
		"duplicate":                    {{path: "a"}, {path: "a"}},
		"not sorted":                   {{path: "b"}, {path: "a"}},
		"file and folder":              {{path: "a"}, {path: "a/b"}},
		"link as a folder":             {{path: "a", link: "b"}, {path: "a/x"}},
		"link with NUL":                {{path: "a", link: "b\x00c"}},
		"link too long":                {{path: "a", link: strings.Repeat("y", 2000)}},
	}
}

// escapes are links that no disk gets. An artifact may hold them: nobody follows them.
func escapes() map[string][]file2 {
	return map[string][]file2{
		"link absolute":               {{path: "a", link: "/etc/passwd"}},
		"link leaves":                 {{path: "a", link: "../x"}},
		"link leaves from below":      {{path: "a/b/l", link: "../../../x"}},
		"link leaves by another link": {{path: "a/b/d", link: "../.."}, {path: "a/b/l", link: "d/../etc"}},
		"link to .git":                {{path: "a", link: ".git/config"}},
	}
}

type file2 struct{ path, link string }

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	for name, files := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := artifact.NewWriter(io.Discard, artifact.Limits{})
			var err error
			for _, f := range files {
				if err != nil {
					t.Fatalf("the first ones are fine, but: %v", err)
				}
				if f.link != "" {
					err = w.Symlink(f.path, f.link)
				} else {
					err = w.File(f.path, false, 0, strings.NewReader(""))
				}
			}
			if !errors.Is(err, artifact.ErrRefused) {
				t.Errorf("got %v, want a refusal", err)
			}
			if _, err := w.Close(); err == nil {
				t.Error("closed after a refusal")
			}
		})
	}
}

func TestLinksLeadWhereTheyLike(t *testing.T) {
	t.Parallel()
	for name, files := range escapes() {
		links := map[string]file{}
		for _, f := range files {
			links[f.path] = file{link: f.link}
		}
		packed, _ := pack(t, links)
		if got, err := walk(bytes.NewReader(packed), artifact.Limits{}); err != nil || !maps.Equal(got, links) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// A hostile tar is refused by Extract as it is by Writer, and nothing of it gets out of the root.
func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	hostile := refusals()
	maps.Copy(hostile, escapes())
	for name, files := range hostile {
		var headers []tar.Header
		for _, f := range files {
			h := tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: 0o644}
			if f.link != "" {
				h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
			}
			headers = append(headers, h)
		}
		t.Run(name, func(t *testing.T) { t.Parallel(); mustNotExtract(t, headers...) })
	}
	base := func(records ...string) tar.Header {
		h := tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{}}
		for _, key := range records {
			h.PAXRecords[key] = "a"
		}
		return h
	}
	ok := tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o644}
	for name, headers := range map[string][]tar.Header{
		"folder named twice":    {base("FAIRLEAD.base"), base("FAIRLEAD.base"), ok},
		"folder named late":     {ok, base("FAIRLEAD.base")},
		"other global record":   {base("FAIRLEAD.other"), ok},
		"another global record": {base("FAIRLEAD.base", "path"), ok},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); mustNotExtract(t, headers...) })
	}
	for name, change := range map[string]func(*tar.Header){
		"hard link":        func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, "b" },
		"character device": func(h *tar.Header) { h.Typeflag = tar.TypeChar },
		"block device":     func(h *tar.Header) { h.Typeflag = tar.TypeBlock },
		"fifo":             func(h *tar.Header) { h.Typeflag = tar.TypeFifo },
		"folder":           func(h *tar.Header) { h.Typeflag, h.Name, h.Mode = tar.TypeDir, "a/", 0o755 },
		"mode 0000":        func(h *tar.Header) { h.Mode = 0 },
		"setuid":           func(h *tar.Header) { h.Mode = 0o4755 },
		"writable by all":  func(h *tar.Header) { h.Mode = 0o666 },
		"owner":            func(h *tar.Header) { h.Uid = 1 },
		"owner's name":     func(h *tar.Header) { h.Uname = "root" },
		"extended attribute": func(h *tar.Header) {
			h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "x"}
		},
		"GNU format": func(h *tar.Header) { h.Format, h.Name = tar.FormatGNU, strings.Repeat("x", 200) },
	} {
		h := ok
		change(&h)
		t.Run(name, func(t *testing.T) { t.Parallel(); mustNotExtract(t, h) })
	}
}

// Sizes that extended records say, which archive/tar does not write.
func TestExtractRefusesSizesOfExtendedRecords(t *testing.T) {
	t.Parallel()
	for name, records := range map[string][]string{
		"size":         {"size=9223372036854775807"},
		"size below 0": {"size=-1"},
		"sparse 1.0": {
			"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=1099511627776", "GNU.sparse.name=a",
		},
		"sparse 0.1": {"GNU.sparse.map=0,1,1099511627775,1", "GNU.sparse.size=1099511627776", "GNU.sparse.numblocks=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var extended strings.Builder
			for _, record := range records {
				n := len(record) + len(" \n") + 2 // all of these have two digits
				fmt.Fprintf(&extended, "%d %s\n", n, record)
			}
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			if err := w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: "a", Mode: 0o644, Size: int64(extended.Len()), Format: tar.FormatUSTAR,
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, extended.String()); err != nil {
				t.Fatal(err)
			}
			if err := w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: "a", Mode: 0o644, Format: tar.FormatUSTAR,
			}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			// The first entry is one of extended records. Its sum grows by what the kind's letter does.
			const kind, sum, digits = 156, 148, 6
			b := buf.Bytes()
			old, err := strconv.ParseInt(string(b[sum:sum+digits]), 8, 32)
			if err != nil {
				t.Fatal(err)
			}
			copy(b[sum:], fmt.Sprintf("%06o", old+'x'-int64(b[kind])))
			b[kind] = 'x'
			if _, err := tar.NewReader(bytes.NewReader(b)).Next(); errors.Is(err, io.EOF) {
				t.Fatal("the tar is empty")
			}
			mustNotExtractTar(t, &buf)
		})
	}
}

func mustNotExtract(t *testing.T, headers ...tar.Header) {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Skipf("no tar can say this: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	mustNotExtractTar(t, &buf)
}

func mustNotExtractTar(t *testing.T, packed io.Reader) {
	t.Helper()
	outer := t.TempDir()
	inner := filepath.Join(outer, "a", "b", "root")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := extract(packed, inner); err == nil {
		t.Error("extracted")
	}
	for p := range readTree(t, outer) {
		if !strings.HasPrefix(p, "a/b/root/") {
			t.Errorf("%s is outside of the root", p)
		}
	}
}

func TestLimitsAreEnforcedOnBothSides(t *testing.T) {
	t.Parallel()
	files := map[string]file{"a/b/c/x": {body: strings.Repeat("x", 5000)}, "a/y": {}, "z": {link: "a/y"}}
	packed, _ := pack(t, files)
	for name, l := range map[string]artifact.Limits{
		"bytes":      {Bytes: 4000},
		"file bytes": {FileBytes: 4999},
		"files":      {Files: 2},
		"depth":      {Depth: 2},
		"path bytes": {PathBytes: 6},
	} {
		if _, err := tryPack(io.Discard, files, l); !errors.Is(err, artifact.ErrRefused) {
			t.Errorf("%s: packed: %v", name, err)
		}
		if _, err := walk(bytes.NewReader(packed), l); !errors.Is(err, artifact.ErrRefused) {
			t.Errorf("%s: walked: %v", name, err)
		}
	}
}

func TestNothingMayFollowTheTar(t *testing.T) {
	t.Parallel()
	packed, _ := pack(t, mixed())
	if _, err := walk(bytes.NewReader(append(packed, 0)), artifact.Limits{}); !errors.Is(err, artifact.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

func TestTruncatedTarIsAnError(t *testing.T) {
	t.Parallel()
	packed, _ := pack(t, map[string]file{"a": {body: "hello"}, "b": {body: "world"}})
	for n := 1; n < len(packed)-1024; n++ {
		if n%512 == 0 {
			continue // a tar may end without its zero blocks; the digest is what tells
		}
		if _, err := walk(bytes.NewReader(packed[:n]), artifact.Limits{}); err == nil {
			t.Fatalf("no error at %d of %d bytes", n, len(packed))
		}
	}
}

func TestShortContentIsAnError(t *testing.T) {
	t.Parallel()
	w := artifact.NewWriter(io.Discard, artifact.Limits{})
	if err := w.File("a", false, 10, strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Close(); err == nil {
		t.Error("closed")
	}
}

// An accepted tree comes back the same, from Walk and from a disk, and packs to the same bytes.
func TestEveryAcceptedTreeComesBack(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-cA-C.~ é]{1,4}`)
	paths := rapid.Map(rapid.SliceOfN(name, 1, 4), func(p []string) string { return strings.Join(p, "/") })
	content := rapid.Custom(func(t *rapid.T) file {
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			return file{link: rapid.StringMatching(`(\.\./){0,3}[a-c.]{1,3}(/[a-c.]{1,2}){0,2}`).Draw(t, "link")}
		}
		return file{body: rapid.String().Draw(t, "body"), exec: rapid.Bool().Draw(t, "exec")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		files := rapid.MapOfN(paths, content, 0, 12).Draw(rt, "files")
		var buf bytes.Buffer
		sum, err := tryPack(&buf, files, artifact.Limits{})
		if err != nil {
			rt.Skip(err)
		}
		got, err := walk(bytes.NewReader(buf.Bytes()), artifact.Limits{})
		if err != nil || !maps.Equal(got, files) {
			rt.Fatalf("walk: got %v, want %v: %v", got, files, err)
		}
		dir := t.TempDir() // another one each time
		if err := extract(bytes.NewReader(buf.Bytes()), dir); errors.Is(err, artifact.ErrRefused) {
			rt.Skip(err) // a link
		} else if err != nil {
			rt.Fatal(err)
		}
		if got := readTree(t, dir); !maps.Equal(got, files) {
			rt.Fatalf("extract: got %v, want %v", got, files)
		}
		for p, f := range files {
			if f.link != "" {
				mustStayInside(rt, dir, p)
			}
		}
		if _, again := pack(t, got); again != sum {
			rt.Fatalf("packed again: %v, before %v", again, sum)
		}
	})
}

// mustStayInside follows a link as the kernel does, without os.Root's help.
func mustStayInside(t *rapid.T, dir, p string) {
	to, err := filepath.EvalSymlinks(filepath.Join(dir, p))
	if err != nil {
		return // dangling or a loop
	}
	if to != dir && !strings.HasPrefix(to, dir+"/") {
		t.Fatalf("link %q leads to %q", p, to)
	}
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0a", 32)
	if d, err := artifact.ParseDigest("sha256:" + hex); err != nil || d.Hex() != hex {
		t.Errorf("%v, %v", d, err)
	}
	for _, bad := range []string{
		"", hex, "sha256:", "sha256:" + hex[1:], "sha256:" + hex + "0", "sha256:" + strings.ToUpper(hex),
		"sha512:" + hex, "sha256:../" + hex[3:],
	} {
		if d, err := artifact.ParseDigest(bad); err == nil {
			t.Errorf("%q parsed as %s", bad, d)
		}
	}
}
