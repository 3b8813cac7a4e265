package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// upstream is a repository with a long history, made quickly.
type upstream struct {
	t       testing.TB
	dir     string
	commits []string // oldest first
}

// newUpstream makes a repository of n commits. Each changes one of few files, which are in folders.
func newUpstream(t testing.TB, n int) *upstream {
	t.Helper()
	u := &upstream{t: t, dir: filepath.Join(t.TempDir(), "up.git")}
	u.git(nil, "init", "--quiet", "--bare", "--initial-branch=main", u.dir)
	var b bytes.Buffer
	line := strings.Repeat("a line of some length that repeats\n", 100)
	for i := range n {
		subject, content := fmt.Sprint("commit ", i), fmt.Sprint(line, i, "\n")
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter Ada <ada@example.com> %d +0000\ndata %d\n%s\n",
			1_700_000_000+60*i, len(subject), subject)
		fmt.Fprintf(&b, "M 100644 inline svc%d/deploy/app.yaml\ndata %d\n%s\n", i%7, len(content), content)
	}
	u.git(b.Bytes(), "--git-dir", u.dir, "fast-import", "--quiet")
	u.commits = strings.Fields(string(u.git(nil, "--git-dir", u.dir, "rev-list", "--reverse", "main")))
	return u
}

func (u *upstream) git(stdin []byte, args ...string) []byte {
	u.t.Helper()
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
	}
	out, err := cmd.Output()
	if err != nil {
		u.t.Fatalf("git %s: %v", args, err)
	}
	return out
}

// commit returns the id of the i-th commit.
func (u *upstream) commit(i int) git.Hash { return git.HashOf(u.commits[i]) }

// pack is what a fetch brings to one who has the commits before from and wants those before to.
func (u *upstream) pack(from, to int) []byte {
	u.t.Helper()
	revs := u.commit(to-1).String() + "\n"
	if from > 0 {
		revs += "^" + u.commit(from-1).String() + "\n"
	}
	return u.git([]byte(revs), "--git-dir", u.dir, "pack-objects",
		"--revs", "--stdout", "--quiet", "--delta-base-offset")
}

// fetch adds a pack with commits and makes the last of them a head.
func (u *upstream) fetch(m *mirror.Mirror, from, to int) {
	u.t.Helper()
	if _, err := m.AddPack(context.Background(), bytes.NewReader(u.pack(from, to))); err != nil {
		u.t.Fatal(err)
	}
	u.head(m, to-1)
}

func (u *upstream) head(m *mirror.Mirror, i int) {
	u.t.Helper()
	h := mirror.Head{Ref: "refs/heads/main", Object: u.commit(i), Commit: u.commit(i)}
	if err := m.SetHeads(map[string]mirror.Head{h.Ref: h}); err != nil {
		u.t.Fatal(err)
	}
}

// everything reads all that a mirror must hold: every object of the first n commits.
func (u *upstream) everything(m *mirror.Mirror, n int) error {
	o := m.Objects()
	defer o.Close()
	for line := range strings.SplitSeq(strings.TrimSpace(string(u.git([]byte(u.commit(n-1).String()), "--git-dir", u.dir, "rev-list", "--objects", "--stdin"))), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if err := readAny(o, git.HashOf(name)); err != nil {
			return err
		}
	}
	return nil
}

func readAny(o *mirror.Objects, id git.Hash) error {
	kind, err := o.Kind(id)
	if err != nil {
		return err
	}
	_, err = o.Read(kind, id, 1<<20)
	return err
}

// fsck has Git judge a mirror.
func (u *upstream) fsck(dir string) {
	u.t.Helper()
	u.git(nil, "--git-dir", filepath.Join(dir, "repo.git"), "fsck", "--full", "--strict", "--no-dangling")
}

func TestHistoryComesInPages(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, 25)
	m := open(t, t.TempDir())
	u.fetch(m, 0, 25)
	o := m.Objects()
	defer o.Close()
	var subjects []string
	pages := 0
	for next := u.commit(24); !next.IsZero(); pages++ {
		var page []mirror.Commit
		var err error
		if page, next, err = o.History(t.Context(), next, 10); err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			subjects = append(subjects, c.Subject)
		}
	}
	if pages != 3 || len(subjects) != 25 || subjects[0] != "commit 24" || subjects[24] != "commit 0" {
		t.Errorf("%d pages: %q", pages, subjects)
	}
	c, err := o.Commit(u.commit(3))
	if err != nil || c.Parent != u.commit(2) || !c.Time.Equal(time.Unix(1_700_000_180, 0)) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, _, err := o.History(t.Context(), git.Hash{1}, 10); err == nil {
		t.Error("a history from nowhere")
	}
}
