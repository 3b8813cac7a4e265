package apply

import (
	"context"
	"io"
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

// A webhook or an aggregated API that fails says nothing of the API server: the width is for all services.
func TestWidthIsNotForFailuresOfOthers(t *testing.T) {
	t.Parallel()
	const status = `{"kind":"Status","status":"Failure","message":"`
	for name, test := range map[string]struct {
		code       int
		retryAfter string
		body       string
		narrows    bool
	}{
		"priority and fairness": {429, "1", "Too many requests, please try again later.", true},
		"a proxy":               {502, "", "<html>Bad Gateway</html>", true},
		"shutting down":         {503, "", status + `apiserver is shutting down"}`, true},
		"no answer in time": {
			504, "", status + `Timeout: request did not complete within requested timeout"}`, true,
		},
		"the storage": {500, "", status + `etcdserver: request timed out"}`, true},
		"to be tried again": {
			500, "2", status + `The get operation against webhooks could not be completed at this time"}`, true,
		},
		"a webhook that is away": {
			500, "", status + `Internal error occurred: failed calling webhook \"a.b.c\": etcdserver: no"}`, false,
		},
		"a webhook that can't":  {503, "", status + `admission webhook \"a.b.c\" denied the request: later"}`, false},
		"a webhook that limits": {429, "9", status + `admission webhook \"a.b.c\" denied the request: slowly"}`, false},
		"a conversion": {
			504, "", status + `conversion webhook for harbour.dev/v1, Kind=Boat failed: too late"}`, false,
		},
		"an aggregated API":           {503, "", "service unavailable\n", false},
		"an API that does not answer": {503, "", "error trying to reach service: dial tcp: connection refused", false},
		"a kubelet":                   {500, "", status + `dial tcp 10.0.0.1:10250: connection timed out"}`, false},
		"a refusal":                   {403, "", status + `forbidden"}`, false},
	} {
		w := NewWidth()
		answer := w.Wrap(trip(func(*http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			if test.retryAfter != "" {
				recorder.Header().Set("Retry-After", test.retryAfter)
			}
			recorder.WriteHeader(test.code)
			_, _ = recorder.WriteString(test.body)
			return recorder.Result()
		}))
		response, err := answer.RoundTrip(httptest.NewRequest(http.MethodPatch, "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != test.body {
			t.Errorf("%s: the body became %q, %v", name, body, err)
		}
		_ = response.Body.Close()
		if narrows := w.Limit() < firstWidth; narrows != test.narrows {
			t.Errorf("%s: it narrows: %t", name, narrows)
		}
		if pauses := !w.until.IsZero() && w.until.After(time.Now()); pauses != (test.narrows && test.retryAfter != "") {
			t.Errorf("%s: it pauses: %t", name, pauses)
		}
	}
}

// A change that is not answered in time says that the API server is slow; a change that was given up says nothing.
func TestWidthFollowsTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for method, want := range map[string]int{http.MethodPatch: firstWidth / 2, http.MethodGet: firstWidth} {
			w := NewWidth()
			client := &http.Client{Timeout: time.Second, Transport: w.Wrap(silent{})}
			ask := func(ctx context.Context) {
				request, err := http.NewRequestWithContext(ctx, method, "http://kube.example", nil)
				if err != nil {
					t.Fatal(err)
				}
				if response, err := client.Do(request); err == nil {
					_ = response.Body.Close()
					t.Error("it was answered")
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if ask(ctx); w.Limit() != firstWidth {
				t.Errorf("%s: after one that was given up it is %d", method, w.Limit())
			}
			if ask(t.Context()); w.Limit() != want {
				t.Errorf("%s: after one without an answer it is %d, want %d", method, w.Limit(), want)
			}
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

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type trip func(*http.Request) *http.Response

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
