package acceptance

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
)

const (
	auto    = deliveryv1.SyncMode_SYNC_MODE_AUTO
	onHold  = deliveryv1.SyncMode_SYNC_MODE_HOLD
	follows = deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED
)

// file applies a service as a file says it, and returns what came of it.
func (p *past) file(t *testing.T, change func(*consolev1.ServiceSpec), dry bool) *consolev1.Applied {
	t.Helper()
	spec := &consolev1.ServiceSpec{Source: "shop", Cluster: "edge-1"}
	if change != nil {
		change(spec)
	}
	out, err := p.admin.apply(t, &consolev1.ApplyRequest{
		DryRun: dry,
		Resources: []*consolev1.Resource{
			{Resource: &consolev1.Resource_Service{Service: &consolev1.Service{Metadata: meta("web"), Spec: spec}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// says fails unless apply said this and nothing else.
func says(t *testing.T, got *consolev1.Applied, outcome consolev1.ApplyOutcome, note string) {
	t.Helper()
	if got.GetOutcome() != outcome || got.GetNote() != note {
		t.Errorf("apply said %v, %q; want %v, %q", got.GetOutcome(), got.GetNote(), outcome, note)
	}
}

const (
	updated   = consolev1.ApplyOutcome_APPLY_OUTCOME_UPDATED
	unchanged = consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
)

func (p *past) hold(t *testing.T, reason string) {
	t.Helper()
	if _, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
		Name: "web", Reason: reason,
	}); err != nil {
		t.Fatal(err)
	}
}

func mode(m deliveryv1.SyncMode, reason string) func(*consolev1.ServiceSpec) {
	return func(s *consolev1.ServiceSpec) { s.Sync = &deliveryv1.SyncSpec{Mode: m, Reason: reason} }
}

func TestApplyKeepsAHoldUntilTheFileSaysSomethingNewOfIt(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.file(t, nil, false)
		p.hold(t, "incident 7")
		kept := "keeps the hold of user:ada (incident 7)"
		says(t, p.file(t, nil, true), unchanged, kept)
		says(t, p.file(t, nil, false), unchanged, kept)
		says(t, p.file(t, func(s *consolev1.ServiceSpec) { s.Namespace = "shop" }, false), updated, kept)
		if spec := p.get(t); spec.GetSync().GetMode() != onHold || spec.GetSync().GetReason() != "incident 7" ||
			spec.GetNamespace() != "shop" {
			t.Errorf("in force: %v", spec)
		}
		levers := p.admin.service(t, "web").GetLevers()
		if l := levers.GetMode(); l.GetAuthor() != "user:ada" || l.GetReason() != "incident 7" ||
			l.GetSinceTime() == nil || levers.GetSpec().GetSync() != nil || levers.GetSpec().GetNamespace() != "shop" {
			t.Errorf("levers: %v", levers)
		}
		says(t, p.file(t, mode(auto, ""), false), updated, "ends the hold of user:ada (incident 7)")
		if got := p.get(t).GetSync().GetMode(); got != auto {
			t.Errorf("the file said auto, and it is %v", got)
		}
		p.hold(t, "incident 8")
		// as a loop in CI does
		says(t, p.file(t, mode(auto, ""), false), unchanged, "keeps the hold of user:ada (incident 8)")
		if _, err := p.admin.levers.ResumeService(t.Context(), &consolev1.ResumeServiceRequest{
			Name: "web",
		}); err != nil {
			t.Fatal(err)
		}
		says(t, p.file(t, mode(auto, ""), false), unchanged, "")
	})
}

// A service that a client read and writes back says nothing of a lever.
func TestALeverThatIsWrittenBackStaysALever(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.hold(t, "incident 7")
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{
			Name: "web", Commit: commitB, Reason: "2 is broken", UntilNext: true,
		}); err != nil {
			t.Fatal(err)
		}
		spec := p.get(t)
		spec.Namespace = "shop"
		says(t, p.file(t, func(s *consolev1.ServiceSpec) { proto.Reset(s); proto.Merge(s, spec) }, false), updated,
			"keeps the hold of user:ada (incident 7), keeps the pin to bbbbbbbb of user:ada (2 is broken)")
		if got := p.admin.service(t,
			"web").GetLevers(); got.GetMode().GetMode() != onHold || got.GetPin().GetCommit() != commitB ||
			got.GetPin().GetUnpinAfter() != commitA || got.GetSpec().GetSync() != nil ||
			got.GetSpec().GetUnpinAfter() != "" {
			t.Errorf("levers: %v", got)
		}
	})
}

