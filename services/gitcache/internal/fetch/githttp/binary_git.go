package githttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/subprocess"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// gitProgram is the git executable.
type gitProgram struct {
	path   string
	dir    string // where scratch repositories are
	limits upstream.Limits
}

const (
	// OldestGit has all the options that are used here.
	OldestGit = "2.30"
	// versionTime is for git to say its version.
	versionTime = 10 * time.Second

	remoteName = "upstream"
)

func findGit(dir string, limits upstream.Limits) (*gitProgram, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("no git in PATH")
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = gitEnvironment(dir)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s does not run: %w", path, err)
	}
	var major, minor int
	if n, _ := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); n < 2 || major < 2 || major == 2 && minor < 30 {
		return nil, fmt.Errorf("%s is %q, and %s or later is needed", path, upstream.CleanLine(string(out)), OldestGit)
	}
	return &gitProgram{path: path, dir: dir, limits: limits}, nil
}

// mostAlloc bounds what git takes of memory at once: a pack can claim objects of any size. The bound has room for the
// index of as many objects as the mirror takes. Large files are streamed.
const mostAlloc = "512m"

// gitEnvironment is all that git gets of one: nothing of this process's own.
func gitEnvironment(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_ALLOW_PROTOCOL=http", "GIT_NO_REPLACE_OBJECTS=1", "GIT_ALLOC_LIMIT=" + mostAlloc,
	}
}

// configuration of a scratch repository. Every setting that could run a program, dial, ask or write elsewhere is off.
// The relay's token is in this file since everybody on the machine can see a program's arguments.
const configuration = `[core]
	repositoryFormatVersion = 0
	bare = true
	hooksPath = /dev/null
	fsmonitor = false
	alternateRefsPrefixes = refs/none
	bigFileThreshold = 32m
	deltaBaseCacheLimit = 32m
[gc]
	auto = 0
[maintenance]
	auto = false
[pack]
	threads = 1
[fetch]
	unpackLimit = 1
	fsckObjects = true
	writeCommitGraph = false
	recurseSubmodules = false
	showForcedUpdates = false
[fetch "fsck"]
	badTimezone = ignore
	missingSpaceBeforeDate = ignore
	zeroPaddedFilemode = ignore
[transfer]
	bundleURI = false
[credential]
	helper =
[protocol]
	version = 2
	allow = never
[protocol "http"]
	allow = always
[http]
	extraHeader = ` + relayHeader + `: %s
	followRedirects = false
	proxy =
	postBuffer = %d
[remote "` + remoteName + `"]
	url = %s
	tagOpt = --no-tags
`

// scratch is a bare repository that lasts as long as a request.
type scratch struct {
	git *gitProgram
	dir string
}

func (g *gitProgram) makeScratch() (*scratch, error) {
	dir, err := os.MkdirTemp(g.dir, "git-*")
	if err != nil {
		return nil, markStorage(err)
	}
	s := &scratch{git: g, dir: dir}
	for _, sub := range []string{"objects/info", "objects/pack", "refs"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	if err = errors.Join(err, s.writeFile("HEAD", "ref: refs/heads/none\n")); err != nil {
		s.removeAll(&err)
		return nil, markStorage(err)
	}
	return s, nil
}

func (s *scratch) writeFile(name, content string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600)
}

// borrowObjects lets git read the Target's objects, and tells it which of them are whole histories.
func (s *scratch) borrowObjects(objects string, haves []git.Hash) error {
	objects, err := filepath.Abs(objects)
	if err != nil {
		return markStorage(err)
	}
	ids := map[string]bool{}
	for _, id := range haves {
		ids[id.String()] = true
	}
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		fmt.Fprintf(&refs, "%s refs/haves/%s\n", id, id)
	}
	if err := errors.Join(s.writeFile("objects/info/alternates", objects+"\n"), s.writeFile("packed-refs", refs.String())); err != nil {
		return markStorage(err)
	}
	return nil
}

// removeAll throws the scratch away. A scratch folder that can't be removed is an error of its own.
func (s *scratch) removeAll(err *error) {
	if failed := os.RemoveAll(s.dir); failed != nil && *err == nil {
		*err = markStorage(failed)
	}
}

// run has git do one thing with what is behind the relay. When ctx ends git and all that it started are killed.
func (s *scratch) run(ctx context.Context, at endpoint, stdin io.Reader, stdout io.Writer, args ...string) error {
	if err := s.writeFile("config", fmt.Sprintf(configuration, at.token, maxAskBytes, at.url)); err != nil {
		return markStorage(err)
	}
	var said gitwire.Said
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.git.path, append([]string{"--git-dir=" + s.dir}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, gitEnvironment(s.dir), stdin
	pr, pw := io.Pipe()
	cmd.Stdout, cmd.Stderr = pw, &said
	p, err := subprocess.Start(cmd)
	if err != nil {
		return &upstream.Error{Kind: upstream.KindStorage, Cause: err, Message: fmt.Sprintf("git can't be started: %s", upstream.PlainCause(err))}
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(stdout, s.git.limits.CapList(pr))
		copied <- errors.Join(err, pr.CloseWithError(io.ErrClosedPipe))
	}()
	unwatch := context.AfterFunc(ctx, p.Kill)
	err = p.Wait()
	unwatch()
	_ = pw.Close()
	if tooMuch := <-copied; tooMuch != nil {
		return tooMuch
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return gitError(said.Lines(), err)
	}
	return nil
}

func gitError(said string, err error) error {
	switch {
	case strings.Contains(said, "mismatched algorithms"):
		return gitwire.ErrSHA256
	case said == "":
		return fmt.Errorf("git ended with %w", err)
	}
	return fmt.Errorf("git says: %s", said)
}
