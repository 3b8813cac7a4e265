package event

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// The alert of a problem that only the hub had ends with it, also while the cluster is away: the cluster will report
// nothing, because nothing changes there. That the cluster is away is an alert of its own.
func TestAnAlertOfTheHubEndsWhileTheClusterIsAway(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	clock := func() time.Time { return now }
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
	source := state.Source{
		Meta: state.Meta{Name: "shop"},
		Spec: state.SourceSpec{Git: state.GitSource{URL: "https://git.example.com/shop"}},
	}
	ok(putSource(t.Context(), c, by, source))
	_, _, err = c.UpdateCluster(t.Context(), by, state.Cluster{Meta: state.Meta{Name: "edge-1"}}, create)
	ok(err)
	web, _, err := c.UpdateService(t.Context(), by,
		state.Service{
			Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{Source: "shop", Cluster: "edge-1"},
		}, create)
	ok(err)
	hub := func(problem *state.Problem) {
		t.Helper()
		ok(in.RecordHub(t.Context(), []intake.ServiceHub{{Service: "web", UID: web.Meta.UID, Hub: state.HubTruth{
			Source: "shop", Ref: "HEAD", Digest: "d1",
			Revision: state.Revision{Commit: "0123456789abcdef0123456789abcdef01234567"}, Problem: problem,
		}}}, nil))
	}
	told := func() (types []string) {
		t.Helper()
		ok(s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
			for _, row := range rows {
				if row.Type == ServiceRecovered || row.Type == ServiceHealthy {
					types = append(types, row.Type)
				}
			}
			return err
		}))
		return types
	}
	ok(in.RecordSeen(t.Context(), []intake.ClusterSeen{{Cluster: "edge-1", Time: now}}))
	hub(nil)
	_, err = in.RecordReports(t.Context(), []intake.ClusterReports{{Cluster: "edge-1", Reports: []state.Report{
		{
			Service: "web", Sequence: 1, Digest: "d1", AppliedDigest: "d1", Phase: state.PhaseHealthy,
			ObjectsTotal: 3, ObjectsHealthy: 3,
		},
	}}})
	ok(err)
	want := []string{ServiceHealthy, ServiceRecovered, ServiceHealthy}
	hub(&state.Problem{Message: "no room"})
	hub(nil)
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("of a cluster that is connected: got %q, want %q", got, want)
	}
	now = now.Add(72 * time.Hour)
	want = append(want, ServiceRecovered, ServiceHealthy)
	hub(&state.Problem{Message: "no room"})
	hub(nil)
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("of a cluster that is away: got %q, want %q", got, want)
	}
}
