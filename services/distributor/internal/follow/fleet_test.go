package follow_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/distributor/internal/follow"
	"fairlead.dev/services/distributor/internal/plan"
)

// A fleet as the one of docs/fleet.md: each folder is that of a hundredth of all clusters.
const (
	clusters, perCluster, sources, groups = 10_000, 30, 10, 100
)

func commit(n int) string { return fmt.Sprintf("%040x", n) }

func meta(name string) *consolev1.Metadata {
	return &consolev1.Metadata{
		Name: name, Uid: fmt.Sprintf("%.26s", "u"+name+"0123456789abcdefghijklmnop"),
		Labels: map[string]string{"fleet": "benchmark"},
	}
}

func source(i, head int) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Source{Source: &consolev1.Source{
		Metadata: meta(fmt.Sprint("source-", i)), Status: &consolev1.SourceStatus{Heads: []*consolev1.Head{{
			Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commit(head), Subject: "a commit"},
		}}},
	}}}
}

func service(i, j int) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Service{Service: &consolev1.Service{
		Metadata: meta(fmt.Sprintf("cluster-%05d-service-%02d", i, j)),
		Spec: &consolev1.ServiceSpec{
			Source: fmt.Sprint("source-", j%sources), Path: fmt.Sprintf("group-%d/service-%d", i%groups, j),
			Cluster: fmt.Sprintf("cluster-%05d", i), Namespace: fmt.Sprint("service-", j),
		},
	}}}
}

// console sends a fleet's catalog, and then what it is given.
type console struct{ news chan *consolev1.Change }

func (c console) Watch(ctx context.Context, _ *consolev1.WatchRequest,
	out *connect.ServerStream[consolev1.WatchResponse],
) error {
	send := func(m *consolev1.WatchResponse) {
		m.Revision = 1
		_ = out.Send(m) // the benchmark waits for what it brings
	}
	changes := func(list ...*consolev1.Change) *consolev1.WatchResponse {
		return &consolev1.WatchResponse{Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: list}}, ResumeToken: "1"}
	}
	send(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotBegin{}})
	for i := range sources {
		send(changes(source(i, 1)))
	}
	for i := range clusters {
		list := []*consolev1.Change{{Change: &consolev1.Change_Cluster{Cluster: &consolev1.Cluster{Metadata: meta(fmt.Sprintf("cluster-%05d", i))}}}}
		for j := range perCluster {
			list = append(list, service(i, j))
		}
		send(changes(list...))
	}
	send(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotEnd{}, ResumeToken: "1"})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ch := <-c.news:
			send(changes(ch))
		}
	}
}

func content(w plan.Want) plan.Artifact {
	sum := sha256.Sum256([]byte(w.Path))
	return plan.Artifact{Digest: artifact.SumDigest(sum[:]), Size: 1000, Files: 3}
}

func answerAll(p *plan.Plan) {
	var answers []plan.Answer
	for _, w := range p.Open() {
		answers = append(answers, plan.Answer{Want: w, Artifact: content(w)})
	}
	p.Answer(time.Now(), answers...)
}

func live() float64 {
	runtime.GC()
	runtime.GC() // memory that finalizers release
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// fleet is a distributor's catalog of the whole fleet, followed until the benchmark ends.
func fleet(b *testing.B, dir string) (c *catalog.Catalog, news chan *consolev1.Change) {
	b.Helper()
	con := console{news: make(chan *consolev1.Change)}
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.NewCatalogServiceHandler(con))
	srv := httptest.NewServer(mux)
	c, err := catalog.Open(dir, consolev1connect.NewCatalogServiceClient(srv.Client(), srv.URL), slog.New(slog.DiscardHandler),
		consolev1.Kind_KIND_SOURCE, consolev1.Kind_KIND_CLUSTER, consolev1.Kind_KIND_SERVICE)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		srv.Close()
	})
	sub := c.Subscribe()
	defer sub.Close()
	<-sub.C()
	for { // until it is on the disk: writing it takes memory, too
		if _, err := os.Stat(filepath.Join(dir, "catalog.snapshot")); err == nil {
			return c, con.news
		}
		<-time.After(100 * time.Millisecond)
	}
}

// BenchmarkMemory says what the state of a distributor for 10,000 clusters with 30 services takes.
func BenchmarkMemory(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		before := live()
		c, _ := fleet(b, dir)
		known := live()
		sub := c.Subscribe()
		p := plan.New(plan.Memory{})
		begun := time.Now()
		follow.Apply(p, c, sub, time.Now())
		answerAll(p)
		b.ReportMetric(time.Since(begun).Seconds(), "plan_s")
		b.ReportMetric(known-before, "catalog_MiB")
		b.ReportMetric(live()-known, "plan_MiB")
		if n := p.Counts(); n.Services != clusters*perCluster || n.Undelivered != 0 {
			b.Fatalf("%+v", n)
		}
		sub.Close()
		runtime.KeepAlive(c)
		runtime.KeepAlive(p)
	}
}

// BenchmarkHead is one new head of a source that 30,000 services use, in 300 folders, one of which changed.
func BenchmarkHead(b *testing.B) {
	c, news := fleet(b, b.TempDir())
	sub := c.Subscribe()
	defer sub.Close()
	p := plan.New(plan.Memory{})
	follow.Apply(p, c, sub, time.Now())
	answerAll(p)
	services := 0
	head := 1
	for b.Loop() {
		head++
		b.StopTimer()
		select { // a signal that is old
		case <-sub.C():
		default:
		}
		news <- source(1, head)
		<-sub.C()
		b.StartTimer()
		change, _ := follow.Apply(p, c, sub, time.Now())
		services = len(change.Services)
		var answers []plan.Answer
		for i, w := range p.Open() {
			a := content(w)
			if i == 0 {
				a.Digest = artifact.SumDigest(sum(w.Commit))
			}
			answers = append(answers, plan.Answer{Want: w, Artifact: a})
		}
		services += len(p.Answer(time.Now(), answers...).Services)
	}
	b.ReportMetric(float64(services), "services_told")
}

func sum(s string) []byte { d := sha256.Sum256([]byte(s)); return d[:] }

// BenchmarkStart is a start from the disk.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	fleet(b, dir)
	for b.Loop() {
		c, err := catalog.Open(dir, nil, slog.New(slog.DiscardHandler),
			consolev1.Kind_KIND_SOURCE, consolev1.Kind_KIND_CLUSTER, consolev1.Kind_KIND_SERVICE)
		if err != nil || c.Ready() != nil {
			b.Fatal(err)
		}
		sub := c.Subscribe()
		follow.Apply(plan.New(plan.Memory{}), c, sub, time.Now())
		sub.Close()
	}
}
