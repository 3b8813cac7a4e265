package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// standing are the requests of users that last: watches, logs -f, exec, attach, port-forward, and what changes
// something. Such requests end when the right to them does, within seconds: a grant was taken away, changed, or is
// over.
type standing struct {
	mu      sync.Mutex // guards what follows, and the fields of each lasting
	running map[*lasting]struct{}
}

// lastWords is what a watch has to end between two events before it is cut.
const lastWords = time.Second

// lasting is one of them.
type lasting struct {
	x      *exchange
	cancel context.CancelCauseFunc
	gentle func()      // ends it where its reader sees a whole answer; nil: there is no such place
	cut    *time.Timer // nil: it has not been told to end
	why    error       // nil as long as it may go on
}

// standWhileAllowed has a request end when the right to it does. Call stop before the request ends.
func (h *Handler) standWhileAllowed(ctx context.Context, x *exchange) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &lasting{x: x, cancel: cancel}
	x.lasting = l
	h.standing.mu.Lock()
	h.standing.running[l] = struct{}{}
	h.standing.mu.Unlock()
	return ctx, func() {
		h.standing.mu.Lock()
		delete(h.standing.running, l)
		if l.cut != nil {
			l.cut.Stop()
		}
		h.standing.mu.Unlock()
		cancel(nil)
	}
}

// beforeEnd has f called before the request is cut. f must not wait. Call stop before the request ends.
func (x *exchange) beforeEnd(f func()) (stop func()) {
	if x.lasting == nil {
		return func() {}
	}
	set := func(f func()) {
		x.handler.standing.mu.Lock()
		defer x.handler.standing.mu.Unlock()
		if x.lasting.gentle = f; f != nil && x.lasting.why != nil {
			f()
		}
	}
	set(f)
	return func() { set(nil) }
}

// endedError is why the right to a request ended while it ran, or nil.
func (x *exchange) endedError() error {
	if x.lasting == nil {
		return nil
	}
	x.handler.standing.mu.Lock()
	defer x.handler.standing.mu.Unlock()
	return x.lasting.why
}

// Judge ends the requests that last and that the catalog does not allow any more. Judge returns when to judge again at
// the latest, because a grant ends then; zero: when the catalog changes.
func (h *Handler) Judge() (again time.Time) {
	if h.Catalog.Ready() != nil {
		return time.Time{}
	}
	rules := h.currentRules()
	for _, r := range h.standing.listJudged() { // without the lock: requests begin and end meanwhile, and later ones are judged by these rules or newer ones
		cluster, ok := h.Catalog.Cluster(r.lasting.x.cluster)
		if !ok {
			continue // its sessions are cut
		}
		// The groups that are lent are judged by themselves: what ran by them at the cluster ends with them.
		has := rules.LentGroups(r.lasting.x.user, cluster)
		why := rules.AtCluster(r.lasting.x.user, r.lasting.x.class, cluster).Reason
		if why == "" && slices.ContainsFunc(r.lent, func(g string) bool { return !slices.Contains(has, g) }) {
			why = fmt.Sprintf("cluster %q: the access that was lent ended", r.lasting.x.cluster)
		}
		if why != "" {
			h.standing.endRequest(r.lasting, errors.New(why))
		}
	}
	return rules.NextEnd()
}

// judged is a request that lasts, and the groups that were lent to its caller.
type judged struct {
	lasting *lasting
	lent    []string
}

// listJudged are the requests that last and may go on.
func (s *standing) listJudged() (out []judged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.running {
		if l.why == nil {
			out = append(out, judged{l, l.x.lent})
		}
	}
	return out
}

// endRequest ends a request, unless it is over or has been told so.
func (s *standing) endRequest(l *lasting, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, runs := s.running[l]; runs && l.why == nil {
		l.endRequest(why)
	}
}

// endRequest is called with the lock held.
func (l *lasting) endRequest(why error) {
	l.why = why
	if l.gentle == nil {
		l.cancel(why)
		return
	}
	l.gentle()
	l.cut = time.AfterFunc(lastWords, func() { l.cancel(why) })
}
