package commits_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/commits"
)

// A shallow clone says what it lacks and how to get it; a whole clone without the commit does not ask for more history.
func TestAShallowCloneSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "whole")
	var ids []string
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(dir, "whole/file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git("-C", "whole", "add", "file")
		git("-C", "whole", "commit", "--quiet", "--message="+text)
		ids = append(ids, git("-C", "whole", "rev-parse", "HEAD"))
	}
	git("clone", "--quiet", "--depth=1", "file://"+filepath.Join(dir, "whole"), "shallow")

	_, err := commits.Find(t.Context(), filepath.Join(dir, "shallow"), ids[0])
	if !errors.Is(err, commits.ErrHistory) || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("a shallow clone says %v", err)
	}
	if _, err := commits.Find(t.Context(), filepath.Join(dir, "whole"), strings.Repeat("1", 40)); err == nil || errors.Is(err, commits.ErrHistory) {
		t.Errorf("a whole clone without a commit says %v", err)
	}
	top, err := commits.Find(t.Context(), filepath.Join(dir, "whole"), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	if err := commits.CheckOut(t.Context(), top, ids[0], tree); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(tree, "file")); err != nil || string(text) != "first" {
		t.Errorf("the tree of the first commit has %q, %v", text, err)
	}
}