func TestAKeyThatAFileSetAndLacksGoesBackToItsDefault(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		says(t, p.file(t, func(s *consolev1.ServiceSpec) {
			s.Sync = &deliveryv1.SyncSpec{
				Mode: onHold, Reason: "by file", Pin: commitA, OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN,
			}
		}, false), updated, "")
		if l := p.admin.service(t, "web").GetLevers(); l != nil {
			t.Errorf("a file pulled levers: %v", l)
		}
		says(t, p.file(t, mode(onHold, "by file"), false), updated, "")
		if spec := p.get(t); spec.GetSync().GetPin() != "" || spec.GetSync().GetOnDelete() != 0 ||
			spec.GetSync().GetMode() != onHold {
			t.Errorf("after a file without pin: %v", spec)
		}
		// Over what a file holds, resume is a lever, too.
		if _, err := p.admin.levers.ResumeService(t.Context(), &consolev1.ResumeServiceRequest{
			Name: "web",
		}); err != nil {
			t.Fatal(err)
		}
		if got := p.get(t).GetSync().GetMode(); got != follows {
			t.Errorf("resumed: %v", got)
		}
		says(t, p.file(t, mode(onHold, "by file"), false), unchanged, "keeps the automatic mode of user:ada")
		says(t, p.file(t, nil, false), updated, "keeps the automatic mode of user:ada")
		says(t, p.file(t, mode(onHold, "again"), false), updated, "ends the automatic mode of user:ada")
		says(t, p.file(t, nil, false), updated, "")
		if got := p.get(t).GetSync(); got != nil {
			t.Errorf("after a file without sync: %v", got)
		}
	})
}

func TestApplyAfterASyncIsWithoutADiff(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.file(t, nil, false)
		asked, err := p.admin.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		want := asked.GetService().GetSpec().GetSync().GetRequestTime()
		for _, dry := range []bool{true, false} {
			if got := p.file(t, nil, dry); got.GetOutcome() != unchanged || got.GetDiff() != "" {
				t.Errorf("dry %v: %v", dry, got)
			}
		}
		says(t, p.file(t, func(s *consolev1.ServiceSpec) {
			// which no file asks for
			s.Namespace, s.Sync = "shop", &deliveryv1.SyncSpec{RequestTime: timestamppb.New(time.Unix(1, 0))}
		}, false), updated, "")
		if got := p.get(t).GetSync().GetRequestTime(); !proto.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
	})
}

func TestApplyWritesWhatWaitsBehindARollback(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		v9 := func(s *consolev1.ServiceSpec) { s.Path = "v9" }
		v10 := func(s *consolev1.ServiceSpec) { s.Path = "v10" }
		p.file(t, v9, false)
		p.push(t, commitA)
		p.deliver(t, commitA, "d9", deliveryv1.Phase_PHASE_HEALTHY)
		p.file(t, v10, false)
		p.deliver(t, commitA, "d10", deliveryv1.Phase_PHASE_DEGRADED)
		back, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Reason: "10 is bad",
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := back.GetService(); s.GetSpec().GetPath() != "v9" || s.GetSpec().GetSync().GetPin() != commitA ||
			s.GetLevers().GetPin().GetDeployment() != 1 || s.GetLevers().GetSpec().GetPath() != "v10" {
			t.Errorf("rolled back to %v", s)
		}
		says(t, p.file(t, v10, false), unchanged, "keeps the rollback to deployment 1 of user:ada (10 is bad)")
		if got := p.get(t).GetPath(); got != "v9" {
			t.Errorf("the same file again brought %s back", got)
		}
		v11 := func(s *consolev1.ServiceSpec) { s.Path, s.Project = "v11", "" }
		got := p.file(t, v11, true)
		if !strings.Contains(got.GetDiff(), "-  path: v10") || !strings.Contains(got.GetDiff(), "+  path: v11") {
			t.Errorf("the diff is not of what files say:\n%s", got.GetDiff())
		}
		says(t, p.file(t, v11, false), updated,
			"waits behind the rollback to deployment 1 of user:ada (10 is bad): it ends when the ref moves on, or when somebody releases it")
		if s := p.admin.service(t, "web"); s.GetSpec().GetPath() != "v9" || s.GetLevers().GetSpec().GetPath() != "v11" {
			t.Errorf("after apply: %v", s)
		}
		// A rollback moves the service nowhere, and changes neither its configuration nor its windows.
		present := func(s *consolev1.ServiceSpec) {
			v11(s)
			s.Config = map[string]*consolev1.ConfigSetting{"color": {Value: &consolev1.ConfigSetting_Text{Text: "red"}}}
			s.Sync = &deliveryv1.SyncSpec{Windows: []*deliveryv1.SyncWindow{always()}}
		}
		const atOnce = "counts at once, also under the rollback: spec.config, spec.sync.windows"
		says(t, p.file(t, present, false), updated,
			"keeps the rollback to deployment 1 of user:ada (10 is bad), "+atOnce)
		if s := p.get(t); s.GetPath() != "v9" || s.GetConfig()["color"].GetText() != "red" ||
			len(s.GetSync().GetWindows()) != 1 {
			t.Errorf("under the rollback: %v", s)
		}
		says(t, p.file(t, v10, false), updated,
			"waits behind the rollback to deployment 1 of user:ada (10 is bad): it ends when the ref moves on, or when somebody releases it, "+atOnce)
		p.file(t, v11, false)
		p.push(t, commitB)
		if s := p.admin.service(t, "web"); s.GetSpec().GetPath() != "v11" || s.GetSpec().GetSync() != nil ||
			s.GetLevers() != nil {
			t.Errorf("after the ref has moved on: %v", s)
		}
	})
}

