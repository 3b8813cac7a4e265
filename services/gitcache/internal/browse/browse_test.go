package browse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is a gitcache with mirrors of its own.
type replica struct {
	*browse.Browser
	mirrors *mirror.Mirrors
	source  browse.Source
	owned   bool
	away    bool
	asked   int
	owner   *replica
	others  []*replica
}

func newReplica(t testing.TB) *replica {
	t.Helper()
	r := &replica{source: browse.Source{UID: "u1"}}
	var err error
	if r.mirrors, err = mirror.Open(t.TempDir(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.mirrors.Close)
	r.Browser = browse.New(browse.Deps{
		Source:  func(name string) (browse.Source, bool) { return r.source, name == "shop" },
		Mirrors: r.mirrors, Owned: func(string) bool { return r.owned }, Others: fellows{r},
	})
	return r
}

// fetch brings all of a repository, as an owner has it.
func (r *replica) fetch(t testing.TB, repo *gittest.Repo, refs ...string) {
	t.Helper()
	m, err := r.mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	pack, err := exec.CommandContext(context.Background(), "git", "-C", repo.URLOnDisk(), "pack-objects",
		"--all", "--stdout", "--quiet").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AddPack(context.Background(), bytes.NewReader(pack)); err != nil {
		t.Fatal(err)
	}
	heads := map[string]mirror.Head{}
	for _, ref := range append(refs, "HEAD") {
		heads[ref] = mirror.Head{Ref: ref, Commit: git.HashOf(repo.Bare("rev-parse", ref+"^{commit}"))}
	}
	if err := m.SetHeads(heads); err != nil {
		t.Fatal(err)
	}
}

type fellows struct{ r *replica }

func (f fellows) Owner(context.Context, string) (browse.Peer, bool) {
	return fellow{f.r.owner}, f.r.owner != nil
}

func (f fellows) All() []browse.Peer {
	var all []browse.Peer
	for _, o := range f.r.others {
		all = append(all, fellow{o})
	}
	return all
}

// fellow is another replica at the other end of a wire that may be cut.
type fellow struct{ *replica }

var errAway = errors.New("connection refused")

func (f fellow) ask() error {
	f.asked++
	if f.away {
		return errAway
	}
	return nil
}

func (f fellow) Commits(ctx context.Context, p browse.Place, page browse.Page) (browse.Commits, error) {
	if err := f.ask(); err != nil {
		return browse.Commits{}, err
	}
	return f.Browser.Commits(ctx, p, page, true)
}

func (f fellow) Tree(ctx context.Context, p browse.Place, page browse.Page) (browse.Listing, error) {
	if err := f.ask(); err != nil {
		return browse.Listing{}, err
	}
	return f.Browser.Tree(ctx, p, page, true)
}

func (f fellow) File(ctx context.Context, p browse.Place) (browse.File, error) {
	if err := f.ask(); err != nil {
		return browse.File{}, err
	}
	return f.Browser.File(ctx, p, true)
}

func at(revision, path string) browse.Place {
	return browse.Place{Source: "shop", Revision: revision, Path: path}
}

func wantError(t *testing.T, err error, reason refusal.Reason, words ...string) {
	t.Helper()
	if !refusal.Is(err, reason) {
		t.Fatalf("got %v, want reason %d", err, reason)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func subjects(c browse.Commits) (out []string) {
	for _, c := range c.Commits {
		out = append(out, c.Subject)
	}
	return out
}

func TestHistoryComesInPagesAlongFirstParents(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	for i := range 5 {
		repo.Commit(fmt.Sprint("commit ", i), gittest.Files{"a": fmt.Sprint(i)})
	}
	repo.Work("checkout", "-q", "-b", "side", "HEAD~2")
	repo.Work("commit", "-q", "--allow-empty", "-m", "aside")
	repo.Work("checkout", "-q", "main")
	repo.Work("merge", "-q", "--no-ff", "-m", "merge", "side")
	repo.Push()
	r := newReplica(t)
	r.fetch(t, repo, "refs/heads/main")

	var got []string
	for page := (browse.Page{Size: 4}); ; {
		c, err := r.Commits(t.Context(), at("main", ""), page, false)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, subjects(c)...)
		if c.Next == "" {
			break
		}
		page.Token = c.Next
	}
	if want := []string{"merge", "commit 4", "commit 3", "commit 2", "commit 1", "commit 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	first, err := r.Commits(t.Context(), at("main", ""), browse.Page{Size: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	c := first.Commits[0]
	if c.Author != "Ada" || c.Time.IsZero() || c.ID.String() != repo.Work("rev-parse", "HEAD") {
		t.Errorf("got %+v", c)
	}
	_, err = r.Commits(t.Context(), at("HEAD", ""), browse.Page{Size: 1, Token: first.Next}, false)
	wantError(t, err, refusal.Invalid, "page_token")
	for _, token := range []string{"x", "AAAA", strings.Repeat("A", 43)} {
		_, err = r.Commits(t.Context(), at("main", ""), browse.Page{Size: 1, Token: token}, false)
		wantError(t, err, refusal.Invalid)
	}
}

func TestHistoryOfAFolderHasTheCommitsThatChangeItAndEndsWhereAsked(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	repo.Commit("other, before", gittest.Files{"b/x": "0"})
	first := repo.Commit("one", gittest.Files{"a/x": "1"})
	repo.Commit("other", gittest.Files{"b/x": "1"})
	repo.Commit("two", gittest.Files{"a/y": "1"})
	repo.Commit("other again", gittest.Files{"b/x": "2"})
	repo.Commit("three", gittest.Files{"a/x": "3"})
	elsewhere := repo.Work("commit-tree", "HEAD^{tree}", "-m", "elsewhere")
	r := newReplica(t)
	r.fetch(t, repo, "refs/heads/main")
	for name, want := range map[string]struct {
		path, until string
		subjects    []string
		reached     bool
	}{
		"since the first":           {"a", first, []string{"three", "two"}, true},
		"all of the folder":         {"a", "", []string{"three", "two", "one"}, false},
		"all of the source":         {"", first, []string{"three", "other again", "two", "other"}, true},
		"no such folder":            {"c", first, nil, true},
		"a commit of another line":  {"a", elsewhere, []string{"three", "two", "one"}, false},
		"the newest, nothing since": {"a", repo.Work("rev-parse", "HEAD"), nil, true},
	} {
		place := at("main", want.path)
		place.Until = want.until
		var got []string
		for page := (browse.Page{Size: 1}); ; {
			c, err := r.Commits(t.Context(), place, page, false)
			if err != nil {
				t.Fatal(name, err)
			}
			if got = append(got, subjects(c)...); c.Next == "" {
				if c.Reached != want.reached {
					t.Errorf("%s: reached is %v", name, c.Reached)
				}
				break
			}
			page.Token = c.Next
		}
		if !slices.Equal(got, want.subjects) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestRevisionsAreAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	old := repo.Commit("old", nil)
	repo.Work("tag", "-a", "-m", "release", "v1")
	repo.Work("push", "-q", repo.URLOnDisk(), "v1")
	repo.Commit("new", nil)
	r := newReplica(t)
	r.fetch(t, repo, "refs/heads/main", "refs/tags/v1", "refs/tags/v1^{}")
	m, err := r.mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	heads := m.Heads()
	heads["semver:^1"] = mirror.Head{Ref: "semver:^1", Commit: git.HashOf(old)}
	if err := m.SetHeads(heads); err != nil {
		t.Fatal(err)
	}
	for revision, want := range map[string]string{
		"": "new", "HEAD": "new", "main": "new", "refs/heads/main": "new", "refs/tags/v1": "old", "semver:^1": "old",
		old: "old", strings.ToUpper(old): "old", old[:8]: "old", old[:39]: "old",
	} {
		c, err := r.Commits(t.Context(), at(revision, ""), browse.Page{Size: 1}, false)
		if err != nil || c.Commits[0].Subject != want {
			t.Errorf("%q: got %q, %v", revision, subjects(c), err)
		}
	}
	r.owned = true
	for _, revision := range []string{"v1", "next", old[:6], "refs/tags/v2", "../x", "ffffffff"} {
		_, err := r.Commits(t.Context(), at(revision, ""), browse.Page{Size: 1}, false)
		wantError(t, err, refusal.NotFound, fmt.Sprintf("%q", revision), "HEAD, refs/heads/main, refs/tags/v1")
		if !browse.IsNoRevision(err) {
			t.Errorf("%q is taken for a revision that is here", revision)
		}
	}
	_, err = r.Commits(t.Context(), at(strings.Repeat("f", 40), ""), browse.Page{Size: 1}, false)
	wantError(t, err, refusal.Unavailable, "ffffffff")
	_, err = r.Commits(t.Context(), browse.Place{Source: "nope"}, browse.Page{Size: 1}, false)
	wantError(t, err, refusal.NotFound, `source "nope" is not in the catalog`)
}

// The id of what is no commit is a mistake of who asks, and no fault of the mirror: nobody else is asked.
func TestARevisionThatIsNoCommitIsRefused(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	file := repo.Object("blob", []byte("hello"))
	folder := repo.Tree(gittest.TreeEntry{Mode: "100644", Name: "file", ID: file})
	repo.SetMain(folder)
	r, other := newReplica(t), newReplica(t)
	r.fetch(t, repo)
	r.owner, r.others = other, []*replica{other}
	for _, id := range []string{file, folder} {
		_, err := r.Tree(t.Context(), at(id, ""), browse.Page{Size: 1}, false)
		wantError(t, err, refusal.NotFound, "Name a commit")
	}
	if other.asked != 0 {
		t.Errorf("others were asked %d times", other.asked)
	}
}

func TestFoldersShowWhatTheyHold(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	file := repo.Object("blob", []byte("hello"))
	target := repo.Object("blob", []byte("../elsewhere"))
	inner := repo.Tree(gittest.TreeEntry{Mode: "100644", Name: "deep", ID: file})
	commit := repo.SetMain(repo.Tree(
		gittest.TreeEntry{Mode: "100644", Name: "file", ID: file},
		gittest.TreeEntry{Mode: "40000", Name: "folder", ID: inner},
		gittest.TreeEntry{Mode: "120000", Name: "link", ID: target},
		gittest.TreeEntry{Mode: "160000", Name: "module", ID: strings.Repeat("a", 40)},
		gittest.TreeEntry{Mode: "100755", Name: "program", ID: file},
	))
	r := newReplica(t)
	r.fetch(t, repo)
	l, err := r.Tree(t.Context(), at("", ""), browse.Page{Size: 10}, false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range l.Entries {
		got = append(got, fmt.Sprint(e.Name, " ", e.Kind, " ", e.Size))
	}
	want := []string{
		fmt.Sprint("file ", tree.File, " 5"), fmt.Sprint("folder ", tree.Folder, " 0"),
		fmt.Sprint("link ", tree.Link, " 12"),
		fmt.Sprint("module ", tree.Submodule, " 0"), fmt.Sprint("program ", tree.Executable, " 5"),
	}
	if !slices.Equal(got, want) || l.Commit.ID.String() != commit || l.Commit.Subject != "by hand" || l.Next != "" {
		t.Errorf("got %q of %v", got, l.Commit)
	}
	if l, err = r.Tree(t.Context(), at("", "folder"), browse.Page{Size: 10}, false); err != nil ||
		len(l.Entries) != 1 || l.Entries[0].Name != "deep" {
		t.Errorf("got %+v, %v", l, err)
	}
	for path, words := range map[string]string{
		"nope": `no folder "nope"`, "file": `no folder "file"`, "file/x": "no folder", "module": "submodule",
		"/folder": "slashes", "folder/": "slashes",
		"a/../b": "dots", "..": "dots", "folder//deep": "slashes",
	} {
		_, err := r.Tree(t.Context(), at("", path), browse.Page{Size: 10}, false)
		wantError(t, err, refusal.NotFound, words)
		if browse.IsNoRevision(err) {
			t.Errorf("%v is taken for a revision that is not here", err)
		}
	}
	for path, content := range map[string]string{
		"file": "hello", "folder/deep": "hello", "link": "../elsewhere",
		"program": "hello",
	} {
		f, err := r.File(t.Context(), at("", path), false)
		if err != nil || string(f.Content) != content || f.Entry.Size != int64(len(content)) ||
			f.Commit.ID.String() != commit {
			t.Errorf("%s: got %+v, %v", path, f, err)
		}
	}
	for path, words := range map[string]string{
		"nope": `no file "nope"`, "folder": "a folder at", "module": "a submodule at", "nope/x": `no folder "nope"`,
		"file/x": `no folder "file"`,
	} {
		_, err := r.File(t.Context(), at("", path), false)
		wantError(t, err, refusal.NotFound, words, commit[:8])
	}
}

func TestPagesOfAFolderAreOfOneCommit(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	files := gittest.Files{}
	for i := range 10 {
		files[fmt.Sprintf("f%d", i)] = "x"
	}
	repo.Commit("ten", files)
	r := newReplica(t)
	r.fetch(t, repo)
	first, err := r.Tree(t.Context(), at("", ""), browse.Page{Size: 6}, false)
	if err != nil || len(first.Entries) != 6 {
		t.Fatalf("got %+v, %v", first, err)
	}
	repo.Commit("eleven", gittest.Files{"a": "x"})
	r.fetch(t, repo)
	second, err := r.Tree(t.Context(), at("", ""), browse.Page{Size: 6, Token: first.Next}, false)
	if err != nil || len(second.Entries) != 4 || second.Entries[0].Name != "f6" || second.Next != "" ||
		second.Commit.Subject != "ten" {
		t.Errorf("got %+v, %v", second, err)
	}
}

func TestFilesAreShownByteByByteUpToALimit(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	binary := string([]byte{0, 255, '\r', '\n', 27, '[', 0x80})
	repo.Commit("files", gittest.Files{
		"binary": binary, "empty": "", "most": strings.Repeat("x", browse.MaxFileBytes),
		"more": strings.Repeat("x", browse.MaxFileBytes+1),
	})
	r := newReplica(t)
	r.fetch(t, repo)
	for path, want := range map[string]string{
		"binary": binary, "empty": "",
		"most": strings.Repeat("x", browse.MaxFileBytes),
	} {
		f, err := r.File(t.Context(), at("", path), false)
		if err != nil || string(f.Content) != want {
			t.Errorf("%s: %d bytes, %v", path, len(f.Content), err)
		}
	}
	_, err := r.File(t.Context(), at("", "more"), false)
	wantError(t, err, refusal.Exhausted, "1048577 bytes", `"more"`)
}

func TestWhatIsNotHereIsAskedOfTheOwnerThenOfOthers(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	repo.Commit("one", gittest.Files{"a": "hello"})
	r, owner, third := newReplica(t), newReplica(t), newReplica(t)
	r.owner, r.others, owner.owned = owner, []*replica{owner, third}, true
	r.source.Problem = "the Git host does not answer"
	owner.fetch(t, repo, "refs/heads/main")

	ask := func() (string, error) {
		f, err := r.File(t.Context(), at("main", "a"), false)
		return string(f.Content), err
	}
	if got, err := ask(); got != "hello" || err != nil || third.asked != 0 {
		t.Errorf("got %q, %v", got, err)
	}
	// The owner's answer about the content is final.
	_, err := r.File(t.Context(), at("main", "b"), false)
	wantError(t, err, refusal.NotFound, `no file "b"`)
	if third.asked != 0 {
		t.Error("another one was asked")
	}
	owner.away = true
	third.fetch(t, repo, "refs/heads/main")
	if got, err := ask(); got != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	third.away = true
	_, err = ask()
	wantError(t, err, refusal.Unavailable, `revision "main" of source "shop" is not here`, "does not answer")
	// A published head is known by its commit, and asked for from a copy that is not whole yet.
	r.source.Heads = []mirror.Head{{Ref: "refs/heads/main", Commit: git.HashOf(repo.Bare("rev-parse", "main"))}}
	third.away = false
	if got, err := ask(); got != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	// A replica that is asked by another one asks nobody.
	asked := owner.asked
	_, err = r.File(t.Context(), at("main", "a"), true)
	wantError(t, err, refusal.Unavailable)
	if owner.asked != asked {
		t.Error("a forwarded question went on")
	}
}

func TestADamagedMirrorIsDoubtedAndAnotherIsAsked(t *testing.T) {
	t.Parallel()
	repo := gittest.NewServer(t).NewRepo(t, "x.git")
	repo.Commit("one", gittest.Files{"a": strings.Repeat("hello", 1000)})
	r, owner := newReplica(t), newReplica(t)
	r.owner = owner
	r.fetch(t, repo, "refs/heads/main")
	owner.fetch(t, repo, "refs/heads/main")
	m, err := r.mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(m.ObjectsDir(), "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	b, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 12; i < len(b)-20; i++ {
		b[i] ^= 0x55
	}
	if err := os.Chmod(packs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packs[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := r.File(t.Context(), at("main", "a"), false)
	if err != nil || len(f.Content) != 5000 || !m.Doubted() {
		t.Errorf("%d bytes, %v, doubted %v", len(f.Content), err, m.Doubted())
	}
}

func FuzzPageToken(f *testing.F) {
	repo := gittest.NewServer(f).NewRepo(f, "x.git")
	repo.Commit("one", gittest.Files{"a": "x", "b": "x"})
	r := newReplica(f)
	r.fetch(f, repo)
	first, err := r.Tree(context.Background(), at("", ""), browse.Page{Size: 1}, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(first.Next)
	f.Fuzz(func(t *testing.T, token string) {
		l, err := r.Tree(t.Context(), at("", ""), browse.Page{Size: 1, Token: token}, false)
		if err == nil && len(l.Entries) > 1 {
			t.Errorf("%d entries", len(l.Entries))
		}
	})
}
