package rpc

import (
	"net/http"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/shares"
)

// callsPerCluster of one procedure are under way at once, and watchesPerCluster streams: a cluster has two agents at
// most, each of which makes one call of a procedure at a time, and again after one that it gave up.
const callsPerCluster, watchesPerCluster = 4, 32

// front takes a call's part of its cluster's share before a byte of the call's body is read, or refuses the call, also
// where the line is full: a body takes memory from the first byte, and several times its size until it is decoded.
type front struct {
	next   http.Handler
	errors *connect.ErrorWriter
	bounds map[string]bound // by procedure; all of the service
}

// bound is that of one procedure.
type bound struct {
	shares *shares.Shares // of clusters, in calls
	away   func()         // counts the calls that are turned away
	pause  func(cluster string) time.Duration
	full   func() bool // nobody is let in; nil: never
}

// forAll is a pause that is of no cluster's own.
func forAll(pause func() time.Duration) func(string) time.Duration {
	return func(string) time.Duration { return pause() }
}

// Front goes before the handler of DeliveryService.
func (d *Delivery) Front(next http.Handler) http.Handler {
	away := func(class string) func() { return d.deps.Metrics.Away.WithLabelValues(class).Inc }
	return &front{next, connect.NewErrorWriter(), map[string]bound{
		deliveryv1connect.DeliveryServiceSyncProcedure:   {shares.New(callsPerCluster), away("sync"), forAll(d.syncs.pause), nil},
		deliveryv1connect.DeliveryServiceReportProcedure: {shares.New(callsPerCluster), away("report"), d.deps.Reports.PutOff, d.deps.Reports.Full},
		deliveryv1connect.DeliveryServiceWatchProcedure:  {shares.New(watchesPerCluster), away("watch"), forAll(d.opens.pause), nil},
	}}
}

// Front goes before the handler of DetailService.
func (d *Details) Front(next http.Handler) http.Handler {
	return &front{next, connect.NewErrorWriter(), map[string]bound{
		deliveryv1connect.DetailServiceReportDetailsProcedure: {shares.New(callsPerCluster), d.away, forAll(d.turns.pause), nil},
	}}
}

// Front goes before the handler of ViewService.
func (v *Views) Front(next http.Handler) http.Handler {
	return &front{next, connect.NewErrorWriter(), map[string]bound{
		deliveryv1connect.ViewServicePushViewProcedure: {shares.New(callsPerCluster), v.away, forAll(v.views.Pause), nil},
	}}
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, ok := identity.Admitted(r.Context())
	if !ok || id.Kind != identity.KindAgent {
		_ = f.errors.Write(w, r, errNoAgent) // fails if the caller is gone
		return
	}
	b := f.bounds[r.URL.Path]
	if b.full != nil && b.full() || !b.shares.Take(id.Name, 1) {
		b.away()
		_ = f.errors.Write(w, r, errTooMany(b.pause(id.Name))) // fails if the caller is gone
		return
	}
	defer b.shares.Give(id.Name, 1)
	f.next.ServeHTTP(w, r)
}
