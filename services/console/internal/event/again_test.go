package event

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Commits, and a problem that each of them but the first has.
const (
	firstCommit = "aaaaaaaa11111111aaaaaaaa11111111aaaaaaaa"
	goneCommit  = "bbbbbbbb22222222bbbbbbbb22222222bbbbbbbb"
	otherCommit = "cccccccc33333333cccccccc33333333cccccccc"
	backCommit  = "dddddddd44444444dddddddd44444444dddddddd"
	noTree      = `service "web": folder "web" is not in commit `
)

// goesOn is how told has a failure that is told as information.
const goesOn = ServiceFailed + ", still"

// webService is a console with the service web, which was healthy at its first commit in the cluster edge-1.
type webService struct {
	*testing.T
	now     time.Time
	store   *store.Store
	catalog *catalog.Catalog
	intake  *intake.Intake
	by      catalog.By
	// between is called once, when the hub's next word was compared with what is stored, and before it is written.
	between func()

	source  store.Resource
	epoch   int64
	uid     string
	reports uint64
	seen    int // events that told has looked at
}

func newWebService(t *testing.T) *webService {
	t.Helper()
	w := &webService{T: t, now: time.Now().UTC().Truncate(time.Second), by: catalog.By{
		Identity: identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
		Subject:  "user:ada",
	}}
	w.open()
	w.ok(putSource(t.Context(), w.catalog, w.by, state.Source{
		Meta: state.Meta{Name: "shop"},
		Spec: state.SourceSpec{Git: state.GitSource{URL: "https://git.example.com/shop"}},
	}))
	for _, name := range []string{"edge-1", "edge-2"} {
		_, _, err := w.catalog.UpdateCluster(t.Context(), w.by, state.Cluster{Meta: state.Meta{Name: name}}, upsert())
		w.ok(err)
		w.ok(w.intake.RecordSeen(t.Context(), []intake.ClusterSeen{{Cluster: name, Time: w.now}}))
	}
	w.put("edge-1")
	w.claim()
	w.push(firstCommit)
	w.follow(firstCommit)
	w.report()
	w.told(ServiceHealthy)
	return w
}

func upsert() catalog.Expectation { return catalog.Expectation{AllowMissing: true} }

// open makes a console by the fixture's clock.
func (w *webService) open() {
	w.Helper()
	clock := func() time.Time { return w.now }
	s, err := store.New("sqlite:"+filepath.Join(w.TempDir(), "console.db"), store.Options{Now: clock})
	w.ok(err)
	w.Cleanup(func() { _ = s.Close() })
	w.ok(s.Migrate(w.Context()))
	box, err := seal.Ensure(filepath.Join(w.TempDir(), "master.key"))
	w.ok(err)
	log := slog.New(slog.DiscardHandler)
	observer := &Recorder{Store: s, Log: log, Now: clock}
	w.store = s
	w.catalog = catalog.New(authz.New(s, nil), catalog.Deps{
		Store: s, Box: box, Log: log, Now: clock, Observer: observer,
		Hooks: func(*catalog.Catalog) []catalog.Hook { return []catalog.Hook{observer} },
	})
	w.intake = intake.New(intake.Deps{Store: s, Catalog: w.catalog, Log: log, Now: clock, Observer: overtaken{observer, w}})
}

// overtaken is a Recorder that is called while others write.
type overtaken struct {
	*Recorder
	w *webService
}

func (o overtaken) HubSaid(s state.Service, before, after state.HubTruth) []store.Event {
	if write := o.w.between; write != nil {
		o.w.between = nil
		write()
	}
	return o.Recorder.HubSaid(s, before, after)
}

func (w *webService) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// put writes the service for a cluster.
func (w *webService) put(cluster string) {
	w.Helper()
	web, _, err := w.catalog.UpdateService(w.Context(), w.by, state.Service{
		Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{Source: "shop", Cluster: cluster, Path: "web"},
	}, upsert())
	w.ok(err)
	w.uid = web.Meta.UID
}

