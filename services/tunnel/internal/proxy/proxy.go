// Package proxy answers /clusters/<name>/... as that cluster's API server does.
//
// The caller is the verified identity and nothing that the request says. The identity is put into the OPEN frame, after
// everything with which a client could forge one was removed from the request. Fails closed.
//
// A cluster whose sessions are at another replica is asked through that one: one hop, made with this service's own
// identity, which alone may say who asks.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/tunnel/internal/directory"
	"fairlead.dev/services/tunnel/internal/session"
)

// Prefix is where clusters are, for users.
const Prefix = "/clusters/"

// Catalog says which clusters there are, and who may do what there.
type Catalog interface {
	Ready() error
	Cluster(name string) (*consolev1.Cluster, bool)
	Grants() []*consolev1.Grant
	Roles() []*consolev1.Role
	Projects() []*consolev1.Project
}

// Sessions finds the session for a request.
type Sessions interface {
	Pick(cluster string, tried []*session.Session) (*session.Session, error)
}

// Peers knows the other replicas.
type Peers interface {
	Holders(ctx context.Context, cluster string) []directory.Peer
	Elsewhere(ctx context.Context, cluster string) bool
	Others() []directory.Peer
	Shun(replica string)
	Forget(cluster string)
	Look(cluster string)
	News() <-chan struct{}
}

// Deps is what the proxy works with.
type Deps struct {
	Catalog  Catalog
	Sessions Sessions
	Peers    Peers
	// Relay asks another replica as this service.
	Relay http.RoundTripper
	// Ended counts a request that ended; code 0: aborted.
	Ended func(code int, sent, received int64)
	// Handed counts a request that went to another replica, Taken one that came from another.
	Handed, Taken func()
	// Recordings keeps what is shown of shells; nil: nothing is recorded.
	Recordings Recordings
	// Rights asks the console as the caller with this token.
	Rights func(token string) Rights
	Audit  *audit.Recorder
	Log    *slog.Logger
}

// Handler is the proxy. Mount it at Prefix, raw, for users; and Relayed at RelayPrefix, raw, for tunnels.
type Handler struct {
	Deps
	copier   muxhttp.Copier
	drain    drain
	shares   shares
	standing standing
	unsent   atomic.Int64 // bytes of all recordings that the console has not taken yet
	began    time.Time
}

// New returns a Handler.
func New(deps Deps) *Handler {
	return &Handler{
		Deps: deps, drain: newDrain(), shares: shares{taken: map[share]int{}},
		standing: standing{running: map[*lasting]struct{}{}}, began: time.Now(),
	}
}

// Page is where the hub's pages show the cluster of a path, at the address that pages and clusters share.
func Page(path string) string {
	if cluster, _ := splitPath(Prefix, path); cluster != "" {
		return "/cluster/" + cluster
	}
	return "/clusters"
}

// exchange is one request on its way.
type exchange struct {
	handler *Handler
	cluster string
	path    string // escaped, below the cluster
	plain   string // without escapes
	query   url.Values
	info    kubehttp.Info
	trace   string // W3C's parent; may be empty
	// requestID is the request's in the audit trail; empty: one event of the trail has all of it.
	requestID string
	caller    identity.Identity     // with the groups that are lent
	user      identity.Identity     // as the token says it
	lent      []string              // groups that are lent; guarded by standing.mu
	lasting   *lasting              // nil: it ends soon by itself, or the replica that was asked by the user judges it
	as        *muxhttp.Impersonated // whom the caller asks to pass off as; nil: nobody
	relayed   bool                  // the request comes from another replica, and goes to no third one
	browser   bool                  // the caller's token is a session's cookie
	sent      counter
	received  int64
	code      int // 0: none, or the response broke off
	class     kubehttp.Class
	reason    string          // of a refusal
	gone      <-chan struct{} // closed when the session that answers is going away; nil: another replica's
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.newExchange(Prefix, r)
	if x.browser = identity.FromBrowser(r.Context()); x.browser {
		sandbox(w.Header())
	}
	x.caller, _ = identity.FromContext(r.Context())
	x.user = x.caller
	malformed := x.checkImpersonated(r)
	trail := x.beginRecord(r)
	defer func() {
		h.Ended(x.code, x.sent.n.Load(), x.received)
		trail.recordEnd()
	}()
	if !trail.whole || x.class >= kubehttp.Exec { // a GET through a pod's proxy may be a stream
		ctx, stop := h.standWhileAllowed(r.Context(), x)
		defer stop()
		r = r.WithContext(ctx)
	}
	if refused := x.checkRequest(r); refused != nil {
		x.refuse(w, refused)
		return
	}
	trail.event.Actor = audit.Of(x.caller)
	if malformed != nil {
		x.refuse(w, malformed)
		return
	}
	trail.recordAdmitted()
	x.answerRequest(w, r)
}

