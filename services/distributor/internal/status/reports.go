// Package status hands on to the console what the distributor learns: agents' reports, clusters' signs
// of life, and what is delivered. The console's record is the only one; nothing is kept here that
// can't be said again.
package status

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/shares"
	"fairlead.dev/services/distributor/internal/pressure"
)

// Console is what is told.
type Console interface {
	RecordReports(context.Context, *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error)
	RecordHub(context.Context, *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error)
	RecordSeen(context.Context, *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error)
}

const (
	// The pause after a failed call has full jitter below a bound that doubles from first to last.
	firstBackoff, lastBackoff = 500 * time.Millisecond, 30 * time.Second
	// callTimeout bounds one call to the console: less than agents wait for what becomes of their reports.
	callTimeout = 20 * time.Second
	// A call of reports should take reportsTime, and one of truths or signs of life truthsTime: a call costs
	// something by itself, whatever is in it; agents wait for the first kind, and people's writes wait for both.
	reportsTime, truthsTime = 2 * time.Second, 500 * time.Millisecond
	// patience is how long the line may take, if more than leastWaiting are in it: agents give up soon after, and what
	// they come back with is new work.
	patience, leastWaiting = 15 * time.Second, 256
	// maxWaiting and maxWaitingBytes bound the agents' calls that wait for the console, and what is in them: four
	// full calls to the console, and as much memory as a distributor has to spare. More are told when to come
	// back: a storm of reports costs neither memory nor the time of Syncs, and takes its turns.
	maxWaiting      = 4096
	maxWaitingBytes = 64 << 20
	// maxClusterBytes bound the part of it that is one cluster's: a cluster's largest call, twice. Its calls are
	// bounded before their bodies are read.
	maxClusterBytes = 8 << 20
	// A call to the console carries at most so many clusters (its own limit) and bytes (half of what
	// it reads, and more only for one cluster alone).
	maxClusters   = 1000
	maxBatchBytes = 2 << 20
	// firstBatchBytes is what it begins with, and leastBatchBytes what is left of it when calls run into their
	// deadlines: what is told in time is told once.
	firstBatchBytes, leastBatchBytes = 256 << 10, 32 << 10
	// While more than fewReporters clusters report at once, calls are begun callPause apart at least: what comes in
	// between goes together, in one commit and as few events. A single report waits for nothing.
	fewReporters = 8
	callPause    = 100 * time.Millisecond
	// turnWithin is when a cluster that waits for its turn comes without: the call was lost, or others take long.
	turnWithin = time.Minute
	// maxBad is how many reports, or views, one after the other are taken for bad.
	maxBad = 3
)

// ErrBusy: too many reports wait for the console already.
var ErrBusy = errors.New("too many reports are waiting for the console")

// Reports makes agents' reports durable. Reports that come in while a call to the console runs go together in the next
// one.
type Reports struct {
	console Console
	queue   chan *job
	log     *slog.Logger
	bytes   atomic.Int64   // of what waits
	sizes   *shares.Shares // the clusters' shares of the bytes
	pace    pressure.Pace
	agents  Agents
	turns   *turns
	piece   int // bytes in the next call; of Run's goroutine
}

type job struct {
	waiting atomic.Pointer[consolev1.ClusterReports] // until they are sent, or nobody waits for them any more
	sent    *consolev1.ClusterReports                // of the sender's goroutine
	size    int
	done    chan outcome // capacity 1
}

type outcome struct {
	acknowledged []*deliveryv1.Acknowledgement
	err          error
}

// NewReports returns Reports; Run works.
func NewReports(c Console, agents Agents, log *slog.Logger) *Reports {
	return &Reports{
		console: c, queue: make(chan *job, maxWaiting), log: log, sizes: shares.New(maxClusterBytes),
		agents: agents, turns: newTurns(), piece: firstBatchBytes,
	}
}

// Record returns once the reports are durable, or an error. Record keeps reports until it has returned.
func (r *Reports) Record(ctx context.Context, cluster string, reports []*deliveryv1.ServiceReport) ([]*deliveryv1.Acknowledgement, error) {
	if r.Full() {
		return nil, ErrBusy
	}
	said := &consolev1.ClusterReports{Cluster: cluster, Reports: reports}
	j := &job{size: proto.Size(said), done: make(chan outcome, 1)}
	j.waiting.Store(said)
	if !r.sizes.Take(cluster, int64(j.size)) {
		return nil, ErrBusy
	}
	defer r.sizes.Give(cluster, int64(j.size))
	defer r.bytes.Add(int64(-j.size))
	if r.bytes.Add(int64(j.size)) > maxWaitingBytes {
		return nil, ErrBusy
	}
	select {
	case r.queue <- j:
		r.turns.came(cluster)
	default:
		return nil, ErrBusy
	}
	select {
	case <-ctx.Done():
		j.waiting.Store(nil) // the agent says it again, and by then maybe something newer; the line is long
		return nil, ctx.Err()
	case o := <-j.done:
		return o.acknowledged, o.err
	}
}

