package status_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one replica's surroundings: the catalog, what it owns, the other replicas, the leases.
type world struct {
	mu        sync.Mutex // guards what follows
	published []status.Published
	states    map[string]owner.State
	copied    map[string]bool
	others    []*other
	holders   map[string]string
	lookups   int
}

func (w *world) view() *status.View {
	return status.NewView(status.Deps{
		Replica: "a",
		Published: func() []status.Published {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.published)
		},
		State: func(uid string) owner.State {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.states[uid]
		},
		Copied: func(p status.Published) bool { return w.copied[p.Name] },
		Others: func() []status.Peer {
			var all []status.Peer
			for _, o := range w.others {
				all = append(all, o)
			}
			return all
		},
		Holders: func(_ context.Context, keys []string) ([]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			holders := make([]string, len(keys))
			for i, key := range keys {
				w.lookups++
				holders[i] = w.holders[key]
			}
			return holders, nil
		},
	})
}

// other is another replica: it answers, fails, or hangs.
type other struct {
	name  string
	owns  []*status.Source
	err   error
	hangs bool

	mu    sync.Mutex // guards asked
	asked int
}

func (o *other) Name() string { return o.name }

func (o *other) Sources(ctx context.Context) ([]*status.Source, error) {
	o.mu.Lock()
	o.asked++
	o.mu.Unlock()
	if o.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return o.owns, o.err
}

func published(names ...string) (all []status.Published) {
	for _, name := range names {
		all = append(all, status.Published{UID: "uid-" + name, Name: name, URL: "https://git.example.com/" + name})
	}
	return all
}

func names(sources []*status.Source) (all []string) {
	for _, s := range sources {
		all = append(all, s.Name)
	}
	return all
}

func head(commit string) []mirror.Head {
	return []mirror.Head{{Ref: "HEAD", Commit: git.HashOf(strings.Repeat(commit, 40))}}
}

