package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

const childEnv = "FAIRLEAD_TEST_AUDIT_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// console keeps events by id, as the real one does, and is away while down is set.
type console struct {
	mu     sync.Mutex // guards what follows
	down   error
	events map[string]*consolev1.AuditEvent
	calls  int
	news   chan struct{}
}

func newConsole() *console {
	return &console{events: map[string]*consolev1.AuditEvent{}, news: make(chan struct{}, 1)}
}

func (c *console) RecordAuditEvents(_ context.Context, req *consolev1.RecordAuditEventsRequest) (*consolev1.RecordAuditEventsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer signal(c.news)
	c.calls++
	if c.down != nil {
		return nil, c.down
	}
	if err := protovalidate.Validate(req); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	for _, e := range req.GetEvents() {
		if err := protovalidate.Validate(e); err != nil { // which the console does by itself
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		if e.GetReason() == "poison" {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("poison"))
		}
		c.events[e.GetId()] = e
	}
	return &consolev1.RecordAuditEventsResponse{}, nil
}

func (c *console) setDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

// await waits until ok holds of the events that the console has.
func (c *console) await(t *testing.T, what string, ok func(events []*consolev1.AuditEvent, calls int) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		c.mu.Lock()
		var list []*consolev1.AuditEvent
		for _, e := range c.events {
			list = append(list, e)
		}
		calls := c.calls
		c.mu.Unlock()
		if ok(list, calls) {
			return
		}
		select {
		case <-c.news:
		case <-deadline:
			t.Fatalf("not within a minute: %s; the console has %d events", what, len(list))
		}
	}
}

func named(events []*consolev1.AuditEvent, action string) (list []*consolev1.AuditEvent) {
	for _, e := range events {
		if e.GetAction() == action {
			list = append(list, e)
		}
	}
	return list
}

