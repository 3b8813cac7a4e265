package edge

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/coordination"
)

// alone is a hub without coordination.
type alone struct{}

func (alone) Members(context.Context, string) ([]coordination.Member, error) { return nil, nil }
func (alone) Holder(context.Context, string) (string, error)                 { return "", nil }

func TestFetchesTakeTurns(t *testing.T) {
	t.Parallel()
	const body = "tar"
	sum := sha256.Sum256([]byte(body))
	digest := artifact.SumDigest(sum[:])
	var now atomic.Int64
	full, goOn := make(chan struct{}), make(chan struct{})
	isFull := sync.OnceFunc(func() { close(full) })
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer now.Add(-1)
		switch n := now.Add(1); {
		case n > fetchesAtOnce:
			t.Errorf("%d fetches at once", n)
		case n == fetchesAtOnce:
			isFull()
		}
		<-goOn
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(origin.Close)
	e := New(Config{
		Static: []string{origin.URL}, Coordination: alone{}, Bytes: origin.Client(),
		Log: slog.New(slog.DiscardHandler),
	})
	var wg sync.WaitGroup
	for range 3 * fetchesAtOnce {
		wg.Go(func() {
			r, err := e.Fetch(t.Context(), digest)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != body {
				t.Errorf("got %q, %v", got, err)
			}
			_ = r.Close()
			_ = r.Close() // gives no second turn back
		})
	}
	<-full
	gone, leave := context.WithCancelCause(t.Context())
	leave(errors.New("nobody waits"))
	if _, err := e.Fetch(gone, digest); err == nil || err.Error() != "nobody waits" {
		t.Errorf("who has left gets %v", err)
	}
	close(goOn)
	wg.Wait()
	if len(e.fetching) != 0 {
		t.Errorf("%d turns did not come back", len(e.fetching))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hung is a client to which the gitcache "hung" never answers, and all others after a time.
func hung(body string, after time.Duration) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		answers := time.After(after)
		if r.URL.Host == "hung" {
			answers = nil
		}
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-answers:
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
	})}
}

func TestContentComesFromAnotherGitcacheWhereOneHangs(t *testing.T) {
	t.Parallel()
	const body = "tar"
	sum := sha256.Sum256([]byte(body))
	digest := artifact.SumDigest(sum[:])
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{
			Static: []string{"https://hung", "https://slow"}, Coordination: alone{}, Bytes: hung(body, 2*time.Minute),
			Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithTimeout(t.Context(), artifact.FillTimeout)
		defer cancel()
		r, err := e.Fetch(ctx, digest)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != body {
			t.Errorf("got %q, %v", got, err)
		}
		if err := r.Close(); err != nil || len(e.fetching) != 0 {
			t.Errorf("close: %v, %d fetches are under way", err, len(e.fetching))
		}
	})
}
