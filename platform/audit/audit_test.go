package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
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

func (c *console) RecordAuditEvents(_ context.Context,
	req *consolev1.RecordAuditEventsRequest,
) (*consolev1.RecordAuditEventsResponse, error) {
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
				r.Record(Event{
					Action: "test", Name: fmt.Sprint(i, j),
					Actor: Of(identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{"dev"}}),
				})
			}
		})
	}
	recording.Wait()
	c.await(t, "all events", func(events []*consolev1.AuditEvent, _ int) bool { return len(events) == 2400 })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.GetActor().GetName() != "ada" || len(e.GetActor().GetGroups()) != 1 ||
			time.Since(e.GetTime().AsTime()) > time.Hour {
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
	longform.Only(t, "a wait of 5 s")
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
		lost := named(events, actionLost)
		return len(named(events, "test")) > 0 && len(lost) == 1 &&
			strings.Contains(lost[0].GetReason(), "2 events are lost at replica "+hostname(t)+": ")
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
		return len(named(events, "test")) == 19 && len(named(events, actionLost)) == 1
	})
}

// leftBehind is what a process leaves that recorded three events, each in a batch of its own, and where they end.
func leftBehind(t *testing.T, closed bool) (data []byte, ends []int) {
	t.Helper()
	for i := range 3 {
		record, err := encode([]*consolev1.AuditEvent{
			Event{ID: NewID(), Time: time.Now(), Action: "test", Name: fmt.Sprint(i)}.Proto(),
		})
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, record...)
		ends = append(ends, len(data))
	}
	if closed {
		data = append(data, closing()...)
	}
	return data, ends
}

// sent lets a recorder work on what another left until it has ended, and returns what the console then has.
func sent(t *testing.T, left []byte) (names string, lost []string) {
	t.Helper()
	c, dir := newConsole(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%016x%s", 7, extension)), left, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir, c)
	r.Record(Event{Action: "test", Name: "new"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil { // writes and sends all, and ends
		t.Fatal(err)
	}
	for i := range 10 {
		for _, e := range c.events {
			if e.GetAction() == "test" && e.GetName() == fmt.Sprint(i) {
				names += e.GetName()
			}
		}
	}
	if slices.ContainsFunc(named(slices.Collect(maps.Values(c.events)), "test"),
		func(e *consolev1.AuditEvent) bool { return e.GetName() == "new" }) {
		names += " new"
	}
	for _, e := range named(slices.Collect(maps.Values(c.events)), actionLost) {
		lost = append(lost, e.GetReason())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("all was sent, and there still are %v, %v", files, err)
	}
	return names, lost
}

// A process is killed, or the power goes, when so many bytes are on the disk.
func TestSegmentCutAtEachByteKeepsTheBatchesBefore(t *testing.T) {
	t.Parallel()
	data, ends := leftBehind(t, true)
	for cut := range len(data) {
		want := ""
		for i, end := range ends {
			if end <= cut {
				want += fmt.Sprint(i)
			}
		}
		if names, lost := sent(t, data[:cut]); names != want+" new" || len(lost) == 0 ||
			!strings.Contains(strings.Join(lost, "\n"), "was killed") {
			t.Errorf("cut at %d of %d: the console has %q, not %q, and %q is lost", cut, len(data), names, want+
				" new", lost)
		}
	}
	if names, lost := sent(t, data); names != "012 new" || len(lost) > 0 {
		t.Errorf("whole: the console has %q, and %q is lost", names, lost)
	}
}

// A process was killed in the middle of an append, and the console is away while others start and end.
func TestCutSegmentIsCountedOnce(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	c.setDown(connect.NewError(connect.CodeUnavailable, errors.New("down")))
	data, ends := leftBehind(t, false)
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%016x%s", 7, extension)), data[:ends[2]-1],
		0o600); err != nil {
		t.Fatal(err)
	}
	for start := range 20 {
		r := open(t, dir, c)
		stop := run(t, r)
		synced(t, r)
		stop()
		if lost, want := testutil.ToFloat64(r.total.WithLabelValues("lost")), map[bool]float64{
			true: 1,
		}[start == 0]; lost != want {
			t.Errorf("start %d counts %g as lost, want %g", start, lost, want)
		}
	}
	c.setDown(nil)
	r := open(t, dir, c)
	r.Record(Event{Action: "last"})
	run(t, r)
	c.await(t, "what was whole, and a word of the kill and one of the cut",
		func(events []*consolev1.AuditEvent, _ int) bool {
			if len(named(events, "last")) == 0 {
				return false
			}
			if whole, lost := named(events, "test"), named(events, actionLost); len(whole) != 2 || len(lost) != 2 {
				t.Errorf("the console has %v, and %v is lost", whole, lost)
			}
			return true
		})
}

// A cut does not end the segment well.
func TestCutSegmentStillTellsOfTheKill(t *testing.T) {
	t.Parallel()
	data, ends := leftBehind(t, true)
	for _, cut := range []int{ends[0] - 1, ends[2] - 1, ends[2] + 1} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%016x%s", 7, extension)), data[:cut],
			0o600); err != nil {
			t.Fatal(err)
		}
		open(t, dir, newConsole()) // and is killed before it writes
		if _, left, err := openSpool(dir); err != nil || !left.killed || len(left.damaged) > 0 {
			t.Errorf("cut at %d: killed %t, damaged %v, %v", cut, left.killed, left.damaged, err)
		}
	}
}

