package acceptance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/longform"
)

// A first delivery in these tests: each cluster has so many services, from so many sources, and a distributor tells of
// so many services and clusters in a call.
const (
	intakeServices, intakeSources = 30, 10
	intakeTruths, intakeReporters = 1000, 40
	intakeWaiting                 = 20_000 // truths, while builds are faster than calls
	intakeFolders                 = 100    // of a service: so many clusters apart are the clusters of a folder
	intakeCommit                  = "0123456789abcdef0123456789abcdef01234567"
	intakeDigest                  = "sha256:%064x"
)

// intake is a console as a process of its own, and a fleet that comes to it all at once.
type intake struct {
	*running
	pid         int
	admin       api
	distributor api
	clusters    int
	sources     []*consolev1.Source
	uids        map[string]string // of services
	random      *rand.Rand
}

func startIntake(t *testing.T, db string, clusters int) *intake {
	t.Helper()
	r, cmd := newHub(t, db).process(t)
	i := &intake{
		running: r, pid: cmd.Process.Pid, admin: r.admin(t), distributor: r.service(t, "distributor"),
		clusters: clusters, uids: map[string]string{}, random: rand.New(rand.NewPCG(1, 2)),
	}
	gitcache := r.service(t, "gitcache")
	for n := range intakeSources {
		source := i.admin.putSource(t, fmt.Sprintf("mono-%d", n), "https://git.example.com/mono")
		i.sources = append(i.sources, source)
		claim, err := gitcache.heads.ClaimSource(t.Context(),
			&consolev1.ClaimSourceRequest{
				Source: source.GetMetadata().GetName(), Uid: source.GetMetadata().GetUid(),
				Owner: "g",
			})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gitcache.heads.PublishHeads(t.Context(), &consolev1.PublishHeadsRequest{
			Source: source.GetMetadata().GetName(), Uid: source.GetMetadata().GetUid(), Epoch: claim.GetEpoch(),
			Heads: []*consolev1.Head{{Ref: "HEAD", Revision: &artifactv1.Revision{
				Commit:  intakeCommit,
				Subject: "the first of all", Author: "Ada <ada@example.com>",
			}, FetchTime: timestamppb.Now()}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	i.inBatches(t, clusters, func(from, to int) error {
		req := &consolev1.BatchUpdateClustersRequest{}
		for c := from; c < to; c++ {
			req.Requests = append(req.Requests, &consolev1.UpdateClusterRequest{
				AllowMissing: true,
				Cluster:      &consolev1.Cluster{Metadata: meta(intakeCluster(c))},
			})
		}
		_, err := i.admin.clusters.BatchUpdateClusters(t.Context(), req)
		return err
	})
	i.inBatches(t, clusters*intakeServices, func(from, to int) error {
		req := &consolev1.BatchUpdateServicesRequest{}
		for n := from; n < to; n++ {
			c, s := n/intakeServices, n%intakeServices
			req.Requests = append(req.Requests, &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
				Metadata: meta(intakeService(c, s)),
				Spec: &consolev1.ServiceSpec{
					Source:  fmt.Sprintf("mono-%d", s%intakeSources),
					Cluster: intakeCluster(c), Path: fmt.Sprintf("apps/s%02d/g%02d", s, c%intakeFolders),
				},
			}})
		}
		resp, err := i.admin.services.BatchUpdateServices(t.Context(), req)
		for _, result := range resp.GetResponses() {
			i.uids[result.GetService().GetMetadata().GetName()] = result.GetService().GetMetadata().GetUid()
		}
		return err
	})
	return i
}

func intakeCluster(c int) string    { return fmt.Sprintf("edge-%05d", c) }
func intakeService(c, s int) string { return fmt.Sprintf("s%02d-edge-%05d", s, c) }

func (i *intake) inBatches(t *testing.T, n int, do func(from, to int) error) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		if err := do(from, min(from+1000, n)); err != nil {
			t.Fatal(err)
		}
	}
}

func intakeDigestOf(c, s int) string {
	return fmt.Sprintf(intakeDigest, s*intakeFolders+c%intakeFolders)
}

