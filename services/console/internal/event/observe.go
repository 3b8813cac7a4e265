package event

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// manyRefs is of how many refs one publication tells each.
const manyRefs = 5

// Recorder makes events of what it is told.
type Recorder struct {
	Store *store.Store
	Log   *slog.Logger
	// Now is the clock.
	Now func() time.Time

	mu      sync.Mutex
	waiting []store.Event // that the database did not take yet; guarded by mu
}

// SourceSaid implements intake.Observer.
func (r *Recorder) SourceSaid(source state.Meta, before, after state.SourceStatus) []store.Event {
	now := r.Now()
	var out []store.Event
	tell := func(e *consolev1.Event) {
		e.Source = source.Name
		out = append(out, stored(e, now))
	}
	known := map[string]string{}
	for _, h := range before.Heads {
		known[h.Ref] = h.Revision.Commit
	}
	var moved []state.Head
	for _, h := range after.Heads {
		if known[h.Ref] != h.Revision.Commit {
			moved = append(moved, h)
		}
	}
	if len(moved) > manyRefs {
		tell(&consolev1.Event{Type: SourceFetched, Severity: info, Count: int32(len(moved)), Message: fmt.Sprintf("%d refs point to new commits.", len(moved))})
		moved = nil
	}
	for _, h := range moved {
		message := fmt.Sprintf("%s points to %s", h.Ref, short(h.Revision.Commit))
		if platform.IsCombination(h.Ref) {
			message = fmt.Sprintf("It is together with other sources at %s", short(h.Revision.Commit))
		}
		if h.Revision.Subject != "" {
			message += ": " + h.Revision.Subject
		}
		tell(&consolev1.Event{
			Type: SourceFetched, Severity: info, Commit: h.Revision.Commit, Message: message, TraceId: trace(h.Revision.Traceparent),
			Duration: span(h.Revision.CommitTime, h.FetchTime),
		})
	}
	switch was, is := before.Problem, after.Problem; {
	case was.IsWhole() && !is.IsWhole():
		tell(&consolev1.Event{Type: SourceRecovered, Severity: info, Message: "It is fetched again.", Duration: span(was.Since, now)})
	case is.IsWhole() && !was.IsWhole():
		tell(&consolev1.Event{Type: SourceFailing, Severity: failing, Message: is.Message})
	}
	refused := refusedSince(before.Problem, after.Problem)
	if len(refused) > manyRefs {
		tell(&consolev1.Event{
			Type: SourceRefused, Severity: failing,
			Message: fmt.Sprintf("%d refs can't be published. %s", len(refused), refused[0]), Count: int32(len(refused)),
		})
		refused = nil
	}
	for _, message := range refused {
		tell(&consolev1.Event{Type: SourceRefused, Severity: failing, Message: message, Count: 1})
	}
	return out
}

// refusedSince is what is wrong with single refs, and was not before.
func refusedSince(was, is *state.Problem) (messages []string) {
	known := map[string]bool{}
	if was != nil {
		known[was.Message] = true
		for _, one := range was.Single {
			known[one.Message] = true
		}
	}
	if is == nil {
		return nil
	}
	for _, one := range is.Single {
		if !known[one.Message] {
			messages = append(messages, one.Message)
		}
	}
	if len(is.Single) == 0 && !is.IsWhole() && !known[is.Message] { // as gitcaches of earlier versions say it
		messages = append(messages, is.Message)
	}
	return messages
}

