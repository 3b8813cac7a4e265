// Package proxy answers /clusters/<name>/... as that cluster's API server does.
//
// Who asks is the verified identity and nothing that the request says. It is put into the OPEN frame,
// after everything with which a client could forge one was removed from the request. Fails closed.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/tunnel/internal/session"
)

// Prefix is where clusters are.
const Prefix = "/clusters/"

// maxAttempts bounds the sessions that are tried; only while nothing of the request was sent.
const maxAttempts = 3

// Catalog says which clusters there are.
type Catalog interface {
	Ready() error
	Cluster(name string) (*consolev1.Cluster, bool)
}

// Sessions finds the session for a request.
type Sessions interface {
	Pick(ctx context.Context, cluster string, tried []*session.Session) (*session.Session, error)
}

// Deps is what the proxy works with.
type Deps struct {
	Catalog  Catalog
	Sessions Sessions
	// Ended counts a request that ended; code 0: aborted.
	Ended func(code int, sent, received int64)
	Log   *slog.Logger
}

// Handler is the proxy. Mount it at Prefix, raw, for users.
type Handler struct {
	Deps
	copier muxhttp.Copier
}

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{Deps: deps} }

// exchange is one request on its way.
type exchange struct {
	*Handler
	cluster  string
	path     string // escaped, below the cluster
	caller   identity.Identity
	sent     counter
	received int64
	code     int // 0: none, or the response broke off
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Handler: h}
	x.caller, _ = identity.FromContext(r.Context())
	x.cluster, x.path = split(r.URL.EscapedPath())
	x.audit(r, "cluster request begins")
	began := time.Now()
	defer func() {
		h.Ended(x.code, x.sent.n.Load(), x.received)
		x.audit(r, "cluster request ended", "code", x.code, "bytes_sent", x.sent.n.Load(), "bytes_received", x.received, "duration", time.Since(began))
	}()
	if refused := x.check(r); refused != nil {
		x.refuse(w, refused)
		return
	}
	resp, failed := x.ask(r)
	if failed != nil {
		x.refuse(w, failed)
		return
	}
	defer resp.Body.Close()
	kubehttp.StripResponse(resp.Header)
	if at := resp.Header.Get("Location"); strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "//") {
		resp.Header.Set("Location", Prefix+x.cluster+at)
	}
	n, err := h.copier.Copy(w, resp)
	x.received = n
	if err != nil {
		if r.Context().Err() == nil {
			h.Log.InfoContext(r.Context(), "response from cluster broke off", "cluster", x.cluster, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	x.code = resp.StatusCode
}

func (x *exchange) refuse(w http.ResponseWriter, e *kubehttp.Error) {
	x.code = e.Code
	kubehttp.WriteError(w, e)
}

// split takes the cluster's name and the rest off an escaped path. The name is empty if there is
// none that could be a cluster's: names need no escapes.
func split(escaped string) (cluster, rest string) {
	below, ok := strings.CutPrefix(escaped, Prefix)
	if !ok {
		return "", ""
	}
	cluster, rest, _ = strings.Cut(below, "/")
	if !isName(cluster) {
		return "", ""
	}
	return cluster, "/" + rest
}

// isName holds for DNS labels, as the catalog's names are.
func isName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// check says what keeps a request from being sent.
func (x *exchange) check(r *http.Request) *kubehttp.Error {
	if x.caller.Kind != identity.KindUser || x.caller.Name == "" {
		return &kubehttp.Error{Code: http.StatusForbidden, Message: "clusters are reached by users only: run `fairlead login`"}
	}
	if x.cluster == "" {
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: "the URL names no cluster: it must begin with /clusters/<name>/; `fairlead get clusters` lists the names"}
	}
	if err := kubehttp.CheckPath(x.path); err != nil {
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("cluster %q: the request is refused: %v", x.cluster, err)}
	}
	if err := x.Catalog.Ready(); err != nil {
		return &kubehttp.Error{Code: http.StatusServiceUnavailable, Message: fmt.Sprintf("the tunnel does not know the clusters yet: %v. Try again in a moment", err)}
	}
	if _, ok := x.Catalog.Cluster(x.cluster); !ok {
		return &kubehttp.Error{Code: http.StatusNotFound, Message: fmt.Sprintf("cluster %q is not in the catalog: `fairlead get clusters` lists the names", x.cluster)}
	}
	if muxhttp.IsUpgrade(r.Header) || r.Method == http.MethodConnect {
		return notYet(x.cluster)
	}
	return nil
}

func notYet(cluster string) *kubehttp.Error {
	return &kubehttp.Error{Code: http.StatusNotImplemented, Message: fmt.Sprintf(
		"cluster %q: exec, attach and port-forward need an upgraded connection, which the tunnel does not carry yet; everything else works", cluster)}
}

