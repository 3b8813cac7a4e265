// Package views keeps a summary of the cluster: figures and short rows of nodes, pods, workloads, claims and warnings,
// and hands it to the hub as it changes. The view follows each kind with one watch in Protobuf, of which it decodes the
// fields that a figure needs; it keeps a small record per object and no object. The view follows no Secret and no
// ConfigMap.
//
// Figures are counted anew from the records whenever the view is read, so that none of them can drift. docs/views.md
// has the rules.
package views

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fairlead.dev/services/agent/internal/cluster"
)

// Bounds of the records of a kind; above them a table holds a sample. A pod takes about 400 bytes: the pods of a large
// cluster have 20 MiB at most.
const (
	maxPods      = 50_000
	maxNodes     = 20_000
	maxWorkloads = 50_000
	maxClaims    = 50_000
	maxEvents    = 16_384
	// maxGroups bounds the groups of warnings; the warnings of others are counted together.
	maxGroups = 8192
)

// Deps is what a View works with.
type Deps struct {
	Cluster *cluster.Cluster
	// KubernetesVersion of the API server; "" while unknown.
	KubernetesVersion func() string
	// Services notes by the uids of objects the services that they are of. uids that are of no service keep their
	// value.
	Services func(uids map[string]string)
	// Ends are the credentials and certificates that the agent works with, and when they end.
	Ends func() []End
	Now  func() time.Time
	Log  *slog.Logger
}

// View is the summary of one cluster. A View is safe for concurrent use.
type View struct {
	Deps
	changed     chan struct{} // capacity 1
	absentEvery time.Duration

	mu    sync.Mutex // guards what follows
	kinds []*kind
	sets  []*set // in the order of names
	// start follows the parts of a set until it is stopped; nil: the view does not run.
	start     func([]*part) (stop context.CancelFunc)
	nodes     *table[node]
	pods      *table[pod]
	workloads map[string]*table[workload] // by kind
	claims    *table[claim]
	events    *table[eventRecord]
	groups    map[group]*counted
	versions  map[string][]string // of the API, by group
	used      usage
	requested []cluster.DeprecatedAPI // by anybody
	ends      []End
	owners    owners
	// patient is until when the view waits for what it can begin without.
	patient  time.Time
	restarts hour
	killed   hour
	// guessed is the latest time at which restarts were counted that nobody saw: the count is a lower bound for the
	// hour after.
	guessed int64
}

// eventRecord is what is kept of an Event.
type eventRecord struct {
	group group
	count int64
}

// counted is what is kept of a group of warnings.
type counted struct {
	hour
	first, last int64
	text        string
	guessed     int64 // as of View
}

// New returns a view that knows nothing; Run follows the cluster.
func New(deps Deps) *View {
	v := &View{
		Deps: deps, changed: make(chan struct{}, 1), absentEvery: absentEvery,
		nodes:     newTable(maxNodes, sameNode),
		pods:      newTable(maxPods, samePod),
		workloads: map[string]*table[workload]{},
		claims:    newTable(maxClaims, func(a, b claim) bool { return a == b }),
		events:    newTable(maxEvents, func(a, b eventRecord) bool { return a == b }),
		groups:    map[group]*counted{}, versions: map[string][]string{},
	}
	v.kinds = []*kind{
		{resource: "nodes", path: "/api/v1/nodes", begin: v.nodes.begin, thin: v.nodes.thin, complete: v.nodes.complete, forget: v.nodes.clear, take: v.takeNode},
		{resource: "pods", path: "/api/v1/pods", begin: v.pods.begin, thin: v.pods.thin, complete: v.pods.complete, forget: v.pods.clear, take: v.takePod},
		{resource: "persistentvolumeclaims", path: "/api/v1/persistentvolumeclaims", begin: v.claims.begin, thin: v.claims.thin, complete: v.claims.complete, forget: v.claims.clear, take: v.takeClaim},
		{resource: "events", path: "/api/v1/events", fields: "type=Warning", begin: v.events.begin, complete: v.events.complete, forget: v.forgetEvents, take: v.takeWarning},
	}
	for _, of := range []struct{ kind, resource, path string }{
		{"Deployment", "deployments", "/apis/apps/v1/deployments"},
		{"StatefulSet", "statefulsets", "/apis/apps/v1/statefulsets"},
		{"DaemonSet", "daemonsets", "/apis/apps/v1/daemonsets"},
		{"ReplicaSet", "replicasets", "/apis/apps/v1/replicasets"},
		{"Job", "jobs", "/apis/batch/v1/jobs"},
		{"CronJob", "cronjobs", "/apis/batch/v1/cronjobs"},
	} {
		t := newTable(maxWorkloads, func(a, b workload) bool { return a == b })
		v.workloads[of.kind] = t
		v.kinds = append(v.kinds, &kind{
			resource: of.resource, path: of.path, begin: t.begin, thin: t.thin, complete: t.complete, forget: t.clear,
			take: func(b []byte, gone bool) (bool, error) { return v.takeWorkload(of.kind, b, gone) },
		})
	}
	v.kinds = append(v.kinds,
		&kind{resource: kindVersions, every: versionsEvery, look: v.lookAtVersions},
		&kind{resource: kindUsage, every: usageEvery, look: v.lookAtUsage, spare: true},
		&kind{resource: kindRequested, every: requestedEvery, look: v.lookAtRequested, spare: true},
		&kind{resource: kindEnds, every: endsEvery, look: v.lookAtEnds, spare: true},
	)
	return v
}

