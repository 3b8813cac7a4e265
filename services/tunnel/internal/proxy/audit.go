package proxy

import (
	"net"
	"net/http"
	"net/url"
	"time"

	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/telemetry"
)

// record is a request in the audit trail. A record never has queries, headers or bodies, which may hold secrets.
//
// A read that ends by itself is one event, tunnel.request, written at its end: most requests are such, and clients
// ask them in floods. All others are two, tunnel.request.begin at once and tunnel.request.end, so that what changes
// something, or lasts, is told even if this replica does not live to see its end.
type record struct {
	exchange *exchange
	event    audit.Event
	began    time.Time
	whole    bool // one event is all
}

// beginRecord records a request's begin, if that is told on its own.
func (x *exchange) beginRecord(r *http.Request) *record {
	info := x.info
	x.class = kubehttp.ClassOf(r.Method, x.plain, info)
	rec := &record{exchange: x, began: time.Now(), whole: !isLasting(r, x.query, x.class, info)}
	rec.event = audit.Event{
		Actor: audit.Of(x.caller), Cluster: x.cluster, Verb: info.Verb, Resource: resourceName(info, x.plain), Namespace: info.Namespace, Name: info.Name,
		TraceID: telemetry.TraceID(x.trace), Remote: hostOf(r.RemoteAddr), Impersonated: asActor(x.as),
	}
	return rec
}

// recordAdmitted records the begin of what is going to be asked.
func (rec *record) recordAdmitted() {
	if rec.whole {
		return
	}
	rec.exchange.requestID = audit.NewID()
	rec.event.Request = rec.exchange.requestID
	begin := rec.event
	begin.Action, begin.Time = "tunnel.request.begin", rec.began
	rec.exchange.handler.Audit.Record(begin)
}

// recordEnd records how it came out.
func (rec *record) recordEnd() {
	e := rec.event
	e.Action = "tunnel.request"
	if e.Request != "" {
		e.Action = "tunnel.request.end"
	}
	e.Time = time.Now()
	e.Duration = e.Time.Sub(rec.began)
	e.Code, e.Sent, e.Received, e.Reason = rec.exchange.code, rec.exchange.sent.n.Load(), rec.exchange.received, rec.exchange.reason
	if why := rec.exchange.endedError(); why != nil && e.Reason == "" {
		e.Reason = why.Error()
	}
	if e.Code == 0 && e.Reason == "" {
		e.Reason = "the answer broke off, or nobody waited for it"
	}
	rec.exchange.handler.Audit.Record(e)
}

// isLasting says whether a request changes something, or goes on until somebody ends it.
func isLasting(r *http.Request, query url.Values, class kubehttp.Class, info kubehttp.Info) bool {
	if muxhttp.IsUpgrade(r.Header) || info.Verb == "watch" || info.Subresource == "log" && kubehttp.IsSet(query, "follow") {
		return true
	}
	return class != kubehttp.Read && r.Method != http.MethodGet && r.Method != http.MethodHead
}

// resourceName names the resource as RBAC does, deployments.apps/scale, and otherwise the path. The target of a proxied
// request may have secrets in its path: it is left out.
func resourceName(info kubehttp.Info, path string) string {
	if info.Resource == "" {
		return path
	}
	name := info.Resource
	if info.Group != "" {
		name += "." + info.Group
	}
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	return name
}

func hostOf(addr string) string {
	h, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return h
}