// deliver tells the truths of all services, in the order in which folders are built, and of the refs. Truths that wait
// for a distributor's call are told in the order of uids.
func (i *intake) deliver(t *testing.T) {
	t.Helper()
	var list []*consolev1.ServiceHub
	for _, folder := range i.random.Perm(intakeServices * intakeFolders) {
		s := folder / intakeFolders
		for c := folder % intakeFolders; c < i.clusters; c += intakeFolders {
			digest := intakeDigestOf(c, s)
			list = append(list, &consolev1.ServiceHub{
				Service: intakeService(c, s), Uid: i.uids[intakeService(c, s)],
				SourceUid: i.sources[s%intakeSources].GetMetadata().GetUid(), Ref: "HEAD", ServiceRevision: 1,
				Hub: &consolev1.HubTruth{
					Digest: digest, ContentDigest: digest, ResolveTime: timestamppb.Now(),
					Artifact: &artifactv1.Artifact{Digest: digest, Size: 1234, Files: 3},
				},
			})
		}
	}
	for waiting := range slices.Chunk(list, intakeWaiting) {
		slices.SortFunc(waiting, func(a, b *consolev1.ServiceHub) int { return strings.Compare(a.GetUid(), b.GetUid()) })
	}
	for from := 0; from < len(list); from += intakeTruths {
		if _, err := i.distributor.status.RecordHub(t.Context(), &consolev1.RecordHubRequest{Services: list[from:min(from+intakeTruths, len(list))]}); err != nil {
			t.Fatal(err)
		}
	}
	req := &consolev1.RecordHubRequest{}
	for _, source := range i.sources {
		req.Refs = append(req.Refs, &consolev1.RefHub{
			SourceUid: source.GetMetadata().GetUid(), Ref: "HEAD",
			Revision: &artifactv1.Revision{Commit: intakeCommit}, ResolveTime: timestamppb.Now(),
		})
	}
	if _, err := i.distributor.status.RecordHub(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// report has all clusters report their services in a phase.
func (i *intake) report(t *testing.T, sequence uint64, phase deliveryv1.Phase) {
	t.Helper()
	order := i.random.Perm(i.clusters)
	for from := 0; from < len(order); from += intakeReporters {
		req := &consolev1.RecordReportsRequest{}
		for _, c := range order[from:min(from+intakeReporters, len(order))] {
			said := &consolev1.ClusterReports{Cluster: intakeCluster(c)}
			for s := range intakeServices {
				said.Reports = append(said.Reports, &deliveryv1.ServiceReport{
					Service: intakeService(c, s), Sequence: sequence, Phase: phase, Digest: intakeDigestOf(c, s),
					Commit: intakeCommit, AppliedDigest: intakeDigestOf(c, s), AppliedCommit: intakeCommit,
					AppliedTime: timestamppb.Now(), ObservedTime: timestamppb.Now(), ObjectsTotal: 3, ObjectsHealthy: 3,
				})
			}
			req.Clusters = append(req.Clusters, said)
		}
		resp, err := i.distributor.status.RecordReports(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.GetClusters() {
			if len(c.GetAcknowledged()) != intakeServices {
				t.Fatalf("%d of %d reports are acknowledged", len(c.GetAcknowledged()), intakeServices)
			}
		}
	}
}

func (i *intake) see(t *testing.T) {
	t.Helper()
	req := &consolev1.RecordSeenRequest{}
	for c := range i.clusters {
		req.Clusters = append(req.Clusters, &consolev1.ClusterSeen{
			Cluster: intakeCluster(c), Time: timestamppb.Now(),
			Agent: &deliveryv1.AgentInfo{Version: "v1", KubernetesVersion: "v1.36.0"},
		})
	}
	for from := 0; from < len(req.GetClusters()); from += 5000 {
		if _, err := i.distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{Clusters: req.GetClusters()[from:min(from+5000, len(req.GetClusters()))]}); err != nil {
			t.Fatal(err)
		}
	}
}

// cost is what a process has taken so far.
type cost struct {
	cpu           time.Duration
	written, read int64 // bytes of system calls
}

func (c cost) since(before cost) cost {
	return cost{c.cpu - before.cpu, c.written - before.written, c.read - before.read}
}

func (i *intake) cost(t *testing.T) (c cost) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(i.pid), "io"))
	if err != nil {
		t.Skipf("what a process writes can't be read here: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "wchar":
			c.written = n
		case "rchar":
			c.read = n
		}
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(i.pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.ParseInt(fields[11], 10, 64) // fields 14 and 15 of proc(5), in ticks of a hundredth of a second
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	c.cpu = time.Duration(user+system) * 10 * time.Millisecond
	return c
}

// firstDelivery has all of it come, and returns what that cost.
func (i *intake) firstDelivery(t *testing.T) cost {
	t.Helper()
	if os.Getenv(profileEnv) != "" {
		_ = syscall.Kill(i.pid, syscall.SIGUSR1)
	}
	begin := i.cost(t)
	step := begin
	note := func(what string) {
		now := i.cost(t)
		d := now.since(step)
		t.Logf("%-12s %6.2f s of CPU, %7.1f MiB written, %7.1f MiB read", what, d.cpu.Seconds(), mib(d.written),
			mib(d.read))
		step = now
		if os.Getenv(profileEnv) != "" {
			_ = syscall.Kill(i.pid, syscall.SIGUSR1)
		}
	}
	i.see(t)
	note("seen")
	i.deliver(t)
	note("truths")
	i.report(t, 1, deliveryv1.Phase_PHASE_PROGRESSING)
	note("progress")
	i.report(t, 2, deliveryv1.Phase_PHASE_HEALTHY)
	note("final")
	all := i.cost(t).since(begin)
	n := i.clusters * intakeServices
	t.Logf("%d services: %.0f us of CPU, %.2f KiB written and %.2f KiB read for each", n,
		all.cpu.Seconds()*1e6/float64(n), float64(all.written)/1024/float64(n), float64(all.read)/1024/float64(n))
	return all
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// A first delivery of everything to everybody is few events, and each service, cluster and sink has its own story all
// the same.
func TestAFirstDeliveryIsFewEvents(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "" },
		"postgres": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := startIntake(t, db(t), 8)
			i.firstDelivery(t)
			events := i.events(t, i.adminToken(t))
			var services int32
			many := listEvents(t, events, "type = service.healthy")
			for _, e := range many {
				services += e.GetCount()
				if e.GetService() != "" || len(e.GetMembers()) == 0 || e.GetMembers()[0].GetService() == "" {
					t.Errorf("one of many services: %v", e)
				}
			}
			if most := 8; services != 8*intakeServices || len(many) > most {
				t.Errorf("%d events tell of %d services, want at most %d of %d", len(many), services, most,
					8*intakeServices)
			}
			for _, c := range listEvents(t, events, "service = s07-edge-00003") {
				if c.GetCluster() != "edge-00003" || c.GetDigest() != intakeDigestOf(3, 7) || len(c.GetMembers()) > 0 {
					t.Errorf("of one service: %v", c)
				}
			}
			if got := types(listEvents(t, events, "service = s07-edge-00003")); got != "service.delivered service.applied service.healthy" {
				t.Errorf("of one service: %s", got)
			}
			services = 0
			for _, e := range listEvents(t, events, "cluster = edge-00003 AND type = service.applied") {
				services += max(e.GetCount(), 1)
				if e.GetCluster() != "edge-00003" {
					t.Errorf("of one cluster: %v", e)
				}
			}
			if services != intakeServices {
				t.Errorf("of one cluster: %d services", services)
			}
			if got := listEvents(t, events, "service = nobody"); len(got) > 0 {
				t.Errorf("of nobody: %v", got)
			}
		})
	}
}

