package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/gitcache/internal/placement"
	"fairlead.dev/services/gitcache/internal/shards"
)

const (
	// refreshDivisor: the list of members is read at a third of their time to live.
	refreshDivisor = 3
	// membersTopic says that a replica came, began to drain or went: look again.
	membersTopic = "gitcache/members"
)

// Keys of what a member says of itself.
const (
	metaOwned   = "owned"
	metaCopies  = "copies"
	metaCutOff  = "cutOff"
	metaSilence = "silence" // seconds since it heard the console
)

// known is a member as it was listed last.
type known struct {
	coordination.Member
	seen time.Time // in a list
}

func (k known) drains() bool { return k.Meta[coordination.MetaDraining] != "" }

// Run makes this replica known and learns of the others until ctx ends. With coordination down it
// remembers whom it knew.
func (p *Peers) Run(ctx context.Context) error {
	presence := coordination.Presence{
		Membership: p.deps.Coordinator, Group: Group, TTL: p.cfg.TTL, Log: p.deps.Log, Member: p.self,
	}
	news, err := p.deps.Coordinator.Subscribe(ctx, membersTopic)
	if err != nil {
		return fmt.Errorf("subscribe to members: %w", err)
	}
	if err := p.announce(ctx); err != nil {
		p.deps.Log.DebugContext(ctx, "announce replica; the heartbeat does", "err", err)
	}
	var running sync.WaitGroup
	running.Go(func() { p.learn(ctx, news) })
	err = presence.Run(ctx)
	running.Wait()
	p.tell(context.WithoutCancel(ctx))
	return err
}

func (p *Peers) self() coordination.Member {
	load := p.cfg.Load()
	meta := map[string]string{
		coordination.MetaVersion: version.String(), coordination.MetaStarted: p.began.UTC().Format(time.RFC3339),
		metaOwned: strconv.Itoa(load.Owned), metaCopies: strconv.Itoa(load.Copies),
	}
	meta[metaSilence] = strconv.Itoa(int(p.silence().Seconds()))
	p.mu.Lock()
	draining, cutOff := p.draining, p.cutOff
	p.mu.Unlock()
	if draining {
		meta[coordination.MetaDraining] = "1"
	}
	if cutOff {
		meta[metaCutOff] = "1"
	}
	return coordination.Member{ID: p.cfg.Replica, URL: p.cfg.URL(), Meta: meta}
}

// announce says now what the next heartbeat would.
func (p *Peers) announce(ctx context.Context) error {
	if err := p.deps.Coordinator.Join(ctx, Group, p.self(), p.cfg.TTL); err != nil {
		return err
	}
	p.tell(ctx)
	return nil
}

// tell makes the others list the members now instead of soon.
func (p *Peers) tell(ctx context.Context) {
	if err := p.deps.Coordinator.Publish(ctx, membersTopic, []byte(p.cfg.Replica)); err != nil {
		p.deps.Log.DebugContext(ctx, "tell of members; the others see it soon", "err", err)
	}
}

func (p *Peers) learn(ctx context.Context, news <-chan []byte) {
	tick := time.NewTicker(p.cfg.TTL / refreshDivisor)
	defer tick.Stop()
	for {
		_ = p.Refresh(ctx) // without coordination those that were known are
		p.judge(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case _, ok := <-news:
			if !ok {
				news = nil // ctx ends, or coordination was closed
			}
		}
	}
}

// remember takes a list of members in. A missing member is not forgotten at once, unless it had begun to drain: a
// flushed store has nobody until all have said again that they live, and in the meantime nothing is to move.
func (p *Peers) remember(members []coordination.Member) {
	now := time.Now()
	next := make(map[string]known, len(members))
	for _, m := range members {
		// A replica does not start with an address that fails here: this one is forged.
		if m.URL == "" || client.CheckPeer(m.URL) == nil {
			next[m.ID] = known{m, now}
		}
	}
	p.mu.Lock()
	for id, old := range p.known {
		if _, listed := next[id]; !listed && !old.drains() && now.Sub(old.seen) < p.cfg.TTL {
			next[id] = old
		}
	}
	before, first := p.replicasLocked(), !p.learned
	p.known, p.learned = next, true
	changed := first || !slices.Equal(before, p.replicasLocked())
	if changed {
		p.settled = now
	}
	p.mu.Unlock()
	if changed {
		p.cfg.Changed()
	}
}

// replicasLocked are the live ones, this one among them, by name.
func (p *Peers) replicasLocked() []placement.Candidate {
	replicas := []placement.Candidate{{Name: p.cfg.Replica, Draining: p.draining || p.cutOff}}
	for _, id := range slices.Sorted(maps.Keys(p.known)) {
		if id != p.cfg.Replica {
			replicas = append(replicas, p.known[id].candidate(id))
		}
	}
	return replicas
}

