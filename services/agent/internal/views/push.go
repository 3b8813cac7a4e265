package views

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/retry"
)

const (
	// gather is how long the first change waits for others, and apart the time between two pushes.
	gather, apart = 200 * time.Millisecond, 500 * time.Millisecond
	// countEvery is how often the view is counted although nothing has changed: figures of the last hour change by time
	// alone.
	countEvery = time.Minute
	// callTimeout bounds one push.
	callTimeout = 30 * time.Second
	// refusedFor is how long an agent does not push to a hub that takes no views: it may be updated meanwhile.
	refusedFor = time.Hour
	// bucket is how many bytes may be pushed at once, and perMinute how many in the long run.
	bucket, perMinute = 32 << 10, 64 << 10
)

// Pusher hands a view to the hub: what changed since the push that the hub acknowledged last. A Pusher is safe for
// concurrent use.
type Pusher struct {
	view         *View
	distributors *deliveryclient.Distributors
	log          *slog.Logger
	wake         chan struct{} // capacity 1: the hub wants the whole view
	bytes        prometheus.Counter

	// The fields below are of the goroutine of Run.
	acked map[string]*deliveryv1.ViewSection // by name; nil: the hub is to get the whole view
	left  float64                            // bytes that may be pushed
	asOf  time.Time                          // of left

	mu       sync.Mutex // guards what follows
	term     uint64
	sequence uint64 // of the last push
	base     uint64 // of the last push that was acknowledged; 0: none
	whole    bool   // the hub has lost the view
}

// NewPusher returns a pusher of a view; Run pushes.
func NewPusher(v *View, distributors *deliveryclient.Distributors, metrics prometheus.Registerer, log *slog.Logger) *Pusher {
	bytes := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fairlead_agent_view_pushed_bytes_total", Help: "Bytes of pushes of the cluster's view, before they are compressed.",
	})
	metrics.MustRegister(bytes)
	return &Pusher{
		view: v, distributors: distributors, log: log, wake: make(chan struct{}, 1), bytes: bytes, left: bucket, asOf: v.Now(),
		// Later processes have later terms. If the clock went back the hub says so, and the term goes on above the
		// hub's.
		term: uint64(max(1, v.Now().UnixMilli())),
	}
}

// State is the view that the hub has acknowledged, nil if it has none of this process.
func (p *Pusher) State() *deliveryv1.ViewState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.base == 0 {
		return nil
	}
	return &deliveryv1.ViewState{Term: p.term, Sequence: p.base}
}

// Lost notes that the hub does not have the view any more.
func (p *Pusher) Lost() {
	p.mu.Lock()
	p.whole = true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run pushes until ctx ends. Run pushes nothing while nothing changes.
func (p *Pusher) Run(ctx context.Context) error {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.view.Changed():
		case <-p.wake:
		case <-time.After(retry.Spread(countEvery)):
		}
		if !retry.Sleep(ctx, gather) {
			return nil
		}
		for wait := p.push(ctx, &backoff); wait > 0; wait = p.push(ctx, &backoff) {
			if !retry.Sleep(ctx, wait) {
				return nil
			}
		}
		if !retry.Sleep(ctx, apart-gather) {
			return nil
		}
	}
}

// push sends the newest state, if the hub does not have it. Positive: there is more to do after a while.
func (p *Pusher) push(ctx context.Context, backoff *retry.Backoff) (wait time.Duration) {
	request, now := p.request()
	if request == nil {
		return 0
	}
	if wait := p.spend(proto.Size(request)); wait > 0 {
		return wait
	}
	p.bytes.Add(float64(proto.Size(request)))
	var answer *deliveryv1.PushViewResponse
	err := p.distributors.Try(ctx, func(ctx context.Context, one deliveryclient.Distributor) (err error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		answer, err = one.Views.PushView(ctx, request)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return 0
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		p.log.InfoContext(ctx, "the hub takes no views; it is older than the agent", "again_in", refusedFor)
		return retry.Spread(refusedFor)
	case connect.CodeOf(err) == connect.CodeInvalidArgument: // the same bytes are never taken
		return p.refused(ctx, err.Error(), backoff)
	case err != nil:
		wait := backoff.After(err)
		p.log.DebugContext(ctx, "the view is not pushed yet", "err", err, "retry_in", wait)
		return wait
	case answer.GetRefused() != "":
		return p.refused(ctx, answer.GetRefused(), backoff)
	}
	backoff.Reset()
	return p.answered(request, answer, now)
}

// refused has the whole view pushed later: by then it may be another one.
func (p *Pusher) refused(ctx context.Context, reason string, backoff *retry.Backoff) (wait time.Duration) {
	p.mu.Lock()
	p.base, p.acked = 0, nil
	p.mu.Unlock()
	wait = backoff.Next()
	p.log.WarnContext(ctx, "the hub refuses the view of the cluster", "reason", reason, "retry_in", wait)
	return wait
}

// answered takes over what the hub says of a push.
func (p *Pusher) answered(request *deliveryv1.PushViewRequest, answer *deliveryv1.PushViewResponse,
	now map[string]*deliveryv1.ViewSection,
) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case answer.GetSupersededBy() != 0:
		p.term, p.sequence, p.base, p.acked = answer.GetSupersededBy()+1, 0, 0, nil
		return retry.Spread(retryMax) // two agents of one cluster take turns slowly
	case answer.GetWholeWanted():
		p.base, p.acked = 0, nil
		return apart
	}
	p.base, p.acked = request.GetSequence(), now
	return 0
}

