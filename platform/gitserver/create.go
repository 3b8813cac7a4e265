package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Create makes a repository with one commit on branch main that holds the files of seed. A repository
// that is there already is left as it is.
func (s *Server) Create(ctx context.Context, name string, seed fs.FS) (err error) {
	if !validName.MatchString(name) {
		return fmt.Errorf("repository name %q: must be lower-case letters, digits and '-'", name)
	}
	if _, err := os.Stat(s.path(name)); err == nil {
		return nil
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("create repository %q: %w", name, err)
	}
	// Made aside, so that a crash leaves no half repository under the name.
	tmp, err := os.MkdirTemp(s.cfg.Dir, ".new-*")
	if err != nil {
		return fmt.Errorf("create repository %q: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	bare := filepath.Join(tmp, "bare")
	if err := s.seed(ctx, bare, filepath.Join(tmp, "tree"), seed); err != nil {
		return fmt.Errorf("create repository %q: %w", name, err)
	}
	return os.Rename(bare, s.path(name))
}

func (s *Server) seed(ctx context.Context, bare, tree string, seed fs.FS) error {
	if err := os.CopyFS(tree, seed); err != nil {
		return err
	}
	in := []string{"--git-dir=" + bare, "--work-tree=" + tree}
	for _, args := range [][]string{
		// No template: no hooks.
		{"init", "--quiet", "--bare", "--template=", "--initial-branch=main", bare},
		append(in, "config", "http.receivepack", "true"),
		append(in, "config", "receive.autogc", "false"), // It would run on after the server has ended.
		append(in, "add", "--all"),
		append(in, "commit", "--quiet", "--message=Say hello"),
	} {
		if err := s.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.git, args...)
	cmd.Env = append(s.environment(), "PATH="+os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=Fairlead", "GIT_AUTHOR_EMAIL=fairlead@example.com",
		"GIT_COMMITTER_NAME=Fairlead", "GIT_COMMITTER_EMAIL=fairlead@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
