// Package agent runs the built agent under a built hub, before a real API server, with a proxy in between that
// counts its requests. The bench measures it beside its peers (e2e/agentbench); the storms see what it does when much
// goes wrong at once, and are tests in their short form.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kubetest"
)

const (
	// cluster is the name of the one cluster.
	cluster = "bench"
	// patience is for a busy machine.
	patience = 10 * time.Minute
)

// World is a hub in one process, one cluster, and its agent.
type World struct {
	Kube  *Kube  // for the test
	Proxy *Proxy // for the agent
	Agent *process.Process

	dir      string
	hub      *stack.Stack
	local    *kubetest.Cluster
	metrics  string       // URL of the agent's own door
	door     *http.Client // to it
	http     *http.Client // to the hub
	services consolev1connect.ServiceServiceClient
	syncs    consolev1connect.SyncServiceClient
	views    consolev1connect.ClusterViewServiceClient

	mu      sync.Mutex // guards what follows
	repo    *stack.Repository
	commits []string // commits that were pushed, in order
}

// Start brings all up, with the kind of the load's custom resources, and waits until the agent is ready.
func Start(ctx context.Context, bins stack.Binaries, dir string) (w *World, err error) {
	w = &World{dir: dir, door: &http.Client{Transport: &http.Transport{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()
	if w.hub, err = stack.Up(ctx, bins, dir, "--no-clusters"); err != nil {
		return w, err
	}
	if w.local, err = kubetest.Start(ctx, filepath.Join(dir, "kubernetes"), cluster); err != nil {
		return w, err
	}
	if w.Kube, err = OpenKube(w.local.Kubeconfig); err != nil {
		return w, err
	}
	if w.Proxy, err = StartProxy(ctx, dir, w.Kube); err != nil {
		return w, err
	}
	if err := w.connect(); err != nil {
		return w, err
	}
	if w.repo, err = w.hub.Clone(ctx); err != nil {
		return w, err
	}
	if err := w.define(ctx); err != nil {
		return w, err
	}
	return w, w.join(ctx, bins)
}

// Stop ends everything, and says what did not end well.
func (w *World) Stop() error {
	var errs []error
	if w.Agent != nil {
		errs = append(errs, w.Agent.Stop(time.Minute))
	}
	if w.Proxy != nil {
		w.Proxy.Stop()
	}
	if w.local != nil {
		w.local.Stop()
	}
	if w.hub != nil {
		errs = append(errs, w.hub.Stop())
	}
	if w.http != nil {
		w.http.CloseIdleConnections()
	}
	w.door.CloseIdleConnections()
	return errors.Join(errs...)
}

// Apply applies resources of the catalog.
func (w *World) Apply(ctx context.Context, text string) error {
	_, err := w.hub.FairleadStdin(ctx, text, "apply", "-f", "-")
	return err
}

// GitURL is where the repository of all services is pushed to.
func (w *World) GitURL() string { return w.hub.GitURL }

// Kubeconfig leads to the API server past the proxy, as its administrator.
func (w *World) Kubeconfig() string { return w.local.Kubeconfig }

// Kubectl runs the real kubectl past the proxy.
func (w *World) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return w.local.Kubectl(ctx, stdin, args...)
}

// connect prepares calls to the console.
func (w *World) connect() error {
	token, err := w.hub.Token()
	if err != nil {
		return err
	}
	if w.http, err = client.New(client.Config{CAFile: w.hub.CAFile}); err != nil {
		return err
	}
	options := append(client.Options(), client.WithToken(identity.StaticToken(token)))
	w.services = consolev1connect.NewServiceServiceClient(w.http, w.hub.Hub["console"], options...)
	w.views = consolev1connect.NewClusterViewServiceClient(w.http, w.hub.Hub["console"], options...)
	w.syncs = consolev1connect.NewSyncServiceClient(w.http, w.hub.Hub["console"], options...)
	return nil
}

// define makes the kind of the load's custom resources, and waits until there is one.
func (w *World) define(ctx context.Context) error {
	if err := w.Kube.Create(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(widgets, "Widget", "widgets")); err != nil {
		return err
	}
	return w.await(ctx, "widgets are served", func(ctx context.Context) error {
		_, err := w.Kube.Get(ctx, "/apis/"+widgets+"/v1/widgets")
		return err
	})
}

// join starts the agent.
func (w *World) join(ctx context.Context, bins stack.Binaries) error {
	if _, err := w.hub.FairleadStdin(ctx, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: "+cluster+"}\n", "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := w.hub.Fairlead(ctx, "cluster", "join-token", cluster)
	if err != nil {
		return err
	}
	file := filepath.Join(w.dir, "join-token")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(token)), 0o600); err != nil {
		return err
	}
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		return err
	}
	w.metrics = "http://" + addrs[0]
	w.Agent = process.New(w.dir, "agent", filepath.Join(bins.Dir, "agent"),
		"--hub-url", w.hub.Hub["console"], "--hub-ca-file", w.hub.CAFile, "--join-token-file", file, "--data-dir", filepath.Join(w.dir, "agent.data"),
		"--kubeconfig", w.Proxy.Kubeconfig, "--health-listen", addrs[0])
	if err := w.Agent.Start(); err != nil {
		return err
	}
	return w.ready(ctx)
}

func (w *World) ready(ctx context.Context) error {
	return w.await(ctx, "the agent is ready", func(ctx context.Context) error {
		_, err := w.get(ctx, "/readyz")
		return err
	})
}

// await waits with a patience that is the same for all.
func (w *World) await(ctx context.Context, what string, ok func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("gave up after "+patience.String()))
	defer cancel()
	return process.Await(ctx, what, ok)
}

