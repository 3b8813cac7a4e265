// Package coordinationtest holds the contract of coordination.Coordinator as tests that run over
// every implementation.
package coordinationtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
)

const (
	// short is a ttl whose end a test waits for.
	short = 300 * time.Millisecond
	// long is a ttl that outlives a test.
	long = 10 * time.Minute
	// patience bounds waits for what must happen: long, since test machines are busy.
	patience = time.Minute
)

// Open returns two coordinators over one fresh store, as two replicas would have. Open may return the same coordinator
// twice. The test closes neither.
type Open func(t *testing.T) (a, b coordination.Coordinator)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	tests := []struct {
		name string
		test func(t *testing.T, a, b coordination.Coordinator)
	}{
		{"a key has one holder", oneHolder},
		{"the holders of many keys are told at once", manyHolders},
		{"a released key is free", releaseFrees},
		{"releasing twice is no error and takes nothing from the next holder", releaseTwice},
		{"a lease that is not renewed ends before the key is free", expiry},
		{"a renewed lease lives on", renewal},
		{"a lease that is over can't be renewed", renewAfterEnd},
		{"epochs grow", epochsGrow},
		{"many contenders, one lease at a time", contention},
		{"odd names just work", oddNames},
		{"bad arguments are refused", badArguments},
		{"members come, change and leave", members},
		{"a member without heartbeat goes", memberExpiry},
		{"groups are apart", groupsApart},
		{"a message reaches every subscriber", fanOut},
		{"topics are apart", topicsApart},
		{"a slow subscriber blocks nobody", slowSubscriber},
		{"a subscription ends with its context", subscriptionEnds},
		{"an ended context ends operations", endedContext},
		{"close ends subscriptions", closeEnds},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			tt.test(t, a, b)
		})
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func within(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
}

func oneHolder(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	if h, err := a.Holder(ctx, "k"); h != "" || err != nil {
		t.Fatalf("holder of a free key: %q, %v", h, err)
	}
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", long))
	if !l.Valid() || l.Key() != "k" || l.Epoch() <= 0 {
		t.Errorf("fresh lease: valid %t, key %q, epoch %d", l.Valid(), l.Key(), l.Epoch())
	}
	for _, holder := range []string{"two", "one"} { // also the same holder
		_, err := b.Acquire(ctx, "k", holder, long)
		var held *coordination.HeldError
		if !errors.Is(err, coordination.ErrHeld) || !errors.As(err, &held) || held.Holder != "one" || held.Key != "k" {
			t.Errorf("second acquire as %q: %v", holder, err)
		}
	}
	if h, err := b.Holder(ctx, "k"); h != "one" || err != nil {
		t.Errorf("holder: %q, %v", h, err)
	}
	must[*coordination.Lease](t)(b.Acquire(ctx, "other", "two", long))
}

func manyHolders(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	if got := must[[]string](t)(a.Holders(ctx, nil)); len(got) != 0 {
		t.Errorf("holders of no keys: %q", got)
	}
	var keys, want []string
	for i := range 2500 { // more than a pipeline takes
		keys, want = append(keys, fmt.Sprintf("key %d", i)), append(want, "")
	}
	for _, i := range []int{0, 7, 2499} {
		want[i] = fmt.Sprintf("holder of %d", i)
		must[*coordination.Lease](t)(a.Acquire(ctx, keys[i], want[i], long))
	}
	if got := must[[]string](t)(b.Holders(ctx, keys)); !slices.Equal(got, want) {
		t.Errorf("%d holders, not as they should be", len(got))
	}
	if _, err := b.Holders(ctx, []string{"good", ""}); err == nil {
		t.Error("the holder of a key without a name")
	}
}

func releaseFrees(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", long))
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if l.Valid() {
		t.Error("a released lease is valid")
	}
	within(t, "Done after Release", l.Done())
	must[*coordination.Lease](t)(b.Acquire(ctx, "k", "two", long))
}

func releaseTwice(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	first := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", long))
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	second := must[*coordination.Lease](t)(b.Acquire(ctx, "k", "one", long))
	if err := first.Release(ctx); err != nil {
		t.Errorf("second release: %v", err)
	}
	if err := second.Renew(ctx); err != nil {
		t.Errorf("the next holder lost its lease: %v", err)
	}
	if h, _ := a.Holder(ctx, "k"); h != "one" {
		t.Errorf("holder: %q", h)
	}
}

