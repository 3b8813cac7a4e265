package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
)

// The size of the catalog, and of the questions.
const (
	consoleClusters = 1000
	consoleServices = 10_000
	consoleBatch    = 1000
	consoleLists    = 500
	consoleWatchers = 500
	consoleChanges  = 20
	// watchersPerConnection is well below what a server lets through at once on one.
	watchersPerConnection = 50
)

// consoleUnderTest is a built console over SQLite with a catalog.
type consoleUnderTest struct {
	url   string
	pid   int
	admin []connect.ClientOption
	// people look on: each has a share of the streams only.
	people [][]connect.ClientOption
	hub    []connect.ClientOption // as a distributor
	http   *http.Client
}

// consoleAll measures reading and writing a large catalog.
func consoleAll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	p := process.New(dir, "console", filepath.Join(bins.Dir, "console"), "--listen", addresses[0], "--data-dir", data)
	if err := p.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Signal(syscall.SIGTERM), p.Stop(time.Minute)) }()
	c := &consoleUnderTest{url: "http://" + addresses[0], pid: p.Pid()}
	if c.http, err = client.New(client.Config{}); err != nil {
		return err
	}
	if err := c.login(ctx, filepath.Join(data, "hub.secret")); err != nil {
		return err
	}
	for _, step := range []func(context.Context, io.Writer) error{c.seed, c.applies, c.lists, c.fanout} {
		if err := step(ctx, stdout); err != nil {
			return err
		}
	}
	rss, err := residentMiB(p.Pid())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "BENCH console.rss_mib %.0f MiB\n", rss)
	return err
}

func (c *consoleUnderTest) login(ctx context.Context, secretFile string) error {
	api := consolev1connect.NewIdentityServiceClient(c.http, c.url, client.Options()...)
	return process.Await(ctx, "the console", func(ctx context.Context) error {
		secret, err := os.ReadFile(secretFile)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(string(secret))
		admin, err := api.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
			HubSecret: text,
			Subject:   &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "bench"},
		})
		if err != nil {
			return err
		}
		hub, err := api.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
			HubSecret: text,
			Subject:   &consolev1.ExchangeHubSecretRequest_Service{Service: identity.ServiceDistributor},
		})
		if err != nil {
			return err
		}
		c.admin = append(client.Options(), client.WithToken(identity.StaticToken(admin.GetToken().GetToken())))
		c.people = nil
		for i := range consoleWatchers / watchersPerConnection {
			person, err := api.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
				HubSecret: text,
				Subject:   &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: fmt.Sprint("bench-", i)},
			})
			if err != nil {
				return err
			}
			c.people = append(c.people, append(client.Options(), client.WithToken(identity.StaticToken(person.GetToken().GetToken()))))
		}
		c.hub = append(client.Options(), client.WithToken(identity.SendTo(identity.ServiceConsole,
			identity.StaticToken(hub.GetToken().GetToken()), hubsecret.Text(text))))
		return nil
	})
}

func benchCluster(i int) string { return fmt.Sprintf("edge-%04d", i%consoleClusters) }
func benchService(i int) string { return fmt.Sprintf("service-%05d", i) }

// seed writes the catalog, and what distributors and agents say of it.
func (c *consoleUnderTest) seed(ctx context.Context, _ io.Writer) error {
	_, err := consolev1connect.NewSourceServiceClient(c.http, c.url, c.admin...).UpdateSource(ctx, &consolev1.UpdateSourceRequest{AllowMissing: true, Source: &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: "shop"}, Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/shop"}},
	}})
	if err != nil {
		return err
	}
	clusters := &consolev1.BatchUpdateClustersRequest{}
	seen := &consolev1.RecordSeenRequest{}
	for i := range consoleClusters {
		clusters.Requests = append(clusters.Requests, &consolev1.UpdateClusterRequest{
			AllowMissing: true,
			Cluster:      &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: benchCluster(i)}},
		})
		seen.Clusters = append(seen.Clusters, &consolev1.ClusterSeen{Cluster: benchCluster(i), Time: timestamppb.Now()})
	}
	if _, err := consolev1connect.NewClusterServiceClient(c.http, c.url, c.admin...).BatchUpdateClusters(ctx, clusters); err != nil {
		return err
	}
	status := consolev1connect.NewStatusServiceClient(c.http, c.url, c.hub...)
	if _, err := status.RecordSeen(ctx, seen); err != nil {
		return err
	}
	for from := 0; from < consoleServices; from += consoleBatch {
		written, err := c.put(ctx, from)
		if err != nil {
			return err
		}
		hub := &consolev1.RecordHubRequest{}
		reports := &consolev1.RecordReportsRequest{}
		for i, s := range written {
			commit := strings.Repeat("a", 40)
			hub.Services = append(hub.Services, &consolev1.ServiceHub{Service: s.GetMetadata().GetName(), Uid: s.GetMetadata().GetUid(), Hub: &consolev1.HubTruth{
				Digest: "d", Revision: &artifactv1.Revision{Commit: commit},
			}})
			reports.Clusters = append(reports.Clusters, &consolev1.ClusterReports{Cluster: benchCluster(from + i), Reports: []*deliveryv1.ServiceReport{{
				Service: s.GetMetadata().GetName(), Sequence: 1, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "d",
				AppliedDigest: "d", Commit: commit, AppliedCommit: commit, ObjectsTotal: 12, ObjectsHealthy: 12,
			}}})
		}
		if _, err := status.RecordHub(ctx, hub); err != nil {
			return err
		}
		if _, err := status.RecordReports(ctx, reports); err != nil {
			return err
		}
	}
	return nil
}

