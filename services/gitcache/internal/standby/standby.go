package standby

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/mirror"
)

const (
	// copiers at work at once, and as many for sources that are owned: each holds a pack's index in memory.
	copiers = 3
	// ranks that have a source on their disks: the one that should own it, and one more.
	ranks = 2
	// passEvery bounds how often the catalog is looked through, however often it changes.
	passEvery = time.Second
	// pinEvery bounds how often it is worked out which artifacts are current.
	pinEvery = 10 * time.Second
	// checkEvery is how often a copy is compared with its original though nothing was published: packs
	// were joined, artifacts were built.
	checkEvery = 10 * time.Minute
	// confirmAfter news the copy is looked at again: artifacts of a new head are built when somebody
	// asks, and the owner is to know that there is a copy.
	confirmAfter = 20 * time.Second
	// keepFor is how long a copy stays that is not wanted here any more: replicas come back.
	keepFor = time.Hour
	// hurryFor is how long a source is copied because its owner said so, whoever is preferred.
	hurryFor = 5 * time.Minute
	// Retries: full jitter below a bound that doubles from first to most.
	firstBackoff = time.Second
	mostBackoff  = 2 * time.Minute
)

// Placement says which replica should have what.
type Placement interface {
	// Place is where this replica stands among those that may own a source, from 0; negative: nowhere.
	Place(uid string) int
	// Single: no other replica lives, so there is nobody to copy from.
	Single() bool
}

// Owner owns sources.
type Owner interface {
	Owns(uid string) bool
	// Borrow lends the mirror of a source that is not owned here.
	Borrow(ctx context.Context, uid string) (copying context.Context, back func(), ok bool)
}

// Deps of a Standby.
type Deps struct {
	Placement Placement
	Peers     Peers
	Owner     func() Owner // asked when it runs
	Catalog   Catalog
	Mirrors   *mirror.Mirrors
	Builder   *build.Builder
	Store     *artifact.Store
	Metrics   *Metrics
	Tracer    trace.Tracer
	Log       *slog.Logger
}

// Standby keeps the copies that belong on this replica.
type Standby struct {
	deps   Deps
	copier *copier
	wake   chan struct{} // one place
	done   chan result

	warmers chan struct{} // slots
	pin     func(context.Context, []build.Place)
	pinned  chan struct{} // pin has returned

	mu     sync.Mutex // guards copies; what is in there is of Run's goroutine, but for hurried and complete
	copies map[string]*standing
}

// standing is how this replica stands to a source.
type standing struct {
	uid, name string
	owned     bool
	wanted    bool
	hurried   time.Time // until then it is wanted because its owner says so
	complete  bool      // the copy was complete when it was looked at last

	published string // heads that were published when it was looked at last
	due       time.Time
	failures  int
	running   bool
}

type result struct {
	uid     string
	outcome outcome
	err     error
}

// New makes the keeper of a replica's copies.
func New(replica string, deps Deps) *Standby {
	return &Standby{
		deps: deps, wake: make(chan struct{}, 1), done: make(chan result),
		warmers: make(chan struct{}, copiers), pin: deps.Builder.Pin, pinned: make(chan struct{}), copies: map[string]*standing{},
		copier: &copier{
			replica: replica, catalog: deps.Catalog, peers: deps.Peers, mirrors: deps.Mirrors,
			builder: deps.Builder, store: deps.Store, tracer: deps.Tracer, metrics: deps.Metrics,
		},
	}
}

// Run keeps copies until ctx ends. Run returns after all work did.
func (s *Standby) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := time.NewTimer(0)
	defer next.Stop()
	look, pin := &chore{every: passEvery, due: true}, &chore{every: pinEvery, due: true}
	pinning := false
	for {
		if now := time.Now(); look.beginChore(now) {
			s.passCatalog(now)
		}
		if !pinning && pin.beginChore(time.Now()) {
			pinning = true
			places := s.listPlaces()
			running.Go(func() {
				s.pin(ctx, places) // a look at one place can take half a minute
				select {
				case s.pinned <- struct{}{}:
				case <-ctx.Done():
				}
			})
		}
		s.beginDue(ctx, &running)
		if pinning {
			next.Reset(s.untilDue(look))
		} else {
			next.Reset(s.untilDue(look, pin))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.deps.Catalog.Changed():
			look.due, pin.due = true, true
		case <-s.wake:
			look.due, pin.due = true, true
		case r := <-s.done:
			s.settleLook(ctx, r)
		case <-s.pinned:
			pinning = false
		case <-next.C:
		}
	}
}