// claim makes the fixture the gitcache of the source.
func (w *webService) claim() {
	w.Helper()
	w.ok(w.store.Read(w.Context(), func(ctx context.Context, v store.View) (err error) {
		w.source, err = v.Get(ctx, store.KindSource, "shop")
		return err
	}))
	claim, err := w.intake.ClaimSource(w.Context(), "gitcache", "shop", w.source.UID, "gitcache-0")
	w.ok(err)
	w.epoch = claim.Epoch
}

// push has the gitcache find a commit.
func (w *webService) push(commit string) {
	w.Helper()
	w.ok(w.intake.PublishHeads(w.Context(), "gitcache", "shop", w.source.UID, intake.Publication{
		Epoch: w.epoch, Heads: []state.Head{{Ref: "HEAD", Revision: state.Revision{Commit: commit}}},
	}))
}

// hub has a distributor say that it hands out the content of a commit, and which problem there is with a later one.
func (w *webService) hub(commit, problem string, refs ...state.RefHub) {
	w.Helper()
	truth := state.HubTruth{Source: w.source.UID, Ref: "HEAD", Digest: "d1", Revision: state.Revision{Commit: commit}}
	if problem != "" {
		truth.Problem = &state.Problem{Message: problem, Since: w.now}
	}
	w.ok(w.intake.RecordHub(w.Context(), []intake.ServiceHub{{Service: "web", UID: w.uid, Hub: truth}}, refs))
}

// follow has a distributor say that a commit has the content that is handed out.
func (w *webService) follow(commit string) {
	w.Helper()
	w.hub("", "", state.RefHub{Source: w.source.UID, Ref: "HEAD", Revision: state.Revision{Commit: commit}})
}

// fails has the hub fail at a commit, which has no folder of the service.
func (w *webService) fails() (since time.Time) {
	w.Helper()
	w.push(goneCommit)
	w.hub(firstCommit, noTree+"bbbbbbbb")
	w.told(ServiceFailed)
	w.is(state.Failed, w.now)
	return w.now
}

// report has the cluster apply the service again, which is healthy.
func (w *webService) report() {
	w.Helper()
	for _, phase := range []state.Phase{state.PhaseApplying, state.PhaseHealthy} {
		w.reports++
		_, err := w.intake.RecordReports(w.Context(), []intake.ClusterReports{{Cluster: "edge-1", Reports: []state.Report{
			{Service: "web", Sequence: w.reports, Digest: "d1", AppliedDigest: "d1", Phase: phase},
		}}})
		w.ok(err)
	}
}

// events are those of how the service is, since the last look.
func (w *webService) events() (list []*consolev1.Event) {
	w.Helper()
	w.ok(w.store.Read(w.Context(), func(ctx context.Context, v store.View) error {
		rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
		if err != nil {
			return err
		}
		for _, row := range rows[w.seen:] {
			e, err := Decode(row)
			if err != nil {
				return err
			}
			list = append(list, e.Event)
		}
		w.seen = len(rows)
		return nil
	}))
	return slices.DeleteFunc(list, func(e *consolev1.Event) bool {
		return !slices.Contains([]string{ServiceFailed, ServiceRecovered, ServiceHealthy, ServiceMoved}, e.GetType())
	})
}

// told checks the events since the last look.
func (w *webService) told(want ...string) {
	w.Helper()
	var types []string
	for _, e := range w.events() {
		if e.GetType() == ServiceFailed && e.GetSeverity() == info {
			types = append(types, goesOn)
			continue
		}
		types = append(types, e.GetType())
	}
	if !slices.Equal(types, want) {
		w.Fatalf("told %q, want %q", types, want)
	}
}

// is checks the state; a zero time is any.
func (w *webService) is(word state.State, since time.Time) {
	w.Helper()
	got, err := w.catalog.GetService(w.Context(), "web")
	w.ok(err)
	if got.Status.State != word || !since.IsZero() && !got.Status.Since.Equal(since) {
		w.Fatalf("%s since %s, want %s since %s", got.Status.State, got.Status.Since, word, cmp.Or(since, w.now))
	}
}

