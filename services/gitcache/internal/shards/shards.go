// Package shards shows who owns which source and who should, and lets people change it.
package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/owner"
)

// moveTime bounds a move: a copy that takes longer goes on, and the move is asked for again.
const moveTime = time.Minute

// Source is what the catalog knows.
type Source struct {
	Name, UID string
	Epoch     int64
}

// Shard is a source and its replicas.
type Shard struct {
	Source
	Owner     string   // the holder of the lease; empty: nobody
	Preferred []string // the best first
	Note      string   // why the owner is not the preferred one
}

// Replica is a live gitcache.
type Replica struct {
	Name, URL, Version string
	Draining           bool
	CutOff             bool // from the console
	Started            time.Time
	Owned, Copies      int // sources that it owns, and of which it has a copy for others
	Preferred          int // sources that it should own
}

// Peers are the replicas.
type Peers interface {
	// Replicas are those that live, by name; it does not say what they should own.
	Replicas() []Replica
	Rank(uid string) []string
	Alone() bool
	Refresh(ctx context.Context) error
	Drain(ctx context.Context, draining bool) error
	Member(id string) (coordination.Member, bool)
	// SetDraining and MoveSource hand a call on.
	SetDraining(ctx context.Context, at coordination.Member, draining bool) error
	MoveSource(ctx context.Context, at coordination.Member, source, replica string) error
}

// Deps of Shards.
type Deps struct {
	Replica string // this one
	Sources func() []Source
	Peers   Peers
	Holders func(ctx context.Context, keys []string) ([]string, error)
	Move    func(ctx context.Context, uid, to string) error
	Kept    func(uid string) bool // the source is owned here because a person moved it
}

// Shards answers for all replicas.
type Shards struct{ deps Deps }

// New makes it.
func New(deps Deps) *Shards { return &Shards{deps} }

// Replicas are those that live, by name.
func (s *Shards) Replicas() []Replica {
	preferred := map[string]int{}
	for _, source := range s.deps.Sources() {
		if rank := s.deps.Peers.Rank(source.UID); len(rank) > 0 {
			preferred[rank[0]]++
		}
	}
	all := s.deps.Peers.Replicas()
	for i, r := range all {
		all[i].Preferred = preferred[r.Name]
	}
	return all
}

