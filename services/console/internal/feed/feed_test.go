package feed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
)

type fixture struct {
	*Feed
	store *store.Store
	path  string
	stop  func()
}

func start(t *testing.T, opts store.Options) *fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "console.db")
	s, err := store.New("sqlite:"+path, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := New(s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop := func() {
		cancel()
		if done == nil {
			return
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		done = nil
	}
	t.Cleanup(func() {
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{Feed: h, store: s, path: path, stop: stop}
}

// put writes changes to one resource, in one commit.
func (f *fixture) put(t *testing.T, name string, times int) {
	t.Helper()
	err := f.store.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.Get(ctx, store.KindCluster, name)
		if errors.Is(err, store.ErrNotFound) {
			var list []store.Resource
			if list, err = tx.Create(ctx, store.Draft{
				Kind: store.KindCluster, Name: name, Spec: []byte(`{}`),
			}); err != nil {
				return err
			}
			r = list[0]
			times--
		}
		for i := 0; i < times && err == nil; i++ {
			r, err = tx.Update(ctx, r, store.Draft{
				Kind: store.KindCluster, Name: name, Spec: fmt.Appendf(nil, `{"i":%d}`, i),
			})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// follow returns the events of a stream, one by one: the stream goes on when one is taken.
func (f *fixture) follow(t *testing.T, token string) <-chan Event {
	t.Helper()
	events := make(chan Event)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- f.Stream(ctx, &Follower{Token: token, Send: func(e Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, ErrStopped) {
			t.Errorf("stream ended: %v", err)
		}
	})
	return events
}

func next(t *testing.T, events <-chan Event) Event {
	t.Helper()
	for {
		select {
		case e := <-events:
			if e.Kind != Heartbeat {
				return e
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing came")
		}
	}
}

func TestSlowFollowerHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	f := start(t, store.Options{})
	slow, quick := f.follow(t, ""), f.follow(t, "")
	if e := next(t, quick); e.Kind != Snapshot {
		t.Fatalf("got %+v", e)
	}
	const writes = 50
	for i := range writes { // each written, and each seen by the quick one, while the slow one takes nothing
		f.put(t, "a", 1)
		e := next(t, quick)
		if e.Kind != Delta || len(e.Changes) != 1 || e.Changes[0].Resource.Revision != int64(i+1) {
			t.Fatalf("write %d: got %+v", i, e)
		}
	}
	next(t, slow) // its snapshot, of before
	last := int64(0)
	for last < writes {
		for _, c := range next(t, slow).Changes {
			if c.Resource.Revision <= last {
				t.Fatalf("revision %d behind %d", c.Resource.Revision, last)
			}
			last = c.Resource.Revision
		}
	}
}

func TestFollowerGoesOnWhereItsTokenWasIssued(t *testing.T) {
	t.Parallel()
	f := start(t, store.Options{})
	f.put(t, "a", 1)
	token := next(t, f.follow(t, "")).Token
	const commits, writes = 20, 40 // several batches of the log
	for range commits {
		f.put(t, "b", writes)
	}
	f.put(t, "c", 1)
	events := f.follow(t, token)
	var last int64
	for {
		for _, c := range next(t, events).Changes {
			if c.Name == "c" && last == commits*writes {
				return
			}
			if c.Name != "b" || c.Resource.Revision <= last {
				t.Fatalf("%s at revision %d behind %d", c.Name, c.Resource.Revision, last)
			}
			last = c.Resource.Revision
		}
	}
}

// A heartbeat says that there is nothing newer: whoever must not act on old knowledge waits for it.
func TestHeartbeatComesAtOnceAndAfterWhatWasMissed(t *testing.T) {
	t.Parallel()
	f := start(t, store.Options{})
	f.put(t, "a", 1)
	other := f.follow(t, "")
	token := next(t, other).Token
	const writes = 2*batchSize + 1
	for range writes {
		f.put(t, "b", 1)
	}
	last := int64(0)
	for last < writes { // until the hub has read them all: what it knows is what a heartbeat speaks of
		for _, c := range next(t, other).Changes {
			last = c.Resource.Revision
		}
	}
	events := f.follow(t, token)
	for last = 0; ; {
		select {
		case e := <-events:
			for _, c := range e.Changes {
				last = c.Resource.Revision
			}
			if e.Kind != Heartbeat {
				continue
			}
			if last != writes {
				t.Errorf("a heartbeat at revision %d of %d", last, writes)
			}
			return
		case <-time.After(heartbeat * 9 / 10): // a stream that waits for its turn to beat is this late
			t.Fatal("no heartbeat came")
		}
	}
}

func TestMemoryOfChangesIsBounded(t *testing.T) {
	t.Parallel()
	h := New(nil, slog.New(slog.DiscardHandler))
	h.take(nil, store.Cursor{}, true)
	for seq := int64(1); seq <= 5*ringSize; seq++ {
		at := store.Cursor{Seq: seq, Nonce: fmt.Sprint(seq)}
		h.take([]store.Change{{Cursor: at}}, at, false)
		if len(h.ring) > 2*ringSize {
			t.Fatalf("the ring has %d changes", len(h.ring))
		}
	}
	// The changes behind each place that the view has follow without a gap, a batch at a time.
	for _, seq := range []int64{h.from, h.from + 1, h.end.Seq - 1} {
		view := h.after(place{store.Cursor{Seq: seq}, h.history})
		if !view.has || view.changes[0].Cursor.Seq != seq+1 || view.next.Seq != min(seq+batchSize, h.end.Seq) ||
			view.next.Nonce != fmt.Sprint(view.next.Seq) {
			t.Errorf("behind %d: %+v", seq, view)
		}
	}
	if view := h.after(place{h.end, h.history}); !view.has || len(view.changes) != 0 || view.next != h.end {
		t.Errorf("at the end: %+v", view)
	}
	for _, p := range []place{
		{store.Cursor{Seq: h.from - 1}, h.history},
		{store.Cursor{Seq: h.end.Seq + 1}, h.history},
		{h.end, h.history - 1},
	} {
		if view := h.after(p); view.has {
			t.Errorf("%+v: %+v", p, view)
		}
	}
}

func TestFollowerBeyondTheLogBeginsAgain(t *testing.T) {
	t.Parallel()
	f := start(t, store.Options{LogLimit: 10})
	f.put(t, "a", 1)
	token := next(t, f.follow(t, "")).Token
	f.put(t, "b", 20)
	if e := next(t, f.follow(t, token)); e.Kind != Snapshot || len(e.Changes) != 2 {
		t.Fatalf("got %+v", e)
	}
}

// TestDatabasePutBackToAnEarlierStateIsNoticed is what a restored backup, or a failover to a replica
// that lacks the last commits, looks like to a console that goes on running.
func TestDatabasePutBackToAnEarlierStateIsNoticed(t *testing.T) {
	t.Parallel()
	f := start(t, store.Options{})
	events := f.follow(t, "")
	next(t, events)
	f.put(t, "kept", 1)
	next(t, events)
	f.put(t, "lost", 3)
	if e := next(t, events); len(e.Changes) != 1 || e.Changes[0].Name != "lost" {
		t.Fatalf("got %+v", e)
	}
	db, err := sql.Open("sqlite", f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, stmt := range []string{
		"PRAGMA busy_timeout = 10000", "BEGIN IMMEDIATE", "DELETE FROM changes WHERE seq > 1",
		"DELETE FROM resources WHERE name = 'lost'", "UPDATE log SET seq = 1", "COMMIT",
	} {
		if _, err := db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	f.put(t, "other", 9) // beyond the number that the follower has
	for {
		e := next(t, events)
		if e.Kind == Delta { // the batch that was on its way
			t.Fatalf("changes of another history: %+v", e.Changes)
		}
		var names []string
		for _, c := range e.Changes {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got == "kept other" {
			return
		}
	}
}

func TestStreamsEndWithTheHub(t *testing.T) {
	t.Parallel()
	f := start(t, store.Options{})
	done := make(chan error, 1)
	began := make(chan struct{}, 10)
	go func() {
		done <- f.Stream(context.Background(), &Follower{Send: func(Event) error { began <- struct{}{}; return nil }})
	}()
	<-began
	f.stop()
	if err := <-done; !errors.Is(err, ErrStopped) {
		t.Fatalf("got %v", err)
	}
	if n := f.Streams(); n != 0 {
		t.Fatalf("%d streams are left", n)
	}
}

func FuzzToken(f *testing.F) {
	f.Add("12.abc")
	f.Add("")
	f.Add("-1.x")
	f.Fuzz(func(t *testing.T, token string) {
		at, ok := parseToken(token)
		if !ok {
			return
		}
		if again, ok := parseToken(Token(at)); !ok || again != at || at.Seq < 0 {
			t.Fatalf("%q became %+v", token, at)
		}
	})
}