// rollBack brings the service back to its first deployment, until somebody releases it.
func (p *past) rollBack(t *testing.T) {
	t.Helper()
	if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
		Service: p.service, Deployment: 1, Keep: true,
	}); err != nil {
		t.Fatal(err)
	}
}

// rolledBackGlobal has the one service of a new global service rolled back over another path, which waits.
func rolledBackGlobal(t *testing.T, p *past) *consolev1.GlobalService {
	t.Helper()
	g := newGlobal("logs", nil)
	g.Spec.Clusters = &consolev1.ClusterSelector{All: true}
	p.admin.putGlobal(t, g)
	p.service, p.uid = "logs-edge-1", p.admin.service(t, "logs-edge-1").GetMetadata().GetUid()
	p.push(t, commitA)
	p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
	g.Spec.Template.Path = "other"
	p.admin.putGlobal(t, g)
	p.deliver(t, commitA, "d2", deliveryv1.Phase_PHASE_DEGRADED)
	p.rollBack(t)
	return g
}

func TestAChangeThatCountsUnderARollbackDoesNotWaitAtServicesOfGlobalServices(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		g := rolledBackGlobal(t, p)
		wantNote := func(want string) {
			t.Helper()
			got, err := p.admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(g)})
			if err != nil || got[0].GetNote() != want {
				t.Errorf("got %v, %v, want %q", got, err, want)
			}
		}
		g.Spec.Template.Config = map[string]*consolev1.ConfigSetting{
			"color": {Value: &consolev1.ConfigSetting_Text{Text: "red"}},
		}
		wantNote("1 service updated")
		g.Spec.Template.Path = "third"
		wantNote("1 service updated, and the change waits until its lever ends")
	})
}

// A rollback is no way around the manual mode of the present file.
func TestARollbackKeepsTheManualModeOfNow(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		manual := mode(deliveryv1.SyncMode_SYNC_MODE_MANUAL, "the bank looks first")
		p.file(t, nil, false)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.file(t, manual, false)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_DEGRADED)
		p.rollBack(t)
		has := func(when string, mode deliveryv1.SyncMode, reason string) {
			t.Helper()
			if s := p.get(t).GetSync(); s.GetMode() != mode || s.GetReason() != reason || s.GetPin() != commitA {
				t.Errorf("%s: %v", when, s)
			}
		}
		has("rolled back", deliveryv1.SyncMode_SYNC_MODE_MANUAL, "the bank looks first")
		const kept = "keeps the rollback to deployment 1 of user:ada"
		says(t, p.file(t, manual, false), unchanged, kept)
		p.hold(t, "incident 7")
		has("held", onHold, "incident 7")
		if _, err := p.admin.levers.ResumeService(t.Context(), &consolev1.ResumeServiceRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		has("resumed", follows, "")
		says(t, p.file(t, mode(onHold, "by file"), false), updated,
			"ends the automatic mode of user:ada, waits behind the rollback to deployment 1 of user:ada: "+
				"it ends when somebody releases it, counts at once, also under the rollback: spec.sync.mode, spec.sync.reason")
		has("a file without manual mode", follows, "")
		says(t, p.file(t, manual, false), updated, kept+", counts at once, also under the rollback: spec.sync.mode, spec.sync.reason")
		has("a file with manual mode", deliveryv1.SyncMode_SYNC_MODE_MANUAL, "the bank looks first")
	})
}

