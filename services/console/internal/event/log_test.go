package event

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/store"
)

const patience = 5 * time.Minute

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}

type seesAll struct{}

func (seesAll) Viewer(context.Context, bool) (index.Sees, error) { return nil, nil }

// openLog is the log of a console that runs.
func openLog(t *testing.T, url string) (*Log, *store.Store) {
	t.Helper()
	s, err := store.New(url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := NewLog(s, seesAll{}, time.Now)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = s.Close()
	})
	return l, s
}

func overBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgres.Database(t))
	})
}

// tellMany records n events in small commits, each other one of type ClusterBack.
func tellMany(t *testing.T, s *store.Store, n int) {
	t.Helper()
	for from := 0; from < n; from += 100 {
		var list []store.Event
		for i := from; i < min(from+100, n); i++ {
			kind := []string{ClusterBack, ClusterLost}[i%2]
			list = append(list, stored(&consolev1.Event{Type: kind, Severity: info}, time.Now()))
		}
		if err := s.AddEvents(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
	}
}

var errEnough = errors.New("enough")

// follower notes what it is sent.
type follower struct {
	ids    []string
	resume string
	enough int           // how many end it
	stands chan struct{} // closed by the first message
	slow   <-chan struct{}
}

func (f *follower) send(events []*consolev1.Event, resume string) error {
	if f.resume == "" {
		close(f.stands)
	} else if f.slow != nil {
		<-f.slow
	}
	f.resume = resume
	for _, e := range events {
		f.ids = append(f.ids, e.GetId())
	}
	if len(f.ids) >= f.enough {
		return errEnough
	}
	return nil
}

// allIDs are the ids of all events of a type, in their order; empty: of any.
func allIDs(t *testing.T, s *store.Store, kind string) (ids []string) {
	t.Helper()
	if err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		list, _, err := v.EventsAfter(ctx, store.EventQuery{Type: kind}, 0, 1_000_000)
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// Followers are served from one reader's memory: whether they are quick, choosy, or so slow that all they missed has
// left it, each hears of everything once and in order.
func TestFollowersMissNothingAndHearNothingTwice(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		const total = 3 * tailSize
		l, s := openLog(t, url)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		release := make(chan struct{})
		followers := map[string]*follower{
			"quick": {enough: total}, "choosy": {enough: total / 2}, "slow": {enough: total, slow: release},
		}
		ended := make(chan error, len(followers))
		for name, f := range followers {
			f.stands = make(chan struct{})
			question := map[string]string{"choosy": "type = " + ClusterBack}[name]
			go func() {
				if err := l.Follow(ctx, question, "", f.send); !errors.Is(err, errEnough) {
					ended <- fmt.Errorf("%s ended after %d events: %w", name, len(f.ids), err)
					return
				}
				ended <- nil
			}()
			select {
			case <-f.stands:
			case err := <-ended:
				t.Fatal(err)
			}
		}
		tellMany(t, s, total)
		for range len(followers) - 1 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for name, f := range followers {
			want := allIDs(t, s, map[string]string{"choosy": ClusterBack}[name])
			if fmt.Sprint(f.ids) != fmt.Sprint(want) {
				t.Errorf("%s heard of %d events, not of the %d in their order", name, len(f.ids), len(want))
			}
		}
	})
}

// A follower that went goes on by its token behind what it was sent, though the reader stood still meanwhile.
func TestFollowersGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		l, s := openLog(t, url)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var ids []string
		token := "0"
		for range 5 {
			tellMany(t, s, 3)
			f := &follower{enough: 3, stands: make(chan struct{})}
			if err := l.Follow(ctx, "", token, f.send); !errors.Is(err, errEnough) {
				t.Fatal(err)
			}
			ids, token = append(ids, f.ids...), f.resume
		}
		if want := allIDs(t, s, ""); fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Errorf("heard %v, of %v", ids, want)
		}
	})
}

// What a follower missed is told as lost once a part of it was dropped, and to that follower only: one that has heard
// of all that is gone goes on.
func TestFollowersAreToldThatWhatTheyMissedIsGone(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		l, s := openLog(t, url)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		place := func() string {
			t.Helper()
			page, err := l.List(ctx, "", 1, "")
			if err != nil {
				t.Fatal(err)
			}
			return page.Resume
		}
		tellMany(t, s, 2)
		missed := place()
		tellMany(t, s, 2)
		heard := place()
		later := time.Now().Add(store.EventsKeep + time.Hour)
		week, err := store.New(url, store.Options{Now: func() time.Time { return later }})
		if err != nil {
			t.Fatal(err)
		}
		defer week.Close()
		last := stored(&consolev1.Event{Type: ClusterLost, Severity: info}, later)
		if err := week.AddEvents(ctx, last); err != nil {
			t.Fatal(err)
		}
		if left := allIDs(t, s, ""); len(left) != 1 {
			t.Fatalf("a week later there are %v", left)
		}
		for _, token := range []string{"0", missed} {
			f := &follower{enough: 1, stands: make(chan struct{})}
			if err := l.Follow(ctx, "", token, f.send); !errors.Is(err, ErrGone) || len(f.ids) > 0 {
				t.Errorf("behind %s it hears %v, %v", token, f.ids, err)
			}
		}
		f := &follower{enough: 1, stands: make(chan struct{})}
		if err := l.Follow(ctx, "", heard, f.send); !errors.Is(err, errEnough) ||
			fmt.Sprint(f.ids) != fmt.Sprint([]string{last.ID}) {
			t.Errorf("who heard of all that is gone hears %v, %v", f.ids, err)
		}
	})
}

// A follower that reads more slowly than events are dropped is told of the gap.
func TestFollowersAreToldThatEventsWereDroppedAheadOfThem(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		l, s := openLog(t, url)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		tellMany(t, s, readRows+100)
		later := time.Now().Add(store.EventsKeep + time.Hour)
		week, err := store.New(url, store.Options{Now: func() time.Time { return later }})
		if err != nil {
			t.Fatal(err)
		}
		defer week.Close()
		heard := 0
		err = l.Follow(ctx, "", "0", func(events []*consolev1.Event, _ string) error {
			if heard += len(events); heard != readRows {
				return errEnough
			}
			return week.AddEvents(ctx, stored(&consolev1.Event{Type: ClusterLost, Severity: info}, later))
		})
		if !errors.Is(err, ErrGone) || heard != readRows {
			t.Errorf("ended with %v after %d events", err, heard)
		}
	})
}

// An event that another console records over the same database is heard of, too.
func TestFollowersHearOfOtherConsoles(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	l, _ := openLog(t, url)
	_, other := openLog(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := &follower{enough: 10, stands: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx, "", "", f.send) }()
	<-f.stands
	tellMany(t, other, 10)
	if err := <-ended; !errors.Is(err, errEnough) {
		t.Error(err)
	}
}

// Silence must not be taken for "nothing happened".
func TestFollowersAreToldThatTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	l, s := openLog(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := &follower{enough: 1, stands: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx, "", "", f.send) }()
	<-f.stands
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || errors.Is(err, errEnough) || ctx.Err() != nil {
		t.Errorf("it ended with %v", err)
	}
}
