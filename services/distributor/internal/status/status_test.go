package status_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/status"
)

var errAway = connect.NewError(connect.CodeUnavailable, errors.New("the console is away"))

// console remembers what it is told, or fails.
type console struct {
	mu      sync.Mutex // guards everything
	fail    func(calls int) error
	took    time.Duration // of a call
	reports []*consolev1.RecordReportsRequest
	hub     []*consolev1.RecordHubRequest
	seen    []*consolev1.RecordSeenRequest
	wanted  []string // the clusters whose views RecordSeen asks for
	calls   int
}

func (c *console) call(ctx context.Context, note func()) error {
	c.mu.Lock()
	c.calls++
	calls, took := c.calls, c.took
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(took):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(calls); err != nil {
			return err
		}
	}
	note()
	return nil
}

func (c *console) RecordReports(ctx context.Context,
	r *consolev1.RecordReportsRequest,
) (*consolev1.RecordReportsResponse, error) {
	resp := &consolev1.RecordReportsResponse{}
	for _, cr := range r.GetClusters() {
		if cr.GetCluster() == "poison" {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("poison"))
		}
		acks := &consolev1.ClusterAcknowledgements{}
		for _, s := range cr.GetReports() {
			acks.Acknowledged = append(acks.Acknowledged,
				&deliveryv1.Acknowledgement{Service: s.GetService(), Sequence: s.GetSequence()})
		}
		resp.Clusters = append(resp.Clusters, acks)
	}
	return resp, c.call(ctx, func() { c.reports = append(c.reports, r) })
}

func (c *console) RecordHub(ctx context.Context, r *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error) {
	return &consolev1.RecordHubResponse{}, c.call(ctx, func() { c.hub = append(c.hub, r) })
}

func (c *console) RecordSeen(ctx context.Context, r *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	return &consolev1.RecordSeenResponse{ViewsWanted: c.wanted}, c.call(ctx, func() { c.seen = append(c.seen, r) })
}

func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

func reports(service string, message int) []*deliveryv1.ServiceReport {
	return []*deliveryv1.ServiceReport{{Service: service, Sequence: 1, Message: strings.Repeat("x", message)}}
}

func TestReportsThatWaitGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				name := fmt.Sprint("s", i)
				acks, err := r.Record(context.Background(), fmt.Sprint("c", i), reports(name, 0))
				if err != nil || len(acks) != 1 || acks[0].GetService() != name {
					t.Errorf("%s: %v, %v", name, acks, err)
				}
			})
		}
		all.Wait()
		if len(c.reports) > 3 {
			t.Errorf("%d calls", len(c.reports))
		}
		stop()
	})
}