// What the files name is needed when the rollback ends, whatever is written meanwhile.
func TestWhatWaitsBehindARollbackIsStillNamed(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.admin.must(t, newSource("b"))
		p.file(t, nil, false)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.file(t, func(s *consolev1.ServiceSpec) { s.Namespace = "shop" }, false)
		p.deliver(t, commitA, "d2", deliveryv1.Phase_PHASE_DEGRADED)
		p.rollBack(t)
		p.file(t, func(s *consolev1.ServiceSpec) { s.Source = "b" }, false)
		keepsSource := func(service string) {
			t.Helper()
			_, err := p.admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "b"})
			wantCode(t, err, connect.CodeFailedPrecondition, `source "b" is still named by service "`+service+`"`)
		}
		keepsSource("web")
		runTests(t, r.tests(t, r.adminToken(t)), "web", "one")
		keepsSource("web")
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		p.remove(t)
		g := rolledBackGlobal(t, p)
		g.Spec.Template.Source, g.Spec.OnLeave = "b", consolev1.OnLeave_ON_LEAVE_DETACH
		p.admin.putGlobal(t, g)
		g.Spec.Clusters = &consolev1.ClusterSelector{Names: []string{"none"}}
		p.admin.putGlobal(t, g)
		if _, err := p.admin.globals.DeleteGlobalService(t.Context(), &consolev1.DeleteGlobalServiceRequest{
			Name: "logs",
		}); err != nil {
			t.Fatal(err)
		}
		keepsSource("logs-edge-1")
	})
}

func TestAFileEndsARollbackInWords(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_DEGRADED)
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Keep: true,
		}); err != nil {
			t.Fatal(err)
		}
		none := func(s *consolev1.ServiceSpec) { s.Sync = &deliveryv1.SyncSpec{Pin: "none"} }
		says(t, p.file(t, none, false), updated, "ends the rollback to deployment 1 of user:ada")
		if got := p.get(t); got.GetSync() != nil {
			t.Errorf("in force: %v", got)
		}
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{
			Name: "web", Commit: commitA,
		}); err != nil {
			t.Fatal(err)
		}
		says(t, p.file(t, none, false), unchanged, "keeps the pin to aaaaaaaa of user:ada")
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		if got := p.admin.service(t, "web"); got.GetSpec().GetSync() != nil ||
			got.GetLevers().GetSpec().GetSync().GetPin() != "none" {
			t.Errorf("released: %v", got)
		}
		says(t, p.file(t, none, false), unchanged, "")
	})
}

// A hold would keep a rollback from being applied: the rollback takes its place, and lasts as the hold would have.
func TestARollbackTakesThePlaceOfAHold(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		p.hold(t, "incident 7")
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web",
		}); err != nil {
			t.Fatal(err)
		}
		s := p.admin.service(t, "web")
		if sync := s.GetSpec().GetSync(); sync.GetMode() != follows || sync.GetPin() != commitA ||
			sync.GetReason() != "incident 7" || s.GetSpec().GetUnpinAfter() != "" || s.GetLevers().GetMode() != nil {
			t.Errorf("rolled back to %v", s)
		}
		p.push(t, strings.Repeat("c", 40))
		if got := p.get(t).GetSync().GetPin(); got != commitA {
			t.Errorf("released by a push, to %q", got)
		}
		for _, m := range []deliveryv1.SyncMode{
			deliveryv1.SyncMode_SYNC_MODE_SUSPEND, deliveryv1.SyncMode_SYNC_MODE_DRY_RUN,
		} {
			if _, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
				Name: "web", Mode: m, Reason: "x",
			}); err != nil {
				t.Fatal(err)
			}
			_, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
				Service: "web", Deployment: 1,
			})
			wantCode(t, err, connect.CodeFailedPrecondition, "nothing would be applied", "resume service web")
		}
	})
}

