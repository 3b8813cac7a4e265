package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/console"
)

// services streams a catalog: sources, and services that want one of few folders each.
type services struct {
	consolev1connect.UnimplementedCatalogServiceHandler
	sources, services, folders int
	spec                       *consolev1.SourceSpec // of all sources; nil: a repository of Git
}

func (s services) Watch(ctx context.Context, _ *consolev1.WatchRequest,
	out *connect.ServerStream[consolev1.WatchResponse],
) error {
	send := func(changes ...*consolev1.Change) error {
		return out.Send(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: changes}}})
	}
	if err := out.Send(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}}}); err != nil {
		return err
	}
	spec := s.spec
	if spec == nil {
		spec = &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/x.git"}}
	}
	for i := range s.sources {
		if err := send(&consolev1.Change{Change: &consolev1.Change_Source{Source: &consolev1.Source{
			Metadata: &consolev1.Metadata{Name: fmt.Sprint("source-", i), Uid: fmt.Sprint("uid-", i)},
			Spec:     spec,
			Status:   &consolev1.SourceStatus{},
		}}}); err != nil {
			return err
		}
	}
	var batch []*consolev1.Change
	for i := range s.services {
		ref := ""
		if i%s.folders%2 == 1 {
			ref = "v1"
		}
		batch = append(batch, &consolev1.Change{Change: &consolev1.Change_Service{Service: &consolev1.Service{
			Metadata: &consolev1.Metadata{Name: fmt.Sprintf("service-%06d", i), Uid: fmt.Sprint("uid-service-", i)},
			Spec: &consolev1.ServiceSpec{
				Source: fmt.Sprint("source-", i%s.sources), Ref: ref, Path: fmt.Sprint("deploy/", i%s.folders),
				Cluster: fmt.Sprint("edge-", i/30),
			},
		}}})
		if len(batch) == 1000 || i == s.services-1 {
			if err := send(batch...); err != nil {
				return err
			}
			batch = nil
		}
	}
	end := &consolev1.WatchResponse{
		Event:       &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}},
		ResumeToken: "1",
	}
	if err := out.Send(end); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// follow makes a catalog that follows such a stream, and waits until it is complete.
func follow(t testing.TB, s services) *catalog.Catalog {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.NewCatalogServiceHandler(s))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c, err := catalog.Open(t.TempDir(), consolev1connect.NewCatalogServiceClient(server.Client(), server.URL),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	changes := c.Subscribe()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // never fails
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for c.Ready() != nil {
		<-changes.C()
	}
	changes.Close()
	return c
}

func TestWhatServicesWantIsCountedOnce(t *testing.T) {
	t.Parallel()
	c := follow(t, services{sources: 2, services: 1000, folders: 10})
	sources := console.NewCatalog(c)
	defer sources.Close()
	all, known, live := sources.Sources()
	if !known || !live || len(all) != 2 {
		t.Fatalf("%d sources, known %t, live %t", len(all), known, live)
	}
	// Folders with even numbers are those of the first source, and want HEAD.
	if w := all[0].Wants; len(w) != 1 || w["HEAD"] != 500 {
		t.Errorf("wants of %s: %v", all[0].Name, w)
	}
	if w := all[1].Wants; len(w) != 1 || w["refs/heads/v1"] != 500 {
		t.Errorf("wants of %s: %v", all[1].Name, w)
	}
	if users := all[0].Users()("HEAD"); len(users) != 500 || !slices.IsSorted(users) || users[1] != "service-000002" {
		t.Errorf("users: %v", users)
	}
	if users := all[0].Users()("refs/heads/v1"); len(users) != 0 {
		t.Errorf("users of nothing: %v", users)
	}
}

// TestCloudsOfLaterReleasesAreRefused: such a source is not asked without a login.
func TestCloudsOfLaterReleasesAreRefused(t *testing.T) {
	t.Parallel()
	for auth, want := range map[consolev1.CloudAuth]cloud.Name{
		0: "", consolev1.CloudAuth_CLOUD_AUTH_GCP: cloud.GCP,
		77: "77",
	} {
		c := follow(t, services{sources: 1, spec: &consolev1.SourceSpec{Oci: &consolev1.OCISource{Url: "oci://gcr.io/team/shop", Auth: auth}}})
		sources := console.NewCatalog(c)
		defer sources.Close()
		all, _, _ := sources.Sources()
		if len(all) != 1 || all[0].Cloud != want {
			t.Fatalf("auth %d is %v", auth, all)
		}
	}
	logins := cloud.New(cloud.Options{Places: cloud.Public()})
	defer logins.Close()
	if _, err := logins.Registry(t.Context(), "77", "gcr.io"); err == nil ||
		!strings.Contains(err.Error(), "auth: 77 is not for registries") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkSources is what following the catalog costs with each change; it tells, too, what 100,000 services
// take in memory.
func BenchmarkSources(b *testing.B) {
	before := live()
	c := follow(b, services{sources: 10, services: 100_000, folders: 300})
	sources := console.NewCatalog(c)
	defer sources.Close()
	bytes := live() - before
	for b.Loop() {
		if all, _, _ := sources.Sources(); len(all) != 10 {
			b.Fatal(len(all))
		}
	}
	b.ReportMetric(float64(bytes)/100_000, "bytes/service")
	runtime.KeepAlive(c)
}

func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
