// Package lead sees to it that of several agents of one cluster one works, and the others stand by.
//
// The agent that works holds a Lease in the agent's namespace. The holder renews it every few seconds, and stops before
// anybody else may take it; an agent that stands by looks at it, and takes it once it is free or has not changed for
// its time. Only changes are compared, on one's own clock: the clocks of two machines need not agree.
package lead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"fairlead.dev/platform/retry"
)

const (
	// Name of the Lease.
	Name = "agent"
	// LastAnnotation names who led last and knew what is wanted, also after it let go.
	LastAnnotation = "fairlead.dev/last-leader"
	// RevisionAnnotation is the change of the hub's catalog that it had heard of.
	RevisionAnnotation = "fairlead.dev/last-revision"

	// term is how long a Lease lasts that is not renewed.
	term = 15 * time.Second
	// patience is after what time without a renewal the leader stops: before the term is over for anybody.
	patience = 10 * time.Second
	// renewal, and a second try sooner; look is between two looks of who stands by.
	renewal, again, look = 5 * time.Second, time.Second, 2 * time.Second
	callTimeout          = 4 * time.Second
	// mostReleases bounds the tries to let go while renewals of before arrive.
	mostReleases = 3
)

// ErrLost says that another agent may lead now.
var ErrLost = errors.New("this agent could not renew its Lease, and another one may work now")

// Elector is one agent's part in who leads. An Elector is safe for concurrent use; Win and Hold are for one goroutine,
// Know may run beside Hold.
type Elector struct {
	// Revision is the change of the hub's catalog that this agent has heard of, which the Lease keeps for the next
	// leader; 0: none. nil: it is not kept. Set it before the Elector is used.
	Revision func() int64

	leases dynamic.ResourceInterface
	id     string
	log    *slog.Logger
	// seen is the version of the Lease when it was last seen to change, at since.
	seen  string
	since time.Time

	mu sync.Mutex // guards what follows
	// until is when writes have to stop; zero before the first win.
	until time.Time
	// knows: nobody knows better than this agent what is wanted.
	knows bool
	// revision is what the leader before this one had heard of the catalog; 0: unknown.
	revision int64
}

// New returns an elector over the Leases of a namespace. The id is the same after a restart, and nobody else's.
func New(leases dynamic.ResourceInterface, id string, log *slog.Logger) *Elector {
	return &Elector{leases: leases, id: id, log: log}
}

// Leads tells that this agent works.
func (e *Elector) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.until)
}

// Win waits until this agent leads. again: it is the last one that led and called Know, so that what it knows is the
// latest. The error is that of ctx.
func (e *Elector) Win(ctx context.Context) (again bool, err error) {
	for told := ""; ; {
		lease, err := e.get(ctx)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			e.log.Warn("the Lease can't be read; this agent stands by", "err", err)
		case e.free(lease):
			again = lease != nil && lease.GetAnnotations()[LastAnnotation] == e.id
			e.know(again)
			e.heard(lease)
			// Not broken off: who is told to stop meanwhile has to know that it is to let go.
			sent, err := e.take(context.WithoutCancel(ctx), lease)
			if err == nil {
				e.extend(sent)
				return again, nil
			}
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				e.log.Warn("the Lease can't be taken; this agent stands by", "err", err)
			}
		case lease != nil && holder(lease) != told:
			told = holder(lease)
			e.log.Info("another agent works; this one stands by", "leader", told)
		}
		if !retry.Sleep(ctx, look) {
			return false, ctx.Err()
		}
	}
}

// heard takes over what the last leader had heard of.
func (e *Elector) heard(lease *unstructured.Unstructured) {
	var revision int64
	if lease != nil {
		revision, _ = strconv.ParseInt(lease.GetAnnotations()[RevisionAnnotation], 10, 64) // 0: an earlier release led
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revision = max(revision, 0)
}

// Heard is the change of the hub's catalog that the last leader had heard of when this agent won; 0: unknown.
func (e *Elector) Heard() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.revision
}

// Know notes in the Lease that what this agent knows is the latest from now on. The agent has to do so before it works
// by it, and not sooner: Win believes it. ErrLost: another agent leads.
func (e *Elector) Know(ctx context.Context) error {
	e.know(true)
	for {
		mine, _, err := e.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && mine:
			return nil
		case err == nil:
			return ErrLost
		}
		if !retry.Sleep(ctx, again) {
			return ctx.Err()
		}
	}
}

func (e *Elector) know(knows bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.knows = knows
}

// free tells whether nobody holds the Lease any more. A Lease that was deleted may be held: its agent makes it anew.
func (e *Elector) free(lease *unstructured.Unstructured) bool {
	switch {
	case lease == nil:
		return e.seen == "" || time.Since(e.since) > term
	case holder(lease) == "" || holder(lease) == e.id:
		return true
	}
	if version := lease.GetResourceVersion(); version != e.seen {
		e.seen, e.since = version, time.Now()
	}
	return time.Since(e.since) > term
}

