package helm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/helm"
)

const usual = `apiVersion: v1
entries:
  other:
  - name: other
    version: 9.9.9
    urls: [other-9.9.9.tgz]
  podinfo:
  - annotations:
      text: |
        version: 7.7.7
        - name: podinfo
    apiVersion: v2
    created: "2024-05-01T10:00:00.5Z"
    description: a long
      version of two lines
    digest: sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    maintainers:
    - name: someone
      version: 8.8.8
    name: podinfo
    urls:
    - https://example.com/podinfo-6.1.0.tgz
    version: 6.1.0
  # a comment

  - name: podinfo
    urls:
    - podinfo-6.5.4.tgz
    version: "6.5.4"
  - name: podinfo
    urls: [podinfo-7.0.0-rc.1.tgz]
    version: 7.0.0-rc.1
  - name: podinfo
    urls: [old.tgz]
    version: v1.2
  quoted: []
  "with.dots":
    - name: with.dots
      version: 1.0.0
      urls: [a.tgz]
generated: "2024-05-01T10:00:00Z"
serverInfo: {}
`

// TestVersionIsChosenAsHelmChooses holds what a version or a range of a service finds in an index.
func TestVersionIsChosenAsHelmChooses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ chart, version, want string }{
		{"podinfo", "", "6.5.4"},
		{"podinfo", "*", "6.5.4"},
		{"podinfo", "^6", "6.5.4"},
		{"podinfo", "~6.1", "6.1.0"},
		{"podinfo", "6.1.0", "6.1.0"},
		{"podinfo", ">=6.0.0 <6.5", "6.1.0"},
		{"podinfo", ">=6.0.0-0", "7.0.0-rc.1"},
		{"podinfo", "7.0.0-rc.1", "7.0.0-rc.1"},
		{"podinfo", "v1.2", "v1.2"},
		{"podinfo", "1.2", "v1.2"},
		{"podinfo", "^8", ""},
		{"with.dots", "1", "1.0.0"},
		{"quoted", "1", ""},
		{"missing", "", ""},
	} {
		w := helm.Want{Chart: tc.chart, Version: tc.version}
		found, err := helm.Choose(strings.NewReader(usual), []helm.Want{w})
		if err != nil {
			t.Fatal(err)
		}
		if got := found[w].Version.Version; got != tc.want {
			t.Errorf("%s %q: %q is chosen, want %q (%s)", tc.chart, tc.version, got, tc.want, found[w].Bad)
		}
		if tc.version == "^8" && found[w].Highest != "7.0.0-rc.1" {
			t.Errorf("the highest version is told as %q", found[w].Highest)
		}
	}
	w := helm.Want{Chart: "podinfo", Version: "6.1.0"}
	found, _ := helm.Choose(strings.NewReader(usual), []helm.Want{w})
	want := helm.Version{
		Chart: "podinfo", Version: "6.1.0", URL: "https://example.com/podinfo-6.1.0.tgz",
		Digest:  strings.Repeat("a", 64),
		Created: time.Date(2024, 5, 1, 10, 0, 0, 5e8, time.UTC),
	}
	if found[w].Version != want {
		t.Errorf("got %+v, want %+v", found[w].Version, want)
	}
}

// TestAShortVersionIsARangeUnlessTheIndexHasIt: the version that is written so is not the highest one of the range.
func TestAShortVersionIsARangeUnlessTheIndexHasIt(t *testing.T) {
	t.Parallel()
	const index = "entries:\n" +
		"  range:\n" +
		"  - {name: range, version: 1.2.0, urls: [a]}\n  - {name: range, version: 1.2.5, urls: [b]}\n  - {name: range, version: 1.3.0, urls: [c]}\n" +
		"  exact:\n" +
		"  - {name: exact, version: 1.2.5, urls: [d]}\n  - {name: exact, version: \"1.2\", urls: [e]}\n  - {name: exact, version: 1.2.6, urls: [f]}\n"
	for chart, want := range map[string]string{"range": "1.2.5", "exact": "1.2"} {
		w := helm.Want{Chart: chart, Version: "1.2"}
		found, err := helm.Choose(strings.NewReader(index), []helm.Want{w})
		if got := found[w].Version.Version; err != nil || got != want {
			t.Errorf("%s: %q is chosen, want %q (%s, %v)", chart, got, want, found[w].Bad, err)
		}
	}
}

