package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"fairlead.dev/platform/subprocess"
	"fairlead.dev/services/gitcache/internal/host"
)

// maxGitObjects that Git's program is given: it takes about 200 bytes of memory for each, besides what
// is bounded below.
const maxGitObjects = 500_000

// bounds of the memory of git pack-objects: about 100 MiB with all of it in use. Larger files than
// bigFileThreshold are copied without being held. git pack-objects writes to its output only, and never to the mirror.
func bounds() []string {
	return []string{
		"-c", "pack.threads=1", "-c", "pack.windowMemory=16m", "-c", "pack.deltaCacheSize=8m", "-c", "core.bigFileThreshold=8m",
		"-c", "core.deltaBaseCacheLimit=16m", "-c", "core.packedGitLimit=32m", "-c", "core.packedGitWindowSize=1m",
		"-c", "core.multiPackIndex=false", "-c", "core.commitGraph=false", "-c", "pack.useBitmaps=false", "-c", "pack.readReverseIndex=false",
	}
}

// upkeep is what all mirrors share for it.
type upkeep struct {
	mu  sync.Mutex // guards what follows
	git string     // path of the git binary; empty: do without
}

func newUpkeep() *upkeep {
	git, err := exec.LookPath("git")
	if err != nil {
		git = ""
	}
	return &upkeep{git: git}
}

// WithoutGit has packs joined without Git's own program, if there is one.
func (s *Mirrors) WithoutGit() { s.upkeep.without() }

func (u *upkeep) findProgram() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.git
}

func (u *upkeep) without() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.git = ""
}

// packObjects has Git write a pack with all objects of old that are not in stay.
func (m *Mirror) packObjects(ctx context.Context, git string, old, stay []string, w io.Writer) error {
	var list strings.Builder
	for _, name := range old {
		fmt.Fprintf(&list, "pack-%s.pack\n", name)
	}
	for _, name := range stay {
		fmt.Fprintf(&list, "^pack-%s.pack\n", name)
	}
	var said bytes.Buffer
	args := append([]string{"--git-dir=" + m.repoPath()}, bounds()...)
	args = append(args, "pack-objects", "--stdin-packs", "--stdout", "--delta-base-offset", "--quiet")
	cmd := exec.CommandContext(context.WithoutCancel(ctx), git, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(list.String()), w, &said
	p, err := subprocess.Start(cmd)
	if err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	host.YieldProcessor(p.Pid())
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	if err := p.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("git pack-objects: %w: %.200s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// isFull tells whether a disk takes no more. Another way of writing would not help.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS)
}
