package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/services/agent/internal/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is the distributor's side: it keeps the highest sequence, as the contract says.
type receiver struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler

	mu      sync.Mutex // guards what follows
	got     map[string]*deliveryv1.ServiceReport
	durable map[string]uint64
	refuse  func(*deliveryv1.ReportRequest) error
	changed chan struct{}
}

func (r *receiver) Report(_ context.Context, request *deliveryv1.ReportRequest) (*deliveryv1.ReportResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		if err := r.refuse(request); err != nil {
			return nil, err
		}
	}
	answer := &deliveryv1.ReportResponse{}
	for _, one := range request.GetReports() {
		if one.GetSequence() > r.durable[one.GetService()] {
			r.durable[one.GetService()], r.got[one.GetService()] = one.GetSequence(), one
		}
		answer.Acknowledged = append(answer.Acknowledged, &deliveryv1.Acknowledgement{
			Service: one.GetService(), Sequence: r.durable[one.GetService()],
		})
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return answer, nil
}

func (r *receiver) await(t *testing.T, service, message string) *deliveryv1.ServiceReport {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.mu.Lock()
		got := r.got[service]
		r.mu.Unlock()
		if got.GetMessage() == message && got != nil {
			return got
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("service %s: want message %q, got %v", service, message, got)
		}
	}
}

func newReceiver(t *testing.T) (*receiver, *deliveryclient.Distributors) {
	t.Helper()
	r := &receiver{
		got: map[string]*deliveryv1.ServiceReport{}, durable: map[string]uint64{}, changed: make(chan struct{}, 1),
	}
	mux := http.NewServeMux()
	mux.Handle(deliveryv1connect.NewDeliveryServiceHandler(r))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	distributors := deliveryclient.New(server.Client(), nil)
	distributors.Set([]string{server.URL})
	return r, distributors
}

