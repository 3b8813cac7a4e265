package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/storetest"
)

func newTrail(t *testing.T) *audit.Log {
	t.Helper()
	s := storetest.SQLite(t)
	return audit.New(s)
}

func record(t *testing.T, trail *audit.Log, ids ...string) {
	t.Helper()
	for _, id := range ids {
		event := audittrail.Event{
			ID: id, Time: time.Now(), Actor: "user:ada", Action: "test.done",
			Event: fmt.Appendf(nil, `{"id":%q,"action":"test.done"}`, id),
		}
		if err := trail.Append(t.Context(), []audittrail.Event{event}); err != nil {
			t.Fatal(err)
		}
	}
}

// export runs an exporter until stop, or the end of the test.
func export(t *testing.T, trail *audit.Log, c Config, dir string) (stop func()) {
	t.Helper()
	to, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	e := New(trail, to, dir, metrics, slog.New(slog.DiscardHandler))
	e.pause = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// taken are the ids that a destination has got, in their order.
type taken struct {
	mu   sync.Mutex // guards ids
	ids  []string
	news chan struct{}
}

func newTaken() *taken { return &taken{news: make(chan struct{}, 1)} }

func (k *taken) add(line []byte) {
	var event struct{ ID string }
	if json.Unmarshal(line, &event) != nil {
		event.ID = "no JSON: " + string(line)
	}
	k.mu.Lock()
	k.ids = append(k.ids, event.ID)
	k.mu.Unlock()
	select {
	case k.news <- struct{}{}:
	default:
	}
}

func (k *taken) want(t *testing.T, ids ...string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		k.mu.Lock()
		got := slices.Clone(k.ids)
		k.mu.Unlock()
		if slices.Equal(got, ids) {
			return
		}
		select {
		case <-k.news:
		case <-deadline:
			t.Fatalf("got %q, want %q", got, ids)
		}
	}
}

// wantFile waits until a file has exactly these events.
func wantFile(t *testing.T, path string, ids ...string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		k := newTaken()
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			k.add([]byte(line))
		}
		if slices.Equal(k.ids, ids) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the file has %q, want %q (%v)", k.ids, ids, err)
		}
	}
}

func TestAFileGetsEachEventOnceOverRestartsAndRotation(t *testing.T) {
	t.Parallel()
	trail, dir := newTrail(t), t.TempDir()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, trail, "before")
	stop := export(t, trail, Config{To: "file://" + path}, dir)
	wantFile(t, path, "before")
	record(t, trail, "a", "b")
	wantFile(t, path, "before", "a", "b")
	stop()
	record(t, trail, "meanwhile")
	stop = export(t, trail, Config{To: "file://" + path}, dir)
	wantFile(t, path, "before", "a", "b", "meanwhile")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	record(t, trail, "rotated")
	wantFile(t, path, "rotated")
	stop()
}

// Events that went out of the trail before they were exported leave a line where they are missing.
func TestAGapIsSaidWhereItIs(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	var ago atomic.Int64
	clock := func() time.Time { return now.Add(-time.Duration(ago.Load())) }
	s, err := store.New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), store.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	trail := audit.New(s)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	written := func(days int64, id string) {
		t.Helper()
		ago.Store(days * int64(24*time.Hour))
		event := audittrail.Event{ID: id, Time: clock(), Action: "test.done", Event: fmt.Appendf(nil, `{"id":%q}`, id)}
		if err := trail.Append(t.Context(), []audittrail.Event{event}); err != nil {
			t.Fatal(err)
		}
	}
	written(300, "a")
	stop := export(t, trail, Config{To: "file://" + path}, dir)
	wantFile(t, path, "a")
	stop()
	written(150, "b") // takes the first one out of the trail: it was exported
	stop = export(t, trail, Config{To: "file://" + path}, dir)
	wantFile(t, path, "a", "b")
	stop()
	written(149, "c")
	written(0, "d")
	export(t, trail, Config{To: "file://" + path}, dir)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var text []byte
	for deadline := time.Now().Add(time.Minute); !bytes.HasSuffix(text, []byte(`{"id":"d"}`+"\n")); <-tick.C {
		if text, err = os.ReadFile(path); err != nil || time.Now().After(deadline) {
			t.Fatalf("%s, %v", text, err)
		}
	}
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 4 ||
		!strings.Contains(lines[2], `"action":"audit.gap"`) {
		t.Errorf("got %q", lines)
	}
}

