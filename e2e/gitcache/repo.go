package gitcache

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/e2e/process"
)

// Folder is what services take of a repository, and Marker the file in it that says which commit of
// which repository it is from.
const (
	Folder = "deploy"
	Marker = "marker"
)

// Commit is one that was pushed to the default branch.
type Commit struct {
	ID     string
	Number int // grows with each push, by force or not
	Pushed time.Time
}

// Repo is a bare repository and the true story of its default branch, for judging what others say.
type Repo struct {
	Name string
	dir  string

	mu      sync.Mutex // guards what follows; held during a push, so that nobody can see one too early
	commits []Commit
	numbers map[string]int // by commit id
}

// Create makes a repository with a first commit.
func (h *Host) Create(ctx context.Context, name string) (*Repo, error) {
	r := &Repo{Name: name, dir: filepath.Join(h.dir, name+".git"), numbers: map[string]int{}}
	if _, err := r.Git(ctx, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", r.dir); err != nil {
		return nil, err
	}
	_, err := r.Push(ctx)
	return r, err
}

// Git runs git in the bare repository and returns what it prints.
func (r *Repo) Git(ctx context.Context, args ...string) (string, error) {
	if args[0] != "init" {
		args = append([]string{"-C", r.dir}, args...)
	}
	out, err := process.Run(ctx, plainGit(), "", "git", args...)
	return strings.TrimSpace(out), err
}

// plainGit keeps the machine's configuration out.
func plainGit() []string { return []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull} }

// Dir is where the repository is.
func (r *Repo) Dir() string { return r.dir }

// Push adds a commit to the default branch.
func (r *Repo) Push(ctx context.Context) (Commit, error) { return r.push(ctx, 0) }

// ForcePush replaces the last commits of the default branch by another.
func (r *Repo) ForcePush(ctx context.Context) (Commit, error) { return r.push(ctx, 2) }

// push leaves out the last so many commits of the branch, if there are more.
func (r *Repo) push(ctx context.Context, leaveOut int) (Commit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := Commit{Number: len(r.commits)}
	var parent string
	if n := len(r.commits); n > 0 {
		parent = r.commits[n-1].ID
	}
	if leaveOut > 0 {
		back := fmt.Sprintf("main~%d^{commit}", leaveOut)
		if id, err := r.Git(ctx, "rev-parse", "--quiet", "--verify", back); err == nil {
			parent = id
		}
	}
	id, err := r.Import(ctx, parent, fmt.Sprintf("number %d", c.Number), map[string]string{
		Folder + "/" + Marker: r.marker(c.Number),
		Folder + "/big":       strings.Repeat(fmt.Sprintf("%s %d of the lines\n", r.Name, c.Number/10), 200) + noise(),
		"beside":              strconv.Itoa(c.Number),
	})
	if err != nil {
		return c, err
	}
	c.ID, c.Pushed = id, time.Now()
	r.commits, r.numbers[id] = append(r.commits, c), c.Number
	return c, nil
}

// noise is 4 KiB that do not compress well.
func noise() string {
	b := make([]byte, 2<<10)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (r *Repo) marker(number int) string { return fmt.Sprintf("%s number %d\n", r.Name, number) }

// Import puts a commit with these files on the default branch, by force if need be, past the server.
func (r *Repo) Import(ctx context.Context, parent, message string, files map[string]string) (string, error) {
	return r.fastImport(ctx, func(w io.Writer) {
		fmt.Fprintf(w, "commit refs/heads/main\nmark :1\ncommitter e2e <e2e@example.com> %d +0000\ndata %d\n%s\n", time.Now().Unix(), len(message), message)
		if parent != "" {
			fmt.Fprintf(w, "from %s\n", parent)
		}
		for name, content := range files {
			fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", name, len(content), content)
		}
		fmt.Fprint(w, "\nget-mark :1\n")
	})
}

// fastImport runs git fast-import over a stream and returns what it prints.
func (r *Repo) fastImport(ctx context.Context, write func(io.Writer)) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "-C", r.dir, "fast-import", "--quiet", "--force", "--date-format=raw")
	cmd.Env = append(os.Environ(), plainGit()...)
	in, out := io.Pipe()
	cmd.Stdin = in
	go func() {
		write(out)
		_ = out.Close()
	}()
	text, err := cmd.Output()
	_ = in.Close() // lets the writer end if git did early
	if err != nil {
		return "", fmt.Errorf("git fast-import into %s: %w", r.Name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Last returns the newest commit of the branch.
func (r *Repo) Last() Commit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits[len(r.commits)-1]
}

// replaced tells whether a commit is not in the branch any more.
func (r *Repo) replaced(ctx context.Context, commit string) bool {
	_, err := r.Git(ctx, "merge-base", "--is-ancestor", commit, "main")
	return err != nil && ctx.Err() == nil
}

// Number tells which push a commit came with; false: it never was pushed.
func (r *Repo) Number(commit string) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.numbers[commit]
	return n, ok
}

// Commit returns what was pushed under a number.
func (r *Repo) Commit(number int) Commit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits[number]
}