// HubSaid implements intake.Observer.
func (r *Recorder) HubSaid(s state.Service, before, after state.HubTruth) []store.Event {
	now := r.Now()
	var out []store.Event
	delivered := after.Digest != "" && !after.Repeats(before)
	if delivered {
		commit := after.Revision.Commit
		message := fmt.Sprintf("%s is ready for the %s.", cmp.Or(short(commit), "It"), destination(s.Spec))
		out = append(out, draftAbout(s, &consolev1.Event{
			Type: ServiceDelivered, Severity: info, Digest: after.Digest, Commit: commit, Message: message, TraceId: trace(after.Revision.Traceparent),
		}, now, after.Digest, stamp(after.ResolveTime)))
	}
	last := before.LastProblem()
	switch p := after.Problem; {
	case p == nil:
	case after.Moved(before):
		out = append(out, failedAt(s, p, now))
	case last == nil || last.Message != p.Message:
		severity := failing
		if after.GoesOn(before) && !saidHealthy(s, last.Since) {
			severity = info // it goes on with another commit, which has a status of its own at its Git host
		}
		out = append(out, about(s, &consolev1.Event{
			Type: ServiceFailed, Severity: severity, Message: p.Message,
		}, now, "hub", p.Message, stamp(p.Since)))
	}
	if p := last; p != nil && after.LastProblem() == nil && after.Digest != "" && !delivered {
		out = append(out, about(s, &consolev1.Event{
			Type: ServiceRecovered, Severity: info, Digest: after.Digest,
			Message: "It can be delivered again: its content is the one from before.", Duration: span(p.Since, now),
		}, now, "hub", stamp(p.Since)))
		// The cluster has nothing to report: what it has did not change. Its health is told once more, because that
		// ends the alert of the failure.
		if is := s.Reported(); is != nil && is.Phase == state.PhaseHealthy {
			out = append(out, about(s, &consolev1.Event{
				Type: ServiceHealthy, Severity: info, Digest: is.Digest, Commit: is.Commit, Count: is.ObjectsTotal,
				Message: cmp.Or(is.Message, allHealthy(is.ObjectsTotal)),
			}, now, "hub", stamp(p.Since)))
		}
	}
	return out
}

// saidHealthy says whether the cluster may have called the service healthy since a time, which ends alerts.
func saidHealthy(s state.Service, since time.Time) bool {
	is := s.Status.Cluster
	return is.Report != nil && is.Report.Phase == state.PhaseHealthy && is.ReceiveTime.After(since)
}

// ClusterSaid implements intake.Observer and catalog.Observer.
func (r *Recorder) ClusterSaid(s state.Service, before *state.Report, after state.Report) []store.Event {
	now := r.Now()
	var was state.Report
	if before != nil {
		was = *before
	}
	var out []store.Event
	sequence := strconv.FormatUint(after.Sequence, 10)
	tell := func(e *consolev1.Event) {
		e.Digest, e.Commit, e.TraceId = cmp.Or(e.GetDigest(), after.Digest), cmp.Or(e.GetCommit(), after.Commit), trace(after.Traceparent)
		if e.GetType() == ServiceHealthy && (was.Phase == state.PhaseDegraded || was.Phase == state.PhaseFailed || after.Message != "") {
			out = append(out, about(s, e, now, s.Spec.Cluster, sequence)) // the event closes an alert of this service, or says more than that
			return
		}
		out = append(out, draftAbout(s, e, now, s.Spec.Cluster, sequence))
	}
	asked := was.AppliedDigest != "" && after.AppliedTime.Equal(was.AppliedTime) && !was.AppliedTime.IsZero() // for tests: nothing else is applied
	if after.AppliedDigest != "" && after.AppliedDigest != was.AppliedDigest && !asked {
		tell(&consolev1.Event{
			Type: ServiceApplied, Severity: info, Digest: after.AppliedDigest, Commit: after.AppliedCommit, Count: after.ObjectsTotal,
			Message: fmt.Sprintf("%s is applied: %s.", cmp.Or(short(after.AppliedCommit), "What the hub says"), plural.Of(after.ObjectsTotal, "object")),
		})
	}
	if e := phase(was, after); e != nil {
		e.Duration = span(was.ObservedTime, after.ObservedTime)
		tell(e)
	}
	if g := after.Guard; g != nil && (was.Guard == nil || was.Guard.ID != g.ID) {
		tell(&consolev1.Event{
			Type: GuardTripped, Severity: warning, Count: g.Removing,
			Message: cmp.Or(after.Message, fmt.Sprintf("%s would be removed, and nothing is until somebody confirms it: see `fairlead get service %s`.", plural.Part(g.Removing, g.ObjectsTotal, "object"), s.Meta.Name)),
		})
	}
	if was.Guard != nil && after.EndsGuard() {
		tell(&consolev1.Event{Type: GuardReleased, Severity: info, Message: "The guard holds nothing up any more."})
	}
	if n := after.Repairs - was.Repairs; before != nil && after.Repairs > was.Repairs {
		tell(&consolev1.Event{Type: ServiceDriftRepaired, Severity: warning, Count: int32(min(n, 1<<30)), Message: repaired(n, after.Repaired)})
	}
	return out
}

