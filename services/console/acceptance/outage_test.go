package acceptance

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/console"
)

// gate stands between a console and its PostgreSQL: closed, it ends connections and lets none through.
type gate struct {
	to       string // a socket
	listener net.Listener

	mu    sync.Mutex // guards what follows
	open  bool
	conns map[net.Conn]bool
}

// newGate returns a gate before a database, and the database's URL through it.
func newGate(t *testing.T, db string) (*gate, string) {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{to: filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"), listener: l, conns: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.set(false)
		running.Wait()
	})
	u.Host, u.RawQuery = l.Addr().String(), "sslmode=disable"
	return g, u.String()
}

func (g *gate) pass(conn net.Conn) {
	defer conn.Close()
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if !open {
		return
	}
	to, err := net.Dial("unix", g.to)
	if err != nil {
		return
	}
	defer to.Close()
	g.mu.Lock()
	g.conns[conn], g.conns[to] = true, true
	open = g.open
	g.mu.Unlock()
	if !open {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, to}, {to, conn}} {
		both.Go(func() {
			_, _ = io.Copy(through{g, way[0]}, way[1])
			_ = conn.Close()
			_ = to.Close()
		})
	}
	both.Wait()
}

// through writes while the gate is open: when it closes, no connection is served longer than another.
type through struct {
	gate *gate
	to   io.Writer
}

func (t through) Write(p []byte) (int, error) {
	t.gate.mu.Lock()
	open := t.gate.open
	t.gate.mu.Unlock()
	if !open {
		return 0, net.ErrClosed
	}
	return t.to.Write(p)
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open = open; open {
		return
	}
	for conn := range g.conns {
		_ = conn.Close()
	}
	clear(g.conns)
}

func TestAConsoleWaitsForItsDatabaseAtTheStart(t *testing.T) {
	t.Parallel()
	g, db := newGate(t, postgres.Database(t))
	h := newHub(t, db)
	r := h.startWith(t, func(*console.Config) {}) // which fails the test if it ends
	await.True(t, "the word that it waits",
		func() bool { return strings.Contains(h.logs.String(), "the start waits: the database does not answer") })
	g.set(true)
	r.admin(t).putCluster(t, "edge-1")
	if text := h.logs.String(); !strings.Contains(text, "the database answers") ||
		strings.Contains(text, "level=ERROR") {
		t.Errorf("the log does not say that it is back, or has errors:\n%s", text)
	}
}

// A database that fails over is away for some seconds: one warning of each part that meets it, and no error.
func TestAShortLossOfTheDatabaseIsAWarningEach(t *testing.T) {
	t.Parallel()
	g, db := newGate(t, postgres.Database(t))
	g.set(true)
	h := newHub(t, db)
	r := h.start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	g.set(false)
	const lost = "the change log can't be read"
	await.True(t, "the loss", func() bool { return strings.Contains(h.logs.String(), lost) })
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); { // requests while it is away, until what looks every second has failed again
		res, err := newHTTPClient(t).Get(r.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("ready without a database: %d", res.StatusCode)
		}
		_, err = admin.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{})
		wantCode(t, err, connect.CodeUnavailable, "database does not answer")
	}
	g.set(true)
	await.True(t, "the end of the loss",
		func() bool { return strings.Contains(h.logs.String(), "the change log can be read again") })
	said := map[string]int{}
	for line := range strings.Lines(h.logs.String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("an error: %s", line)
		}
		if _, message, ok := strings.Cut(line, "level=WARN msg="); ok {
			said[strings.SplitN(message, " err=", 2)[0]]++
		}
	}
	for message, n := range said {
		if n > 1 {
			t.Errorf("%d times: %s", n, message)
		}
	}
}

// The console asks its database about an API token, and says so when the database is away.
func TestAnAPITokenWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	g, db := newGate(t, postgres.Database(t))
	g.set(true)
	r := newHub(t, db).start(t)
	made, err := r.admin(t).tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	g.set(false)
	program := r.as(t, made.GetToken())
	_, err = program.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{})
	wantCode(t, err, connect.CodeUnavailable, "catalog's database")
	g.set(true)
	await.True(t, "the token is good", func() bool {
		_, err := program.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{})
		return err == nil
	})
}
