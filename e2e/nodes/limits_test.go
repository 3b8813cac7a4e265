package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

var fleetClusters = flag.Int("fleet-clusters", 1000, "with -long: how many simulated clusters the charts' limits have to hold for")

const (
	// fleetServices are on each simulated cluster.
	fleetServices = 30
	// fleetLimit is for the first delivery and some minutes after it.
	fleetLimit = 40 * time.Minute
	// memoryEvery is between two looks at the pods' memory.
	memoryEvery = 3 * time.Second
)

// A fleet of simulated clusters joins a hub with the limits that its chart has by default: no container is killed or
// restarted, and every cluster has what the hub says.
func TestLimitsHoldWithAThousandClusters(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	w := start(t, 1)
	w.installHub(t, hubValues)
	w.logIn(t)
	w.fairlead(t, "", "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"))
	peaks, end := w.watchMemory(t)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(t.Context(), fleetLimit)
	defer cancel()
	program := filepath.Join(w.dir, "fleet")
	if _, err := process.Run(ctx, nil, "", "go", "build", "-o", program, "fairlead.dev/e2e/cmd/fleet"); err != nil {
		t.Fatal(err)
	}
	said, err := w.inLab(ctx, nil, "", program, "-clusters", strconv.Itoa(*fleetClusters), "-services", strconv.Itoa(fleetServices), "-duration", "2m",
		"-hub", "console=https://fairlead-console.fairlead.svc:7400", "-hub", "gitcache=https://fairlead-gitcache.fairlead.svc:7401",
		"-hub", "distributor=https://fairlead-distributor.fairlead.svc:7402", "-hub", "tunnel=https://fairlead-tunnel.fairlead.svc:7403",
		"-secrets", w.secrets, "-git-listen", gitHost+":7405")
	end()
	t.Log(said)
	if err != nil {
		t.Error(err)
	}
	for pod, peak := range peaks {
		t.Logf("%s: at most %d of %d MiB", pod, peak.used>>20, peak.limit>>20)
		if peak.limit == peak.used {
			t.Errorf("%s has no memory limit", pod)
		}
	}
	if len(peaks) != 5 { // more: one was replaced
		t.Errorf("memory was seen of %d pods of the hub, want two consoles and one of each other service", len(peaks))
	}
	restarts := w.kubectl(t, "", "get", "pods", "--namespace=fairlead",
		`--output=jsonpath={range .items[*].status.containerStatuses[*]}{.restartCount} {.lastState.terminated.reason}{"\n"}{end}`)
	for line := range strings.Lines(restarts) {
		if strings.TrimSpace(line) != "0" {
			t.Errorf("a container of the hub was restarted: %s", line)
		}
	}
}

// memory of a container.
type memory struct{ used, limit int64 }

// watchMemory looks at the memory of the hub's containers, as their kubelet counts it against the limits, until end is
// called. The peaks, by pod, are complete then.
func (w *world) watchMemory(t *testing.T) (peaks map[string]memory, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	peaks = map[string]memory{}
	var looking sync.WaitGroup
	looking.Go(func() {
		var errs []error
		for ctx.Err() == nil {
			if err := w.lookAtMemory(ctx, peaks); err != nil && ctx.Err() == nil {
				errs = append(errs, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(memoryEvery):
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Logf("memory was not seen now and then: %v", err)
		}
	})
	return peaks, func() { cancel(); looking.Wait() }
}

func (w *world) lookAtMemory(ctx context.Context, peaks map[string]memory) error {
	text, err := w.tryKubectl(ctx, "", "get", "--raw", "/api/v1/nodes/node-1/proxy/stats/summary")
	if err != nil {
		return err
	}
	var summary struct {
		Pods []struct {
			PodRef     struct{ Namespace, Name string }
			Containers []struct {
				Memory struct{ WorkingSetBytes, AvailableBytes int64 } // AvailableBytes: the rest of the limit
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &summary); err != nil {
		return fmt.Errorf("read what the kubelet says: %w", err)
	}
	for _, pod := range summary.Pods {
		for _, c := range pod.Containers {
			if used := c.Memory.WorkingSetBytes; pod.PodRef.Namespace == "fairlead" && used >= peaks[pod.PodRef.Name].used {
				peaks[pod.PodRef.Name] = memory{used, used + c.Memory.AvailableBytes}
			}
		}
	}
	return nil
}