// put writes a batch of services and returns them.
func (c *consoleUnderTest) put(ctx context.Context, from int) (out []*consolev1.Service, err error) {
	req := &consolev1.BatchUpdateServicesRequest{}
	for i := from; i < from+consoleBatch; i++ {
		req.Requests = append(req.Requests, &consolev1.UpdateServiceRequest{AllowMissing: true, Service: benchSpec(i, "seed")})
	}
	resp, err := consolev1connect.NewServiceServiceClient(c.http, c.url, c.admin...).BatchUpdateServices(ctx, req)
	for _, r := range resp.GetResponses() {
		out = append(out, r.GetService())
	}
	return out, err
}

func benchSpec(i int, team string) *consolev1.Service {
	return &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: benchService(i), Labels: map[string]string{"env": []string{"prod", "test"}[i%2], "team": team}},
		Spec:     &consolev1.ServiceSpec{Source: "shop", Cluster: benchCluster(i), Path: "apps/" + strconv.Itoa(i%100)},
	}
}

// applies changes a thousand services at once.
func (c *consoleUnderTest) applies(ctx context.Context, stdout io.Writer) error {
	req := &consolev1.ApplyRequest{Set: "bench"}
	for i := range consoleBatch {
		req.Resources = append(req.Resources, &consolev1.Resource{Resource: &consolev1.Resource_Service{Service: benchSpec(i, "applied")}})
	}
	began := time.Now()
	if _, err := consolev1connect.NewApplyServiceClient(c.http, c.url, c.admin...).Apply(ctx, req); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "BENCH console.apply_1000_services_s %.2f s\n", time.Since(began).Seconds())
	return err
}

// lists asks for a page of half of all services, by state and label, the last changed first.
func (c *consoleUnderTest) lists(ctx context.Context, stdout io.Writer) error {
	api := consolev1connect.NewServiceServiceClient(c.http, c.url, c.admin...)
	var took []time.Duration
	before := gitcache.CPU(c.pid)
	for range consoleLists {
		began := time.Now()
		resp, err := api.ListServices(ctx, &consolev1.ListServicesRequest{Filter: "labels.env = prod AND state != healthy", OrderBy: "update_time desc", PageSize: 100})
		if err != nil {
			return err
		}
		if len(resp.GetServices()) != 100 {
			return fmt.Errorf("a page has %d services", len(resp.GetServices()))
		}
		took = append(took, time.Since(began))
	}
	cpu := float64((gitcache.CPU(c.pid) - before).Microseconds()) / 1000 / consoleLists
	_, err := fmt.Fprintf(stdout, "BENCH console.list_p50_ms %.1f ms\nBENCH console.list_p99_ms %.1f ms\nBENCH console.list_cpu_ms %.2f ms\n", quantile(took, 0.5), quantile(took, 0.99), cpu)
	return err
}

// quantile is in milliseconds.
func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000
}

// fanout changes one service and waits until all watchers know: from before the call until each has it.
func (c *consoleUnderTest) fanout(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	arrived := make(chan time.Time, consoleWatchers*consoleChanges)
	standing := make(chan error, consoleWatchers)
	for i := range consoleWatchers {
		hc := c.http
		if i%watchersPerConnection == 0 {
			var err error
			if hc, err = client.New(client.Config{}); err != nil {
				return err
			}
			c.http = hc
		}
		as := c.people[i/watchersPerConnection]
		watchers.Go(func() { c.watch(ctx, hc, as, standing, arrived) })
	}
	for range consoleWatchers {
		if err := <-standing; err != nil {
			return err
		}
	}
	api := consolev1connect.NewServiceServiceClient(c.http, c.url, c.admin...)
	var took []time.Duration
	for i := range consoleChanges {
		began := time.Now()
		if _, err := api.UpdateService(ctx, &consolev1.UpdateServiceRequest{Service: benchSpec(1, fmt.Sprint("change-", i))}); err != nil {
			return err
		}
		for range consoleWatchers {
			select {
			case at := <-arrived:
				took = append(took, at.Sub(began))
			case <-time.After(time.Minute):
				return fmt.Errorf("after a minute %d of %d watchers know", len(took)-i*consoleWatchers, consoleWatchers)
			}
		}
	}
	_, err := fmt.Fprintf(stdout, "BENCH console.watch_fanout_p95_ms %.1f ms\n", quantile(took, 0.95))
	return err
}

// watch follows one cluster's services, and tells when it stands and when a change came.
func (c *consoleUnderTest) watch(ctx context.Context, hc *http.Client, as []connect.ClientOption, standing chan<- error, arrived chan<- time.Time) {
	stream, err := consolev1connect.NewLiveServiceClient(hc, c.url, as...).WatchResources(ctx, &consolev1.WatchResourcesRequest{
		Kinds: []consolev1.Kind{consolev1.Kind_KIND_SERVICE}, Filter: "cluster = " + benchCluster(1),
	})
	if err != nil {
		standing <- err
		return
	}
	defer func() { _ = stream.Close() }() // the stream has ended
	stands := false
	for stream.Receive() {
		switch {
		case stream.Msg().GetSnapshotEnd() != nil:
			stands = true
			standing <- nil
		case stands && len(stream.Msg().GetChanges().GetResources()) > 0:
			arrived <- time.Now()
		}
	}
	if !stands {
		standing <- errors.Join(errors.New("a watch ended before it stood"), stream.Err())
	}
}

// residentMiB is what a process has of the machine.
func residentMiB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no VmRSS")
}
