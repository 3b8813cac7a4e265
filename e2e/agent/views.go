package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/retry"
)

const (
	// viewedPods is how many pods a view is measured with, in the namespace of this name.
	viewedPods = 10_000
	viewedIn   = "viewed"
	// viewChanges is how many single changes are waited for.
	viewChanges = 60
	// viewRate is how many pods change per second, and viewBusy for how long.
	viewRate = 100
	viewBusy = time.Minute
	// viewQuiet is how long nothing changes.
	viewQuiet = 5 * time.Minute
)

// Views measures what the view of a cluster with many pods costs its agent, beside client-go's informers of the same
// kinds, and how soon the hub has what changed.
func Views(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	b, err := open(ctx, bins, dir, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	if b.peers, err = buildPeers(ctx, dir); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{b.makePods, b.viewDelay, b.viewUnderLoad, b.quietView, b.viewMemory} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// makePods makes pods that are ready. No scheduler takes them, and no kubelet, so that nobody changes them but the
// bench.
func (b *bench) makePods(ctx context.Context) error {
	if err := b.world.Kube.Namespace(ctx, viewedIn); err != nil {
		return err
	}
	if err := b.world.takesPods(ctx, viewedIn); err != nil {
		return err
	}
	begin := time.Now()
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range viewedPods {
		group.Go(func() error {
			if err := b.world.Kube.Create(making, "/api/v1/namespaces/"+viewedIn+"/pods", waitingPod(viewedIn, i)); err != nil {
				return err
			}
			return b.setReady(making, i, true)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.say("%d pods are made after %v", viewedPods, time.Since(begin).Round(time.Second))
	return b.awaitFigures(ctx, "the view has all pods", func(figures map[string]int64) bool {
		return figures["pods.total"] >= viewedPods && figures["pods.not_ready"] == 0
	})
}

// waitingPod is a pod as large as pods are, which no scheduler takes.
func waitingPod(namespace string, i int) Object {
	name := podName(i)
	return Object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": Object{
			"name": name, "namespace": namespace, "labels": Object{"app": fmt.Sprintf("app-%d", i%200), "tier": "backend", "pod-template-hash": "7d9c6b5f4"},
			"annotations": Object{"checksum/config": "3b1f5c0a9c1c5d3b8a1e4f6d7c8b9a0e1f2d3c4b5a69788796a5b4c3d2e1f001", "example.com/owner": "the team of app " + strconv.Itoa(i%200)},
		},
		"spec": Object{
			"schedulingGates": []any{Object{"name": "example.com/never"}},
			"containers": []any{Object{
				"name": "web", "image": "registry.example.com/shop/web:1.24.3", "ports": []any{Object{"name": "http", "containerPort": 8080}},
				"env":            []any{Object{"name": "MODE", "value": "production"}, Object{"name": "LEVEL", "value": "info"}, Object{"name": "REGION", "value": "eu-1"}},
				"resources":      Object{"requests": Object{"cpu": "100m", "memory": "128Mi"}, "limits": Object{"memory": "256Mi"}},
				"readinessProbe": Object{"httpGet": Object{"path": "/ready", "port": "http"}, "periodSeconds": 10},
			}},
		},
	}
}

func podName(i int) string { return fmt.Sprintf("web-7d9c6b5f4-%05d", i) }

// setReady writes the status of a pod as its kubelet does.
func (b *bench) setReady(ctx context.Context, i int, ready bool) error {
	is := map[bool]string{true: "True", false: "False"}[ready]
	at := time.Now().UTC().Format(time.RFC3339)
	_, err := b.world.Kube.Edit(ctx, "/api/v1/namespaces/"+viewedIn+"/pods/"+podName(i)+"/status", Object{"status": Object{
		"phase": "Running", "podIP": fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255), "startTime": at,
		"conditions": []any{
			Object{"type": "Initialized", "status": "True", "lastTransitionTime": at}, Object{"type": "Ready", "status": is, "lastTransitionTime": at},
			Object{"type": "ContainersReady", "status": is, "lastTransitionTime": at}, Object{"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
		},
		"containerStatuses": []any{Object{
			"name": "web", "ready": ready, "restartCount": 0, "image": "registry.example.com/shop/web:1.24.3", "imageID": "registry.example.com/shop/web@sha256:0000",
			"containerID": "containerd://3b1f5c0a9c1c5d3b8a1e4f6d7c8b9a0e1f2d3c4b5a69788796a5b4c3d2e1f001", "started": true, "state": Object{"running": Object{"startedAt": at}},
		}},
	}})
	return err
}

// takesPods waits until a namespace takes pods: they wait for its service account.
func (w *World) takesPods(ctx context.Context, namespace string) error {
	return w.await(ctx, "the service account of "+namespace, func(ctx context.Context) error {
		_, err := w.Kube.Get(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default")
		return err
	})
}

// figures are those of the cluster's view in the hub.
func (w *World) figures(ctx context.Context) (map[string]int64, error) {
	list, err := w.views.ListClusterViews(ctx, &consolev1.ListClusterViewsRequest{Filter: "name = " + cluster})
	if err != nil || len(list.GetViews()) != 1 {
		return nil, errors.Join(errors.New("the hub has no view of the cluster"), err)
	}
	return list.GetViews()[0].GetFigures(), nil
}

func (b *bench) awaitFigures(ctx context.Context, what string, ok func(map[string]int64) bool) error {
	return b.world.await(ctx, what, func(ctx context.Context) error {
		figures, err := b.world.figures(ctx)
		if err == nil && !ok(figures) {
			err = fmt.Errorf("the hub has %v", figures)
		}
		return err
	})
}

// viewDelay changes a pod, and waits until the hub's view says so.
func (b *bench) viewDelay(ctx context.Context) error {
	var all []time.Duration
	for i := range viewChanges {
		want := int64(1 - i%2) // it becomes unready, and ready
		begin := time.Now()
		if err := b.setReady(ctx, i/2, want == 0); err != nil {
			return err
		}
		for {
			figures, err := b.world.figures(ctx)
			if err != nil {
				return err
			}
			if figures["pods.not_ready"] == want {
				break
			}
			if time.Since(begin) > patience {
				return fmt.Errorf("the hub has %d pods that are not ready, want %d", figures["pods.not_ready"], want)
			}
			if !retry.Sleep(ctx, 10*time.Millisecond) {
				return context.Cause(ctx)
			}
		}
		all = append(all, time.Since(begin))
		if !retry.Sleep(ctx, time.Duration(rand.IntN(1000))*time.Millisecond) { //nolint:gosec // not for secrets
			return context.Cause(ctx)
		}
	}
	slices.Sort(all)
	b.say("%d changes of a pod: in the hub after %v at the median", viewChanges, all[viewChanges/2].Round(time.Millisecond))
	b.say("BENCH views.change_to_hub_p95_ms %d ms", all[viewChanges*95/100].Milliseconds())
	return nil
}

// viewUnderLoad changes pods all the time.
func (b *bench) viewUnderLoad(ctx context.Context) error {
	cpu, begin := gitcache.CPU(b.world.Agent.Pid()), time.Now()
	before, err := b.world.Metric(ctx, pushedBytes)
	if err != nil {
		return err
	}
	var under sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	ticker := time.NewTicker(time.Second / viewRate)
	defer ticker.Stop()
	changes := 0
	for end := begin.Add(viewBusy); time.Now().Before(end); changes++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		i := changes
		under.Go(func() {
			err := b.setReady(ctx, i/2%viewedPods, i%2 == 1)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	under.Wait()
	if failed != nil {
		return failed
	}
	took := time.Since(begin).Seconds()
	after, err := b.world.Metric(ctx, pushedBytes)
	if err != nil {
		return err
	}
	b.say("BENCH views.changes_per_second %.0f changes/s", float64(changes)/took)
	b.say("BENCH views.agent_cores_100_changes_per_s %.3f cores", (gitcache.CPU(b.world.Agent.Pid())-cpu).Seconds()/took)
	b.say("BENCH views.pushed_bytes_per_minute_100_changes_per_s %.0f bytes", (after-before)/took*60)
	return nil
}

// pushedBytes is how much the agent has pushed.
const pushedBytes = "fairlead_agent_view_pushed_bytes_total"

// quietView lets time pass in which nothing changes.
func (b *bench) quietView(ctx context.Context) error {
	for i := range viewedPods / 100 { // whatever the storm left
		if err := b.setReady(ctx, i, true); err != nil {
			return err
		}
	}
	if err := b.awaitFigures(ctx, "the view is calm", func(figures map[string]int64) bool { return figures["pods.not_ready"] <= viewRate }); err != nil {
		return err
	}
	if !retry.Sleep(ctx, time.Minute) {
		return context.Cause(ctx)
	}
	before, err := b.world.Metric(ctx, pushedBytes)
	if err != nil {
		return err
	}
	if !retry.Sleep(ctx, viewQuiet) {
		return context.Cause(ctx)
	}
	after, err := b.world.Metric(ctx, pushedBytes)
	b.say("BENCH views.bytes_per_cluster_hour_quiet %.0f bytes", (after-before)*float64(time.Hour/viewQuiet))
	return err
}

// viewMemory compares agents with and without a view, and informers of the same kinds.
func (b *bench) viewMemory(ctx context.Context) error {
	with, err := b.restingAgent(ctx)
	if err != nil {
		return err
	}
	if err := b.world.Apply(ctx, "apiVersion: fairlead.dev/v1\nkind: AgentConfig\nmetadata: {name: no-views}\nspec:\n  clusters: {all: true}\n  settings: {off: [views]}\n"); err != nil {
		return err
	}
	err = b.world.await(ctx, "the agent keeps no view", func(ctx context.Context) error {
		list, err := b.world.views.ListClusterViews(ctx, &consolev1.ListClusterViewsRequest{Filter: "name = " + cluster})
		if err == nil && (len(list.GetViews()) != 1 || list.GetViews()[0].GetUnfollowed() == "") {
			err = errors.New("it does")
		}
		return err
	})
	if err != nil {
		return err
	}
	without, err := b.restingAgent(ctx)
	if err != nil {
		return err
	}
	out, err := process.Run(ctx, nil, "", b.peers, "informers", b.world.Kubeconfig())
	if err != nil {
		return err
	}
	var said struct{ Before, After float64 }
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return fmt.Errorf("the informers said %q: %w", out, err)
	}
	b.say("the agent has %.1f MiB with a view and %.1f without one; a program with informers %.1f, and %.1f before they began", with, without, said.After, said.Before)
	b.say("BENCH views.agent_extra_rss_mib_10k_pods %.1f MiB", with-without)
	b.say("BENCH views.informers_rss_mib_10k_pods %.1f MiB", said.After-said.Before)
	return nil
}

// restingAgent starts the agent anew, and returns its resident memory in MiB when it has come to rest.
func (b *bench) restingAgent(ctx context.Context) (float64, error) {
	if err := b.world.Agent.Kill(); err != nil {
		return 0, err
	}
	if err := b.world.Agent.Start(); err != nil {
		return 0, err
	}
	if err := b.world.ready(ctx); err != nil {
		return 0, err
	}
	if _, err := b.rest(ctx); err != nil {
		return 0, err
	}
	return status(b.world.Agent.Pid(), "VmRSS:"), nil
}