// TestIndexesOfOtherFormsAreReadTheSame has the same content as Helm writes it, without indentation of lists, and as
// JSON.
func TestIndexesOfOtherFormsAreReadTheSame(t *testing.T) {
	t.Parallel()
	w := helm.Want{Chart: "a", Version: "^1"}
	for name, text := range map[string]string{
		"lists that are not indented": "entries:\n  a:\n  - name: a\n    version: 1.0.0\n    urls: [x]\n  - urls: [y]\n    version: 1.1.0\n    name: a\n",
		"nothing is indented":         "entries:\n a:\n - {name: a, version: 1.1.0, urls: [y]}\n",
		"windows line ends":           "entries:\r\n  a:\r\n  - name: a\r\n    version: 1.1.0\r\n    urls:\r\n    - y\r\n",
		"the dash on a line":          "entries:\n  a:\n    -\n      name: a\n      version: 1.1.0\n      urls: [y]\n",
		"no end of the last line":     "entries:\n  a:\n  - name: a\n    urls: [y]\n    version: 1.1.0",
		"a comment behind a key":      "entries: # all\n  a: # one\n  - name: a\n    urls: [y]\n    version: 1.1.0\n",
		"json":                        `{"generated":"x","entries":{"b":[{"name":"b","x":[{"y":{}}]}],"a":[{"name":"a","version":"1.0.0","urls":["x"]},{"name":"a","version":"1.1.0","urls":["y"],"digest":""}],"c":null},"more":[1,{"a":[]}]}`,
	} {
		found, err := helm.Choose(strings.NewReader(text), []helm.Want{w})
		if err != nil || found[w].Version.Version != "1.1.0" || found[w].Version.URL != "y" {
			t.Errorf("%s: %+v, %v", name, found[w], err)
		}
	}
}

// TestWhatIsNoIndexIsAnError: an index that can't be read whole chooses nothing.
func TestWhatIsNoIndexIsAnError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, says string }{
		"a web page":           {"<html><body>\nentries\n</body></html>\n", "not the index"},
		"nothing":              {"", "not the index"},
		"flow entries":         {"entries: {a: [{name: a}]}\n", "does not read"},
		"entries twice":        {"entries:\n  a: []\nentries:\n  a: []\n", "second time"},
		"a scalar for a chart": {"entries:\n  a: b\n", "line 2"},
		"no list":              {"entries:\n  a:\n    name: x\n", "line 3"},
		"crooked":              {"entries:\n    a:\n    - name: a\n  b:\n", "line 4"},
		"json cut":             {`{"entries":{"a":[{"name":"a","version":"1.0.0","urls":["x"]}`, "EOF"},
		"json of another form": {`{"entries":[]}`, "not an object"},
		"a long line":          {"entries:\n  a:\n  - name: " + strings.Repeat("x", 2<<20), "limit"},
		"a long json item":     {`{"entries":{"a":[{"name":"` + strings.Repeat("x", 2<<20) + `"}]}}`, "limit"},
		"deep json":            {`{"entries":{"b":` + strings.Repeat("[", 1000), "levels"},
		"deep json elsewhere":  {`{"a":` + strings.Repeat(`{"a":`, 1000), "levels"},
		"a long item":          {"entries:\n  a:\n  - name: a\n" + strings.Repeat("    x: "+strings.Repeat("y", 1000)+"\n", 2000), "limit"},
	} {
		found, err := helm.Choose(strings.NewReader(tc.text), []helm.Want{{Chart: "a"}})
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, error %v, want one with %q", name, found, err, tc.says)
		}
	}
}

// TestBadEntryIsToldAndInNobodysWay: other versions of the chart are chosen.
func TestBadEntryIsToldAndInNobodysWay(t *testing.T) {
	t.Parallel()
	w := helm.Want{Chart: "a"}
	for name, item := range map[string]string{
		"another name": "  - name: b\n    version: 3.0.0\n    urls: [x]\n",
		"no url":       "  - name: a\n    version: 3.0.0\n",
		"a bad digest": "  - name: a\n    version: 3.0.0\n    urls: [x]\n    digest: abc\n",
		"no version":   "  - name: a\n    urls: [x]\n",
		"bad yaml":     "  - name: a\n    version: 3.0.0\n    urls: [x\n",
		"two versions": "  - name: a\n    version: 3.0.0\n    version: 4.0.0\n    urls: [x]\n",
		"an anchor":    "  - name: a\n    version: 3.0.0\n    urls: *x\n",
	} {
		found, err := helm.Choose(strings.NewReader("entries:\n  a:\n"+item+
			"  - name: a\n    version: 2.0.0\n    urls: [y]\n"), []helm.Want{w})
		if err != nil || found[w].Version.Version != "2.0.0" || found[w].Bad == "" {
			t.Errorf("%s: %+v, %v", name, found[w], err)
		}
	}
}