func TestAnyReplicaTellsWhatAllOwn(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	w := &world{
		published: published("here", "nobodys", "silent", "there"), copied: map[string]bool{"there": true},
		states: map[string]owner.State{"uid-here": {
			Owned: true, Epoch: 3, LastPoll: now,
			NextPoll: now.Add(time.Minute), Heads: head("1"), Problem: source.Problem{Message: "slow"},
		}},
		others: []*other{
			{name: "b", owns: []*status.Source{
				{Name: "there", Owner: "b", OwnedHere: true, Epoch: 7, LastPoll: now, Heads: head("2"), MirrorBytes: 5, URL: "https://forged.example.com/"},
				{Name: "here", Standbys: []string{"b"}},
				{Name: "unknown", Owner: "b", OwnedHere: true},
			}},
			{name: "c", err: errors.New("connection refused")},
		},
		holders: map[string]string{owner.LeaseKey("uid-silent"): "c"},
	}
	w.published[2].Heads = head("3")
	list, err := w.view().List(t.Context(), status.Query{Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(list.Sources)); got != "[here nobodys silent there]" || list.Total != 4 ||
		fmt.Sprint(list.Silent) != "[c]" {
		t.Fatalf("got %s of %d, silent %s", got, list.Total, list.Silent)
	}
	here, nobodys, silent, there := list.Sources[0], list.Sources[1], list.Sources[2], list.Sources[3]
	if here.Owner != "a" || !here.OwnedHere || here.Epoch != 3 || !here.NextPoll.Equal(now.Add(time.Minute)) ||
		here.Problem.Message != "slow" || fmt.Sprint(here.Standbys) != "[b]" {
		t.Errorf("here: %+v", here)
	}
	if nobodys.Owner != "" || nobodys.OwnedHere {
		t.Errorf("nobody's: %+v", nobodys)
	}
	if silent.Owner != "c" || !slices.EqualFunc(silent.Heads, head("3"), mirror.Head.Equal) ||
		!silent.LastPoll.IsZero() {
		t.Errorf("silent: %+v", silent)
	}
	if there.Owner != "b" || there.OwnedHere || there.Epoch != 7 || there.MirrorBytes != 5 ||
		fmt.Sprint(there.Standbys) != "[a]" || there.URL != "https://git.example.com/there" {
		t.Errorf("there: %+v", there)
	}
	if w.lookups != 2 {
		t.Errorf("%d leases were looked up", w.lookups)
	}
	one, ok, err := w.view().Source(t.Context(), "there")
	if err != nil || !ok || one.Epoch != 7 {
		t.Errorf("got %+v, %v, %v", one, ok, err)
	}
	if _, ok, _ := w.view().Source(t.Context(), "nope"); ok {
		t.Error("found what is not in the catalog")
	}
	mine, err := w.view().Mine(status.Query{Size: 10})
	if got := fmt.Sprint(names(mine.Sources)); err != nil || got != "[here there]" || mine.Sources[1].OwnedHere {
		t.Errorf("mine: %s, %v", got, err)
	}
}

func TestOfTwoOwnersTheLaterCounts(t *testing.T) {
	t.Parallel()
	w := &world{
		published: published("shop"), states: map[string]owner.State{"uid-shop": {Owned: true, Epoch: 4}},
		others: []*other{{name: "b", owns: []*status.Source{{Name: "shop", Owner: "b", OwnedHere: true, Epoch: 5}}}},
	}
	if s, _, err := w.view().Source(t.Context(), "shop"); err != nil || s.Owner != "b" || s.OwnedHere {
		t.Errorf("got %+v, %v", s, err)
	}
	w.others[0].owns[0].Epoch = 3
	if s, _, err := w.view().Source(t.Context(), "shop"); err != nil || s.Owner != "a" || !s.OwnedHere {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestAHungReplicaHoldsUpForSecondsAndOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{published: published("shop"), others: []*other{{name: "b", hangs: true}, {name: "c"}}}
		v := w.view()
		begin := time.Now()
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				if list, err := v.List(t.Context(), status.Query{Size: 1}); err != nil ||
					fmt.Sprint(list.Silent) != "[b]" {
					t.Errorf("got %+v, %v", list, err)
				}
			})
		}
		asking.Wait()
		if took := time.Since(begin); took > 3*time.Second || w.others[0].asked != 1 {
			t.Errorf("took %s, asked %d times", took, w.others[0].asked)
		}
		<-time.After(time.Minute)
		if _, err := v.List(t.Context(), status.Query{Size: 1}); err != nil || w.others[1].asked != 2 {
			t.Errorf("asked %d times, %v", w.others[1].asked, err)
		}
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	shop := &status.Source{
		Name: "shop-web", URL: "https://Git.example.com:8443/x", Owner: "a",
		Problem: source.Problem{Message: "down"},
	}
	free := &status.Source{Name: "free", URL: "ssh://other.example.com/x"}
	for text, want := range map[string][2]bool{
		"": {true, true}, "name:shop": {true, false}, "name:e": {true, true}, "host:git.": {true, false},
		"host:EXAMPLE": {true, true},
		"host:x":       {true, true}, "owner:a": {true, false}, "owner:none": {false, true},
		"problem:true":             {true, false},
		"problem:false":            {false, true},
		" name:e   problem:false ": {false, true}, "name:shop owner:none": {false, false}, "owner:b": {false, false},
	} {
		f, err := status.ParseFilter(text)
		if err != nil || f.Match(shop) != want[0] || f.Match(free) != want[1] {
			t.Errorf("%q: %v, %v, %v", text, f.Match(shop), f.Match(free), err)
		}
	}
	for _, text := range []string{"shop", "name:", ":x", "problem:maybe", "url:x", "name:a x"} {
		if _, err := status.ParseFilter(text); !refusal.Is(err, refusal.Invalid) || !strings.Contains(err.Error(), "filter: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPagesAreOrderedAndComplete(t *testing.T) {
	t.Parallel()
	w := &world{states: map[string]owner.State{}}
	for i := range 25 {
		p := published(fmt.Sprintf("s%02d", i))[0]
		w.published = append(w.published, p)
		if i%3 > 0 {
			w.states[p.UID] = owner.State{
				Owned: true, LastPoll: time.Unix(int64(1000-i%4), 0), NextPoll: time.Unix(int64(i%5), 0),
				StaleSince: time.Unix(int64(i%2), 0), UpstreamRequests: i % 6, MirrorBytes: int64(i % 7),
				MirrorPacks: i,
			}
		}
	}
	v := w.view()
	all := func(q status.Query) []string {
		t.Helper()
		var got []string
		for {
			list, err := v.List(t.Context(), q)
			if err != nil || list.Total != 25 {
				t.Fatalf("%+v: %d, %v", q, list.Total, err)
			}
			got = append(got, names(list.Sources)...)
			if list.Next == "" {
				return got
			}
			q.Token = list.Next
		}
	}
	for _, by := range []string{
		"", "name", "owner", "last_poll_time", "next_poll_time", "stale_since", "mirror_bytes",
		"upstream_requests_last_hour",
	} {
		up := all(status.Query{Size: 25, OrderBy: by})
		for size := 1; size < 8; size++ {
			if got := all(status.Query{Size: size, OrderBy: by}); !slices.Equal(got, up) {
				t.Errorf("%q by %d: got %s, want %s", by, size, got, up)
			}
		}
		if by == "" {
			continue
		}
		down := all(status.Query{Size: 4, OrderBy: by + " desc"})
		slices.Reverse(down)
		if !slices.Equal(down, up) {
			t.Errorf("%q desc: got %s, want %s", by, down, up)
		}
	}
	if got := all(status.Query{Size: 25, OrderBy: "last_poll_time desc"}); w.states["uid-"+got[0]].LastPoll.Unix() != 1000 {
		t.Errorf("got %s", got)
	}
	if s, _, err := v.Source(t.Context(), "s05"); err != nil || s.StaleSince.Unix() != 1 || s.UpstreamRequests != 5 ||
		s.MirrorBytes != 5 || s.MirrorPacks != 5 {
		t.Errorf("got %+v, %v", s, err)
	}
	list, err := v.List(t.Context(), status.Query{Size: 1, OrderBy: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []status.Query{
		{Size: 1, Token: list.Next},
		{Size: 1, Token: list.Next, OrderBy: "owner desc"},
		{Size: 1, Token: list.Next, OrderBy: "owner", Filter: "name:s"},
		{Size: 1, Token: "x"},
		{Size: 1, OrderBy: "size"},
		{Size: 1, OrderBy: "name down"},
		{Size: 1, OrderBy: "name desc desc"},
		{Size: 1, Filter: "x"},
	} {
		if _, err := v.List(t.Context(), q); !refusal.Is(err, refusal.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// watcher reads events when it is let.
type watcher struct {
	mu     sync.Mutex // guards what follows
	known  map[string]*status.Source
	beats  int
	synced int
	sent   int // sources
}

func (w *watcher) take(e status.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range e.Sources {
		w.known[s.Name] = s
	}
	w.sent += len(e.Sources)
	for _, name := range e.Gone {
		delete(w.known, name)
	}
	if e.Synced {
		w.synced++
	}
	if len(e.Sources)+len(e.Gone) == 0 && !e.Synced {
		w.beats++
	}
	return nil
}

func TestAWatchTellsWhatThereIsThenWhatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			published: published("a", "b", "c"),
			states:    map[string]owner.State{"uid-b": {Owned: true, Epoch: 1}}, others: []*other{{name: "b"}},
		}
		see := &watcher{known: map[string]*status.Source{}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.view().Watch(ctx, "owner:a", see.take) }()
		synctest.Wait()
		if len(see.known) != 1 || see.known["b"].Epoch != 1 || see.synced != 1 {
			t.Fatalf("got %+v", see)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if see.sent != 1 || see.beats < 4 || see.synced != 1 {
			t.Errorf("got %+v", see)
		}
		w.mu.Lock()
		w.states = map[string]owner.State{"uid-a": {Owned: true, Epoch: 2}}
		w.mu.Unlock()
		<-time.After(2 * time.Second)
		synctest.Wait()
		if len(see.known) != 1 || see.known["a"] == nil {
			t.Errorf("got %v", see.known)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := w.view().Watch(t.Context(), "x", see.take); err == nil {
			t.Error("a bad filter is taken")
		}
	})
}

func TestASlowWatcherGetsTheNewestAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{published: published("a"), states: map[string]owner.State{"uid-a": {Owned: true}}}
		v := w.view()
		slow, quick := &watcher{known: map[string]*status.Source{}}, &watcher{known: map[string]*status.Source{}}
		ctx, stop := context.WithCancel(t.Context())
		let := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			_ = v.Watch(ctx, "", func(e status.Event) error {
				select {
				case <-let:
				case <-ctx.Done():
				}
				return slow.take(e)
			})
		})
		watching.Go(func() { _ = v.Watch(ctx, "", quick.take) })
		for i := range 100 {
			w.mu.Lock()
			w.states["uid-a"] = owner.State{Owned: true, Epoch: int64(i)}
			w.mu.Unlock()
			<-time.After(time.Second)
		}
		synctest.Wait()
		if quick.sent < 50 {
			t.Errorf("the quick one got %d", quick.sent)
		}
		close(let)
		<-time.After(3 * time.Second)
		synctest.Wait()
		if slow.sent > 3 || slow.known["a"].Epoch != 99 {
			t.Errorf("the slow one got %d, the last of epoch %d", slow.sent, slow.known["a"].Epoch)
		}
		stop()
		watching.Wait()
	})
}

func FuzzQuery(f *testing.F) {
	w := &world{published: published("a", "b")}
	v := w.view()
	list, err := v.List(context.Background(), status.Query{Size: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(list.Next, "name:a host:b owner:none problem:true", "owner desc")
	f.Fuzz(func(t *testing.T, token, filter, order string) {
		list, err := v.List(t.Context(), status.Query{Size: 1, Token: token, Filter: filter, OrderBy: order})
		if err != nil && !refusal.Is(err, refusal.Invalid) || len(list.Sources) > 1 {
			t.Errorf("got %+v, %v", list, err)
		}
	})
}
