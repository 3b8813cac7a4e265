package signin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/identity"
)

// sessionPath is where browsers log in and out: POST begins a session for the owner of a token, or renews the session
// whose cookie comes along; GET tells about it; DELETE ends it, and with ?everywhere all logins of its owner.
const sessionPath = "/v1/session"

type browsers struct{ Deps }

func (b *browsers) mounts() []server.Mount {
	return []server.Mount{
		server.HTTP("POST "+sessionPath, http.HandlerFunc(b.begin), platform.RoleUser),
		server.HTTP("GET "+sessionPath, http.HandlerFunc(b.tell), platform.RoleUser),
		server.HTTP("DELETE "+sessionPath, http.HandlerFunc(b.end), platform.RoleUser),

		server.HTTP("GET "+loginPath, http.HandlerFunc(b.redirect), platform.RoleOpen),
		server.HTTP("GET "+callbackPath, http.HandlerFunc(b.callback), platform.RoleOpen).Traced(),
		server.HTTP("GET "+oncePath, http.HandlerFunc(b.oncePage), platform.RoleOpen),
		server.HTTP("POST "+oncePath, http.HandlerFunc(b.once), platform.RoleOpen).Traced(),
	}
}

// sessionAnswer never has the token: scripts of the page could read it.
type sessionAnswer struct {
	User   string   `json:"user"`
	Groups []string `json:"groups"`
	// ExpireTime is when the cookie ends unless it is renewed, EndTime when somebody has to log in again.
	ExpireTime time.Time `json:"expireTime"`
	EndTime    time.Time `json:"endTime"`
}

func (b *browsers) begin(w http.ResponseWriter, r *http.Request) {
	caller, _ := platform.FromContext(r.Context())
	if id, ok := b.give(w, r, caller, identity.ActionSession); ok {
		answer(w, id)
	}
}

// give gives the browser a session of somebody whose login began by an action of the trail, or tells why not.
func (b *browsers) give(w http.ResponseWriter, r *http.Request, of platform.Identity, action string) (platform.Identity, bool) {
	if !b.Cookies {
		b.refuse(w, r, connect.NewError(connect.CodeFailedPrecondition, errors.New("no sessions without TLS, for browsers would give their cookies to anybody: "+
			"give --tls-cert and --tls-key, or --plaintext if a proxy in front ends TLS")))
		return platform.Identity{}, false
	}
	token, err := b.Authority.Session(r.Context(), call.Who(call.WithOrigin(r.Context(), r)), of, action)
	if err != nil {
		b.refuse(w, r, err)
		return platform.Identity{}, false
	}
	cookie, fits := platform.Cookie(token.Text, token.Identity.ExpiresAt)
	if !fits {
		b.refuse(w, r, connect.NewError(connect.CodeFailedPrecondition, errors.New("you are in so many groups that no browser keeps your session: log in with fewer")))
		return platform.Identity{}, false
	}
	http.SetCookie(w, cookie)
	if of.Until.IsZero() { // and not the next token of a session
		b.tellSession(call.Who(call.WithOrigin(r.Context(), r)), token.Identity, "session.begin", "until "+token.Identity.Until.Format(time.RFC3339))
	}
	return token.Identity, true
}

func (b *browsers) tellSession(by audit.Who, of platform.Identity, action, reason string) {
	by.Identity = of
	b.Accesses.Tell(by, audit.Act{Action: action, Name: of.TokenID, Reason: reason})
}

func (b *browsers) tell(w http.ResponseWriter, r *http.Request) {
	caller, _ := platform.FromContext(r.Context())
	answer(w, caller)
}

func (b *browsers) end(w http.ResponseWriter, r *http.Request) {
	caller, _ := platform.FromContext(r.Context())
	everywhere := r.URL.Query().Has("everywhere")
	end := b.Authority.EndSession
	if everywhere {
		end = func(ctx context.Context, of platform.Identity) error {
			return b.Authority.EndAllSessions(ctx, call.Who(call.WithOrigin(ctx, r)), of)
		}
	}
	if err := end(r.Context(), caller); err != nil {
		b.refuse(w, r, err)
		return
	}
	if !everywhere { // whose end is in the trail already
		b.tellSession(call.Who(call.WithOrigin(r.Context(), r)), caller, "session.end", "")
	}
	http.SetCookie(w, platform.NoCookie())
	w.WriteHeader(http.StatusNoContent)
}

func answer(w http.ResponseWriter, id platform.Identity) {
	end := id.Until
	if end.IsZero() {
		end = id.ExpiresAt
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	// The client may be gone: nobody is left to tell.
	_ = json.NewEncoder(w).Encode(sessionAnswer{User: id.Name, Groups: append([]string{}, id.Groups...), ExpireTime: id.ExpiresAt, EndTime: end})
}

func (b *browsers) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused := new(connect.Error)
	if !errors.As(b.Fail(r.Context(), err), &refused) {
		return // fail makes nothing else
	}
	code := http.StatusInternalServerError
	switch refused.Code() {
	case connect.CodeUnauthenticated:
		code = http.StatusUnauthorized
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition:
		code = http.StatusBadRequest
	case connect.CodeResourceExhausted:
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", refused.Meta().Get("Retry-After"))
	case connect.CodePermissionDenied:
		code = http.StatusForbidden
	case connect.CodeUnavailable:
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, refused.Message(), code)
}
