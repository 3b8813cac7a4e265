// Package peers is the other replicas of the service: who they are, who owns what, and how to ask them.
// A request that comes from a peer is never handed on again.
package peers

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

const (
	// Group is where gitcaches find each other.
	Group = identity.ServiceGitcache
	// DefaultTTL of a membership: how long a dead replica is still asked.
	DefaultTTL = 15 * time.Second
)

// Config of Peers.
type Config struct {
	Replica string // this one
	URL     func() string
	TTL     time.Duration // of memberships; 0: DefaultTTL
	// Load is what this replica has, for lists of replicas; nil: nothing.
	Load func() Load
	// Heard is when this replica heard the console last; nil: just now.
	Heard func() time.Time
	// Changed is called when the ranking of replicas may have; nil: nobody cares.
	Changed func()
}

// Load is what a replica has.
type Load struct{ Owned, Copies int }

// Deps of Peers.
type Deps struct {
	Coordinator coordination.Coordinator
	// Client carries this service's identity.
	Client *http.Client
	Log    *slog.Logger
}

// Peers knows the others.
type Peers struct {
	cfg    Config
	deps   Deps
	client *http.Client
	began  time.Time

	mu       sync.Mutex // guards what follows
	known    map[string]known
	learned  bool // members were listed since the start
	listed   bool // the last list of members succeeded
	draining bool // this replica
	cutOff   bool // this replica, from the console
	settled  time.Time

	hearsSince time.Time // without a break; zero: it does not hear the console
}

// New knows nobody yet.
func New(cfg Config, deps Deps) *Peers {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Load == nil {
		cfg.Load = func() Load { return Load{} }
	}
	if cfg.Heard == nil {
		cfg.Heard = time.Now
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	hc := *deps.Client
	hc.Transport = wire.Forwarding(hc.Transport)
	return &Peers{
		cfg: cfg, deps: deps, client: &hc, began: time.Now(),
		known: map[string]known{}, settled: time.Now(),
	}
}

// Owner names the replica that holds a source; empty: nobody, or it can't be told.
func (p *Peers) Owner(ctx context.Context, uid string) (string, error) {
	return p.deps.Coordinator.Holder(ctx, owner.LeaseKey(uid))
}

// OwnerMember is another replica that holds a source and can be asked; false: this one holds it, or
// nobody, or it can't be told.
func (p *Peers) OwnerMember(ctx context.Context, uid string) (coordination.Member, bool) {
	holder, err := p.Owner(ctx, uid)
	if err != nil {
		return coordination.Member{}, false
	}
	return p.member(ctx, holder)
}

// HTTP is the client for requests to another replica. The client makes requests as this service, for that replica only,
// and marks them as forwarded: the other replica answers from what it has.
func (p *Peers) HTTP(m coordination.Member) *http.Client {
	hc := *p.client
	hc.Transport = forReplica{p.client.Transport, m.ID}
	return &hc
}

// forReplica sends tokens that are for one replica.
type forReplica struct {
	http.RoundTripper

	id string
}

func (t forReplica) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.RoundTripper.RoundTrip(r.WithContext(identity.ForReplica(r.Context(), t.id)))
}
