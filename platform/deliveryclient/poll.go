package deliveryclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
)

const (
	// defaultPoll is used until the hub says otherwise.
	defaultPoll = 2 * time.Minute
	// minPoll and maxPoll bound what the hub may ask for.
	minPoll, maxPoll = time.Second, time.Hour
	// syncTimeout bounds one Sync call.
	syncTimeout = 30 * time.Second
	// retryFloor and retryMax bound the wait after a failure.
	retryFloor, retryMax = 200 * time.Millisecond, 2 * time.Minute
	// nudgeTime is how long a distributor may take to hear of a change that another one nudged for. If none does, the
	// console is away or its database was put back to an earlier state: asking again and again would bring nothing.
	nudgeTime = time.Minute
	// openPatience is how long the first Sync waits for the first message of the stream: a proxy may keep it back.
	openPatience = 10 * time.Second
	// silence is how long a Watch stream may be still: heartbeats come every 45 s. The next poll tells what was missed
	// meanwhile.
	silence = 110 * time.Second
)

// Wanted is what the hub wants in the cluster, as far as it is known.
type Wanted interface {
	// Have is what the cluster claims to have: service digests by name. A digest that is not known is empty.
	Have() map[string]string
	// Take keeps what the hub said. When it returns without an error Have says so, also after a crash. So
	// does Revision: it is of the catalog that what was said is from; 0: not known, the one before stays.
	Take(changes *deliveryv1.Changes, revision int64) error
	Revision() int64
}

// PollDeps is what the poller works with.
type PollDeps struct {
	Distributors *Distributors
	Wanted       Wanted
	// Again is asked after each answer that was taken, whether the hub is to be asked once more at once; nil: never.
	Again func() bool
	// Loaded, if there is one, is closed when what Have says is complete: the cluster may answer later than the hub.
	Loaded <-chan struct{}
	// KubernetesVersion of the cluster; "" while unknown.
	KubernetesVersion func() string
	// ClusterProblem is why nothing can be done in the cluster, in words, "" if something can; nil: it is not told.
	ClusterProblem func() string
	AgentVersion   string
	// Capabilities are what the agent can do now.
	Capabilities func() []deliveryv1.AgentCapability
	// HoldProgress is told for how long the hub wants progress to be kept back before it is reported; 0: it wants
	// nothing of the kind. nil: nobody is told.
	HoldProgress func(time.Duration)
	// ReportTurn is called when the hub has time for reports that it put off; nil: nobody is told.
	ReportTurn func()
	// View is the view that the hub has acknowledged, and ViewLost is called when a Sync says that the hub has it no
	// more; nil: there are no views.
	View     func() *deliveryv1.ViewState
	ViewLost func()
	// Config is what the hub configures the agent with; nil: the agent takes no configuration.
	Config Config
	// ViewSets are the sets of its view; nil: it keeps none.
	ViewSets ViewSets
	// Streams tells whether Watch runs; nil: it does.
	Streams func() bool
	Tracer  trace.Tracer
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Config is the agent's configuration, as far as the hub says.
type Config interface {
	// State is what the hub is told of it; nil: there is none.
	State() *deliveryv1.AgentConfigState
	// Synced notes that the hub has answered, and Take takes over what it sent; nil: nothing new.
	Synced()
	Take(sent *deliveryv1.AgentConfigDelivery) error
}

// ViewSets are the sets of the agent's view, as far as the hub says.
type ViewSets interface {
	// Digest is that of the sets that are kept, and Take takes over what the hub sent; nil: nothing new.
	Digest() string
	Take(sent *deliveryv1.ViewSetDelivery)
}

// Poller keeps the wanted state up to date.
type Poller struct {
	PollDeps

	nudge  chan string               // something changed: sync with `have`; and in which trace, if it is recorded
	soon   chan struct{}             // something may have been missed: a plain poll
	opened chan struct{}             // a stream has had its first message
	ended  chan struct{}             // a stream has ended, or could not be opened
	nudged atomic.Pointer[lastNudge] // the last nudge, until an answer is as new; nil: none
	synced atomic.Bool
	quiet  quiet
	seen   int64 // revision of the last answer that had one; of the goroutine of Run
	syncs  *prometheus.CounterVec
	last   prometheus.Gauge
}

// NewPoller returns a poller; Run and Watch start it.
func NewPoller(deps PollDeps) *Poller {
	p := &Poller{
		PollDeps: deps, nudge: make(chan string, 1), soon: make(chan struct{}, 1),
		opened: make(chan struct{}, 1), ended: make(chan struct{}, 1),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_agent_syncs_total",
			Help: "Sync calls by result; left_out: not made, since heartbeats say that nothing is new.",
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fairlead_agent_last_sync_timestamp_seconds",
			Help: "When the hub last answered a Sync, or its heartbeats made one needless.",
		}),
	}
	deps.Metrics.MustRegister(p.syncs, p.last)
	return p
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	loaded := p.Loaded
	p.seen = p.Wanted.Revision()
	for within, nudged := p.begin(ctx); ; {
		wait, err := p.sync(ctx, nudged, within)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		if err != nil {
			p.syncs.WithLabelValues("error").Inc()
			wait = backoff.After(err)
			p.Log.Warn("the hub did not say what to apply; what is applied stays", "err", err, "retry_in", wait)
		} else {
			backoff.Reset()
			if wait > 0 {
				p.synced.Store(true)
			}
			p.last.SetToCurrentTime()
		}
		nudge, soon := p.nudge, p.soon
		if retry.Asked(err, retryMax) > 0 {
			nudge, soon = nil, nil // the hub has no turn for this agent before, whatever is new
		}
		within, nudged = "", false
		for timer := time.NewTimer(wait); ; timer.Reset(wait) {
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
				var asked bool
				if within, nudged, asked = p.missed(); !nudged && !asked && p.leavesOut() {
					continue
				}
			case <-soon:
				within, nudged, _ = p.missed() // one Sync is for both
			case <-loaded:
				loaded = nil
			case within = <-nudge:
				nudged = true
				select {
				case <-soon:
				default:
				}
			}
			timer.Stop()
			break
		}
	}
}