// phase is what a report says by its phase, if it is another one.
func phase(was, is state.Report) *consolev1.Event {
	if was.Phase == is.Phase && (was.Digest == is.Digest || is.Phase != state.PhaseFailed) && (is.Phase != state.PhaseFailed || was.Message == is.Message) {
		return nil
	}
	switch is.Phase {
	case state.PhaseHealthy:
		return &consolev1.Event{Type: ServiceHealthy, Severity: info, Count: is.ObjectsTotal, Message: cmp.Or(is.Message, allHealthy(is.ObjectsTotal))}
	case state.PhaseDegraded:
		return &consolev1.Event{
			Type: ServiceDegraded, Severity: failing, Count: is.ObjectsTotal - is.ObjectsHealthy,
			Message: cmp.Or(is.Message, fmt.Sprintf("%s %s healthy.", plural.Part(is.ObjectsHealthy, is.ObjectsTotal, "object"), plural.Are(is.ObjectsTotal))),
		}
	case state.PhaseFailed:
		return &consolev1.Event{Type: ServiceFailed, Severity: failing, Message: cmp.Or(is.Message, "It could not be applied.")}
	case state.PhaseHeld:
		return &consolev1.Event{Type: ServiceHeld, Severity: info, Message: cmp.Or(is.Message, "What is new is not applied, on purpose.")}
	case state.PhaseRemoved:
		return &consolev1.Event{Type: ServicePruned, Severity: info, Message: cmp.Or(is.Message, allRemoved)}
	}
	return nil
}

// allRemoved is said of a removal that left nothing to say.
const allRemoved = "Its objects are removed from the cluster."

func allHealthy(objects int32) string {
	switch objects {
	case 0:
		return "It has no objects."
	case 1:
		return "Its object is healthy."
	}
	return fmt.Sprintf("All %d objects are healthy.", objects)
}

// maxFailing is how many tests that failed an event names.
const maxFailing = 5

// TestsEnded implements intake.Observer. A run that a newer revision ended, or that had nothing to run, tells nothing.
func (r *Recorder) TestsEnded(s state.Service, run intake.TestRun) []store.Event {
	e := &consolev1.Event{
		Severity: info, Digest: run.Digest, Commit: run.Commit, Count: run.Passed, Duration: span(run.StartTime, run.EndTime),
		Type: ServiceTestsPassed, Message: fmt.Sprintf("All %d tests passed.", run.Passed),
	}
	switch run.Outcome {
	case state.TestsPassed:
		if run.Passed == 1 {
			e.Message = "Its test passed."
		}
	case state.TestsFailed, state.TestsTimedOut, state.TestsError:
		e.Type, e.Severity, e.Count, e.Message = ServiceTestsFailed, failing, run.Failed, failed(run)
	default:
		return nil
	}
	return []store.Event{about(s, e, r.Now(), s.Spec.Cluster, run.ID)}
}

func failed(run intake.TestRun) string {
	message := "The tests could not be run."
	switch n := len(run.Failing); {
	case n > maxFailing:
		message = fmt.Sprintf("%s failed: %s and others.", plural.Part(run.Failed, run.Passed+run.Failed, "test"), strings.Join(run.Failing[:maxFailing], ", "))
	case n > 0:
		message = fmt.Sprintf("%s failed: %s.", plural.Part(run.Failed, run.Passed+run.Failed, "test"), strings.Join(run.Failing, ", "))
	case run.Outcome == state.TestsTimedOut:
		message = "The tests took too long."
	case run.Outcome == state.TestsFailed:
		message = "The tests failed."
	}
	return strings.TrimSpace(message + " " + run.Message)
}

