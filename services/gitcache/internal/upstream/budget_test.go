package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// nap passes time in a bubble.
func nap(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time

// ask enters and leaves a host's budget as a request that takes a while does.
func ask(t *testing.T, b *Budget, host string, l Lane, took time.Duration) error {
	t.Helper()
	leave, err := b.EnterHost(t.Context(), host, l)
	if err != nil {
		return err
	}
	nap(took)
	leave()
	return nil
}

func TestAThousandRepositoriesOfAHostPassItsBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := NewBudget(), time.Now()
		var polls sync.WaitGroup
		for range 1000 { // all at once, as after a start
			polls.Go(func() {
				if err := ask(t, b, "git.example.com:443", Lists, 200*time.Millisecond); err != nil {
					t.Error(err)
				}
			})
		}
		polls.Wait()
		if took := time.Since(began); took > time.Minute || took < 40*time.Second {
			t.Errorf("1000 polls took %s", took)
		}
	})
}

func TestAHostIsNotAskedMoreThanItsBudget(t *testing.T) {
	t.Parallel()
	for l, most := range map[Lane]int64{Lists: hostLists, Packs: hostPacks} {
		synctest.Test(t, func(t *testing.T) {
			b := NewBudget()
			var now, peak atomic.Int64
			var requests sync.WaitGroup
			for range 50 {
				requests.Go(func() {
					leave, err := b.EnterHost(t.Context(), "git.example.com:443", l)
					if err != nil {
						t.Error(err)
						return
					}
					peak.Store(max(peak.Load(), now.Add(1)))
					nap(time.Minute)
					now.Add(-1)
					leave()
					leave() // twice is once
				})
			}
			requests.Wait()
			if peak.Load() != most {
				t.Errorf("%d at once, want %d", peak.Load(), most)
			}
		})
	}
}

func TestAHungHostIsInNobodysWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		ctx, heal := context.WithCancel(t.Context())
		var hung sync.WaitGroup
		for i := range 20 { // hosts, with many repositories each
			for range 50 {
				for _, l := range []Lane{Lists, Packs} {
					hung.Go(func() {
						leave, err := b.EnterHost(ctx, fmt.Sprintf("hung%d.example.com:443", i), l)
						if err != nil {
							return
						}
						<-ctx.Done()
						leave()
					})
				}
			}
		}
		synctest.Wait()
		nap(time.Minute)
		for _, l := range []Lane{Lists, Packs} {
			began := time.Now()
			if err := ask(t, b, "git.example.com:443", l, 0); err != nil || time.Since(began) > 0 {
				t.Errorf("another host waited %s: %v", time.Since(began), err)
			}
		}
		// A host that hangs on packs still answers polls.
		began := time.Now()
		leave, err := b.EnterHost(t.Context(), "hung99.example.com:443", Packs)
		if err != nil {
			t.Fatal(err)
		}
		if err := ask(t, b, "hung99.example.com:443", Lists, 0); err != nil || time.Since(began) > 0 {
			t.Errorf("a poll waited %s: %v", time.Since(began), err)
		}
		leave()
		heal()
		hung.Wait()
		if n := users(b); n != 0 {
			t.Errorf("%d places were never given back", n)
		}
	})
}

func users(b *Budget) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, h := range b.hosts {
		n += h.users
	}
	return n
}

func TestInLineItIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		var mu sync.Mutex
		var order []int
		var requests sync.WaitGroup
		for i := range 200 {
			requests.Go(func() {
				leave, err := b.EnterHost(t.Context(), "git.example.com:443", Lists)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				nap(time.Second)
				leave()
			})
			synctest.Wait() // i is in line
		}
		requests.Wait()
		for place, i := range order {
			if d := place - i; d > hostLists || -d > hostLists {
				t.Errorf("number %d came as number %d", i, place)
			}
		}
	})
}

func TestWaitingInLineEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		leave := make([]func(), hostPacks)
		for i := range leave {
			var err error
			if leave[i], err = b.EnterHost(t.Context(), "git.example.com:443", Packs); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.EnterHost(ctx, "git.example.com:443", Packs); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		for _, l := range leave {
			l()
		}
		if err := ask(t, b, "git.example.com:443", Packs, 0); err != nil {
			t.Error(err)
		}
		if n := users(b); n != 0 {
			t.Errorf("%d places were never given back", n)
		}
	})
}

