package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/distributor/internal/pressure"
)

// Bounds of the views that are on their way to the console: views yield to everything else, for the newest state comes
// later just as well.
const (
	viewsWaiting      = 2048
	viewsWaitingBytes = 32 << 20
	maxViewBatchBytes = 2 << 20
	// maxPushBytes bounds a push: twice what the console bounds a view to, so that a view that is a little too large is
	// refused there.
	maxPushBytes = 128 << 10
	// maxRefusal bounds what the console is told of a push that was refused, in bytes.
	maxRefusal = 512
	// viewPause is between two calls to the console: views that come meanwhile go together, in one transaction.
	viewPause = 100 * time.Millisecond
)

// ViewConsole keeps views.
type ViewConsole interface {
	RecordViews(context.Context, *consolev1.RecordViewsRequest) (*consolev1.RecordViewsResponse, error)
}

// Views hands pushes of views on to the console. Pushes that come in while a call to the console runs go together in
// the next one.
type Views struct {
	console ViewConsole
	queue   chan *viewJob
	bytes   atomic.Int64 // of what waits
	pace    pressure.Pace
}

type viewJob struct {
	waiting atomic.Pointer[consolev1.ClusterPush] // until it is sent, or nobody waits for it any more
	sent    *consolev1.ClusterPush                // of the sender's goroutine
	size    int64
	done    chan viewOutcome // capacity 1
}

type viewOutcome struct {
	answer *deliveryv1.PushViewResponse
	err    error
}

// NewViews returns Views; Run works.
func NewViews(c ViewConsole) *Views {
	return &Views{console: c, queue: make(chan *viewJob, viewsWaiting)}
}

// Record returns what the console says of a push. It keeps the push until it has returned, or the console has it. Of a
// push that is too large the console is told that, in place of the push: people look there, and not into the log of the
// agent.
func (v *Views) Record(ctx context.Context, cluster string, push *deliveryv1.PushViewRequest) (*deliveryv1.PushViewResponse, error) {
	said := &consolev1.ClusterPush{Cluster: cluster, Push: push}
	j := &viewJob{size: int64(proto.Size(said)), done: make(chan viewOutcome, 1)}
	if j.size > maxPushBytes {
		said = refusalOf(cluster, fmt.Sprintf("a push of %d bytes: the most are %d bytes", j.size, maxPushBytes))
		j.size = int64(proto.Size(said))
	}
	j.waiting.Store(said)
	defer v.bytes.Add(-j.size)
	if v.bytes.Add(j.size) > viewsWaitingBytes {
		return nil, ErrBusy
	}
	select {
	case v.queue <- j:
	default:
		return nil, ErrBusy
	}
	select {
	case <-ctx.Done():
		j.waiting.Store(nil) // what waits in the line takes no memory
		return nil, ctx.Err()
	case o := <-j.done:
		return o.answer, o.err
	}
}

// refusalOf is what the console is told of a push that is not kept.
func refusalOf(cluster, why string) *consolev1.ClusterPush {
	return &consolev1.ClusterPush{Cluster: cluster, Refused: strings.ToValidUTF8(why[:min(len(why), maxRefusal)], "")}
}

// Pause is when a caller that met ErrBusy may come again.
func (v *Views) Pause() time.Duration { return v.pace.Pause(int64(len(v.queue))) }

// Run works until ctx ends.
func (v *Views) Run(ctx context.Context) error {
	var left *viewJob // did not fit into the batch before
	for {
		first := left
		if left = nil; first == nil {
			select {
			case <-ctx.Done():
				return nil
			case first = <-v.queue:
			}
		}
		var batch []*viewJob
		batch, left = v.gather(first)
		v.send(ctx, batch)
		if !retry.Sleep(ctx, viewPause) {
			return nil
		}
	}
}

// gather adds what waits already, up to the bounds of a call. Of one cluster there is one push in a call.
func (v *Views) gather(first *viewJob) (batch []*viewJob, left *viewJob) {
	var size int64
	clusters := map[string]bool{}
	for j := first; ; {
		if p := j.waiting.Load(); p != nil {
			if size += j.size; len(batch) > 0 && (size > maxViewBatchBytes || clusters[p.GetCluster()]) {
				return batch, j
			}
			if j.sent = j.waiting.Swap(nil); j.sent != nil {
				clusters[p.GetCluster()] = true
				batch = append(batch, j)
			}
		}
		if len(batch) == maxClusters {
			return batch, nil
		}
		select {
		case j = <-v.queue:
		default:
			return batch, nil
		}
	}
}

// send tells the console of a batch. If the batch is refused for what may be in it the pushes are sent one by one, as
// reports are.
func (v *Views) send(ctx context.Context, batch []*viewJob) {
	switch len(batch) {
	case 0:
		return
	case 1:
		_ = v.sendOne(ctx, batch[0]) // its caller has the error
		return
	}
	switch err := v.call(ctx, batch); {
	case err == nil:
	case isAboutContent(err):
		sendApart(batch, func(j *viewJob) error { return v.sendOne(ctx, j) },
			func(j *viewJob) { j.done <- viewOutcome{err: ErrBusy} })
	default:
		for _, j := range batch {
			j.done <- viewOutcome{err: err}
		}
	}
}

// sendOne tells the console of a push. Of a push that is not what the contract says the console is told that.
func (v *Views) sendOne(ctx context.Context, j *viewJob) error {
	err := v.call(ctx, []*viewJob{j})
	if refused, ok := errors.AsType[*connect.Error](err); ok && refused.Code() == connect.CodeInvalidArgument && j.sent.GetRefused() == "" {
		j.sent = refusalOf(j.sent.GetCluster(), refused.Message())
		err = v.call(ctx, []*viewJob{j})
	}
	if err != nil {
		j.done <- viewOutcome{err: err}
	}
	return err
}

func (v *Views) call(ctx context.Context, batch []*viewJob) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &consolev1.RecordViewsRequest{}
	for _, j := range batch {
		req.Clusters = append(req.Clusters, j.sent)
	}
	resp, err := v.console.RecordViews(ctx, req)
	if err != nil {
		return err
	}
	if len(resp.GetClusters()) != len(batch) {
		return errors.New("the console answered for another number of clusters than it was given")
	}
	v.pace.Note(len(batch), len(v.queue) > 0)
	for i, j := range batch {
		answer := resp.GetClusters()[i]
		if why := j.sent.GetRefused(); why != "" { // a console of before took it for a push that changes nothing
			answer = &deliveryv1.PushViewResponse{Refused: why}
		}
		j.done <- viewOutcome{answer: answer}
	}
	return nil
}