// An option that a console of an older version wrote, before an update or during it, counts as a lever without an
// author.
func TestLeversThatAnOlderConsoleWroteAreKept(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.start(t)
	p := newPast(t, r)
	p.push(t, commitA)
	r.stop()
	db, err := sql.Open("sqlite", strings.TrimPrefix(r.db, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	old := `{"source":"shop","cluster":"edge-1","sync":{"mode":"SYNC_MODE_HOLD","reason":"incident 7","pin":"` +
		commitB + `","requestTime":"2026-01-02T03:04:05Z"},"unpinAfter":"` + commitA + `"}`
	if _, err := db.ExecContext(context.Background(), "UPDATE resources SET spec = ? WHERE kind = 'service'",
		old); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r = h.start(t)
	p.running, p.admin, p.gitcache = r, r.admin(t), r.service(t, "gitcache")
	levers := p.admin.service(t, "web").GetLevers()
	if levers.GetMode().GetMode() != onHold || levers.GetMode().GetReason() != "incident 7" ||
		levers.GetPin().GetCommit() != commitB || levers.GetPin().GetUnpinAfter() != commitA ||
		levers.GetSpec().GetSync() != nil {
		t.Errorf("levers: %v", levers)
	}
	says(t, p.file(t, nil, true), unchanged, "keeps the hold (incident 7), keeps the pin to bbbbbbbb (incident 7)")
	says(t, p.file(t, func(s *consolev1.ServiceSpec) { s.Namespace = "shop" }, false), updated,
		"keeps the hold (incident 7), keeps the pin to bbbbbbbb (incident 7)")
	if spec := p.get(t); spec.GetSync().GetMode() != onHold || spec.GetSync().GetPin() != commitB ||
		spec.GetUnpinAfter() != commitA || spec.GetSync().GetRequestTime() == nil {
		t.Errorf("in force: %v", spec)
	}
}

func TestALeverEndsByItsOwnTime(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		_, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "web", Reason: "x", UntilTime: timestamppb.New(time.Unix(1, 0)),
		})
		wantCode(t, err, connect.CodeInvalidArgument, "1970-01-01T00:00:01Z is over")
		far := timestamppb.New(time.Now().Add(time.Hour))
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{
			Name: "web", Commit: commitA, UntilTime: far,
		}); err != nil {
			t.Fatal(err)
		}
		held, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "web", Reason: "the sale", UntilTime: timestamppb.New(time.Now().Add(300 * time.Millisecond)),
		})
		if err != nil || held.GetService().GetLevers().GetMode().GetUntilTime() == nil {
			t.Fatalf("%v, %v", held, err)
		}
		await.True(t, "the end of the hold", func() bool { return p.get(t).GetSync().GetMode() == follows })
		if l := p.admin.service(t, "web").GetLevers(); l.GetMode() != nil || l.GetPin().GetCommit() != commitA ||
			!proto.Equal(l.GetPin().GetUntilTime(), far) {
			t.Errorf("levers: %v", l)
		}
		last, err := p.history.ListRevisions(t.Context(), &consolev1.ListRevisionsRequest{
			Kind: consolev1.Kind_KIND_SERVICE, Name: "web", PageSize: 1,
		})
		if err != nil || last.GetRevisions()[0].GetAuthor() != "clock" ||
			last.GetRevisions()[0].GetAction() != "resumed" {
			t.Errorf("%v, %v", last, err)
		}
		p.wantEvents(t, "hold.released", "It is not held any more: what is pushed is applied.")
	})
}