// newExchange reads what a request is about.
func (h *Handler) newExchange(prefix string, r *http.Request) *exchange {
	x := &exchange{handler: h, trace: telemetry.Inject(r.Context())}
	x.cluster, x.path = splitPath(prefix, r.URL.EscapedPath())
	var err error
	if x.plain, err = url.PathUnescape(x.path); err != nil {
		x.plain = x.path // to be refused
	}
	if r.URL.RawQuery != "" {
		x.query = r.URL.Query()
	}
	x.info = kubehttp.InfoOf(r.Method, x.plain, x.query)
	return x
}

// answerRequest asks the cluster and gives back what it says.
func (x *exchange) answerRequest(w http.ResponseWriter, r *http.Request) {
	// Counted at the replica with the session, too: it sees the requests of all.
	mine := share{x.cluster, x.caller.Subject()}
	if !x.handler.shares.takeShare(mine) {
		x.refuse(w, &kubehttp.Error{Code: http.StatusTooManyRequests, RetryAfterSeconds: 1, Message: fmt.Sprintf(
			"cluster %q: %d requests of yours are under way, and no more fit beside those of others. End some watches or sessions", x.cluster, perPerson)})
		return
	}
	defer x.handler.shares.giveShare(mine)
	running, draining := x.handler.drain.beginRequest()
	defer running.endRequest()
	if draining {
		w.Header().Set("Connection", "close") // the client's next request finds another replica
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		_ = http.NewResponseController(w).EnableFullDuplex() // else no answer would come before the whole question
	}
	cast, refused := x.beginRecording(r)
	if refused != nil {
		x.refuse(w, refused)
		return
	}
	defer cast.endRecording()
	ctx, settle := muxhttp.PassInformational(r.Context(), w)
	resp, failed := x.askCluster(x.clusterRequest(ctx, r)) //nolint:contextcheck // that of the request
	settle()
	if r.ProtoMajor == 1 && r.ContentLength != 0 && !x.sent.ended.Load() {
		// The bytes that follow on the connection may be the rest of a body that is malformed, and no request.
		w.Header().Set("Connection", "close")
	}
	if failed != nil {
		x.refuse(w, failed)
		return
	}
	defer resp.Body.Close()
	kubehttp.StripResponse(resp.Header)
	if refused := x.rewriteRedirect(resp); refused != nil {
		x.refuse(w, refused)
		return
	}
	if cast != nil {
		if refused := cast.attachTo(resp); refused != nil {
			x.refuse(w, refused)
			return
		}
	}
	if x.browser {
		sandbox(resp.Header)
	}
	if err := x.carry(w, r, resp); err != nil {
		if r.Context().Err() == nil {
			x.handler.Log.InfoContext(r.Context(), "response from cluster broke off", "cluster", x.cluster, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	x.code = resp.StatusCode
}

// rewriteRedirect has a response lead to the cluster below the hub's address, whatever it says. A redirect that leads
// elsewhere would have clients repeat the request there, with the hub's credential: it is refused where clients would
// follow.
func (x *exchange) rewriteRedirect(resp *http.Response) *kubehttp.Error {
	location := resp.Header["Location"]
	if len(location) == 0 || x.relayed { // the replica that is asked by the user does it
		return nil
	}
	if path, ok := kubehttp.Redirect(location, x.path); ok {
		resp.Header.Set("Location", Prefix+x.cluster+path)
		return nil
	}
	resp.Header.Del("Location")
	if resp.StatusCode/100 != 3 {
		return nil
	}
	return &kubehttp.Error{
		Code:    http.StatusBadGateway,
		Message: fmt.Sprintf("cluster %q answers with a redirect out of the cluster, which the hub does not pass on. Ask for another path", x.cluster),
	}
}

// carry moves the response until its end.
func (x *exchange) carry(w http.ResponseWriter, r *http.Request, resp *http.Response) (err error) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		var sent int64
		sent, x.received, err = muxhttp.Splice(r.Context(), w, resp)
		x.sent.n.Add(sent)
		return err
	}
	if x.info.Verb == "watch" {
		if watch := newWatch(resp, x.cluster); watch != nil {
			resp.Body = watch
			defer x.handler.drain.addWatch(watch)()
			defer watch.endOn(x.gone)()
			defer identity.BeforeEnd(r.Context(), watch.endWatch)()
			defer x.beforeEnd(watch.endWatch)()
		}
	}
	x.received, err = x.handler.copier.Copy(w, resp)
	return err
}

func (x *exchange) refuse(w http.ResponseWriter, e *kubehttp.Error) {
	x.code, x.reason = e.Code, e.Message
	if x.relayed && e.Code == http.StatusMisdirectedRequest {
		w.Header().Set(relayHeader, noSession)
	}
	kubehttp.WriteError(w, e)
}

// sandbox keeps what a cluster answers to somebody's browser from acting as a page of the hub.
func sandbox(h http.Header) {
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// clusterRequest makes the cluster's request out of the user's.
func (x *exchange) clusterRequest(ctx context.Context, r *http.Request) *http.Request {
	header := maps.Clone(r.Header) // fields come and go, their values don't change
	upgrade := header["Upgrade"]
	kubehttp.StripRequest(header)
	muxhttp.RemoveHopByHop(header)
	if muxhttp.IsUpgrade(r.Header) {
		header["Connection"], header["Upgrade"] = []string{"Upgrade"}, upgrade
	}
	kubehttp.StripRequest(r.Trailer)
	// Path and RawPath are of one string that was checked, so that RequestURI gives it back.
	out := (&http.Request{
		Method:        r.Method,
		URL:           &url.URL{Path: x.plain, RawPath: x.path, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Header:        header,
		ContentLength: r.ContentLength,
		Trailer:       r.Trailer,
	}).WithContext(ctx)
	if r.ContentLength != 0 { // the listener's wrappers hide whether there is a body
		x.sent.from = r.Body
		out.Body, _ = x.sent.nextAttempt() // the first one
	}
	return out
}

// counter counts what is read of a body, which may go on when the answer is there already. Each attempt to send the
// body reads by itself: what one reads that was given up meanwhile is the next one's.
type counter struct {
	n     atomic.Int64
	ended atomic.Bool // well, and all was read

	reading sync.Mutex // held while a piece is read; guards what follows
	from    io.Reader
	kept    []byte // of attempts that were given up
	keptErr error

	mu  sync.Mutex // guards now
	now *attempt
}

// attempt is one try to send a body. Closing the body is left to the listener, so that another session can be tried.
type attempt struct{ of *counter }

// errGivenUp ends the reads of an attempt after which there is another one.
var errGivenUp = errors.New("the request goes another way")

// nextAttempt gives up the attempt before. False: that one has read something.
func (c *counter) nextAttempt() (io.ReadCloser, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n.Load() > 0 {
		return nil, false
	}
	c.now = &attempt{c}
	return c.now, true
}

func (a *attempt) Read(p []byte) (int, error) {
	c := a.of
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := 0, c.keptErr
	if len(c.kept) > 0 {
		n, err = copy(p, c.kept), nil
		c.kept = c.kept[n:]
	} else if err == nil {
		n, err = c.from.Read(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != a {
		c.kept, c.keptErr = slices.Concat(p[:n], c.kept), cmp.Or(err, c.keptErr)
		return 0, errGivenUp
	}
	c.n.Add(int64(n))
	if err == io.EOF { // bare: the others are of bodies that broke off
		c.ended.Store(true)
	}
	return n, err
}

func (a *attempt) Close() error { return nil }
