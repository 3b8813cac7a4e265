package agent

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/telemetry"
)

// The program asks the agent beside it for metrics and profiles, by a socket that is for the agent's user alone.
func TestTheProgramAsksTheAgentBesideIt(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays is small
	ask := func(args ...string) (string, error) {
		var said bytes.Buffer
		err := Debug(t.Context(), args, func(string) string { return "" }, &said)
		return said.String(), err
	}
	if _, err := ask("--data-dir="+dir, "/metrics"); err == nil || !strings.Contains(err.Error(), "has to run") {
		t.Errorf("without an agent: %v", err)
	}
	for _, args := range [][]string{{}, {"/metrics"}, {"--data-dir=" + dir}, {"--nothing", "/metrics"}} {
		if _, err := ask(args...); err == nil || !strings.Contains(err.Error(), "usage: agent debug") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, debugSocket), nil, 0o600); err != nil { // as of an agent that was killed
		t.Fatal(err)
	}
	tel := telemetry.Discard()
	a := &Agent{cfg: Config{DataDir: dir}, telemetry: tel, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.serveDebug(ctx) }()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := ask("--data-dir="+dir, "/metrics")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, debugSocket)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if heap, err := ask("--data-dir="+dir, "/debug/pprof/heap"); err != nil || !strings.HasPrefix(heap, "\x1f\x8b") {
		t.Errorf("the heap's profile: %.20q, %v", heap, err)
	}
	if text, err := ask("--data-dir="+dir, "/debug/pprof/goroutine?debug=1"); err != nil || !strings.Contains(text, "goroutine profile:") {
		t.Errorf("goroutines: %.40q, %v", text, err)
	}
	if _, err := ask("--data-dir="+dir, "/debug/nothing"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what is not there: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