// Hold renews the Lease until ctx ends. ErrLost: nothing may be written any more.
func (e *Elector) Hold(ctx context.Context) error {
	for wait := e.untilRenewal(); ; {
		if !retry.Sleep(ctx, wait) {
			return nil
		}
		mine, sent, err := e.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // told to stop
		case err == nil && mine:
			e.extend(sent)
			wait = e.untilRenewal()
			continue
		case err == nil:
			e.end()
			return ErrLost
		}
		e.log.Warn("the Lease can't be renewed", "err", err)
		if !e.Leads() {
			return ErrLost
		}
		wait = again
	}
}

func (e *Elector) renew(ctx context.Context) (mine bool, sent time.Time, err error) {
	lease, err := e.get(ctx)
	if err != nil {
		return false, sent, err
	}
	if lease != nil && holder(lease) != e.id {
		return false, sent, nil
	}
	sent, err = e.take(ctx, lease)
	return true, sent, err
}

// Release lets go of the Lease, so that another takes it at its next look. The agent's work has ended by then.
func (e *Elector) Release(ctx context.Context) {
	e.end()
	for tries := 1; ; tries++ {
		err := e.release(ctx)
		if apierrors.IsConflict(err) && tries < mostReleases {
			continue
		}
		if err != nil {
			e.log.Warn("the Lease can't be let go of; it lasts for its time", "err", err)
		}
		return
	}
}

func (e *Elector) release(ctx context.Context) error {
	lease, err := e.get(ctx)
	if err != nil || lease == nil || holder(lease) != e.id {
		return err
	}
	unstructured.RemoveNestedField(lease.Object, "spec", "holderIdentity")
	return e.update(ctx, lease)
}

func (e *Elector) extend(from time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = from.Add(patience)
}

// untilRenewal is how long to wait for the next one: what a slow answer took is part of it.
func (e *Elector) untilRenewal() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Until(e.until) - (patience - renewal)
}

// end stops writes at once.
func (e *Elector) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = time.Now()
}

// get reads the Lease; nil: there is none.
func (e *Elector) get(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := e.leases.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// take makes the Lease this agent's, or its for longer, and says since when: nobody sees the change before it is sent.
// A write by another agent or person in between is a conflict.
func (e *Elector) take(ctx context.Context, lease *unstructured.Unstructured) (sent time.Time, err error) {
	now := time.Now().UTC().Format(metav1.RFC3339Micro)
	spec := map[string]any{
		"holderIdentity": e.id, "leaseDurationSeconds": int64(term / time.Second), "renewTime": now, "acquireTime": now, "leaseTransitions": int64(0),
	}
	if lease == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		made := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": Name}, "spec": spec,
		}}
		e.note(made)
		sent = time.Now()
		_, err := e.leases.Create(ctx, made, metav1.CreateOptions{})
		return sent, err
	}
	before, _, _ := unstructured.NestedMap(lease.Object, "spec")
	transitions, _ := before["leaseTransitions"].(int64)
	if before["holderIdentity"] == e.id {
		spec["acquireTime"] = before["acquireTime"]
	} else {
		transitions++
	}
	spec["leaseTransitions"] = transitions
	lease.Object["spec"] = spec
	e.note(lease)
	sent = time.Now()
	return sent, e.update(ctx, lease)
}

// note names this agent in the Lease, if it knows what is wanted.
func (e *Elector) note(lease *unstructured.Unstructured) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.knows {
		return
	}
	annotations := lease.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[LastAnnotation] = e.id
	delete(annotations, RevisionAnnotation)
	if e.Revision != nil {
		if revision := e.Revision(); revision > 0 {
			annotations[RevisionAnnotation] = strconv.FormatInt(revision, 10)
		}
	}
	lease.SetAnnotations(annotations)
}

func (e *Elector) update(ctx context.Context, lease *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := e.leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func holder(lease *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return name
}

// Fence lets no write pass once the Lease is over, also in a process that was stopped for a while and goes on.
func (e *Elector) Fence(next http.RoundTripper) http.RoundTripper { return fence{e, next} }

type fence struct {
	elector *Elector
	next    http.RoundTripper
}

func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && f.elector.over() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrLost)
	}
	return f.next.RoundTrip(r)
}

// WrappedRoundTripper is what client-go looks through.
func (f fence) WrappedRoundTripper() http.RoundTripper { return f.next }

// over tells that this agent led, and does no more.
func (e *Elector) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.until.IsZero() && !time.Now().Before(e.until)
}
