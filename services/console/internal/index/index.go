// Package index keeps a board in memory: a short row for each resource with what lists are filtered and sorted by,
// states included, and tells followers what becomes of them.
//
// One goroutine, Run, owns the board. Run follows the change log like any hub service, and reads anew what statuses
// were written about: its own console's at once, other consoles' within about a second. Rows of what people write are
// there before a list of the same console is answered; states follow within moments.
package index

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

const (
	// lookEvery is how often times and what other consoles wrote are looked at.
	lookEvery = time.Second
	// chunk is how many resources are read anew at once.
	chunk = 250
	// beginChunk is of how many services the states are read at once when the board begins.
	beginChunk = 1000
	// ringSize is how many changes are kept for followers: some MB, and seconds of a whole fleet that reports.
	ringSize = 2048
	// currentWithin is how long a list waits for what was written before.
	currentWithin = time.Second
	// deriveEvery is how often states are derived while there is more to read: all services are looked through.
	deriveEvery = time.Second
	// again is how long the board waits when the database did not answer.
	again = time.Second
	// rests is how many times as long as the last look took the board rests before the next one, while more was written
	// than it reads at once and nobody waits for it: what becomes of a service meanwhile is read once, and those who
	// write have the processors.
	rests, longestRest = 4, time.Second
)

var (
	// ErrBehind is what a list gets when the board is too far behind.
	ErrBehind = errors.New("the console has not taken in the last changes yet: try again in a moment")
	// ErrBegins is what a list gets before the board stands.
	ErrBegins = errors.New("the console has begun a moment ago and still reads the states of all services: lists with a filter or an order come when it has, those without are there")
)

// Sees says whether somebody sees a resource; nil: everything.
type Sees = func(kind store.Kind, name, project, cluster string) bool

// Viewer says what the caller in ctx sees.
type Viewer interface {
	Viewer(ctx context.Context, fresh bool) (Sees, error)
}

// Deps is what a board works with.
type Deps struct {
	Store *store.Store
	Hub   *feed.Feed
	// Kinds are all kinds of resources, which Loader reads.
	Kinds    descriptor.Table
	Loader   state.Loader
	Viewer   Viewer
	Presence Presence
	Log      *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Index is the rows of one console.
type Index struct {
	Deps
	nonce string // of this board: numbers of another mean nothing here

	wake chan struct{} // capacity 1

	pendingMu sync.Mutex
	pending   store.Touched // statuses that were written; guarded by pendingMu
	touches   int64         // how often; guarded by pendingMu
	waiting   atomic.Int64  // lists that wait for the board

	mu    sync.RWMutex
	moved chan struct{} // closed and replaced when anything below changes; all guarded by mu
	ready bool
	seq   int64 // the rows show everything up to this change
	// With statuses up to this one and so many touches.
	settled, taken int64
	rows           map[store.Kind]map[string]*row
	clusterNames   []string                     // in order; nil: a cluster came or went since they were sorted
	services       map[word]map[string]struct{} // names, by their cluster
	number         int64                        // of the last delta
	ring           []delta                      // the last ones, without gaps
	stepped        int64                        // number of the last step
	steps          []step                       // the last ones, without gaps

	answers answers

	byUID  map[string]*row // rows that followers know of
	looks  map[*look]bool  // followers on their way
	unsaid int64           // a follower that was told up to here or less may have missed what became of services with their sources

	// The fields below are Run's own.
	urgent map[store.Ref]bool
	later  map[store.Ref]bool
	refs   map[string]bool // uids of sources of whose refs the hub said something
	// hubRefs is what the hub said of refs, of all of them once the board has read refs.
	hubRefs map[store.HubRef]state.RefHub
	// dirty says which states are to be derived, and derived when they were last.
	dirty   moved
	derived time.Time
	// sources is what services' states depend on of theirs.
	sources map[word]*state.Source
	seen    map[store.Touch]bool // touches that were taken in, the console's own among them
	looked  time.Time            // everything that was committed by then was taken in
	handed  int64                // touches whose resources are marked
	failed  bool
	outage  time.Time // since when the database does not answer, which the log says; zero: it does
	rested  time.Time // when the board may look again though nobody waits
	// steady is since when the database answers, but for short outages: an agent that was heard of before may have had
	// nobody to report to.
	steady time.Time
	// away is what Presence says of clusters that the board has not read since it began.
	away map[string]time.Time
	// held are clusters that count as away, by uid: they are lost if they stay so while the hub listens.
	held map[string]Sighting
}

// delta is what became of a resource.
type delta struct {
	number        int64
	before, after *row
	item          *Item // nil: it is gone
}

// Item is a resource as it is shown. All followers share an Item.
type Item struct {
	Kind store.Kind
	// Value is as catalog.Load returns it.
	Value any

	once    sync.Once
	encoded any
	err     error
}

// Encoded returns what encode made of it, which is called once.
func (i *Item) Encoded(encode func() (any, error)) (any, error) {
	i.once.Do(func() { i.encoded, i.err = encode() })
	return i.encoded, i.err
}

// New returns a board. Run does its work.
func New(d Deps) *Index {
	if d.Now == nil {
		d.Now = time.Now
	}
	b := &Index{
		Deps: d, nonce: store.NewEventID(), wake: make(chan struct{}, 1), moved: make(chan struct{}),
		rows: map[store.Kind]map[string]*row{}, services: map[word]map[string]struct{}{}, byUID: map[string]*row{}, urgent: map[store.Ref]bool{}, later: map[store.Ref]bool{}, seen: map[store.Touch]bool{},
		looks: map[*look]bool{}, refs: map[string]bool{}, hubRefs: map[store.HubRef]state.RefHub{}, dirty: newMoved(), sources: map[word]*state.Source{},
		held: map[string]Sighting{},
	}
	d.Store.OnTouch(b.touched)
	return b
}

// touched is called by whoever writes a status.
func (b *Index) touched(t store.Touched) {
	b.pendingMu.Lock()
	b.touches++
	b.pending.Services = append(b.pending.Services, t.Services...)
	b.pending.Clusters = append(b.pending.Clusters, t.Clusters...)
	b.pending.Sources = append(b.pending.Sources, t.Sources...)
	b.pending.Reports = append(b.pending.Reports, t.Reports...)
	b.pending.Hubs = append(b.pending.Hubs, t.Hubs...)
	b.pending.Own = append(b.pending.Own, t.Own...)
	b.pendingMu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // the board is going to look anyway
	}
}

