// Package session keeps the agents' sessions of one tunnel replica: which cluster has which, and which
// of them takes the next request. Registry.Serve owns a session from its handshake to its end.
package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/retry"
)

const (
	// maxPerCluster: an agent has one or a few; what is beyond are half-open ones that are not found yet.
	maxPerCluster = 8
	// maxUnread bounds what all sessions of a replica hold of answers that nobody reads, in bytes, whatever memory
	// there is; in a container it is a share of what that allows: the collector lets a heap double, and requests and
	// idle sessions take the rest.
	maxUnread   = 1 << 30
	unreadShare = 4
	// maxSessions bounds a replica: 10,000 idle sessions take some hundred MiB.
	maxSessions = 10_000
	// maxGreeting bounds the handshakes that run at once, so that the agents of a replica that went do not take this
	// one's time from people.
	maxGreeting = 256
	// maxWaiting agents wait for their handshake, each for greetingPatience at most: half of what an agent gives its
	// dialling. An agent that waits costs what its session will, and a refused agent dials again.
	maxWaiting, greetingPatience = 4096, 5 * time.Second
	// busyFor, fullFor are when to come again; agents spread it.
	busyFor, fullFor = 2 * time.Second, 30 * time.Second
	// staleAfter is the silence after which other sessions are preferred: a heartbeat was missed.
	staleAfter = mux.Heartbeat + 2*time.Second
	// A drain tells this many agents at once, then waits this long: they all dial elsewhere.
	goAwayAtOnce, goAwayEvery = 100, 40 * time.Millisecond
)

// ErrDraining: this replica is going away.
var ErrDraining = errors.New("this replica is going away")

// errFull and errBusy say that an agent should come again later, or go elsewhere.
var (
	errFull = &refusal.Error{Reason: refusal.Exhausted, Message: "this replica can't hold more sessions", RetryAfter: fullFor}
	errBusy = &refusal.Error{Reason: refusal.Exhausted, Message: "too many agents connect at once", RetryAfter: busyFor}
)

// errNotGreeted: a session ended before its handshake was over, so it is in no books.
var errNotGreeted = errors.New("the session ended before its handshake was over")

// NotConnectedError says that a cluster has no session here.
type NotConnectedError struct {
	// Since is when its last session here ended; zero: there was none since this replica started.
	Since time.Time
	// Broke: that session ended without a word. Otherwise one of the two sides took leave, and the agent is likely to
	// come back.
	Broke bool
	// Ending: it has one that takes no more requests.
	Ending bool
}

func (e *NotConnectedError) Error() string { return "cluster has no session here" }

// Session is one agent's session.
type Session struct {
	*mux.Session
	ID      string
	Cluster string
	Since   time.Time
	Carrier string // by its name for people
}

// Directory is told which sessions there are.
type Directory interface {
	Add(cluster, session string)
	Remove(session string)
}

// Deps is what a Registry works with.
type Deps struct {
	Directory Directory
	// Properties are told to the agents.
	Properties func() map[string]string
	// Memory is what the container allows, in bytes; 0: it has no limit.
	Memory int64
	// Ended is told of each session's end.
	Ended func(error)
	Log   *slog.Logger
}

// Registry holds the sessions.
type Registry struct {
	deps     Deps
	shared   *mux.Shared
	greeting chan struct{} // a place for each handshake that runs
	waiting  atomic.Int32  // agents that wait for such a place
	draining chan struct{} // closed when Drain begins

	mu       sync.Mutex // guards what follows
	sessions map[string]map[*Session]struct{}
	count    int
	left     map[string]leave // how a cluster's last session ended; of clusters of the catalog only
	drains   bool
}

// leave is the end of a cluster's last session.
type leave struct {
	at    time.Time
	broke bool
}

// New returns an empty registry.
func New(deps Deps) *Registry {
	return &Registry{
		deps: deps, shared: mux.NewShared(unread(deps.Memory)), greeting: make(chan struct{}, maxGreeting), draining: make(chan struct{}),
		sessions: make(map[string]map[*Session]struct{}), left: make(map[string]leave),
	}
}

// unread is what sessions may hold of answers that nobody reads where a container has so much memory; 0: it has no
// limit.
func unread(memory int64) int64 {
	if memory == 0 {
		return maxUnread
	}
	return min(maxUnread, memory/unreadShare)
}

// Serve runs an agent's session until it ends, and says why it did. The error is a refusal if there is no room for
// it now. The carrier is opened when there is.
func (r *Registry) Serve(ctx context.Context, cluster string, open func() (mux.Carrier, error)) error {
	if isClosed(r.draining) {
		return ErrDraining
	}
	if r.full() {
		return errFull
	}
	if err := r.takePlace(ctx); err != nil {
		return err
	}
	greeted := sync.OnceFunc(func() { <-r.greeting })
	defer greeted()
	carrier, err := open()
	if err != nil {
		return err
	}
	m, err := r.shared.NewOpener(carrier, r.deps.Properties())
	if err != nil {
		return err
	}
	s := &Session{Session: m, ID: rand.Text(), Cluster: cluster, Since: time.Now(), Carrier: kindOf(carrier)}
	// Nothing of the session's goroutines stays but the one that reads: there are thousands of sessions.
	registered := make(chan error, 1)
	go func() {
		select {
		case <-s.Ready():
			greeted()
			registered <- r.register(ctx, s)
		case <-s.Done():
			registered <- errNotGreeted
		}
	}()
	err = m.Run(ctx)
	refused := <-registered
	if refused == nil {
		r.unregister(ctx, s)
	}
	r.deps.Ended(err)
	if refused != nil && !errors.Is(refused, errNotGreeted) {
		return refused
	}
	return err
}