// Full says that a caller who comes now would wait for longer than callers wait.
func (r *Reports) Full() bool {
	return len(r.queue) > leastWaiting && r.Takes() > patience
}

// Takes is how long the line takes that waits for the console.
func (r *Reports) Takes() time.Duration { return r.pace.Takes(int64(len(r.queue))) }

// PutOff returns when a cluster that met ErrBusy may come again. Behind a line a cluster whose agent has a stream here
// is called when there is room, and comes by itself only if that is not heard.
func (r *Reports) PutOff(cluster string) time.Duration {
	waiting := len(r.queue)
	if waiting < leastWaiting || !r.agents.Watching(cluster) {
		return r.pace.Pause(int64(waiting))
	}
	r.turns.putOff(cluster)
	return retry.Between(turnWithin-turnWithin/10, turnWithin)
}

// callNext calls clusters whose reports were put off, so that the line does not run empty.
func (r *Reports) callNext() {
	ahead := min(max(r.pace.Within(callAhead), leastCalled), maxWaiting/2)
	r.turns.call(ahead-len(r.queue), time.Now(), r.agents)
}

// Run works until ctx ends.
func (r *Reports) Run(ctx context.Context) error {
	var left *job // did not fit into the batch before
	for ctx.Err() == nil {
		first := left
		if left = nil; first == nil {
			select {
			case <-ctx.Done():
				return nil
			case first = <-r.queue:
			}
		}
		var batch []*job
		if batch, left = r.gather(first); len(batch) > 0 {
			r.send(ctx, batch, left != nil)
		}
		if len(batch) > fewReporters && left == nil {
			retry.Sleep(ctx, callPause)
		}
	}
	return nil
}

// gather adds what waits already, up to the bounds of a call, and leaves out what nobody waits for.
func (r *Reports) gather(first *job) (batch []*job, left *job) {
	size := 0
	for j := first; ; {
		if j.waiting.Load() != nil {
			if size += j.size; len(batch) > 0 && size > r.piece {
				return batch, j
			}
			if j.sent = j.waiting.Swap(nil); j.sent != nil {
				batch = append(batch, j)
			}
		}
		if len(batch) == maxClusters {
			return batch, nil
		}
		select {
		case j = <-r.queue:
		default:
			return batch, nil
		}
	}
}

// send makes a batch durable; whole: there was more than fitted in.
func (r *Reports) send(ctx context.Context, batch []*job, whole bool) {
	begin := time.Now()
	err := r.call(ctx, batch)
	r.piece = piece{leastBatchBytes, maxBatchBytes, reportsTime}.next(r.piece, whole, time.Since(begin), err)
	if err == nil {
		return
	}
	r.pace.Note(0, len(r.queue) > 0)
	if len(batch) > 1 && isAboutContent(err) {
		r.sendApart(ctx, batch)
		return
	}
	for _, j := range batch {
		j.done <- outcome{err: err}
	}
}

func (r *Reports) sendApart(ctx context.Context, batch []*job) {
	sendApart(batch, func(j *job) error {
		err := r.call(ctx, []*job{j})
		if err != nil {
			j.done <- outcome{err: err}
		}
		return err
	}, func(j *job) { j.done <- outcome{err: ErrBusy} })
}

// sendApart sends what is in a batch one by one: one of it is bad, and the others must not suffer for it. If one after
// the other seems to be, it is the console that is in a bad way, and is left alone: the others are refused.
func sendApart[J any](batch []J, send func(J) error, refuse func(J)) {
	bad := 0
	for _, j := range batch {
		switch {
		case bad == maxBad:
			refuse(j)
		case send(j) != nil:
			bad++
		default:
			bad = 0
		}
	}
}

// isAboutContent tells an answer to what was sent from one that does not depend on it.
func isAboutContent(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted, connect.CodeInternal, connect.CodeNotFound:
		return true
	}
	return false
}

// call makes a batch durable and tells those who wait.
func (r *Reports) call(ctx context.Context, batch []*job) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &consolev1.RecordReportsRequest{}
	for _, j := range batch {
		req.Clusters = append(req.Clusters, j.sent)
	}
	resp, err := r.console.RecordReports(ctx, req)
	if err != nil {
		return err
	}
	if len(resp.GetClusters()) != len(batch) {
		return errors.New("the console acknowledged another number of clusters than it was given")
	}
	r.pace.Note(len(batch), len(r.queue) > 0)
	r.callNext()
	for i, j := range batch {
		j.done <- outcome{acknowledged: resp.GetClusters()[i].GetAcknowledged()}
	}
	return nil
}

// piece bounds what goes into a call, which should take the time wanted.
type piece struct {
	least, most int
	wanted      time.Duration
}

// next is how much goes into the next call after one that took so long: half of it after one that took twice the wanted
// time, and more after one that was whole and took less. In between nothing changes.
func (p piece) next(now int, whole bool, took time.Duration, err error) int {
	switch {
	case took > 2*p.wanted:
		return max(now/2, p.least)
	case err == nil && whole && took < p.wanted:
		return min(2*now, p.most)
	}
	return now
}
