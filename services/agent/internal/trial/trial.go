// Package trial runs the integration tests of services: Jobs and Pods that no sync applies.
//
// A run has an id, and is begun once for each: what goes on is written into the service's inventory in the cluster
// before the first object of it is made, and so is each attempt of a test. So an agent that is killed, or another one
// with an empty disk, goes on with the run where it was, and no test runs twice for one asking. Tests run one after the
// other; what they made is listed until it is gone.
//
// A Trial is used by the keeper of its service only. Step does what can be done now, and says when to look again;
// nothing is waited for in it but the end of logs.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/set"
)

const (
	// usualTimeout of a run.
	usualTimeout = 10 * time.Minute
	// mostRuns go on at the same time: each may hold some MiB of logs.
	mostRuns = 8
	// mostTests and mostObjects bound a run.
	mostTests, mostObjects = 200, 500
	// look is between two looks at a test, if nothing is heard of it.
	look = 2 * time.Second
	// refusedPatience is how long an object that the API server refuses for the moment, or a pod that can't start, is
	// tried.
	refusedPatience = time.Minute
	// retellAfter is between two looks whether the hub has the end of a run.
	retellAfter = 5 * time.Second
	// maxWhy bounds the messages that are kept in the inventory, in bytes.
	maxWhy = 400
)

// Inventories keeps what is known of tests; *inventory.Store does.
type Inventories interface {
	Save(ctx context.Context, record inventory.Record) error
}

// Details takes runs. Set returns when the run is on the disk. Waits tells that the hub has not acknowledged a run that
// is on the disk.
type Details interface {
	Set(detail *deliveryv1.ServiceDetail) error
	Waits(service, run string) bool
}

// Deps is what runs work with.
type Deps struct {
	API         API
	Applier     *apply.Applier
	Pruner      *prune.Pruner
	Inventories Inventories
	Details     Details
	// Dir keeps the logs of runs that go on. The folder has to be there.
	Dir     string
	Now     func() time.Time
	Tracer  trace.Tracer
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Runner runs the tests of all services.
type Runner struct {
	Deps

	slots   chan struct{}
	runs    *prometheus.CounterVec
	seconds prometheus.Histogram
}

// New returns a runner.
func New(deps Deps) *Runner {
	r := &Runner{
		Deps: deps, slots: make(chan struct{}, mostRuns),
		runs: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_agent_test_runs_total", Help: "Runs of services' tests that have ended, by outcome."}, []string{"outcome"}),
			"passed", "failed", "timed_out", "aborted", "error", "skipped"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_agent_test_run_seconds",
			Help: "Duration of runs of services' tests.", Buckets: prometheus.ExponentialBuckets(1, 3, 9),
		}),
	}
	deps.Metrics.MustRegister(r.runs, r.seconds)
	return r
}

// Trial is the tests of one service. End it with Close.
type Trial struct {
	runner *Runner

	name string
	log  *slog.Logger
	// holds: the trial has a slot.
	holds bool
	// progress and collector are of the attempt that goes on.
	progress  *apply.Progress
	collector *collector
	// outputs are what the tests of the run wrote, by their place; of is its id.
	outputs map[int]output
	of      string
	// sure: it is known whether the object of the attempt was made.
	sure bool
	// cleaned is when objects that are to go are looked at again.
	cleaned time.Time
	backoff retry.Backoff
	// trouble is since when an attempt can't go on, by no fault of the test's.
	trouble time.Time
	// handed is the id of the last run whose end this process has handed over.
	handed string
}

// output is what a test wrote.
type output struct {
	log    string
	isCut  bool
	report report
}

// Of returns the trial of a service.
func (r *Runner) Of(service string) *Trial {
	return &Trial{runner: r, name: service, log: r.Log.With("service", service), backoff: retry.Backoff{Floor: 500 * time.Millisecond, Max: time.Minute}}
}

// Close ends what goes on in this process. The run stays where it is.
func (t *Trial) Close() {
	t.pauseAttempt()
	if t.holds {
		<-t.runner.slots
		t.holds = false
	}
}

