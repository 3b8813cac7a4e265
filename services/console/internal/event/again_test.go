package event

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// A problem that the hub finds again raises no alarm and keeps its beginning: after a restart of the distributor, which
// remembers what was delivered and no problem, and with a commit that changes nothing of it, of which it is told.
func TestAProblemThatTheHubFindsAgainRaisesNoAlarm(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	clock := func() time.Time { return now }
	s, err := store.New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), store.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	observer := &Recorder{Store: s, Log: log, Now: clock}
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: log, Now: clock, Observer: observer})
	in := intake.New(intake.Deps{Store: s, Catalog: c, Log: log, Now: clock, Observer: observer})
	by := catalog.By{
		Identity: identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
		Subject:  "user:ada",
	}
	create := catalog.Expectation{AllowMissing: true}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(putSource(t.Context(), c, by, state.Source{
		Meta: state.Meta{Name: "shop"},
		Spec: state.SourceSpec{Git: state.GitSource{URL: "https://git.example.com/shop"}},
	}))
	_, _, err = c.UpdateCluster(t.Context(), by, state.Cluster{Meta: state.Meta{Name: "edge-1"}}, create)
	ok(err)
	web, _, err := c.UpdateService(t.Context(), by,
		state.Service{
			Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{Source: "shop", Cluster: "edge-1", Path: "web"},
		}, create)
	ok(err)
	var source store.Resource
	ok(s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		source, err = v.Get(ctx, store.KindSource, "shop")
		return err
	}))
	claim, err := in.ClaimSource(t.Context(), "gitcache", "shop", source.UID, "gitcache-0")
	ok(err)
	const (
		first  = "aaaaaaaa11111111aaaaaaaa11111111aaaaaaaa"
		gone   = "bbbbbbbb22222222bbbbbbbb22222222bbbbbbbb"
		other  = "cccccccc33333333cccccccc33333333cccccccc"
		more   = "eeeeeeee55555555eeeeeeee55555555eeeeeeee"
		back   = "dddddddd44444444dddddddd44444444dddddddd"
		noTree = `service "web": folder "web" is not in commit `
	)
	push := func(commit string) {
		t.Helper()
		ok(in.PublishHeads(t.Context(), "gitcache", "shop", source.UID, intake.Publication{
			Epoch: claim.Epoch, Heads: []state.Head{{Ref: "HEAD", Revision: state.Revision{Commit: commit}}},
		}))
	}
	hub := func(commit, problem string, refs ...state.RefHub) {
		t.Helper()
		truth := state.HubTruth{Source: source.UID, Ref: "HEAD", Digest: "d1", Revision: state.Revision{Commit: commit}}
		if problem != "" {
			truth.Problem = &state.Problem{Message: problem, Since: now}
		}
		ok(in.RecordHub(t.Context(), []intake.ServiceHub{{Service: "web", UID: web.Meta.UID, Hub: truth}}, refs))
	}
	follow := func(commit string) {
		t.Helper()
		hub("", "", state.RefHub{Source: source.UID, Ref: "HEAD", Revision: state.Revision{Commit: commit}})
	}
	const goesOn = ServiceFailed + ", still"
	told := func(want ...string) {
		t.Helper()
		var types []string
		ok(s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
			for _, row := range rows {
				if row.Type == ServiceFailed || row.Type == ServiceRecovered || row.Type == ServiceHealthy {
					types = append(types, row.Type)
					if row.Type == ServiceFailed && strings.Contains(string(row.Event), "SEVERITY_INFO") {
						types[len(types)-1] = goesOn
					}
				}
			}
			return err
		}))
		if !slices.Equal(types, want) {
			t.Fatalf("told %q, want %q", types, want)
		}
	}
	is := func(word state.State, since time.Time) {
		t.Helper()
		got, err := c.GetService(t.Context(), "web")
		ok(err)
		if got.Status.State != word || !since.IsZero() && !got.Status.Since.Equal(since) {
			t.Fatalf("%s since %s, want %s since %s", got.Status.State, got.Status.Since, word, cmp.Or(since, now))
		}
	}
	ok(in.RecordSeen(t.Context(), []intake.ClusterSeen{{Cluster: "edge-1", Time: now}}))
	push(first)
	follow(first)
	report := func(sequence uint64) { // that it was applied again, and is healthy
		t.Helper()
		for i, phase := range []state.Phase{state.PhaseApplying, state.PhaseHealthy} {
			_, err := in.RecordReports(t.Context(), []intake.ClusterReports{{Cluster: "edge-1", Reports: []state.Report{
				{Service: "web", Sequence: 2*sequence + uint64(i), Digest: "d1", AppliedDigest: "d1", Phase: phase},
			}}})
			ok(err)
		}
	}
	report(1)
	told(ServiceHealthy)

	began := now
	push(gone)
	hub(first, noTree+"bbbbbbbb")
	told(ServiceHealthy, ServiceFailed)
	is(state.Failed, began)

	now = now.Add(time.Second)
	hub(first, "") // a distributor that has just started
	is(state.Failed, began)
	hub(first, noTree+"bbbbbbbb")
	told(ServiceHealthy, ServiceFailed)
	is(state.Failed, began)

	push(other)
	hub(first, "") // the content of the commit is asked for
	is(state.Progressing, time.Time{})
	hub(first, noTree+"cccccccc")
	told(ServiceHealthy, ServiceFailed, goesOn)
	is(state.Failed, began)

	now = now.Add(time.Second)
	report(2) // which ends alerts of the failure
	push(more)
	hub(first, noTree+"eeeeeeee")
	told(ServiceHealthy, ServiceFailed, goesOn, ServiceHealthy, ServiceFailed)
	is(state.Failed, began)

	hub(first, "it can't be read")
	told(ServiceHealthy, ServiceFailed, goesOn, ServiceHealthy, ServiceFailed, ServiceFailed)
	is(state.Failed, now)

	push(back)
	hub(first, "")
	follow(back)
	told(ServiceHealthy, ServiceFailed, goesOn, ServiceHealthy, ServiceFailed, ServiceFailed, ServiceRecovered, ServiceHealthy)
	is(state.Healthy, time.Time{})
}
