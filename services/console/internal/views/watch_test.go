package views

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// A watcher whose clusters are quiet hears a heartbeat in time on a hub where something else changes every few seconds.
func TestAQuietWatcherOfABusyHubGetsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*heartbeat)
		defer cancel()
		begin, heard := time.Now(), time.Now()
		beats := 0
		send := func(m *consolev1.WatchClusterViewsResponse) error {
			if silent := time.Since(heard); silent > heartbeat+apart {
				t.Errorf("silent for %v, after %v", silent, heard.Sub(begin))
			}
			heard = time.Now()
			if m.GetHeartbeat() != nil {
				beats++
			}
			return nil
		}
		changes := func() (changed, moved <-chan struct{}) {
			c := make(chan struct{})
			time.AfterFunc(3*time.Second, func() { close(c) })
			return c, nil
		}
		news := func(first bool) ([]*consolev1.WatchClusterViewsResponse, error) {
			if first {
				return []*consolev1.WatchClusterViewsResponse{{}}, nil
			}
			return nil, nil
		}
		if err := stream(ctx, send, changes, news); ctx.Err() == nil {
			t.Error(err)
		}
		if beats < 8 {
			t.Errorf("%d heartbeats in %v", beats, time.Since(begin))
		}
	})
}