func open(t *testing.T, dir string, distributors *deliveryclient.Distributors) *report.Reporter {
	t.Helper()
	r, err := report.Open(dir, distributors, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func run(t *testing.T, r *report.Reporter) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func set(t *testing.T, r *report.Reporter, service, message string) {
	t.Helper()
	if err := r.Set(&deliveryv1.ServiceReport{
		Service: service, Phase: deliveryv1.Phase_PHASE_HEALTHY, Message: message,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestLatestStateSurvivesARestart(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	dir := t.TempDir()
	first := open(t, dir, distributors)
	set(t, first, "a", "1")
	before := first.Latest("a").GetSequence()
	set(t, first, "a", "2")
	set(t, first, "a", "2")
	run(t, open(t, dir, distributors))
	if got := receiver.await(t, "a", "2"); got.GetSequence() != before+1 || got.GetObservedTime() == nil {
		t.Errorf("got %v", got)
	}
}

// The hub calls agents that it has put off: none waits longer than there is no time for it.
func TestReportsThatWerePutOffAreSentWhenTheHubCalls(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	refused := make(chan struct{})
	receiver.refuse = func(*deliveryv1.ReportRequest) error {
		receiver.refuse = nil
		close(refused)
		err := connect.NewError(connect.CodeUnavailable, errors.New("too many reports"))
		err.Meta().Set("Retry-After", "3600")
		return err
	}
	r := open(t, t.TempDir(), distributors)
	set(t, r, "a", "1")
	run(t, r)
	<-refused
	r.Turn() // before the agent knows that it is put off, maybe
	receiver.await(t, "a", "1")
}

// The agent's disk was lost when the hub had as many reports of a service as come now.
// What is over before a busy hub wants to hear of it is never sent.
func TestProgressIsKeptBackAsTheHubWants(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	r := open(t, t.TempDir(), distributors)
	progress := func(service string) {
		t.Helper()
		if err := r.Set(&deliveryv1.ServiceReport{Service: service, Phase: deliveryv1.Phase_PHASE_PROGRESSING, Message: "begins"}); err != nil {
			t.Fatal(err)
		}
	}
	receiver.refuse = func(req *deliveryv1.ReportRequest) error {
		for _, one := range req.GetReports() {
			if one.GetService() == "web" && one.GetMessage() == "begins" {
				t.Error("progress was sent")
			}
		}
		return nil
	}
	r.HoldProgress(time.Hour) // which is bounded, and far longer than this takes
	progress("web")
	r.HoldProgress(0)
	run(t, r)
	progress("api")
	receiver.await(t, "api", "begins") // a second later: as usual
	set(t, r, "web", "done")
	receiver.await(t, "web", "done")
}

func TestReportsAfterALostDiskAreNotTakenForThoseBefore(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	receiver.durable["a"] = 2
	r := open(t, t.TempDir(), distributors)
	set(t, r, "a", "1")
	set(t, r, "a", "2")
	run(t, r)
	receiver.await(t, "a", "2")
}

func TestCounterThatWasLostGoesOnAboveTheHubs(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	receiver.durable["a"] = 1 << 60
	r := open(t, t.TempDir(), distributors)
	set(t, r, "a", "1")
	run(t, r)
	if got := receiver.await(t, "a", "1"); got.GetSequence() != 1<<60+1 {
		t.Errorf("got %v", got)
	}
}

// Another agent led: what it said last has some sequence, of which this one knows nothing.
func TestReportsAfterAnotherAgentsAreNotTakenForThem(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	receiver.durable["a"] = 2
	r := open(t, t.TempDir(), distributors)
	set(t, r, "a", "of long ago")
	if err := r.Drop(); err != nil {
		t.Fatal(err)
	}
	set(t, r, "a", "1")
	set(t, r, "a", "2")
	run(t, r)
	receiver.await(t, "a", "2")
}

func TestOneInvalidReportDoesNotHoldBackOthers(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	receiver.refuse = func(request *deliveryv1.ReportRequest) error {
		for _, one := range request.GetReports() {
			if one.GetService() == "bad" {
				return connect.NewError(connect.CodeInvalidArgument, errors.New("bad"))
			}
		}
		return nil
	}
	r := open(t, t.TempDir(), distributors)
	set(t, r, "bad", "1")
	set(t, r, "good", "1")
	run(t, r)
	receiver.await(t, "good", "1")
}

func TestReportsKeepToTheContractsLimits(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	r := open(t, t.TempDir(), distributors)
	long := &deliveryv1.ServiceReport{Service: "a", Message: strings.Repeat("ü", 9000)}
	for range 300 {
		long.Objects = append(long.Objects, &deliveryv1.ObjectReport{Message: strings.Repeat("x", 9000)})
	}
	if err := r.Set(long); err != nil {
		t.Fatal(err)
	}
	run(t, r)
	got := receiver.await(t, "a", strings.Repeat("ü", 4000)+" ...")
	if len(got.GetObjects()) != 100 || len(got.GetObjects()[0].GetMessage()) > 4096 {
		t.Errorf("%d objects, messages of %d", len(got.GetObjects()), len(got.GetObjects()[0].GetMessage()))
	}
}

// Services that fail at length are more than a distributor reads at once.
func TestReportsThatAreLargeTogetherAreSentApart(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	receiver.refuse = func(request *deliveryv1.ReportRequest) error {
		if size := proto.Size(request); size > readMaxBytes {
			return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("message of %d bytes", size))
		}
		return nil
	}
	r := open(t, t.TempDir(), distributors)
	for i := range 30 {
		failed := &deliveryv1.ServiceReport{
			Service: fmt.Sprint("s", i), Phase: deliveryv1.Phase_PHASE_FAILED, Message: "no",
		}
		for range 100 {
			failed.Objects = append(failed.Objects, &deliveryv1.ObjectReport{
				Kind: "ConfigMap", Message: strings.Repeat("x", 4000),
			})
		}
		if err := r.Set(failed); err != nil {
			t.Fatal(err)
		}
	}
	run(t, r)
	for i := range 30 {
		receiver.await(t, fmt.Sprint("s", i), "no")
	}
}

// readMaxBytes is what hub services read of a message, in bytes.
const readMaxBytes = 4 << 20

func TestRemovedServiceIsForgottenOnceTheHubKnows(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	dir := t.TempDir()
	r := open(t, dir, distributors)
	if err := r.Set(&deliveryv1.ServiceReport{
		Service: "a", Phase: deliveryv1.Phase_PHASE_REMOVED, Message: "gone",
	}); err != nil {
		t.Fatal(err)
	}
	if pending := open(t, dir, distributors).Pending(); pending != 1 {
		t.Errorf("before the acknowledgement %d reports are kept", pending)
	}
	run(t, r)
	receiver.await(t, "a", "gone")
	// The service comes back: the hub still remembers the old counter.
	set(t, r, "a", "back")
	receiver.await(t, "a", "back")
}

// The hub knows the number of the report that said that the service left: no report has it once the service is back.
func TestReportsOfAServiceThatIsBackAreNotTakenForThoseBefore(t *testing.T) {
	t.Parallel()
	receiver, distributors := newReceiver(t)
	r := open(t, t.TempDir(), distributors)
	say := func(phase deliveryv1.Phase, message string) {
		t.Helper()
		if err := r.Set(&deliveryv1.ServiceReport{Service: "a", Phase: phase, Message: message}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, r)
	say(deliveryv1.Phase_PHASE_HEALTHY, "1")
	receiver.await(t, "a", "1")
	say(deliveryv1.Phase_PHASE_REMOVED, "gone")
	await.True(t, "the removal to be forgotten", func() bool { return r.Latest("a") == nil })
	say(deliveryv1.Phase_PHASE_APPLYING, "is made") // kept back, and overtaken
	say(deliveryv1.Phase_PHASE_HEALTHY, "back")
	receiver.await(t, "a", "back")
}