// begin waits for the first message of the stream, and for this agent's turn if it says so: one Sync is for the start
// and for the stream, and agents that come all at once ask when the hub has time for them. Without a stream the agent
// asks by itself.
func (p *Poller) begin(ctx context.Context) (within string, nudged bool) {
	if p.Streams != nil && !p.Streams() {
		return "", false
	}
	patience := time.NewTimer(openPatience)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-patience.C:
		case <-p.ended:
		case <-p.opened:
			patience.Stop() // a nudge comes, or soon
			continue
		case <-p.soon:
			within, nudged, _ = p.missed()
		case within = <-p.nudge:
			nudged = true
		}
		return within, nudged
	}
}

// leavesOut says whether a poll would bring nothing new, and counts it.
func (p *Poller) leavesOut() bool {
	if !p.quiet.lasts(p.request(false, nil)) {
		return false
	}
	p.syncs.WithLabelValues("left_out").Inc()
	p.last.SetToCurrentTime()
	return true
}

// missed takes what came while the agent did not listen, or at the same time as its timer: the next Sync is for it.
// asked says that a Sync was asked for without a nudge, as at the beginning of a stream: the nudges between two streams
// came to nobody.
func (p *Poller) missed() (within string, nudged, asked bool) {
	select {
	case <-p.soon:
		asked = true
	default:
	}
	select {
	case within = <-p.nudge:
		return within, true, asked
	default:
		return "", false, asked
	}
}

// Synced tells whether the hub has answered since the start all that it was to be asked at once.
func (p *Poller) Synced() bool { return p.synced.Load() }

