package apply

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The width falls when the API server throttles, nobody asks while it wants to be left alone, and it grows again.
func TestWidthFollowsThrottling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWidth()
		throttled := true
		answer := w.Wrap(trip(func(*http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			if throttled {
				recorder.Header().Set("Retry-After", "3")
				recorder.WriteHeader(http.StatusTooManyRequests)
			}
			return recorder.Result()
		}))
		ask := func() {
			request := httptest.NewRequest(http.MethodPatch, "/", nil)
			response, err := answer.RoundTrip(request)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
		}
		if w.Limit() != firstWidth {
			t.Fatalf("it begins with %d", w.Limit())
		}
		for range 5 { // of one round
			ask()
		}
		if w.Limit() != firstWidth/2 {
			t.Errorf("after one round of refusals it is %d", w.Limit())
		}
		begin := time.Now()
		give, err := w.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		give()
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("the next waited %s", waited)
		}
		ask()
		if w.Limit() != firstWidth/4 {
			t.Errorf("after the second refusal it is %d", w.Limit())
		}
		throttled = false
		for range 2000 {
			ask()
		}
		if w.Limit() != maxWidth {
			t.Errorf("after many good answers it is %d", w.Limit())
		}
	})
}

// A configuration bounds the width, and never above what it is bounded to without one.
func TestWidthIsOnlyNarrowed(t *testing.T) {
	t.Parallel()
	for _, step := range []struct{ most, want int }{{0, maxWidth}, {2, 2}, {maxWidth + 5, maxWidth}, {1, 1}} {
		w := NewWidth()
		w.Narrow(step.most)
		if w.most != step.want || w.Limit() != min(firstWidth, step.want) {
			t.Errorf("narrowed to %d it begins with %d of %d, want %d at most", step.most, w.Limit(), w.most, step.want)
		}
		if w.Narrow(0); w.most != maxWidth {
			t.Errorf("without a configuration it has %d at most", w.most)
		}
	}
}

func TestWidthIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWidth()
		var mu sync.Mutex // guards now and most
		now, most := 0, 0
		var running sync.WaitGroup
		for range 100 {
			running.Go(func() {
				give, err := w.Take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				give()
			})
		}
		<-time.After(1500 * time.Millisecond)
		w.narrowWidth(0)
		<-time.After(2 * time.Second)
		mu.Lock()
		if most != firstWidth || now > firstWidth/2 {
			t.Errorf("%d at once, and %d after it was narrowed", most, now)
		}
		mu.Unlock()
		running.Wait()
	})
}

type trip func(*http.Request) *http.Response

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
