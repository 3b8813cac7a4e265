// Package session keeps the agents' sessions of one tunnel replica: which cluster has which, which
// of them takes the next request, and that the other replicas know of them.
//
// Nothing outside of this process decides where a request goes: what coordination says is a hint for
// a person, and will be one for relaying. Registry.Serve owns a session from its handshake to its end.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/mux"
)

const (
	// maxPerCluster: an agent has one or a few; what is beyond are half-open ones that are not found yet.
	maxPerCluster = 8
	// maxSessions bounds a replica: 10,000 idle sessions take some hundred MiB.
	maxSessions = 10_000
	// presenceTTL is how long a session that a dead replica had is still listed.
	presenceTTL = 30 * time.Second
	// staleAfter is the silence after which other sessions are preferred: a heartbeat was missed.
	staleAfter = mux.Heartbeat + 2*time.Second
	// drainLimit is less than the listener's 10 s, so that sessions end before they are cut.
	drainLimit = 8 * time.Second
)

// errFull: this replica holds as many sessions as it can.
var errFull = errors.New("this replica has as many sessions as it can hold")

// ErrDraining: this replica is going away.
var ErrDraining = errors.New("this replica is going away")

// NotConnectedError says that a cluster has no session here.
type NotConnectedError struct {
	// Since is when its last session here ended; zero: there was none since this replica started.
	Since time.Time
	// Elsewhere is the URL of another replica that says it has one; empty: none does.
	Elsewhere string
}

func (e *NotConnectedError) Error() string { return "cluster has no session here" }

// Session is one agent's session.
type Session struct {
	*mux.Session
	ID      string
	Cluster string
	Since   time.Time
}

// Deps is what a Registry works with.
type Deps struct {
	Membership coordination.Membership
	// Replica is this replica's URL, as the others reach it.
	Replica func() string
	// Ended is told of each session's end.
	Ended func(error)
	Log   *slog.Logger
}

// Registry holds the sessions.
type Registry struct {
	deps Deps

	mu       sync.Mutex // guards what follows
	sessions map[string]map[*Session]struct{}
	count    int
	left     map[string]time.Time // when a cluster's last session ended; of clusters of the catalog only
}

// New returns an empty registry.
func New(deps Deps) *Registry {
	return &Registry{deps: deps, sessions: make(map[string]map[*Session]struct{}), left: make(map[string]time.Time)}
}

// Serve runs an agent's session over a carrier until it ends, and says why it did. When draining
// closes, the agent is told to dial again elsewhere, and running requests get some seconds to end.
func (r *Registry) Serve(ctx context.Context, cluster string, carrier mux.Carrier, draining <-chan struct{}) error {
	if isClosed(draining) {
		return ErrDraining
	}
	m, err := mux.NewOpener(carrier, map[string]string{"replica": clip(r.deps.Replica())})
	if err != nil {
		return err
	}
	s := &Session{Session: m, ID: uuid.NewString(), Cluster: cluster, Since: time.Now()}
	var around sync.WaitGroup
	defer around.Wait()
	around.Go(func() { r.register(ctx, s, draining) })
	err = m.Run(ctx)
	r.deps.Ended(err)
	return err
}

// register keeps a session in the books from its handshake to its end.
func (r *Registry) register(ctx context.Context, s *Session, draining <-chan struct{}) {
	select {
	case <-s.Ready():
	case <-s.Done():
		return
	}
	log := r.deps.Log.With("cluster", s.Cluster, "session", s.ID)
	if err := r.add(s); err != nil {
		log.WarnContext(ctx, "agent's session refused", "err", err)
		s.Close(mux.CodeLimit, err.Error())
		return
	}
	log.InfoContext(ctx, "agent connected", "version", s.Peer().Properties["version"])
	defer func() {
		r.remove(s)
		log.InfoContext(ctx, "agent's session ended", "lived", time.Since(s.Since).Round(time.Second))
	}()
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	var presence sync.WaitGroup
	presence.Go(func() {
		p := coordination.Presence{Membership: r.deps.Membership, Group: Group(s.Cluster), TTL: presenceTTL, Log: log, Member: func() coordination.Member { return r.member(s) }}
		_ = p.Run(present) // nil, by contract
	})
	defer presence.Wait()
	defer leave()
	select {
	case <-s.Done():
	case <-draining:
		leave()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		s.Drain(limit, "this tunnel replica is restarting: dial again")
		<-s.Done()
	}
}

// Group is the name under which coordination lists the sessions of a cluster.
func Group(cluster string) string { return "tunnel/" + cluster }

func (r *Registry) member(s *Session) coordination.Member {
	return coordination.Member{ID: s.ID, URL: r.deps.Replica(), Meta: map[string]string{"since": s.Since.UTC().Format(time.RFC3339)}}
}

func (r *Registry) add(s *Session) error {
	r.mu.Lock()
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

func (r *Registry) remove(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.sessions[s.Cluster]
	delete(of, s)
	r.count--
	if len(of) == 0 {
		delete(r.sessions, s.Cluster)
		r.left[s.Cluster] = time.Now()
	}
}

// Pick returns the session of a cluster that should take the next request: one that is heard, has the
// fewest streams and the shortest round trip. The error is a *NotConnectedError. Those in tried are not picked.
func (r *Registry) Pick(ctx context.Context, cluster string, tried []*Session) (*Session, error) {
	r.mu.Lock()
	type candidate struct {
		s     *Session
		stats mux.Stats
	}
	var candidates []candidate
	for s := range r.sessions[cluster] {
		if st := s.Stats(); st.Usable && !slices.Contains(tried, s) {
			candidates = append(candidates, candidate{s, st})
		}
	}
	left := r.left[cluster]
	r.mu.Unlock()
	if len(candidates) == 0 {
		return nil, &NotConnectedError{Since: left, Elsewhere: r.elsewhere(ctx, cluster)}
	}
	now := time.Now()
	best := slices.MinFunc(candidates, func(a, b candidate) int {
		return cmp.Or(
			compareBool(now.Sub(a.stats.Heard) > staleAfter, now.Sub(b.stats.Heard) > staleAfter),
			cmp.Compare(a.stats.Streams, b.stats.Streams),
			cmp.Compare(a.stats.RoundTrip, b.stats.RoundTrip),
		)
	})
	return best.s, nil
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

// elsewhere asks coordination for a replica that has the cluster. Only for the words of an error.
func (r *Registry) elsewhere(ctx context.Context, cluster string) string {
	members, err := r.deps.Membership.Members(ctx, Group(cluster))
	if err != nil {
		return ""
	}
	for _, m := range members {
		if m.URL != r.deps.Replica() {
			return m.URL
		}
	}
	return ""
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

// clip keeps a property within what a HELLO carries.
func clip(s string) string { return s[:min(len(s), 127)] }
