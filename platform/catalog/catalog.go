package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

const (
	// silenceLimit is three heartbeats: a stream that is quiet for longer is dead, whatever the
	// connection says, and a copy that heard nothing for longer is stale.
	silenceLimit = 45 * time.Second
	// Redials wait a random part of a time that doubles from first to last. Few ask, and what was pushed waits for it.
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// saveDelay gathers the changes of a burst into one write.
	saveDelay = time.Second
)

// ErrNotReady: no complete catalog was seen yet.
var ErrNotReady = errors.New("the catalog is not loaded yet: the console has not answered and there is no snapshot on disk")

// Catalog is the copy. A Catalog is safe for concurrent use. Resources that it returns are shared by everybody: never
// change them.
type Catalog struct {
	client consolev1connect.CatalogServiceClient
	kinds  []consolev1.Kind // the followed kinds, in order; none: all
	file   string
	log    *slog.Logger
	// timing is fixed but in tests.
	timing timing
	dirty  chan struct{} // capacity 1: the disk is behind
	disk   disk

	// mu guards everything below.
	mu        sync.RWMutex
	ready     bool
	live      *state
	staging   *state // of a snapshot that is coming in; nil outside of one
	token     string // where to resume
	revision  int64  // of live; 0: unknown
	heard     time.Time
	confirmed time.Time // when the console last said that there is nothing newer; zero: not since Open
	removals  Removals
	unsaved   unsaved
	subs      map[*Subscription]struct{}
}

type timing struct{ silence, firstBackoff, lastBackoff, saveDelay time.Duration }

// Open loads the snapshot in dir, creating the folder if need be. A snapshot that is bad is put aside, or stays where
// the disk takes nothing, and the catalog begins empty and not ready. Open dials nothing: Run does. Only these kinds
// are followed (none named: all); of the others the catalog looks as if there were none.
func Open(dir string, client consolev1connect.CatalogServiceClient, log *slog.Logger, kinds ...consolev1.Kind) (*Catalog, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	c := &Catalog{
		client: client, kinds: slices.Sorted(slices.Values(kinds)), file: filepath.Join(dir, "catalog.snapshot"), log: log,
		timing: timing{silenceLimit, firstBackoff, lastBackoff, saveDelay},
		dirty:  make(chan struct{}, 1),
		live:   newState(), subs: map[*Subscription]struct{}{}, heard: time.Now(),
	}
	snap, err := load(c.file)
	switch {
	case err == nil && !slices.Equal(snap.kinds, c.kinds):
		log.Info("catalog snapshot is of other kinds, a new one is asked for", "has", snap.kinds, "wanted", c.kinds)
	case err == nil:
		c.live, c.token, c.revision, c.heard, c.ready = snap.state, snap.token, snap.revision, snap.saved, true
		if err := c.disk.reopen(c.file, snap); err != nil {
			log.Warn("catalog snapshot can't be written on: it is read, and a new one is begun with the next change", "err", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		aside := c.file + ".bad"
		log.Warn("catalog snapshot is bad and put aside: the whole catalog is asked for, and until the console answers there is none",
			"file", aside, "err", errors.Join(err, os.Rename(c.file, aside)))
	}
	return c, nil
}

// Run keeps the catalog current until ctx ends. Run survives everything but that.
func (c *Catalog) Run(ctx context.Context) error {
	saving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var saver sync.WaitGroup
	saver.Go(func() { c.saveLoop(saving) })
	defer saver.Wait()
	defer stop() // when nothing comes in any more
	failures := 0
	for {
		complete, err := c.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if complete {
			failures = 0
		}
		wait := retry.Pause(failures, c.timing.firstBackoff, c.timing.lastBackoff)
		failures++
		c.log.Info("catalog stream ended, dialing again", "err", err, "wait", wait)
		if !retry.Sleep(ctx, wait) {
			return nil
		}
	}
}

var (
	errSilent   = errors.New("the console was silent for too long")
	errProtocol = errors.New("the console broke the protocol")
)

// follow runs one stream to its end and says whether it got as far as a complete catalog.
func (c *Catalog) follow(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.timing.silence, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := c.client.Watch(ctx, &consolev1.WatchRequest{ResumeToken: c.begin(), Kinds: c.kinds})
	if err != nil {
		return false, fmt.Errorf("watch catalog: %w", streamError(ctx, err))
	}
	for stream.Receive() {
		silence.Reset(c.timing.silence)
		whole, err := c.take(stream.Msg())
		if err != nil {
			cancel(err)
			break
		}
		complete = complete || whole
	}
	err = streamError(ctx, stream.Err())
	cancel(nil)
	_ = stream.Close() // its error is the one above
	if !complete && rejected(err) {
		c.forgetToken()
	}
	return complete, fmt.Errorf("watch catalog: %w", err)
}

// streamError says why a stream ended: our own reason comes before what it looked like on the wire.
func streamError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil {
		return errors.New("the console ended the stream")
	}
	return err
}

// rejected knows answers that can be about the resume token, and that asking again does not change.
func rejected(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return true
	}
	return false
}

func (c *Catalog) forgetToken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = ""
}

// begin forgets half a snapshot of the stream before and says where to resume.
func (c *Catalog) begin() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staging = nil
	return c.token
}

