package gittest

import (
	"os"
	"path/filepath"
	"testing"
)

// WorkFolder makes an empty folder in the work tree: what a submodule is that nobody has checked out.
func (r *Repo) WorkFolder(path string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Join(r.work, filepath.FromSlash(path)), 0o700); err != nil {
		r.t.Fatal(err)
	}
}

// NewSHA256Repo makes a repository of Git's other object format, with one commit.
func (s *Server) NewSHA256Repo(t testing.TB, name string) *Repo {
	t.Helper()
	r := &Repo{t: t, dir: filepath.Join(s.dir, name), url: s.URL + "/" + name, work: t.TempDir()}
	r.run(s.dir, nil, "init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main", r.dir)
	r.run(r.work, nil, "init", "--quiet", "--object-format=sha256", "--initial-branch=main")
	r.Commit("one", Files{"a": "1"})
	return r
}