// A cluster that gets other labels can leave what a project allows. Its services keep their levers there, and by these
// nothing else gets out of bounds.
func TestAServiceOutOfTheBoundsOfItsProjectKeepsItsLevers(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		project := &consolev1.Project{Metadata: meta("shop"), Spec: &consolev1.ProjectSpec{
			Sources: []string{"shop"}, Clusters: &consolev1.ClusterSelector{Labels: prod()},
		}}
		p.admin.must(t, newSource("next"), newCluster("edge-1", "env", "prod"), project)
		write := func(change func(*consolev1.ServiceSpec)) error {
			spec := p.admin.service(t, "web").GetSpec()
			change(spec)
			_, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
				Service: &consolev1.Service{Metadata: meta("web"), Spec: spec},
			})
			return err
		}
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(nil, write(func(s *consolev1.ServiceSpec) { s.Project = "shop" }))
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
		p.admin.must(t, newCluster("edge-1", "env", "test"))

		p.hold(t, "incident 7")
		must(p.admin.levers.ResumeService(t.Context(), &consolev1.ResumeServiceRequest{Name: "web"}))
		must(p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web", Commit: commitA}))
		must(p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web"}))
		must(p.admin.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{Name: "web"}))
		must(p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{Service: "web"}))
		if pin := p.get(t).GetSync().GetPin(); pin != commitA {
			t.Errorf("it was rolled back to %q", pin)
		}
		p.push(t, strings.Repeat("c", 40))
		if pin := p.get(t).GetSync().GetPin(); pin != "" {
			t.Errorf("the next commit did not end the rollback to %s", pin)
		}
		const refused = `spec.cluster: project "shop" does not allow cluster "edge-1"`
		wantCode(t, write(func(s *consolev1.ServiceSpec) { s.Path = "x" }), connect.CodeFailedPrecondition, refused)

		// What the file says behind a rollback is judged when that ends.
		p.admin.must(t, newCluster("edge-1", "env", "prod"))
		p.deliver(t, strings.Repeat("c", 40), "d3", deliveryv1.Phase_PHASE_FAILED)
		p.rollBack(t)
		must(nil, write(func(s *consolev1.ServiceSpec) { s.Source = "next" }))
		p.admin.must(t, newCluster("edge-1", "env", "test"))
		_, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web"})
		wantCode(t, err, connect.CodeFailedPrecondition, `spec.source: project "shop" does not allow source "next"`)
	})
}

// handOut hands a service out from a commit with an artifact, and applied has the cluster report on it.
func (p *past) handOut(t *testing.T, commit, digest string) {
	t.Helper()
	p.record(t, &consolev1.RecordHubRequest{
		Services: []*consolev1.ServiceHub{{Service: p.service, Uid: p.uid, Hub: &consolev1.HubTruth{
			Digest: digest, Revision: &artifactv1.Revision{Commit: commit},
			Artifact: &artifactv1.Artifact{Digest: "sha256:" + (commit + commit)[:64], Size: 1, Files: 1},
		}}},
	})
}

func (p *past) applied(t *testing.T, commit, digest string) {
	t.Helper()
	p.sequence++
	now := timestamppb.Now()
	report(t, p.distributor, &deliveryv1.ServiceReport{
		Service: p.service, Sequence: p.sequence, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: digest, Commit: commit,
		AppliedDigest: digest, AppliedCommit: commit, AppliedTime: now, ObservedTime: now,
	})
}

// seen makes the cluster one that is heard of.
func (p *past) seen(t *testing.T) {
	t.Helper()
	if _, err := p.distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
		Clusters: []*consolev1.ClusterSeen{
			{Cluster: "edge-1", Time: timestamppb.Now(), Agent: &deliveryv1.AgentInfo{}},
		},
	}); err != nil {
		t.Fatal(err)
	}
}

func (p *past) wantState(t *testing.T, when string, want consolev1.ServiceState) {
	t.Helper()
	if got := p.admin.service(t, "web").GetStatus(); got.GetState() != want {
		t.Errorf("%s: %v (%s), want %v", when, got.GetState(), got.GetStateMessage(), want)
	}
}

func TestALeverIsNoDeliveryAndTheStateDoesNotFlicker(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.seen(t)
		p.push(t, commitA)
		p.handOut(t, commitA, "d1")
		p.applied(t, commitA, "d1")
		healthy := consolev1.ServiceState_SERVICE_STATE_HEALTHY
		p.wantState(t, "applied", healthy)
		p.hold(t, "incident 7")
		p.handOut(t, commitA, "d2")
		p.wantState(t, "held, before the cluster knows", healthy)
		p.hold(t, "incident 8")
		p.handOut(t, commitA, "d3")
		p.wantState(t, "held again, before the cluster knows", healthy)
		p.applied(t, commitA, "d3")
		p.wantState(t, "held", healthy)
		p.wantEvents(t, "service.delivered", "aaaaaaaa is ready for the cluster.")
		p.wantEvents(t, "service.applied", "aaaaaaaa is applied: 0 objects.")
		p.push(t, commitB)
		p.handOut(t, commitB, "d4")
		p.wantState(t, "another content, before the cluster knows", consolev1.ServiceState_SERVICE_STATE_PROGRESSING)
		p.applied(t, commitB, "d4")
		p.wantEvents(t, "service.delivered", "aaaaaaaa is ready for the cluster.", "bbbbbbbb is ready for the cluster.")
		p.wantEvents(t, "service.applied", "aaaaaaaa is applied: 0 objects.", "bbbbbbbb is applied: 0 objects.")
	})
}

