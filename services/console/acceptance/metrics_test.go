package acceptance

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
)

// metrics asks with a token, or with none.
func (r *running) metrics(t *testing.T, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := newHTTPClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (r *running) wantMetrics(t *testing.T, lines ...string) {
	t.Helper()
	_, body := r.metrics(t, r.adminToken(t))
	for _, line := range lines {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, body)
		}
	}
}

func TestCommitsAreMeasuredOnceTheyAreHealthy(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		const count = "fairlead_console_commit_healthy_seconds_count "
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY) // the service is new: no commit made this
		r.wantMetrics(t, count+"0")
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_PROGRESSING)
		r.wantMetrics(t, count+"0")
		for range 2 {
			p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
			r.wantMetrics(t, count+"1", `fairlead_console_commit_healthy_seconds_bucket{le="3600"} 1`)
		}
		p.push(t, commitA)
		p.deliver(t, commitA, "d3", deliveryv1.Phase_PHASE_FAILED)
		r.wantMetrics(t, count+"1")
	})
}

func TestClustersAreCountedByTheirAgents(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	for _, name := range []string{"edge-1", "edge-2", "edge-3"} {
		admin.putCluster(t, name)
	}
	distributor := r.service(t, identity.ServiceDistributor)
	if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
		Clusters: []*consolev1.ClusterSeen{
			{Cluster: "edge-1", Time: timestamppb.Now()},
			{Cluster: "edge-2", Time: timestamppb.New(time.Now().Add(-time.Hour))},
		},
	}); err != nil {
		t.Fatal(err)
	}
	// The console's rows have what a filtered list shows.
	list, err := admin.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{Filter: "connected = true"})
	if err != nil || len(list.GetClusters()) != 1 {
		t.Fatal(list.GetClusters(), err)
	}
	r.wantMetrics(t, `fairlead_console_clusters{state="connected"} 1`,
		`fairlead_console_clusters{state="disconnected"} 1`,
		`fairlead_console_clusters{state="left"} 0`, `fairlead_console_clusters{state="never"} 1`)
}
