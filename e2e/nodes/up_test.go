package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// `fairlead up` has a real node: a push is seen in the logs of a running container. Nothing of the node outlives kill
// -9, and the same data serves with pretended pods afterwards.
func TestUpRunsTheSampleOnARealNode(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("real nodes need root: fairlead up has pretended pods only")
	}
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	program := findNodelocal(t)
	dir := t.TempDir()
	s := startUp(t, bins, dir, "--nodelocal", program)
	if said, err := s.Process("up").Log(); err != nil ||
		!strings.Contains(said, "cluster      local-a with a real node") {
		t.Fatalf("as root there is no real node (%v):\n%s", err, said)
	}

	awaitSample(t, bins, s, "Hello from Git")
	followNewPods(t, bins, s, dir)
	clone := filepath.Join(dir, "clone")
	git := func(args ...string) {
		t.Helper()
		env := []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1"}
		if _, err := process.Run(t.Context(), env, "", "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	git("clone", "--quiet", s.GitURL, clone)
	file := filepath.Join(clone, "apps/hello/config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "Hello", "Good morning")), 0o600); err != nil {
		t.Fatal(err)
	}
	git("-C", clone, "commit", "--quiet", "--all", "--message=greet")
	git("-C", clone, "push", "--quiet")
	awaitSample(t, bins, s, "Good morning from Git")

	if err := s.Process("up").Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing of the node is left", func(context.Context) error { return anyOf(dir) })
	began := time.Now()
	if err := s.KillUp(limited(t)); err != nil {
		t.Fatal(err)
	}
	t.Logf("up again %.1f s after kill -9", time.Since(began).Seconds())
	awaitSample(t, bins, s, "Good morning from Git")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := anyOf(dir); err != nil {
		t.Errorf("after a clean stop: %v", err)
	}

	s = startUp(t, bins, dir)
	await(t, "the sample is healthy with pretended pods", func(ctx context.Context) error {
		service, err := s.Service(ctx, "hello-local-a")
		if err == nil && service.Status.State != "healthy" {
			err = errors.New(service.Status.State)
		}
		return err
	})
	if nodes, err := fairleadWithKubectl(limited(t), bins, s, "kubectl", "local-a", "--", "get", "nodes", "--output=name"); err != nil || !strings.Contains(nodes, "node/node-0") {
		t.Errorf("not the pretended nodes: %s, %v", nodes, err)
	}
}

func startUp(t *testing.T, bins stack.Binaries, dir string, flags ...string) *stack.Stack {
	t.Helper()
	began := time.Now()
	s, err := stack.Up(limited(t), bins, dir, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up %q after %.1f s", flags, time.Since(began).Seconds())
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// awaitSample waits until the running container of the sample logs a greeting, and says it when it is asked.
func awaitSample(t *testing.T, bins stack.Binaries, s *stack.Stack, greeting string) {
	t.Helper()
	await(t, "the sample logs "+greeting, func(ctx context.Context) error {
		said, err := fairleadWithKubectl(ctx, bins, s, "logs", "local-a", "-n", "default", "deployment/hello",
			"--tail=1")
		if err == nil && !strings.Contains(said, greeting) {
			err = fmt.Errorf("it logs %q", said)
		}
		return err
	})
	await(t, "the sample says "+greeting, func(ctx context.Context) error {
		said, err := fairleadWithKubectl(ctx, bins, s, "exec", "local-a", "-n", "default", "deployment/hello",
			"--", "/hello", "say")
		if err == nil && !strings.Contains(said, " says: "+greeting) {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

// followNewPods follows the logs of a service while it gets new pods, and waits until both have said something.
func followNewPods(t *testing.T, bins stack.Binaries, s *stack.Stack, dir string) {
	t.Helper()
	logs := process.New(dir, "follow", filepath.Join(bins.Dir, "fairlead"), "logs", "service/hello-local-a", "-f")
	logs.Env = []string{"FAIRLEAD_CONFIG=" + s.ConfigFile()}
	if err := logs.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = logs.Kill() }() // it does not end by itself
	say := func(pods int) {
		t.Helper()
		await(t, fmt.Sprintf("%d pods say something", pods), func(context.Context) error {
			said, err := logs.Log()
			names := map[string]bool{}
			for line := range strings.Lines(said) {
				if who, _, ok := strings.Cut(line, " | "); ok {
					names[who] = true
				}
			}
			if err == nil && len(names) < pods {
				err = fmt.Errorf("%d do: %q", len(names), said)
			}
			return err
		})
	}
	say(1)
	if _, err := fairleadWithKubectl(limited(t), bins, s, "restart", "service/hello-local-a"); err != nil {
		t.Fatal(err)
	}
	say(2)
	if ended, err := logs.Ended(); ended {
		t.Errorf("it ended before it was interrupted: %v", err)
	}
}

// fairleadWithKubectl runs a command that needs a kubectl in PATH.
func fairleadWithKubectl(ctx context.Context, bins stack.Binaries, s *stack.Stack, args ...string) (string, error) {
	env := []string{
		"FAIRLEAD_CONFIG=" + s.ConfigFile(),
		"PATH=" + filepath.Dir(bins.Kubelocal) + ":" + os.Getenv("PATH"),
	}
	return process.Run(ctx, env, "", filepath.Join(bins.Dir, "fairlead"), args...)
}

// anyOf returns which process was started with a path in a folder, or nil.
func anyOf(dir string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), dir) { // else it has ended meanwhile
			return fmt.Errorf("%s is %q", file, text)
		}
	}
	return nil
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func await(t *testing.T, what string, ok func(context.Context) error) {
	t.Helper()
	if err := process.Await(limited(t), what, ok); err != nil {
		t.Fatal(err)
	}
}

// findNodelocal returns the program, which is built if need be.
func findNodelocal(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("NODELOCAL"); program != "" {
		return program
	}
	out, err := process.Run(limited(t), nil, "", "../../tools/nodelocal/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
