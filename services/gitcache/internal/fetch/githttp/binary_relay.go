package githttp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	relayHeader = "Fairlead-Relay"
	// maxAskBytes of one request of git. The request is held in memory.
	maxAskBytes = 8 << 20
	// relayHeaderTime is for a program on this machine.
	relayHeaderTime = 10 * time.Second
)

// relay is what git talks to. The relay forwards the two requests that reading one repository takes, for those who know
// its token, and nothing else.
type relay struct {
	x     *exchange
	r     upstream.Remote
	token string
	limit func(io.Reader) *upstream.Capped // of one answer
	idle  func() *upstream.Watchdog        // for the time that upstream takes; nil: only the whole has a limit
	bytes atomic.Int64                     // of all answers

	mu     sync.Mutex // guards what follows
	base   *url.URL   // where the repository is after redirects
	failed error      // the first that went wrong with upstream
}

func newRelay(h *HTTP, r upstream.Remote, base *url.URL, limit func(io.Reader) *upstream.Capped) *relay {
	return &relay{x: h.newExchange(r, base), r: r, token: rand.Text(), base: base, limit: limit}
}

// endpoint is where git finds a relay.
type endpoint struct{ url, token string }

// serveWhile relays while do lasts, which ends with ctx. When it returns nothing is left of either.
func (y *relay) serveWhile(ctx context.Context, do func(ctx context.Context, at endpoint) error) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for git: %w", err)
	}
	var connections sync.WaitGroup
	server := &http.Server{
		Handler: y,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed:
				connections.Done()
			}
		},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: relayHeaderTime,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of requests are in failed
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	err = do(ctx, endpoint{"http://" + listener.Addr().String() + "/", y.token})
	_ = server.Close()
	<-served
	connections.Wait()
	return err
}

func (y *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if subtle.ConstantTimeCompare([]byte(req.Header.Get(relayHeader)), []byte(y.token)) != 1 {
		http.NotFound(w, req)
		return
	}
	var err error
	switch {
	case req.Method == http.MethodGet && req.URL.Path == "/info/refs" && req.URL.RawQuery == "service="+gitwire.UploadPack:
		err = y.relayList(w, req)
	case req.Method == http.MethodPost && req.URL.Path == "/"+gitwire.UploadPack:
		err = y.relayPack(w, req)
	default:
		http.NotFound(w, req)
		return
	}
	if err != nil {
		y.mu.Lock()
		if y.failed == nil {
			y.failed = err
		}
		y.mu.Unlock()
		panic(http.ErrAbortHandler) // git must not take half an answer for a whole one
	}
}

func (y *relay) relayList(w http.ResponseWriter, req *http.Request) error {
	u := y.r.URL.JoinPath("info", "refs")
	u.RawQuery = "service=" + gitwire.UploadPack
	up, err := upstream.NewRequest(req.Context(), y.r, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	resp, err := y.sendUpstream(y.x.FollowingClient(), up, req, listMediaType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	y.mu.Lock()
	y.base = afterRedirect(resp.Request.URL, y.r.URL)
	y.mu.Unlock()
	return y.copyAnswer(w, resp, y.x.limits.CapList)
}

func (y *relay) relayPack(w http.ResponseWriter, req *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxAskBytes))
	if err != nil {
		return fmt.Errorf("git asks for too much at once: %w", err)
	}
	up, err := upstream.NewRequest(req.Context(), y.r, http.MethodPost, y.upstreamURL().JoinPath(gitwire.UploadPack), body)
	if err != nil {
		return err
	}
	up.Header.Set("Content-Type", askMediaType)
	up.Header.Set("Accept", packMediaType)
	if encoding := req.Header.Get("Content-Encoding"); encoding == "gzip" {
		up.Header.Set("Content-Encoding", encoding)
	}
	resp, err := y.sendUpstream(y.x.StayingClient(), up, req, packMediaType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return y.copyAnswer(w, resp, y.limit)
}

func (y *relay) sendUpstream(client *http.Client, up, req *http.Request, mediaType string) (*http.Response, error) {
	if req.Header.Get(gitwire.ProtocolHeader) == gitwire.AskVersion2 {
		up.Header.Set(gitwire.ProtocolHeader, gitwire.AskVersion2)
	}
	if y.idle != nil {
		dog := y.idle()
		defer dog.StopTimer()
	}
	resp, err := client.Do(up)
	if err != nil {
		return nil, err
	}
	if err := checkAnswer(y.r, resp, mediaType); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func (y *relay) copyAnswer(w http.ResponseWriter, resp *http.Response, limit func(io.Reader) *upstream.Capped) error {
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.Header().Set("Cache-Control", "no-cache")
	var body io.Reader = resp.Body
	if y.idle != nil {
		dog := y.idle()
		defer dog.StopTimer()
		dog.Watch(body)
		body = dog
	}
	limited := limit(body)
	from := &failing{r: limited}
	defer func() { y.bytes.Add(limited.BytesTaken()) }()
	if _, err := io.Copy(w, from); err != nil && from.err != nil {
		return from.err // and not that git is gone, which git itself explains
	}
	return nil
}

// failing remembers how reading failed.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

func (y *relay) upstreamURL() *url.URL {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.base
}

func (y *relay) firstError() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.failed
}

// explainFailure is why git has no list: what went wrong with upstream, or else what git says.
func (y *relay) explainFailure(ctx context.Context, err error) error {
	failed := y.firstError()
	if known, ok := errors.AsType[*upstream.Error](failed); ok {
		return known
	}
	if failed == nil && ctx.Err() == nil {
		return gitwire.BrokenError(y.r, "list of refs", err)
	}
	return upstream.TransportError(ctx, y.r.URL.Host, y.x.limits.ListTime, errors.Join(failed, err))
}
