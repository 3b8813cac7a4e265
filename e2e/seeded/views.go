package seeded

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// viewBatch is how many views go into one request.
const viewBatch = 200

// seedViews has agents say what they see in their clusters: some pods fail, as the services of the clusters do.
func (c *Console) seedViews(ctx context.Context) error {
	for from := 0; from < c.size.Clusters; from += viewBatch {
		var pushes []*consolev1.ClusterPush
		for i := from; i < min(from+viewBatch, c.size.Clusters); i++ {
			var failing []string
			if i == 1 || i%400 == 13 {
				failing = []string{c.Service(i%c.size.Services) + "-7d9c6b5f4-x2klm", c.Service(i%c.size.Services) + "-7d9c6b5f4-9wq4t"}
			}
			pushes = append(pushes, c.push(i, failing))
		}
		if err := c.record(ctx, pushes); err != nil {
			return err
		}
	}
	return nil
}

// View has the agent of the i-th cluster push a view in which these pods fail.
func (c *Console) View(ctx context.Context, i int, failing ...string) error {
	return c.record(ctx, []*consolev1.ClusterPush{c.push(i, failing)})
}

func (c *Console) record(ctx context.Context, pushes []*consolev1.ClusterPush) error {
	_, err := consolev1connect.NewStatusServiceClient(c.http, c.URL, c.distributor...).RecordViews(ctx, &consolev1.RecordViewsRequest{Clusters: pushes})
	return err
}

func (c *Console) push(i int, failing []string) *consolev1.ClusterPush {
	c.views[i]++
	return &consolev1.ClusterPush{Cluster: c.Cluster(i), Push: &deliveryv1.PushViewRequest{
		Term: 1, Sequence: c.views[i], Sections: Sections(i, c.Service(i%c.size.Services), failing),
	}}
}

// Sections are what the agent of the i-th cluster sees, in which these pods of a service fail.
func Sections(i int, service string, failing []string) []*deliveryv1.ViewSection {
	const total, gib = 240, 1 << 30
	nodes, not, whole := int64(3+i%5), int64(len(failing)), deliveryv1.SectionState_SECTION_STATE_WHOLE
	since, last := timestamppb.New(time.Now().Add(-14*time.Minute)), timestamppb.New(time.Now().Add(-time.Minute))
	section := func(name string, figures map[string]int64, rows ...*deliveryv1.ViewRow) *deliveryv1.ViewSection {
		return &deliveryv1.ViewSection{Name: name, State: whole, Figures: figures, Rows: rows}
	}
	var node, pods, warnings, workloads []*deliveryv1.ViewRow
	for n := range nodes {
		r := &deliveryv1.ViewRow{Key: fmt.Sprint("node-", n), Kind: "Node", Name: fmt.Sprint("node-", n), Reason: "Ready", Version: "v1.36.3"}
		if not > 0 && n == 0 {
			r.Reason, r.SinceTime = "Ready,SchedulingDisabled", since
		}
		node = append(node, r)
	}
	for _, name := range failing {
		pods = append(pods, &deliveryv1.ViewRow{
			Key: "shop/" + name, Kind: "Pod", Namespace: "shop", Name: name, Reason: "CrashLoopBackOff",
			Service: service, Node: "node-1", SinceTime: since, Figures: map[string]int64{"restarts": 14},
		})
	}
	if not > 0 {
		workloads = append(workloads, &deliveryv1.ViewRow{
			Key: "Deployment/shop/" + service, Kind: "Deployment",
			Namespace: "shop", Name: service, Reason: fmt.Sprintf("%d/3", 3-not), Service: service,
		})
		warnings = append(warnings, &deliveryv1.ViewRow{
			Key: "BackOff Pod shop/" + service, Kind: "Pod", Namespace: "shop", Name: service, Reason: "BackOff",
			Text:      "Back-off restarting failed container app in pod " + failing[0],
			SinceTime: since, LastTime: last, Figures: map[string]int64{"hour": 41},
		})
	}
	return []*deliveryv1.ViewSection{
		section("nodes", map[string]int64{
			"total": nodes, "ready": nodes, "not_ready": 0, "pressure": 0, "cordoned": min(not, 1), "skewed": 0,
			"cpu_allocatable": nodes * 16_000, "memory_allocatable": nodes * 64 * gib,
			"cpu_capacity": nodes * 16_000, "memory_capacity": nodes * 64 * gib, "pods_allocatable": nodes * 110,
		}, node...),
		section("requests", map[string]int64{
			"cpu":    nodes * (7_000 + int64(i%9)*800),
			"memory": nodes * (20 + int64(i%7)*5) * gib, "pods": total, "waiting_cpu": 0, "waiting_memory": 0, "waiting_pods": 0,
		}),
		section("pods", map[string]int64{
			"total": total, "running": total - 4, "succeeded": 4, "pending": 0, "failed": 0, "unknown": 0, "not_ready": not,
			"state.Running": total - 4 - not, "state.Completed": 4, "state.CrashLoopBackOff": not,
		}, pods...),
		section("restarts", map[string]int64{"hour": not * 7, "oom_killed_hour": 0}),
		section("pulls", map[string]int64{"pods": 0, "images": 0}),
		section("workloads", map[string]int64{
			"total": 60, "not_well": min(not, 1), "ready": 200 - not, "desired": 200,
			"jobs_failed": 0, "cronjobs_suspended": 1,
		}, workloads...),
		section("claims", map[string]int64{"total": 12, "bound": 12, "pending": 0, "lost": 0, "terminating": 0, "bound_bytes": 480 * gib}),
		section("warnings", map[string]int64{"hour": min(not, 1) * 41, "groups": min(not, 1)}, warnings...),
	}
}