func answer(code int, headers ...string) *http.Response {
	r := &http.Response{StatusCode: code, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestAPauseThatAHostAsksForHoldsForAllItsSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		reset := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
		for _, tt := range []struct {
			answer func() *http.Response
			want   time.Duration
		}{
			{func() *http.Response { return answer(429, "Retry-After", "90") }, 90 * time.Second},
			{func() *http.Response { return answer(503, "Retry-After", "120") }, 2 * time.Minute},
			{func() *http.Response { return answer(429, "Retry-After", in(2*time.Minute)) }, 2 * time.Minute},
			{func() *http.Response {
				return answer(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset(5*time.Minute))
			}, 5 * time.Minute},
			{func() *http.Response {
				return answer(429, "RateLimit-Remaining", "0", "RateLimit-Reset", reset(5*time.Minute))
			}, 5 * time.Minute},
			{func() *http.Response { return answer(403, "Retry-After", "60") }, time.Minute},
			{func() *http.Response { return answer(429, "Retry-After", "1000000") }, maxRetryAfter},
			{func() *http.Response { return answer(429) }, firstPause},
			{func() *http.Response { return answer(429, "Retry-After", "-5") }, firstPause},
			{func() *http.Response { return answer(429, "Retry-After", "nonsense") }, firstPause},
			{func() *http.Response { return answer(503) }, 0},
			{func() *http.Response { return answer(403) }, 0},
			{func() *http.Response {
				return answer(403, "X-RateLimit-Remaining", "7", "X-RateLimit-Reset", reset(5*time.Minute))
			}, 0},
			{func() *http.Response {
				return answer(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset(5*time.Minute))
			}, 0},
			{func() *http.Response { return answer(500) }, 0},
		} {
			b := NewBudget()
			if err := ask(t, b, "git.example.com:443", Lists, 0); err != nil {
				t.Fatal(err)
			}
			answer := tt.answer()
			b.notePauses("git.example.com:443", answer)
			err := ask(t, b, "git.example.com:443", Packs, 0)
			e, held := errors.AsType[*Error](err)
			switch {
			case held != (tt.want > 0):
				t.Errorf("%d %v: %v", answer.StatusCode, answer.Header, err)
			case held && (e.Kind != KindThrottled || e.RetryAfter < tt.want-time.Second || e.RetryAfter > tt.want):
				t.Errorf("%d %v: %s, %s", answer.StatusCode, answer.Header, e.Kind, e.RetryAfter)
			}
			if err := ask(t, b, "other.example.com:443", Lists, 0); err != nil {
				t.Errorf("another host: %v", err)
			}
			nap(tt.want)
			if err := ask(t, b, "git.example.com:443", Lists, 0); err != nil {
				t.Errorf("after %s: %v", tt.want, err)
			}
		}
	})
}

func TestPausesGrowUntilTheHostAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		var last time.Duration
		for range 12 {
			for { // wait as a source does
				err := ask(t, b, "git.example.com:443", Lists, 0)
				e, ok := errors.AsType[*Error](err)
				if !ok {
					break
				}
				nap(e.RetryAfter)
			}
			b.notePauses("git.example.com:443", answer(429))
			e, _ := errors.AsType[*Error](ask(t, b, "git.example.com:443", Lists, 0))
			if e == nil || e.RetryAfter < last || e.RetryAfter > mostPause {
				t.Fatalf("after %s came %v", last, e)
			}
			last = e.RetryAfter
		}
		if last != mostPause {
			t.Errorf("the last pause was %s", last)
		}
		nap(last)
		b.notePauses("git.example.com:443", answer(200))
		b.notePauses("git.example.com:443", answer(429))
		if e, _ := errors.AsType[*Error](ask(t, b, "git.example.com:443", Lists, 0)); e == nil ||
			e.RetryAfter != firstPause {
			t.Errorf("after a good answer: %v", e)
		}
	})
}

func TestAShortPauseIsWaitedOutInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		if err := ask(t, b, "git.example.com:443", Lists, 0); err != nil {
			t.Fatal(err)
		}
		b.notePauses("git.example.com:443", answer(429, "Retry-After", "1"))
		began := time.Now()
		if err := ask(t, b, "git.example.com:443", Lists, 0); err != nil || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestABudgetForgetsHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		for i := range 20 * manyHosts {
			if err := ask(t, b, fmt.Sprintf("git%d.example.com:443", i), Lists, 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(b.hosts); n > manyHosts {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}

// store is a Target that takes its time to check a pack.
type store struct {
	Target
	took      time.Duration
	now, peak *atomic.Int64
}

func (s store) AddPack(_ context.Context, pack io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, pack)
	if err != nil {
		return n, err
	}
	s.peak.Store(max(s.peak.Load(), s.now.Add(1)))
	nap(s.took)
	s.now.Add(-1)
	return n, nil
}

func TestFewPacksAreCheckedAtOnceAndNoHostWaitsForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		var now, peak atomic.Int64
		var fetches sync.WaitGroup
		began := time.Now()
		for i := range 20 {
			host := "git.example.com:443"
			if i%2 == 1 {
				host = "other.example.com:443"
			}
			fetches.Go(func() {
				leave, err := b.EnterHost(t.Context(), host, Packs)
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				into := b.UnloadTarget(host, store{took: time.Minute, now: &now, peak: &peak}, leave)
				if n, err := into.AddPack(t.Context(), strings.NewReader("pack")); n != 4 || err != nil {
					t.Error(n, err)
				}
			})
		}
		synctest.Wait()
		if err := ask(t, b, "git.example.com:443", Packs, 0); err != nil || time.Since(began) > 0 {
			t.Errorf("the host was free after %s: %v", time.Since(began), err)
		}
		fetches.Wait()
		if peak.Load() != allChecks {
			t.Errorf("%d packs were checked at once", peak.Load())
		}
		if !b.checks.TryAcquire(allChecks) || users(b) != 0 {
			t.Error("places were never given back")
		}
	})
}

// Packs can be made so that to check one takes as long as a fetch may.
func TestAHostWithPacksThatTakeLongToCheckIsInNobodysWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget()
		var now, peak atomic.Int64
		var fetches sync.WaitGroup
		fetch := func(host string, took time.Duration) {
			leave, err := b.EnterHost(t.Context(), host, Packs)
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			into := b.UnloadTarget(host, store{took: took, now: &now, peak: &peak}, leave)
			if _, err := into.AddPack(t.Context(), strings.NewReader("pack")); err != nil {
				t.Error(err)
			}
		}
		for range 2 * allChecks {
			fetches.Go(func() { fetch("evil.example.com:443", 30*time.Minute) })
		}
		synctest.Wait()
		began := time.Now()
		fetch("git.example.com:443", time.Minute)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("another host's pack was there after %s", took)
		}
		fetches.Wait()
		if users(b) != 0 || !b.checks.TryAcquire(allChecks) {
			t.Error("places were never given back")
		}
	})
}
