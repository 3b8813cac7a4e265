package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
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

// Two distributors tell the same at the same time, each one console of two where these share a database; and an agent
// that waited for too long says the same to another distributor.
func TestWhatTwoDistributorsTellIsToldOnce(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		const services = 40
		_, s := openLog(t, url)
		box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		console := func(s *store.Store) (*catalog.Catalog, *intake.Intake) {
			told := &Recorder{Store: s, Log: log, Now: time.Now}
			c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: log, Observer: told})
			return c, intake.New(intake.Deps{Store: s, Catalog: c, Log: log, Observer: told})
		}
		resources, first := console(s)
		consoles := []*intake.Intake{first, first}
		if s.Shared() {
			other, err := store.New(url, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Close() })
			_, consoles[1] = console(other)
		}
		ctx, by := t.Context(), catalog.By{
			Identity: identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
			Subject:  "user:ada",
		}
		create := catalog.Expectation{AllowMissing: true}
		source := state.Source{Meta: state.Meta{Name: "shop"}}
		source.Spec.Git.URL = "https://git.example.com/shop"
		err = putSource(ctx, resources, by, source)
		_, _, err2 := resources.UpdateCluster(ctx, by, state.Cluster{Meta: state.Meta{Name: "edge-1"}}, create)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		truths, reports := [2][]intake.ServiceHub{}, intake.ClusterReports{Cluster: "edge-1"}
		for i := range services {
			name := fmt.Sprint("web-", i)
			is, _, err := resources.UpdateService(ctx, by,
				state.Service{
					Meta: state.Meta{Name: name}, Spec: state.ServiceSpec{Source: "shop", Cluster: "edge-1"},
				}, create)
			if err != nil {
				t.Fatal(err)
			}
			hub := state.HubTruth{
				Source: source.Meta.Name, Ref: "HEAD", Digest: fmt.Sprintf("%064d", i),
				Revision: state.Revision{Commit: "0123456789abcdef0123456789abcdef01234567"},
			}
			for d := range truths {
				hub.ResolveTime = time.Now().Add(time.Duration(d) * time.Millisecond)
				truths[d] = append(truths[d], intake.ServiceHub{Service: name, UID: is.Meta.UID, Hub: hub})
			}
			reports.Reports = append(reports.Reports, state.Report{
				Service: name, Sequence: 1, Digest: hub.Digest, AppliedDigest: hub.Digest, Phase: state.PhaseHealthy,
				ObjectsTotal: 3, ObjectsHealthy: 3,
			})
		}
		both := func(tell func(d int) error) {
			t.Helper()
			var wg sync.WaitGroup
			for d := range consoles {
				wg.Go(func() {
					if err := tell(d); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		both(func(d int) error { return consoles[d].RecordHub(ctx, truths[d], nil) })
		both(func(d int) error {
			// Other reports to this distributor at that time make another batch of it.
			_, err := consoles[d].RecordReports(ctx, []intake.ClusterReports{
				{Cluster: "edge-1", Reports: reports.Reports[d:]},
			})
			return err
		})
		counts := map[string]int32{}
		err = s.Read(ctx, func(ctx context.Context, v store.View) error {
			rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 1000)
			for _, row := range rows {
				e, failed := Decode(row)
				counts[e.GetType()] += max(e.GetCount(), 1)
				if e.members == nil && e.GetService() != "" {
					counts[e.GetType()] += 1 - max(e.GetCount(), 1)
				}
				err = errors.Join(err, failed)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{ServiceDelivered, ServiceApplied, ServiceHealthy} {
			if counts[kind] != services {
				t.Errorf("%s is told of %d services, want %d", kind, counts[kind], services)
			}
		}
	})
}
