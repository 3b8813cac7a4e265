package proxy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/tunnel/internal/directory"
)

// RelayPrefix is where clusters are, for the other replicas.
const RelayPrefix = "/relay/"

const (
	// userHeader says who asks, from one replica to another. From anybody else it is removed.
	userHeader = "Fairlead-User"
	// impersonationHeader stands in its place, and says besides whom the user asks to pass off as. A replica of a
	// version that knows nothing of it finds no user and refuses.
	impersonationHeader = "Fairlead-Impersonation"
	// relayHeader is in an answer that is not the cluster's: nothing was done, ask somebody else. A cluster's own
	// is removed.
	relayHeader = "Fairlead-Relay"
	noSession   = "no session"
)

// relayedUser is who asks, as the first replica has verified it.
type relayedUser struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups,omitempty"`
	// As is in impersonationHeader, and in no other.
	As *muxhttp.Impersonated `json:"as,omitempty"`
}

// setUser says who asks. There is no such header yet: whatever the user sent is removed.
func (x *exchange) setUser(h http.Header) error {
	b, err := json.Marshal(relayedUser{Name: x.caller.Name, Groups: x.caller.Groups, As: x.as})
	if err != nil {
		return fmt.Errorf("encode user: %w", err)
	}
	name := userHeader
	if x.as != nil {
		name = impersonationHeader
	}
	h.Set(name, base64.StdEncoding.EncodeToString(b))
	return nil
}

// readUser reads who asks. There must be exactly one header that says so.
func (x *exchange) readUser(h http.Header) error {
	plain, as := h[userHeader], h[impersonationHeader]
	values := slices.Concat(plain, as)
	if len(values) != 1 {
		return fmt.Errorf("%d headers %s and %s, want one", len(values), userHeader, impersonationHeader)
	}
	b, err := base64.StdEncoding.DecodeString(values[0])
	if err != nil {
		return fmt.Errorf("decode user: %w", err)
	}
	var u relayedUser
	if err := json.Unmarshal(b, &u); err != nil {
		return fmt.Errorf("decode user: %w", err)
	}
	if (u.As != nil) != (len(as) == 1) {
		return errors.New("decode user: whom it asks to impersonate is in the wrong header")
	}
	x.caller = identity.Identity{Kind: identity.KindUser, Name: u.Name, Groups: u.Groups}
	x.as = u.As
	return x.caller.Validate()
}

// Relayed answers what other replicas ask for their users, over sessions of this one and nowhere else. The
// replica that asks has authorised the user and records the request.
func (h *Handler) Relayed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := h.newExchange(RelayPrefix, r)
		x.relayed = true
		if err := x.readUser(r.Header); err != nil {
			x.refuse(w, &kubehttp.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("the relayed request does not say who asks: %v", err)})
			return
		}
		if refused := x.checkPath(r); refused != nil {
			x.refuse(w, refused)
			return
		}
		x.handler.Taken()
		x.answerRequest(w, r)
	})
}

// errElsewhere: the replica has no session of the cluster, and did nothing.
var errElsewhere = errors.New("the replica has no session of the cluster")

// unsentError says that nothing of a request reached the other replica.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// relayRequest asks another replica.
func (x *exchange) relayRequest(to directory.Peer, out *http.Request) (*http.Response, error) {
	if err := client.CheckPeer(to.URL); err != nil {
		return nil, unsentError{fmt.Errorf("address of replica: %w", err)}
	}
	base, err := url.Parse(to.URL)
	if err != nil {
		return nil, unsentError{err}
	}
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(identity.ForReplica(out.Context(), to.ID), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req := out.Clone(ctx)
	below := strings.TrimSuffix(base.EscapedPath(), "/") + RelayPrefix + x.cluster
	req.URL.Scheme, req.URL.Host, req.Host = base.Scheme, base.Host, base.Host
	req.URL.Path, req.URL.RawPath = below+out.URL.Path, below+out.URL.RawPath
	if err := x.setUser(req.Header); err != nil {
		return nil, unsentError{err}
	}
	if parent := telemetry.Inject(ctx); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	if req.Body != nil {
		// Nothing of it leaves before the other replica wants it. net/http looks at the version, too.
		req.Header.Set("Expect", "100-continue")
		req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	}
	if req.Header["User-Agent"] == nil {
		req.Header.Set("User-Agent", "") // no field, instead of Go's
	}
	resp, err := x.handler.Relay.RoundTrip(req)
	if err != nil {
		if !sent.Load() {
			err = unsentError{err}
		}
		return nil, err
	}
	if resp.Header.Get(relayHeader) == noSession {
		_ = resp.Body.Close()
		return nil, errElsewhere
	}
	return resp, nil
}
