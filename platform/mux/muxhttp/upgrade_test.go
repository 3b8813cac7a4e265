package muxhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/mux/muxhttp"
)

// upgradeServer is an API server that speaks whatever is asked for. talk gets its end of the connection.
func upgradeServer(t *testing.T, talk func(net.Conn, *bufio.ReadWriter)) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/forbidden" {
			w.Header().Set("Warning", `299 - "no"`)
			http.Error(w, "you may not exec", http.StatusForbidden)
			return
		}
		if !muxhttp.IsUpgrade(r.Header) || r.Header.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" {
			t.Errorf("the API server gets %v", r.Header)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: v4\r\n\r\nhello\n", r.Header.Get("Upgrade"))
		_ = rw.Flush()
		talk(conn, rw)
	}))
	t.Cleanup(s.Close)
	return s
}

// bothHops returns the address of a hub whose agent asks an API server, all with real connections at the ends.
func bothHops(t *testing.T, api *httptest.Server) *httptest.Server {
	t.Helper()
	to := api.Client().Transport.(*http.Transport).Clone()
	to.Protocols = new(http.Protocols)
	to.Protocols.SetHTTP1(true)
	t.Cleanup(to.CloseIdleConnections)
	var copier muxhttp.Copier
	answer := func(w http.ResponseWriter, r *http.Request, rt http.RoundTripper, base string) {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		var err error
		if out.URL, err = out.URL.Parse(base + r.URL.RequestURI()); err != nil {
			t.Error(err)
		}
		resp, err := rt.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusSwitchingProtocols {
			_, _, err = muxhttp.Splice(r.Context(), w, resp)
		} else {
			_, err = copier.Copy(w, resp)
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r, to, api.URL) })
	hub := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, tn.transport, "") }))
	t.Cleanup(hub.Close)
	return hub
}

// ask upgrades as kubectl does, and returns the connection after the 101's head, or the plain answer.
func ask(t *testing.T, hub *httptest.Server, path, more string) (*tls.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	d := tls.Dialer{Config: hub.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	d.Config.NextProtos = nil
	d.Config.ServerName = "example.com"
	conn, err := d.DialContext(t.Context(), "tcp", hub.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nSec-Websocket-Protocol: v5.channel.k8s.io\r\nContent-Length: 0\r\n\r\n%s", path, more)
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*tls.Conn), br, resp
}

func TestUpgradeIsAPipeOfBytesWithHalfClose(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	want := bytes.Repeat([]byte("fairlead "), size/9+1)[:size]
	sum := make(chan [32]byte, 1)
	hub := bothHops(t, upgradeServer(t, func(conn net.Conn, rw *bufio.ReadWriter) {
		// The client's direction is read to its end before anything but the greeting is said: the other direction is
		// still open then.
		h := sha256.New()
		if _, err := io.Copy(h, rw); err != nil {
			t.Error(err)
		}
		sum <- [32]byte(h.Sum(nil))
		if _, err := conn.Write(want); err != nil {
			t.Error(err)
		}
	}))
	conn, br, resp := ask(t, hub, "/exec", "early ")
	if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "SPDY/3.1" ||
		resp.Header.Get("X-Stream-Protocol-Version") != "v4" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	if line, err := br.ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := conn.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-sum; got != sha256.Sum256(append([]byte("early "), want...)) {
		t.Error("other bytes arrived than were sent")
	}
	got, err := io.ReadAll(br)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestAnswersThatAreNoUpgradeArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	hub := bothHops(t, upgradeServer(t, nil))
	_, _, resp := ask(t, hub, "/forbidden", "")
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusForbidden || string(b) != "you may not exec\n" ||
		resp.Header.Get("Warning") == "" {
		t.Errorf("%s %q %v", resp.Status, b, err)
	}
}

func TestUpgradedConnectionThatBreaksIsNoCleanEnd(t *testing.T) {
	t.Parallel()
	hub := bothHops(t, upgradeServer(t, func(conn net.Conn, rw *bufio.ReadWriter) {
		_, _ = rw.ReadString('\n')
		tcp := conn.(*tls.Conn).NetConn().(*net.TCPConn)
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}))
	conn, br, _ := ask(t, hub, "/exec", "")
	fmt.Fprintln(conn, "die")
	if b, err := io.ReadAll(br); err == nil {
		t.Errorf("a clean end after %q", b)
	}
}

func TestClientThatGoesIsToldToTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		gone := make(chan struct{})
		hub := bothHops(t, upgradeServer(t, func(_ net.Conn, rw *bufio.ReadWriter) {
			_, _ = io.Copy(io.Discard, rw)
			close(gone)
		}))
		conn, _, _ := ask(t, hub, "/exec", "")
		if !clean {
			_ = conn.NetConn().(*net.TCPConn).SetLinger(0)
			_ = conn.NetConn().Close()
		}
		_ = conn.Close()
		<-gone
	}
}