// sync asks once, within the trace of the nudge, and says when to ask again; 0: at once.
func (p *Poller) sync(ctx context.Context, sendHave bool, nudge string) (time.Duration, error) {
	began := time.Now()
	ctx, span := telemetry.Of(ctx, nudge, p.Tracer, syncSpan)
	defer span.End()
	var answer *deliveryv1.SyncResponse
	last := p.nudged.Load()
	var asked *deliveryv1.SyncRequest
	p.quiet.end()
	err := p.Distributors.Try(ctx, func(ctx context.Context, one Distributor) error {
		ctx, cancel := context.WithTimeout(ctx, syncTimeout)
		defer cancel()
		var err error
		asked = p.request(sendHave, last)
		answer, err = one.RPC.Sync(ctx, asked)
		if err == nil && answer.GetHaveWanted() != nil {
			asked = p.request(true, last)
			answer, err = one.RPC.Sync(ctx, asked)
		}
		return err
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return 0, fmt.Errorf("the hub does not know this cluster (any more): apply its Cluster resource again: %w", err)
	}
	if err != nil {
		return 0, fmt.Errorf("sync: %w", err)
	}
	if p.Config != nil { // before what is wanted: it may narrow how that is applied
		p.Config.Synced()
		if err := p.Config.Take(answer.GetAgentConfig()); err != nil {
			return 0, err
		}
	}
	if p.ViewSets != nil {
		p.ViewSets.Take(answer.GetViewSets())
	}
	if p.HoldProgress != nil { // before there is some
		p.HoldProgress(answer.GetProgressHold().AsDuration())
	}
	switch result := answer.GetResult().(type) {
	case *deliveryv1.SyncResponse_NotModified:
		p.syncs.WithLabelValues("not_modified").Inc()
		p.quiet.begin(asked, result.NotModified.GetWanted())
	case *deliveryv1.SyncResponse_Changes:
		p.syncs.WithLabelValues("changes").Inc()
		if err := p.Wanted.Take(result.Changes, answer.GetRevision()); err != nil {
			return 0, err
		}
		p.trace(began, nudge, result.Changes)
	default:
		return 0, errors.New("sync: the hub's answer is neither a change nor the absence of one: is the agent too old?")
	}
	if answer.GetViewWanted() && p.ViewLost != nil {
		p.ViewLost()
	}
	if r := answer.GetRevision(); r != 0 {
		p.seen = r
		if r >= last.claim() {
			p.nudged.CompareAndSwap(last, nil)
		}
	}
	if p.Again != nil && p.Again() {
		return 0, nil
	}
	return nextPoll(answer), nil
}

const syncSpan = "agent.sync"

// trace puts a Sync into the traces of the commits that it brought and that it was not nudged for.
func (p *Poller) trace(began time.Time, nudge string, changes *deliveryv1.Changes) {
	told := []string{telemetry.TraceID(nudge)}
	for _, s := range changes.GetServices() {
		parent := s.GetRevision().GetTraceparent()
		if id := telemetry.TraceID(parent); telemetry.Sampled(parent) && !slices.Contains(told, id) {
			told = append(told, id)
			_, span := telemetry.Of(context.Background(), parent, p.Tracer, syncSpan, trace.WithTimestamp(began))
			span.End()
		}
	}
}

func nextPoll(answer *deliveryv1.SyncResponse) time.Duration {
	if answer.GetNextPoll() == nil {
		return retry.Spread(defaultPoll)
	}
	return retry.Spread(min(max(answer.GetNextPoll().AsDuration(), minPoll), maxPoll))
}

// lastNudge is of a change of the catalog.
type lastNudge struct {
	revision int64
	at       time.Time
}

// claim is the change that answers are to be as new as; 0: any will do.
func (n *lastNudge) claim() int64 {
	if n == nil || time.Since(n.at) > nudgeTime {
		return 0
	}
	return n.revision
}

func (p *Poller) capabilities() []deliveryv1.AgentCapability {
	if p.Capabilities == nil {
		return nil
	}
	return p.Capabilities()
}

// Soon has Run poll at once.
func (p *Poller) Soon() { signal(p.soon, struct{}{}) }

// AskConfig takes over the configuration alone, for an agent that stands by: what else the hub says is for the agent
// that works. Run must not run meanwhile.
func (p *Poller) AskConfig(ctx context.Context) error {
	var answer *deliveryv1.SyncResponse
	err := p.Distributors.Try(ctx, func(ctx context.Context, one Distributor) (err error) {
		ctx, cancel := context.WithTimeout(ctx, syncTimeout)
		defer cancel()
		request := p.request(false, nil)
		if request.GetAgentConfig() == nil {
			request.AgentConfig = &deliveryv1.AgentConfigState{}
		}
		request.View, request.AgentConfig.StandsBy = nil, true
		answer, err = one.RPC.Sync(ctx, request)
		return err
	})
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	p.Config.Synced()
	return p.Config.Take(answer.GetAgentConfig())
}

func (p *Poller) request(sendHave bool, last *lastNudge) *deliveryv1.SyncRequest {
	digests := p.Wanted.Have()
	request := &deliveryv1.SyncRequest{
		Digest: delivery.SetDigest(digests),
		Agent: &deliveryv1.AgentInfo{
			Version: p.AgentVersion, KubernetesVersion: p.KubernetesVersion(),
			Capabilities: p.capabilities(), Time: timestamppb.Now(),
		},
		Revision: p.seen,
		Nudged:   last.claim(),
	}
	if p.ClusterProblem != nil {
		request.Agent.ClusterProblem = p.ClusterProblem()
	}
	if p.View != nil {
		request.View = p.View()
	}
	if p.Config != nil {
		request.AgentConfig = p.Config.State()
	}
	if p.ViewSets != nil {
		request.ViewSets = p.ViewSets.Digest()
	}
	if sendHave {
		for _, name := range slices.Sorted(maps.Keys(digests)) {
			request.Have = append(request.Have, &deliveryv1.ServiceDigest{Service: name, Digest: digests[name]})
		}
	}
	return request
}
