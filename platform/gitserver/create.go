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
	"strings"
)

// maxRepositories bounds what pushes make.
const maxRepositories = 200

// ensure finds a repository, or makes it if a push to it begins.
func (s *Server) ensure(ctx context.Context, name, service string) error {
	if _, err := os.Stat(s.path(name)); err == nil {
		return nil
	}
	if !s.cfg.CreateOnPush || service != "git-receive-pack" || s.cfg.Account != nil {
		return fmt.Errorf("no repository %q here", name)
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	there, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*.git"))
	if err != nil {
		return err
	}
	if len(there) >= maxRepositories {
		return fmt.Errorf("there are %d repositories here already: delete one of the folders in %s", len(there), s.cfg.Dir)
	}
	return s.Create(ctx, name, nil)
}

// pointHead has the default branch of a repository be one that is there: the first that was pushed.
func (s *Server) pointHead(ctx context.Context, name string) error {
	in := "--git-dir=" + s.path(name)
	if s.run(ctx, in, "rev-parse", "--quiet", "--verify", "HEAD") == nil {
		return nil
	}
	out, err := s.output(ctx, in, "for-each-ref", "--count=1", "--format=%(refname)", "refs/heads")
	branch := strings.TrimSpace(string(out))
	if err != nil || branch == "" {
		return err
	}
	return s.run(ctx, in, "symbolic-ref", "HEAD", branch)
}

// Create makes a repository with one commit on branch main that holds the files of seed, or an empty one without seed.
// A repository that is there already is left as it is.
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
	in := []string{"--git-dir=" + bare, "--work-tree=" + tree}
	steps := [][]string{
		// No template: no hooks.
		{"init", "--quiet", "--bare", "--template=", "--initial-branch=main", bare},
		append(in, "config", "http.receivepack", "true"),
		append(in, "config", "receive.autogc", "false"), // The collection would run on after the server has ended.
	}
	if seed != nil {
		if err := os.CopyFS(tree, seed); err != nil {
			return err
		}
		steps = append(steps, append(in, "add", "--all"), append(in, "commit", "--quiet", "--message=Say hello"))
	}
	for _, args := range steps {
		if err := s.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) run(ctx context.Context, args ...string) error {
	_, err := s.output(ctx, args...)
	return err
}

// output is what git prints.
func (s *Server) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.git, args...) //nolint:gosec // no shell reads them, and options are of this package
	cmd.Env = append(s.environment(), "PATH="+os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=Fairlead", "GIT_AUTHOR_EMAIL=fairlead@example.com",
		"GIT_COMMITTER_NAME=Fairlead", "GIT_COMMITTER_EMAIL=fairlead@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return out, nil
}
