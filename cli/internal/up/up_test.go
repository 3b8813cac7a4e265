package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/cli/internal/contexts"
	hubapi "fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func TestDataFolderIsOursOrUntouched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	d, err := openDataDir(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(path, true); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("second at the same time: %v", err)
	}
	d.state.Seeded["source/sample"] = true
	d.state.Ports = fixedPorts(7400)
	if err := d.saveState(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.joinPath("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.releaseLock(); err != nil {
		t.Fatal(err)
	}
	for _, empty := range []bool{false, true} {
		if d, err = openDataDir(path, empty); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(d.joinPath("file"))
		if kept := err == nil && d.state.Seeded["source/sample"] && d.state.Ports == fixedPorts(7400); kept == empty {
			t.Errorf("empty %v: kept %v", empty, kept)
		}
		if err := d.releaseLock(); err != nil {
			t.Fatal(err)
		}
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(foreign, true); err == nil || !strings.Contains(err.Error(), "holds something else") {
		t.Errorf("somebody else's folder: %v", err)
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("left in it: %v, %v", entries, err)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	if _, err := choosePorts(t.Context(), port-1, loopback,
		ports{}); err == nil || !strings.Contains(err.Error(), "--port-base") ||
		!strings.Contains(err.Error(), "gitcache") {
		t.Errorf("taken port: %v", err)
	}
	var first ports
	for tries := 5; ; tries-- { // programs beside this one may try or take a port in between
		if first, err = choosePorts(t.Context(), 0, loopback, ports{}); err != nil {
			t.Fatal(err)
		}
		again, err := choosePorts(t.Context(), 0, loopback, first)
		if err == nil && again == first {
			break
		}
		if tries == 0 || err != nil {
			t.Fatalf("ports of the last run: %v, want %v, %v", again, first, err)
		}
	}
	first.Tunnel = port
	if other, err := choosePorts(t.Context(), 0, loopback, first); err != nil || other == first {
		t.Errorf("one of them is taken: %v, %v", other, err)
	}
}

func TestClusterNames(t *testing.T) {
	t.Parallel()
	for context, want := range map[string]string{
		"kind-a": "kind-a", "admin@Prod_EU.example": "admin-prod-eu-example", "-x-": "x", "": "my-cluster",
		"äöü":                           "my-cluster",
		strings.Repeat("a", 62) + "--b": strings.Repeat("a", 62),
	} {
		if got := clusterName(context); got != want {
			t.Errorf("%q: %q, want %q", context, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Options{Kubeconfig: file, Contexts: []string{"a.b", "a-b"}}).planClusters(); err == nil ||
		!strings.Contains(err.Error(), `cluster "a-b"`) {
		t.Errorf("two of one name: %v", err)
	}
	if got, err := (Options{Kubeconfig: file, Contexts: []string{"a", "b"}}).planClusters(); err != nil ||
		len(got) != 2 || got[1].Context != "b" || got[0].local {
		t.Errorf("got %+v, %v", got, err)
	}
}

// output is written and read at the same time.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// runUp runs until what it returns is called.
func runUp(t *testing.T, o Options) (readiness, *output, func()) {
	t.Helper()
	out := &output{}
	o.ListenHost, o.NoClusters, o.User, o.Stdout, o.Stderr = loopback, true, "tester", out, out
	if o.ReadyFile == "" {
		o.ReadyFile = filepath.Join(o.DataDir, "..", "ready.json")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("up: %v\n%s", err, out)
		}
	})
	t.Cleanup(stop)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(o.ReadyFile)
		var r readiness
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil {
			return r, out, stop
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			done <- nil
			t.Fatalf("up ended: %v\n%s", err, out)
		case <-tick.C:
		}
	}
}

func TestSecondRunFindsDataAgainAndLeavesContextsAsTheyWere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)
	if err := store.Put(contexts.Context{Name: "prod", URL: "https://hub.example.com"}); err != nil {
		t.Fatal(err)
	}
	o := Options{DataDir: filepath.Join(dir, "data"), Store: store}
	first, out, stop := runUp(t, o)
	if _, current, err := store.List(); err != nil || current != contextName {
		t.Errorf("current context %q, %v", current, err)
	}
	if text := out.String(); !strings.Contains(text, first.Hub.Console) || !strings.Contains(text, "get services") ||
		!strings.Contains(text, `then it is "prod" again`) {
		t.Errorf("summary:\n%s", text)
	}
	other := o
	other.ListenHost, other.NoClusters = loopback, true
	if err := Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("second at the same time: %v", err)
	}
	stop()
	if _, current, err := store.List(); err != nil || current != "prod" {
		t.Errorf("current context afterwards %q, %v", current, err)
	}
	second, _, stop := runUp(t, o)
	if second.Hub != first.Hub || second.Git != first.Git {
		t.Errorf("moved from %+v to %+v", first, second)
	}
	stop()
}

// A run that is killed leaves the context "local" the current one. The end of the next run makes the one of before it
// current.
func TestContextOfBeforeAKilledRunIsCurrentAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{DataDir: filepath.Join(dir, "data"), Store: contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)}
	if err := o.Store.Put(contexts.Context{Name: "prod", URL: "https://hub.example.com"}); err != nil {
		t.Fatal(err)
	}
	_, _, stop := runUp(t, o)
	left := map[string][]byte{o.Store.Path(): nil, filepath.Join(o.DataDir, markerFile): nil}
	for name := range left {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		left[name] = text
	}
	stop()
	for name, text := range left { // as if it had been killed
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, current, err := o.Store.List(); err != nil || current != contextName {
		t.Fatalf("current context %q, %v", current, err)
	}
	for _, want := range []string{"prod", contextName} { // the second time it is the person's choice
		_, _, stop = runUp(t, o)
		stop()
		if _, current, err := o.Store.List(); err != nil || current != want {
			t.Errorf("current context %q, %v, want %q", current, err, want)
		}
		if err := o.Store.Use(contextName); err != nil {
			t.Fatal(err)
		}
	}
}

