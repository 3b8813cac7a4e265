package server

import (
	"net/http"

	"fairlead.dev/platform/telemetry"
)

// debug tells of each read.
func (s *Server) debug(serve http.HandlerFunc) http.Handler {
	if s.debugged == nil {
		return serve
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &answer{ResponseWriter: w}
		defer func() { s.debugged(r, out.outcome()) }()
		serve(out, r)
	})
}

// serveLog answers with the end of the service's log.
func (s *Server) serveLog(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(telemetry.Recent(s.log)) // fails if the caller is gone
}