// record makes many calls and counts those that are refused for now.
func record(t *testing.T, r *status.Reports, calls, message int) (busy int) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range calls {
		all.Go(func() {
			if _, err := r.Record(context.Background(), fmt.Sprint("c", i), reports("s", message)); errors.Is(err, status.ErrBusy) {
				mu.Lock()
				defer mu.Unlock()
				busy++
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return busy
}

func TestOneClusterTakesNoMoreThanItsShareOfTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: 5 * time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var all sync.WaitGroup
		var busy atomic.Int64
		for range 100 {
			all.Go(func() {
				if _, err := r.Record(context.Background(), "hog", reports("s", 1<<20)); errors.Is(err, status.ErrBusy) {
					busy.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := busy.Load(); n < 90 {
			t.Errorf("%d of 100 reports of 1 MiB were refused", n)
		}
		if _, err := r.Record(context.Background(), "other", reports("s", 1<<20)); err != nil {
			t.Errorf("another cluster: %v", err)
		}
		all.Wait()
		stop()
	})
}

func TestReportsThatAreTooManyAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: 2 * time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var first sync.WaitGroup
		// A report that the sender is busy with, while the others come.
		first.Go(func() {
			if _, err := r.Record(context.Background(), "first", reports("s", 0)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if busy := record(t, r, 5000, 0); busy != 5000-4096 {
			t.Errorf("%d of 5000 were refused", busy)
		}
		first.Wait()
		if busy := record(t, r, 4000, 0); busy != 0 {
			t.Errorf("%d were refused after the storm", busy)
		}
		stop()
	})
}

func TestReportsThatAreTooLargeTogetherAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		if busy := record(t, r, 70, 1<<20); busy != 7 { // 63 of a little over 1 MiB fit into 64
			t.Errorf("%d of 70 MiB were refused", busy)
		}
		if busy := record(t, r, 60, 1<<20); busy != 0 {
			t.Errorf("%d were refused after the storm", busy)
		}
		stop()
	})
}

func TestReportsThatNobodyWaitsForAreNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: 5 * time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var all sync.WaitGroup
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		all.Go(func() { _, _ = r.Record(context.Background(), "first", reports("s", 0)) })
		synctest.Wait()
		for range 10 {
			all.Go(func() {
				if _, err := r.Record(short, "gone", reports("s", 0)); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		all.Go(func() { _, _ = r.Record(context.Background(), "last", reports("s", 0)) })
		all.Wait()
		var sent []string
		for _, req := range c.reports {
			for _, cl := range req.GetClusters() {
				sent = append(sent, cl.GetCluster())
			}
		}
		if fmt.Sprint(sent) != "[first last]" {
			t.Errorf("sent those of %v", sent)
		}
		stop()
	})
}

// A storm of reports, of which each call costs half a second besides what is in it: as many as can go together do, also
// after a time in which everything took long, and nobody is let into a line that takes longer than its callers wait.
func TestAStormOfReportsIsWorkedOffAfterASlowTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const agents, each, gaveUpAfter = 3000, 10 << 10, 30 * time.Second
		c := &console{took: 10 * time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		begun := time.Now()
		var all sync.WaitGroup
		var vain atomic.Int64
		for i := range agents {
			all.Go(func() {
				for time.Since(begun) < 15*time.Minute {
					ctx, cancel := context.WithTimeout(context.Background(), gaveUpAfter)
					_, err := r.Record(ctx, fmt.Sprint("c", i), reports("s", each))
					cancel()
					switch {
					case err == nil:
						return
					case errors.Is(err, status.ErrBusy):
						<-time.After(r.PutOff(fmt.Sprint("c", i)))
					default:
						vain.Add(1)
					}
				}
			})
		}
		<-time.After(5 * time.Minute)
		c.mu.Lock()
		c.took = 500 * time.Millisecond
		c.mu.Unlock()
		all.Wait()
		stop()
		if took := time.Since(begun) - 5*time.Minute; took > 90*time.Second || vain.Load() > 2*agents {
			t.Errorf("%s after the slow time all are durable, and callers gave up %d times", took, vain.Load())
		}
	})
}

// stuck is a console that does not answer reports before its end.
type stuck struct {
	*console

	begun, end chan struct{}
}

func (s stuck) RecordReports(context.Context, *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error) {
	close(s.begun) // there is one call
	<-s.end
	return nil, errAway
}

// A caller that gives up leaves nothing behind in the line, however long the console takes.
func TestReportsThatNobodyWaitsForTakeNoMemory(t *testing.T) {
	t.Parallel()
	c := stuck{&console{}, make(chan struct{}), make(chan struct{})}
	r := status.NewReports(c, nobody{}, quiet)
	defer run(t, r.Run)()
	var first sync.WaitGroup
	defer first.Wait()
	defer close(c.end)
	first.Go(func() { _, _ = r.Record(context.Background(), "first", reports("s", 0)) })
	<-c.begun
	const many = 50
	var freed atomic.Int64
	for range many {
		ctx, cancel := context.WithCancel(context.Background())
		said := reports("s", 1<<20)
		runtime.AddCleanup(said[0], func(int) { freed.Add(1) }, 0)
		cancel()
		if _, err := r.Record(ctx, "c", said); !errors.Is(err, context.Canceled) {
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

// A console that fails at whatever it is told is not told it in a thousand pieces.
func TestConsoleThatFailsIsNotCalledForEachReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: time.Second, fail: func(int) error { return connect.NewError(connect.CodeInternal, errors.New("broken")) }}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				if _, err := r.Record(context.Background(), fmt.Sprint("c", i), reports("s", 0)); err == nil {
					t.Error("acknowledged")
				}
			})
		}
		all.Wait()
		stop()
		if c.calls > 10 {
			t.Errorf("%d calls", c.calls)
		}
	})
}

func TestCallsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if _, err := r.Record(context.Background(), fmt.Sprint("c", i), reports("s", 500<<10)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, req := range c.reports {
			if len(req.GetClusters()) > 4 {
				t.Errorf("%d clusters of 500 KiB in one call", len(req.GetClusters()))
			}
		}
		stop()
	})
}

func TestBadReportFailsNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{took: time.Second}
		r := status.NewReports(c, nobody{}, quiet)
		stop := run(t, r.Run)
		var all sync.WaitGroup
		for _, cluster := range []string{"a", "b", "poison", "c", "d"} {
			all.Go(func() {
				_, err := r.Record(context.Background(), cluster, reports("s", 0))
				if cluster == "poison" && connect.CodeOf(err) != connect.CodeInvalidArgument ||
					cluster != "poison" && err != nil {
					t.Errorf("%s: %v", cluster, err)
				}
			})
		}
		all.Wait()
		stop()
	})
}