// RolledBack implements catalog.Observer.
func (r *Recorder) RolledBack(by catalog.By, s state.Service, to catalog.Deployment) []store.Event {
	message := fmt.Sprintf("It is rolled back to %s, its deployment %d", short(to.Commit.Commit), to.Number)
	var why struct{ Reason string }
	if s.Spec.Sync != nil && json.Unmarshal(s.Spec.Sync, &why) == nil && why.Reason != "" {
		message += ": " + why.Reason
	}
	return []store.Event{stored(&consolev1.Event{
		Type: ServiceRolledBack, Severity: info, Service: s.Meta.Name, Cluster: s.Spec.Cluster, Project: s.Spec.Project,
		Commit: to.Commit.Commit, Digest: to.Digest, Actor: by.Subject, TraceId: by.TraceID, Message: message + ".",
	}, r.Now())}
}

// LeverEnding implements catalog.Observer.
func (r *Recorder) LeverEnding(s state.Service, l state.Lever) []store.Event {
	return []store.Event{about(s, &consolev1.Event{
		Type: LeverEnding, Severity: warning, Actor: l.By,
		Message: fmt.Sprintf("%s ends at %s.", capital(l.Words()), l.Until.UTC().Format(time.RFC3339)),
	}, r.Now(), stamp(l.Until), l.Mode, l.Commit)}
}

// capital is a text as the beginning of a sentence.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// GlobalHeld implements catalog.Observer.
func (r *Recorder) GlobalHeld(by catalog.By, global resource.GlobalService, services int) []store.Event {
	return r.global(by, global, services, &consolev1.Event{
		Type: GuardTripped, Severity: warning,
		Message: fmt.Sprintf("Its services are leaving more clusters than may be at once. %d of them, and what leaves from now on, stay until somebody confirms it: fairlead confirm global %s.", services, global.Meta.Name),
	})
}

// GlobalConfirmed implements catalog.Observer.
func (r *Recorder) GlobalConfirmed(by catalog.By, global resource.GlobalService, services int) []store.Event {
	return r.global(by, global, services, &consolev1.Event{Type: GuardConfirmed, Severity: info, Message: "The removal that the guard held up is confirmed."})
}

func (r *Recorder) global(by catalog.By, global resource.GlobalService, services int, e *consolev1.Event) []store.Event {
	e.GlobalService, e.Project, e.Count = global.Meta.Name, global.Spec.Template.Project, int32(services)
	e.Actor, e.TraceId = by.Subject, by.TraceID
	return []store.Event{stored(e, r.Now())}
}

// destination is where a service's folder goes.
func destination(s state.ServiceSpec) string {
	if s.Catalog {
		return "catalog"
	}
	return "cluster"
}

func repaired(n uint64, last *state.ObjectReport) string {
	message := fmt.Sprintf("%d times something that others had changed was put right.", n)
	if n == 1 {
		message = "Something that others had changed was put right."
	}
	if last == nil {
		return message
	}
	name := strings.TrimPrefix(last.Namespace+"/"+last.Name, "/")
	message += fmt.Sprintf(" Last %s %s", last.Kind, name)
	if last.Message != "" {
		message += ": " + last.Message
	}
	if last.Rival != "" {
		message += ", changed by " + last.Rival
	}
	if len(last.Fields) > 0 {
		message += " in " + strings.Join(last.Fields, ", ")
	}
	return message + "."
}

// about is an event about a service.
func about(s state.Service, e *consolev1.Event, at time.Time, parts ...string) store.Event {
	e.Service, e.Cluster, e.Project = s.Meta.Name, s.Spec.Cluster, s.Spec.Project
	return stored(e, at, append([]string{s.Meta.UID}, parts...)...)
}

