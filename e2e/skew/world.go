package skew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/commits"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/client"
)

// patience is for one step on a busy machine.
const patience = 4 * time.Minute

// failedSync is what an agent of either build logs when no distributor answered its Sync.
const failedSync = "the hub did not say what to apply"

// world is a hub of two replicas with two clusters, whose parts are of two builds.
type world struct {
	*stack.Stack
	t        *testing.T
	earlier  string // folder of the earlier programs
	now      string // folder of today's
	base     map[string][]string
	switches map[string][]string // by kind: flags of today's programs while any part is an earlier one
	ship     *stack.Ship
	hub      *http.Client
	token    string
	failures map[string]int // failed Syncs by agent that are known
	streams  []*stream
}

// chart has what an upgrade of an agent must not bring in twice: a hook, a random value, and a workload.
func chart() map[string]string {
	return map[string]string{ //nolint:gosec // a template of a password is no credential
		"Chart.yaml":             "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
		"values.yaml":            "replicas: 1\n",
		"templates/secret.yaml":  "apiVersion: v1\nkind: Secret\nmetadata: {name: random}\nstringData: {password: {{ randAlphaNum 20 | quote }}}\n",
		"templates/account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: chart}\n",
		"templates/service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: chart}\nspec: {selector: {app: chart}, ports: [{port: 80, name: http}]}\n",
		"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-delete-policy: before-hook-creation}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: "example.com/a:1"}]}}}
`,
		"templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: chart, labels: {app.kubernetes.io/instance: "{{ .Release.Name }}"}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: chart}}
  template: {metadata: {labels: {app: chart}}, spec: {containers: [{name: a, image: "example.com/a:1", env: [{name: A, value: "1"}]}]}}
`,
	}
}

// overlay is a kustomization over a base in the same folder.
func overlay() map[string]string {
	return map[string]string{
		"kustomization.yaml":      "namePrefix: over-\nresources: [base]\nconfigMapGenerator: [{name: settings, literals: [a=1]}]\nlabels: [{pairs: {team: skew}, includeSelectors: true}]\n",
		"base/kustomization.yaml": "resources: [role.yaml]\n",
		"base/role.yaml":          "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n",
	}
}

// start brings everything up as the earlier commit.
func start(ctx context.Context, t *testing.T, commit string) *world {
	t.Helper()
	bins, err := stack.FindBinaries(ctx, "../..")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	earlier, err := build(ctx, commit)
	if errors.Is(err, commits.ErrHistory) {
		t.Skipf("no version skew is tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the programs of %.8s are there after %.0f s", commit, time.Since(began).Seconds())
	s, _ := stack.Mixed(ctx, t, bins, earlier)
	w := &world{Stack: s, t: t, earlier: earlier, now: bins.Dir, base: map[string][]string{}, failures: map[string]int{}, switches: map[string][]string{}}
	for _, kind := range []string{"console", "gitcache", "distributor", "tunnel"} {
		w.switches[kind] = []string{"--unsigned-members=accept"} // as docs/operate/upgrade.md says: earlier services sign nothing, earlier agents have no key
	}
	for _, part := range s.Parts() {
		w.base[part] = slices.Clone(s.Process(part).Args)
	}
	if w.token, err = s.Token(); err != nil {
		t.Fatal(err)
	}
	if w.hub, err = client.New(client.Config{CAFile: s.CAFile}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.hub.CloseIdleConnections)
	w.learnSwitches()
	if w.ship, err = s.NewShip(ctx, "ship", "ship"); err != nil {
		t.Fatal(err)
	}
	if err := w.ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string]string{"chart": chart(), "overlay": overlay()} {
		w.push(ctx, name, files)
		for _, c := range s.Clusters {
			w.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %s-%s}\nspec: {source: sample, path: %s, cluster: %s, namespace: ship}\n", name, c.Name, name, c.Name))
		}
	}
	w.healthyAs(ctx, "chart-a", "chart-b", "overlay-a", "overlay-b")
	w.deliver(ctx, "begin")
	if objects := w.applied(ctx); len(objects) != 2*9 {
		t.Fatalf("%d objects in two clusters: %q", len(objects), objects)
	}
	for _, part := range []string{"agent-a", "agent-b"} {
		w.failures[part] = w.failedSyncs(part)
	}
	return w
}

// learnSwitches finds the flags that today's programs need beside earlier ones, as docs/operate/upgrade.md says.
func (w *world) learnSwitches() {
	w.t.Helper()
	for _, kind := range []string{"console", "gitcache", "distributor", "tunnel", "agent"} {
		help, err := exec.Command(filepath.Join(w.now, kind), "--help").CombinedOutput() //nolint:noctx // it prints and ends
		if err != nil {
			w.t.Fatalf("%s --help: %v: %s", kind, err, help)
		}
		if strings.Contains(string(help), "-unsigned-members ") {
			w.switches[kind] = append(w.switches[kind], "--unsigned-members=accept")
		}
	}
}

