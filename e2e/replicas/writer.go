package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// groupSize is how many clusters are written at once; a service comes on top.
	groupSize = 3
	// counters are contended by all writers.
	counters = 2
	// sourceName is what all services are of.
	sourceName = "shop"
)

// group is resources that are always written together, by one writer. At the first write whose outcome nobody knows it
// is left alone, so that its fate can be told from what is there in the end.
type group struct {
	name string
	// is the value of all of it that was acknowledged; empty: it is not there.
	is string
	// maybe is a value that it has if the last write came through.
	maybe *string
}

func (g *group) members() (names []string) {
	for i := range groupSize {
		names = append(names, fmt.Sprintf("%s-%d", g.name, i))
	}
	return names
}

// Told is what clients were told: the model.
type Told struct {
	mu     sync.Mutex // guards what follows
	groups []*group
	// increments of counters by what they wrote, and pins by their commits.
	increments [counters]map[string]outcome
	pins       map[string][]pin
	wrong      []error
}

type outcome int

const (
	acknowledged outcome = iota + 1
	refused
	unknown
)

type pin struct {
	commit string
	outcome
}

// Writer writes to replicas at random, one thing after the other.
type Writer struct {
	pair *Pair
	told *Told
	id   int
	ops  int
}

func (w *Writer) any() *Replica { return w.pair.Replicas[rand.IntN(len(w.pair.Replicas))] } //nolint:gosec // no secret

// Run writes until ctx ends. A write that is under way then goes on to its end.
func (w *Writer) Run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		g := &group{name: fmt.Sprintf("w%d-g%d", w.id, n)}
		w.told.mu.Lock()
		w.told.groups = append(w.told.groups, g)
		w.told.mu.Unlock()
		w.life(ctx, g)
	}
}

// life of a group: made, changed some times, and now and then deleted.
func (w *Writer) life(ctx context.Context, g *group) {
	call := context.WithoutCancel(ctx)
	etags := map[string]string{}
	for step := range 4 {
		value := fmt.Sprintf("%s/%d", g.name, step)
		var err error
		switch {
		case step == 0:
			err = w.apply(call, g, value)
		case step == 3 && w.id%2 == 0:
			value, err = "", w.prune(call, g)
		case step == 3:
			return
		default:
			err = w.batch(call, g, value, etags)
		}
		w.settle(g, value, err)
		if g.maybe != nil {
			w.pair.rest(ctx)
			return
		}
		if ctx.Err() != nil {
			return
		}
		w.increment(call, rand.IntN(counters)) //nolint:gosec // no secret
		w.pin(call)
	}
}

func (w *Writer) settle(g *group, value string, err error) {
	w.told.mu.Lock()
	defer w.told.mu.Unlock()
	switch outcomeOf(err) {
	case acknowledged:
		g.is = value
	case unknown:
		g.maybe = &value
	default: // no other writer writes the group
		w.told.wrong = append(w.told.wrong, fmt.Errorf("write %q to group %s: %w", value, g.name, err))
		g.maybe = &value
	}
}

func outcomeOf(err error) outcome {
	switch code := connect.CodeOf(err); {
	case err == nil:
		return acknowledged
	case code == connect.CodeAborted || code == connect.CodeFailedPrecondition || code == connect.CodeInvalidArgument ||
		code == connect.CodePermissionDenied || code == connect.CodeNotFound || code == connect.CodeUnauthenticated:
		return refused
	}
	return unknown
}

func clusterOf(name, value, etag string) *consolev1.Cluster {
	return &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: name, Etag: etag}, Spec: &consolev1.ClusterSpec{Description: value}}
}

func (g *group) service(value string) *consolev1.Service {
	return &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: g.name},
		Spec:     &consolev1.ServiceSpec{Source: sourceName, Path: value, Cluster: g.members()[0]},
	}
}