// kindOf returns what is known of following a resource.
func (v *View) kindOf(resource string) *kind {
	return v.kinds[slices.IndexFunc(v.kinds, func(k *kind) bool { return k.resource == resource })]
}

// Changed receives a value when there may be something new.
func (v *View) Changed() <-chan struct{} { return v.changed }

func (v *View) wake() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// Run follows the cluster until ctx ends.
func (v *View) Run(ctx context.Context) error {
	var running sync.WaitGroup
	turn := make(chan struct{}, 1) // streams begin one after another: each reads all objects of its kind
	v.mu.Lock()
	v.patient = v.Now().Add(spareWait)
	v.start = func(parts []*part) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		for _, p := range parts {
			running.Go(func() { v.follow(ctx, p.kind, turn) })
		}
		return stop
	}
	for _, s := range v.sets {
		v.startSet(s)
	}
	v.mu.Unlock()
	defer time.AfterFunc(spareWait, v.wake).Stop()
	for _, k := range v.kinds {
		if k.look != nil {
			running.Go(func() { v.poll(ctx, k) })
			continue
		}
		running.Go(func() { v.follow(ctx, k, turn) })
	}
	<-ctx.Done()
	v.mu.Lock()
	v.start = nil
	for _, s := range v.sets {
		if s.stop != nil {
			s.stop()
			s.stop = nil
		}
	}
	v.mu.Unlock()
	running.Wait()
	return nil
}

func sameNode(a, b node) bool {
	return a.name == b.name && a.version == b.version && a.ready == b.ready && a.cordoned == b.cordoned && a.since == b.since &&
		a.capacity == b.capacity && a.allocatable == b.allocatable && slices.Equal(a.bad, b.bad)
}

func samePod(a, b pod) bool {
	return a.namespace == b.namespace && a.name == b.name && a.node == b.node && a.phase == b.phase && a.reason == b.reason && a.service == b.service &&
		a.owner == b.owner && a.since == b.since && a.requests == b.requests && a.terminal == b.terminal && a.notReady == b.notReady &&
		slices.Equal(a.pulls, b.pulls) && slices.Equal(a.restarts, b.restarts)
}

// The functions below take over an object, with mu held. Their result says whether the view may have changed.

func (v *View) takeNode(b []byte, gone bool) (bool, error) {
	record, m, err := parseNode(b)
	if err != nil || gone {
		return v.nodes.remove(m.uid), err
	}
	_, _, changed := v.nodes.put(m.uid, record)
	return changed, nil
}

func (v *View) takePod(b []byte, gone bool) (bool, error) {
	record, m, err := parsePod(b)
	if err != nil {
		return false, err
	}
	counts := v.pods.counts(m.uid) // while a sample is read again its pods still stand for the others
	before, known, changed := v.pods.put(m.uid, record)
	if counts {
		v.countRestarts(before, record, known)
	}
	if gone {
		changed = v.pods.remove(m.uid) || changed
	}
	return changed, nil
}

