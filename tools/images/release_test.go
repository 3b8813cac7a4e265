package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// repository is a Git repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "text")
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "file"},
		{
			"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet",
			"--message", "first",
		},
	} {
		git(t, dir, args...)
	}
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git",
		append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseIsOfATaggedCommitOnly(t *testing.T) {
	t.Parallel()
	tag := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			for _, name := range names {
				git(t, dir, "-c", "tag.gpgsign=false", "tag", name)
			}
		}
	}
	change := func(t *testing.T, dir string) {
		t.Helper()
		put(t, filepath.Join(dir, "file"), "other")
	}
	for name, c := range map[string]struct {
		prepare []func(t *testing.T, dir string)
		try     bool
		want    string // version, or a part of the error
	}{
		"tag":                 {prepare: []func(*testing.T, string){tag("v1.2.3")}, want: "v1.2.3"},
		"tag of a candidate":  {prepare: []func(*testing.T, string){tag("v1.2.3-rc.1")}, want: "v1.2.3-rc.1"},
		"another tag besides": {prepare: []func(*testing.T, string){tag("v1.2.3", "latest")}, want: "v1.2.3"},
		"no tag":              {want: "has no tag such as v1.2.3"},
		"a tag of no version": {prepare: []func(*testing.T, string){tag("v1.2")}, want: "has no tag such as v1.2.3"},
		"two versions": {
			prepare: []func(*testing.T, string){tag("v1.2.3", "v1.2.4")}, want: "has the tags v1.2.3, v1.2.4",
		},
		"changes": {
			prepare: []func(*testing.T, string){tag("v1.2.3"), change}, want: " M file\n`make release ARGS=-try`",
		},
		"try without a tag": {try: true, want: "v0.0.0-try-"},
		"try with changes":  {prepare: []func(*testing.T, string){change}, try: true, want: ".changed"},
		"no repository at all": {
			prepare: []func(*testing.T, string){
				func(t *testing.T, dir string) { t.Helper(); _ = os.RemoveAll(filepath.Join(dir, ".git")) },
			},
			want: "is no checkout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t)
			for _, prepare := range c.prepare {
				prepare(t, dir)
			}
			s, err := releaseSource(t.Context(), dir, c.try)
			got := s.version
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) || (err == nil) != strings.HasPrefix(got, "v") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPartsAreLeftOutOfATryOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-platforms", "linux/amd64"}, "are for -try"},
		{[]string{"-charts"}, "are for -try"},
		{[]string{"-try", "-platforms", "darwin/arm64"}, "one of these is needed"},
	} {
		if err := runRelease(t.Context(), append(c.args, "-root", repository(t), "-out", t.TempDir()),
			io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	t.Parallel()
	const text = "# Changelog\n\n## Unreleased\n\n- new\n\n## [1.2.3] - 2026-11-22\n\n### Added\n- this\n\n## v1.2.2\n- that\n\n## 1.2.1\n"
	for wanted, want := range map[string]string{
		"Unreleased": "- new", "1.2.3": "### Added\n- this", "1.2.2": "- that", "1.2.1": "", "1.2": "",
	} {
		if got := changelogSection(text, wanted); got != want {
			t.Errorf("%s: got %q, want %q", wanted, got, want)
		}
	}
}

// smallRelease makes a release of one service for one platform.
func smallRelease(t *testing.T, folder, key string) string {
	t.Helper()
	r := release{
		source: checkout(t, folder), stdout: io.Discard, dir: t.TempDir(), work: t.TempDir(), key: key,
		builder: "https://builds.example.com",
		images:  []image{named(t, "tunnel")}, services: []platform{thisPlatform()}, began: time.Now().UTC(),
	}
	if err := r.fill(t.Context(), "# Notes\n"); err != nil {
		t.Fatal(err)
	}
	return r.dir
}

func contentsOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestReleaseIsTwiceTheSameButForSignaturesAndProvenance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		key).CombinedOutput(); err != nil {
		t.Fatalf("make a key: %v: %s", err, out)
	}
	first, second := smallRelease(t, "here", key), smallRelease(t, "somewhere-else", key)
	files, again := contentsOf(t, first), contentsOf(t, second)
	base := "fairlead-services-v1.2.3-linux-" + thisPlatform().arch
	want := []string{
		"SHA256SUMS", "SHA256SUMS.sig", "fairlead-agent-v1.2.3.tgz", "fairlead-bundle-v1.2.3.tar",
		"fairlead-hub-v1.2.3.tgz",
		base + ".spdx.json", base + ".tar.gz", "notes.md", "provenance.json", "provenance.json.sig",
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Fatalf("the release has %v, want %v", got, want)
	}
	for name, content := range files {
		if !bytes.Equal(content, again[name]) && !strings.HasPrefix(name, "provenance.json") &&
			!strings.HasSuffix(name, ".sig") {
			t.Errorf("%s differs", name)
		}
	}
	checkVerifies(t, first, key)
	checkProvenance(t, files)
	checkChart(t, files, "fairlead-hub", "console.yaml")
	checkChart(t, files, "fairlead-agent", "statefulset.yaml")
	checkArchive(t, files[base+".tar.gz"], base)
	checkBundle(t, files)
}

