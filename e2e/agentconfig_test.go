package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const narrowed = `apiVersion: fairlead.dev/v1
kind: AgentConfig
metadata: {name: narrowed}
spec:
  clusters: {names: [CLUSTER]}
  settings: {concurrency: 3, apiRequests: 16}
`

// An agent is configured from the hub, says so, and goes back to its flags.
func TestAnAgentIsConfiguredFromTheHub(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	name := s.Clusters[0].Name
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Fairlead(ctx, args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	shows := func(ok func(out string) bool) {
		t.Helper()
		for {
			out := run("get", "cluster", name, "-o", "yaml")
			if ok(out) {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("the cluster does not say so:\n%s", out)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	file := filepath.Join(t.TempDir(), "narrowed.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(narrowed, "CLUSTER", name)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run("apply", "-f",
		file); !strings.Contains(out, "configures 1 agent anew; "+name+": apiRequests 16, concurrency 3") {
		t.Errorf("apply says %s", out)
	}
	shows(func(out string) bool {
		return strings.Contains(out, "key: concurrency") &&
			(strings.Contains(out, "phase: trial") || strings.Contains(out, "phase: in-force"))
	})
	if out := run("get", "agentconfigs"); !strings.Contains(out, "narrowed") ||
		strings.Fields(out[strings.Index(out, "narrowed"):])[2] != "1" {
		t.Errorf("get agentconfigs says\n%s", out)
	}
	run("delete", "agentconfig", "narrowed")
	shows(func(out string) bool { return !strings.Contains(out, "agentConfig") })
}