// chore is done when something changed, but not too often; and now and then in any case.
type chore struct {
	every time.Duration
	due   bool
	last  time.Time
}

func (c *chore) nextTime() time.Time {
	if c.due {
		return c.last.Add(c.every)
	}
	return c.last.Add(checkEvery)
}

func (c *chore) beginChore(now time.Time) bool {
	if now.Before(c.nextTime()) {
		return false
	}
	c.due, c.last = false, now
	return true
}

// Reconsider looks again at what belongs here: replicas came or went, or a source changed hands.
func (s *Standby) Reconsider() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Hurry copies a source now: its owner wants to hand it over.
func (s *Standby) Hurry(uid string) {
	s.mu.Lock()
	name, known := s.deps.Catalog.Names()[uid]
	c, ok := s.copies[uid]
	if !ok && known {
		c = &standing{uid: uid, name: name}
		s.copies[uid] = c
	}
	if c != nil {
		c.hurried, c.wanted = time.Now().Add(hurryFor), true
		if !c.running {
			c.due, c.failures = time.Now(), 0
		}
	}
	s.mu.Unlock()
	s.Reconsider()
}

// Has tells whether the commits of all these heads of a source are here, and no copy is being made.
func (s *Standby) Has(uid string, heads []mirror.Head) bool {
	s.mu.Lock()
	c, ok := s.copies[uid]
	copying := ok && c.running
	s.mu.Unlock()
	if copying || len(heads) == 0 {
		return !copying
	}
	m, ok := s.deps.Mirrors.Lookup(uid)
	return ok && !m.Doubted() && hasAll(m, heads)
}

// Warm brings what other replicas have of a source that this replica owns, if something published is
// missing here, and tells whether anything came. Warm ends with its context.
func (s *Standby) Warm(ctx context.Context, uid, name string) (news bool) {
	if s.deps.Placement.Single() || !s.copier.lacksPublished(uid, name) {
		return false
	}
	select {
	case s.warmers <- struct{}{}:
		defer func() { <-s.warmers }()
	case <-ctx.Done():
		return false
	}
	o, err := s.copier.copySource(ctx, uid, name, merge)
	switch {
	case o.news:
		s.deps.Log.InfoContext(ctx, "copied from another replica before asking upstream", "source", name)
	case err != nil && ctx.Err() == nil:
		s.deps.Log.InfoContext(ctx, "no other replica has what is missing here; upstream is asked", "source", name, "err", err)
	}
	return o.news
}

// Keeps tells whether a source belongs on this replica's disk.
func (s *Standby) Keeps(uid string) bool {
	place := s.deps.Placement.Place(uid)
	return place >= 0 && place < ranks
}

// Count tells of how many sources that others own there is a copy of all that was published, because it
// belongs here.
func (s *Standby) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.copies {
		if c.complete && c.wanted {
			n++
		}
	}
	return n
}

// passCatalog looks through the catalog for what belongs here.
func (s *Standby) passCatalog(now time.Time) {
	names, single, owner := s.deps.Catalog.Names(), s.deps.Placement.Single(), s.deps.Owner()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.copies, func(uid string, c *standing) bool { return names[uid] == "" && !c.running })
	for uid, name := range names {
		c, ok := s.copies[uid]
		if !ok {
			c = &standing{uid: uid}
			s.copies[uid] = c
		}
		before := c.wanted
		c.name, c.owned = name, owner.Owns(uid)
		c.wanted = !c.owned && !single && (s.Keeps(uid) || now.Before(c.hurried))
		if c.wanted != before && !c.running {
			c.due, c.failures = time.Time{}, 0
		}
		s.planSource(c, now)
	}
}

// listPlaces are the current ones of all sources that belong here.
func (s *Standby) listPlaces() (places []build.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.copies {
		if c.owned || c.wanted {
			places = append(places, s.deps.Catalog.Places(c.name)...)
		}
	}
	return places
}

// planSource says when a source is to be looked at.
func (s *Standby) planSource(c *standing, now time.Time) {
	switch {
	case c.owned:
		c.due, c.complete = time.Time{}, false
	case c.wanted:
		published := fingerprintOf(s.deps.Catalog.Heads(c.name))
		if c.due.IsZero() || published != c.published && c.failures == 0 && c.due.After(now.Add(passEvery)) {
			c.due = now.Add(retry.Between(0, passEvery))
		}
		c.published = published
	case c.due.IsZero():
		c.due = now.Add(retry.Between(keepFor, keepFor*5/4))
	}
}

