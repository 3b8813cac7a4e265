package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestPodsCanBeEnteredIfAskedFor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "exec")
	c := startCluster(t, dir, "--nodes", "1", "--exec")
	c.kubectl(t, "", "run", "web", "--image=web")
	c.kubectl(t, "", "wait", "--for=condition=Ready", "pod/web", "--timeout="+limit.String())

	if out, err := c.tryKubectl(t, "to the end", "exec", "-i", "web", "--", "sh", "-c",
		"cat; pwd; exit 7"); err == nil ||
		!strings.Contains(out, "to the end"+filepath.Join(dir, "exec")) || !strings.Contains(out, "exit code 7") {
		t.Errorf("exec: %v: %s", err, out)
	}
	if out := c.kubectl(t, "to the end", "attach", "-i", "web"); !strings.Contains(out, "to the end") {
		t.Errorf("attach: %s", out)
	}
}

func TestPodsAreClosedOtherwise(t *testing.T) {
	t.Parallel()
	c := startCluster(t, filepath.Join(t.TempDir(), "closed"), "--nodes", "1")
	c.kubectl(t, "", "run", "web", "--image=web")
	c.kubectl(t, "", "wait", "--for=condition=Ready", "pod/web", "--timeout="+limit.String())
	if out, err := c.tryKubectl(t, "", "exec", "web", "--", "true"); err == nil ||
		!strings.Contains(out, "With --exec") {
		t.Errorf("exec: %v: %s", err, out)
	}
}
