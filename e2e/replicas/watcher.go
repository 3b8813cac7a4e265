package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// hopAfter is about how many messages a watcher takes before it goes to another replica of its own will.
	hopAfter = 40
	// endName is of what is written last, for watchers to know that they have seen all.
	endName = "end"
	// endCommit is the same for events.
	endCommit = "ffffffffffffffffffffffffffffffffffffffff"
)

// seen is a resource as a watcher knows it.
type seen struct {
	uid, value string
	revision   int64
}

// view is what a watcher was told.
type view struct {
	name string

	mu    sync.Mutex // guards what follows
	state map[string]seen
	gone  map[string]bool // uids
	wrong []error
	hops  int
	done  bool
}

func newView(name string) *view {
	return &view{name: name, state: map[string]seen{}, gone: map[string]bool{}}
}

func (v *view) fail(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Errorf(v.name+": "+format, args...))
}

func key(kind consolev1.Kind, name string) string { return kind.String() + " " + name }

// put takes a resource in. again: the same revision may come again, for its status.
func (v *view) put(kind consolev1.Kind, m *consolev1.Metadata, value string, again bool) {
	k := key(kind, m.GetName())
	before, known := v.state[k]
	switch {
	case v.gone[m.GetUid()]:
		v.fail("%s (%s) comes after its end", k, m.GetUid())
	case known && before.uid == m.GetUid() && (m.GetRevision() < before.revision || m.GetRevision() == before.revision && !again):
		v.fail("%s: revision %d comes behind %d", k, m.GetRevision(), before.revision)
	}
	v.state[k] = seen{uid: m.GetUid(), value: value, revision: m.GetRevision()}
	v.done = v.done || m.GetName() == endName
}

func (v *view) remove(d *consolev1.Deleted, again bool) {
	k := key(d.GetKind(), d.GetName())
	if v.gone[d.GetUid()] && !again {
		v.fail("%s (%s) ends twice", k, d.GetUid())
	}
	v.gone[d.GetUid()] = true
	if v.state[k].uid == d.GetUid() {
		delete(v.state, k)
	}
}

// ended says whether it has seen the last write.
func (v *view) ended() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.done
}

var errHop = errors.New("goes elsewhere")

// hop is true now and then.
func hop() bool { return rand.IntN(hopAfter) == 0 } //nolint:gosec // no secret

// around has a watcher go from replica to replica until ctx ends.
func around(ctx context.Context, p *Pair, v *view, follow func(context.Context, *Replica) error) {
	for i := rand.IntN(len(p.Replicas)); ctx.Err() == nil; i++ { //nolint:gosec // no secret
		_ = follow(ctx, p.Replicas[i%len(p.Replicas)]) // killed, or of its own will: both are meant to be
		v.mu.Lock()
		v.hops++
		v.mu.Unlock()
	}
}

func watched() []consolev1.Kind {
	return []consolev1.Kind{consolev1.Kind_KIND_CLUSTER, consolev1.Kind_KIND_SERVICE}
}

// followCatalog is a hub service. The console may give it a snapshot once, at its beginning.
func (v *view) followCatalog(ctx context.Context, p *Pair) {
	token, revision := "", int64(0)
	around(ctx, p, v, func(ctx context.Context, r *Replica) error {
		stream, err := r.catalog.Watch(ctx, &consolev1.WatchRequest{ResumeToken: token, Kinds: watched()})
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			m := stream.Msg()
			v.mu.Lock()
			if m.GetSnapshotBegin() != nil && token != "" {
				v.fail("a snapshot instead of what is behind %s", token)
			}
			if m.GetChanges() != nil && m.GetResumeToken() != "" {
				if m.GetRevision() <= revision {
					v.fail("changes up to %d come behind %d", m.GetRevision(), revision)
				}
			}
			for _, c := range m.GetChanges().GetChanges() {
				v.takeChange(c)
			}
			v.mu.Unlock()
			if m.GetResumeToken() != "" {
				token, revision = m.GetResumeToken(), max(revision, m.GetRevision())
				if hop() {
					return errHop
				}
			}
		}
		return stream.Err()
	})
}

func (v *view) takeChange(c *consolev1.Change) {
	switch {
	case c.GetCluster() != nil:
		v.put(consolev1.Kind_KIND_CLUSTER, c.GetCluster().GetMetadata(), c.GetCluster().GetSpec().GetDescription(), false)
	case c.GetService() != nil:
		v.put(consolev1.Kind_KIND_SERVICE, c.GetService().GetMetadata(), c.GetService().GetSpec().GetPath(), false)
	case c.GetDeleted() != nil:
		v.remove(c.GetDeleted(), false)
	}
}

// followLive is a person who looks on. Another replica may begin anew with a snapshot.
func (v *view) followLive(ctx context.Context, p *Pair) {
	token := ""
	around(ctx, p, v, func(ctx context.Context, r *Replica) error {
		stream, err := r.live.WatchResources(ctx, &consolev1.WatchResourcesRequest{ResumeToken: token, Kinds: watched()})
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			m := stream.Msg()
			v.mu.Lock()
			if m.GetSnapshotBegin() != nil {
				v.state, v.gone, token = map[string]seen{}, map[string]bool{}, ""
			}
			for _, c := range m.GetChanges().GetResources() {
				if cluster := c.GetCluster(); cluster != nil {
					v.put(consolev1.Kind_KIND_CLUSTER, cluster.GetMetadata(), cluster.GetSpec().GetDescription(), true)
				} else if s := c.GetService(); s != nil {
					v.put(consolev1.Kind_KIND_SERVICE, s.GetMetadata(), s.GetSpec().GetPath(), true)
				}
			}
			for _, d := range m.GetChanges().GetDeleted() {
				v.remove(d, true)
			}
			v.mu.Unlock()
			if m.GetResumeToken() != "" {
				token = m.GetResumeToken()
				if hop() {
					return errHop
				}
			}
		}
		return stream.Err()
	})
}

// eventView is what somebody who follows events was told, in order.
type eventView struct {
	seen   *view
	events []*consolev1.Event
}

func (v *eventView) follow(ctx context.Context, p *Pair, token string) {
	around(ctx, p, v.seen, func(ctx context.Context, r *Replica) error {
		stream, err := r.events.WatchEvents(ctx, &consolev1.WatchEventsRequest{ResumeToken: token})
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			m := stream.Msg()
			v.seen.mu.Lock()
			v.events = append(v.events, m.GetEvents()...)
			for _, e := range m.GetEvents() {
				v.seen.done = v.seen.done || e.GetCommit() == endCommit
			}
			v.seen.mu.Unlock()
			token = m.GetResumeToken()
			if hop() {
				return errHop
			}
		}
		return stream.Err()
	})
}