// takePlace waits for a place among the handshakes that run, in the order in which agents come.
func (r *Registry) takePlace(ctx context.Context) error {
	if r.waiting.Add(1) > maxWaiting {
		r.waiting.Add(-1)
		return errBusy
	}
	defer r.waiting.Add(-1)
	patience := time.NewTimer(greetingPatience)
	defer patience.Stop()
	select {
	case r.greeting <- struct{}{}:
		return nil
	case <-patience.C:
		return errBusy
	case <-r.draining:
		return ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kindOf names a carrier for people.
func kindOf(c mux.Carrier) string {
	if named, ok := c.(interface{ Kind() string }); ok {
		return named.Kind()
	}
	return "connect"
}

// register enters a session in the books, once its handshake is over.
func (r *Registry) register(ctx context.Context, s *Session) error {
	log := r.deps.Log.With("cluster", s.Cluster, "session", s.ID)
	if err := r.add(s); err != nil {
		log.WarnContext(ctx, "agent's session refused", "err", err)
		s.Close(mux.CodeLimit, err.Error())
		return err
	}
	r.deps.Directory.Add(s.Cluster, s.ID)
	log.InfoContext(ctx, "agent connected", "carrier", s.Carrier, "version", s.Peer().Properties["version"])
	return nil
}

// unregister takes a session out of the books, once it has ended.
func (r *Registry) unregister(ctx context.Context, s *Session) {
	r.remove(s)
	r.deps.Directory.Remove(s.ID)
	r.deps.Log.InfoContext(ctx, "agent's session ended", "cluster", s.Cluster, "session", s.ID,
		"lived", time.Since(s.Since).Round(time.Second))
}

// Drain tells all agents to dial elsewhere, and waits until the requests that run over their sessions have
// ended, or ctx has; then it ends the sessions. No others are taken.
func (r *Registry) Drain(ctx context.Context) {
	r.mu.Lock()
	first := !r.drains
	r.drains = true
	r.mu.Unlock()
	if !first {
		return
	}
	close(r.draining)
	var ending sync.WaitGroup
	defer ending.Wait()
	for i, s := range r.List() {
		if i%goAwayAtOnce == goAwayAtOnce-1 {
			retry.Sleep(ctx, goAwayEvery)
		}
		ending.Go(func() {
			s.Drain(ctx, "this tunnel replica is restarting: dial again")
			<-s.Done()
		})
	}
}

func (r *Registry) add(s *Session) error {
	r.mu.Lock()
	if r.drains {
		r.mu.Unlock()
		return ErrDraining
	}
	if r.count >= maxSessions {
		r.mu.Unlock()
		return errFull
	}
	of := r.sessions[s.Cluster]
	var extra *Session
	if len(of) >= maxPerCluster {
		for old := range of {
			if extra == nil || old.Stats().Heard.Before(extra.Stats().Heard) {
				extra = old
			}
		}
	}
	if of == nil {
		of = make(map[*Session]struct{})
		r.sessions[s.Cluster] = of
	}
	of[s] = struct{}{}
	r.count++
	r.mu.Unlock()
	if extra != nil {
		extra.Close(mux.CodeLimit, fmt.Sprintf("more than %d sessions of one cluster: this is the one that was silent longest", maxPerCluster))
	}
	return nil
}

func (r *Registry) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count >= maxSessions
}

func (r *Registry) remove(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.sessions[s.Cluster]
	delete(of, s)
	r.count--
	if len(of) == 0 {
		delete(r.sessions, s.Cluster)
		r.left[s.Cluster] = leave{at: time.Now(), broke: !isClosed(s.Gone()) && !r.drains}
	}
}

// Pick returns the session of a cluster that should take the next request: one that is heard, has the
// fewest streams and the shortest round trip. The error is a *NotConnectedError. Those in tried are not picked.
func (r *Registry) Pick(cluster string, tried []*Session) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	better := func(a, b mux.Stats) bool {
		return cmp.Or(
			compareBool(now.Sub(a.Heard) > staleAfter, now.Sub(b.Heard) > staleAfter),
			cmp.Compare(a.Streams, b.Streams),
			cmp.Compare(a.RoundTrip, b.RoundTrip),
		) < 0
	}
	var best *Session
	var stats mux.Stats
	ending := false
	for s := range r.sessions[cluster] {
		st := s.Stats()
		ending = ending || !st.Usable
		if st.Usable && !slices.Contains(tried, s) && (best == nil || better(st, stats)) {
			best, stats = s, st
		}
	}
	if best == nil {
		last := r.left[cluster]
		return nil, &NotConnectedError{Since: last.at, Broke: last.broke, Ending: ending}
	}
	return best, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// Keep ends the sessions of clusters that are not known any more.
func (r *Registry) Keep(known func(cluster string) bool) {
	r.mu.Lock()
	var unknown []*Session
	for cluster, of := range r.sessions {
		if known(cluster) {
			continue
		}
		for s := range of {
			unknown = append(unknown, s)
		}
	}
	for cluster := range r.left {
		if !known(cluster) {
			delete(r.left, cluster)
		}
	}
	r.mu.Unlock()
	for _, s := range unknown {
		s.Close(mux.CodeNone, "the cluster was taken out of the catalog")
	}
}

// List returns the sessions, by cluster and age.
func (r *Registry) List() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*Session, 0, r.count)
	for _, of := range r.sessions {
		for s := range of {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Counts returns how many sessions there are and how many streams they carry.
func (r *Registry) Counts() (sessions, streams int) {
	for _, s := range r.List() {
		sessions++
		streams += s.Stats().Streams
	}
	return sessions, streams
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
