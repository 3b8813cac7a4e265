package status_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/distributor/internal/status"
)

// viewConsole takes views in once end is closed.
type viewConsole struct {
	begun, end chan struct{} // begun: one for each call
}

func (c viewConsole) RecordViews(_ context.Context,
	req *consolev1.RecordViewsRequest,
) (*consolev1.RecordViewsResponse, error) {
	select {
	case c.begun <- struct{}{}:
	case <-c.end:
	}
	<-c.end
	resp := &consolev1.RecordViewsResponse{}
	for range req.GetClusters() {
		resp.Clusters = append(resp.Clusters, &deliveryv1.PushViewResponse{})
	}
	return resp, nil
}

// push is one of so many bytes, and a few more.
func push(size int) *deliveryv1.PushViewRequest {
	return &deliveryv1.PushViewRequest{
		Term: 1, Sequence: 1,
		Sections: []*deliveryv1.ViewSection{{Name: "pods", Reason: strings.Repeat("x", size)}},
	}
}

// Agents that hang up at once leave nothing of their pushes in the line.
func TestPushesThatNobodyWaitsForTakeNoMemory(t *testing.T) {
	t.Parallel()
	c := viewConsole{make(chan struct{}), make(chan struct{})}
	v := status.NewViews(c)
	defer run(t, v.Run)()
	var first sync.WaitGroup
	defer first.Wait()
	defer close(c.end)
	first.Go(func() { _, _ = v.Record(context.Background(), "first", push(0)) })
	<-c.begun
	const many = 50
	var freed atomic.Int64
	for range many {
		ctx, cancel := context.WithCancel(context.Background())
		said := push(60 << 10)
		runtime.AddCleanup(said, func(int) { freed.Add(1) }, 0)
		cancel()
		if _, err := v.Record(ctx, "c", said); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for deadline := time.After(time.Minute); freed.Load() < many-1; runtime.GC() { // the last is maybe on our stack
		select {
		case <-deadline:
			t.Fatalf("%d of %d were freed", freed.Load(), many)
		case <-time.After(time.Millisecond):
		}
	}
}

// A push that the console would refuse, with all that came with it, does not get there.
func TestPushThatIsTooLargeIsRefusedBeforeItWaits(t *testing.T) {
	t.Parallel()
	c := viewConsole{make(chan struct{}, 1), make(chan struct{})}
	close(c.end)
	v := status.NewViews(c)
	defer run(t, v.Run)()
	_, err := v.Record(t.Context(), "c", push(64<<10))
	if connect.CodeOf(err) != connect.CodeInvalidArgument ||
		!strings.Contains(err.Error(), "the most are 65536 bytes") {
		t.Errorf("too large: %v", err)
	}
	if _, err := v.Record(t.Context(), "c", push(63<<10)); err != nil {
		t.Error(err)
	}
}
