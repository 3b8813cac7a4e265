package audit

import (
	"net"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/identity"
)

// ActionDebugRead is of a read of a service's log or of a profile of its process.
const ActionDebugRead = "debug.read"

// Debugged returns what records such reads. Their queries are left out, as of all requests.
func Debugged(recorder *Recorder) func(r *http.Request, code int) {
	return func(r *http.Request, code int) {
		id, _ := identity.FromContext(r.Context())
		remote, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			remote = r.RemoteAddr
		}
		e := Event{Actor: Of(id), Action: ActionDebugRead, Verb: "get", Resource: r.URL.Path, Code: code, Remote: remote}
		if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
			e.TraceID = span.TraceID().String()
		}
		recorder.Record(e)
	}
}