func fingerprintOf(heads []mirror.Head) string {
	var b strings.Builder
	for _, h := range heads {
		b.WriteString(h.Ref + " " + h.Commit.String() + "\n")
	}
	return b.String()
}

// beginDue starts what is due.
func (s *Standby) beginDue(ctx context.Context, running *sync.WaitGroup) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*standing
	busy := 0
	for _, c := range s.copies {
		switch {
		case c.running:
			busy++
		case !c.owned && !c.due.IsZero() && !c.due.After(now):
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(a, b *standing) int { return a.due.Compare(b.due) })
	for _, c := range due[:min(len(due), max(copiers-busy, 0))] {
		c.running = true
		uid, name, wanted := c.uid, c.name, c.wanted
		running.Go(func() {
			r := result{uid: uid}
			if wanted {
				r.outcome, r.err = s.copySource(ctx, uid, name)
			} else {
				r.err = s.dismissCopy(ctx, uid, name)
			}
			select {
			case s.done <- r:
			case <-ctx.Done():
			}
		})
	}
}

// untilDue is how long nothing is to do.
func (s *Standby) untilDue(chores ...*chore) time.Duration {
	next := chores[0].nextTime()
	for _, c := range chores {
		next = earlierOf(next, c.nextTime())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := 0
	for _, c := range s.copies {
		if c.running {
			busy++
		}
	}
	for _, c := range s.copies {
		if busy < copiers && !c.running && !c.owned && !c.due.IsZero() {
			next = earlierOf(next, c.due)
		}
	}
	return max(time.Until(next), 0)
}

func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// errOwned: the mirror belongs to the owner's loop.
var errOwned = errors.New("this replica owns it by now")

func (s *Standby) copySource(ctx context.Context, uid, name string) (outcome, error) {
	ctx, back, ok := s.deps.Owner().Borrow(ctx, uid)
	if !ok {
		return outcome{}, errOwned
	}
	defer back()
	return s.copier.copySource(ctx, uid, name, follow)
}

// settleLook takes in what came of a look.
func (s *Standby) settleLook(ctx context.Context, r result) {
	s.mu.Lock()
	c, ok := s.copies[r.uid]
	if !ok {
		s.mu.Unlock()
		return
	}
	c.running = false
	before := c.complete
	nothingYet := errors.Is(r.err, ErrNothing) && c.published == ""
	switch {
	case r.err == nil, nothingYet, errors.Is(r.err, errNobody):
		c.failures = 0
		pause := checkEvery
		if r.outcome.news {
			pause = confirmAfter
		}
		c.due = time.Now().Add(retry.Around(pause))
	default:
		c.failures++
		c.due = time.Now().Add(retry.Pause(c.failures, firstBackoff, mostBackoff))
	}
	if !c.wanted {
		c.due = time.Time{} // the next pass says when to look whether it can go
	}
	name, failures, wanted := c.name, c.failures, c.wanted
	s.mu.Unlock()

	complete := wanted && !s.copier.lacksPublished(r.uid, name)
	s.mu.Lock()
	c.complete = complete
	s.mu.Unlock()
	switch {
	case complete && !before:
		s.deps.Log.InfoContext(ctx, "copy is complete", "source", name)
	case failures == 1 && !errors.Is(r.err, errOwned) && !errors.Is(r.err, ErrNothing):
		s.deps.Log.WarnContext(ctx, "copy is not done; it is tried again", "source", name, "err", r.err)
	}
}

// dismissCopy removes a copy that does not belong here any more, when the owner and one other replica have
// all of it.
func (s *Standby) dismissCopy(ctx context.Context, uid, name string) error {
	if _, ok := s.deps.Mirrors.Lookup(uid); !ok {
		return nil
	}
	ctx, back, ok := s.deps.Owner().Borrow(ctx, uid)
	if !ok {
		return errOwned
	}
	defer back()
	enough, err := s.copier.isElsewhere(ctx, uid, name)
	switch {
	case ctx.Err() != nil: // called back: the mirror is wanted here
		return errOwned
	case err != nil || !enough:
		return err
	}
	if err := s.deps.Mirrors.Remove(uid); err != nil {
		return err
	}
	s.deps.Log.InfoContext(ctx, "removed a copy that others have", "source", name)
	return nil
}