// The cost of a service for the console in a first delivery must not grow with the fleet that it is in, and the bytes
// that are written for it stay within a bound: a page for each index of each table that is about it would be several
// times that.
func TestAServiceOfALargeFleetCostsWhatItCostsInASmallOne(t *testing.T) {
	longform.Only(t, "first deliveries of 60 and 360 clusters")
	const mostWritten = 14 << 10 // bytes
	small, large := 60, 360
	if n, err := strconv.Atoi(os.Getenv("INTAKE")); err == nil { // the long form: INTAKE=300 compares 3,000 clusters with 300
		small, large = n, 10*n
	}
	db := func() string { return "" }
	if os.Getenv("INTAKE_POSTGRES") != "" {
		db = func() string { return postgres.Database(t) }
	}
	each := func(clusters int) (cpu, written float64) {
		c := startIntake(t, db(), clusters).firstDelivery(t)
		n := float64(clusters * intakeServices)
		return c.cpu.Seconds() / n, float64(c.written) / n
	}
	for tries := 1; ; tries++ { // others' work empties the caches of the machine, now in the one and now in the other
		cpu, _ := each(small)
		largeCPU, written := each(large)
		t.Logf("%d clusters over %d: %.2f of the CPU", large, small, largeCPU/cpu)
		if written > mostWritten {
			t.Errorf("for a service among %d clusters %.1f KiB are written, want at most %d", large, written/1024,
				mostWritten>>10)
		}
		if largeCPU <= 1.3*cpu {
			return
		}
		if tries == 4 {
			t.Fatalf("a service among %d clusters costs %.0f us of CPU, and %.0f among %d", large, largeCPU*1e6,
				cpu*1e6, small)
		}
	}
}