// Refollow has the object of the attempt followed anew, because nothing is followed any more.
func (t *Trial) Refollow() { t.progress = nil }

// pauseAttempt drops what is known of the attempt in this process.
func (t *Trial) pauseAttempt() {
	if t.collector != nil {
		t.collector.stopReading()
	}
	t.progress, t.collector, t.trouble, t.sure = nil, nil, time.Time{}, false
}

// Input is what a step is about.
type Input struct {
	Service desired.Service
	Record  inventory.Record
	// IsHealthy: the revision that is wanted is applied and healthy.
	IsHealthy bool
	// Why says in a sentence why no tests can run now; "": they can.
	Why string
	// Mask takes secrets out of texts.
	Mask func(string) string
	// Set names the set of the tests, and Open opens it, rendered no earlier than since. A *kubeyaml.Error is a mistake
	// in the tests, and a *set.ForeignImageError an image that they may not pull.
	Set  string
	Open func(ctx context.Context, since time.Time) (*set.Set, error)
}

// Step does what is to be done now, and says when to look again; 0: when something changes. patience ends when
// something else is wanted. isNews: the service has another summary.
func (t *Trial) Step(ctx, patience context.Context, in Input) (wait time.Duration, isNews bool) {
	s, err := readState(in.Record)
	if err != nil {
		t.log.Error("what is known of the tests is damaged; it begins anew", "err", err)
	}
	wait = soonestOf(t.removeObjects(ctx, patience, &in, &s), t.retellEnd(ctx, &in, &s))
	if s.Run == nil {
		schedule, through := s.Schedule, s.Through
		next, later := dueRun(&s, in, t.runner.Now())
		if next != nil && !t.holdSlot() {
			return look, false
		}
		if next == nil {
			t.Close() // a run that could not be written down, and is not due any more, has a slot
			if s.Schedule != schedule || !s.Through.Equal(through) && s.Schedule != "" {
				t.saveState(ctx, &in, s)
			}
			return soonestOf(wait, later), false
		}
		isNews = true
		s.beginRun(*next)
		if in.Why != "" {
			s.Run.Unbegun = true
			return t.finishRun(ctx, &in, &s, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, in.Why, nil)
		}
		if !t.saveState(ctx, &in, s) {
			return look, false
		}
		t.log.Info("tests begin", "run", next.ID, "digest", next.Digest)
		t.tellRun(*s.Run)
	}
	if in.Why != "" {
		t.Close() // others run their tests meanwhile
		if t.runner.Now().Before(deadlineOf(in, *s.Run)) {
			return look, isNews
		}
		t.recallOutput(s.Run)
		wait, ended := t.finishRun(ctx, &in, &s, deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED, in.Why, nil)
		return wait, isNews || ended
	}
	if !t.holdSlot() {
		return look, isNews
	}
	t.recallOutput(s.Run)
	later, news := t.goOn(ctx, patience, &in, &s)
	return soonestOf(wait, later), isNews || news
}

// deadlineOf is when the time of a run is over.
func deadlineOf(in Input, r run) time.Time {
	timeout := usualTimeout
	if set := in.Service.Tests.GetTimeout(); set != nil {
		timeout = set.AsDuration()
	}
	return r.Start.Add(timeout)
}

// holdSlot takes a slot; false: there is none.
func (t *Trial) holdSlot() bool {
	if t.holds {
		return true
	}
	select {
	case t.runner.slots <- struct{}{}:
		t.holds = true
	default:
	}
	return t.holds
}

func soonestOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// saveState writes the state to the cluster.
func (t *Trial) saveState(ctx context.Context, in *Input, s state) bool {
	record, err := s.writeState(in.Record)
	if err == nil {
		err = t.runner.Inventories.Save(ctx, record)
	}
	if err != nil {
		if ctx.Err() == nil {
			t.log.Warn("the inventory does not know yet how the tests are", "err", err)
		}
		return false
	}
	in.Record = record
	return true
}