func open(t *testing.T, dir string, c Console) *Recorder {
	t.Helper()
	r, err := New(dir, c, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run lets a recorder work until stop, or the end of the test.
func run(t *testing.T, r *Recorder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func synced(t *testing.T, r *Recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Sync(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestEventsReachTheConsole(t *testing.T) {
	t.Parallel()
	c := newConsole()
	r := open(t, t.TempDir(), c)
	run(t, r)
	var recording sync.WaitGroup
	for i := range 4 {
		recording.Go(func() {
			for j := range 600 {
				r.Record(Event{Action: "test", Name: fmt.Sprint(i, j), Actor: Of(identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{"dev"}})})
			}
		})
	}
	recording.Wait()
	c.await(t, "all events", func(events []*consolev1.AuditEvent, _ int) bool { return len(events) == 2400 })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.GetActor().GetName() != "ada" || len(e.GetActor().GetGroups()) != 1 || time.Since(e.GetTime().AsTime()) > time.Hour {
			t.Fatalf("got %v", e)
		}
	}
}

func TestEventsWaitForTheConsole(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	c.setDown(connect.NewError(connect.CodeUnavailable, errors.New("down")))
	r := open(t, dir, c)
	stop := run(t, r)
	for range 3 {
		r.Record(Event{Action: "test"})
		synced(t, r)
	}
	c.await(t, "an attempt", func(_ []*consolev1.AuditEvent, calls int) bool { return calls > 0 })
	r.Record(Event{Action: "last"}) // written by the end of Run
	stop()
	c.setDown(nil)
	again := open(t, dir, c)
	run(t, again)
	c.await(t, "all events", func(events []*consolev1.AuditEvent, _ int) bool {
		return len(events) == 4 && len(named(events, "last")) == 1
	})
}

func TestFullSpoolIsCountedAndTold(t *testing.T) {
	t.Parallel()
	c := newConsole()
	c.setDown(connect.NewError(connect.CodeUnavailable, errors.New("down")))
	r := open(t, t.TempDir(), c)
	r.spool.max = 2000
	run(t, r)
	for range 50 {
		r.Record(Event{Action: "test", Reason: strings.Repeat("x", 100)})
		synced(t, r)
		r.mu.Lock()
		lost := r.lost
		r.mu.Unlock()
		if lost >= 2 {
			break
		}
	}
	c.setDown(nil)
	c.await(t, "what fits, and how many did not", func(events []*consolev1.AuditEvent, _ int) bool {
		lost := named(events, "audit.lost")
		return len(named(events, "test")) > 0 && len(lost) == 1 && strings.Contains(lost[0].GetReason(), "2 events are lost")
	})
}

func TestRefusedEventDoesNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	c := newConsole()
	r := open(t, t.TempDir(), c)
	for i := range 20 {
		r.Record(Event{Action: "test", Reason: map[bool]string{true: "poison"}[i == 7]})
	}
	run(t, r)
	c.await(t, "all but one", func(events []*consolev1.AuditEvent, _ int) bool {
		return len(named(events, "test")) == 19 && len(named(events, "audit.lost")) == 1
	})
}

func TestDamagedFileDoesNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	for i, data := range []string{"", magic, magic + strings.Repeat("x", 100)} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%016x%s", i, extension)), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir, c)
	r.Record(Event{Action: "test"})
	run(t, r)
	c.await(t, "the good one, and a word about the others", func(events []*consolev1.AuditEvent, _ int) bool {
		return len(named(events, "test")) == 1 && len(named(events, "audit.lost")) > 0
	})
}

func TestStrangeTextIsTakenIn(t *testing.T) {
	t.Parallel()
	c := newConsole()
	r := open(t, t.TempDir(), c)
	run(t, r)
	long := strings.Repeat("\x00é\xff\n", 5000)
	groups := make([]string, 100)
	for i := range groups {
		groups[i] = long
	}
	r.Record(Event{
		Action: "test", Actor: Actor{Kind: identity.KindUser, Name: long, Groups: groups}, Cluster: strings.Repeat("c", 63), Resource: long,
		Namespace: long, Name: long, Verb: long, Code: -5, TraceID: long, Remote: long, Reason: long, Request: long,
	})
	c.await(t, "the event", func(events []*consolev1.AuditEvent, _ int) bool { return len(named(events, "test")) == 1 })
}

// child records an event, waits until that is on the disk, says so, records another, and is killed.
func child(dir string) {
	r, err := New(dir, nobody{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return
	}
	go func() { _ = r.Run(context.Background()) }()
	for i := 0; ; i++ {
		r.Record(Event{Action: "test", Name: fmt.Sprint(i)})
		if err := r.Sync(context.Background()); err != nil {
			fmt.Fprintln(os.Stdout, err)
			return
		}
		fmt.Fprintln(os.Stdout, i)
	}
}

type nobody struct{}

func (nobody) RecordAuditEvents(context.Context, *consolev1.RecordAuditEventsRequest) (*consolev1.RecordAuditEventsResponse, error) {
	return nil, errors.New("nobody is there")
}

func TestSyncedEventSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told []string
	for lines := bufio.NewScanner(out); len(told) < 5 && lines.Scan(); {
		told = append(told, lines.Text())
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(told) < 5 {
		t.Fatalf("the child says %q", told)
	}
	c := newConsole()
	run(t, open(t, dir, c))
	c.await(t, "all that were acknowledged", func(events []*consolev1.AuditEvent, _ int) bool {
		have := map[string]bool{}
		for _, e := range events {
			have[e.GetName()] = true
		}
		for _, name := range told {
			if !have[name] {
				return false
			}
		}
		return true
	})
}

func FuzzSpoolFile(f *testing.F) {
	good, err := encode([]*consolev1.AuditEvent{Event{ID: NewID(), Time: time.Now(), Action: "test"}.Proto()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := decode(data); err != nil && !errors.Is(err, errDamaged) {
			t.Fatal(err)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	r, err := New(b.TempDir(), newConsole(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	for b.Loop() {
		r.Record(Event{Action: "tunnel.request", Actor: Actor{Kind: identity.KindUser, Name: "ada"}, Cluster: "edge-1", Resource: "pods", Verb: "list"})
	}
	cancel()
	<-done
}