func TestDamageAtAnyByteIsTold(t *testing.T) {
	t.Parallel()
	data, ends := leftBehind(t, true)
	for at := range data {
		bad := slices.Clone(data)
		bad[at] ^= 0x10
		want := ""
		for i, end := range ends {
			if end <= at {
				want += fmt.Sprint(i)
			}
		}
		if names, lost := sent(t, bad); !strings.HasPrefix(names, want) || !strings.HasSuffix(names, " new") ||
			len(lost) == 0 {
			t.Errorf("damaged at %d of %d: the console has %q, which shall begin with %q, and %q is lost", at,
				len(data), names, want, lost)
		}
	}
}

// full makes a disk without room of the place where the next segment will be.
func full(t *testing.T, r *Recorder, dir string) (room func()) {
	t.Helper()
	at := filepath.Join(dir, fmt.Sprintf("%016x%s", r.spool.next, extension))
	if err := os.Symlink("/dev/full", at); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(at); err != nil {
			t.Error(err)
		}
	}
}

func TestWithAFullDiskEventsGoStraightToTheConsole(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	r := open(t, dir, c)
	room := full(t, r, dir)
	run(t, r)
	for i := range 3 {
		r.Record(Event{Action: "test"})
		c.await(t, "the event", func(events []*consolev1.AuditEvent, _ int) bool { return len(events) == i+1 })
	}
	if n := testutil.ToFloat64(r.total.WithLabelValues("spooled")); n > 0 {
		t.Errorf("the disk has taken %g events", n)
	}
	room()
	r.Record(Event{Action: "test"})
	c.await(t, "one that was on the disk", func(events []*consolev1.AuditEvent, _ int) bool {
		return len(events) == 4 && testutil.ToFloat64(r.total.WithLabelValues("spooled")) == 1
	})
}

func TestWithAFullDiskAndNoConsoleWhatIsLostIsTold(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	c.setDown(connect.NewError(connect.CodeUnavailable, errors.New("down")))
	r := open(t, dir, c)
	full(t, r, dir)
	stop := run(t, r)
	c.await(t, "an attempt", func(_ []*consolev1.AuditEvent, calls int) bool {
		r.Record(Event{Action: "test"})
		return calls > 0
	})
	for testutil.ToFloat64(r.total.WithLabelValues("lost")) < 5 {
		r.Record(Event{Action: "test"})
	}
	c.setDown(nil)
	c.await(t, "what there was room for, and how many there was none for",
		func(events []*consolev1.AuditEvent, _ int) bool {
			lost := named(events, actionLost)
			return len(named(events, "test")) == maxMemory && len(lost) == 1 &&
				strings.Contains(lost[0].GetReason(), "5 events are lost")
		})
	// An event that is in memory when the recorder has to end is lost, and the next recorder says so.
	c.setDown(connect.NewError(connect.CodeUnavailable, errors.New("down")))
	r.Record(Event{Action: "last"})
	stop()
	c.setDown(nil)
	run(t, open(t, dir, c))
	c.await(t, "a word about it",
		func(events []*consolev1.AuditEvent, _ int) bool { return len(named(events, actionLost)) == 2 })
}