// removeObjects removes objects that are to go, and says when to try again.
func (t *Trial) removeObjects(ctx, patience context.Context, in *Input, s *state) time.Duration {
	s.leaveObjects(in.Record.Entries)
	going := s.goingObjects()
	if len(going) == 0 {
		t.backoff.Reset()
		return 0
	}
	if wait := t.cleaned.Sub(t.runner.Now()); wait > 0 {
		return wait
	}
	left := map[object.Key]bool{}
	for _, one := range t.runner.Pruner.Prune(patience, t.name, going).Left {
		left[one.Entry.Key] = true
	}
	if patience.Err() != nil {
		return 0
	}
	if s.dropGone(left); len(left) < len(going) {
		t.saveState(ctx, in, *s)
	}
	if len(left) == 0 {
		t.backoff.Reset()
		return 0
	}
	wait := t.backoff.Next()
	t.cleaned = t.runner.Now().Add(wait)
	return wait
}

// retellEnd hands the end of the last run over again where the disk does not have it any more: it was lost, or another
// agent leads now. retell returns when to look again; once the hub has the end, the inventory keeps no more than the
// summary, and retell returns 0.
func (t *Trial) retellEnd(ctx context.Context, in *Input, s *state) time.Duration {
	if s.Last == nil || !s.Untold {
		return 0
	}
	if t.runner.Details.Waits(t.name, s.Last.ID) {
		return retellAfter
	}
	if t.handed != s.Last.ID {
		t.recallOutput(s.Last)
		if err := t.handOver(*s.Last); err != nil {
			t.log.Warn("the end of the tests can't be handed over again", "run", s.Last.ID, "err", err)
		}
		return retellAfter
	}
	s.Untold, s.Last.Tests = false, nil
	if !t.saveState(ctx, in, *s) {
		return look
	}
	return 0
}

// goOn brings the run on, as far as it can be now.
func (t *Trial) goOn(ctx, patience context.Context, in *Input, s *state) (wait time.Duration, isNews bool) {
	r := s.Run
	deadline := deadlineOf(*in, *r)
	since := r.Start // a run decides when it begins what tests are made of
	if len(r.Tests) > 0 {
		since = time.Time{}
	}
	objects, err := in.Open(patience, since)
	if patience.Err() != nil {
		return 0, false
	}
	_, isMistake := errors.AsType[*kubeyaml.Error](err)
	if _, isForeign := errors.AsType[*set.ForeignImageError](err); isMistake || isForeign || err != nil && t.runner.Now().After(deadline) {
		return t.finishRun(ctx, in, s, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, "The tests can't be read: "+mistakes.EndSentence(err), nil)
	}
	if err != nil {
		return look, false
	}
	defer func() { _ = objects.Close() }() // the set was only read
	items, err := turnItems(objects, r)
	if err != nil {
		return look, false
	}
	if len(r.Tests) == 0 {
		if wait, isNews, planned := t.planTests(ctx, patience, in, s, items, deadline); !planned {
			return wait, isNews
		}
	}
	if !sameTests(r.Tests, items) { // rendered on another disk, or by another version of the agent
		return t.finishRun(ctx, in, s, deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED,
			"Another agent, or one whose disk was lost, goes on with the run, and renders other tests than those that the run began with. Ask for another run.", nil)
	}
	for i := range r.Tests {
		one := &r.Tests[i]
		if !one.End.IsZero() {
			continue
		}
		if why := blockedBy(r.Tests[:i], items, i); why != "" {
			one.Outcome, one.Message, one.End = deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED, why, t.runner.Now()
			continue
		}
		if at := t.runner.Now(); one.Began.IsZero() && !at.Before(deadline) {
			one.Outcome, one.Message, one.Start, one.End = deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT, "the time of the run was over before it was begun", at, at
			continue
		}
		wait, ended := t.tryTest(ctx, patience, in, s, attemptAt{i, items[i], objects, deadline})
		if !ended {
			return wait, isNews
		}
		isNews = true
	}
	wait, ended := t.finishRun(ctx, in, s, 0, "", items)
	return wait, isNews || ended
}

