// Package skew runs the parts of an earlier commit and those of today against each other: each order in which a hub and
// its agents can be upgraded, and back again.
package skew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"fairlead.dev/e2e/commits"
	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/lockfile"
)

// shortID is how much of a commit's id a version says.
const shortID = 12

// build makes the programs of an earlier commit, as `make build` does, and returns their folder. The folder is in a
// cache outside of the work tree, by commit and compiler.
func build(ctx context.Context, commit string) (string, error) {
	top, err := commits.Find(ctx, ".", commit)
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	lock, err := lockfile.Acquire(filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Release() }() // the lock ends with the process, too
	dir := filepath.Join(cache, commit+"-"+runtime.Version())
	switch _, err := os.Stat(dir); {
	case err == nil:
		return dir, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	temp, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a folder that stays costs space only
	out := filepath.Join(temp, "programs")
	if err := compile(ctx, top, commit, temp, out); err != nil {
		return "", fmt.Errorf("build commit %.8s: %w", commit, err)
	}
	return dir, os.Rename(out, dir)
}

// cacheFolder is where tools/kubelocal/build.sh keeps what it builds, too.
func cacheFolder() (string, error) {
	dir := os.Getenv("FAIRLEAD_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a folder for programs of earlier commits: %w. Name one in FAIRLEAD_CACHE", err)
		}
		dir = filepath.Join(user, "fairlead")
	}
	dir = filepath.Join(dir, "skew")
	return dir, os.MkdirAll(dir, 0o750)
}

func compile(ctx context.Context, top, commit, temp, out string) error {
	tree := filepath.Join(temp, "tree")
	if err := commits.CheckOut(ctx, top, commit, tree); err != nil {
		return err
	}
	ldflags := "-s -w -X fairlead.dev/platform/version.Version=" + commit[:shortID]
	for _, p := range []string{
		"./services/console/cmd/console", "./services/gitcache/cmd/gitcache", "./services/distributor/cmd/distributor",
		"./services/tunnel/cmd/tunnel", "./services/agent/cmd/agent", "./services/agent/cmd/agent-render",
	} {
		// The workspace is that of the commit.
		if _, err := process.Run(ctx, []string{"GOWORK=", "CGO_ENABLED=0"}, "",
			"go", "-C", tree, "build", "-trimpath", "-ldflags", ldflags, "-o", filepath.Join(out, filepath.Base(p)), p); err != nil {
			return err
		}
	}
	return nil
}