// List returns at most size shards whose names come after one, and whether there are more. With a replica
// only those that it owns or should own.
func (s *Shards) List(ctx context.Context, size int, after, replica string) (page []Shard, more bool, err error) {
	sources := slices.DeleteFunc(s.deps.Sources(), func(source Source) bool { return source.Name <= after })
	slices.SortFunc(sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	if replica == "" && len(sources) > size {
		sources, more = sources[:size], true
	}
	keys := make([]string, 0, len(sources))
	for _, source := range sources {
		keys = append(keys, owner.LeaseKey(source.UID))
	}
	holders, err := s.deps.Holders(ctx, keys)
	if err != nil {
		return nil, false, refusal.New(refusal.Unavailable, "who owns what can't be told: %v", err)
	}
	replicas := s.deps.Peers.Replicas()
	for i, source := range sources {
		shard := Shard{Source: source, Owner: holders[i], Preferred: s.deps.Peers.Rank(source.UID)}
		if replica != "" && shard.Owner != replica && shard.first() != replica {
			continue
		}
		if len(page) == size {
			return page, true, nil
		}
		shard.Note = s.note(shard, replicas)
		page = append(page, shard)
	}
	return page, more, nil
}

func (s Shard) first() string {
	if len(s.Preferred) == 0 {
		return ""
	}
	return s.Preferred[0]
}

// note says why the owner is not the preferred replica.
func (s *Shards) note(shard Shard, replicas []Replica) string {
	i := slices.IndexFunc(replicas, func(r Replica) bool { return r.Name == shard.Owner })
	switch {
	case shard.Owner == shard.first():
		return ""
	case shard.Owner == "":
		return fmt.Sprintf("nobody fetches it right now; %q takes it, or another replica within seconds", shard.first())
	case i < 0:
		return fmt.Sprintf("%q is gone; another replica takes it when its lease runs out", shard.Owner)
	case replicas[i].Draining:
		return fmt.Sprintf("%q drains: it hands it over to %q", shard.Owner, shard.first())
	case replicas[i].CutOff:
		return fmt.Sprintf("%q does not reach the console: it hands it over to %q", shard.Owner, shard.first())
	case shard.Owner == s.deps.Replica && s.deps.Kept(shard.UID):
		return fmt.Sprintf("it was moved to %q", shard.Owner)
	}
	return fmt.Sprintf("%q gets it when it has a copy, unless somebody moved it to %q", shard.first(), shard.Owner)
}

// Drain makes a replica hand over what it owns, or takes it back. A call that another replica handed on
// is not handed on again.
func (s *Shards) Drain(ctx context.Context, replica string, draining, forwarded bool) error {
	if replica != s.deps.Replica {
		at, ok := s.deps.Peers.Member(replica)
		if !ok || forwarded {
			return noReplica(replica)
		}
		return s.deps.Peers.SetDraining(ctx, at, draining)
	}
	if err := s.deps.Peers.Refresh(ctx); err != nil {
		return refusal.New(refusal.Unavailable, "who else lives can't be told: %v", err)
	}
	if draining && s.deps.Peers.Alone() {
		return refusal.New(refusal.Precondition, "replica %q is the last one that does not drain: nobody could take its sources. Start another one, or take one back", replica)
	}
	if err := s.deps.Peers.Drain(ctx, draining); err != nil {
		return refusal.New(refusal.Unavailable, "replica %q has taken note, but the others can't be told: %v", replica, err)
	}
	return nil
}

func noReplica(name string) error {
	return refusal.New(refusal.NotFound, "there is no replica %q. See `fairlead shards` for those that live", name)
}

// Move hands a source over to a replica. The source stays there until that replica drains or ends.
func (s *Shards) Move(ctx context.Context, name, to string, forwarded bool) error {
	sources := s.deps.Sources()
	i := slices.IndexFunc(sources, func(source Source) bool { return source.Name == name })
	if i < 0 {
		return refusal.New(refusal.NotFound, "source %q is not in the catalog. Apply it, or correct the name", name)
	}
	replicas := s.deps.Peers.Replicas()
	switch j := slices.IndexFunc(replicas, func(r Replica) bool { return r.Name == to }); {
	case j < 0:
		return noReplica(to)
	case replicas[j].Draining:
		return refusal.New(refusal.Precondition, "replica %q drains. Take it back first, or name another one", to)
	case replicas[j].CutOff:
		return refusal.New(refusal.Precondition, "replica %q does not reach the console, so that it can't publish what it fetches. Name another one", to)
	}
	holders, err := s.deps.Holders(ctx, []string{owner.LeaseKey(sources[i].UID)})
	if err != nil {
		return refusal.New(refusal.Unavailable, "who owns source %q can't be told: %v", name, err)
	}
	if holders[0] == s.deps.Replica {
		return s.move(ctx, sources[i], to)
	}
	at, ok := s.deps.Peers.Member(holders[0])
	if !ok || forwarded {
		return refusal.New(refusal.Unavailable, "nobody owns source %q right now. Try again in a moment", name)
	}
	return s.deps.Peers.MoveSource(ctx, at, name, to)
}

func (s *Shards) move(ctx context.Context, source Source, to string) error {
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	err := s.deps.Move(ctx, source.UID, to)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, handoff.ErrCold):
		return refusal.New(refusal.Unavailable, "replica %q has no copy of source %q yet. It is being made: try again later", to, source.Name)
	default:
		return refusal.New(refusal.Unavailable, "source %q can't be moved to %q now: %v. Try again", source.Name, to, err)
	}
}