// countRestarts counts the restarts that a pod had since it was seen before. A count that fell is of a container that
// was made anew. Of a pod that is seen for the first time no more is known than when the last run ended.
func (v *View) countRestarts(before, now pod, known bool) {
	at := v.Now().Unix()
	for i, r := range now.restarts {
		rises, finished := int64(0), r.finished
		if finished == 0 {
			finished = at
		}
		switch {
		case !known:
			if r.count > 0 && r.finished > at-steps*stepSeconds {
				rises = 1
				if r.count > 1 {
					v.guessed = max(v.guessed, r.finished)
				}
			}
		case i < len(before.restarts):
			rises = max(0, int64(r.count)-int64(before.restarts[i].count))
		default:
			rises = int64(r.count)
		}
		if rises == 0 {
			continue
		}
		v.restarts.add(at, finished, v.pods.times(rises))
		if r.killed {
			v.killed.add(at, finished, v.pods.times(rises))
		}
	}
}

func (v *View) takeClaim(b []byte, gone bool) (bool, error) {
	record, m, err := parseClaim(b)
	if err != nil || gone {
		return v.claims.remove(m.uid), err
	}
	_, _, changed := v.claims.put(m.uid, record)
	return changed, nil
}

func (v *View) takeWorkload(kind string, b []byte, gone bool) (bool, error) {
	parse := func(b []byte) (workload, meta, error) { return parseWorkload(kind, b) }
	switch kind {
	case "Job":
		parse = parseJob
	case "CronJob":
		parse = parseCronJob
	}
	record, m, err := parse(b)
	t := v.workloads[kind]
	if err != nil || gone {
		return t.remove(m.uid), err
	}
	if _, known := t.rows[m.uid]; !known && kind == "ReplicaSet" {
		// Of a Deployment there are ten of earlier revisions: in the table they would have no room for those that have
		// pods.
		if record.empty {
			return false, nil
		}
		if len(t.rows) >= t.most {
			v.dropEmpty(t)
		}
	}
	_, _, changed := t.put(m.uid, record)
	return changed, nil
}

// dropEmpty drops ReplicaSets that were emptied, but for those whose last pods still end.
func (v *View) dropEmpty(t *table[workload]) {
	ends := map[string]bool{}
	for _, p := range v.pods.rows {
		ends[p.record.owner] = true
	}
	for uid, w := range t.rows {
		if w.record.empty && !ends[uid] {
			delete(t.rows, uid)
		}
	}
}

// takeWarning counts an Event. A deleted Event takes nothing away: it happened.
func (v *View) takeWarning(b []byte, gone bool) (bool, error) {
	w, m, err := parseWarning(b)
	if err != nil || w.count == 0 {
		return false, err
	}
	if !v.events.holds(m.uid) {
		return false, nil
	}
	now := v.Now().Unix()
	counts := v.events.counts(m.uid) // as of pods
	before, known, changed := v.events.put(m.uid, eventRecord{w.group, w.count})
	if gone {
		v.events.remove(m.uid)
		v.events.refine(now)
	}
	if !changed || !counts {
		return false, nil
	}
	old := now - steps*stepSeconds
	rises := w.count - before.count
	guessed := false
	switch {
	case known:
	case v.events.stoodFor(m.uid, w.first):
		if w.last <= v.events.finer {
			return false, nil
		}
		rises, guessed = 1, w.count > 1 // at least the last of them came since then
	case w.first < old: // some of them are older than an hour
		rises, guessed = 1, w.count > 1
	}
	if rises <= 0 || w.last < old {
		return false, nil
	}
	c := v.counted(w.group)
	if c.first == 0 || w.first < c.first {
		c.first = w.first
	}
	if w.last >= c.last {
		c.last, c.text = w.last, w.text
	}
	if guessed {
		c.guessed = max(c.guessed, w.last)
	}
	c.add(now, w.last, v.events.times(rises))
	return true, nil
}

// others returns the group of the warnings that have none.
func others() group { return group{reason: "others"} }

// counted is what is kept of a group.
func (v *View) counted(of group) *counted {
	if v.groups[of] == nil && len(v.groups) >= maxGroups {
		v.dropOldGroups()
		if len(v.groups) >= maxGroups {
			of = others()
		}
	}
	if v.groups[of] == nil {
		v.groups[of] = &counted{}
	}
	return v.groups[of]
}

// dropOldGroups drops groups of which there was nothing in the last hour.
func (v *View) dropOldGroups() {
	now := v.Now().Unix()
	for of, c := range v.groups {
		if c.sum(now) == 0 {
			delete(v.groups, of)
		}
	}
}

func (v *View) forgetEvents() {
	v.events.clear()
	clear(v.groups)
}
