package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/shares"
)

// patience is how long what has to happen may take on a machine that is busy.
const patience = 5 * time.Minute

func dial(t *testing.T, s *running) net.Conn {
	t.Helper()
	conn, err := tryDial(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func tryDial(t *testing.T, s *running) (net.Conn, error) {
	t.Helper()
	_, address, _ := strings.Cut(s.URL(), "://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// visit asks over a connection of its own. The reset may come while it is made.
func visit(t *testing.T, s *running) error {
	t.Helper()
	conn, err := tryDial(t, s)
	if err != nil {
		return err
	}
	return healthy(conn)
}

// healthy asks over a connection that stays open.
func healthy(conn net.Conn) error {
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func TestConnectionsBeyondTheLimitAreTurnedAwayAndTheOthersServed(t *testing.T) {
	t.Parallel()
	const limit = 3
	srv, log := newServer(t, Config{})
	srv.places.connections = limit
	s := run(t, srv, log)
	var in []net.Conn
	for range limit {
		conn := dial(t, s)
		if err := healthy(conn); err != nil {
			t.Fatal(err)
		}
		in = append(in, conn)
	}
	for range 2 * limit {
		if err := visit(t, s); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) &&
			!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("one too many: %v", err)
		}
	}
	for _, conn := range in {
		if err := healthy(conn); err != nil {
			t.Error(err)
		}
	}
	if text := log.String(); !strings.Contains(text, "too many connections") || !strings.Contains(text, "limit=3") {
		t.Errorf("the log says %s", text)
	}
	_ = in[0].Close()
	for end := time.Now().Add(patience); visit(t, s) != nil; {
		if time.Now().After(end) {
			t.Fatal("nobody is let in again")
		}
	}
}

func startTLS(t *testing.T) (*running, *http.Client) {
	t.Helper()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{CertFile: files.CertFile, KeyFile: files.KeyFile})
	return s, httpClient(t, client.Config{CAFile: files.CAFile})
}

func TestHandshakesThatStallHoldNobodyUp(t *testing.T) {
	t.Parallel()
	s, hc := startTLS(t)
	for range 200 { // far more than compute at a time
		if _, err := dial(t, s).Write([]byte{0x16, 3, 1, 2, 0, 1}); err != nil { // the head of a ClientHello
			t.Fatal(err)
		}
	}
	if resp, _ := request(t, hc, http.MethodGet, s.URL()+"/healthz", "", ""); resp.StatusCode != http.StatusOK ||
		resp.ProtoMajor != 2 {
		t.Errorf("got %s over %s", resp.Status, resp.Proto)
	}
}

func TestHandshakeThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a wait of 10 s")
	s, _ := startTLS(t)
	conn := dial(t, s)
	if _, err := conn.Write([]byte{0x16, 3, 1, 2, 0, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it is still open: %v", err)
	}
}

func TestHTTPToTheTLSPortIsTold(t *testing.T) {
	t.Parallel()
	s, _ := startTLS(t)
	conn := dial(t, s)
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // The answer may be cut off.
	if !strings.Contains(string(answer), "use https") {
		t.Errorf("got %q", answer)
	}
}

func TestOneNetworkHasNoMoreThanAShareOfConnectionsWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	srv, log := newServer(t, Config{}, rpcMounts(fine)...)
	srv.places.connections = fewPlaces
	s := run(t, srv, log)
	hc := http1Client(t, nil) // keeps its connection
	if resp, _ := request(t, hc, http.MethodGet, s.URL()+"/version", "user", ""); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	first := dial(t, s)
	if err := healthy(first); err != nil {
		t.Fatal(err)
	}
	for range fewPlaces / 2 {
		if err := healthy(dial(t, s)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadAll(first); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest is still there: %v", err)
	}
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet,
		s.URL()+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer user")
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK || !reused {
		t.Errorf("a connection on which somebody has shown an identity: %s, reused: %v", resp.Status, reused)
	}
}

// ask sends a request of a caller over a connection that stays open.
func ask(conn net.Conn, token string) (*http.Response, error) {
	if _, err := io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

func TestOneCallerHasNoMoreThanAShareOfConnections(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	var held []net.Conn
	for range connectionsPerAgent {
		conn := dial(t, s)
		if resp, err := ask(conn, "agent"); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		held = append(held, conn)
	}
	more := dial(t, s)
	resp, err := ask(more, "agent")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	if _, err := io.ReadAll(more); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is still open: %v", err)
	}
	for _, token := range []string{"user", "gitcache"} { // from the same address
		if resp, err := ask(dial(t, s), token); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s beside the agent: %v, %v", token, resp, err)
		}
	}
	for _, conn := range held {
		if resp, err := ask(conn, "agent"); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("a connection within the share: %v, %v", resp, err)
		}
	}
	_ = held[0].Close()
	for end := time.Now().Add(patience); ; {
		if resp, err := ask(dial(t, s), "agent"); err == nil && resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the place of a closed connection is not given back")
		}
	}
}

