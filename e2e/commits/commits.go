// Package commits brings commits of the past out of this clone: tests of upgrades begin with what these had.
package commits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"fairlead.dev/e2e/process"
)

// FirstInPod is the first commit of main whose console starts in a pod: with an fsGroup, and as a random user.
const FirstInPod = "a99eabdbd24dc2b37fc1b9f81f8e02db322ed0f1"

// ErrHistory says that a clone lacks its history.
var ErrHistory = errors.New("this clone of the repository has no history")

// Find returns the top folder of the clone that a folder is in, if that clone has a commit.
func Find(ctx context.Context, folder, commit string) (top string, err error) {
	git := func(args ...string) (string, error) {
		out, err := process.Run(ctx, nil, "", "git", append([]string{"-C", folder}, args...)...)
		return strings.TrimSpace(out), err
	}
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		shallow, _ := git("rev-parse", "--is-shallow-repository") // else the first error is told alone
		if shallow == "true" {
			return "", fmt.Errorf("%w: commit %.8s is not in a shallow one. Run `git fetch --unshallow`", ErrHistory, commit)
		}
		return "", fmt.Errorf("find commit %.8s: %w", commit, err)
	}
	return git("rev-parse", "--show-toplevel")
}

// CheckOut unpacks the tree of a commit of a clone into a folder that is not there yet.
func CheckOut(ctx context.Context, top, commit, tree string) error {
	archive := tree + ".tar"
	if err := os.Mkdir(tree, 0o750); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"git", "-C", top, "archive", "--format=tar", "--output=" + archive, commit},
		{"tar", "-xf", archive, "-C", tree},
	} {
		if _, err := process.Run(ctx, nil, "", step[0], step[1:]...); err != nil {
			return err
		}
	}
	return os.Remove(archive)
}
