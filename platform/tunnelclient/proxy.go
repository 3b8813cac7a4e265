package tunnelclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/telemetry"
)

// proxy asks the API server on behalf of the caller in the OPEN frame.
type proxy struct {
	base      *url.URL
	transport http.RoundTripper
	policy    Policy
	also      func() []Policy
	own       func(http.ResponseWriter, *http.Request, muxhttp.Impersonated)
	tracer    trace.Tracer
	log       *slog.Logger
	copier    muxhttp.Copier
	reviews   reviews
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, _ := muxhttp.CallerFrom(r.Context()) // without one the policy lets nobody through
	if refused := p.check(caller, r); refused != nil {
		kubehttp.WriteError(w, refused)
		return
	}
	if caller.As != nil {
		if refused := p.mayImpersonate(r.Context(), caller); refused != nil {
			kubehttp.WriteError(w, refused)
			return
		}
	}
	traced, span := telemetry.Of(r.Context(), caller.TraceParent, p.tracer, "agent.request")
	defer span.End()
	if p.own != nil && strings.HasPrefix(r.URL.Path, OwnPrefix) {
		if len(p.policy.Namespaces) > 0 { // the agent's answers may be about any namespace
			kubehttp.WriteError(w, refusal("this cluster's agent lets people into these namespaces only, by its --tunnel-namespaces: "+strings.Join(p.policy.Namespaces, ", ")))
			return
		}
		p.own(w, r.WithContext(traced), p.policy.known(caller))
		return
	}
	ctx, settle := muxhttp.PassInformational(traced, w)
	resp, err := p.transport.RoundTrip(p.request(ctx, caller, r))
	settle()
	describe(span, resp)
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // no client waits for an answer
		}
		p.log.WarnContext(traced, "API server does not answer", "err", err)
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusBadGateway, Message: fmt.Sprintf(
			"the agent can't reach its API server: %v. Look at the cluster's control plane and at the agent's log", err)})
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		// The refused credential is not the caller's; a 401 would make clients log in again.
		kubehttp.WriteError(w, &kubehttp.Error{Code: http.StatusBadGateway, Message: "the API server does not accept the agent's own credential. " +
			"Restart the agent, or give it a service account or kubeconfig that works"})
		return
	}
	p.localize(resp.Header)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if _, _, err := muxhttp.Splice(r.Context(), w, resp); err != nil {
			p.log.DebugContext(traced, "upgraded connection broke off", "err", err)
			panic(http.ErrAbortHandler)
		}
		return
	}
	if _, err := p.copier.Copy(w, resp); err != nil {
		if broke, ok := errors.AsType[*muxhttp.ReadError](err); ok && r.Context().Err() == nil {
			p.log.WarnContext(traced, "API server broke off a response", "err", broke.Err)
			muxhttp.SetAbortCause(w, "the API server broke off the response")
		}
		panic(http.ErrAbortHandler)
	}
}

// describe says what the API server answered.
func describe(span trace.Span, resp *http.Response) {
	if !span.IsRecording() {
		return
	}
	if resp == nil {
		span.SetStatus(codes.Error, "no answer")
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
}

// check says why a request is refused, or returns nil.
func (p *proxy) check(caller muxhttp.Caller, r *http.Request) *kubehttp.Error {
	if err := kubehttp.CheckPath(r.URL.EscapedPath()); err != nil {
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: "the agent refuses this request: " + err.Error()}
	}
	for _, policy := range p.policies() {
		if refused := policy.check(caller, r); refused != nil {
			return refused
		}
	}
	return nil
}

// policies are those that a request has to pass, all of them.
func (p *proxy) policies() []Policy {
	all := []Policy{p.policy}
	if p.also != nil {
		all = append(all, p.also()...)
	}
	return all
}

// request makes the API server's request out of the tunnel's. Nothing of what arrived decides who
// asks, but for the OPEN frame.
func (p *proxy) request(ctx context.Context, caller muxhttp.Caller, r *http.Request) *http.Request {
	header := r.Header // ours: it was decoded for this request
	upgrade, protocols := muxhttp.IsUpgrade(header), header["Upgrade"]
	kubehttp.StripRequest(header)
	muxhttp.RemoveHopByHop(header)
	if upgrade {
		header["Connection"], header["Upgrade"] = []string{"Upgrade"}, protocols
	}
	kubehttp.StripRequest(r.Trailer)
	p.policy.impersonate(header, caller)
	if header["Accept-Encoding"] == nil {
		header.Set("Accept-Encoding", "identity") // else the transport would ask for gzip and change the bytes
	}
	if header["User-Agent"] == nil {
		header.Set("User-Agent", "") // no field, instead of Go's
	}
	return (&http.Request{
		Method:        r.Method,
		URL:           p.target(r.URL),
		Host:          p.base.Host,
		Header:        header,
		Body:          r.Body,
		ContentLength: r.ContentLength,
		Trailer:       r.Trailer,
	}).WithContext(ctx)
}

// OwnPrefix begins the paths that the agent answers itself. No API server has such paths: what it serves besides
// resources is in Kubernetes' own source.
const OwnPrefix = "/fairlead/"

// target puts path and query below the API server's base, with the escapes as they came.
func (p *proxy) target(in *url.URL) *url.URL {
	out := *p.base
	out.User = nil
	out.Path = strings.TrimSuffix(p.base.Path, "/") + in.Path
	out.RawPath = strings.TrimSuffix(p.base.EscapedPath(), "/") + in.EscapedPath()
	out.RawQuery, out.ForceQuery, out.Fragment = in.RawQuery, in.ForceQuery, ""
	return &out
}

// localize makes redirects to the API server's own address relative, for the hub to complete.
func (p *proxy) localize(h http.Header) {
	at := h.Get("Location")
	if at == "" {
		return
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Host != p.base.Host {
		return
	}
	path := "/" + strings.TrimLeft(strings.TrimPrefix(u.EscapedPath(), strings.TrimSuffix(p.base.EscapedPath(), "/")), "/") // two slashes begin a host
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	h.Set("Location", path)
}

// checkCaller refuses who could not be impersonated as what they are.
func (p Policy) checkCaller(c muxhttp.Caller) error {
	if c.User == "" {
		return errors.New("it does not say who asks")
	}
	if len(p.Users) > 0 && !slices.Contains(p.Users, c.User) {
		return fmt.Errorf("user %q is none of those that this cluster's agent lets in, by its --tunnel-user", c.User)
	}
	if err := p.checkName(c.User); err != nil {
		return err
	}
	for _, g := range c.Groups {
		if err := p.checkName(g); err != nil && p.passes(g) {
			return err
		}
	}
	return checkExtra(c.Extra)
}

func checkExtra(extra map[string][]string) error {
	for k, values := range extra {
		for _, v := range append([]string{k}, values...) {
			if k == "" || !plain(v) {
				return errors.New("it has extra information that no header can carry")
			}
		}
	}
	return nil
}

func (p Policy) checkName(name string) error {
	switch {
	case name == "" || !plain(name):
		return fmt.Errorf("user or group %q can't be impersonated", name)
	case (strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kubeadm:")) && !p.AllowSystem:
		return fmt.Errorf("user or group %q belongs to Kubernetes itself", name)
	default:
		return nil
	}
}

// plain says whether a header carries the value unchanged: servers cut blanks off at both ends, which
// would turn " system:masters" into something else.
func plain(v string) bool {
	return v == strings.TrimSpace(v) && httpguts.ValidHeaderFieldValue(v)
}
