// Package directory knows which tunnel replicas live and which of them have sessions of which cluster.
//
// The directory keeps one entry per session and one heartbeat per replica in coordination, and remembers what it has
// read until somebody says that it changed: a request asks coordination for nothing. An entry that is written there is
// a hint. A replica is known by an id that it makes up when it starts (its epoch), so that what one that has died left
// behind points nowhere; with coordination down, all that was known stays known.
package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/version"
)

const (
	// replicas is the group of the tunnel's replicas.
	replicas = "tunnel"
	// topic carries the names of clusters whose sessions changed, one per line; an empty message is about replicas.
	topic = "tunnel/changes"
	// mark is in place of a cluster in an entry that each replica writes like those of its sessions. When it is gone,
	// they are, too: the heartbeat would not tell, for it comes back by itself.
	mark = ".mark"
	// replicaTTL is how long a replica that died is still asked.
	replicaTTL = 15 * time.Second
	refresh    = replicaTTL / 3
	// entryTTL bounds how long the entries of a replica that died are kept. The entries mislead nobody: their replica
	// is not among the living. The entries are written again at half of it.
	entryTTL = coordination.MaxTTL
	// foundFor is how long an answer is believed when no change is told: messages get lost.
	foundFor = 5 * time.Minute
	// nothingFor is the same for the answer that there is no session, and for none.
	nothingFor = time.Second
	// shunFor is how long a replica that did not answer is asked last.
	shunFor = 5 * time.Second
	// lookPause is between two looks for a cluster, however many requests wait for it.
	lookPause = 400 * time.Millisecond
	// maxLookups bounds what is remembered: more than the clusters of any hub.
	maxLookups = 50_000
)

// metaReplica names the replica that holds a session.
const metaReplica = "replica"

// Peer is another replica of the tunnel.
type Peer struct {
	ID       string
	URL      string
	Draining bool
}

// Deps is what a Directory works with.
type Deps struct {
	Coordinator coordination.Coordinator
	// URL is where the others reach this replica.
	URL func() string
	Log *slog.Logger
}

// Directory is one replica's view. New, then Run.
type Directory struct {
	deps  Deps
	id    string
	began time.Time
	wake  chan struct{} // there is something in waiting
	look  chan struct{} // a caller misses a replica

	mu       sync.Mutex // guards what follows
	draining bool
	known    map[string]known
	lookups  map[string]*lookup
	own      map[string]string // session id -> cluster
	waiting  map[string]string // session ids to be written or taken out -> cluster
	shunned  map[string]time.Time
	looked   map[string]time.Time // clusters of which coordination was asked anew a moment ago
	news     chan struct{}        // closed and made anew when anything changed
}

type known struct {
	Peer
	seen time.Time
}

// lookup is what was read about one cluster.
type lookup struct {
	outdated atomic.Bool // something changed since coordination was asked

	once   chan struct{} // has the turn of the one that asks coordination; guards what follows
	failed time.Time     // until when it is not asked again whatever changes, for it did not answer
	until  time.Time     // when it is asked again though nothing changes
	holds  []string      // replica ids
}

// New returns a Directory that knows nobody.
func New(deps Deps) *Directory {
	id := rand.Text()
	return &Directory{
		deps: deps, id: id, began: time.Now(), wake: make(chan struct{}, 1), look: make(chan struct{}, 1), known: make(map[string]known),
		lookups: make(map[string]*lookup), own: map[string]string{id: mark}, waiting: map[string]string{id: mark},
		shunned: make(map[string]time.Time), looked: make(map[string]time.Time), news: make(chan struct{}),
	}
}

// ID is this replica's name, of this process only.
func (d *Directory) ID() string { return d.id }

// Draining tells whether this replica goes away.
func (d *Directory) Draining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}

// News is closed at the next change of sessions or replicas. Get it before looking.
func (d *Directory) News() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.news
}

// tellLocked wakes who waits for a change.
func (d *Directory) tellLocked() {
	close(d.news)
	d.news = make(chan struct{})
}

// Add writes a session of this replica into the directory, soon.
func (d *Directory) Add(cluster, session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[session] = cluster
	d.waiting[session] = cluster
	d.tellLocked()
	d.wakeWriter()
}