// An agent knows the hub by its ports, and joins again after they changed, also if the run with the new ones started no
// agent.
func TestAgentsJoinAgainAtOtherPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	data, err := openDataDir(filepath.Join(t.TempDir(), "data"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.releaseLock() }()
	dir, err := data.makeDir("agents", "local-a")
	if err != nil {
		t.Fatal(err)
	}
	member, token := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "token")
	for _, name := range []string{member, token, dir + ".join-token"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data.state.Ports = fixedPorts(taken.Addr().(*net.TCPAddr).Port)
	u := &up{options: Options{ListenHost: loopback}, data: data}
	if err := u.settlePorts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(member); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the agent does not join again: %v", err)
	}
	if _, err := os.Stat(token); err != nil {
		t.Error(err)
	}
}

// A build that was interrupted leaves no description that says for ever that it goes on; what a person wrote stays.
func TestDescriptionOfInterruptedBuildIsTakenOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{DataDir: filepath.Join(dir, "data"), Store: contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)}
	described := []string{describedBuilding, "being built by ada"}
	_, _, stop := runUp(t, o)
	api, err := hubapi.Connect(t.Context(), o.Store, contextName)
	if err != nil {
		t.Fatal(err)
	}
	defer api.HTTP.CloseIdleConnections()
	for i, name := range localNames() {
		left := &consolev1.Cluster{
			Metadata: &consolev1.Metadata{Name: name}, Spec: &consolev1.ClusterSpec{Description: described[i]},
		}
		if _, err := api.Clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
			Cluster: left, AllowMissing: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	_, out, stop := runUp(t, o)
	defer stop()
	again, err := hubapi.Connect(t.Context(), o.Store, contextName)
	if err != nil {
		t.Fatal(err)
	}
	defer again.HTTP.CloseIdleConnections()
	for i, want := range []string{"", described[1]} {
		got, err := again.Clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: localNames()[i]})
		if err != nil || got.GetCluster().GetSpec().GetDescription() != want {
			t.Errorf("%s: %v, %v, want the description %q\n%s", localNames()[i], got, err, want, out)
		}
	}
}

// A run beside another one, with a folder of its own, leaves that one's context alone; once it runs alone it keeps its
// name.
func TestSecondRunBesideAnotherHasAContextOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)
	a := Options{DataDir: filepath.Join(dir, "a", "data"), Store: store}
	b := Options{DataDir: filepath.Join(dir, "b", "data"), Store: store}
	first, _, stopFirst := runUp(t, a)
	second, out, stopSecond := runUp(t, b)
	if first.Context != contextName || second.Context == contextName {
		t.Fatalf("contexts %q and %q", first.Context, second.Context)
	}
	if text := out.String(); !strings.Contains(text, fmt.Sprintf(`context "local" is that of the hub at %s, which runs: `+
		"this one has %q", first.Hub.Console, second.Context)) {
		t.Errorf("it does not say so:\n%s", text)
	}
	for _, r := range []readiness{first, second} {
		if c, err := store.Get(r.Context); err != nil || c.URL != r.Hub.Console {
			t.Errorf("context %q is that of %q, %v", r.Context, c.URL, err)
		}
	}
	if _, current, err := store.List(); err != nil || current != second.Context {
		t.Errorf("current context %q, %v", current, err)
	}
	stopSecond()
	if _, current, err := store.List(); err != nil || current != contextName {
		t.Errorf("current context afterwards %q, %v", current, err)
	}
	stopFirst()
	again, _, stop := runUp(t, b)
	defer stop()
	if again.Hub == second.Hub && again.Context != second.Context { // its ports may be taken by now
		t.Errorf("context %q, was %q", again.Context, second.Context)
	}
}

func TestFolderOfTheReadyFileIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{DataDir: filepath.Join(dir, "data"), Store: contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)}
	o.ReadyFile = filepath.Join(dir, "run", "of", "mine", "ready.json")
	_, _, stop := runUp(t, o)
	stop()
	o.ReadyFile = filepath.Join(dir, "config.yaml", "ready.json")
	o.ListenHost, o.NoClusters, o.Stdout, o.Stderr = loopback, true, &output{}, &output{}
	if err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "ready file: ") {
		t.Errorf("below a file: %v", err)
	}
}

func TestServiceThatCanNotStartEndsAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	o := Options{DataDir: data, Store: contexts.NewStore(filepath.Join(dir, "config.yaml"), nil)}
	_, _, stop := runUp(t, o)
	stop()
	// Its own key is damaged: the console refuses to run rather than to make a new one.
	if err := os.WriteFile(filepath.Join(data, "console", "master.key"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &output{}
	o.ListenHost, o.NoClusters, o.Stdout, o.Stderr = loopback, true, out, out
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "master") {
		t.Errorf("got %v", err)
	}
	// And everything was given back.
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	_, _, stop = runUp(t, o)
	stop()
}