func (w *world) push(ctx context.Context, folder string, files map[string]string) {
	w.t.Helper()
	under := map[string]string{}
	for name, text := range files {
		under[folder+"/"+name] = text
	}
	repo, err := w.Clone(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := repo.Push(ctx, folder, under); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) apply(ctx context.Context, text string) {
	w.t.Helper()
	if _, err := w.FairleadStdin(ctx, text, "apply", "-f", "-"); err != nil {
		w.t.Fatal(err)
	}
}

// healthyAs waits until services are healthy.
func (w *world) healthyAs(ctx context.Context, names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.await(ctx, name+" is healthy", func(ctx context.Context) error {
			svc, err := w.Service(ctx, name)
			if err == nil && svc.Status.State != "healthy" {
				err = fmt.Errorf("state %s: %s", svc.Status.State, svc.Status.StateMessage)
			}
			return err
		})
	}
}

func (w *world) await(ctx context.Context, what string, ok func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := process.Await(ctx, what, ok); err != nil {
		w.t.Fatal(err)
	}
}

// deliver sends a commit through the hub as it is, and reads it back through each tunnel.
func (w *world) deliver(ctx context.Context, marker string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	commit, err := w.ship.Push(ctx, marker)
	if err == nil {
		err = w.ship.WaitApplied(ctx, marker)
	}
	if err == nil {
		err = w.ship.WaitHealthy(ctx, commit)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", marker, err)
	}
	for _, part := range []string{"tunnel", "tunnel-2", stack.HiddenTunnel} {
		for _, c := range w.Clusters {
			w.await(ctx, "cluster "+c.Name+" answers through "+part, func(ctx context.Context) error {
				var got struct{ Data struct{ Marker string } }
				err := w.get(ctx, w.URLs[part]+"/clusters/"+c.Name+"/api/v1/namespaces/ship/configmaps/marker", func(body io.Reader) error {
					return json.NewDecoder(body).Decode(&got)
				})
				if err == nil && got.Data.Marker != marker {
					err = fmt.Errorf("the marker is %q", got.Data.Marker)
				}
				return err
			})
		}
	}
}

func (w *world) get(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := w.hub.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read or not
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return read(resp.Body)
}

// bring replaces parts one after the other, delivers a commit after each, and holds each step against what must not
// happen.
func (w *world) bring(ctx context.Context, programs string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		before := w.applied(ctx)
		args := slices.Clone(w.base[part])
		version := "earlier"
		if programs == w.now {
			version = "today's"
			kind, _, _ := strings.Cut(part, "-")
			args = append(args, w.switches[kind]...)
		}
		step := part + " is " + version
		for _, s := range w.streams {
			s.begin(step)
		}
		began := time.Now()
		if err := w.Replace(part, programs, args...); err != nil {
			w.t.Fatal(err)
		}
		w.ready(ctx, part)
		w.deliver(ctx, step)
		w.unchanged(ctx, step, before, w.applied(ctx))
		for _, agent := range []string{"agent-a", "agent-b"} {
			if n := w.failedSyncs(agent); n != w.failures[agent] {
				w.t.Errorf("%s: %d Syncs of %s failed: %s", step, n-w.failures[agent], agent, w.lastFailure(agent))
				w.failures[agent] = n
			}
		}
		w.t.Logf("%s: delivered after %.1f s", step, time.Since(began).Seconds())
	}
}

func (w *world) ready(ctx context.Context, part string) {
	w.t.Helper()
	w.await(ctx, part+" is ready", func(ctx context.Context) error {
		if ended, err := w.Process(part).Ended(); ended {
			w.t.Fatalf("%s has ended: %v: %s", part, err, w.Tail(part))
		}
		if url, ok := w.URLs[part]; ok {
			return w.get(ctx, url+"/readyz", func(io.Reader) error { return nil })
		}
		return nil // an agent: the next delivery tells
	})
}

