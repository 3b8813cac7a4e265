package gittest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repo is a bare repository on a Server.
type Repo struct {
	t    testing.TB
	dir  string
	url  string
	work string
}

// NewRepo makes an empty repository whose default branch is main.
func (s *Server) NewRepo(t testing.TB, name string) *Repo {
	t.Helper()
	return newRepo(t, s.dir, s.URL, name)
}

func newRepo(t testing.TB, dir, base, name string) *Repo {
	t.Helper()
	r := &Repo{t: t, dir: filepath.Join(dir, name), url: base + "/" + name, work: t.TempDir()}
	r.run(dir, nil, "init", "--quiet", "--bare", "--initial-branch=main", r.dir)
	r.run(r.work, nil, "init", "--quiet", "--initial-branch=main")
	return r
}

// URL is what a source would name.
func (r *Repo) URL() string { return r.url }

// URLOnDisk is where the test itself pushes, past the server and its log.
func (r *Repo) URLOnDisk() string { return r.dir }

// Files are contents by path. A value that begins with "-> " is a symlink.
type Files map[string]string

// Commit writes files in the work tree of branch main, commits and pushes. Commit returns the commit id.
func (r *Repo) Commit(message string, files Files) string {
	r.t.Helper()
	for name, content := range files {
		r.write(filepath.Join(r.work, filepath.FromSlash(name)), content)
	}
	r.Work("add", "--all")
	r.Work("commit", "--quiet", "--allow-empty", "-m", message)
	return r.Push()
}

func (r *Repo) write(path, content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	_ = os.Remove(path)
	var err error
	if target, isLink := strings.CutPrefix(content, "-> "); isLink {
		err = os.Symlink(target, path)
	} else {
		err = os.WriteFile(path, []byte(content), 0o644) //nolint:gosec // a test's work tree
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// Push makes the repository's main what the work tree has, by force. Push returns the commit id.
func (r *Repo) Push() string {
	r.t.Helper()
	r.Work("push", "--quiet", "--force", r.dir, "HEAD:refs/heads/main")
	return r.Work("rev-parse", "HEAD")
}

// Work runs git in the work tree and returns what it prints.
func (r *Repo) Work(args ...string) string { r.t.Helper(); return r.run(r.work, nil, args...) }

// Bare runs git in the bare repository and returns what it prints.
func (r *Repo) Bare(args ...string) string { r.t.Helper(); return r.run(r.dir, nil, args...) }

// AddRefs gives the repository so many refs more, all of one commit: half of them branches, half tags, as a
// repository has them whose branches are never deleted and whose builds are tagged.
func (r *Repo) AddRefs(n int, commit string) {
	r.t.Helper()
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, name := range []string{"refs/heads/feature/ticket-", "refs/tags/build-"} {
		for i := range n / 2 {
			fmt.Fprintf(&refs, "%s %s%06d\n", commit, name, i)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, "packed-refs"), []byte(refs.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// Object writes an object as it is, however wrong, and returns its id.
func (r *Repo) Object(kind string, content []byte) string {
	r.t.Helper()
	return r.run(r.dir, content, "hash-object", "-t", kind, "-w", "--literally", "--stdin")
}

// TreeEntry is a line of a tree made by hand.
type TreeEntry struct{ Mode, Name, ID string }

// Tree writes a tree with exactly these entries, however wrong, and returns its id.
func (r *Repo) Tree(entries ...TreeEntry) string {
	r.t.Helper()
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e.Mode + " " + e.Name + "\x00")
		for i := 0; i < len(e.ID); i += 2 {
			b.WriteByte(unhex(e.ID[i])<<4 | unhex(e.ID[i+1]))
		}
	}
	return r.Object("tree", b.Bytes())
}

func unhex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// SetMain makes main a commit with this tree and returns its id.
func (r *Repo) SetMain(tree string) string {
	r.t.Helper()
	commit := r.Bare("commit-tree", "-m", "by hand", tree)
	r.Bare("update-ref", "refs/heads/main", commit)
	return commit
}

func (r *Repo) run(dir string, stdin []byte, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(environment(), "PATH="+os.Getenv("PATH"), "HOME="+r.t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// environment keeps the user's own Git configuration out of the tests.
func environment() []string {
	return []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	}
}