func TestGitIsTheNewestOfTheRefAlsoUnderAPin(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.seen(t)
		p.push(t, commitA)
		p.handOut(t, commitA, "d1")
		p.applied(t, commitA, "d1")
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{
			Name: "web", Commit: commitA, Reason: "2 is broken",
		}); err != nil {
			t.Fatal(err)
		}
		p.publish(t, "HEAD", commitB, commitA)
		p.handOut(t, commitA, "d2")
		p.applied(t, commitA, "d2")
		status := p.admin.service(t, "web").GetStatus()
		if got := status.GetGit().GetRevision().GetCommit(); got != commitB {
			t.Errorf("GIT is %q, want the ref's newest %q", got, commitB)
		}
		if status.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY ||
			status.GetHub().GetRevision().GetCommit() != commitA {
			t.Errorf("%v", status)
		}
	})
}

// publish has a gitcache publish where a ref points, and commits that pins name.
func (p *past) publish(t *testing.T, ref, commit string, pins ...string) {
	t.Helper()
	req := publishRequest(p.source, p.epoch, commit)
	req.Heads[0].Ref = ref
	for _, pin := range pins {
		req.Heads = append(req.Heads, &consolev1.Head{Ref: pin, Revision: &artifactv1.Revision{Commit: pin}})
	}
	if _, err := p.gitcache.heads.PublishHeads(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func (p *past) undelete(t *testing.T, kind consolev1.Kind, name string) (*consolev1.Resource, error) {
	t.Helper()
	out, err := p.history.UndeleteResource(t.Context(), &consolev1.UndeleteResourceRequest{Kind: kind, Name: name})
	return out.GetResource(), err
}

func (p *past) remove(t *testing.T) {
	t.Helper()
	if _, err := p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
}

// The resource comes back as it was: its spec, labels and levers; not the requests that its agent got once.
func TestADeletionIsUndoneUnlessSomethingTookItsPlace(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		const service = consolev1.Kind_KIND_SERVICE
		_, err := p.undelete(t, service, "web")
		wantCode(t, err, connect.CodeFailedPrecondition,
			`service "web" is there: it was not deleted, or another one took its place`)
		_, err = p.undelete(t, service, "none")
		wantCode(t, err, connect.CodeNotFound, `service "none"`)
		p.file(t, func(s *consolev1.ServiceSpec) { s.Namespace = "shop" }, false)
		p.hold(t, "incident 7")
		if _, err := p.admin.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		before := p.admin.service(t, "web")
		p.remove(t)
		got, err := p.undelete(t, service, "web")
		if err != nil || got.GetService().GetSpec().GetNamespace() != "shop" {
			t.Fatalf("%v, %v", got, err)
		}
		after := p.admin.service(t, "web")
		if !proto.Equal(after.GetLevers().GetMode(), before.GetLevers().GetMode()) ||
			after.GetSpec().GetSync().GetRequestTime() != nil ||
			after.GetMetadata().GetUid() == before.GetMetadata().GetUid() {
			t.Errorf("it was\n%v\nand is\n%v", before, after)
		}
		says(t, p.file(t, func(s *consolev1.ServiceSpec) { s.Namespace = "shop" }, false), unchanged,
			"keeps the hold of user:ada (incident 7)")
		p.remove(t)
		p.file(t, nil, false)
		_, err = p.undelete(t, service, "web")
		wantCode(t, err, connect.CodeFailedPrecondition, "another one took its place")
		p.remove(t)
		if _, err := p.admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{
			Name: "edge-1",
		}); err != nil {
			t.Fatal(err)
		}
		_, err = p.undelete(t, service, "web")
		wantCode(t, err, connect.CodeFailedPrecondition, `cluster "edge-1" does not exist`)
		if _, err := p.undelete(t, consolev1.Kind_KIND_CLUSTER, "edge-1"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.undelete(t, service, "web"); err != nil {
			t.Error(err)
		}
	})
}