// checkVerifies runs the commands of docs/operate/release.md.
func checkVerifies(t *testing.T, dir, key string) {
	t.Helper()
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "allowed_signers"), "release@example.com "+string(public))
	const verify = `sha256sum --check --quiet SHA256SUMS
for file in SHA256SUMS provenance.json; do
  ssh-keygen -Y verify -f allowed_signers -I release@example.com -n fairlead-release -s $file.sig < $file
done`
	run := func() ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", verify)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if out, err := run(); err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
	put(t, filepath.Join(dir, "notes.md"), "other notes")
	if out, err := run(); err == nil {
		t.Errorf("a changed file is verified: %s", out)
	}
}

func checkProvenance(t *testing.T, files map[string][]byte) {
	t.Helper()
	var doc statement
	if err := json.Unmarshal(files[provenanceFile], &doc); err != nil {
		t.Fatal(err)
	}
	sums := string(files[sumsFile])
	for _, s := range doc.Subject {
		if s.Name != sumsFile && !strings.Contains(sums, s.Digest["sha256"]+"  "+s.Name+"\n") {
			t.Errorf("%s has another checksum in the provenance", s.Name)
		}
	}
	if len(doc.Subject) != len(files)-3 || doc.Predicate.Definition.Dependencies[0].Digest["gitCommit"] != "abc" ||
		doc.Predicate.Run.Builder.ID != "https://builds.example.com" {
		t.Errorf("provenance: %+v", doc)
	}
}

// unpack returns the files of a compressed tar.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

func checkChart(t *testing.T, release map[string][]byte, name, template string) {
	t.Helper()
	files := unpack(t, release[name+"-v1.2.3.tgz"])
	about := files[name+"/Chart.yaml"]
	if !strings.Contains(about, "\nversion: v1.2.3\n") || !strings.Contains(about, "appVersion: v1.2.3\n") ||
		files[name+"/values.yaml"] == "" || files[name+"/templates/"+template] == "" {
		t.Errorf("%s has %v, and\n%s", name, slices.Sorted(maps.Keys(files)), about)
	}
}

func checkArchive(t *testing.T, archive []byte, base string) {
	t.Helper()
	files := unpack(t, archive)
	if files[base+"/LICENSE"] == "" {
		t.Errorf("the archive has %v", slices.Sorted(maps.Keys(files)))
	}
	tunnel := filepath.Join(t.TempDir(), "tunnel")
	if err := os.WriteFile(tunnel, []byte(files[base+"/tunnel"]), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), tunnel, "--version").Output(); err != nil ||
		string(out) != "tunnel v1.2.3\n" {
		t.Errorf("its version is %q, %v", out, err)
	}
}

func checkBundle(t *testing.T, files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(files["fairlead-bundle-v1.2.3.tar"])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list.Manifests {
		names = append(names, d.Annotations[refName])
		if !strings.Contains(string(files[notesFile]), d.Digest.String()) {
			t.Errorf("the notes don't have the digest of %s", d.Annotations[refName])
		}
	}
	if !slices.Equal(names, []string{"tunnel:v1.2.3", "charts/fairlead-hub:v1.2.3", "charts/fairlead-agent:v1.2.3"}) {
		t.Errorf("the bundle has %v", names)
	}
}

func TestPagesListWhatTheirLockHasButTools(t *testing.T) {
	t.Parallel()
	packages, err := source{root: "../.."}.pagePackages()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range packages {
		found[p.Name] = p.Refs[0].Locator
	}
	if !strings.HasPrefix(found["react"], "pkg:npm/react@") ||
		!strings.HasPrefix(found["@connectrpc/connect"], "pkg:npm/%40connectrpc/connect@") || found["vite"] != "" {
		t.Errorf("packages: %v", found)
	}
}
