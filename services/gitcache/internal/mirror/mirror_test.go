package mirror_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *mirror.Mirror {
	t.Helper()
	all, err := mirror.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	m, err := all.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// packOf is a pack with all of a repository, as Git makes it.
func packOf(t *testing.T, repo *gittest.Repo) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "-C", repo.URLOnDisk(), "pack-objects",
		"--all", "--stdout", "--quiet")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAPackIsReadBackWithDeltas(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	text := strings.Repeat("a line of some length that repeats\n", 500)
	repo.Commit("one", gittest.Files{"a": text})
	id := repo.Commit("two", gittest.Files{"a": text + "and more\n"})
	m := open(t, t.TempDir())
	pack := packOf(t, repo)
	n, err := m.AddPack(t.Context(), bytes.NewReader(pack))
	if err != nil || n != int64(len(pack)) {
		t.Fatalf("added %d of %d bytes: %v", n, len(pack), err)
	}
	if _, err := m.AddPack(t.Context(), bytes.NewReader(pack)); err != nil {
		t.Errorf("the same pack again: %v", err)
	}
	o := m.Objects()
	defer o.Close()
	for _, commit := range []string{id, repo.Bare("rev-parse", id+"^")} {
		want := repo.Bare("cat-file", "blob", commit+":a")
		got, err := o.Read(git.Blob, git.HashOf(repo.Bare("rev-parse", commit+":a")), 1<<20)
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %d bytes, %v", commit, len(got), err)
		}
	}
	if _, err := o.Read(git.Blob, git.HashOf(repo.Bare("rev-parse", id+":a")), 10); !errors.Is(err, mirror.ErrTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := o.Read(git.Blob, git.Hash{1}, 10); !errors.Is(err, mirror.ErrMissing) {
		t.Errorf("missing: %v", err)
	}
}

// TestADamagedPackIsNotTaken flips every part of a pack: header, objects, checksum.
func TestADamagedPackIsNotTaken(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	repo.Commit("one", gittest.Files{"a": "1"})
	good := packOf(t, repo)
	dir := t.TempDir()
	m := open(t, dir)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0xff
		if _, err := m.AddPack(t.Context(), bytes.NewReader(bad)); err == nil {
			t.Errorf("taken with byte %d wrong", i)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "u1", "repo.git", "objects", "pack", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestHeadsAreThereAfterAReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().UTC().Truncate(time.Microsecond)
	h := mirror.Head{
		Ref: "refs/heads/a/../..", Object: git.Hash{1}, Commit: git.Hash{2},
		CommitTime: now.Truncate(time.Second),
		Subject:    "s", Author: "a", Traceparent: "t", FetchTime: now,
		Submodules: []git.Hash{{3}},
	}
	if err := open(t, dir).SetHeads(map[string]mirror.Head{h.Ref: h}); err != nil {
		t.Fatal(err)
	}
	if got, ok := open(t, dir).Head(h.Ref); !ok || !got.Equal(h) {
		t.Errorf("got %+v", got)
	}
}

func TestWhatAKilledProcessLeftIsSwept(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	dir := t.TempDir()
	if _, err := open(t, dir).AddPack(t.Context(), bytes.NewReader(packOf(t, repo))); err != nil {
		t.Fatal(err)
	}
	packs := filepath.Join(dir, "u1", "repo.git", "objects", "pack")
	for path, content := range map[string]string{
		filepath.Join(packs, "tmp_pack_1"):                           "half",
		filepath.Join(packs, "pack-"+strings.Repeat("0", 40)+".idx"): "no pack",
		filepath.Join(dir, "u1", "tmp_2"):                            "half",
		filepath.Join(dir, "u1", "heads.json"):                       "[{",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, dir)
	o := m.Objects()
	defer o.Close()
	if _, err := o.Commit(git.HashOf(id)); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(packs, "*"))
	if len(left) != 2 {
		t.Errorf("left: %q", left)
	}
}

func TestADoubtOutlivesTheProcessAndAFreshCloneEndsIt(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	dir := t.TempDir()
	open(t, dir).Doubt(mirror.ErrCorrupt)
	m := open(t, dir)
	if !m.Doubted() {
		t.Fatal("the doubt is forgotten")
	}
	fresh, err := m.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.AddPack(t.Context(), bytes.NewReader(packOf(t, repo))); err != nil {
		t.Fatal(err)
	}
	before := m.Objects()
	if before.Has(id) {
		t.Error("the clone is seen before it is used")
	}
	before.Close()
	if err := fresh.Use(); err != nil {
		t.Fatal(err)
	}
	o := m.Objects()
	defer o.Close()
	if m.Doubted() || open(t, dir).Doubted() || !o.Has(id) {
		t.Error("the clone is not in use")
	}
}

