package identity

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// Middleware is Interceptor for plain HTTP: it serves next to callers that play one of the roles. A request whose token
// is revoked, or that reaches Identity.RequestsEnd, is ended, too. Errors are a Kubernetes Status, whose message
// kubectl prints, or text for clients that ask for text and not for JSON.
func Middleware(v Verifier, role Role, next http.Handler) http.Handler {
	return Guard(v, role, next, func(w http.ResponseWriter, r *http.Request, err *connect.Error) {
		(&refusal{err.Code(), err.Message()}).write(w, r)
	})
}

// RefuseFunc answers a request that may not pass, and says why.
type RefuseFunc func(w http.ResponseWriter, r *http.Request, err *connect.Error)

// Guard is Middleware for callers with a form of errors of their own.
func Guard(v Verifier, role Role, next http.Handler, refuse RefuseFunc) http.Handler {
	var running rounds
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, refused := authenticate(r.Context(), v, role, r.Header)
		if refused != nil {
			refuse(w, r, refused.connect())
			return
		}
		if c.open {
			next.ServeHTTP(w, r)
			return
		}
		ctx, g := newGuard(c.context(r.Context()), v, &running, c, http.NewResponseController(w))
		defer g.stop()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, guardKey{}, g)))
	})
}

func (r *refusal) write(w http.ResponseWriter, req *http.Request) {
	code, reason := http.StatusUnauthorized, "Unauthorized"
	switch r.code {
	case connect.CodePermissionDenied:
		code, reason = http.StatusForbidden, "Forbidden"
	case connect.CodeUnavailable:
		code, reason = http.StatusServiceUnavailable, "ServiceUnavailable"
		w.Header().Set("Retry-After", "5")
	case connect.CodeResourceExhausted:
		code, reason = http.StatusTooManyRequests, "TooManyRequests"
		w.Header().Set("Retry-After", "5")
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="fairlead"`)
	}
	w.Header().Set("Cache-Control", "no-store")
	if accept := req.Header.Get("Accept"); strings.Contains(accept, "text/") && !strings.Contains(accept, "application/json") {
		http.Error(w, r.message, code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The client may be gone: nobody is left to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": r.message, "reason": reason, "code": code,
	})
}