// A distributor that has just started remembers what was delivered and no problem, which it finds again: that is no
// alarm, and the problem keeps its beginning.
func TestAProblemThatTheHubFindsAgainRaisesNoAlarm(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	began := w.fails()
	w.now = w.now.Add(time.Second)
	w.hub(firstCommit, "")
	w.told()
	w.is(state.Failed, began)
	w.hub(firstCommit, noTree+"bbbbbbbb")
	w.told()
	w.is(state.Failed, began)
}

// A commit that changes nothing of a problem is told as information, and keeps the beginning.
func TestAProblemThatGoesOnWithAnotherCommitRaisesNoAlarm(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	began := w.fails()
	w.now = w.now.Add(time.Second)
	w.push(otherCommit)
	w.hub(firstCommit, "") // the content of the commit is asked for
	w.is(state.Progressing, time.Time{})
	w.hub(firstCommit, noTree+"cccccccc")
	w.told(goesOn)
	w.is(state.Failed, began)
}

// The health of the cluster ends alerts of the failure: a commit with the problem raises another one then.
func TestAProblemThatGoesOnAlarmsAfterTheClusterSaidHealthy(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	began := w.fails()
	w.now = w.now.Add(time.Second)
	w.report()
	w.told(ServiceHealthy)
	w.push(otherCommit)
	w.hub(firstCommit, noTree+"cccccccc")
	w.told(ServiceFailed)
	w.is(state.Failed, began)
}

func TestAnotherProblemAlarmsAndTheEndOfBothIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	w.fails()
	w.now = w.now.Add(time.Second)
	w.hub(firstCommit, "it can't be read")
	w.told(ServiceFailed)
	w.is(state.Failed, w.now)
	w.push(backCommit)
	w.hub(firstCommit, "")
	w.follow(backCommit)
	w.told(ServiceRecovered, ServiceHealthy)
	w.is(state.Healthy, time.Time{})
}

// toldOf checks the events since the last look, each with its cluster. A failure that is no alarm has the mark still.
func (w *webService) toldOf(want ...string) {
	w.Helper()
	var got []string
	for _, e := range w.events() {
		line := e.GetType() + " " + e.GetCluster()
		if e.GetType() == ServiceFailed && e.GetSeverity() == info {
			line += ", still"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		w.Fatalf("told %q, want %q", got, want)
	}
}

// The alert of a cluster is not that of another one: a service that goes there while it fails ends the first and alarms
// of the second, once each time.
func TestAServiceThatMovesWhileItFailsAlarmsOfItsNewCluster(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	began := w.fails()
	from := "edge-1"
	for _, to := range []string{"edge-2", "edge-1", "edge-2"} {
		w.now = w.now.Add(time.Second)
		w.put(to)
		w.toldOf(ServiceMoved + " " + from)
		for range 2 { // two distributors
			w.hub(firstCommit, noTree+"bbbbbbbb")
		}
		w.toldOf(ServiceFailed + " " + to)
		w.is(state.Failed, began)
		from = to
	}
}

// The hub says nothing of a cluster that a service is for only a moment. The failure goes on at the one from before,
// whose alert has ended.
func TestAServiceThatComesBackAtOnceAlarmsAgain(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	w.fails()
	w.put("edge-2")
	w.put("edge-1")
	w.toldOf(ServiceMoved+" edge-1", ServiceMoved+" edge-2", ServiceFailed+" edge-1")
	w.hub(firstCommit, noTree+"bbbbbbbb")
	w.toldOf()
}

// A distributor that has just started says of the moved service first that it knows no problem.
func TestAServiceThatMovesAlarmsWhenTheHubFindsTheProblemAgain(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	w.fails()
	w.put("edge-2")
	w.push(otherCommit)
	w.hub(firstCommit, "")
	w.toldOf(ServiceMoved + " edge-1")
	w.hub(firstCommit, noTree+"cccccccc")
	w.toldOf(ServiceFailed + " edge-2")
}

// The service moves while a failure at its old cluster is on the way: that would alarm of the old one for good.
func TestAServiceThatMovesAsItsFailureIsWrittenAlarmsOfItsNewCluster(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	w.push(goneCommit)
	w.between = func() { w.put("edge-2") }
	w.hub(firstCommit, noTree+"bbbbbbbb")
	w.toldOf(ServiceMoved+" edge-1", ServiceFailed+" edge-2")
}
