//go:build unix

package up

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/cli/internal/contexts"
	hubapi "fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// The hub, its Git server and the command are there to be used while Kubernetes is being built, and clusters say how
// far they are.
func TestHubIsUsedWhileKubernetesIsBuilt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)
	program, gate := filepath.Join(dir, "prepare.sh"), filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program,
		[]byte("#!/bin/sh\necho 'compiling 17 of 99' >&2\nread go <'"+gate+"'\necho 'no compiler' >&2\nexit 3\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	out := &output{}
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{
			DataDir: filepath.Join(dir, "data"), Store: store, ListenHost: loopback, User: "tester", Stdout: out,
			Stderr: out, Prepare: program, Agent: "/nowhere/agent",
		})
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(out.String(), "compiling 17 of 99") {
		select {
		case err := <-done:
			t.Fatalf("up ended: %v\n%s", err, out)
		case <-tick.C:
		}
	}
	if text := out.String(); !strings.Contains(text, "The hub, its Git server and this command are ready") ||
		!strings.Contains(text, "get clusters -o wide") {
		t.Errorf("said:\n%s", text)
	}
	api, err := hubapi.Connect(t.Context(), store, contextName)
	if err != nil {
		t.Fatal(err)
	}
	defer api.HTTP.CloseIdleConnections()
	for _, name := range localNames() {
		got, err := api.Clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: name})
		if err != nil || got.GetCluster().GetSpec().GetDescription() != describedBuilding {
			t.Errorf("cluster %s: %v, %v", name, got, err)
		}
	}
	// A description of a person's stays.
	if err := describeCluster(t.Context(), api, localNames()[1], ""); err != nil {
		t.Fatal(err)
	}
	own := &consolev1.Cluster{
		Metadata: &consolev1.Metadata{Name: localNames()[1]}, Spec: &consolev1.ClusterSpec{Description: "mine"},
	}
	if _, err := api.Clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{Cluster: own}); err != nil {
		t.Fatal(err)
	}
	if err := describeCluster(t.Context(), api, localNames()[1], describedStarting); err != nil {
		t.Fatal(err)
	}
	got, err := api.Clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: localNames()[1]})
	if err != nil || got.GetCluster().GetSpec().GetDescription() != "mine" {
		t.Errorf("described as %v, %v", got, err)
	}
	// A build that fails ends all, with what it said.
	if err := os.WriteFile(gate, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), program) ||
		!strings.Contains(err.Error(), "exit status 3") || !strings.Contains(out.String(), "no compiler") {
		t.Errorf("got %v\n%s", err, out)
	}
}
