package muxhttp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/mux/muxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var alice = muxhttp.Caller{
	User: "alice", Groups: []string{"dev", "ops"},
	Extra: map[string][]string{"scopes": {"a", "b"}}, TraceParent: "00-x",
}

type tunnel struct {
	transport muxhttp.Transport
	line      *muxtest.Carrier // the agent's end
}

// serve runs a session whose agent answers with h.
func serve(t *testing.T, h http.HandlerFunc) *tunnel {
	t.Helper()
	a, b := muxtest.Pipe()
	hub, err := mux.NewOpener(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := mux.NewAcceptor(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 3)
	go func() { _ = hub.Run(context.Background()); done <- struct{}{} }()
	go func() { _ = agent.Run(context.Background()); done <- struct{}{} }()
	go func() {
		_ = muxhttp.Serve(context.Background(), agent, h, slog.New(slog.DiscardHandler))
		done <- struct{}{}
	}()
	t.Cleanup(func() {
		hub.Close(mux.CodeNone, "")
		for range 3 {
			<-done
		}
	})
	<-hub.Ready()
	return &tunnel{transport: muxhttp.Transport{Session: hub, Caller: alice}, line: b}
}

func (tn *tunnel) do(t *testing.T, method, target string, body io.Reader) *http.Response {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, body)
	resp, err := tn.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestRequestArrivesAsSent(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		caller, ok := muxhttp.CallerFrom(r.Context())
		if !ok || !reflect.DeepEqual(caller, alice) {
			t.Errorf("caller %+v", caller)
		}
		if r.Method != "PATCH" || r.RequestURI != "/api/v1/x%2Fy?a=b&a=%2F" || r.URL.EscapedPath() != "/api/v1/x%2Fy" {
			t.Errorf("%s %s", r.Method, r.RequestURI)
		}
		if got := r.Header["Accept"]; !reflect.DeepEqual(got, []string{"a", "b"}) {
			t.Errorf("Accept %q", got)
		}
		for _, k := range []string{"Connection", "X-Hop", "Te", "Upgrade"} {
			if r.Header.Get(k) != "" {
				t.Errorf("%s came through", k)
			}
		}
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "question" || r.ContentLength != 8 {
			t.Errorf("body %q of %d, %v", b, r.ContentLength, err)
		}
		w.Header().Set("Warning", "299 - old")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Connection", "X-Hop")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "answer")
	})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/api/v1/x%2Fy?a=b&a=%2F",
		strings.NewReader("question"))
	req.Header = http.Header{
		"Accept": {"a", "b"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Te": {"trailers"},
		"Upgrade": {"x"},
	}
	resp, err := tn.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "answer" || resp.StatusCode != http.StatusTeapot {
		t.Errorf("%d %q %v", resp.StatusCode, b, err)
	}
	if resp.Header.Get("Warning") != "299 - old" || resp.Header.Get("X-Hop") != "" ||
		resp.Header.Get("Connection") != "" {
		t.Errorf("header %v", resp.Header)
	}
}

func TestResponsesWithoutBody(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/head":
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(make([]byte, 1000))
		case "/304":
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		case "/204":
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("write after 204: %v", err)
			}
		case "/empty":
		}
	})
	tests := []struct {
		method, path string
		status       int
		length       int64
	}{
		{"HEAD", "/head", 200, 1000}, {"GET", "/304", 304, -1}, {"GET", "/204", 204, -1}, {"GET", "/empty", 200, 0},
	}
	for _, tt := range tests {
		resp := tn.do(t, tt.method, tt.path, nil)
		b, err := io.ReadAll(resp.Body)
		if resp.StatusCode != tt.status || resp.ContentLength != tt.length || len(b) != 0 || err != nil {
			t.Errorf("%s %s: %d, length %d, %d bytes, %v", tt.method, tt.path, resp.StatusCode, resp.ContentLength,
				len(b), err)
		}
	}
}

func TestTrailersAndInformational(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if got := r.Trailer.Get("X-Sum"); got != "42" {
			t.Errorf("request trailer %q", got)
		}
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Set("Trailer", "X-Declared")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Declared", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	})
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code == http.StatusEarlyHints && h.Get("Link") == "</x>" {
			hints++
		}
		return nil
	}})
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", io.MultiReader(strings.NewReader("q")))
	req.ContentLength = -1
	req.Trailer = http.Header{"X-Sum": {"42"}}
	resp, err := tn.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, announced := resp.Trailer["X-Declared"]; !announced {
		t.Errorf("trailers announced: %v", resp.Trailer)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.Trailer.Get("X-Declared") != "1" || resp.Trailer.Get("X-Late") != "2" || hints != 1 {
		t.Errorf("trailers %v, %d hints", resp.Trailer, hints)
	}
}