// applied is what services have in the clusters: what an apply of nothing new must leave as it is.
func (w *world) applied(ctx context.Context) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, c := range w.Clusters {
		out, err := w.Kubectl(ctx, c.Kubeconfig, "get", "configmaps,secrets,serviceaccounts,services,roles,deployments,jobs", "-n", "ship", "-l", "fairlead.dev/service", "-o", "json")
		if err != nil {
			w.t.Fatal(err)
		}
		var list struct {
			Items []struct {
				Kind     string
				Metadata struct {
					Name, UID, ResourceVersion string
					Generation                 int
					ManagedFields              []struct{ Manager, Operation, Time, Subresource string }
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			w.t.Fatal(err)
		}
		for _, o := range list.Items {
			m := o.Metadata
			version := m.ResourceVersion
			if o.Kind == "Deployment" || o.Kind == "Job" { // their status changes
				version = fmt.Sprint(m.Generation)
			}
			fields := []string{m.UID, version}
			for _, f := range m.ManagedFields {
				if f.Subresource == "" && f.Manager == "fairlead" {
					fields = append(fields, f.Operation, f.Time)
				}
			}
			all[c.Name+" "+o.Kind+"/"+m.Name] = strings.Join(fields, " ")
		}
	}
	return all
}

// unchanged holds what is applied against what was: only a commit changes something, and only in its folder.
func (w *world) unchanged(ctx context.Context, step string, before, after map[string]string) {
	w.t.Helper()
	pushed := func(name string) bool {
		_, object, _ := strings.Cut(name, " ")
		return object == "ConfigMap/marker" || object == "Deployment/web"
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !pushed(name) && before[name] != after[name] {
			w.t.Errorf("%s: %s was %q, and is %q", step, name, before[name], after[name])
		}
	}
	if len(after) != len(before) {
		w.t.Errorf("%s: %d objects, and %d before", step, len(after), len(before))
	}
	counts, err := w.ship.Generations(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for cluster, n := range counts {
		if n != w.ship.Pushes() {
			w.t.Errorf("%s: the Deployment of cluster %s changed %d times for %d commits", step, cluster, n, w.ship.Pushes())
		}
	}
}

func (w *world) failedSyncs(agent string) int {
	w.t.Helper()
	log, err := w.Process(agent).Log()
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Count(log, failedSync)
}

func (w *world) lastFailure(agent string) string {
	log, _ := w.Process(agent).Log() // the log was read just before
	lines := strings.Split(log, "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, failedSync) {
			return line
		}
	}
	return ""
}

// stream is a watch through a tunnel, begun again whenever it ends.
type stream struct {
	part string
	ends sync.WaitGroup

	mu   sync.Mutex // guards what follows
	step string     // the step that goes on
	told []string   // how it ended, each time
	seen int        // events
}

func (s *stream) begin(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
}

// follow watches the ConfigMaps of cluster a through a tunnel until ctx ends.
func (w *world) follow(ctx context.Context, part string) *stream {
	s := &stream{part: part}
	s.ends.Go(func() {
		_ = process.Await(ctx, "the end", func(ctx context.Context) error { // ctx ends it
			opened := false
			err := w.get(ctx, w.URLs[part]+"/clusters/a/api/v1/namespaces/ship/configmaps?watch=1&allowWatchBookmarks=true", func(body io.Reader) error {
				opened = true
				for events := json.NewDecoder(body); ; {
					var event struct{ Type string }
					if err := events.Decode(&event); err != nil {
						return err
					}
					s.mu.Lock()
					s.seen++
					s.mu.Unlock()
				}
			})
			if opened && ctx.Err() == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.told = append(s.told, fmt.Sprintf("%s: %v", s.step, err))
			}
			return err
		})
	})
	return s
}

// judge says which ends of a stream were none of its own: a watch ends between two events, and only when the tunnel or
// the agent that carries it is told to end.
func (s *stream) judge() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wrong []error
	for _, end := range s.told {
		own := strings.HasPrefix(end, "tunnel") || strings.HasPrefix(end, "agent-a ")
		if !own || !strings.HasSuffix(end, ": "+io.EOF.Error()) {
			wrong = append(wrong, fmt.Errorf("the watch through %s was cut: %s", s.part, end))
		}
	}
	if s.seen == 0 {
		wrong = append(wrong, fmt.Errorf("the watch through %s saw nothing", s.part))
	}
	return errors.Join(wrong...)
}

// bothConsoles writes through each console, and reads at the other one.
func (w *world) bothConsoles(ctx context.Context, state string) {
	w.t.Helper()
	configs := map[string]string{}
	for _, part := range []string{"console", "console-2"} {
		configs[part] = filepath.Join(w.Dir, part+".yaml")
		if _, err := w.FairleadConfig(ctx, configs[part], "login", w.URLs[part], "--hub-secret-file", w.HubSecret(), "--ca-file", w.CAFile); err != nil {
			w.t.Fatalf("%s: log in at %s: %v", state, part, err)
		}
	}
	for part, other := range map[string]string{"console": "console-2", "console-2": "console"} {
		file := filepath.Join(w.Dir, "set.yaml")
		text := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: ConfigSet\nmetadata: {name: %s}\nspec: {entries: {state: {text: %q}}}\n", part, state)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.FairleadConfig(ctx, configs[part], "apply", "-f", file); err != nil {
			w.t.Fatalf("%s: write at %s: %v", state, part, err)
		}
		w.await(ctx, other+" has what "+part+" wrote", func(ctx context.Context) error {
			out, err := w.FairleadConfig(ctx, configs[other], "get", "configset", part, "-o", "json")
			if err == nil && !strings.Contains(out, state) {
				err = errors.New(out)
			}
			return err
		})
	}
}