// turnItems are the items of a run in the order in which they are made.
func turnItems(objects *set.Set, r *run) ([]set.Item, error) {
	items, err := objects.Items()
	if err != nil {
		return nil, err
	}
	return apply.TestsInTurn(apply.Runs("test "+r.ID, items, object.Test)), nil
}

// planTests lists the tests, once what the run before has left is gone.
func (t *Trial) planTests(ctx, patience context.Context, in *Input, s *state, items []set.Item, deadline time.Time) (wait time.Duration, isNews, planned bool) {
	fail := func(outcome deliveryv1.TestOutcome, text string) (time.Duration, bool, bool) {
		wait, isNews := t.finishRun(ctx, in, s, outcome, text, nil)
		return wait, isNews, false
	}
	tests := 0
	for _, item := range items {
		if apply.IsTest(item) {
			tests++
		}
	}
	switch {
	case tests == 0:
		return fail(deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED, "The service has no tests: no Job or Pod of it is marked by "+object.HookAnnotation+": test.")
	case tests > mostTests || len(items) > mostObjects:
		return fail(deliveryv1.TestOutcome_TEST_OUTCOME_ERROR,
			fmt.Sprintf("There are %d tests and %d objects for them, and there may be %d and %d. Leave some out.",
				tests, len(items)-tests, mostTests, mostObjects))
	}
	if len(s.Objects) > 0 {
		s.goAll()
		if !t.saveState(ctx, in, *s) {
			return look, false, false
		}
		t.removeObjects(ctx, patience, in, s)
	}
	if len(s.Objects) > 0 {
		if t.runner.Now().After(deadline) {
			return fail(deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT, fmt.Sprintf("%s of an earlier run does not go.", s.Objects[0].Key))
		}
		return look, false, false
	}
	for _, item := range items {
		s.Run.Tests = append(s.Run.Tests, testOf(item))
	}
	return 0, false, true
}

func testOf(item set.Item) test {
	return test{Kind: item.Kind, Namespace: item.Namespace, Name: item.Name, Fixture: !apply.IsTest(item)}
}

// sameTests tells whether the tests of a run are those of a set, one by one.
func sameTests(tests []test, items []set.Item) bool {
	return slices.EqualFunc(tests, items, func(one test, item set.Item) bool {
		is := testOf(item)
		return one.Kind == is.Kind && one.Namespace == is.Namespace && one.Name == is.Name && one.Fixture == is.Fixture
	})
}

// blockedBy says why a test is not begun; "": it is.
func blockedBy(before []test, items []set.Item, at int) string {
	for i, one := range before {
		switch {
		case one.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED || one.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
		case one.Fixture:
			return fmt.Sprintf("was not begun, since %s is not there", items[i].Key)
		case items[i].Wave < items[at].Wave:
			return fmt.Sprintf("was not begun, since %s before it did not pass", items[i].Key)
		}
	}
	return ""
}

// attemptAt is a test of a run whose turn it is.
type attemptAt struct {
	at       int
	item     set.Item
	objects  *set.Set
	deadline time.Time
}