// A person deletes the folder of mirrors under a gitcache that runs.
func TestAFolderThatWasDeletedIsMadeAgainAndCloned(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mirrors")
	all := openAll(t, dir)
	u, m := newUpstream(t, 1), mirrorOf(t, all, "u1")
	u.fetch(m, 0, 1)
	if err := m.RemakeFolder(); err != nil || m.Doubted() {
		t.Fatalf("a folder that is there: doubted is %t, %v", m.Doubted(), err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.RemakeFolder(); err != nil || !m.Doubted() {
		t.Fatalf("doubted is %t, %v", m.Doubted(), err)
	}
	fresh, err := m.Fresh()
	if err == nil {
		err = fresh.Use()
	}
	if err != nil {
		t.Fatal(err)
	}
	u.fetch(m, 0, 1)
	if err := u.everything(m, 1); err != nil {
		t.Error(err)
	}
	if err := all.Remove("u1"); err != nil {
		t.Fatal(err)
	}
	if err := m.RemakeFolder(); err != nil || all.Exists("u1") {
		t.Errorf("a mirror that was removed comes back: %v", err)
	}
	if _, err := m.Fresh(); err == nil || all.Exists("u1") {
		t.Errorf("a clone of a mirror that was removed: %v", err)
	}
	if _, err := m.AddPart(t.Context(), strings.NewReader("")); err == nil || all.Exists("u1") {
		t.Errorf("a copy of a mirror that was removed: %v", err)
	}
}

// TestWhatIsOfTheWrongKindIsNoDamage: upstream made it so, and would again.
func TestWhatIsOfTheWrongKindIsNoDamage(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	blob := repo.Object("blob", []byte("x"))
	tree := repo.Tree(gittest.TreeEntry{Mode: "40000", Name: "folder", ID: blob})
	commit := git.HashOf(repo.SetMain(tree))
	m := open(t, t.TempDir())
	tools := &upstream{t: t}
	pack := tools.git([]byte(commit.String()+"\n"+tree+"\n"+blob+"\n"), "-C", repo.URLOnDisk(), "pack-objects",
		"--stdout", "--quiet")
	if _, err := m.AddPack(t.Context(), bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
	o := m.Objects()
	defer o.Close()
	for kind, id := range map[git.Kind]string{
		git.Tree: blob, git.Commit: tree,
		git.Blob: commit.String(),
	} {
		if _, err := o.Read(kind, git.HashOf(id), 1<<20); !errors.Is(err, mirror.ErrKind) ||
			errors.Is(err, mirror.ErrCorrupt) {
			t.Errorf("%s %s: %v", kind, id, err)
		}
	}
	h := mirror.Head{Ref: "HEAD", Object: commit, Commit: commit}
	if err := m.SetHeads(map[string]mirror.Head{h.Ref: h}); err != nil {
		t.Fatal(err)
	}
	m.Doubt(mirror.ErrCorrupt)
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("checked: %v", err)
	}
}

// backdate makes a mirror whose source is gone one that is for so long.
func backdate(t *testing.T, dir string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(filepath.Join(dir, "gone"), then, then); err != nil {
		t.Fatal(err)
	}
}

func TestMirrorsOfSourcesThatAreGoneStayForSomeHours(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".gone-of-a-killed-process", "repo.git"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := mirror.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	disk := 0.5
	all.MeasureFree(func(string) float64 { return disk })
	for _, uid := range []string{"u1", "u2", "u3", "../../escape", ""} {
		if _, err := all.Mirror(uid); err != nil {
			t.Fatalf("%q: %v", uid, err)
		}
	}
	keep := func(wantRemoved, wantWaiting, wantLeft int, uids ...string) {
		t.Helper()
		wanted := map[string]bool{}
		for _, uid := range uids {
			wanted[uid] = true
		}
		if removed, waiting, err := all.Keep(wanted); removed != wantRemoved || waiting != wantWaiting || err != nil {
			t.Errorf("removed %d, %d wait, %v", removed, waiting, err)
		}
		if left, err := os.ReadDir(dir); len(left) != wantLeft || err != nil {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	keep(1, 5, 5) // the catalog is empty all of a sudden: only what a killed process left goes
	backdate(t, filepath.Join(dir, "u1"), 7*time.Hour)
	backdate(t, filepath.Join(dir, "u2"), 7*time.Hour)
	keep(1, 2, 4, "u1", "../../escape") // u1 came back in time
	if all.Exists("u2") || !all.Exists("u1") || !all.Exists("u3") || !all.Exists("") {
		t.Errorf("u2 stays, or another went")
	}
	keep(0, 3, 4, "../../escape")
	backdate(t, filepath.Join(dir, "u1"), 5*time.Hour)
	keep(0, 3, 4, "../../escape")
	disk = 0.01
	keep(3, 0, 1, "../../escape")
	if up, _ := os.ReadDir(filepath.Dir(filepath.Dir(dir))); strings.Contains(strings.Join(names(up), " "), "escape") {
		t.Error("a mirror was made outside of the folder")
	}
}

func names(entries []os.DirEntry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestARemovedMirrorIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := openAll(t, dir)
	u := newUpstream(t, 1)
	m := mirrorOf(t, all, "u1")
	u.fetch(m, 0, 1)
	for range 2 {
		if err := all.Remove("u1"); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := u.everything(m, 1); !errors.Is(err, mirror.ErrMissing) {
		t.Errorf("read from what is gone: %v", err)
	}
	u.fetch(mirrorOf(t, all, "u1"), 0, 1)
}

// TestAKillBetweenTheRenamesOfACloneLosesNothing.
func TestAKillBetweenTheRenamesOfACloneLosesNothing(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 5)
	for _, left := range []string{"fresh.git", "old.git"} {
		dir := t.TempDir()
		u.fetch(open(t, dir), 0, 5)
		if err := os.Rename(filepath.Join(dir, "u1", "repo.git"), filepath.Join(dir, "u1", left)); err != nil {
			t.Fatal(err)
		}
		if err := u.everything(open(t, dir), 5); err != nil {
			t.Errorf("with %s: %v", left, err)
		}
	}
}

func TestATornConfigOfARepositoryIsWrittenAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	path := filepath.Join(dir, "u1", "repo.git", "config")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change(t, path, func(b []byte) []byte { return b[:len(b)/2] })
	open(t, dir)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("it holds %q, %v", got, err)
	}
}
