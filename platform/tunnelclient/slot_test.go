package tunnelclient_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient"
)

func TestRefusalsOfTheAPIServerArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	session := reachable(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Warning", `299 - "slow down"`)
		http.Error(w, "too many", http.StatusTooManyRequests)
	})
	resp, body := get(t, session, alice, "/api", nil)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "7" ||
		resp.Header.Get("Warning") == "" || body != "too many\n" {
		t.Errorf("%s %v %q", resp.Status, resp.Header, body)
	}
}

func TestUpgradesReachTheAPIServerAsTheCaller(t *testing.T) {
	t.Parallel()
	session := reachable(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || !muxhttp.IsUpgrade(r.Header) || r.Header.Get("Impersonate-User") != alice.User ||
			r.Header.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" {
			t.Errorf("%s %v", r.Proto, r.Header)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		b, err := io.ReadAll(rw)
		if err != nil {
			t.Error(err)
		}
		_, _ = conn.Write(slices.Concat([]byte("you said "), b))
	})
	resp, err := ask(t, session, alice, "/exec", http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Impersonate-User": {"evil"},
		"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.ZXZpbA, v5.channel.k8s.io"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	pipe, ok := resp.Body.(interface {
		io.ReadWriter
		CloseWrite() error
	})
	if resp.StatusCode != 101 || !ok {
		t.Fatalf("%s %T", resp.Status, resp.Body)
	}
	if _, err := io.WriteString(pipe, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := pipe.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(pipe); err != nil || string(b) != "you said hello" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	told := connect.NewError(connect.CodeResourceExhausted, nil)
	told.Meta().Set("Retry-After", "20")
	if d := tunnelclient.RetryAfter(fmt.Errorf("wrapped: %w", told)).Seconds(); d < 20 || d >= 40 {
		t.Errorf("%v s", d)
	}
	for _, wrong := range []string{"", "-1", "x"} {
		told.Meta().Set("Retry-After", wrong)
		if d := tunnelclient.RetryAfter(told); d != 0 {
			t.Errorf("%q: %v", wrong, d)
		}
	}
	if d := tunnelclient.RetryAfter(io.EOF); d != 0 {
		t.Errorf("another error: %v", d)
	}
}

// Requests that last have connections of their own, and so have upgrades.
func TestConnectionsToTheAPIServer(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen <- r.RemoteAddr + " " + r.Proto
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	transport, err := tunnelclient.NewTransport(func(http1 bool) (http.RoundTripper, error) {
		own := s.Client().Transport.(*http.Transport).Clone()
		own.DialContext = (&net.Dialer{}).DialContext
		if http1 {
			own.TLSClientConfig.NextProtos = []string{"http/1.1"}
			own.Protocols = new(http.Protocols)
			own.Protocols.SetHTTP1(true)
		}
		return own, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	kinds := map[string]map[string]bool{}
	for kind, target := range map[string]string{
		"plain": "/api?watch=false", "watch": "/api?watch", "log": "/log?follow=yes", "upgrade": "/exec",
	} {
		kinds[kind] = map[string]bool{}
		for range 6 {
			u, err := url.Parse(s.URL + target)
			if err != nil {
				t.Fatal(err)
			}
			req := (&http.Request{
				Method: http.MethodGet, URL: u, Header: http.Header{},
			}).WithContext(context.Background())
			if kind == "upgrade" {
				req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			kinds[kind][<-seen] = true
		}
	}
	for conn := range kinds["plain"] {
		if kinds["watch"][conn] || kinds["log"][conn] || kinds["upgrade"][conn] {
			t.Errorf("a connection of plain requests carries others: %v", kinds)
		}
	}
	if len(kinds["plain"]) != 2 || len(kinds["watch"]) != 2 {
		t.Errorf("connections: %v", kinds)
	}
	for conn := range kinds["upgrade"] {
		if conn[len(conn)-len("HTTP/1.1"):] != "HTTP/1.1" {
			t.Errorf("an upgrade over %s", conn)
		}
	}
}