// get asks the agent's own door.
func (w *World) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.metrics+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := w.door.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// Metric sums up the agent's metric over the series that have all of the labels, such as `result="applied"`.
func (w *World) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	text, err := w.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		bare, with, _ := strings.Cut(series, "{")
		if bare != name || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(with, label) }) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+number, true
	}
	if !found && len(labels) == 0 {
		return 0, fmt.Errorf("the agent has no metric %s", name)
	}
	return sum, nil
}

// Push commits files below a folder, and returns the commit. An empty file is removed.
func (w *World) Push(ctx context.Context, folder string, files map[string]string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	under := make(map[string]string, len(files))
	for name, content := range files {
		under[folder+"/"+name] = content
	}
	commit, err := w.repo.Push(ctx, folder, under)
	if err == nil {
		w.commits = append(w.commits, commit)
	}
	return commit, err
}

// Serve has the hub keep a folder of this name applied, in a namespace of this name.
func (w *World) Serve(ctx context.Context, name string, sync *deliveryv1.SyncSpec) error {
	return w.ServeSpec(ctx, name, &consolev1.ServiceSpec{Path: name, Sync: sync})
}

// ServeSpec has the hub keep a service applied as its spec says. Source, cluster and namespace are given, and the sync
// that was asked for last stays: without it the content of before would be delivered once more.
func (w *World) ServeSpec(ctx context.Context, name string, spec *consolev1.ServiceSpec) error {
	spec.Source = "sample"
	return w.ServeFrom(ctx, name, spec)
}

// ServeFrom is ServeSpec with the source that the spec names.
func (w *World) ServeFrom(ctx context.Context, name string, spec *consolev1.ServiceSpec) error {
	spec.Cluster, spec.Namespace = cluster, name
	if before, err := w.Service(ctx, name); err == nil && before.GetSpec().GetSync().GetRequestTime() != nil {
		if spec.Sync == nil {
			spec.Sync = &deliveryv1.SyncSpec{}
		}
		spec.Sync.RequestTime = before.GetSpec().GetSync().GetRequestTime()
	}
	_, err := w.services.UpdateService(ctx, &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: name}, Spec: spec,
	}})
	return err
}

// Service is what the hub knows of a service.
func (w *World) Service(ctx context.Context, name string) (*consolev1.Service, error) {
	resp, err := w.services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	return resp.GetService(), err
}

// Settled waits until the hub knows that a commit, or a later one, is applied and healthy.
func (w *World) Settled(ctx context.Context, name, commit string) error {
	return w.await(ctx, fmt.Sprintf("%s is settled at %.8s", name, commit), func(ctx context.Context) error {
		svc, err := w.Service(ctx, name)
		if err != nil {
			return err
		}
		status := svc.GetStatus()
		hub, report := status.GetHub(), status.GetCluster().GetReport()
		if !w.includes(hub.GetRevision().GetCommit(), commit) || report.GetAppliedDigest() != hub.GetDigest() ||
			status.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY {
			return fmt.Errorf("%v at %.8s, applied %.8s: %s", status.GetState(), hub.GetRevision().GetCommit(),
				report.GetAppliedCommit(), status.GetStateMessage())
		}
		return nil
	})
}

// includes tells whether a commit is head or was pushed before it.
func (w *World) includes(head, commit string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.commits, head)
	return at >= 0 && at >= slices.Index(w.commits, commit)
}

// Deploy makes a namespace and a service of objects in it, and waits until it is settled.
func (w *World) Deploy(ctx context.Context, name string, objects []Object) error {
	if err := w.Kube.Namespace(ctx, name); err != nil {
		return err
	}
	commit, err := w.PushObjects(ctx, name, objects)
	if err != nil {
		return err
	}
	if err := w.Serve(ctx, name, nil); err != nil {
		return err
	}
	return w.Settled(ctx, name, commit)
}

// PushObjects makes objects the content of a folder.
func (w *World) PushObjects(ctx context.Context, name string, objects []Object) (string, error) {
	content, err := files(objects)
	if err != nil {
		return "", err
	}
	return w.Push(ctx, name, content)
}

// Remove deletes a service, and waits until the agent has removed its objects.
func (w *World) Remove(ctx context.Context, name string) error {
	if _, err := w.services.DeleteService(ctx, &consolev1.DeleteServiceRequest{Name: name}); err != nil {
		return err
	}
	return w.await(ctx, name+" is removed", func(ctx context.Context) error {
		_, err := w.Kube.Get(ctx, "/api/v1/namespaces/fairlead-system/configmaps/inventory."+name)
		if IsCode(err, http.StatusNotFound) {
			return nil
		}
		return errors.Join(err, errors.New("it has an inventory"))
	})
}

// APIServer is the process id of the API server, 0 while it has none.
func (w *World) APIServer() int {
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range found {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !strings.HasPrefix(string(line), "kube-apiserver\x00") {
			continue
		}
		if at, err := os.Readlink(filepath.Join(dir, "cwd")); err == nil && at == w.local.Dir {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			return pid
		}
	}
	return 0
}

// KillAPIServer ends the API server as kill -9 does, and returns when the next one is ready.
func (w *World) KillAPIServer(ctx context.Context) error {
	pid := w.APIServer()
	if pid == 0 {
		return errors.New("no API server was found")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return w.await(ctx, "the API server is back", func(ctx context.Context) error {
		if now := w.APIServer(); now == 0 || now == pid {
			return errors.New("it is not")
		}
		resp, err := w.Kube.send(ctx, http.MethodGet, "/readyz", "", nil)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}