// Run keeps the board until ctx ends.
func (b *Index) Run(ctx context.Context) error {
	events := make(chan feed.Event)
	var stream sync.WaitGroup
	defer stream.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.looked = b.Now()
	stream.Go(func() { b.follow(ctx, events) })
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		var more <-chan time.Time // when there is work left
		if b.due() {
			more = time.After(b.pause())
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			b.take(ctx, e)
		case <-b.wake:
			b.takeTouched()
		case <-ticker.C:
			b.look(ctx)
		case <-more:
		}
		if b.failed || b.pause() == 0 {
			b.refresh(ctx)
		}
	}
}

// pause is how long the board leaves the database alone.
func (b *Index) pause() time.Duration {
	switch {
	case b.failed:
		return again
	case len(b.urgent) > 0 || len(b.later) <= chunk || b.waiting.Load() > 0:
		return 0
	}
	return max(time.Until(b.rested), 0)
}

// follow hands the change log to the board, from where it was.
func (b *Index) follow(ctx context.Context, events chan<- feed.Event) {
	token := ""
	var away outage.Outage
	for ctx.Err() == nil {
		err := b.Hub.Stream(ctx, &feed.Follower{Token: token, Send: func(e feed.Event) error {
			select {
			case events <- e:
				token = e.Token
				away.Over(ctx, b.Log, b.Now(), "lists with a filter show what is new again")
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		if ctx.Err() == nil {
			away.Failed(ctx, b.Log, b.Now(), "lists with a filter may show what was before", err)
		}
		retry.Sleep(ctx, again)
	}
}

// take puts what the log says on the board.
func (b *Index) take(ctx context.Context, e feed.Event) {
	if e.Kind == feed.Snapshot {
		b.begin(ctx, e)
		return
	}
	var gone []*row
	b.mu.Lock()
	for _, c := range e.Changes {
		rows := b.kind(c.Kind)
		if c.Deleted {
			if r := rows[c.Name]; r != nil && r.uid == c.UID {
				delete(rows, c.Name)
				b.step(r, nil)
			}
			delete(b.held, c.UID)
			if r := b.byUID[c.UID]; r != nil {
				delete(b.byUID, c.UID)
				gone = append(gone, r)
			}
			delete(b.urgent, store.Ref{Kind: c.Kind, Name: c.Name})
			if c.Kind == store.KindSource {
				delete(b.sources, unique.Make(c.Name))
				maps.DeleteFunc(b.hubRefs, func(r store.HubRef, _ state.RefHub) bool { return r.Source == c.UID })
			}
			continue
		}
		r := structure(c.Resource)
		r.keep(rows[c.Name])
		b.step(rows[c.Name], r)
		rows[c.Name] = r
		b.urgent[store.Ref{Kind: c.Kind, Name: c.Name}] = true
	}
	b.seq = max(b.seq, e.Seq)
	for _, r := range gone {
		b.tell(r, nil, nil)
	}
	b.announce()
	b.mu.Unlock()
}

// kind is the rows of a kind. The caller holds mu.
func (b *Index) kind(kind store.Kind) map[string]*row {
	if b.rows[kind] == nil {
		b.rows[kind] = map[string]*row{}
	}
	return b.rows[kind]
}

// begin makes the board anew. Followers begin anew, too.
func (b *Index) begin(ctx context.Context, e feed.Event) {
	services := b.lay(e)
	b.askAway(ctx)
	for len(b.urgent) > 0 && ctx.Err() == nil {
		b.refresh(ctx)
		b.rest(ctx)
	}
	// The states of services come of those of sources and clusters.
	slices.SortFunc(services, func(a, b *row) int { return strings.Compare(a.uid, b.uid) })
	for part := range slices.Chunk(services, beginChunk) {
		for done := false; !done && ctx.Err() == nil; done = !b.failed {
			b.assess(ctx, part)
			b.rest(ctx)
		}
	}
	b.away = nil
	b.mu.Lock()
	b.ready = true
	b.ring, b.nonce = nil, store.NewEventID() // changes up to here are no news
	b.steps = nil
	b.announce()
	b.mu.Unlock()
}

// lay puts a snapshot on the board and has all read but for services, which it returns.
func (b *Index) lay(e feed.Event) (services []*row) {
	rows, byUID, urgent := map[store.Kind]map[string]*row{}, map[string]*row{}, map[store.Ref]bool{}
	for _, c := range e.Changes {
		if rows[c.Kind] == nil {
			rows[c.Kind] = map[string]*row{}
		}
		r := structure(c.Resource)
		r.keep(nil)
		rows[c.Kind][c.Name] = r
		if c.Kind == store.KindService {
			services = append(services, r)
			byUID[r.uid] = r
		} else {
			urgent[store.Ref{Kind: c.Kind, Name: c.Name}] = true
		}
		if c.Kind == store.KindSource {
			b.refs[c.UID] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.services, b.clusterNames = map[word]map[string]struct{}{}, nil
	for _, r := range services {
		b.index(nil, r)
	}
	b.rows, b.seq, b.nonce, b.ring = rows, e.Seq, store.NewEventID(), nil
	b.byUID, b.urgent, b.later = byUID, urgent, map[store.Ref]bool{}
	b.held = map[string]Sighting{}
	b.sources, b.dirty, b.hubRefs = map[word]*state.Source{}, newMoved(), map[store.HubRef]state.RefHub{}
	b.steps = nil
	return services
}

// rest leaves a database alone that did not answer.
func (b *Index) rest(ctx context.Context) {
	if !b.failed {
		return
	}
	retry.Sleep(ctx, again)
}

// announce wakes whoever waits. The caller holds mu.
func (b *Index) announce() {
	close(b.moved)
	b.moved = make(chan struct{})
}

// tell keeps a delta for followers. The caller holds mu.
func (b *Index) tell(before, after *row, item *Item) {
	b.number++
	b.ring = append(b.ring, delta{number: b.number, before: before, after: after, item: item})
	if over := len(b.ring) - ringSize; over > ringSize {
		b.ring = append([]delta(nil), b.ring[over:]...) // and let go of the rest
	}
}

// takeTouched has read anew what statuses were written about.
func (b *Index) takeTouched() {
	b.pendingMu.Lock()
	t, touches := b.pending, b.touches
	b.pending = store.Touched{}
	b.pendingMu.Unlock()
	for _, own := range t.Own {
		b.seen[own] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.touch(t)
	b.handed = touches
}

// settle notes that there is nothing left to read anew.
func (b *Index) settle() {
	b.failed = false
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.settled != b.seq || b.taken != b.handed {
		b.settled, b.taken = b.seq, b.handed
		b.announce()
	}
}

// touch has the resources of these uids read anew. A resource that is not known will come with its status. The caller
// holds mu.
func (b *Index) touch(t store.Touched) {
	for _, uid := range append(t.Services, t.Clusters...) {
		if r := b.byUID[uid]; r != nil {
			b.later[store.Ref{Kind: r.kind, Name: r.name}] = true
		}
	}
	stepped, now := b.stepped, b.Now()
	for _, said := range t.Hubs { // first, since a report is about what the hub hands out
		b.hear(said.Service, now, func(_ *row, essence *state.Essence) bool {
			// Another console may have written a later truth, which the board has read already.
			return !b.Store.Shared() && essence.Hub(said, b.hubRefs)
		})
	}
	for _, report := range t.Reports {
		b.hear(report.Service, now, func(r *row, essence *state.Essence) bool {
			cluster := b.rows[store.KindCluster][r.cluster.Value()]
			return cluster != nil && cluster.uid == report.Cluster && essence.Report(report)
		})
	}
	if b.stepped != stepped {
		b.announce()
	}
	for _, uid := range t.Sources {
		b.refs[uid] = true
	}
}

// look sees to what comes with time alone, and to what other consoles wrote.
func (b *Index) look(ctx context.Context) {
	now := b.Now()
	b.mu.Lock()
	for name, r := range b.rows[store.KindCluster] {
		if r.alive && now.UnixMicro() > r.until {
			b.later[store.Ref{Kind: store.KindCluster, Name: name}] = true
		}
	}
	b.mu.Unlock()
	if b.Presence != nil {
		b.Presence.Saw(ctx, b.lost(now))
	}
	if !b.Store.Shared() {
		return
	}
	var list []store.Touch
	err := b.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		list, err = v.Touched(ctx, database.MaxWrite+now.Sub(b.looked))
		return err
	})
	if err != nil {
		b.complain(ctx, err)
		return
	}
	b.answered(now)
	seen := make(map[store.Touch]bool, len(list))
	var fresh store.Touched
	for _, t := range list {
		if seen[t] = true; !b.seen[t] {
			fresh.Add(t)
		}
	}
	b.seen, b.looked = seen, now
	b.mu.Lock()
	b.touch(fresh)
	b.mu.Unlock()
}

func (b *Index) complain(ctx context.Context, err error) {
	b.failed = true
	if !b.outage.IsZero() {
		return
	}
	b.outage = b.Now()
	if ctx.Err() == nil {
		b.Log.WarnContext(ctx, "states in lists with a filter may be those of before", "err", err)
	}
}

// refresh reads some resources anew.
func (b *Index) refresh(ctx context.Context) {
	of := b.urgent
	if len(of) == 0 {
		of = b.later
	}
	names := map[store.Kind][]string{}
	var known []*row
	n := 0
	now := b.Now()
	b.mu.RLock()
	for ref := range of {
		if n == chunk {
			break
		}
		n++
		if r := b.rows[ref.Kind][ref.Name]; !b.urgent[ref] && r != nil && r.essence != nil && !b.lookedAt(r, now) {
			known = append(known, r)
			continue
		}
		names[ref.Kind] = append(names[ref.Kind], ref.Name)
	}
	asked, stepped := b.known(known), b.stepped
	b.mu.RUnlock()
	if n == 0 && len(b.refs) == 0 {
		b.mu.Lock()
		if b.derive(now); b.stepped != stepped { // rows that waited for others that went meanwhile
			b.announce()
		}
		b.mu.Unlock()
		if !b.due() {
			b.settle()
		}
		return
	}
	var loaded []loadedRow
	var refs map[store.HubRef]state.RefHub
	var essences map[string]state.Essence
	begin := time.Now()
	err := b.Store.ReadAll(ctx, func(ctx context.Context, v store.View) (err error) {
		if refs, err = state.RefsOf(ctx, v, maps.Keys(b.refs)); err != nil {
			return err
		}
		if essences, err = state.Renew(ctx, v, asked); err != nil {
			return err
		}
		for _, kind := range store.Kinds() {
			part, err := b.load(ctx, v, kind, names[kind])
			if err != nil {
				return err
			}
			loaded = append(loaded, part...)
		}
		return nil
	})
	if err != nil {
		b.complain(ctx, err)
		return
	}
	b.failed = false
	b.answered(now)
	b.rested = time.Now().Add(min(rests*time.Since(begin), longestRest))
	for kind, list := range names {
		for _, name := range list {
			delete(b.urgent, store.Ref{Kind: kind, Name: name})
			delete(b.later, store.Ref{Kind: kind, Name: name})
		}
	}
	for _, r := range known {
		delete(b.later, store.Ref{Kind: r.kind, Name: r.name})
	}
	clear(b.refs)
	b.renew(known, essences)
	if seen := b.sightings(b.put(loaded, refs), now); len(seen) > 0 && b.Presence != nil {
		b.Presence.Saw(ctx, seen)
	}
	if !b.due() {
		b.settle()
	}
}

// due says whether there is something to read anew.
func (b *Index) due() bool { return len(b.urgent)+len(b.later)+len(b.refs) > 0 }

type loadedRow struct {
	row    *row
	before *row // as followers know it
	item   *Item
}

func (b *Index) load(ctx context.Context, v store.View, kind store.Kind, names []string) ([]loadedRow, error) {
	if len(names) == 0 {
		return nil, nil
	}
	found, err := v.Named(ctx, kind, names)
	if err != nil {
		return nil, err
	}
	resources := make([]store.Resource, 0, len(found))
	uids := make([]string, 0, len(found))
	for _, name := range names {
		if r, ok := found[name]; ok {
			resources, uids = append(resources, r), append(uids, r.UID)
		}
	}
	values, err := b.Kinds.Load(ctx, b.Loader, v, kind, resources)
	if err != nil || values == nil {
		return nil, err
	}
	var seen map[string]store.Seen
	if kind == store.KindCluster {
		if seen, err = v.Seen(ctx, uids); err != nil {
			return nil, err
		}
	}
	out := make([]loadedRow, len(values))
	for i, value := range values {
		r := structure(resources[i])
		r.keep(nil)
		r.status(value)
		r.until = database.Micros(state.ConnectedUntil(seen[r.uid]))
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(text) // never fails
		r.sum = sum.Sum64()
		out[i] = loadedRow{row: r, item: &Item{Kind: kind, Value: value}}
	}
	return out, nil
}

// put puts rows on the board and tells followers. put returns the rows of clusters that followers knew.
func (b *Index) put(loaded []loadedRow, refs map[store.HubRef]state.RefHub) (clusters []loadedRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.dirty.refs, refs)
	maps.Copy(b.hubRefs, refs)
	for _, l := range loaded {
		rows := b.kind(l.row.kind)
		current := rows[l.row.name]
		if current == nil || current.uid != l.row.uid || current.revision > l.row.revision {
			continue // the resource went, or the log has not told of it yet
		}
		b.step(current, l.row)
		rows[l.row.name] = l.row
		l.before = b.byUID[l.row.uid]
		b.byUID[l.row.uid] = l.row
		if l.row.kind == store.KindCluster {
			clusters = append(clusters, l)
			if l.before == nil || !sameForServices(l.before, l.row) {
				b.dirty.clusters[unique.Make(l.row.name)] = true
			}
		}
		if source, ok := l.item.Value.(state.Source); ok {
			name := unique.Make(source.Meta.Name)
			if _, ok := b.dirty.sources[name]; !ok && (l.before == nil || l.before.sum != l.row.sum) {
				b.dirty.sources[name] = b.sources[name]
			}
			b.sources[name] = &source
		}
		if l.before == nil || l.before.sum != l.row.sum {
			b.tell(l.before, l.row, l.item)
		}
	}
	if now := b.Now(); len(b.urgent)+len(b.later) == 0 || now.Sub(b.derived) > deriveEvery {
		b.derive(now)
	}
	b.announce()
	return clusters
}

// sameForServices says whether the states of a cluster's services, and since when they have them, are the same for
// both.
func sameForServices(was, is *row) bool {
	return was.alive == is.alive && was.begun == is.begun && (was.seen == 0) == (is.seen == 0) && (is.alive || was.seen == is.seen) && was.joined == is.joined
}

// current waits until the rows show what this console has written.
func (b *Index) current(ctx context.Context) error {
	want := b.Store.Written()
	b.pendingMu.Lock()
	touches := b.touches
	b.pendingMu.Unlock()
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	select {
	case b.wake <- struct{}{}: // a board that rests
	default:
	}
	deadline := time.NewTimer(currentWithin)
	defer deadline.Stop()
	for statuses := true; ; {
		b.mu.RLock()
		stands, moved := b.ready, b.moved
		done := stands && b.seq >= want && (b.settled >= want && b.taken >= touches || !statuses)
		b.mu.RUnlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			switch {
			case !statuses && !stands:
				return ErrBegins
			case !statuses:
				return ErrBehind
			}
			statuses = false // a fleet that reports may keep it behind; what people wrote must be there
			deadline.Reset(currentWithin)
		}
	}
}

// Agents counts clusters by what becomes of their agents; false: the rows are not known yet.
func (b *Index) Agents() (counts map[string]int, known bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	counts = map[string]int{"connected": 0, "disconnected": 0, "never": 0, "left": 0}
	for _, r := range b.rows[store.KindCluster] {
		switch {
		case r.alive:
			counts["connected"]++
		case r.left != 0:
			counts["left"]++
		case r.begun:
			counts["disconnected"]++
		default:
			counts["never"]++
		}
	}
	return counts, b.ready
}

// Size is how many rows there are.
func (b *Index) Size() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	n := 0
	for of := range maps.Values(b.rows) {
		n += len(of)
	}
	return n
}