func TestAnEndpointThatRefusesGetsTheEventsAgain(t *testing.T) {
	t.Parallel()
	trail, got := newTrail(t), newTaken()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var calls int
	var mu sync.Mutex // guards calls
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls++
		n := calls
		mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer s3cret" || r.Method != http.MethodPost || r.URL.Path != "/in" {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		switch n {
		case 1:
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		case 2:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			got.add(lines.Bytes())
		}
	}))
	t.Cleanup(srv.Close)
	record(t, trail, "a", "b")
	export(t, trail, Config{To: srv.URL + "/in", TokenFile: token}, t.TempDir())
	got.want(t, "a", "b")
	record(t, trail, "c")
	got.want(t, "a", "b", "c")
}

func TestASyslogServerThatGoesAwayGetsTheEventsAgain(t *testing.T) {
	t.Parallel()
	trail, got := newTrail(t), newTaken()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if n == 0 { // the server takes the bytes, and loses them
				_, _ = conn.Read(make([]byte, 1))
				_ = conn.Close()
				continue
			}
			go frames(conn, got)
		}
	}()
	record(t, trail, "a", "b")
	stop := export(t, trail, Config{To: "syslog+tcp://" + listener.Addr().String()}, t.TempDir())
	got.want(t, "a", "b")
	stop()
}

// frames reads messages with their lengths before them.
func frames(conn net.Conn, got *taken) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		length, err := in.ReadString(' ')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(length))
		if err != nil {
			got.add([]byte("no length: " + length))
			return
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(in, message); err != nil {
			return
		}
		head, event, ok := strings.Cut(string(message), " - test.done - ")
		if !ok || !strings.HasPrefix(head, "<110>1 2") || !strings.Contains(head, " fairlead-console") {
			got.add([]byte("no message: " + string(message)))
			return
		}
		got.add([]byte(event))
	}
}

func TestATrailThatWasPutBackIsExportedAgain(t *testing.T) {
	t.Parallel()
	trail, dir := newTrail(t), t.TempDir()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(filepath.Join(dir, cursorFile), []byte("1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	record(t, trail, "a", "b")
	export(t, trail, Config{To: "file://" + path}, dir)
	wantFile(t, path, "a", "b")
}

// By the time at which the exporter looks, a trail that was put back may be longer than what was exported of it.
func TestATrailThatWasPutBackAndGrewIsExportedAgain(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "audit.jsonl")
	before, after := newTrail(t), newTrail(t)
	record(t, before, "a", "b", "c")
	record(t, after, "a", "x", "y", "z")
	stop := export(t, before, Config{To: "file://" + path}, dir)
	wantFile(t, path, "a", "b", "c")
	stop()
	export(t, after, Config{To: "file://" + path}, dir)
	wantFile(t, path, "a", "b", "c", "a", "x", "y", "z")
}

func TestDestinationsThatCanNotBeAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{To: "audit.jsonl"},
		{To: "file://relative/name"},
		{To: "https://"},
		{To: "https://ada:s3cret@siem.example/"},
		{To: "syslog+tls://siem.example"},
		{To: "syslog+udp://siem.example:514"},
		{To: "syslog+tcp://siem.example:514/path"},
		{To: "ftp://siem.example/"},
		{TokenFile: "token"},
		{To: "https://siem.example/", CAFile: "/nowhere"},
	} {
		if _, err := c.Open(); err == nil || !strings.Contains(err.Error(), "--audit-export") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if to, err := (Config{}).Open(); to != nil || err != nil {
		t.Errorf("nothing given: %v, %v", to, err)
	}
}