// Rank says who should own a source, the best first: the second keeps a copy. The ranking is empty until the members
// were listed for the first time.
func (p *Peers) Rank(uid string) []string {
	p.mu.Lock()
	learned, replicas := p.learned, p.replicasLocked()
	p.mu.Unlock()
	if !learned {
		return nil
	}
	return placement.Rank(uid, replicas)
}

// Place is where this replica stands in the ranking of a source, from 0; negative: nowhere.
func (p *Peers) Place(uid string) int { return slices.Index(p.Rank(uid), p.cfg.Replica) }

// Settled tells since when the same replicas live.
func (p *Peers) Settled() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled
}

// Draining tells whether this replica hands over what it owns.
func (p *Peers) Draining() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// Single tells whether no other replica lives.
func (p *Peers) Single() bool { return len(p.Others()) == 0 }

// Alone tells whether there is nobody else who could own anything.
func (p *Peers) Alone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(p.replicasLocked(), func(r placement.Candidate) bool {
		return r.Name != p.cfg.Replica && !r.Draining
	})
}

// Drain makes this replica own nothing, or takes it back, and tells the others. The error is that of
// coordination: the others hear of it when that is back.
func (p *Peers) Drain(ctx context.Context, draining bool) error {
	p.mu.Lock()
	changed := p.draining != draining
	p.draining = draining
	if changed {
		p.settled = time.Now()
	}
	p.mu.Unlock()
	if !changed {
		return nil
	}
	err := p.announce(ctx)
	p.cfg.Changed()
	return err
}

// Replicas are the live ones by name, this one among them.
func (p *Peers) Replicas() []shards.Replica {
	p.mu.Lock()
	members := map[string]coordination.Member{}
	for id, m := range p.known {
		members[id] = m.Member
	}
	p.mu.Unlock()
	members[p.cfg.Replica] = p.self()
	replicas := make([]shards.Replica, 0, len(members))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		replicas = append(replicas, replicaOf(members[id]))
	}
	return replicas
}

// replicaOf reads what anybody may have written into the store: what can't be read is left out.
func replicaOf(m coordination.Member) shards.Replica {
	r := shards.Replica{Name: m.ID, URL: m.URL, Version: m.Meta[coordination.MetaVersion], Draining: m.Meta[coordination.MetaDraining] != "", CutOff: m.Meta[metaCutOff] != ""}
	r.Started, _ = time.Parse(time.RFC3339, m.Meta[coordination.MetaStarted])
	r.Owned, _ = strconv.Atoi(m.Meta[metaOwned])
	r.Copies, _ = strconv.Atoi(m.Meta[metaCopies])
	return r
}

// Others are the other replicas that can be asked, in the order of their names.
func (p *Peers) Others() []coordination.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := make([]coordination.Member, 0, len(p.known))
	for _, id := range slices.Sorted(maps.Keys(p.known)) {
		if m := p.known[id].Member; id != p.cfg.Replica && m.URL != "" {
			others = append(others, m)
		}
	}
	return others
}

// Holders are the other replicas in the order in which they may have a source: its owner, then as they
// are ranked.
func (p *Peers) Holders(ctx context.Context, uid string) []coordination.Member {
	others, rank := p.Others(), p.Rank(uid)
	place := func(m coordination.Member) int {
		if i := slices.Index(rank, m.ID); i >= 0 {
			return i
		}
		return len(rank)
	}
	slices.SortStableFunc(others, func(a, b coordination.Member) int { return place(a) - place(b) })
	if owner, ok := p.OwnerMember(ctx, uid); ok {
		others = slices.DeleteFunc(others, func(m coordination.Member) bool { return m.ID == owner.ID })
		others = slices.Insert(others, 0, owner)
	}
	return others
}

// Member is another replica that lives, by its name.
func (p *Peers) Member(id string) (coordination.Member, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.known[id]
	return m.Member, ok && id != p.cfg.Replica && m.URL != ""
}

// Refresh lists the members now.
func (p *Peers) Refresh(ctx context.Context) error {
	members, err := p.deps.Coordinator.Members(ctx, Group)
	p.mu.Lock()
	p.listed = err == nil
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.remember(members)
	return nil
}

// member finds a peer; one that has just come is looked up.
func (p *Peers) member(ctx context.Context, id string) (coordination.Member, bool) {
	if id == "" || id == p.cfg.Replica {
		return coordination.Member{}, false
	}
	if m, ok := p.Member(id); ok {
		return m, true
	}
	if err := p.Refresh(ctx); err != nil {
		return coordination.Member{}, false
	}
	return p.Member(id)
}
