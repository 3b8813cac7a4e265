// Package webhook takes from Git hosts that something was pushed: POST /v1/webhooks/<source>. A webhook carries no
// identity of the hub; it is signed with a secret that the source names. A webhook can only cause a poll, so a replayed
// one is harmless.
//
// Invariants: nobody learns whether a source exists, or has a webhook: an unknown one and a wrong signature get the
// same answer, after the same work; a body goes through the hash, and only the events of a registry are read; how many
// are worked on, how large and how slow they may be is bounded; a token is in no log or answer. A webhook without a
// proof takes nothing from those with one: rates count signed webhooks only, and a body that is waited for makes room
// for a new one.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/shares"
)

// Path is where webhooks go: behind it stands the name of a source.
const Path = "/v1/webhooks/"

const (
	// maxBodyBytes is what GitHub sends at most; the others send less.
	maxBodyBytes = 25 << 20
	// bodyTime bounds how long a body may take: Git hosts themselves give up after 10 s or so.
	bodyTime = 20 * time.Second
	// atOnce bounds the bodies that are waited for, and perNetwork those of one network, which a proxy in front may be
	// for all. Each costs a hash and a buffer of 32 KiB. Beyond it the oldest is cut: that of a Git host arrives within
	// moments.
	atOnce     = 64
	perNetwork = 48
	// maxEventsBytes of a body with events of a registry, which sends one or a few at a time. A longer one causes a
	// poll unread.
	maxEventsBytes = 64 << 10
	// wakeTime bounds telling the owner.
	wakeTime = 5 * time.Second
	// wait is what those that are too many are told.
	wait = 10 * time.Second
)

// Source is what the catalog says of one.
type Source struct {
	UID               string
	Secret, SecretUID string
	SecretRevision    int64
}

// Deps of a Handler.
type Deps struct {
	// Ready says why this replica can't answer anything yet.
	Ready func() error
	// Source finds a source that takes webhooks.
	Source func(name string) (Source, bool)
	// Token reads the token of a secret.
	Token func(ctx context.Context, secret string) (string, error)
	// Refresh asks the owner of a source, whoever it is, to poll it now.
	Refresh func(ctx context.Context, uid string) error
	// Count is told what became of each.
	Count func(Result)
	Log   *slog.Logger
}

// Result of a webhook, for metrics.
type Result string

// The results.
const (
	Accepted Result = "accepted"
	Ping     Result = "ping"
	Ignored  Result = "ignored" // nothing was pushed
	Refused  Result = "refused"
	Limited  Result = "limited"
	Bad      Result = "bad" // too large, too slow, cut off, not a POST
	Failed   Result = "failed"
)

// Handler is the http.Handler for Path.
type Handler struct {
	deps     Deps
	tokens   *tokens
	limits   *limits
	bodies   *shares.Room  // for bodies that have not arrived whole
	patience time.Duration // bodyTime, but in tests
	nobody   []byte        // the token of sources that take no webhooks; nobody knows it
}

// New makes a handler.
func New(deps Deps) *Handler {
	return &Handler{
		deps: deps, tokens: newTokens(deps.Token), limits: newLimits(), bodies: shares.NewRoom(perNetwork, atOnce),
		patience: bodyTime, nobody: []byte(rand.Text()),
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a := h.serve(w, r)
	h.deps.Count(a.result)
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
	}
	if a.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.text+"\n") // a client that does not read the answer has not lost anything
}

type answer struct {
	status int
	result Result
	text   string
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) answer {
	name, ok := strings.CutPrefix(r.URL.Path, Path)
	switch {
	case r.Method != http.MethodPost:
		return answer{http.StatusMethodNotAllowed, Bad, "webhooks are sent by POST"}
	case !ok || name == "" || len(name) > 63 || strings.Contains(name, "/"):
		return answer{http.StatusNotFound, Bad, "write " + Path + "<name of the source>"}
	case h.deps.Ready() != nil:
		return answer{http.StatusServiceUnavailable, Failed, "not ready"}
	case r.ContentLength > maxBodyBytes:
		return tooLarge()
	case !claims(r.Header):
		return refused()
	}
	return h.take(w, r, name)
}

// take checks who sent it and causes a poll.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, name string) answer {
	source, known := h.deps.Source(name)
	token := h.nobody
	if known {
		var err error
		if token, err = h.tokens.of(r.Context(), source); err != nil {
			h.deps.Log.WarnContext(r.Context(), "webhook can't be checked", "source", name, "err", err)
			token, known = h.nobody, false
		}
	}
	sum := hmac.New(sha256.New, token)
	events := eventsOf(r.Header)
	if err := h.readBody(w, r, io.MultiWriter(sum, events)); err != nil {
		return badBody(err)
	}
	if !authentic(r.Header, token, sum.Sum(nil)) || !known {
		return refused()
	}
	if events.onlyPulls() { // before the limit: those of clusters take no room from pushes
		return answer{http.StatusOK, Ignored, "nothing was pushed"}
	}
	if !h.limits.allow(name) {
		return answer{http.StatusTooManyRequests, Limited, "too many webhooks for this source"}
	}
	if isPing(r.Header) {
		return answer{http.StatusOK, Ping, "pong"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), wakeTime)
	defer cancel()
	if err := h.deps.Refresh(ctx, source.UID); err != nil {
		h.deps.Log.WarnContext(ctx, "webhook reached nobody; the source is polled at its next interval", "source", name, "err", err)
		return answer{http.StatusServiceUnavailable, Failed, "the owner of the source can't be told now: it polls by itself at its next interval"}
	}
	return answer{http.StatusAccepted, Accepted, "the source is being asked"}
}

func refused() answer {
	return answer{
		http.StatusUnauthorized, Refused,
		"no source of this name takes webhooks, or the signature or token is wrong: compare the secret at the Git host with the source's webhookSecret",
	}
}

// readBody puts a body through a hash. Other bodies may cut it.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, sum io.Writer) error {
	deadline := &deadline{control: http.NewResponseController(w)}
	timed := deadline.set(time.Now().Add(h.patience))
	place := h.bodies.Enter(dialpolicy.Network(r.RemoteAddr), func() { deadline.set(time.Now()) })
	_, err := io.Copy(sum, http.MaxBytesReader(w, r.Body, maxBodyBytes))
	h.bodies.Leave(place)
	if timed && err == nil {
		deadline.set(time.Time{}) // the deadline could be set, so it can be lifted
	}
	deadline.end()
	return err
}

// deadline is that of a body. Another request may set it, but not once the body was read: the connection is the next
// request's then.
type deadline struct {
	mu      sync.Mutex // guards control
	control *http.ResponseController
}

// set tells whether there is a deadline to set.
func (d *deadline) set(at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.control != nil && d.control.SetReadDeadline(at) == nil
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.control = nil
}

func badBody(err error) answer {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return answer{http.StatusRequestTimeout, Bad, "the body took too long, or too many others were begun: send it at once"}
	}
	return answer{http.StatusBadRequest, Bad, "the body was cut off"}
}

func tooLarge() answer {
	return answer{http.StatusRequestEntityTooLarge, Bad, fmt.Sprintf("the body is larger than %d MiB", maxBodyBytes>>20)}
}