// The last words of a server arrive, even when it did not read all that it was told.
func TestServerMayEndFirst(t *testing.T) {
	t.Parallel()
	hub := bothHops(t, upgradeServer(t, func(conn net.Conn, rw *bufio.ReadWriter) {
		_, _ = io.WriteString(conn, strings.Repeat("x", 1<<20)+"exit 0")
		_ = conn.(*tls.Conn).CloseWrite()
		_, _ = io.Copy(io.Discard, rw)
	}))
	conn, br, _ := ask(t, hub, "/exec", "")
	b, err := io.ReadAll(br)
	if err != nil || !strings.HasSuffix(string(b), "exit 0") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := io.WriteString(conn, "more"); err != nil {
		t.Errorf("the client's direction has ended, too: %v", err)
	}
}

// gone is a server that has said its last words and takes nothing any more.
type gone struct{ io.Reader }

func (gone) Write([]byte) (int, error) { return 0, syscall.EPIPE }
func (gone) CloseWrite() error         { return syscall.EPIPE }
func (gone) Close() error              { return nil }

// kubectl's SPDY says goodbye to a server that has closed already. The answer arrives nevertheless, to its end.
func TestWhatIsSaidToAServerThatIsGoneBreaksNothing(t *testing.T) {
	t.Parallel()
	answered := make(chan error, 1)
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := gone{strings.NewReader(strings.Repeat("x", 4<<20) + "exit 0")}
		_, _, err := muxhttp.Splice(r.Context(), w,
			&http.Response{StatusCode: 101, Header: http.Header{"Upgrade": {"x"}}, Body: body})
		answered <- err
	})
	hub := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		resp, err := tn.transport.RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if _, _, err := muxhttp.Splice(r.Context(), w, resp); err != nil {
			t.Errorf("at the hub: %v", err)
		}
	}))
	t.Cleanup(hub.Close)
	conn, br, _ := ask(t, hub, "/exec", "this fails at the agent")
	for range 100 {
		if _, err := io.WriteString(conn, strings.Repeat("and this at the hub", 100)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(br)
	if err != nil || len(b) != 4<<20+len("exit 0") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	_ = conn.Close()
	if err := <-answered; err != nil {
		t.Errorf("at the agent: %v", err)
	}
}

func TestContextEndsAnUpgradedConnection(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		resp := &http.Response{
			StatusCode: 101, Header: http.Header{"Upgrade": {"x"}, "Connection": {"Upgrade"}},
			Body: newPair(t),
		}
		if _, _, err := muxhttp.Splice(r.Context(), w, resp); err == nil {
			t.Error("no error at the agent")
		}
		panic(http.ErrAbortHandler)
	})
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	req.Header = http.Header{"Upgrade": {"x"}, "Connection": {"Upgrade"}}
	resp, err := tn.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
}

// newPair is a connection on which nothing ever comes.
func newPair(t *testing.T) *net.TCPConn {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return conn.(*net.TCPConn)
}

// A body with an upgrade is a plain request: nobody knows where the body would end.
func TestUpgradeWithABodyIsNone(t *testing.T) {
	t.Parallel()
	tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%t %s %v", muxhttp.IsUpgrade(r.Header), b, err)
	})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
	req.Header = http.Header{"Upgrade": {"h2c"}, "Connection": {"Upgrade"}}
	resp, err := tn.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "false body <nil>" {
		t.Errorf("%s, %v", b, err)
	}
}

func TestAnswerHasToBeginInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		tn := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				w.(http.Flusher).Flush()
				<-time.After(time.Hour)
				_, _ = io.WriteString(w, "late, but begun in time")
				return
			}
			<-r.Context().Done()
			close(ended)
		})
		resp := tn.do(t, http.MethodGet, "/slow", nil)
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "late, but begun in time" {
			t.Errorf("%q, %v", b, err)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hangs", nil)
		if resp, err := tn.transport.RoundTrip(req); !errors.Is(err, muxhttp.ErrNoAnswer) {
			t.Errorf("RoundTrip: %v", err)
			if err == nil {
				resp.Body.Close()
			}
		}
		<-ended
	})
}