// draftAbout is an event about a service for Gather.
func draftAbout(s state.Service, e *consolev1.Event, at time.Time, parts ...string) store.Event {
	e.Service, e.Cluster, e.Project = s.Meta.Name, s.Spec.Cluster, s.Spec.Project
	return drafted(e, at, append([]string{s.Meta.UID}, parts...)...)
}

// levers are what events tell of a service's sync options.
type levers struct {
	Pin, Mode, Reason string

	Prune struct{ Confirmed string }
}

// held says whether nothing new is applied.
func (l *levers) held() bool { return l.mode() != "" }

// mode is how a service stands in which nothing new is applied; empty: it is automatic.
func (l *levers) mode() string {
	switch l.Mode {
	case "SYNC_MODE_HOLD":
		return "held"
	case "SYNC_MODE_SUSPEND":
		return "suspended"
	case "SYNC_MODE_DRY_RUN":
		return "in dry run"
	case "SYNC_MODE_MANUAL":
		return "in manual mode"
	}
	return ""
}

// Wrote implements catalog.Hook.
func (r *Recorder) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if before != nil && after != nil && (after.Kind == store.KindProject || after.Kind == store.KindCluster) {
		return wroteFreeze(w.Tx, w.By, before, after)
	}
	if before == nil || before.Kind != store.KindService {
		return nil
	}
	was, old, err := service(*before)
	if err != nil {
		return err
	}
	tell := func(e *consolev1.Event) {
		e.Actor, e.TraceId = w.By.Subject, w.By.TraceID
		e.Service, e.Cluster, e.Project = before.Name, was.Spec.Cluster, was.Spec.Project
		w.Tx.Tell(stored(e, w.Tx.Now()))
	}
	if after == nil {
		cluster := was.Spec.Cluster
		// The service's labels are gone with it, and the status of a commit that it shares has to be counted again.
		tell(&consolev1.Event{
			Type: ServiceDeleted, Severity: info, Message: deleted(was.Spec, w.Deletes(cluster), w.HasLeft(cluster)),
			GlobalService: before.Labels[catalog.GlobalLabel],
		})
		return nil
	}
	will, now, err := service(*after)
	if err != nil {
		return err
	}
	if was.Spec.Cluster != will.Spec.Cluster {
		tell(&consolev1.Event{Type: ServiceMoved, Severity: info, Message: "It moved to another cluster."})
		if err := r.tellReturned(ctx, w.Tx, *after); err != nil {
			return err
		}
	}
	switch {
	case now.Pin != "" && now.Pin != old.Pin:
		lasting := ": what the ref gets later does not count."
		if will.Spec.UnpinAfter != "" {
			lasting = " until its ref gets another commit."
		}
		tell(&consolev1.Event{Type: PinSet, Severity: info, Commit: now.Pin, Message: fmt.Sprintf("It is pinned to %s%s", short(now.Pin), lasting)})
	case now.Pin == "" && old.Pin != "":
		tell(&consolev1.Event{
			Type: PinReleased, Severity: info, Commit: old.Pin,
			Message: fmt.Sprintf("It is not pinned to %s any more, and follows its ref.", short(old.Pin)),
		})
	}
	switch {
	case now.held() && (now.Mode != old.Mode || now.Reason != old.Reason):
		message := "It is " + now.mode()
		if now.Reason != "" {
			message += ": " + now.Reason
		}
		message += ". This stays until somebody resumes it"
		if l := state.LeversOf(&will); l != nil && l.Mode != nil && !l.Mode.Until.IsZero() {
			message += ", or until " + l.Mode.Until.UTC().Format(time.RFC3339)
		}
		tell(&consolev1.Event{Type: HoldSet, Severity: info, Message: message + "."})
	case old.held() && !now.held():
		tell(&consolev1.Event{Type: HoldReleased, Severity: info, Message: "It is not " + old.mode() + " any more: what is pushed is applied."})
	}
	if now.Prune.Confirmed != "" && now.Prune.Confirmed != old.Prune.Confirmed {
		tell(&consolev1.Event{Type: GuardConfirmed, Severity: info, Message: "The removal that the guard held up is confirmed."})
	}
	return nil
}