// A deployment names the revision of the service that it was made of: both come back.
func TestAnUndoneDeletionContinuesTheHistory(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.file(t, func(s *consolev1.ServiceSpec) { s.Namespace = "shop" }, false)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		p.remove(t)
		if _, err := p.undelete(t, consolev1.Kind_KIND_SERVICE, "web"); err != nil {
			t.Fatal(err)
		}
		was, after := p.uid, p.admin.service(t, "web").GetMetadata()
		if p.uid = after.GetUid(); p.uid == was || after.GetRevision() != 4 {
			t.Errorf("the service of before was %s, it is %v", was, after)
		}
		before := []string{"2 d2 commit healthy by Kim <kim@example.com>", "1 d1 spec healthy by user:ada"}
		if got := p.list(t); !slices.Equal(got, before) {
			t.Errorf("after the undo %q, want %q", got, before)
		}
		p.deliver(t, commitB, "d3", deliveryv1.Phase_PHASE_HEALTHY)
		if got, want := p.list(t), append([]string{"3 d3 spec healthy by user:ada"},
			before...); !slices.Equal(got, want) {
			t.Errorf("after its delivery %q, want %q", got, want)
		}
		list, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		if err != nil || list.GetDeployments()[1].GetEndTime() == nil {
			t.Errorf("the deletion did not end the deployment: %v, %v", list, err)
		}
		back, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Deployment: 1,
		})
		if spec := back.GetService().GetSpec(); err != nil || spec.GetNamespace() == "shop" ||
			spec.GetSync().GetPin() != commitA {
			t.Errorf("rolled back to deployment 1: %v, %v", spec, err)
		}
		changes, err := p.history.ListRevisions(t.Context(), &consolev1.ListRevisionsRequest{
			Kind: consolev1.Kind_KIND_SERVICE, Name: "web",
		})
		var actions []string
		for _, r := range changes.GetRevisions() {
			actions = append(actions, r.GetAction())
		}
		if l := changes.GetRevisions()[0].GetResource().GetService().GetLevers(); l.GetPin().GetDeployment() != 1 ||
			l.GetPin().GetAuthor() != "user:ada" || l.GetSpec() != nil {
			t.Errorf("the rollback in the history has the levers %v", l)
		}
		if want := []string{"rolled back", "undeleted", "deleted", "updated", "created"}; err != nil ||
			!slices.Equal(actions, want) {
			t.Errorf("the history of the service: %q, %v; want %q", actions, err, want)
		}
	})
}

func TestAnUndoneDeletionNeedsTheRightToCreateAndHasNoSecrets(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		if _, err := p.admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true,
			Secret:       &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": "planted"}},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.admin.secrets.DeleteSecret(t.Context(), &consolev1.DeleteSecretRequest{
			Name: "git",
		}); err != nil {
			t.Fatal(err)
		}
		_, err := p.undelete(t, consolev1.Kind_KIND_SECRET, "git")
		wantCode(t, err, connect.CodeFailedPrecondition, "its values went with it")
		p.file(t, func(s *consolev1.ServiceSpec) {
			s.Config = map[string]*consolev1.ConfigSetting{
				"password": {Value: &consolev1.ConfigSetting_Secret{Secret: "planted"}},
			}
		}, false)
		p.remove(t)
		_, err = p.undelete(t, consolev1.Kind_KIND_SERVICE, "web")
		wantCode(t, err, connect.CodeInvalidArgument, `spec.config["password"]`, "write one")
		p.file(t, nil, false)
		p.admin.let(t, "viewers", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		p.remove(t)
		for group, want := range map[string]connect.Code{
			"viewers": connect.CodePermissionDenied, "strangers": connect.CodeNotFound,
		} {
			as := p.histories(t, p.sign(t, identity.Identity{
				Kind: identity.KindUser, Name: "bob", Groups: []string{group},
			}))
			_, err := as.UndeleteResource(t.Context(), &consolev1.UndeleteResourceRequest{
				Kind: consolev1.Kind_KIND_SERVICE, Name: "web",
			})
			wantCode(t, err, want, `service "web"`)
		}
	})
}