// A long absence of the console fills many segments; all are sent, and none is left.
func TestSegmentsAreBegunAndRemoved(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	c.setDown(connect.NewError(connect.CodeUnavailable, errors.New("down")))
	r := open(t, dir, c)
	stop := run(t, r)
	const events = 6000
	for range events {
		r.Record(Event{Action: "test", Reason: strings.Repeat("x", 2000)})
	}
	synced(t, r)
	stop()
	if files, err := os.ReadDir(dir); err != nil || len(files) < 3 {
		t.Errorf("%d segments, %v", len(files), err)
	}
	c.setDown(nil)
	stop = run(t, open(t, dir, c))
	c.await(t, "all events and no other", func(all []*consolev1.AuditEvent, _ int) bool {
		return len(all) == events && len(named(all, "test")) == events
	})
	stop()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
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
		Action: "test", Actor: Actor{Kind: identity.KindUser, Name: long, Groups: groups},
		Cluster: strings.Repeat("c", 63), Resource: long,
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

func (nobody) RecordAuditEvents(context.Context,
	*consolev1.RecordAuditEventsRequest,
) (*consolev1.RecordAuditEventsResponse, error) {
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
		lost := named(events, actionLost)
		return len(lost) == 1 && strings.Contains(lost[0].GetReason(), "was killed")
	})
}

func TestKillBeforeTheFirstEventIsTold(t *testing.T) {
	t.Parallel()
	c, dir := newConsole(), t.TempDir()
	killed, _, err := openSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := killed.begin(); err != nil {
		t.Fatal(err)
	}
	run(t, open(t, dir, c))
	c.await(t, "a word about it",
		func(events []*consolev1.AuditEvent, _ int) bool { return len(named(events, actionLost)) == 1 })
}

func FuzzSegment(f *testing.F) {
	good, err := encode([]*consolev1.AuditEvent{Event{ID: NewID(), Time: time.Now(), Action: "test"}.Proto()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(closing())
	f.Add(slices.Concat(good, good, closing()))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &spool{}
		in := &segment{}
		whole, _, err := s.index(in, bytes.NewReader(data), int64(len(data)))
		if err != nil || in.size > int64(len(data)) || whole != (in.size == int64(len(data))) {
			t.Fatalf("whole %t, up to %d of %d: %v", whole, in.size, len(data), err)
		}
		var at int64
		for _, b := range s.batches {
			if b.at < at || b.at+b.size > in.size {
				t.Fatalf("%+v after %d of %d", b, at, in.size)
			}
			at = b.at + b.size
			if _, err := decode(data[b.at:at]); err != nil && !errors.Is(err, errDamaged) {
				t.Fatal(err)
			}
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
		r.Record(Event{
			Action: "tunnel.request", Actor: Actor{Kind: identity.KindUser, Name: "ada"}, Cluster: "edge-1",
			Resource: "pods", Verb: "list",
		})
	}
	cancel()
	<-done
}

func BenchmarkAppend(b *testing.B) {
	s, _, err := openSpool(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	events := make([]*consolev1.AuditEvent, 100)
	for i := range events {
		events[i] = Event{
			ID: NewID(), Time: time.Now(), Action: "tunnel.request", Cluster: "edge-1", Resource: "pods", Verb: "list",
		}.Proto()
	}
	for b.Loop() {
		if err := s.append(events); err != nil {
			b.Fatal(err)
		}
		s.drop()
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}
