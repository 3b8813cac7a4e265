package storm

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a client that reads nothing and is gone once left is closed.
type stuck struct {
	http.ResponseWriter

	left chan struct{}
}

func (s *stuck) Write([]byte) (int, error) {
	<-s.left
	return 0, errors.New("the client is gone")
}

func (s *stuck) FlushError() error { return nil }

func TestNothingWaitsForAWatchThatHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := New(0)
		client := &stuck{httptest.NewRecorder(), make(chan struct{})}
		go s.ServeHTTP(client, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events?watch=true", nil))
		if err := s.Stands(ctx, "events", 1); err != nil {
			t.Fatal(err)
		}
		sent := false
		go func() {
			for range 2*queue + 2 {
				s.Warn(ctx, "event", 0, 1, time.Now())
			}
			sent = true
		}()
		synctest.Wait()
		if sent {
			t.Fatal("the server does not wait for a slow client")
		}
		close(client.left)
		synctest.Wait()
		if !sent {
			t.Error("the server waits for a watch that has left")
		}
	})
}
