package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/services/agent/internal/report"
)

// taker is the distributor's side.
type taker struct {
	deliveryv1connect.UnimplementedDetailServiceHandler

	mu      sync.Mutex // guards what follows
	refuse  error
	refuses string // the service whose lists are refused; "": those of all
	got     []*deliveryv1.ServiceDetail
	called  int
	changed chan struct{}
	holds   chan struct{} // a call waits until it is closed; nil: none does
}

func (r *taker) ReportDetails(_ context.Context,
	request *deliveryv1.ReportDetailsRequest,
) (*deliveryv1.ReportDetailsResponse, error) {
	r.mu.Lock()
	r.called++
	holds := r.holds
	r.mu.Unlock()
	r.tell()
	if holds != nil {
		<-holds
	}
	defer r.tell()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil && (r.refuses == "" || r.refuses == request.GetDetail().GetService()) {
		return nil, r.refuse
	}
	r.got = append(r.got, request.GetDetail())
	return &deliveryv1.ReportDetailsResponse{}, nil
}

func (r *taker) tell() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *taker) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.mu.Lock()
		done := ok()
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatal("never: " + what)
		}
	}
}

func newTaker(t *testing.T) (*taker, *deliveryclient.Distributors) {
	t.Helper()
	r := &taker{changed: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.Handle(deliveryv1connect.NewDetailServiceHandler(r))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	distributors := deliveryclient.New(server.Client(), nil)
	distributors.Set([]string{server.URL})
	return r, distributors
}

func sendDetails(t *testing.T, dir string, distributors *deliveryclient.Distributors) (*report.Details, func()) {
	t.Helper()
	d, err := report.OpenDetails(dir, distributors, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return d, stop
}

func objects(service string, names ...string) *deliveryv1.ServiceDetail {
	list := &deliveryv1.ObjectList{}
	for _, name := range names {
		list.Objects = append(list.Objects, &deliveryv1.ManagedObject{Name: name})
	}
	return &deliveryv1.ServiceDetail{Service: service, Detail: &deliveryv1.ServiceDetail_Objects{Objects: list}}
}

func TestDetailsAreSentOverARestart(t *testing.T) {
	t.Parallel()
	hub, distributors := newTaker(t)
	hub.refuse = connect.NewError(connect.CodeUnavailable, errors.New("the console is away"))
	dir := t.TempDir()
	d, stop := sendDetails(t, dir, distributors)
	for _, detail := range []*deliveryv1.ServiceDetail{
		objects("web", "old"), objects("web", "a", "b"),
		{Service: "web", Detail: &deliveryv1.ServiceDetail_Diff{Diff: &deliveryv1.Diff{Created: 1}}},
	} {
		if err := d.Set(detail); err != nil {
			t.Fatal(err)
		}
	}
	hub.await(t, "a try", func() bool { return hub.called > 0 })
	stop()
	hub.mu.Lock()
	hub.refuse = nil
	hub.mu.Unlock()
	d, _ = sendDetails(t, dir, distributors)
	hub.await(t, "both kinds", func() bool { return len(hub.got) == 2 })
	if hub.got[1].GetDiff().GetCreated() != 1 || len(hub.got[0].GetObjects().GetObjects()) != 2 ||
		hub.got[0].GetObservedTime() == nil {
		t.Errorf("got %v, want the objects before what would change", hub.got)
	}
	// The same again is no news; something else is.
	for _, names := range [][]string{{"c"}, {"c"}, {"c", "d"}} {
		if err := d.Set(objects("web", names...)); err != nil {
			t.Fatal(err)
		}
	}
	hub.await(t, "the latest", func() bool { return len(hub.got[len(hub.got)-1].GetObjects().GetObjects()) == 2 })
	hub.mu.Lock()
	if len(hub.got) > 4 {
		t.Errorf("sent %d times", len(hub.got))
	}
	hub.mu.Unlock()
	files, err := os.ReadDir(dir)
	deadline := time.Now().Add(time.Minute)
	for len(files) > 0 && err == nil && time.Now().Before(deadline) { // removed right after the answer
		files, err = os.ReadDir(dir)
	}
	if len(files) > 0 || err != nil {
		t.Errorf("left over: %v %v", files, err)
	}
}

func TestDetailThatTheHubDoesNotKeepIsDropped(t *testing.T) {
	t.Parallel()
	hub, distributors := newTaker(t)
	hub.refuse = connect.NewError(connect.CodeResourceExhausted, errors.New("too much"))
	d, _ := sendDetails(t, t.TempDir(), distributors)
	if err := d.Set(objects("large", "a")); err != nil {
		t.Fatal(err)
	}
	hub.await(t, "a try", func() bool { return hub.called > 0 })
	hub.mu.Lock()
	hub.refuse = nil
	hub.mu.Unlock()
	if err := d.Set(objects("small", "a")); err != nil {
		t.Fatal(err)
	}
	hub.await(t, "the other",
		func() bool { return len(hub.got) > 0 && hub.got[len(hub.got)-1].GetService() == "small" })
	if err := d.Forget("small"); err != nil {
		t.Error(err)
	}
}

// Each run of tests is a list of its own: a later one does not take the place of one that waits.
func TestRunsOfTestsAreSentEach(t *testing.T) {
	t.Parallel()
	hub, distributors := newTaker(t)
	d, _ := sendDetails(t, t.TempDir(), distributors)
	run := func(id, message string) *deliveryv1.ServiceDetail {
		return &deliveryv1.ServiceDetail{
			Service: "web",
			Detail:  &deliveryv1.ServiceDetail_TestRun{TestRun: &deliveryv1.TestRun{Id: id, Message: message}},
		}
	}
	for _, one := range []*deliveryv1.ServiceDetail{run("one", "first"), run("two", "x"), run("one", "last")} {
		if err := d.Set(one); err != nil {
			t.Fatal(err)
		}
	}
	last := func(id string) string {
		message := ""
		for _, detail := range hub.got {
			if detail.GetTestRun().GetId() == id {
				message = detail.GetTestRun().GetMessage()
			}
		}
		return message
	}
	hub.await(t, "both runs come, as they are last", func() bool { return last("one") == "last" && last("two") == "x" })
}

func TestRunsOfAServiceThatLeftAreForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, distributors := newTaker(t)
	d, err := report.OpenDetails(dir, distributors, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Set(&deliveryv1.ServiceDetail{
		Service: "web", Detail: &deliveryv1.ServiceDetail_TestRun{TestRun: &deliveryv1.TestRun{Id: "one"}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Forget("web"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func testRun(service, id string, end *timestamppb.Timestamp) *deliveryv1.ServiceDetail {
	return &deliveryv1.ServiceDetail{
		Service: service, Detail: &deliveryv1.ServiceDetail_TestRun{TestRun: &deliveryv1.TestRun{Id: id, EndTime: end}},
	}
}

// An agent that leads again has newer lists to come, but of a run that it saw end nobody knows more.
func TestTheEndsOfRunsOutliveAChangeOfTheLeader(t *testing.T) {
	t.Parallel()
	hub, distributors := newTaker(t)
	dir := t.TempDir()
	d, err := report.OpenDetails(dir, distributors, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []*deliveryv1.ServiceDetail{
		testRun("web", "ended", timestamppb.Now()), testRun("web", "running", nil), objects("web", "a"),
	} {
		if err := d.Set(one); err != nil {
			t.Fatal(err)
		}
	}
	if !d.Waits("web", "ended") || d.Waits("web", "none") || d.Waits("other", "ended") {
		t.Error("what waits is not told")
	}
	if err := d.Drop(); err != nil {
		t.Fatal(err)
	}
	sendDetails(t, dir, distributors)
	hub.await(t, "the run that has ended",
		func() bool { return len(hub.got) == 1 && hub.got[0].GetTestRun().GetId() == "ended" })
}

func TestTheHubIsToldOfTheLastRunsOfAService(t *testing.T) {
	t.Parallel()
	_, distributors := newTaker(t)
	dir := t.TempDir()
	d, err := report.OpenDetails(dir, distributors, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Set(testRun("other", "one", nil)); err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		if err := d.Set(testRun("web", fmt.Sprintf("run-%02d", i), timestamppb.Now())); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, fmt.Sprintf("web.test-run-%02d.detail", i)), time.Time{},
			time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "web.*"))
	if err != nil || len(files) != 20 || d.Waits("web", "run-04") || !d.Waits("web", "run-05") ||
		!d.Waits("web", "run-24") || !d.Waits("other", "one") {
		t.Errorf("%d wait: %v %v", len(files), files, err)
	}
}

// A list that the hub can't keep, for whatever reason, does not keep it from the others.
func TestOneListThatFailsDoesNotHoldBackOthers(t *testing.T) {
	t.Parallel()
	hub, distributors := newTaker(t)
	hub.refuse, hub.refuses = connect.NewError(connect.CodeUnavailable, errors.New("not durable yet")), "a"
	d, _ := sendDetails(t, t.TempDir(), distributors)
	for _, service := range []string{"a", "b", "c"} {
		if err := d.Set(objects(service, "x")); err != nil {
			t.Fatal(err)
		}
	}
	hub.await(t, "the lists of others", func() bool {
		services := map[string]bool{}
		for _, one := range hub.got {
			services[one.GetService()] = true
		}
		return services["b"] && services["c"]
	})
}

// A service leaves and comes back while a list of it is on its way.
func TestAListThatComesWhileAnOlderOneIsSentIsSent(t *testing.T) {
	t.Parallel()
	hub, distributors := newTaker(t)
	hub.holds = make(chan struct{})
	d, _ := sendDetails(t, t.TempDir(), distributors)
	if err := d.Set(objects("web", "a")); err != nil {
		t.Fatal(err)
	}
	hub.await(t, "the first list is on its way", func() bool { return hub.called > 0 })
	if err := errors.Join(d.Forget("web"), d.Set(objects("web", "b"))); err != nil {
		t.Fatal(err)
	}
	close(hub.holds)
	hub.await(t, "the second list", func() bool {
		return len(hub.got) == 2 && hub.got[1].GetObjects().GetObjects()[0].GetName() == "b"
	})
}