// take brings one message of the stream into the catalog and says whether the catalog is complete.
func (c *Catalog) take(m *consolev1.WatchResponse) (complete bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Now()
	switch e := m.GetEvent().(type) {
	case *consolev1.WatchResponse_SnapshotBegin:
		c.staging = newState()
		c.token = "" // until the snapshot is whole there is nothing to resume
	case *consolev1.WatchResponse_Changes:
		err = c.takeChanges(e.Changes, m)
	case *consolev1.WatchResponse_SnapshotEnd:
		if c.staging == nil {
			return false, fmt.Errorf("%w: end of a snapshot that did not begin", errProtocol)
		}
		c.live, c.staging, c.ready, c.token, c.revision = c.staging, nil, true, m.GetResumeToken(), m.GetRevision()
		c.confirmed = c.heard
		c.takeRemovals(m.GetRemovals())
		c.notify(Delta{All: true})
		c.unsaved.everything()
		c.markDirty()
	case *consolev1.WatchResponse_Heartbeat:
		if c.ready && c.staging == nil {
			c.takeRemovals(m.GetRemovals())
			c.beat(m)
		}
	}
	return c.ready && c.staging == nil, err
}

// beat takes in that there is nothing newer.
func (c *Catalog) beat(m *consolev1.WatchResponse) {
	if t := m.GetResumeToken(); t != "" {
		c.token = t
	}
	first := c.confirmed.IsZero()
	c.confirmed = c.heard
	switch {
	case first:
		c.revision = m.GetRevision()
		c.notify(Delta{All: true})
	case m.GetRevision() != c.revision:
		// The change is of a kind that is not followed; that the copy is as new as this is worth knowing all the same.
		c.revision = m.GetRevision()
		for s := range c.subs {
			s.wake()
		}
	}
}

func (c *Catalog) takeChanges(in *consolev1.Changes, m *consolev1.WatchResponse) error {
	in.Changes = slices.DeleteFunc(in.GetChanges(), func(ch *consolev1.Change) bool { return !c.follows(ch) })
	if c.staging != nil {
		for _, ch := range in.GetChanges() {
			c.staging.apply(ch)
		}
		return nil
	}
	if !c.ready {
		return fmt.Errorf("%w: changes without a snapshot before them", errProtocol)
	}
	var delta Delta
	for _, ch := range in.GetChanges() {
		if kind, name, ok := c.live.apply(ch); ok {
			delta.add(kind, name)
		}
	}
	if m.GetResumeToken() != "" {
		c.token, c.revision = m.GetResumeToken(), m.GetRevision()
		c.unsaved.add(m)
	} else {
		c.unsaved.everything() // nothing to resume at
	}
	c.notify(delta)
	c.markDirty()
	return nil
}

// follows says whether a change is of a kind that is followed: a console may be older than this choice.
func (c *Catalog) follows(ch *consolev1.Change) bool {
	return len(c.kinds) == 0 || slices.Contains(c.kinds, kindOf(ch))
}

func (c *Catalog) markDirty() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// Ready is nil once a complete catalog is known, from the disk or from the console.
func (c *Catalog) Ready() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.ready {
		return ErrNotReady
	}
	return nil
}

// Current says whether the console has confirmed the copy since Open: by a whole snapshot, or by a
// heartbeat, which follows whatever there was to catch up on. The copy from the disk may be much older. When it becomes
// true, subscribers are told to read everything.
func (c *Catalog) Current() bool { return !c.Confirmed().IsZero() }

// Confirmed is when the console last said that there is nothing newer; zero: not since Open.
func (c *Catalog) Confirmed() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.confirmed
}

// Removals says whether what the catalog does not have may be removed from where it is.
type Removals struct {
	// Held: not now, for the catalog may have forgotten it.
	Held bool
	// Confirmation is another one after each time that a person let go what was held. Known: the console tells.
	Confirmation string
	Known        bool
	// Waiting are the clusters that keep services until then, while Held is not set; nil: none. The same clusters are
	// the same pointer.
	Waiting *Waiting
}

// Waiting are names of clusters. A Waiting is never changed.
type Waiting map[string]struct{}

// Has says whether a cluster is among them.
func (w *Waiting) Has(cluster string) bool {
	if w == nil {
		return false
	}
	_, has := (*w)[cluster]
	return has
}

// take returns what the console says now.
func (w *Waiting) take(clusters []string) *Waiting {
	if len(clusters) == 0 {
		return nil
	}
	is := make(Waiting, len(clusters))
	for _, name := range clusters {
		is[name] = struct{}{}
	}
	if w != nil && maps.Equal(*w, is) {
		return w
	}
	return &is
}

// Removals is what the console said last. Subscribers are woken when it changes.
func (c *Catalog) Removals() Removals {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.removals
}

// takeRemovals takes in what the console says. Of several consoles one may not know yet that removals are held: only a
// confirmation ends that.
func (c *Catalog) takeRemovals(m *consolev1.Removals) {
	is := Removals{
		Held: m.GetHeld(), Confirmation: m.GetConfirmation(), Known: m != nil, Waiting: c.removals.Waiting.take(m.GetClusters()),
	}
	if c.removals.Held && !is.Held && is.Confirmation == c.removals.Confirmation || is == c.removals {
		return
	}
	c.removals = is
	for s := range c.subs {
		s.wake()
	}
}

// Revision is the console's number of the newest change that the copy has, also of kinds that are not
// followed; 0: unknown. Asked before a subscription's Take, everything up to it was told; asked after the
// catalog was read, nothing newer was read.
func (c *Catalog) Revision() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// Stale says since when nothing was heard from the console, and whether that is so long that the copy
// may be behind.
func (c *Catalog) Stale() (since time.Time, stale bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.heard, time.Since(c.heard) > c.timing.silence
}
