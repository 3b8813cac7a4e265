package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/localca"
)

// patience is how long what has to happen may take on a machine that is busy.
const patience = time.Minute

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
	srv.connections = limit
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
		if err := visit(t, s); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
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
	if resp, _ := request(t, hc, http.MethodGet, s.URL()+"/healthz", "", ""); resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("got %s over %s", resp.Status, resp.Proto)
	}
}

func TestHandshakeThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
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
	answer, _ := io.ReadAll(conn) // It may be cut off.
	if !strings.Contains(string(answer), "use https") {
		t.Errorf("got %q", answer)
	}
}

func TestOneNetworkHasNoMoreThanAShareOfConnectionsWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	srv, log := newServer(t, Config{}, rpcMounts(fine)...)
	srv.connections = fewPlaces
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
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, s.URL()+"/version", nil)
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