// tellReturned tells once more of a failure at the hub if the last event of it was about the cluster that the service is
// for now: the service left that one, which ended its alert, and returned before the hub said anything of another one.
func (r *Recorder) tellReturned(ctx context.Context, tx *store.Tx, after store.Resource) error {
	s, err := state.ReadService(after)
	if err != nil {
		return err
	}
	stored, err := tx.Hub(ctx, []string{after.UID})
	if err != nil {
		return err
	}
	truth, _, err := state.ReadHub(stored[after.UID])
	if p := truth.LastProblem(); p != nil && truth.ProblemCluster == s.Spec.Cluster {
		tx.Tell(failedAt(s, p, tx.Now()))
	}
	return err
}

// failedAt is the event of a failure at the hub that goes on at the cluster that a service moved to. A service may move
// to the same one again, which is another revision of it.
func failedAt(s state.Service, p *state.Problem, now time.Time) store.Event {
	return about(s, &consolev1.Event{Type: ServiceFailed, Severity: failing, Message: p.Message}, now,
		"hub", p.Message, stamp(p.Since), s.Spec.Cluster, strconv.FormatInt(s.Meta.Revision, 10))
}

// deleted says what becomes of what a service had: its cluster is deleted with it, or has left, or does as it says.
func deleted(was state.ServiceSpec, clusterGoes, clusterLeft bool) string {
	switch {
	case was.Catalog:
		return "It was deleted, with what its folder declared unless that was to stay."
	case clusterGoes:
		return "It was deleted with its cluster, whose agents are let in no more: its objects stay there."
	case clusterLeft && was.KeepsObjects():
		return "It was deleted after its cluster had left: its objects stay there, with its mark until an agent joins again."
	case clusterLeft:
		return "It was deleted after its cluster had left: its objects stay there until an agent joins again."
	case was.KeepsObjects():
		return "It was deleted; its objects stay in the cluster, without its mark."
	}
	return "It was deleted; its objects go from the cluster."
}

// wroteFreeze tells of freezes of projects and clusters that begin and end.
func wroteFreeze(tx *store.Tx, by catalog.By, before, after *store.Resource) error {
	was, err := state.FreezeOf(*before)
	if err != nil {
		return err
	}
	is, err := state.FreezeOf(*after)
	if err != nil {
		return err
	}
	e := &consolev1.Event{Severity: info, Actor: by.Subject, TraceId: by.TraceID}
	switch {
	case is != nil && (was == nil || *was != *is):
		e.Type, e.Message = FreezeSet, fmt.Sprintf("%s %q is frozen: %s. New content of its services waits until somebody unfreezes it", capital(string(after.Kind)), after.Name, is.Reason)
		if !is.Until.IsZero() {
			e.Message += ", or until " + is.Until.UTC().Format(time.RFC3339)
		}
		e.Message += "."
	case is == nil && was != nil:
		e.Type, e.Message = FreezeReleased, fmt.Sprintf("%s %q is not frozen any more: what waits for nothing else is applied.", capital(string(after.Kind)), after.Name)
	default:
		return nil
	}
	place(e, after.Kind, after.Name)
	tx.Tell(stored(e, tx.Now()))
	return nil
}

// place says which project or cluster an event is about.
func place(e *consolev1.Event, kind store.Kind, name string) {
	if kind == store.KindProject {
		e.Project = name
		return
	}
	e.Cluster = name
}

// FreezeEnding implements catalog.Observer.
func (r *Recorder) FreezeEnding(of store.Resource, f state.Freeze) []store.Event {
	e := &consolev1.Event{
		Type: LeverEnding, Severity: warning, Actor: f.By,
		Message: fmt.Sprintf("The freeze of %s %q ends at %s: %s.", of.Kind, of.Name, f.Until.UTC().Format(time.RFC3339), f.Reason),
	}
	place(e, of.Kind, of.Name)
	return []store.Event{stored(e, r.Now(), of.UID, stamp(f.Until), "freeze")}
}

