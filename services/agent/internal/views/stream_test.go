package views

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
)

// tripper is the API server at the network's edge.
type tripper func(r *http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answerOf is an answer of the API server.
func answerOf(r *http.Request, code int, kind string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Body: body, Request: r}
}

// viewOf is a view of an API server in the test's process, behind the agent's client.
func viewOf(t *testing.T, api tripper) *View {
	t.Helper()
	return viewOn(t, &rest.Config{Host: "http://kubernetes.test", Transport: api})
}

// viewOn is a view of the API server of a configuration.
func viewOn(t *testing.T, config *rest.Config) *View {
	t.Helper()
	seen, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(seen.Close)
	return New(Deps{
		Cluster: seen, KubernetesVersion: func() string { return "v1.36.3" }, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
}

// A watch of a quiet kind hears nothing until something cuts it: each cut is the first one, however many came before.
func TestAQuietWatchThatIsCutBeginsAgainSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stands = 50 * time.Second // less than a bookmark takes
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var opened []time.Time
		v := viewOf(t, func(r *http.Request) (*http.Response, error) {
			opened = append(opened, time.Now())
			body, write := io.Pipe()
			time.AfterFunc(stands, func() { _ = write.Close() })
			return answerOf(r, http.StatusOK, "application/vnd.kubernetes.protobuf;stream=watch", body), nil
		})
		k := v.kindOf("nodes")
		k.place = "7" // all nodes came
		var running sync.WaitGroup
		running.Go(func() { v.follow(ctx, k, make(chan struct{}, 1)) })
		time.Sleep(20 * (stands + 2*time.Second)) //nolint:forbidigo // of the bubble's clock
		cancel()
		running.Wait()
		if len(opened) < 20 {
			t.Fatalf("%d watches", len(opened))
		}
		for i, at := range opened[1:] {
			if gap := at.Sub(opened[i]) - stands; gap > 2*time.Second {
				t.Errorf("watch %d began %v after the one before it was cut", i+1, gap)
			}
		}
	})
}

// silentBody says nothing until its request ends.
func silentBody(r *http.Request) io.ReadCloser {
	body, write := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
	return body
}

// A server whose data were set back to a backup says nothing to a watch from a later place.
func TestAWatchThatSaysNothingAtAllBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var places []string
		v := viewOf(t, func(r *http.Request) (*http.Response, error) {
			places = append(places, r.URL.Query().Get("resourceVersion"))
			return answerOf(r, http.StatusOK, "application/vnd.kubernetes.protobuf;stream=watch", silentBody(r)), nil
		})
		k := v.kindOf("nodes")
		k.place = "7"
		var running sync.WaitGroup
		running.Go(func() { v.follow(ctx, k, make(chan struct{}, 1)) })
		time.Sleep(silence + 30*time.Second) //nolint:forbidigo // of the bubble's clock
		cancel()
		running.Wait()
		if !slices.Equal(places, []string{"7", ""}) {
			t.Errorf("watches from %q", places)
		}
	})
}

// A kind whose server hangs, such as an aggregated one, does not keep the others from beginning.
func TestAWatchThatHangsInItsBeginningLeavesItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex // guards opened
		opened := map[string]int{}
		v := viewOf(t, func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			opened[r.URL.Path]++
			return answerOf(r, http.StatusOK, "application/vnd.kubernetes.protobuf;stream=watch", silentBody(r)), nil
		})
		var running sync.WaitGroup
		turn := make(chan struct{}, 1)
		running.Go(func() { v.follow(ctx, v.kindOf("nodes"), turn) })
		synctest.Wait()
		running.Go(func() { v.follow(ctx, v.kindOf("pods"), turn) })
		time.Sleep(2 * time.Minute) //nolint:forbidigo // of the bubble's clock
		cancel()
		running.Wait()
		if opened["/api/v1/pods"] == 0 {
			t.Errorf("watches: %v", opened)
		}
	})
}

// An API server that cuts each watch at once is not asked without a pause.
func TestAWatchThatIsCutAtOnceWaitsLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		opened := 0
		v := viewOf(t, func(r *http.Request) (*http.Response, error) {
			opened++
			return answerOf(r, http.StatusOK, "application/vnd.kubernetes.protobuf;stream=watch",
				io.NopCloser(strings.NewReader(""))), nil
		})
		k := v.kindOf("nodes")
		k.place = "7"
		var running sync.WaitGroup
		running.Go(func() { v.follow(ctx, k, make(chan struct{}, 1)) })
		time.Sleep(10 * time.Minute) //nolint:forbidigo // of the bubble's clock
		cancel()
		running.Wait()
		if opened > 150 {
			t.Errorf("%d watches in ten minutes", opened)
		}
	})
}

// A hub that will not take a view is not asked again and again, and gets the whole view when it is asked.
func TestAViewThatTheHubRefusesIsPushedWholeLater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	p, h, v := pushing(t, &now)
	backoff := &retry.Backoff{Floor: time.Second, Max: time.Second}
	v.pods.put("a", pod{namespace: "n", name: "a", reason: "Pending", notReady: true})
	if wait := p.push(t.Context(), backoff); wait != 0 || p.State() == nil {
		t.Fatalf("again in %v, acknowledged %v", wait, p.State())
	}
	h.refuses = "a view of 70000 bytes"
	v.pods.put("b", pod{namespace: "n", name: "b", reason: "Pending", notReady: true})
	if wait := p.push(t.Context(), backoff); wait < time.Second/2 || p.State() != nil {
		t.Errorf("again in %v, acknowledged %v", wait, p.State())
	}
	h.refuses = ""
	if wait := p.push(t.Context(), backoff); wait != 0 || h.agrees(v) != "" {
		t.Errorf("again in %v: %s", wait, h.agrees(v))
	}
	if s := h.last; s.GetBase() != 0 || len(s.GetSections()) < 2 ||
		s.GetSections()[0].GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE {
		t.Errorf("pushed %v", s)
	}
}
