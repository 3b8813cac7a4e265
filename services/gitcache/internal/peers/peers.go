// Package peers is the other replicas of the service: who they are, who owns what, and how to ask them.
// A request that comes from a peer is never handed on again.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

const (
	// Group is where gitcaches find each other.
	Group = identity.ServiceGitcache
	// ttl of a membership: how long a dead replica is still asked.
	ttl = 15 * time.Second
	// refresh of the list of members.
	refresh = 5 * time.Second
	// askTime bounds a question to a peer; it may have to build.
	askTime = 30 * time.Second
)

// Config of Peers.
type Config struct {
	Replica string // this one
	URL     func() string
}

// Deps of Peers.
type Deps struct {
	Coordinator interface {
		coordination.Leases
		coordination.Membership
	}
	// Client carries this service's identity.
	Client *http.Client
	Log    *slog.Logger
}

// Peers knows the others.
type Peers struct {
	cfg    Config
	deps   Deps
	client *http.Client

	mu    sync.Mutex // guards known
	known map[string]coordination.Member
}

// New knows nobody yet.
func New(cfg Config, deps Deps) *Peers {
	hc := *deps.Client
	hc.Transport = wire.Forwarding(hc.Transport)
	return &Peers{cfg: cfg, deps: deps, client: &hc, known: map[string]coordination.Member{}}
}

// Run makes this replica known and learns of the others until ctx ends. With coordination down it
// remembers whom it knew.
func (p *Peers) Run(ctx context.Context) error {
	presence := coordination.Presence{
		Membership: p.deps.Coordinator, Group: Group, TTL: ttl, Log: p.deps.Log,
		Member: func() coordination.Member { return coordination.Member{ID: p.cfg.Replica, URL: p.cfg.URL()} },
	}
	var learning sync.WaitGroup
	learning.Go(func() { p.learn(ctx) })
	err := presence.Run(ctx)
	learning.Wait()
	return err
}

func (p *Peers) learn(ctx context.Context) {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		if members, err := p.deps.Coordinator.Members(ctx, Group); err == nil {
			p.remember(members)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Peers) remember(members []coordination.Member) {
	known := make(map[string]coordination.Member, len(members))
	for _, m := range members {
		// A replica does not start with an address that fails here: this one is forged.
		if m.URL == "" || client.CheckPeer(m.URL) == nil {
			known[m.ID] = m
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
}

// Count tells how many replicas there are, this one among them.
func (p *Peers) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.known)
	if _, ok := p.known[p.cfg.Replica]; !ok {
		n++
	}
	return n
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

// Others are the other replicas that can be asked, in the order of their names.
func (p *Peers) Others() []coordination.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := make([]coordination.Member, 0, len(p.known))
	for _, id := range slices.Sorted(maps.Keys(p.known)) {
		if m := p.known[id]; id != p.cfg.Replica && m.URL != "" {
			others = append(others, m)
		}
	}
	return others
}

// HTTP is the client for requests to other replicas. They are made as this service, and marked as
// forwarded: who gets one answers from what it has.
func (p *Peers) HTTP() *http.Client { return p.client }

// Resolve asks the owner of a source.
func (p *Peers) Resolve(ctx context.Context, uid string, queries []origin.Query) ([]origin.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	holder, err := p.Owner(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", origin.ErrNoOwner, err)
	}
	m, ok := p.member(ctx, holder)
	if !ok {
		return nil, origin.ErrNoOwner
	}
	client := artifactv1connect.NewArtifactServiceClient(p.client, m.URL, connect.WithReadMaxBytes(wire.MaxAnswerBytes))
	resp, err := client.Resolve(ctx, wire.Request(queries))
	if err != nil {
		p.deps.Log.WarnContext(ctx, "owner of a source does not answer", "replica", holder, "err", err)
		return nil, fmt.Errorf("%w: %w", origin.ErrNoOwner, err)
	}
	return wire.Answers(resp), nil
}

// member finds a peer; one that has just come is looked up.
func (p *Peers) member(ctx context.Context, id string) (coordination.Member, bool) {
	if id == "" || id == p.cfg.Replica {
		return coordination.Member{}, false
	}
	p.mu.Lock()
	m, ok := p.known[id]
	p.mu.Unlock()
	if !ok {
		if members, err := p.deps.Coordinator.Members(ctx, Group); err == nil {
			p.remember(members)
			p.mu.Lock()
			m, ok = p.known[id]
			p.mu.Unlock()
		}
	}
	return m, ok && m.URL != ""
}

// Open finds an artifact at any other replica, as an artifact.FetchFunc.
func (p *Peers) Open(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
	for _, m := range p.Others() {
		r, err := artifact.Fetch(ctx, p.client, m.URL, d, 0)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, artifact.ErrNotFound) {
			p.deps.Log.WarnContext(ctx, "replica does not hand out an artifact", "replica", m.ID, "digest", d, "err", err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, artifact.ErrNotFound
}