// apply writes a group and its service, as a set.
func (w *Writer) apply(ctx context.Context, g *group, value string) error {
	req := &consolev1.ApplyRequest{Set: g.name, Resources: []*consolev1.Resource{{Resource: &consolev1.Resource_Service{Service: g.service(value)}}}}
	for _, name := range g.members() {
		req.Resources = append(req.Resources, &consolev1.Resource{Resource: &consolev1.Resource_Cluster{Cluster: clusterOf(name, value, "new")}})
	}
	_, err := w.any().applies.Apply(ctx, req)
	return err
}

// prune deletes a group. The confirmation that one replica asks for may be given to the other one.
func (w *Writer) prune(ctx context.Context, g *group) error {
	req := &consolev1.ApplyRequest{Set: g.name, Prune: true}
	_, err := w.any().applies.Apply(ctx, req)
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	for _, d := range e.Details() {
		if m, err := d.Value(); err == nil {
			if wanted, ok := m.(*consolev1.ConfirmationWanted); ok {
				req.Confirmation = wanted.GetConfirmation()
			}
		}
	}
	if req.GetConfirmation() == "" {
		return err
	}
	_, err = w.any().applies.Apply(ctx, req)
	return err
}

// batch changes the clusters of a group by their etags, and then leaves its service as it is: that is a write of its
// own.
func (w *Writer) batch(ctx context.Context, g *group, value string, etags map[string]string) error {
	req := &consolev1.BatchUpdateClustersRequest{}
	for _, name := range g.members() {
		c := clusterOf(name, value, etags[name])
		c.Metadata.Labels = map[string]string{"fairlead.dev/set": g.name}
		req.Requests = append(req.Requests, &consolev1.UpdateClusterRequest{Cluster: c})
	}
	resp, err := w.any().clusters.BatchUpdateClusters(ctx, req)
	for _, r := range resp.GetResponses() {
		etags[r.GetCluster().GetMetadata().GetName()] = r.GetCluster().GetMetadata().GetEtag()
	}
	return err
}

func counterName(i int) string { return fmt.Sprintf("counter-%d", i) }

// increment reads a counter at one replica, and writes one more at another if nobody else did.
func (w *Writer) increment(ctx context.Context, i int) {
	resp, err := w.any().clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: counterName(i)})
	if err != nil {
		return
	}
	was := resp.GetCluster()
	var n int
	if _, err := fmt.Sscanf(was.GetSpec().GetDescription(), "%d ", &n); err != nil {
		w.told.fail(fmt.Errorf("%s is %q", counterName(i), was.GetSpec().GetDescription()))
		return
	}
	w.ops++
	id := fmt.Sprintf("%d by w%d-%d", n+1, w.id, w.ops)
	_, err = w.any().clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{Cluster: clusterOf(counterName(i), id, was.GetMetadata().GetEtag())})
	w.told.mu.Lock()
	defer w.told.mu.Unlock()
	w.told.increments[i][id] = outcomeOf(err)
}

func pinnedService(writer int) string { return fmt.Sprintf("pinned-%d", writer) }

// pin pulls the lever of the writer's own service, which makes an event.
func (w *Writer) pin(ctx context.Context) {
	w.ops++
	commit := fmt.Sprintf("%08x%032x", w.id, w.ops)
	service := pinnedService(w.id)
	_, err := w.any().levers.PinService(ctx, &consolev1.PinServiceRequest{Name: service, Commit: commit})
	got := outcomeOf(err)
	if got == refused {
		w.told.fail(fmt.Errorf("pin %s: %w", service, err))
	}
	w.told.mu.Lock()
	defer w.told.mu.Unlock()
	w.told.pins[service] = append(w.told.pins[service], pin{commit, got})
}

func (t *Told) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, err)
}

// describe counts the outcomes.
func (t *Told) describe() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lost int
	for _, g := range t.groups {
		if g.maybe != nil {
			lost++
		}
	}
	count := map[outcome]int{}
	for _, c := range t.increments {
		for _, o := range c {
			count[o]++
		}
	}
	var pins int
	for _, p := range t.pins {
		pins += len(p)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d groups, %d of them with an unknown end; %d increments, %d refused, %d unknown; %d pins",
		len(t.groups), lost, count[acknowledged], count[refused], count[unknown], pins)
	return b.String()
}
