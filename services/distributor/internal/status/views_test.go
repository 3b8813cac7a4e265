package status_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// strictConsole keeps what it is given, and refuses calls with a push of the name. It answers as one that knows no
// refusals of distributors.
type strictConsole struct {
	given   chan *consolev1.ClusterPush
	refuses string
}

func (c strictConsole) RecordViews(_ context.Context,
	req *consolev1.RecordViewsRequest,
) (*consolev1.RecordViewsResponse, error) {
	resp := &consolev1.RecordViewsResponse{}
	for _, p := range req.GetClusters() {
		if p.GetCluster() == c.refuses && p.GetPush() != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("validation error: push.sections"))
		}
	}
	for _, p := range req.GetClusters() {
		c.given <- p
		resp.Clusters = append(resp.Clusters, &deliveryv1.PushViewResponse{})
	}
	return resp, nil
}

// A push that is too large, or that the console can't take, does not get there, and the console and the agent are told
// why.
func TestTheConsoleIsToldOfPushesThatAreRefused(t *testing.T) {
	t.Parallel()
	c := strictConsole{make(chan *consolev1.ClusterPush, 1), "odd"}
	v := status.NewViews(c)
	defer run(t, v.Run)()
	for _, tc := range []struct {
		cluster string
		size    int
		want    string
	}{
		{"c", 128 << 10, "a push of 131"},
		{"c", 127 << 10, ""},
		{"odd", 10, "validation error: push.sections"},
	} {
		answer, err := v.Record(t.Context(), tc.cluster, push(tc.size))
		if err != nil {
			t.Fatal(err)
		}
		given := <-c.given
		if refused := given.GetRefused(); refused != answer.GetRefused() || !strings.HasPrefix(refused, tc.want) || (refused == "") != (tc.want == "") ||
			(given.GetPush() == nil) != (tc.want != "") || given.GetCluster() != tc.cluster {
			t.Errorf("of %d bytes of %s the console is told %q with a push %v, the agent %q", tc.size, tc.cluster, refused, given.GetPush() != nil, answer.GetRefused())
		}
	}
}

// brokenConsole fails at whatever it is told, which takes a second.
type brokenConsole struct{ calls atomic.Int32 }

func (c *brokenConsole) RecordViews(context.Context, *consolev1.RecordViewsRequest) (*consolev1.RecordViewsResponse, error) {
	c.calls.Add(1)
	<-time.After(time.Second)
	return nil, connect.NewError(connect.CodeInternal, errors.New("broken"))
}

func TestConsoleThatFailsIsNotCalledForEachPush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &brokenConsole{}
		v := status.NewViews(c)
		stop := run(t, v.Run)
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				if _, err := v.Record(context.Background(), fmt.Sprint("c", i), push(0)); err == nil {
					t.Error("kept")
				}
			})
		}
		all.Wait()
		stop()
		if calls := c.calls.Load(); calls > 10 {
			t.Errorf("%d calls", calls)
		}
	})
}