func TestSignsOfLifeSurviveAnOutageAndTheLastCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{fail: func(calls int) error {
			if calls <= 5 {
				return errAway
			}
			return nil
		}}
		s := status.NewSeen(c, quiet)
		stop := run(t, s.Run)
		s.Polled(identity.Identity{Kind: identity.KindAgent, Name: "a"}, time.Unix(1, 0), time.Unix(120, 0),
			&deliveryv1.SyncRequest{Agent: &deliveryv1.AgentInfo{Version: "v1"}})
		synctest.Wait()
		s.Mark("a", time.Unix(2, 0))
		s.Mark("b", time.Unix(3, 0))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if len(c.seen) != 1 || len(c.seen[0].GetClusters()) != 2 {
			t.Fatalf("told %v", c.seen)
		}
		for _, cl := range c.seen[0].GetClusters() {
			if cl.GetCluster() == "a" && (cl.GetTime().GetSeconds() != 2 || cl.GetAgent().GetVersion() != "v1") {
				t.Errorf("told %v", cl)
			}
		}
		stop()
	})
}

func TestTheViewOfAClusterThatLeftIsWantedNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := status.NewSeen(&console{wanted: []string{"left", "stays"}}, quiet)
		defer run(t, s.Run)()
		s.Mark("left", time.Now()) // its agent has never synced here
		s.Mark("stays", time.Now())
		synctest.Wait()
		s.Forget(func(cluster string) bool { return cluster == "stays" })
		if s.IsViewWanted("left") || !s.IsViewWanted("stays") {
			t.Errorf("wanted of the one that left: %v, of the other: %v", s.IsViewWanted("left"), s.IsViewWanted("stays"))
		}
	})
}

// TestAnAgentThatStandsByIsNoSignOfLife: the cluster is as silent as its agent that works.
func TestAnAgentThatStandsByIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{}
		s := status.NewSeen(c, quiet)
		stop := run(t, s.Run)
		defer stop()
		by, info := identity.Identity{Name: "edge-1", TokenID: "t"}, &deliveryv1.AgentInfo{Version: "v1"}
		standby := &deliveryv1.SyncRequest{Agent: info, AgentConfig: &deliveryv1.AgentConfigState{StandsBy: true}}
		s.Polled(by, time.Now(), time.Now(), &deliveryv1.SyncRequest{Agent: info})
		time.Sleep(time.Minute) //nolint:forbidigo // fake time
		s.Lost(by.Name, time.Now())
		s.Polled(by, time.Now(), time.Now(), standby)
		time.Sleep(time.Minute) //nolint:forbidigo // fake time
		synctest.Wait()
		if len(c.seen) != 2 {
			t.Fatalf("the console was told %v, want the poll and the end of the stream", c.seen)
		}
		if last := c.seen[1].GetClusters(); len(last) != 1 || !last[0].GetLost() {
			t.Errorf("the console was told %v last, want that the stream ended", last)
		}
	})
}

func TestEndOfAStreamIsToldUnlessTheAgentIsSeenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{fail: func(calls int) error {
			if calls == 1 {
				return errAway
			}
			return nil
		}}
		s := status.NewSeen(c, quiet)
		stop := run(t, s.Run)
		s.Polled(identity.Identity{Kind: identity.KindAgent, Name: "a"}, time.Unix(1, 0), time.Unix(120, 0),
			&deliveryv1.SyncRequest{Agent: &deliveryv1.AgentInfo{Version: "v1"}})
		s.Lost("a", time.Unix(2, 0))
		s.Lost("b", time.Unix(2, 0))
		s.Mark("b", time.Unix(3, 0))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		stop()
		got := map[string]*consolev1.ClusterSeen{}
		for _, req := range c.seen {
			for _, cl := range req.GetClusters() {
				got[fmt.Sprint(cl.GetCluster(), " ", cl.GetLost())] = cl
			}
		}
		if len(got) != 3 || got["a true"].GetTime().GetSeconds() != 2 ||
			got["a false"].GetNextPollTime().GetSeconds() != 120 || got["b false"] == nil {
			t.Errorf("told %v", got)
		}
	})
}

func TestProblemThatPassesIsNeverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{}
		truths := map[string]plan.Truth{
			"passing": {UID: "1", Problem: plan.Problem{Text: "passing", From: time.Now().Add(15 * time.Second)}},
			"lasting": {UID: "2", Problem: plan.Problem{Text: "lasting", From: time.Now().Add(15 * time.Second)}},
			"certain": {UID: "3", Problem: plan.Problem{Text: "certain", From: time.Now()}},
		}
		var mu sync.Mutex
		h := status.NewTruthReporter(c, func(s string) (plan.Truth, bool) {
			mu.Lock()
			defer mu.Unlock()
			tr, ok := truths[s]
			return tr, ok
		}, quiet)
		stop := run(t, h.Run)
		h.Changed(map[string]struct{}{"passing": {}, "lasting": {}, "certain": {}, "gone": {}}, nil)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if len(c.hub) != 1 || len(c.hub[0].GetServices()) != 3 {
			t.Fatalf("told %v", c.hub)
		}
		for _, s := range c.hub[0].GetServices() {
			if p := s.GetHub().GetProblem(); (p != nil) != (s.GetService() == "certain") {
				t.Errorf("told %v", s)
			}
		}
		mu.Lock()
		truths["passing"] = plan.Truth{UID: "1"}
		mu.Unlock()
		<-time.After(30 * time.Second)
		synctest.Wait()
		told := map[string]string{}
		for _, r := range c.hub[1:] {
			for _, s := range r.GetServices() {
				told[s.GetService()] = s.GetHub().GetProblem().GetMessage()
			}
		}
		if told["lasting"] != "lasting" || told["passing"] != "" {
			t.Errorf("told %v", told)
		}
		stop()
	})
}

func TestTruthsSurviveAnOutageAndTheNewestIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &console{fail: func(calls int) error {
			if calls <= 5 {
				return errAway
			}
			return nil
		}}
		var mu sync.Mutex
		digest := "old"
		h := status.NewTruthReporter(c, func(string) (plan.Truth, bool) {
			mu.Lock()
			defer mu.Unlock()
			return plan.Truth{UID: "1", Delivery: &plan.Delivery{Digest: digest}}, true
		}, quiet)
		stop := run(t, h.Run)
		many := map[string]struct{}{}
		for i := range 2500 {
			many[fmt.Sprint(i)] = struct{}{}
		}
		h.Changed(many, nil)
		synctest.Wait()
		mu.Lock()
		digest = "new"
		mu.Unlock()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		told := 0
		for _, r := range c.hub {
			told += len(r.GetServices())
			for _, s := range r.GetServices() {
				if s.GetHub().GetDigest() != "new" {
					t.Fatal("told what is not so any more")
				}
			}
		}
		if told != 2500 || len(c.hub) != 3 {
			t.Errorf("told %d in %d calls", told, len(c.hub))
		}
		stop()
	})
}

// slow is a console that takes a time for each truth and sign of life.
type slow struct {
	each  time.Duration
	mu    sync.Mutex // guards what follows
	told  map[string]int
	vain  int // calls that ran into their deadline
	calls int
}

func (s *slow) work(ctx context.Context, names []string) error {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vain++
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	case <-time.After(time.Duration(len(names)) * s.each):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.told[name]++
	}
	return nil
}

func (s *slow) RecordReports(context.Context, *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error) {
	return nil, errAway
}

func (s *slow) RecordHub(ctx context.Context, req *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error) {
	var names []string
	for _, h := range req.GetServices() {
		names = append(names, h.GetService())
	}
	return &consolev1.RecordHubResponse{}, s.work(ctx, names)
}

func (s *slow) RecordSeen(ctx context.Context, req *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	var names []string
	for _, c := range req.GetClusters() {
		names = append(names, c.GetCluster())
	}
	return &consolev1.RecordSeenResponse{}, s.work(ctx, names)
}

// A console that takes longer for a whole piece than the call may take is told in smaller ones, each once.
func TestASlowConsoleIsToldInPiecesThatAreDoneOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &slow{each: 60 * time.Millisecond, told: map[string]int{}}
		truths := status.NewTruthReporter(c, func(service string) (plan.Truth, bool) { return plan.Truth{UID: service}, true },
			quiet)
		seen := status.NewSeen(c, quiet)
		stopTruths, stopSeen := run(t, truths.Run), run(t, seen.Run)
		services := map[string]struct{}{}
		for i := range 3000 {
			services[fmt.Sprint("s", i)] = struct{}{}
			seen.Mark(fmt.Sprint("c", i), time.Now())
		}
		truths.Changed(services, nil)
		<-time.After(20 * time.Minute)
		stopTruths()
		stopSeen()
		twice := 0
		for _, n := range c.told {
			if n > 1 {
				twice++
			}
		}
		if len(c.told) != 6000 || twice > 0 || c.vain > 4 {
			t.Errorf("%d of 6000 are told, %d of them twice, and %d of %d calls were in vain", len(c.told), twice,
				c.vain, c.calls)
		}
	})
}
