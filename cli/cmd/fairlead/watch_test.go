package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
)

// written is an output that is read while it is written.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// until waits for a text.
func (w *written) until(t *testing.T, text string) {
	t.Helper()
	const patience = 5 * time.Minute
	for deadline := time.Now().Add(patience); !strings.Contains(w.String(), text); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not in\n%s", text, w)
		}
	}
}

// get --watch, events --watch and audit --follow show what is there, what changes, and end without an error when they
// are interrupted.
func TestWatchShowsWhatChanges(t *testing.T) {
	t.Parallel()
	url, secret := startConsole(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	run := func(ctx context.Context, stdin string, out *written, args ...string) error {
		return command.Run(ctx, args, app.IO{
			Getenv: func(name string) string {
				return map[string]string{"FAIRLEAD_CONFIG": config, "USER": "ada"}[name]
			},
			Stdin: strings.NewReader(stdin), Stdout: out, Stderr: out, Now: time.Now,
		})
	}
	must := func(stdin string, args ...string) {
		t.Helper()
		out := &written{}
		if err := run(t.Context(), stdin, out, args...); err != nil {
			t.Fatalf("fairlead %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cluster := func(name, env string) string {
		return "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: " + name + ", labels: {env: " + env +
			"}}\n---\n"
	}
	must("", "login", url, "--hub-secret-file", secret)
	must(cluster("one", "prod")+cluster("two", "test"), "apply", "-f", "-")
	must("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: shop}\nspec: {git: {url: \"https://git.example.com/shop\"}}\n---\n"+
		"apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: web}\nspec: {source: shop, cluster: one}\n",
		"apply", "-f", "-")

	must("apiVersion: fairlead.dev/v1\nkind: ViewSet\nmetadata: {name: certificates}\n"+
		"spec: {clusters: {all: true}, of: {group: cert-manager.io, kind: Certificate}}\n", "apply", "-f", "-")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown, happened, done, viewed := &written{}, &written{}, &written{}, &written{}
	var ended sync.WaitGroup
	for out, args := range map[*written][]string{
		shown:    {"get", "clusters", "--watch", "--filter", "labels.env = prod"},
		happened: {"events", "--watch", "--filter", "service = web"},
		done:     {"audit", "--follow", "--action", "catalog"},
		viewed:   {"get", "viewsets", "--watch"},
	} {
		ended.Go(func() {
			if err := run(ctx, "", out, args...); err != nil {
				t.Errorf("fairlead %s: %v", strings.Join(args, " "), err)
			}
		})
	}
	viewed.until(t, "cert-manager.io  2 ")
	shown.until(t, "\none ")
	must(cluster("two", "prod"), "apply", "-f", "-")
	shown.until(t, "\ntwo ")
	must(cluster("one", "test"), "apply", "-f", "-")
	shown.until(t, "one gone\n")
	if n := strings.Count(shown.String(), "NAME"); n != 1 {
		t.Errorf("%d heads in\n%s", n, shown)
	}
	must("", "delete", "service", "web")
	happened.until(t, "service.deleted")
	done.until(t, "ada catalog.create cluster one") // the events from before
	done.until(t, "ada catalog.delete service web")
	cancel()
	ended.Wait()
}