func expiry(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", short))
	var next *coordination.Lease
	await.NoError(t, "the others see it", func() (err error) {
		next, err = b.Acquire(ctx, "k", "two", long)
		return err
	})
	if l.Valid() {
		t.Error("two leases of one key are valid")
	}
	within(t, "Done at the end", l.Done())
	if err := l.Renew(ctx); !errors.Is(err, coordination.ErrLost) {
		t.Errorf("renew of a lease that ran out: %v", err)
	}
	if err := l.Release(ctx); err != nil {
		t.Errorf("release of a lease that ran out: %v", err)
	}
	if !next.Valid() {
		t.Error("the old lease's release ended the new one")
	}
	if h, _ := b.Holder(ctx, "k"); h != "two" {
		t.Errorf("holder: %q", h)
	}
}

func renewal(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	const ttl = 3 * time.Second // a busy machine must not lose it
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", ttl))
	end := time.After(ttl + ttl/2)
	for renewing := true; renewing; {
		select {
		case <-l.Done():
			t.Fatal("lease ended although it was renewed")
		case <-end:
			renewing = false
		case <-time.After(ttl / 10):
			if err := l.Renew(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := b.Acquire(ctx, "k", "two", ttl); !errors.Is(err, coordination.ErrHeld) {
		t.Errorf("acquire of a renewed lease's key: %v", err)
	}
	within(t, "Done after the last renewal ran out", l.Done())
}

func renewAfterEnd(t *testing.T, a, _ coordination.Coordinator) {
	ctx := t.Context()
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", long))
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(ctx); !errors.Is(err, coordination.ErrLost) {
		t.Errorf("renew after release: %v", err)
	}
	if h, _ := a.Holder(ctx, "k"); h != "" {
		t.Errorf("a renewal brought a released lease back: holder %q", h)
	}
}

func epochsGrow(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	var last int64
	for i := range 20 {
		l := must[*coordination.Lease](t)([]coordination.Coordinator{a, b}[i%2].Acquire(ctx, "k", "one", long))
		if l.Epoch() <= last {
			t.Fatalf("epoch %d after %d", l.Epoch(), last)
		}
		last = l.Epoch()
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func contention(t *testing.T, a, b coordination.Coordinator) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const contenders, turns = 8, 5
	var mu sync.Mutex
	inside, lastEpoch := 0, int64(0)
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			c := []coordination.Coordinator{a, b}[i%2]
			for turn := 0; turn < turns; {
				l, err := c.Acquire(ctx, "k", fmt.Sprint("contender", i), long)
				if errors.Is(err, coordination.ErrHeld) {
					continue
				}
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				mu.Lock()
				inside++
				if inside != 1 || l.Epoch() <= lastEpoch {
					t.Errorf("%d holders, epoch %d after %d", inside, l.Epoch(), lastEpoch)
				}
				lastEpoch = l.Epoch()
				inside--
				mu.Unlock()
				if err := l.Release(ctx); err != nil {
					t.Errorf("release: %v", err)
					return
				}
				turn++
			}
		})
	}
	wg.Wait()
}

func oddNames(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	names := []string{
		"a}b", "{a}b", "a b", "a:epoch", "a", "*", "'", `"`, "ünïcode", "a/b", "a%2Fb", "..", "\xff\xfe",
		strings.Repeat("x", coordination.MaxNameBytes),
	}
	for _, name := range names {
		must[*coordination.Lease](t)(a.Acquire(ctx, name, "holder "+name[:1], long))
		if h, err := b.Holder(ctx, name); h != "holder "+name[:1] || err != nil {
			t.Errorf("holder of %q: %q, %v", name, h, err)
		}
		if err := a.Join(ctx, name, coordination.Member{ID: "m"}, long); err != nil {
			t.Errorf("join %q: %v", name, err)
		}
		if m, err := b.Members(ctx, name); len(m) != 1 || err != nil {
			t.Errorf("members of %q: %v, %v", name, m, err)
		}
		got := must[<-chan []byte](t)(b.Subscribe(ctx, name))
		if err := a.Publish(ctx, name, []byte(name)); err != nil {
			t.Errorf("publish to %q: %v", name, err)
		}
		if m := string(receive(t, got)); m != name {
			t.Errorf("topic %q: got %q", name, m)
		}
	}
}

func badArguments(t *testing.T, a, _ coordination.Coordinator) {
	ctx := t.Context()
	tooLong := strings.Repeat("x", coordination.MaxNameBytes+1)
	tooBig := make([]byte, coordination.MaxPayloadBytes+1)
	for name, call := range map[string]func() error{
		"empty key":       func() error { _, err := a.Acquire(ctx, "", "h", long); return err },
		"empty holder":    func() error { _, err := a.Acquire(ctx, "k", "", long); return err },
		"long key":        func() error { _, err := a.Acquire(ctx, tooLong, "h", long); return err },
		"control in key":  func() error { _, err := a.Acquire(ctx, "k\x00", "h", long); return err },
		"no ttl":          func() error { _, err := a.Acquire(ctx, "k", "h", 0); return err },
		"endless ttl":     func() error { _, err := a.Acquire(ctx, "k", "h", 1000*time.Hour); return err },
		"empty key read":  func() error { _, err := a.Holder(ctx, ""); return err },
		"no member id":    func() error { return a.Join(ctx, "g", coordination.Member{}, long) },
		"no member ttl":   func() error { return a.Join(ctx, "g", coordination.Member{ID: "m"}, 0) },
		"no group":        func() error { return a.Join(ctx, "", coordination.Member{ID: "m"}, long) },
		"big member":      func() error { return a.Join(ctx, "g", coordination.Member{ID: "m", URL: string(tooBig)}, long) },
		"big message":     func() error { return a.Publish(ctx, "t", tooBig) },
		"empty topic":     func() error { return a.Publish(ctx, "", nil) },
		"empty subscribe": func() error { _, err := a.Subscribe(ctx, ""); return err },
	} {
		if err := call(); err == nil || errors.Is(err, coordination.ErrHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ids(members []coordination.Member) []string {
	out := []string{}
	for _, m := range members {
		out = append(out, m.ID)
	}
	return out
}

func members(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	if m, err := a.Members(ctx, "g"); len(m) != 0 || err != nil {
		t.Fatalf("members of nothing: %v, %v", m, err)
	}
	join := func(c coordination.Coordinator, m coordination.Member) {
		t.Helper()
		if err := c.Join(ctx, "g", m, long); err != nil {
			t.Fatal(err)
		}
	}
	join(b, coordination.Member{ID: "two", URL: "https://two", Meta: map[string]string{"zone": "b"}})
	join(a, coordination.Member{ID: "one", URL: "https://one"})
	join(a, coordination.Member{ID: "one", URL: "https://one:2"}) // the heartbeat changes it
	got := must[[]coordination.Member](t)(b.Members(ctx, "g"))
	if !slices.Equal(ids(got), []string{"one", "two"}) || got[0].URL != "https://one:2" || got[1].Meta["zone"] != "b" {
		t.Errorf("members: %+v", got)
	}
	for _, id := range []string{"one", "stranger"} {
		if err := b.Leave(ctx, "g", id); err != nil {
			t.Errorf("leave %s: %v", id, err)
		}
	}
	if got := must[[]coordination.Member](t)(a.Members(ctx, "g")); !slices.Equal(ids(got), []string{"two"}) {
		t.Errorf("after leave: %v", ids(got))
	}
}

func memberExpiry(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	for id, ttl := range map[string]time.Duration{"gone": short, "stays": long} {
		if err := a.Join(ctx, "g", coordination.Member{ID: id}, ttl); err != nil {
			t.Fatal(err)
		}
	}
	await.NoError(t, "the others see it", func() error {
		if got := ids(must[[]coordination.Member](t)(b.Members(ctx, "g"))); !slices.Equal(got, []string{"stays"}) {
			return fmt.Errorf("members: %v", got)
		}
		return nil
	})
	// The short one must not have shortened the group's life, nor its heartbeat the long one's.
	if err := a.Join(ctx, "g", coordination.Member{ID: "gone"}, short); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "the others see it", func() error {
		if got := ids(must[[]coordination.Member](t)(b.Members(ctx, "g"))); !slices.Equal(got, []string{"stays"}) {
			return fmt.Errorf("members: %v", got)
		}
		return nil
	})
}

func groupsApart(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	if err := a.Join(ctx, "g", coordination.Member{ID: "m"}, long); err != nil {
		t.Fatal(err)
	}
	if got := must[[]coordination.Member](t)(b.Members(ctx, "g2")); len(got) != 0 {
		t.Errorf("members of another group: %v", got)
	}
}

func receive(t *testing.T, ch <-chan []byte) []byte {
	t.Helper()
	select {
	case m, ok := <-ch:
		if !ok {
			t.Fatal("subscription was closed")
		}
		return m
	case <-time.After(patience):
		t.Fatalf("no message within %s", patience)
	}
	return nil
}

func fanOut(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	var subscriptions []<-chan []byte
	for _, c := range []coordination.Coordinator{a, a, b} {
		subscriptions = append(subscriptions, must[<-chan []byte](t)(c.Subscribe(ctx, "t")))
	}
	for _, payload := range []string{"one", "", "\x00\xff"} {
		if err := b.Publish(ctx, "t", []byte(payload)); err != nil {
			t.Fatal(err)
		}
		for i, s := range subscriptions {
			got := receive(t, s)
			if string(got) != payload {
				t.Errorf("subscriber %d: got %q, want %q", i, got, payload)
			}
			for j := range got {
				got[j] = '!' // its own copy
			}
		}
	}
}

func topicsApart(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	one := must[<-chan []byte](t)(a.Subscribe(ctx, "one"))
	two := must[<-chan []byte](t)(a.Subscribe(ctx, "two"))
	for _, topic := range []string{"three", "two", "one"} {
		if err := b.Publish(ctx, topic, []byte(topic)); err != nil {
			t.Fatal(err)
		}
	}
	if m := string(receive(t, one)); m != "one" {
		t.Errorf("topic one: got %q", m)
	}
	if m := string(receive(t, two)); m != "two" {
		t.Errorf("topic two: got %q", m)
	}
}

func slowSubscriber(t *testing.T, a, b coordination.Coordinator) {
	ctx := t.Context()
	must[<-chan []byte](t)(a.Subscribe(ctx, "t")) // never read
	quick := must[<-chan []byte](t)(a.Subscribe(ctx, "t"))
	for i := range 1000 {
		if err := b.Publish(ctx, "t", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if m := string(receive(t, quick)); m != fmt.Sprint(i) {
			t.Fatalf("quick subscriber: got %s, want %d", m, i)
		}
	}
}

func subscriptionEnds(t *testing.T, a, b coordination.Coordinator) {
	ctx, cancel := context.WithCancel(t.Context())
	ends := must[<-chan []byte](t)(a.Subscribe(ctx, "t"))
	stays := must[<-chan []byte](t)(a.Subscribe(t.Context(), "t"))
	cancel()
	select {
	case _, ok := <-ends:
		if ok {
			t.Error("message on an ended subscription")
		}
	case <-time.After(patience):
		t.Fatal("channel is not closed")
	}
	if err := b.Publish(t.Context(), "t", []byte("m")); err != nil {
		t.Fatal(err)
	}
	if m := string(receive(t, stays)); m != "m" {
		t.Errorf("the other subscriber got %q", m)
	}
	// And again, after the last one left.
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		again := must[<-chan []byte](t)(b.Subscribe(ctx, "again"))
		if err := a.Publish(t.Context(), "again", []byte("m")); err != nil {
			t.Fatal(err)
		}
		receive(t, again)
		cancel()
	}
}

func endedContext(t *testing.T, a, _ coordination.Coordinator) {
	ctx, cancel := context.WithCancel(t.Context())
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", long))
	cancel()
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := a.Acquire(ctx, "k2", "h", long); return err },
		"holder":  func() error { _, err := a.Holder(ctx, "k"); return err },
		"renew":   func() error { return l.Renew(ctx) },
		"join":    func() error { return a.Join(ctx, "g", coordination.Member{ID: "m"}, long) },
		"leave":   func() error { return a.Leave(ctx, "g", "m") },
		"members": func() error { _, err := a.Members(ctx, "g"); return err },
		"publish": func() error { return a.Publish(ctx, "t", nil) },
		"ping":    func() error { return a.Ping(ctx) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !l.Valid() {
		t.Error("an ended context ended the lease")
	}
}

func closeEnds(t *testing.T, a, _ coordination.Coordinator) {
	ctx := t.Context()
	s := must[<-chan []byte](t)(a.Subscribe(ctx, "t"))
	l := must[*coordination.Lease](t)(a.Acquire(ctx, "k", "one", long))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case _, ok := <-s:
		if ok {
			t.Error("message after close")
		}
	case <-time.After(patience):
		t.Fatal("subscription is not closed")
	}
	for name, call := range map[string]func() error{
		"acquire":   func() error { _, err := a.Acquire(ctx, "k2", "h", long); return err },
		"join":      func() error { return a.Join(ctx, "g", coordination.Member{ID: "m"}, long) },
		"publish":   func() error { return a.Publish(ctx, "t", nil) },
		"subscribe": func() error { _, err := a.Subscribe(ctx, "t"); return err },
		"ping":      func() error { return a.Ping(ctx) },
	} {
		if err := call(); !errors.Is(err, coordination.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if err := l.Release(ctx); err != nil {
		t.Errorf("release after close: %v", err)
	}
}
