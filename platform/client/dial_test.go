package client_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
)

// connections are those that a server has had.
type connections struct{ made, closed atomic.Int64 }

// newTLSServer counts its connections.
func newTLSServer(t *testing.T, isHTTP2 bool, answer http.HandlerFunc) (*httptest.Server, *connections) {
	t.Helper()
	count := &connections{}
	s := httptest.NewUnstartedServer(answer)
	s.EnableHTTP2 = isHTTP2
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			count.made.Add(1)
		case http.StateClosed:
			count.closed.Add(1)
		default:
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, count
}

func newTLSClient(t *testing.T, s *httptest.Server) *http.Client {
	t.Helper()
	return newClient(t, client.Config{CAPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})})
}

// askTogether sends requests that all come while there is no answer to any of them yet.
func askTogether(t *testing.T, hc *http.Client, url string, many int) {
	t.Helper()
	var asks sync.WaitGroup
	for range many {
		asks.Go(func() {
			if err := ask(t.Context(), hc, url); err != nil {
				t.Error(err)
			}
		})
	}
	asks.Wait()
}

func ask(ctx context.Context, hc *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("question"))
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// An agent begins with a stream and a call: the two have one connection, and so have those after a cut.
func TestRequestsThatComeTogetherHaveOneConnection(t *testing.T) {
	t.Parallel()
	const many = 20
	var waits sync.WaitGroup // until all are there
	s, count := newTLSServer(t, true, func(http.ResponseWriter, *http.Request) {
		waits.Done()
		waits.Wait()
	})
	hc := newTLSClient(t, s)
	for round := range int64(3) {
		waits.Add(many)
		askTogether(t, hc, s.URL, many)
		if n := count.made.Load(); n != round+1 {
			t.Fatalf("%d connections after round %d", n, round+1)
		}
		await.True(t, "the connection is closed", func() bool {
			hc.CloseIdleConnections()
			return count.closed.Load() == round+1
		})
	}
}

// Over HTTP/1.1 each request that lasts needs a connection for itself.
func TestRequestsThatComeTogetherOverHTTP1AreAllAnswered(t *testing.T) {
	t.Parallel()
	const many = 20
	var waits sync.WaitGroup
	waits.Add(many)
	s, _ := newTLSServer(t, false, func(http.ResponseWriter, *http.Request) {
		waits.Done()
		waits.Wait()
	})
	askTogether(t, newTLSClient(t, s), s.URL, many)
}

// Where no connection can be made, all requests are told, and none waits for the others to try.
func TestRequestsToAHostThatIsDownFailTogether(t *testing.T) {
	t.Parallel()
	s, _ := newTLSServer(t, true, func(http.ResponseWriter, *http.Request) {})
	hc := newTLSClient(t, s)
	s.Close()
	var asks sync.WaitGroup
	for range 20 {
		asks.Go(func() {
			if err := ask(t.Context(), hc, s.URL); err == nil {
				t.Error("a host that is down has answered")
			}
		})
	}
	asks.Wait()
}

// A request whose caller has no more time does not wait for the connection of another one.
func TestARequestWaitsNoLongerThanItsCallerForAConnection(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // which answers no handshake
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hc := newClient(t, client.Config{})
	held, release := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { _ = ask(held, hc, "https://"+l.Addr().String()) })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := ask(ctx, hc, "https://"+l.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	release()
	first.Wait()
}