func service(r store.Resource) (s state.Service, l levers, err error) {
	if err := json.Unmarshal(r.Spec, &s.Spec); err != nil {
		return s, l, fmt.Errorf("decode service %q: %w", r.Name, err)
	}
	if s.Spec.Sync != nil {
		_ = json.Unmarshal(s.Spec.Sync, &l) // of another version: then it has none of these
	}
	return s, l, nil
}

// maxWaiting is how many events about clusters wait for the database.
const maxWaiting = 10_000

// Saw implements index.Presence.
func (r *Recorder) Saw(ctx context.Context, seen []index.Sighting) {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range seen {
		r.waiting = append(r.waiting, sighted(s, now)...)
	}
	if over := len(r.waiting) - maxWaiting; over > 0 {
		r.waiting = r.waiting[over:]
	}
	if err := r.write(ctx); err != nil && ctx.Err() == nil {
		r.Log.WarnContext(ctx, "events about clusters wait for the database", "events", len(r.waiting), "err", err)
	}
}

// write writes what waits. The caller holds mu.
func (r *Recorder) write(ctx context.Context) error {
	if err := r.Store.AddEvents(ctx, r.waiting...); err != nil {
		return err
	}
	r.waiting = nil
	return nil
}

// Away implements index.Presence.
func (r *Recorder) Away(ctx context.Context) (since map[string]time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.write(ctx); err != nil {
		return nil, err
	}
	since = map[string]time.Time{}
	err = r.Store.ReadAll(ctx, func(ctx context.Context, v store.View) error {
		list, err := v.LastOfClusters(ctx, ClusterLost, ClusterBack, ClusterLeft)
		if err != nil {
			return err
		}
		for _, row := range list {
			e, err := Decode(row)
			if err != nil {
				return err
			}
			since[row.Cluster] = row.Time.Add(-e.GetDuration().AsDuration())
		}
		return nil
	})
	return since, err
}

func sighted(s index.Sighting, now time.Time) (out []store.Event) {
	now = now.Truncate(time.Microsecond) // as the time of an event: less the duration, it is when the agent was seen last
	status := s.Cluster.Status
	tell := func(e *consolev1.Event, since time.Time) {
		e.Cluster = s.Cluster.Meta.Name
		out = append(out, stored(e, now, s.Cluster.Meta.UID, stamp(since)))
	}
	// What a board finds when it begins was told, and may be forgotten.
	fresh := func(since time.Time) bool { return now.Sub(since) <= store.EventsKeep }
	if s.Joined && fresh(status.JoinTime) {
		tell(&consolev1.Event{Type: ClusterJoined, Severity: info, Message: "Its agent joined."}, status.JoinTime)
	}
	if s.Left && fresh(status.LeaveTime) {
		tell(&consolev1.Event{Type: ClusterLeft, Severity: info, Message: "It left: its agent's credentials count for nothing any more."}, status.LeaveTime)
	}
	if s.Lost && fresh(status.LastSeen) {
		tell(&consolev1.Event{
			Type: ClusterLost, Severity: failing, Duration: span(status.LastSeen, now),
			Message: fmt.Sprintf("Its agent was last seen at %s. Check that it runs and reaches the hub.", status.LastSeen.UTC().Format(time.RFC3339)),
		}, status.LastSeen)
	}
	if s.Back {
		tell(&consolev1.Event{Type: ClusterBack, Severity: info, Message: "Its agent is heard of again.", Duration: span(s.Since, status.LastSeen)}, s.Since)
	}
	return out
}

func stamp(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// short is as much of a commit id as people read.
func short(commit string) string { return commit[:min(len(commit), 8)] }

// trace is the id in a traceparent.
func trace(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) != 4 {
		return ""
	}
	return parts[1]
}