// Both bodies flow at once: each line of the request is answered before the next is sent.
func TestFullDuplex(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		buf := make([]byte, 100)
		for {
			n, err := r.Body.Read(buf)
			if err != nil {
				return
			}
			_, _ = w.Write(bytes.ToUpper(buf[:n]))
		}
	})
	pr, pw := io.Pipe()
	resp := tn.do(t, http.MethodPost, "/", pr)
	buf := make([]byte, 100)
	for i := range 100 {
		msg := fmt.Sprintf("line %d", i)
		if _, err := io.WriteString(pw, msg); err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadFull(resp.Body, buf[:len(msg)])
		if err != nil || string(buf[:n]) != strings.ToUpper(msg) {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
	_ = pw.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestBigBodiesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(h, w), r.Body)
		if err != nil || n != size {
			t.Errorf("request of %d bytes, %v", n, err)
		}
	})
	want := bytes.Repeat([]byte("fairlead "), size/9+1)[:size]
	resp := tn.do(t, http.MethodPut, "/", bytes.NewReader(want))
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestCancelReachesTheHandler(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		ended <- r.Context().Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := tn.transport.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context: %v", err)
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("body: %v", err)
	}
}

func TestCancelBeforeTheResponse(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	tn := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(ended)
	})
	if _, err := tn.transport.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("RoundTrip: %v", err)
	}
	<-ended
}

func TestBodyClosedEarlyReachesTheHandler(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	tn := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	})
	resp := tn.do(t, http.MethodGet, "/", nil)
	resp.Body.Close()
	<-ended
}

func TestBrokenResponsesAreErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]http.HandlerFunc{
		"abort": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("half"))
			muxhttp.SetAbortCause(w, "API server went away")
			panic(http.ErrAbortHandler)
		},
		"panic": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("half"))
			panic("secret detail")
		},
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
		},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := make(chan struct{})
			tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				<-read
				h(w, r)
			})
			if name == "short" {
				tn = serve(t, h)
			}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			resp, err := tn.transport.RoundTrip(req)
			if err != nil {
				return // reset before the head was read: an error as well
			}
			defer resp.Body.Close()
			close(read)
			_, err = io.ReadAll(resp.Body)
			if err == nil || err == io.EOF { //nolint:errorlint // exactly EOF
				t.Fatalf("the response seems to end well: %v", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error tells too much: %v", err)
			}
			if name == "abort" && !strings.Contains(err.Error(), "API server went away") {
				t.Errorf("error has no cause: %v", err)
			}
		})
	}
}

func TestLostSessionBreaksTheResponse(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("half"))
		<-r.Context().Done()
	})
	resp := tn.do(t, http.MethodGet, "/", nil)
	if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_ = tn.line.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
}

func TestAnswerBeforeTheQuestionEnds(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too much")
	})
	pr, pw := io.Pipe()
	resp := tn.do(t, http.MethodPost, "/", pr)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "too much" {
		t.Errorf("%q, %v", b, err)
	}
	for { // the transport stops reading and closes the body
		if _, err := pw.Write(make([]byte, 1000)); err != nil {
			return
		}
	}
}

func TestRequestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	pr, pw := io.Pipe()
	tn := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadFull(r.Body, make([]byte, 4))
		if err == nil {
			_ = pw.CloseWithError(errors.New("disk on fire"))
			_, err = io.ReadAll(r.Body)
		}
		got <- err
	})
	go func() { _, _ = io.WriteString(pw, "half") }()
	if resp, err := tn.transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", pr)); err == nil {
		resp.Body.Close()
		t.Error("no error")
	}
	if err := <-got; err == nil {
		t.Error("the handler saw a clean end")
	}
}

func TestHeadersThatDoNotFit(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Big", strings.Repeat("x", mux.MaxHead))
		w.WriteHeader(http.StatusOK)
	})
	if resp, err := tn.transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)); err == nil {
		resp.Body.Close()
		t.Error("a huge response head came through")
	}
	for name, h := range map[string]http.Header{
		"large":     {"X-Big": {strings.Repeat("x", mux.MaxHead)}},
		"smuggling": {"X-A": {"1\r\nImpersonate-User: root"}},
		"bad name":  {"X A": {"1"}},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Header = h
		if resp, err := tn.transport.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s: sent", name)
		}
	}
}

func TestUpgradeNobodyAskedForIsAnError(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) })
	resp, err := tn.transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if err == nil {
		resp.Body.Close()
		t.Fatal("upgraded")
	}
	if !strings.Contains(err.Error(), "without being asked") {
		t.Errorf("error %v", err)
	}
}

// A watch sees each event when it is written, through the copier on both sides.
func TestCopierFlushesEachChunk(t *testing.T) {
	t.Parallel()
	events := make(chan string)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		for e := range events {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
		w.Header().Set(http.TrailerPrefix+"X-End", "bye")
	}))
	defer upstream.Close()
	var copier muxhttp.Copier
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, upstream.URL, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := upstream.Client().Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if _, err := copier.Copy(w, resp); err != nil {
			t.Error(err)
		}
	})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := tn.transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if _, err := copier.Copy(w, resp); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	resp, err := front.Client().Get(front.URL + "/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 20 {
		want := fmt.Sprintf(`{"event":%d}`, i)
		events <- want
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	close(events)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.Trailer.Get("X-End") != "bye" {
		t.Errorf("trailers %v", maps.Clone(resp.Trailer))
	}
}

// One small answer costs one batch each way.
func TestSmallExchangeIsOneBatchEachWay(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	})
	least := int64(100) // heartbeats may fall in between some
	for range 10 {
		before := tn.line.Sent()
		resp := tn.do(t, http.MethodGet, "/", nil)
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
			t.Fatalf("%q %v", b, err)
		}
		least = min(least, tn.line.Sent()-before)
	}
	if least > 1 {
		t.Errorf("%d batches for one small answer", least)
	}
}