// Remove takes a session of this replica out, soon.
func (d *Directory) Remove(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cluster, ok := d.own[session]; ok {
		delete(d.own, session)
		d.waiting[session] = cluster
		d.tellLocked()
		d.wakeWriter()
	}
}

func (d *Directory) wakeWriter() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Drain tells the others to ask somebody else, if there is anybody.
func (d *Directory) Drain(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	d.announce(ctx)
}

// announce tells the others what this replica says of itself, once that can be read: they look when they are told, and
// else not for a while.
func (d *Directory) announce(ctx context.Context) {
	if err := d.deps.Coordinator.Join(ctx, replicas, d.self(), replicaTTL); err != nil {
		d.deps.Log.DebugContext(ctx, "tell of this replica; the others notice", "err", err)
	}
	d.publish(ctx, nil)
}

func (d *Directory) self() coordination.Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := coordination.Member{ID: d.id, URL: d.deps.URL(), Meta: map[string]string{
		coordination.MetaVersion: version.String(), coordination.MetaStarted: d.began.UTC().Format(time.RFC3339),
	}}
	if d.draining {
		m.Meta[coordination.MetaDraining] = "1"
	}
	return m
}

// Others returns the other replicas that live, those that drain last.
func (d *Directory) Others() []Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Peer, 0, len(d.known))
	for _, k := range d.known {
		list = append(list, k.Peer)
	}
	d.sortLocked(list)
	return list
}

// sortLocked puts those first that most likely answer.
func (d *Directory) sortLocked(list []Peer) {
	now := time.Now()
	doubt := func(r Peer) int {
		switch {
		case now.Before(d.shunned[r.ID]):
			return 2
		case r.Draining:
			return 1
		default:
			return 0
		}
	}
	slices.SortFunc(list, func(a, b Peer) int { return cmp.Or(cmp.Compare(doubt(a), doubt(b)), cmp.Compare(a.ID, b.ID)) })
}

// Shun has a replica that did not answer asked last for a moment.
func (d *Directory) Shun(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shunned[id] = time.Now().Add(shunFor)
	maps.DeleteFunc(d.shunned, func(_ string, until time.Time) bool { return time.Now().After(until) })
}

// Forget drops what is remembered of a cluster: it was found wrong.
func (d *Directory) Forget(cluster string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lookups, cluster)
}

// Look has coordination asked again, soon, which replicas there are and which of them have the cluster: a message that
// told of a change may have been lost. News tells when the answer differs.
func (d *Directory) Look(cluster string) {
	d.mu.Lock()
	now := time.Now()
	look := now.Sub(d.looked[cluster]) >= lookPause
	if look {
		maps.DeleteFunc(d.looked, func(_ string, at time.Time) bool { return now.Sub(at) >= lookPause })
		d.looked[cluster] = now
		d.outdateLocked(cluster)
	}
	d.mu.Unlock()
	if !look {
		return
	}
	select {
	case d.look <- struct{}{}:
	default:
	}
}

// remember takes a list of members in. A member that is missing is not forgotten at once, unless it had begun to drain:
// a flushed store has nobody until all have said again that they live.
func (d *Directory) remember(members []coordination.Member) {
	now := time.Now()
	next := make(map[string]known, len(members))
	for _, m := range members {
		if m.ID == d.id {
			continue
		}
		// A replica does not start with an address that fails here: this one is forged.
		if client.CheckPeer(m.URL) == nil {
			next[m.ID] = known{Peer{ID: m.ID, URL: m.URL, Draining: m.Meta[coordination.MetaDraining] != ""}, now}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, old := range d.known {
		if _, listed := next[id]; !listed && !old.Draining && now.Sub(old.seen) < replicaTTL {
			next[id] = old
		}
	}
	if !maps.EqualFunc(d.known, next, func(a, b known) bool { return a.Peer == b.Peer }) {
		d.tellLocked()
	}
	d.known = next
}

// rewrite has everything written again if the store has lost the mark, and so perhaps the rest.
func (d *Directory) rewrite(marks []coordination.Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, waits := d.waiting[d.id]
	if waits || slices.ContainsFunc(marks, func(m coordination.Member) bool { return m.ID == d.id }) {
		return
	}
	maps.Copy(d.waiting, d.own)
	d.wakeWriter()
}