// endless is an index of many charts, made while it is read.
func endless(charts, versions int) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.WriteString(w, "apiVersion: v1\nentries:\n")
		for c := 0; c < charts && err == nil; c++ {
			_, err = fmt.Fprintf(w, "  chart-%d:\n", c)
			for v := 0; v < versions && err == nil; v++ {
				_, err = fmt.Fprintf(w, "  - apiVersion: v2\n    created: \"2024-05-01T10:00:00Z\"\n    description: %s\n    name: chart-%d\n    urls:\n    - chart-%d-1.%d.0.tgz\n    version: 1.%d.0\n", strings.Repeat("d", 400), c, c, v, v)
			}
		}
		w.CloseWithError(err)
	}()
	return r
}

// TestMemoryOfALargeIndexIsBounded reads 100 MiB.
func TestMemoryOfALargeIndexIsBounded(t *testing.T) {
	w := helm.Want{Chart: "chart-50", Version: "^1"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := helm.Choose(endless(100, 2000), []helm.Want{w})
	runtime.ReadMemStats(&after)
	if err != nil || found[w].Version.Version != "1.1999.0" {
		t.Fatalf("%+v, %v", found[w], err)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// file of a package.
type file struct {
	name, text string
	kind       byte
}

// chartFiles are those of a chart.
func chartFiles(name, version string, more ...file) []file {
	return append([]file{
		{name: name + "/Chart.yaml", text: "apiVersion: v2\nname: " + name + "\nversion: " + version + "\nappVersion: \"1.0\"\n"},
		{name: name + "/values.yaml", text: "a: 1\n"},
		{name: name + "/templates/web.yaml", text: "kind: ConfigMap\n"},
		{name: name + "/templates.txt", text: "sorts between\n"},
		{name: name + "/templates/copy.yaml", text: "kind: ConfigMap\n"},
	}, more...)
}

// pack makes a .tgz.
func pack(t testing.TB, level int, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	gz, _ := gzip.NewWriterLevel(&b, level)
	w := tar.NewWriter(gz)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Size: int64(len(f.text)), Mode: 0o644, Typeflag: tar.TypeReg,
			ModTime: time.Unix(rand.Int64N(1e9), 0),
		}
		if f.kind != 0 {
			h.Typeflag, h.Linkname, h.Size = f.kind, f.text, 0
			f.text = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t testing.TB, tgz []byte, v helm.Version) (*archive.Objects, error) {
	t.Helper()
	c, err := helm.Unpack(t.Context(), bytes.NewReader(tgz), t.TempDir(), v)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// TestChartIsTheSameCommitHoweverItIsPacked: order, compression, times and the top folder don't matter.
func TestChartIsTheSameCommitHoweverItIsPacked(t *testing.T) {
	t.Parallel()
	v := helm.Version{Chart: "web", Version: "1.2.3"}
	files := chartFiles("web", "1.2.3")
	first, err := unpack(t, pack(t, gzip.BestCompression, files...), v)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	for i := range files {
		files[i].name = strings.Replace(files[i].name, "web/", "./other\\", 1)
	}
	second, err := unpack(t, pack(t, gzip.NoCompression, files...), v)
	if err != nil {
		t.Fatal(err)
	}
	if first.Commit != second.Commit {
		t.Errorf("commits %s and %s", first.Commit, second.Commit)
	}
	files[0].text += "more"
	if third, err := unpack(t, pack(t, gzip.BestSpeed, files...), v); err != nil || third.Commit == first.Commit {
		t.Errorf("other content is commit %s, too (%v)", first.Commit, err)
	}
}

// TestGitReadsThePack asks git itself.
func TestGitReadsThePack(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	c, err := unpack(t, pack(t, gzip.BestSpeed, chartFiles("web", "1.2.3", file{name: "web/large.txt", text: strings.Repeat("0123456789", 50_000)}, file{name: "web/empty"})...),
		helm.Version{Chart: "web", Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(stdin io.Reader, args ...string) string {
		cmd := exec.CommandContext(t.Context(), git, args...)
		cmd.Dir, cmd.Stdin = dir, stdin
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir,
			"GIT_CONFIG_GLOBAL="+filepath.Join(dir, "none"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	r, err := c.Pack()
	if err != nil {
		t.Fatal(err)
	}
	run(nil, "init", "--quiet", "--bare", ".")
	run(r, "index-pack", "--strict", "--stdin", "--fsck-objects")
	if got := run(nil, "ls-tree", "-r", "--name-only", c.Commit.String()); got != "Chart.yaml\nempty\nlarge.txt\ntemplates.txt\ntemplates/copy.yaml\ntemplates/web.yaml\nvalues.yaml\n" {
		t.Errorf("the tree is\n%s", got)
	}
	if got := run(nil, "log", "-1", "--format=%s", c.Commit.String()); got != "web 1.2.3 (app 1.0)\n" {
		t.Errorf("the subject is %q", got)
	}
	if got := run(nil, "show", c.Commit.String()+":large.txt"); len(got) != 500_000 {
		t.Errorf("the large file has %d bytes", len(got))
	}
}

// TestHostilePackagesAreRefused in words, and nothing is left of them.
func TestHostilePackagesAreRefused(t *testing.T) {
	t.Parallel()
	v := helm.Version{Chart: "web", Version: "1.2.3"}
	with := func(f ...file) []byte { return pack(t, gzip.BestSpeed, chartFiles("web", "1.2.3", f...)...) }
	many, folders := make([]file, 20_001), make([]file, 1000)
	for i := range many {
		many[i].name = fmt.Sprint("web/f", i)
	}
	for i := range folders {
		folders[i].name = fmt.Sprint("web/f", i, strings.Repeat("/f", 50))
	}
	for name, tc := range map[string]struct {
		tgz  []byte
		says string
	}{
		"a way out":             {with(file{name: "web/../../etc/passwd"}), "leads out"},
		"an absolute path":      {with(file{name: "/etc/passwd"}), "absolute"},
		"a drive":               {with(file{name: `C:\x`}), "absolute"},
		"backslashes":           {with(file{name: `web\..\..\x`}), "leads out"},
		"a symlink":             {with(file{name: "web/x", text: "/etc/passwd", kind: tar.TypeSymlink}), "link"},
		"a hard link":           {with(file{name: "web/x", text: "web/Chart.yaml", kind: tar.TypeLink}), "link"},
		"a device":              {with(file{name: "web/x", kind: tar.TypeChar}), "device"},
		"into .git":             {with(file{name: "web/.GIT/config"}), ".git"},
		"outside of the folder": {with(file{name: "x"}), "outside"},
		"a file twice":          {with(file{name: "web/values.yaml"}), "twice"},
		"a file and a folder":   {with(file{name: "web/values.yaml/x"}), "file and a folder"},
		"a folder and a file":   {with(file{name: "web/templates"}), "twice"},
		"a control character":   {with(file{name: "web/a\nb"}), "characters"},
		"a deep path":           {with(file{name: "web/" + strings.Repeat("a/", 100) + "x"}), "too long"},
		"a large file":          {with(file{name: "web/x", text: strings.Repeat("x", 6<<20)}), "limit of 5 MiB"},
		"many files":            {pack(t, gzip.BestSpeed, many...), "20000 files and folders"},
		"many folders":          {pack(t, gzip.BestSpeed, folders...), "20000 files and folders"},
		"a long Chart.yaml":     {pack(t, gzip.BestSpeed, file{name: "web/Chart.yaml", text: strings.Repeat("#", 2<<20)}), "limit of 1024 KiB"},
		"a bomb":                {pack(t, gzip.BestSpeed, bomb()...), "limit of 100 MiB"},
		"no Chart.yaml":         {pack(t, gzip.BestSpeed, file{name: "web/values.yaml"}), "no Chart.yaml"},
		"another chart":         {pack(t, gzip.BestSpeed, chartFiles("other", "1.2.3")...), `name "other"`},
		"another version":       {pack(t, gzip.BestSpeed, chartFiles("web", "1.2.4")...), `version "1.2.4"`},
		"no gzip":               {[]byte("<html>not here</html>"), "gzip"},
		"no tar":                {gzipped(t, strings.Repeat("x", 2000)), "tar"},
		"cut":                   {with()[:100], "EOF"},
	} {
		dir := t.TempDir()
		c, err := helm.Unpack(t.Context(), bytes.NewReader(tc.tgz), dir, v)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: chart %v, error %v, want one with %q", name, c, err, tc.says)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
}

func bomb() (files []file) {
	text := strings.Repeat("\x00", 5<<20)
	for i := range 30 {
		files = append(files, file{name: fmt.Sprint("web/f", i), text: text})
	}
	return files
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	if _, err := io.WriteString(gz, text); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
