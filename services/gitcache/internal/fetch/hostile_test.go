package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch/githttp"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const listType = "application/x-git-upload-pack-advertisement"

// advertise writes a list of refs as a server with many does.
func advertise(w io.Writer, refs int) {
	line := func(s string) { _, _ = fmt.Fprintf(w, "%04x%s", len(s)+4, s) }
	line("# service=git-upload-pack\n")
	_, _ = io.WriteString(w, "0000")
	for i := range refs {
		caps := ""
		if i == 0 {
			caps = "\x00multi_ack side-band-64k ofs-delta no-progress agent=git/2.43.0"
		}
		line(fmt.Sprintf("%040x refs/heads/b%06d%s\n", i+1, i, caps))
	}
	_, _ = io.WriteString(w, "0000")
}

func TestHostileAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	const listTime = 500 * time.Millisecond
	patient := newFetcher(t, upstream.Options{Limits: upstream.Limits{ListBytes: 1 << 20}})
	impatient := newFetcher(t, upstream.Options{Limits: upstream.Limits{ListTime: listTime}})
	for name, tt := range map[string]struct {
		fault gittest.Fault
		kind  upstream.Kind
		words string
	}{
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) bool {
			for i := range 10_000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
			return true
		}, upstream.KindUnreachable, "is not reachable"},
		"a list without end": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", listType)
			advertise(w, 1<<15)
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("0", 1<<16))); err != nil {
					return true
				}
			}
			return true
		}, upstream.KindContent, "larger than the limit of 1 MiB"},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", listType)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			advertise(z, 1<<16)
			_ = z.Close()
			return true
		}, upstream.KindContent, "larger than the limit of 1 MiB"},
		"a byte now and then": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", listType)
			drip(w, r)
			return true
		}, upstream.KindTimeout, "did not answer within 500ms"},
		"an error page, a byte now and then": {func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			drip(w, r)
			return true
		}, upstream.KindServer, "500 from"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, upstream.KindTimeout, "did not answer within 500ms"},
		"early hints without end": {func(w http.ResponseWriter, r *http.Request) bool {
			for r.Context().Err() == nil {
				w.Header().Set("X", strings.Repeat("x", 10_000))
				w.WriteHeader(http.StatusEarlyHints)
			}
			return true
		}, upstream.KindUnreachable, "is not reachable"},
		"half a list": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", listType)
			w.Header().Set("Content-Length", "100000")
			var whole bytes.Buffer
			advertise(&whole, 10)
			_, _ = w.Write(whole.Bytes()[:whole.Len()-4])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, upstream.KindContent, "ends early"},
		"a list that ends, and an answer that does not": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", listType)
			advertise(w, 10)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}, "", ""},
		"half a ref": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", listType)
			_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000003f1234")
			return true
		}, upstream.KindContent, "it ends early"},
	} {
		server.SetFault(tt.fault)
		began := time.Now()
		f := patient
		if tt.kind == upstream.KindTimeout {
			f = impatient
		}
		_, err := f.List(t.Context(), remote(t, server.URL+"/shop.git"), gitwire.Names{})
		t.Log(name, "->", err)
		if tt.kind == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if tt.kind != "" {
			wantError(t, err, tt.kind, tt.words)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// drip sends a byte every now and then, as slow as can be without being silent.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	n := 0
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		_, _ = w.Write([]byte("001e# service=git-upload-pack\n0000"[n:][:1]))
		n = min(n+1, 31)
		w.(http.Flusher).Flush()
	}
}

func TestASlowPackEndsByDeadline(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	f := newFetcher(t, upstream.Options{Limits: upstream.Limits{FetchTime: 500 * time.Millisecond}})
	r := remote(t, repo.URL())
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = io.WriteString(w, gittest.PackBegins(r))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return true
			case <-tick.C:
			}
			_, _ = io.WriteString(w, "0005\x01") // alive, and nothing comes
			w.(http.Flusher).Flush()
		}
	})
	_, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, newMirror(t))
	wantError(t, err, upstream.KindTimeout, "was not done after 500ms")
}

