package mirror_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fairlead.dev/services/gitcache/internal/mirror"
)

// killedEnv makes a test join the packs of the mirror in this folder, with or without git, and nothing
// else: it is run so under strace, which kills it in the middle.
const (
	killedEnv = "FAIRLEAD_TEST_MIRROR_IS_KILLED"
	gitEnv    = "FAIRLEAD_TEST_MIRROR_WITHOUT_GIT"
)

// TestKillNineWhilePacksAreJoinedLeavesAWholeMirror at every step that can be seen on the disk.
func TestKillNineWhilePacksAreJoinedLeavesAWholeMirror(t *testing.T) {
	if dir := os.Getenv(killedEnv); dir != "" {
		all := openAll(t, dir)
		if os.Getenv(gitEnv) != "" {
			all.WithoutGit()
		}
		if err := mirrorOf(t, all, "u1").Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "strace", "-o", os.DevNull, "true").Run(); err != nil {
		t.Skipf("strace can't be used here: %v", err)
	}
	const fetches = fewPacks + 1
	u := newUpstream(t, fetches)
	origin := t.TempDir()
	m := mirrorOf(t, openAll(t, origin), "u1")
	for i := range fetches {
		u.fetch(m, i, i+1)
	}
	for _, without := range []string{"", "git"} {
		for _, call := range []string{"fsync", "renameat", "unlinkat"} {
			t.Run(call+" without "+without, func(t *testing.T) {
				t.Parallel()
				kills := 0
				for ; kills < 8 && killed(t, u, origin, without,
					fmt.Sprintf("%s:signal=SIGKILL:when=%d", call, kills+1)); kills++ {
				}
				if kills < 2 {
					t.Errorf("killed %d times only: the steps are not seen", kills)
				}
			})
		}
	}
}

// killed has the packs of a copy joined under strace, and looks at what is left. The result says whether the process
// was killed before the end.
func killed(t *testing.T, u *upstream, origin, without, inject string) bool {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-o", os.DevNull, "-e", "inject="+inject,
		os.Args[0], "-test.run", "^TestKillNineWhilePacksAreJoinedLeavesAWholeMirror$")
	cmd.Env = append(os.Environ(), killedEnv+"="+dir, gitEnv+"="+without)
	out, err := cmd.CombinedOutput()
	wasKilled := err != nil && cmd.ProcessState.ExitCode() != 1
	if err != nil && !wasKilled {
		t.Fatalf("%s: %v: %s", inject, err, out)
	}
	check(t, u, dir, inject, !wasKilled)
	return wasKilled
}

func check(t *testing.T, u *upstream, dir, inject string, joined bool) {
	t.Helper()
	m := mirrorOf(t, openAll(t, dir), "u1")
	if _, packs := m.Size(); joined && packs != 1 {
		t.Errorf("%s: %d packs", inject, packs)
	}
	whole(t, u, dir, m, inject)
	if err := m.Maintain(t.Context()); err != nil {
		t.Errorf("%s: join afterwards: %v", inject, err)
	}
	whole(t, u, dir, m, inject)
	if left, err := filepath.Glob(filepath.Join(dir, "u1", "repo.git", "objects", "pack", "tmp_*")); err != nil ||
		len(left) > 0 {
		t.Errorf("%s: left behind: %q", inject, left)
	}
}

func whole(t *testing.T, u *upstream, dir string, m *mirror.Mirror, inject string) {
	t.Helper()
	if err := u.everything(m, len(u.commits)); err != nil {
		t.Errorf("%s: %v", inject, err)
	}
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("%s: %v", inject, err)
	}
	u.fsck(filepath.Join(dir, "u1"))
}
