package acceptance

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/lead"
)

// another is a second agent's side of a world that one has joined: another folder, with a credential for the same
// cluster.
func (w *world) another() *world {
	w.t.Helper()
	second := *w
	second.data = w.t.TempDir()
	for _, name := range []string{"token", "cluster.json"} {
		data, err := os.ReadFile(filepath.Join(w.data, name))
		if err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(second.data, name), data, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return &second
}

func (w *world) leader() string {
	lease, err := w.cluster.Leases(inventory.Namespace).Get(w.t.Context(), lead.Name, getOptions)
	if err != nil {
		return ""
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder
}

// named tells that the agent has been started.
func (w *world) named() bool {
	_, err := os.Stat(filepath.Join(w.data, "replica"))
	return err == nil
}

func (w *world) name() string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.data, "replica"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// wants is the digest of a service that the agent's disk knows as wanted.
func (w *world) wants(service string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.data, "desired.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	copied := w.t.TempDir() // to open a store sweeps its folder
	if err := os.WriteFile(filepath.Join(copied, "desired.json"), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	store, err := desired.Open(copied, slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	found, _ := store.Get(service)
	return found.Digest
}

// changes lists what was sent to change objects.
func (p *apiProxy) changes() []string {
	return slices.DeleteFunc(p.since(0), func(line string) bool {
		return !strings.HasPrefix(line, "PATCH ") && !strings.HasPrefix(line, "DELETE ")
	})
}

// Two agents of one cluster. Killed in the middle of an apply, the leader is followed by the other, which ends it: no
// object is sent by both at once, none is left out, and none is left over. Told to stop, it is followed at once.
func TestAnotherAgentGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.elects = true
	name := w.service("web")
	killFirst := w.process()
	all := strings.Fields("c0 c1 c2 c3 c4 c5 c6 c7 c8 c9")
	files := func(value string) map[string]string {
		files := map[string]string{}
		for _, n := range all {
			files[n+".yaml"] = configMap(n, value)
		}
		return files
	}
	before := files("1")
	before["old.yaml"] = configMap("old", "1")
	digest := w.hub.push(t, name, w.namespace, before)
	w.hub.awaitPhase(t, name, digest, healthy)
	second := w.another()
	_, killSecond := second.processID()
	await.True(w.t, "the second agent starts", func() bool { return second.named() })
	if w.leader() != w.name() {
		t.Fatalf("%s leads, not %s", w.leader(), w.name())
	}

	count := len(w.api.changes())
	reached := w.api.stallOn(http.MethodPatch, "/configmaps/c5")
	digest = w.hub.push(t, name, w.namespace, files("2"))
	waitFor(t, reached, "the middle of the apply")
	killFirst()
	first := w.api.changes()[count:]
	w.api.set(nil)
	w.hub.awaitPhase(t, name, digest, healthy)
	if w.leader() != second.name() {
		t.Errorf("%s leads, not %s", w.leader(), second.name())
	}
	both := w.api.changes()[count:]
	for _, n := range all {
		w.mustData(n, "2")
		for who, lines := range map[string][]string{"first": first, "second": both[len(first):]} {
			path := "PATCH /api/v1/namespaces/" + w.namespace + "/configmaps/" + n
			if sent := len(slices.DeleteFunc(slices.Clone(lines),
				func(line string) bool { return line != path })); sent > 1 {
				t.Errorf("the %s agent has sent %s %d times", who, n, sent)
			}
		}
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "old")
	if got := len(w.record(name).Entries); got != len(all) {
		t.Errorf("the inventory has %d objects, not %d", got, len(all))
	}

	// The first one comes back with a disk of long ago. The agent stands by, and then does not bring back what was.
	digest = w.hub.push(t, name, w.namespace, files("3"))
	w.hub.awaitPhase(t, name, digest, healthy)
	stop := w.start()
	killSecond()
	w.hub.setDown(true)
	count = len(w.api.changes())
	await.True(w.t, "the first one leads again", func() bool { return w.leader() == w.name() })
	w.hub.setDown(false)
	await.True(w.t, "it knows what is wanted", func() bool { return w.wants(name) == digest })
	digest = w.hub.push(t, name, w.namespace, files("4"))
	w.hub.awaitPhase(t, name, digest, healthy)
	more := w.api.changes()[count:]
	if sent := slices.DeleteFunc(more, func(line string) bool {
		return !strings.HasPrefix(line, "PATCH /api/v1/namespaces/"+w.namespace) || strings.HasSuffix(line, "?dryRun")
	}); len(sent) != len(all) {
		t.Errorf("of %d objects the first agent has sent %q", len(all), sent)
	}

	// Told to stop, it lets go: the other need not wait for the Lease's time.
	same, gone := w.service("same"), w.service("gone")
	for _, one := range []string{same, gone} {
		w.hub.awaitPhase(t, one, w.hub.push(t, one, w.namespace, map[string]string{"a.yaml": configMap(one, "1")}), healthy)
	}
	stopSecond := second.start()
	stop()
	began := time.Now()
	await.True(w.t, "the other leads", func() bool { return w.leader() == second.name() })
	t.Logf("handed over within %s", time.Since(began).Round(time.Millisecond))

	// The console is away when the first one takes over, and the distributor knows as little of what was meanwhile as
	// the agent's disk. What the last leader brought in stays.
	known := w.hub.known()
	delete(known, gone) // the agent's disk alone knows it
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("5")), healthy)
	w.hub.remove(gone)
	w.hub.await(t, gone, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.hub.setBehind(known)
	stop = w.start()
	stopSecond()
	await.True(w.t, "the first one leads once more", func() bool { return w.leader() == w.name() })
	count, fetched := len(w.api.changes()), w.hub.downloaded()
	added := w.service("added")
	w.hub.awaitPhase(t, added, w.hub.push(t, added, w.namespace, map[string]string{"a.yaml": configMap("added", "1")}),
		healthy)
	w.hub.awaitPhase(t, same, known[same].GetDigest(), healthy)
	kubectl(w, "", "delete", "configmap", same)
	await.True(w.t, "what the cluster has as the distributor says is repaired", func() bool { return w.has(same) })
	for _, n := range all {
		w.mustData(n, "5")
	}
	w.hub.setBehind(nil)
	digest = w.hub.push(t, name, w.namespace, files("6"))
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, gone)
	if sent := slices.DeleteFunc(w.api.changes()[count:], func(line string) bool {
		return !strings.HasPrefix(line, "PATCH /api/v1/namespaces/"+w.namespace+"/configmaps/c") || strings.HasSuffix(line, "?dryRun")
	}); len(sent) != len(all) {
		t.Errorf("of %d objects the first agent has sent %q", len(all), sent)
	}
	if more := w.hub.downloaded() - fetched; more != 2 {
		t.Errorf("%d contents were fetched, not those of what is new", more)
	}
	stop()
	if holder := w.leader(); holder != "" {
		t.Errorf("%s holds the Lease and has ended", holder)
	}
}

// A Lease that nobody renews lasts for its time, its own agent's excepted; whoever lost it writes nothing more.
func TestLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := slog.New(slog.DiscardHandler)
	leases := w.cluster.Leases(w.namespace)
	first, second := lead.New(leases, "first", log), lead.New(leases, "second", log)
	if again, err := first.Win(t.Context()); err != nil || again {
		t.Fatal(again, err)
	}
	if again, err := lead.New(leases, "first", log).Win(t.Context()); err != nil || again {
		t.Fatal("started anew it takes what it never heard for the latest:", again, err)
	}
	if err := first.Know(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := lead.New(leases, "first", log).Win(t.Context()); err != nil || !again {
		t.Fatal("started anew it does not lead again:", again, err)
	}
	began := time.Now()
	if again, err := second.Win(t.Context()); err != nil || again {
		t.Fatal(again, err)
	}
	if took := time.Since(began); took < 14*time.Second {
		t.Errorf("it took a Lease that was held after %s", took)
	}
	if err := first.Hold(t.Context()); !errors.Is(err, lead.ErrLost) {
		t.Errorf("the first agent holds on: %v", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://none.invalid/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Fence(refusing{}).RoundTrip(request); !errors.Is(err, lead.ErrLost) {
		t.Errorf("a write passes: %v", err)
	}
	if _, err := second.Fence(refusing{}).RoundTrip(request); !errors.Is(err, errRefused) {
		t.Errorf("a write of the leader does not pass: %v", err)
	}
	if err := second.Know(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Know(t.Context()); !errors.Is(err, lead.ErrLost) {
		t.Errorf("the first agent says that it knows: %v", err)
	}
	second.Release(t.Context())
	soon, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if again, err := first.Win(soon); err != nil || again {
		t.Error(again, err)
	}
	first.Release(t.Context())
	if again, err := second.Win(soon); err != nil || !again {
		t.Error("the first one led in between, and did nothing:", again, err)
	}
	second.Release(t.Context())
	if again, err := first.Win(soon); err != nil || again {
		t.Error("the second one worked in between:", again, err)
	}
	if err := first.Know(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Release(t.Context())
	if again, err := first.Win(soon); err != nil || !again {
		t.Error("nobody led in between:", again, err)
	}
}

// An agent that is told to stop while it takes or renews the Lease lets go of it: what it wrote may arrive all the
// same.
func TestLeaseIsLetGoOfWheneverItsAgentIsToldToStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	leases := &lateLeases{ResourceInterface: w.cluster.Leases(w.namespace)}
	of := func(id string) *lead.Elector { return lead.New(leases, id, slog.New(slog.DiscardHandler)) }
	first := of("first")
	if _, err := first.Win(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases.before = func() { // the renewal arrives
		if err := first.Know(t.Context()); err != nil {
			t.Error(err)
		}
	}
	first.Release(t.Context())
	leases.after = cancel
	second := of("second")
	if _, err := second.Win(ctx); err != nil {
		t.Errorf("it holds the Lease and does not know: %v", err)
	}
	second.Release(t.Context())
	lease, err := leases.Get(t.Context(), lead.Name, getOptions)
	if err != nil {
		t.Fatal(err)
	}
	if holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity"); holder != "" {
		t.Errorf("nobody is left to hold it, and %s does", holder)
	}
}

// lateLeases has things happen while updates are on their way.
type lateLeases struct {
	dynamic.ResourceInterface

	before, after func() // once
}

func (l *lateLeases) Update(ctx context.Context, lease *unstructured.Unstructured, options metav1.UpdateOptions,
	sub ...string,
) (*unstructured.Unstructured, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	updated, err := l.ResourceInterface.Update(ctx, lease, options, sub...)
	if after := l.after; after != nil {
		l.after = nil
		after()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return updated, err
}

// A deleted Lease is made anew by its agent, and nobody works beside it meanwhile.
func TestLeaseThatIsDeletedIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := slog.New(slog.DiscardHandler)
	leases := w.cluster.Leases(w.namespace)
	first := lead.New(leases, "first", log)
	if _, err := first.Win(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := make(lines, 16)
	ctx, cancel := context.WithCancel(t.Context())
	won := make(chan error, 1)
	go func() {
		_, err := lead.New(leases, "second", slog.New(slog.NewTextHandler(told, nil))).Win(ctx)
		won <- err
	}()
	defer func() {
		cancel()
		if err := <-won; err == nil {
			t.Error("both work")
		}
	}()
	if line := <-told; !strings.Contains(line, "stands by") {
		t.Fatal(line)
	}
	if err := leases.Delete(t.Context(), lead.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() { held <- first.Hold(ctx) }()
	await.True(w.t, "the Lease is there again", func() bool {
		_, err := leases.Get(t.Context(), lead.Name, getOptions)
		return err == nil
	})
	cancel()
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// lines is a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

var errRefused = errors.New("refused")

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errRefused }