func TestPollsInARowUseOneConnection(t *testing.T) {
	t.Parallel()
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			conns := 0
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if want := map[bool]int{false: 1, true: 2}[h2]; r.ProtoMajor != want {
					t.Errorf("spoke %s", r.Proto)
				}
				w.Header().Set("Content-Type", listType)
				advertise(w, 1000)
				w.(http.Flusher).Flush() // the end of the answer comes by itself
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				if state == http.StateNew {
					conns++
				}
			}
			s.EnableHTTP2 = h2
			s.StartTLS()
			t.Cleanup(s.Close)
			r := remote(t, s.URL+"/shop.git")
			r.Credentials.CA = authority(&gittest.Server{Server: s})
			f := newFetcher(t, upstream.Options{})
			for range 20 {
				if l, err := f.List(t.Context(), r, gitwire.Names{}); err != nil || len(l.Refs) != 1000 {
					t.Fatal(l, err)
				}
			}
			mu.Lock()
			if conns > 10 { // one, but for a machine that was busy with something else
				t.Errorf("20 polls took %d connections", conns)
			}
			mu.Unlock()
		})
	}
}

func TestEveryRequestToUpstreamIsCounted(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	e.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if path, ok := strings.CutPrefix(r.URL.RequestURI(), "/old/shop.git"); ok {
			http.Redirect(w, r, "/shop.git"+path, http.StatusFound)
			return true
		}
		return e.answer(w, r)
	})
	repo := e.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	var n atomic.Int64
	ctx := upstream.WithCounter(t.Context(), &n)
	f := newFetcher(t, upstream.Options{})
	l, err := f.List(ctx, e.remote("/old/shop.git"), gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Load(); got != 4 { // token, redirect, what the host can do, list
		t.Errorf("%d requests were counted", got)
	}
	if _, err := f.Fetch(ctx, e.remote("/old/shop.git"), l, []git.Hash{id}, newMirror(t)); err != nil {
		t.Fatal(err)
	}
	if got := n.Load(); got != 5 || int(got) != len(e.Log()) {
		t.Errorf("%d requests were counted, %d arrived", got, len(e.Log()))
	}
}

func TestThrottlingHoldsForTheWholeHost(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	server.SetFault(gittest.Status(429, "Retry-After", "90"))
	budget := upstream.NewBudget()
	f := newFetcher(t, upstream.Options{Budget: budget})
	_, err := f.List(t.Context(), remote(t, server.URL+"/one.git"), gitwire.Names{})
	wantError(t, err, upstream.KindThrottled, "429 from")
	// Another source, and another fetcher with the same budget.
	for _, other := range []*githttp.HTTP{f, newFetcher(t, upstream.Options{Budget: budget})} {
		_, err = other.List(t.Context(), remote(t, server.URL+"/two.git"), gitwire.Names{})
		wantError(t, err, upstream.KindThrottled, "asked to be left alone")
	}
	if n := len(server.Log()); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
	calm := gittest.NewServer(t)
	calm.NewRepo(t, "shop.git")
	if _, err := f.List(t.Context(), remote(t, calm.URL+"/shop.git"), gitwire.Names{}); err != nil {
		t.Errorf("another host: %v", err)
	}
}

func TestARedirectCountsForTheHostItLeadsTo(t *testing.T) {
	t.Parallel()
	busy, server := gittest.NewServer(t), gittest.NewServer(t)
	busy.SetFault(gittest.Status(429, "Retry-After", "90"))
	server.SetFault(gittest.Redirect(busy.URL))
	f := newFetcher(t, upstream.Options{})
	for range 2 {
		_, err := f.List(t.Context(), remote(t, server.URL+"/shop.git"), gitwire.Names{})
		wantError(t, err, upstream.KindThrottled, strings.TrimPrefix(busy.URL, "http://"))
	}
	if n := len(busy.Log()); n != 1 {
		t.Errorf("the busy host was asked %d times", n)
	}
}

func TestTheContextEndsAPoll(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	arrived := make(chan struct{})
	server.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		close(arrived)
		<-r.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := newFetcher(t, upstream.Options{}).List(ctx, remote(t, server.URL+"/shop.git"), gitwire.Names{}); err != context.Canceled { //nolint:errorlint // exactly the context's
		t.Errorf("got %v", err)
	}
}