// A refused connection stays open while the server waits for the rest of its request. Until then it counts for its
// network: else one caller could have any number of them.
func TestARefusedConnectionStaysAStranger(t *testing.T) {
	t.Parallel()
	srv, log := newServer(t, Config{}, rpcMounts(fine)...)
	guests := make(chan *guest, 2*connectionsPerAgent)
	next := srv.http.ConnContext
	srv.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		ctx = next(ctx, c)
		g, _ := ctx.Value(guestKey{}).(*guest)
		guests <- g
		return ctx
	}
	s := run(t, srv, log)
	for range connectionsPerAgent {
		if resp, err := ask(dial(t, s), "agent"); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		if g := <-guests; g.place.Load() != nil {
			t.Fatal("a connection within the share is a stranger's")
		}
	}
	more := dial(t, s)
	if _, err := io.WriteString(more, "GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer agent\r\nContent-Length: 1000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(more), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	g := <-guests
	isStranger := g.place.Load() != nil
	// A close takes the place away, and marks the connection as gone before that.
	if isOpen := !g.gone.Load(); resp.StatusCode != http.StatusTooManyRequests || isOpen && !isStranger {
		t.Errorf("one more: %s, a stranger: %v", resp.Status, isStranger)
	}
}

// A proxy that is not trusted sends the requests of many callers over few connections: none of them fills the share of
// the first.
func TestAConnectionIsOfTheCallerOfItsNewestRequest(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	for range connectionsPerAgent + 1 {
		conn := dial(t, s)
		for _, token := range []string{"agent", "user"} {
			if resp, err := ask(conn, token); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(token, resp, err)
			}
		}
	}
}

func TestACallOverOneConnectionTooManyIsToldInHTTP2(t *testing.T) {
	t.Parallel()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	srv, log := newServer(t, Config{CertFile: files.CertFile, KeyFile: files.KeyFile}, rpcMounts(fine)...)
	srv.places.connections = noShares // a quarter of them for one agent
	s := run(t, srv, log)
	call := func() (*http.Response, string) {
		hc := httpClient(t, client.Config{CAFile: files.CAFile})
		return request(t, hc, http.MethodPost, s.URL()+deliveryv1connect.DeliveryServiceReportProcedure, "agent", "{}",
			"Content-Type", "application/json")
	}
	for range noShares / 4 {
		if resp, text := call(); resp.StatusCode == http.StatusTooManyRequests || resp.ProtoMajor != 2 {
			t.Fatal(resp.Status, resp.Proto, text)
		}
	}
	if resp, text := call(); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(text, "resource_exhausted") {
		t.Errorf("one more: %s %q", resp.Status, text)
	}
}

// A crowd of one network, such as agents behind one address, has more connections at once than strangers may have. No
// connection of them is cut with a request under way.
func TestACrowdOfOneNetworkIsServedWithoutCuts(t *testing.T) {
	t.Parallel()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with TLS", func(t *testing.T) {
		t.Parallel()
		comeAtOnce(t, Config{CertFile: files.CertFile, KeyFile: files.KeyFile}, httpClient(t, client.Config{CAFile: files.CAFile}))
	})
	t.Run("in clear text", func(t *testing.T) {
		t.Parallel()
		comeAtOnce(t, Config{}, http1Client(t, nil))
	})
}

// comeAtOnce sends the requests of a crowd.
func comeAtOnce(t *testing.T, cfg Config, hc *http.Client) {
	t.Helper()
	srv, log := newServer(t, cfg, rpcMounts(fine)...)
	srv.places.perNetwork, srv.places.newTime = 16, patience
	s := run(t, srv, log)
	var calls sync.WaitGroup
	for range 1000 {
		calls.Go(func() {
			// A client sends a GET again when its connection is cut.
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/version",
				strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer user")
			resp, err := hc.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed {
				t.Error(resp.Status)
			}
		})
	}
	calls.Wait()
}

// The time in which a connection is new may be over before anything else happens. Its turn is given back then, too.
func TestTheTurnOfANewConnectionEndsHoweverShortItsTime(t *testing.T) {
	t.Parallel()
	d := &door{arrivals: shares.NewLine(1)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range 20_000 {
		if err := d.arrivals.Take(ctx, "192.0.2.1"); err != nil {
			t.Fatalf("the turn before the %dth is held: %v", i, err)
		}
		g := &guest{TCPConn: &net.TCPConn{}, door: d, network: "192.0.2.1"}
		g.reads.Store(true) // what the caller does not send
		g.begin(time.Nanosecond)
	}
}

// Agents behind one address have a share each, and none together.
func TestManyCallersOfOneNetworkKeepTheirConnections(t *testing.T) {
	t.Parallel()
	srv, log := newServerWith(t, Config{}, func(d *Deps) { d.Verifier = fleet{} }, rpcMounts(fine)...)
	srv.places.perNetwork = 8
	s := run(t, srv, log)
	var held []net.Conn
	for i := range 2 * connectionsPerAgent {
		conn := dial(t, s)
		if resp, err := ask(conn, fmt.Sprint("agent-", i)); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(i, resp, err)
		}
		held = append(held, conn)
	}
	for i, conn := range held {
		if resp, err := ask(conn, fmt.Sprint("agent-", i)); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("agent %d again: %v, %v", i, resp, err)
		}
	}
}

// fleet takes a token for an agent of its name.
type fleet struct{ verifier }

func (fleet) Verify(token string) (identity.Identity, error) {
	return identity.Identity{Kind: identity.KindAgent, Name: token, ExpiresAt: time.Now().Add(time.Hour)}, nil
}