// tryTest goes on with a test. ended: it is through, and written down.
func (t *Trial) tryTest(ctx, patience context.Context, in *Input, s *state, a attemptAt) (wait time.Duration, ended bool) {
	one := &s.Run.Tests[a.at]
	if why := describeTaken(in.Record, a.item); why != "" {
		return t.endTest(ctx, in, s, a.at, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, why)
	}
	if one.Began.IsZero() && one.Attempt == 0 {
		why, err := t.describeStrange(patience, a)
		switch {
		case patience.Err() != nil:
			return 0, false
		case err != nil:
			return look, false
		case why != "":
			return t.endTest(ctx, in, s, a.at, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, why)
		}
	}
	if one.Began.IsZero() {
		one.Attempt++
		one.Began, one.Earlier, one.UID = t.runner.Now(), one.UID, ""
		if one.Start.IsZero() {
			one.Start = one.Began
		}
		s.noteObject(a.item.Ref, "")
		t.pauseAttempt()
		if !t.saveState(ctx, in, *s) {
			return look, false
		}
		t.sure = true
		t.tellRun(*s.Run)
	}
	item := a.item
	item.Flags &^= object.DeleteBefore | object.DeleteSucceeded | object.DeleteFailed // its logs come first
	request := apply.Request{
		Service: t.name, Digest: fmt.Sprintf("test %s %d", s.Run.ID, one.Attempt), Set: a.objects, Sync: in.Service.Sync, Record: in.Record, Mask: in.Mask,
		Note: func(_ context.Context, _, _ []object.Run) error { return nil },
	}
	if t.progress == nil {
		t.progress = t.runner.Applier.BeginHooks(request, []set.Item{item}, object.Test)
	}
	now := t.runner.Applier.Try(patience, request, t.progress,
		apply.Attempt{Item: item, Began: one.Began, Resumed: !t.sure, Earlier: one.Earlier, UID: one.UID})
	t.sure = t.sure && !now.Refused && patience.Err() == nil
	if patience.Err() != nil {
		return 0, false
	}
	if now.UID != "" && t.collector == nil && !one.Fixture {
		t.collector = startCollector(ctx, t.runner.API, item.Ref, now.UID)
	}
	if now.UID != one.UID && now.UID != "" {
		one.UID = now.UID
		s.noteObject(item.Ref, now.UID)
		if !t.saveState(ctx, in, *s) {
			return look, false
		}
	}
	if now.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING {
		if wait := t.checkOverdue(&now, one, a); wait > 0 {
			return wait, false
		}
		s.dropObject(item.Key) // the object would go on
	}
	if !one.Fixture {
		t.keepOutput(patience, in, a.at)
	}
	if now.Outcome == deliveryv1.TestOutcome_TEST_OUTCOME_FAILED && one.Attempt <= in.Service.Tests.GetRetries() && t.runner.Now().Before(a.deadline) {
		t.pauseAttempt()
		one.Began = time.Time{}
		return t.tryTest(ctx, patience, in, s, a)
	}
	return t.endTest(ctx, in, s, a.at, now.Outcome, now.Text)
}

// describeTaken says why the object of a test can't be made; "": it can.
func describeTaken(record inventory.Record, item set.Item) string {
	if inventory.Own(item.Key) {
		return "it has the name of what the agent itself keeps; give it another one"
	}
	if slices.ContainsFunc(record.Entries, func(entry inventory.Entry) bool { return entry.Key == item.Key && !entry.Hook }) {
		return "it has the name of an object that the service applies; give it another one"
	}
	return ""
}

