package views

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// everything is somebody who sees all.
type everything struct{}

func (everything) Viewer(context.Context, bool) (index.Sees, error) { return nil, nil }

func (everything) Reader(context.Context) (func(string) bool, error) { return nil, nil }

// boardOf is a board of so many clusters with a view each, over a database of its own.
func boardOf(b *testing.B, clusters int) *Board {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	dir := b.TempDir()
	log := slog.New(slog.DiscardHandler)
	box, err := seal.Ensure(filepath.Join(dir, "key"))
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.New("sqlite:"+filepath.Join(dir, "console.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: log})
	const chunk = 500
	names := make([]string, clusters)
	for begin := 0; begin < clusters; begin += chunk {
		var edits []catalog.Update[state.Cluster]
		for i := begin; i < min(begin+chunk, clusters); i++ {
			names[i] = fmt.Sprintf("edge-%05d", i)
			meta := state.Meta{Name: names[i], Labels: map[string]string{"env": []string{"prod", "test"}[i%2], "region": fmt.Sprint("r", i%20)}}
			edits = append(edits, catalog.Update[state.Cluster]{Resource: state.Cluster{Meta: meta}, Want: catalog.Expectation{AllowMissing: true}})
		}
		if _, err := c.UpdateClusters(ctx, catalog.Self("test"), edits); err != nil {
			b.Fatal(err)
		}
	}
	hub := feed.New(s, log)
	kinds := descriptor.Table{
		descriptor.Of[state.Cluster, *consolev1.Cluster]{Kind: store.KindCluster, Load: state.Loader.Clusters},
		descriptor.Of[state.Service, *consolev1.Service]{Kind: store.KindService, Load: state.Loader.Services},
		descriptor.Of[state.Source, *consolev1.Source]{Kind: store.KindSource, Load: state.Loader.Sources},
	}
	rows := index.New(index.Deps{Store: s, Hub: hub, Kinds: kinds, Loader: state.NewLoader(nil), Log: log})
	board := New(Deps{Store: s, Clusters: rows, Rights: everything{}, Log: log})
	var running sync.WaitGroup
	running.Go(func() { _ = hub.Run(ctx) })
	running.Go(func() { _ = rows.Run(ctx) })
	running.Go(func() { _ = board.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		running.Wait()
		_ = s.Close()
	})
	for begin := 0; begin < clusters; begin += chunk {
		var pushes []*consolev1.ClusterPush
		for i := begin; i < min(begin+chunk, clusters); i++ {
			pushes = append(pushes, &consolev1.ClusterPush{Cluster: names[i], Push: pushOf(1, int64(i))})
		}
		if _, err := board.Record(ctx, pushes); err != nil {
			b.Fatal(err)
		}
	}
	return board
}

// pushOf is a whole view with the figures that each cluster has.
func pushOf(sequence uint64, n int64) *deliveryv1.PushViewRequest {
	out := &deliveryv1.PushViewRequest{Term: 1, Sequence: sequence}
	at := map[string]*deliveryv1.ViewSection{}
	for _, name := range known() {
		section, figure, _ := strings.Cut(name, ".")
		if at[section] == nil {
			at[section] = &deliveryv1.ViewSection{Name: section, State: deliveryv1.SectionState_SECTION_STATE_WHOLE, Figures: map[string]int64{}}
			out.Sections = append(out.Sections, at[section])
		}
		if figure != "sampled" {
			at[section].Figures[figure] = 100 + n%97
		}
	}
	at["pods"].Figures["not_ready"] = n % 7
	return out
}

// What a page of 100 views costs, the worst of 10,000 first, with the sums over all, while a hundred views change a
// second.
func BenchmarkListOf10000(b *testing.B) {
	board := boardOf(b, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := uint64(2); ctx.Err() == nil; n++ {
			var pushes []*consolev1.ClusterPush
			for i := range 10 {
				at := (n*10 + uint64(i)) % 10_000
				pushes = append(pushes, &consolev1.ClusterPush{Cluster: fmt.Sprintf("edge-%05d", at), Push: pushOf(n, int64(n+at))}) //nolint:gosec // small
			}
			if _, err := board.Record(ctx, pushes); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	b.Cleanup(changing.Wait)
	b.Cleanup(cancel)
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		page, err := board.List(ctx, &consolev1.ListClusterViewsRequest{
			PageSize: 100, OrderBy: "pods.not_ready desc, name", Filter: []string{"", "pods.total > 100"}[len(all)%2],
		})
		if err != nil || len(page.GetViews()) != 100 || page.GetViews()[0].GetFigures()["pods.not_ready"] != 6 {
			b.Fatal(err, page)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}