// ask sends the request over a session. While nothing was sent, another session is tried.
func (x *exchange) ask(r *http.Request) (*http.Response, *kubehttp.Error) {
	out := x.request(r)
	caller := muxhttp.Caller{User: x.caller.Name, Groups: x.caller.Groups, TraceParent: telemetry.Inject(r.Context())}
	var tried []*session.Session
	for {
		s, err := x.Sessions.Pick(r.Context(), x.cluster, tried)
		if err != nil {
			return nil, x.unreachable(err, tried)
		}
		resp, err := muxhttp.Transport{Session: s.Session, Caller: caller}.RoundTrip(out)
		if err == nil {
			return resp, nil
		}
		var unsent *muxhttp.UnsentError
		if tried = append(tried, s); errors.As(err, &unsent) && len(tried) < maxAttempts {
			continue
		}
		return nil, x.failed(r, err)
	}
}

// request makes the cluster's request out of the user's.
func (x *exchange) request(r *http.Request) *http.Request {
	header := r.Header.Clone()
	kubehttp.StripRequest(header)
	muxhttp.RemoveHopByHop(header)
	kubehttp.StripRequest(r.Trailer)
	// Path and RawPath are of one string that was checked, so that RequestURI gives it back.
	path, _ := url.PathUnescape(x.path)
	out := (&http.Request{
		Method:        r.Method,
		URL:           &url.URL{Path: path, RawPath: x.path, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Header:        header,
		ContentLength: r.ContentLength,
		Trailer:       r.Trailer,
	}).WithContext(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		x.sent.Reader = r.Body
		out.Body = &x.sent
	}
	return out
}

// counter counts what is read, which may go on when the answer is there already. Closing is left to the
// listener, so that another session can be tried.
type counter struct {
	io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *counter) Close() error { return nil }

// unreachable puts into words that no session takes the request.
func (x *exchange) unreachable(err error, tried []*session.Session) *kubehttp.Error {
	if len(tried) > 0 {
		return &kubehttp.Error{Code: http.StatusServiceUnavailable, RetryAfterSeconds: 1, Message: fmt.Sprintf(
			"cluster %q: its sessions are busy or ending. Try again in a moment", x.cluster)}
	}
	message := fmt.Sprintf("cluster %q is not connected", x.cluster)
	const next = "Check that its agent runs and reaches the hub: its log says why not"
	var missing *session.NotConnectedError
	switch {
	case !errors.As(err, &missing):
		message = fmt.Sprintf("%s: %v", message, err)
	case missing.Elsewhere != "":
		message += fmt.Sprintf(" to this tunnel replica, but to %s. Ask there", missing.Elsewhere)
	case missing.Since.IsZero():
		message += ": no agent of it has connected since this tunnel replica started. " + next
	default:
		message += fmt.Sprintf(" since %s (%s ago). %s", missing.Since.UTC().Format(time.RFC3339), time.Since(missing.Since).Round(time.Second), next)
	}
	return &kubehttp.Error{Code: http.StatusServiceUnavailable, Message: message}
}

// failed puts into words that a session took the request and gave no response.
func (x *exchange) failed(r *http.Request, err error) *kubehttp.Error {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody waits for an answer, or the caller's token has ended
	}
	x.Log.InfoContext(r.Context(), "request to cluster failed", "cluster", x.cluster, "err", err)
	var unsent *muxhttp.UnsentError
	reset, _ := errors.AsType[*mux.ResetError](err)
	switch {
	case errors.Is(err, muxhttp.ErrUpgrade):
		return notYet(x.cluster)
	case errors.Is(err, mux.ErrTooManyStreams):
		return &kubehttp.Error{Code: http.StatusTooManyRequests, RetryAfterSeconds: 1, Message: fmt.Sprintf("cluster %q: too many requests run through its agent. Try again in a moment", x.cluster)}
	case errors.As(err, &unsent) && !unsent.Invalid, reset != nil && reset.Code == mux.CodeRefused:
		return &kubehttp.Error{Code: http.StatusServiceUnavailable, RetryAfterSeconds: 1, Message: fmt.Sprintf("cluster %q: its agent takes no requests at the moment. Try again in a moment", x.cluster)}
	case errors.As(err, &unsent):
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("cluster %q: the request is refused: %v", x.cluster, unsent.Err)}
	case reset != nil:
		return &kubehttp.Error{Code: http.StatusBadGateway, Message: fmt.Sprintf("cluster %q: its agent gave no response: %v. Its log says more", x.cluster, reset)}
	default:
		return &kubehttp.Error{Code: http.StatusBadGateway, Message: fmt.Sprintf("cluster %q: the connection to its agent broke before there was a response. Whether the request was carried out is not known", x.cluster)}
	}
}

// audit logs a request's begin or end. It never has queries, headers or bodies, which may hold secrets.
func (x *exchange) audit(r *http.Request, message string, more ...any) {
	ctx := r.Context()
	if !x.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	path, err := url.PathUnescape(x.path)
	if err != nil {
		path = x.path
	}
	info := kubehttp.InfoOf(r.Method, path, r.URL.Query())
	//nolint:sloglint // both callers give a constant
	x.Log.With(more...).DebugContext(ctx, message, "user", x.caller.Name, "cluster", x.cluster, "verb", info.Verb, "path", path,
		"group", info.Group, "resource", info.Resource, "subresource", info.Subresource, "namespace", info.Namespace, "name", info.Name)
}