// describeStrange says why the object of a test can't be made, because something that is not the service's has its
// name; "": it can. A sync may take such an object over. A test may not, since it deletes what it made.
func (t *Trial) describeStrange(ctx context.Context, a attemptAt) (string, error) {
	meta, err := t.runner.API.Metadata(ctx, a.item.Ref)
	if apierrors.IsNotFound(err) || meta == nil && err == nil {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	switch owner := object.Owner(meta); owner {
	case t.name:
		return "", nil
	case "":
		return "it has the name of an object that is in the cluster already, and that no test has made; give it another one", nil
	default:
		return fmt.Sprintf("it has the name of an object of service %q; give it another one", owner), nil
	}
}

// checkOverdue says when to look again at a test that runs; 0: it is ended, and how.
func (t *Trial) checkOverdue(now *apply.Trial, one *test, a attemptAt) time.Duration {
	at := t.runner.Now()
	cannot := now.Refused || cannotStart(now.Text)
	if !cannot {
		t.trouble = time.Time{}
	} else if t.trouble.IsZero() {
		t.trouble = at
	}
	end := a.deadline
	if own := one.Began.Add(a.item.Timeout); a.item.Timeout > 0 && own.Before(end) {
		end = own
	}
	switch {
	case !at.Before(end) && !cannot:
		now.Outcome, now.Text = deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT, "it did not end in time: "+now.Text
	case !at.Before(end) || cannot && at.Sub(t.trouble) >= refusedPatience:
		now.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_ERROR
	default:
		return min(look, end.Sub(at)+time.Millisecond)
	}
	return 0
}

// cannotStart tells the reasons of a pod whose containers can't be started.
func cannotStart(text string) bool {
	for _, reason := range []string{
		"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
		"CreateContainerConfigError", "CreateContainerError",
	} {
		if strings.Contains(text, reason) {
			return true
		}
	}
	return false
}

// dropObject has an object removed.
func (s *state) dropObject(key object.Key) {
	for i := range s.Objects {
		s.Objects[i].Goes = s.Objects[i].Goes || s.Objects[i].Key == key
	}
}

// keepOutput reads the rest of a test's logs.
func (t *Trial) keepOutput(ctx context.Context, in *Input, at int) {
	if t.collector == nil {
		return
	}
	t.collector.finishReading(ctx)
	var out output
	out.log, out.isCut, out.report = t.collector.maskedOutput(in.Mask)
	if t.collector.trouble != "" {
		out.log += cutText("(agent) "+in.Mask(t.collector.trouble), maxWhy) + "\n"
	}
	t.noteOutput(at, out)
}

func (t *Trial) noteOutput(at int, out output) {
	if t.outputs == nil {
		t.outputs = map[int]output{}
	}
	t.outputs[at] = out
}

// endTest notes how a test went. ended: it is written down.
func (t *Trial) endTest(ctx context.Context, in *Input, s *state, at int, outcome deliveryv1.TestOutcome, text string) (wait time.Duration, ended bool) {
	t.pauseAttempt()
	one := &s.Run.Tests[at]
	one.Outcome, one.Message, one.End = outcome, cutText(in.Mask(text), maxWhy), t.runner.Now()
	if one.Start.IsZero() {
		one.Start = one.End
	}
	if _, kept := t.outputs[at]; !kept { // the test wrote nothing that this agent could read
		t.noteOutput(at, output{})
	}
	t.writeOutput(*s.Run)
	if !t.saveState(ctx, in, *s) {
		return look, false
	}
	t.tellRun(*s.Run)
	return 0, true
}

// finishRun ends the run; with no outcome, as its tests went. ended: it is written down, and handed over.
func (t *Trial) finishRun(ctx context.Context, in *Input, s *state, outcome deliveryv1.TestOutcome, message string,
	items []set.Item,
) (wait time.Duration, ended bool) {
	if outcome == 0 {
		outcome, message = sumVerdict(s.Run.Tests)
	}
	through := s.endRun(outcome, cutText(in.Mask(message), maxMessage), t.runner.Now())
	for i := range s.Objects {
		one := &s.Objects[i]
		k := slices.IndexFunc(items, func(item set.Item) bool { return item.Key == one.Key })
		one.Goes = one.Goes || k < 0 || goesAfter(items[k].Flags, through.Tests[k].Outcome, outcome)
	}
	if err := t.handOver(through); err != nil {
		t.log.Error("the end of the tests can't be told", "err", err)
		return look, false
	}
	if !t.saveState(ctx, in, *s) {
		return look, false
	}
	t.countEnded(*in, through)
	return 0, true
}

// goesAfter tells whether an object is removed when its run has ended. One without a policy goes with a run that
// passed, and else stays to be looked at until the next run.
func goesAfter(flags object.Flags, own, all deliveryv1.TestOutcome) bool {
	passed := deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	switch {
	case own == passed && flags&object.DeleteSucceeded != 0, own != passed && flags&object.DeleteFailed != 0:
		return true
	}
	return flags&(object.DeleteBefore|object.DeleteSucceeded|object.DeleteFailed) == 0 && all == passed
}

// sumVerdict is how the tests of a run went together.
func sumVerdict(tests []test) (deliveryv1.TestOutcome, string) {
	for _, outcome := range []deliveryv1.TestOutcome{
		deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT,
		deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED,
	} {
		for _, one := range tests {
			if one.Outcome == outcome {
				return outcome, mistakes.EndText(fmt.Sprintf("%s %s: %s", one.testName(), outcomeWords(outcome), one.Message))
			}
		}
	}
	return deliveryv1.TestOutcome_TEST_OUTCOME_PASSED, ""
}

func (one test) testName() string {
	return object.Key{Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}.String()
}

func outcomeWords(outcome deliveryv1.TestOutcome) string {
	switch outcome {
	case deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT:
		return "took too long"
	case deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED:
		return "was ended"
	case deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		return "could not run"
	}
	return "failed"
}

// Abort ends the run of a service, if one goes on, and has all removed that tests made. Abort returns the record as it
// is then.
func (t *Trial) Abort(ctx context.Context, in Input, why string) (inventory.Record, error) {
	s, err := readState(in.Record)
	if err != nil || s.Run == nil {
		return in.Record, nil //nolint:nilerr // there is nothing to end
	}
	t.recallOutput(s.Run)
	for i, one := range s.Run.Tests {
		if one.End.IsZero() && t.collector != nil {
			reading, cancel := context.WithTimeout(ctx, look)
			t.keepOutput(reading, &in, i)
			cancel()
			break
		}
	}
	t.pauseAttempt()
	ended := s.endRun(deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED, why, t.runner.Now())
	s.goAll()
	if err := t.handOver(ended); err != nil {
		return in.Record, err
	}
	record, err := s.writeState(in.Record)
	if err != nil {
		return in.Record, err
	}
	if err := t.runner.Inventories.Save(ctx, record); err != nil {
		return in.Record, err
	}
	t.countEnded(in, ended)
	// At once: what comes next may wait long, and must not run beside the tests of before.
	in.Record, t.cleaned = record, time.Time{}
	t.removeObjects(ctx, ctx, &in, &s)
	return in.Record, nil
}

// Clear goes on with removing what ended runs have left, also while no run can go on. Clear returns the record as it is
// then, and when to look again; 0: nothing is left.
func (t *Trial) Clear(ctx, patience context.Context, record inventory.Record) (inventory.Record, time.Duration) {
	s, err := readState(record)
	if err != nil {
		return record, 0 // Step says so
	}
	in := Input{Record: record}
	wait := t.removeObjects(ctx, patience, &in, &s)
	return in.Record, wait
}

// Objects are those of tests that are, or may be, in the cluster: a service that is removed takes them along.
func Objects(record inventory.Record) []inventory.Entry {
	s, err := readState(record)
	if err != nil {
		return nil
	}
	s.goAll()
	return s.goingObjects()
}

// countEnded counts a run that has ended.
func (t *Trial) countEnded(in Input, ended run) {
	t.Close()
	t.outputs, t.of = nil, ""
	if err := durable.Remove(t.outputFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("the logs of tests stay on disk", "err", err)
	}
	outcome := strings.ToLower(strings.TrimPrefix(ended.Outcome.String(), "TEST_OUTCOME_"))
	t.runner.runs.WithLabelValues(outcome).Inc()
	t.runner.seconds.Observe(ended.End.Sub(ended.Start).Seconds())
	_, span := telemetry.Of(context.Background(), in.Service.Traceparent, t.runner.Tracer, "agent.test", trace.WithTimestamp(ended.Start), trace.WithAttributes(
		attribute.String("service", t.name), attribute.String("digest", ended.Digest), attribute.String("run", ended.ID), attribute.String("outcome", outcome)))
	span.End(trace.WithTimestamp(ended.End))
	tell := t.log.Info
	if isFailure(ended.Outcome) {
		tell = t.log.Warn
	}
	tell("tests have ended", "run", ended.ID, "digest", ended.Digest, "outcome", outcome, "message", ended.Message)
}

// tellRun hands over how a run is; the end of it may be the first that arrives.
func (t *Trial) tellRun(r run) {
	if err := t.handOver(r); err != nil {
		t.log.Warn("how the tests are can't be told now", "err", err)
	}
}

func (t *Trial) handOver(r run) error {
	err := t.runner.Details.Set(&deliveryv1.ServiceDetail{
		Service: t.name, Digest: r.Digest, Detail: &deliveryv1.ServiceDetail_TestRun{TestRun: t.showRun(r)},
	})
	if err == nil && !r.End.IsZero() {
		t.handed = r.ID
	}
	return err
}

func (t *Trial) outputFile() string { return filepath.Join(t.runner.Dir, t.name+".run") }

// writeOutput writes what tests wrote to the disk, for an agent that is started anew.
func (t *Trial) writeOutput(r run) {
	data, err := proto.Marshal(t.showRun(r))
	if err == nil {
		err = durable.WriteFile(t.outputFile(), data, 0o600)
	}
	if err != nil {
		t.log.Warn("a restart loses the logs of tests", "err", err)
	}
}

// recallOutput reads what tests of the run wrote before this agent was started.
func (t *Trial) recallOutput(r *run) {
	if t.of == r.ID {
		return
	}
	t.of, t.outputs = r.ID, map[int]output{}
	data, err := os.ReadFile(t.outputFile())
	var kept deliveryv1.TestRun
	if err != nil || proto.Unmarshal(data, &kept) != nil || kept.GetId() != r.ID {
		return
	}
	results := kept.GetResults()
	for i, one := range r.Tests {
		if one.Fixture || len(results) == 0 {
			continue
		}
		t.outputs[i] = output{log: results[0].GetLog(), isCut: results[0].GetLogCut(), report: report{
			cases: results[0].GetCases(), passed: results[0].GetCasesPassed(), failed: results[0].GetCasesFailed(), skipped: results[0].GetCasesSkipped(),
		}}
		results = results[1:]
	}
}

// showRun is a run as the hub is told of it.
func (t *Trial) showRun(r run) *deliveryv1.TestRun {
	out := &deliveryv1.TestRun{
		Id: r.ID, Cause: r.Cause, Digest: r.Digest, Commit: r.Commit, Outcome: r.Outcome, Message: r.Message, StartTime: timestampOf(r.Start), EndTime: timestampOf(r.End),
	}
	var logs, cases []int
	for i, one := range r.Tests {
		if !one.Fixture {
			logs, cases = append(logs, len(t.outputs[i].log)), append(cases, sizeOf(t.outputs[i].report.cases))
		}
	}
	room, caseRoom := shareRoom(maxLog, logs), shareRoom(maxCases, cases)
	for i, one := range r.Tests {
		if one.Fixture {
			continue
		}
		wrote, known := t.outputs[i]
		out.Partial = out.Partial || one.Attempt > 0 && !one.End.IsZero() && !known
		result := &deliveryv1.TestResult{
			Kind: one.Kind, Namespace: one.Namespace, Name: one.Name, Outcome: one.Outcome, Attempts: one.Attempt,
			StartTime: timestampOf(one.Start), EndTime: timestampOf(one.End),
			Message: one.Message, Cases: firstCases(wrote.report.cases, caseRoom[0]), CasesPassed: wrote.report.passed,
			CasesFailed: wrote.report.failed, CasesSkipped: wrote.report.skipped,
		}
		if one.Attempt > 0 && one.End.IsZero() {
			result.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING
		}
		result.Log, result.LogCut = lastBytes(wrote.log, room[0])
		result.LogCut = result.LogCut || wrote.isCut
		room, caseRoom = room[1:], caseRoom[1:]
		out.Results = append(out.Results, result)
	}
	return out
}

// sizeOf is how many bytes cases have in a message.
func sizeOf(cases []*deliveryv1.TestCase) int {
	size := 0
	for _, one := range cases {
		size += caseSize(one)
	}
	return size
}

// caseSize is the size of a case with its tag and length in the message around it.
func caseSize(one *deliveryv1.TestCase) int { return proto.Size(one) + 4 }

// firstCases are as many of the cases from the first on, which failed, as have so many bytes.
func firstCases(cases []*deliveryv1.TestCase, most int) []*deliveryv1.TestCase {
	for i, one := range cases {
		if most -= caseSize(one); most < 0 {
			return cases[:i]
		}
	}
	return cases
}
