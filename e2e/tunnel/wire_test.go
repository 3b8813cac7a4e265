package tunnel

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dial opens a connection for bytes as they are given.
func (h *hub) dial(t testing.TB, part, protocol string) *tls.Conn {
	t.Helper()
	pem, err := os.ReadFile(h.ca.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	dialer := tls.Dialer{Config: &tls.Config{
		RootCAs: pool, MinVersion: tls.VersionTLS12,
		NextProtos: []string{protocol},
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", h.addr(part))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience)) // never fails on an open connection
	return conn.(*tls.Conn)
}

// moreWithin is how long a further answer may take: where none is expected, that long is waited for one.
const moreWithin = 3 * time.Second

// say sends bytes over a connection of their own, and returns the answers until the server closes it or is silent.
func (h *hub) say(t testing.TB, part, raw string) (codes []int, bodies string) {
	t.Helper()
	conn := h.dial(t, part, "http/1.1")
	go func() { _, _ = io.WriteString(conn, raw) }() // the part may close before it has read all
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return codes, bodies // closed, or no HTTP: no answer either way
		}
		if resp.StatusCode/100 == 1 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		codes, bodies = append(codes, resp.StatusCode), bodies+string(body)
		_ = conn.SetReadDeadline(time.Now().Add(moreWithin)) // never fails on an open connection
		if err != nil || resp.Close {
			return codes, bodies
		}
	}
}

// event is a request as the API server's audit log has it.
type event struct {
	RequestURI       string
	Verb             string
	UserAgent        string
	User             struct{ Username string }
	ImpersonatedUser *struct {
		Username string
		Groups   []string
	}
	RequestObject json.RawMessage
}

// audit returns the requests whose URI holds mark. A request that was answered is among them.
func audit(t testing.TB, mark string) []event {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(world.kube.Dir, "logs", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	var found []event
	for line := range strings.Lines(string(text)) {
		var e event
		if !strings.Contains(line, mark) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // half a line: of a request that goes on
		}
		if strings.Contains(e.RequestURI, mark) {
			found = append(found, e)
		}
	}
	return found
}
