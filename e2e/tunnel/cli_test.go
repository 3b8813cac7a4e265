package tunnel

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cli runs the fairlead command as the administrator, with the real kubectl in PATH.
func (h *hub) cli(t *testing.T, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(world.bins.Dir, "fairlead"), args...)
	cmd.Env = append(os.Environ(), "FAIRLEAD_CONFIG="+h.file("fairlead.yaml"),
		"PATH="+filepath.Dir(world.bins.Kubelocal)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, failed := errors.AsType[*exec.ExitError](err); !failed || ctx.Err() != nil {
			t.Fatalf("fairlead %q: %v\n%s%s", args, err, &stdout, &stderr)
		}
	}
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// kubectl, logs and exec of the fairlead command are kubectl at the cluster, as by the kubeconfig that it writes.
func TestCommandReachesTheClusterAsKubectlDoes(t *testing.T) {
	t.Parallel()
	h := shared(t)
	direct := straight(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if a := h.cli(t, "kubeconfig", cluster, "--output-file", file); a.code != 0 {
		t.Fatal(a)
	}
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(h.token)) {
		t.Errorf("the kubeconfig holds a token, or %v", err)
	}
	byFile := kubectl{flags: []string{"--kubeconfig", file}}
	for _, c := range []struct {
		fairlead []string
		kubectl  []string
		code     int
	}{
		{[]string{"kubectl", cluster, "--"}, []string{"get", "configmap", "object-0-0", "-n", "many", "-o", "yaml"}, 0},
		{[]string{"kubectl", cluster, "--"}, []string{"auth", "whoami"}, 0},
		{[]string{"logs", cluster}, []string{"logs", "-n", "straight", "web", "--limit-bytes=30"}, 0},
		{[]string{"exec", cluster}, []string{"exec", "-n", "straight", "web", "--", "sh", "-c", "echo 'to stdout'; echo 'to stderr' >&2; exit 7"}, 7},
	} {
		want := direct.run(t, "", c.kubectl...)
		if want.code != c.code {
			t.Fatalf("straight: %s", want)
		}
		args := c.kubectl
		if c.fairlead[0] == args[0] {
			args = args[1:] // the verb is the command's own
		}
		if got := h.cli(t, slices.Concat(c.fairlead, args)...); got != want {
			t.Errorf("fairlead %q: %s\nstraight: %s", c.fairlead, got, want)
		}
		if got := byFile.run(t, "", c.kubectl...); got != want {
			t.Errorf("by the kubeconfig: %s\nstraight: %s", got, want)
		}
	}
}

func TestSessionsAreShownWithTheirReplicas(t *testing.T) {
	t.Parallel()
	h := shared(t)
	a := h.cli(t, "get", "sessions", "-o", "wide")
	lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
	if a.code != 0 || len(lines) != 1+len(h.holders) {
		t.Fatal(a)
	}
	for _, part := range h.holders {
		if !slices.ContainsFunc(lines[1:], func(line string) bool {
			return strings.HasPrefix(line, cluster+" ") && strings.Contains(line, h.urls[part]) &&
				strings.Contains(line, "websocket")
		}) {
			t.Errorf("no session at %s in\n%s", part, a.stdout)
		}
	}
}
