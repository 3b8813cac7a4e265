package status

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/owner"
)

const (
	// askTime is how long another replica has to answer for what it owns.
	askTime = 2 * time.Second
	// fresh is how old what others said may be: however many ask here, each replica is asked that seldom.
	fresh = 2 * time.Second
)

// Peer is another gitcache.
type Peer interface {
	Name() string
	// Sources is what it owns, and what it has a copy of: those it names as a standby of.
	Sources(ctx context.Context) ([]*Source, error)
}

// Deps of a View.
type Deps struct {
	Replica string // this one
	// Published are all sources of the catalog, in the order of their names.
	Published func() []Published
	State     func(uid string) owner.State
	// Copied tells whether this replica has a copy of all that was published of a source.
	Copied func(Published) bool
	Others func() []Peer
	// Holders names the replicas that have leases; empty: nobody.
	Holders func(ctx context.Context, keys []string) ([]string, error)
}

// View knows the state of all sources. Safe for many goroutines.
type View struct {
	deps Deps

	asking chan struct{} // one place: who has it asks the others, for all who want to know

	mu      sync.Mutex // guards what follows
	said    answers
	asked   time.Time
	sources map[string]*Source // as composed last: what did not change stays the same pointer
}

// answers of the other replicas, by the name of the source.
type answers struct {
	owned    map[string]*Source
	standbys map[string][]string
	owners   map[string]string // of sources that no replica said it owns
	silent   []string
}

// NewView asks nobody yet.
func NewView(deps Deps) *View { return &View{deps: deps, asking: make(chan struct{}, 1)} }

// List answers a query over all sources.
func (v *View) List(ctx context.Context, q Query) (List, error) {
	if _, err := q.page(nil); err != nil {
		return List{}, err // before anybody is asked
	}
	all, silent, err := v.all(ctx)
	if err != nil {
		return List{}, err
	}
	out, err := q.page(all)
	out.Silent = silent
	return out, err
}

// Mine answers a query over what this replica owns or has a copy of.
func (v *View) Mine(q Query) (List, error) {
	var mine []*Source
	for _, p := range v.deps.Published() {
		if s := v.own(p); s.OwnedHere || len(s.Standbys) > 0 {
			mine = append(mine, s)
		}
	}
	return q.page(mine)
}

// Source tells all of one source; false: it is not in the catalog.
func (v *View) Source(ctx context.Context, name string) (*Source, bool, error) {
	all, _, err := v.all(ctx)
	i, ok := slices.BinarySearchFunc(all, name, func(s *Source, name string) int { return strings.Compare(s.Name, name) })
	if err != nil || !ok {
		return nil, false, err
	}
	return all[i], true, nil
}

// own is what this replica knows by itself.
func (v *View) own(p Published) *Source {
	s := &Source{UID: p.UID, Name: p.Name, URL: p.URL, Heads: p.Heads, Problem: p.Problem}
	state := v.deps.State(p.UID)
	switch {
	case state.Owned:
		s.Owner, s.OwnedHere, s.Epoch = v.deps.Replica, true, state.Epoch
		s.LastPoll, s.NextPoll, s.StaleSince = state.LastPoll, state.NextPoll, state.StaleSince
		s.UpstreamRequests, s.MirrorBytes, s.MirrorPacks = state.UpstreamRequests, state.MirrorBytes, state.MirrorPacks
		s.Heads, s.Problem = state.Heads, state.Problem
	case v.deps.Copied(p):
		s.Standbys = []string{v.deps.Replica}
	}
	return s
}

// all composes what everybody knows, in the order of names.
func (v *View) all(ctx context.Context) ([]*Source, []string, error) {
	said, err := v.ask(ctx)
	if err != nil {
		return nil, nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	published := v.deps.Published()
	sources, list := make(map[string]*Source, len(published)), make([]*Source, 0, len(published))
	for _, p := range published {
		s := v.compose(p, said)
		if old, ok := v.sources[p.UID]; ok && old.equal(s) {
			s = old
		}
		sources[p.UID] = s
		list = append(list, s)
	}
	v.sources = sources
	return list, said.silent, nil
}

func (v *View) compose(p Published, said answers) *Source {
	s := v.own(p)
	standbys := slices.Concat(s.Standbys, said.standbys[p.Name])
	if theirs := said.owned[p.Name]; theirs != nil && (!s.OwnedHere || theirs.Epoch > s.Epoch) {
		// With two that believe to be the owner, the one that claimed later is.
		copied := *theirs
		s = &copied
		s.UID, s.Name, s.URL, s.OwnedHere = p.UID, p.Name, p.URL, false
	}
	if s.Owner == "" {
		s.Owner = said.owners[p.Name]
	}
	slices.Sort(standbys)
	s.Standbys = slices.DeleteFunc(slices.Compact(standbys), func(name string) bool { return name == s.Owner })
	return s
}

// ask is what the others say, at most fresh old. One asks, for all.
func (v *View) ask(ctx context.Context) (answers, error) {
	others := v.deps.Others()
	if len(others) == 0 {
		return answers{}, ctx.Err()
	}
	if said, ok := v.remembered(); ok {
		return said, nil
	}
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return answers{}, ctx.Err()
	}
	if said, ok := v.remembered(); ok {
		return said, nil
	}
	// The answers are for the others that wait, too: a caller that leaves does not cut them off.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	said := gather(ctx, others)
	v.lookUp(ctx, &said)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said, v.asked = said, time.Now()
	return said, nil
}

func (v *View) remembered() (answers, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.said, time.Since(v.asked) < fresh
}

// gather asks all others at once.
func gather(ctx context.Context, others []Peer) answers {
	said := answers{owned: map[string]*Source{}, standbys: map[string][]string{}, owners: map[string]string{}}
	var mu sync.Mutex // guards said
	var asking sync.WaitGroup
	for _, r := range others {
		asking.Go(func() {
			sources, err := r.Sources(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				said.silent = append(said.silent, r.Name())
				return
			}
			for _, s := range sources {
				if old := said.owned[s.Name]; s.OwnedHere && (old == nil || s.Epoch > old.Epoch) {
					said.owned[s.Name] = s
				}
				said.standbys[s.Name] = append(said.standbys[s.Name], s.Standbys...)
			}
		})
	}
	asking.Wait()
	slices.Sort(said.silent)
	return said
}

// lookUp finds the owners of what nobody said to own: they are silent, or not known here yet.
func (v *View) lookUp(ctx context.Context, said *answers) {
	var keys, names []string
	for _, p := range v.deps.Published() {
		if said.owned[p.Name] == nil && !v.deps.State(p.UID).Owned {
			keys, names = append(keys, owner.LeaseKey(p.UID)), append(names, p.Name)
		}
	}
	if len(keys) == 0 {
		return
	}
	// The time of those who answered is over if somebody did not: the leases have one of their own.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	holders, err := v.deps.Holders(ctx, keys)
	if err != nil {
		return // with coordination down the owner is not known; the rest is
	}
	for i, name := range names {
		said.owners[name] = holders[i]
	}
}