// request is what the hub does not have, nil if there is nothing.
func (p *Pusher) request() (*deliveryv1.PushViewRequest, map[string]*deliveryv1.ViewSection) {
	sections, ok := p.view.Sections()
	if !ok {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.whole {
		p.whole, p.base, p.acked = false, 0, nil
	}
	now := map[string]*deliveryv1.ViewSection{}
	for _, s := range sections {
		now[s.GetName()] = s
	}
	for name := range p.acked {
		if now[name] == nil { // a ViewSet went: no change says so, the whole view does
			p.base, p.acked = 0, nil
			break
		}
	}
	r := &deliveryv1.PushViewRequest{Term: p.term, Base: p.base}
	for _, s := range sections {
		if change := changeOf(p.acked[s.GetName()], s); change != nil {
			r.Sections = append(r.Sections, change)
		}
	}
	if len(r.GetSections()) == 0 && p.base != 0 {
		return nil, nil
	}
	p.sequence++
	r.Sequence = p.sequence
	return r, now
}

// spend takes bytes off the bucket, or says when there will be enough.
func (p *Pusher) spend(size int) (wait time.Duration) {
	now := p.view.Now()
	p.left = min(bucket, p.left+now.Sub(p.asOf).Minutes()*perMinute)
	p.asOf = now
	cost := float64(min(size, bucket))
	if p.left < cost {
		return time.Duration((cost-p.left)/perMinute*float64(time.Minute)) + time.Millisecond
	}
	p.left -= cost
	return 0
}

// changeOf is what changed of a section, nil if nothing did.
func changeOf(before, now *deliveryv1.ViewSection) *deliveryv1.ViewSection {
	if before == nil {
		whole := proto.CloneOf(now)
		whole.AllRows = true
		return whole
	}
	change := &deliveryv1.ViewSection{
		Name: now.GetName(), State: now.GetState(), Reason: now.GetReason(), Figures: now.GetFigures(), Withheld: now.GetWithheld(), Sample: now.GetSample(),
	}
	had := map[string]*deliveryv1.ViewRow{}
	for _, r := range before.GetRows() {
		had[r.GetKey()] = r
	}
	for _, r := range now.GetRows() {
		if was := had[r.GetKey()]; was == nil || !proto.Equal(was, r) {
			change.Rows = append(change.Rows, r)
		}
		delete(had, r.GetKey())
	}
	for key := range had {
		change.Removed = append(change.Removed, key)
	}
	ordered := keepsOrder(before, now, change)
	same := ordered && len(change.GetRows())+len(change.GetRemoved()) == 0 && before.GetState() == now.GetState() && before.GetReason() == now.GetReason() &&
		before.GetWithheld() == now.GetWithheld() && before.GetSample() == now.GetSample() && maps.Equal(before.GetFigures(), now.GetFigures())
	switch {
	case same:
		return nil
	case before.GetFigures() == nil, !ordered, proto.Size(change) > proto.Size(now):
		// Of a section of which nothing was known the hub may have rows of an earlier agent.
		change.Rows, change.Removed, change.AllRows = now.GetRows(), nil, true
	}
	return change
}

// keepsOrder says whether the hub has the rows in the order of now after a change: it puts rows that changed where they
// were, and new ones behind all.
func keepsOrder(before, now, change *deliveryv1.ViewSection) bool {
	gone := map[string]bool{}
	for _, key := range change.GetRemoved() {
		gone[key] = true
	}
	at := 0
	for _, r := range before.GetRows() {
		if gone[r.GetKey()] {
			continue
		}
		if at >= len(now.GetRows()) || now.GetRows()[at].GetKey() != r.GetKey() {
			return false
		}
		at++
	}
	return true // what comes behind is new, and the change has it in the order of now
}
