package apply_test

import (
	"testing"
	"time"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// logsHub has a global service with two services: one with objects in its cluster, which has the status, and one that
// leaves them there.
func logsHub(onLeave consolev1.OnLeave, status *consolev1.ClusterStatus) []hubtest.Answer {
	keeps := &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN}
	services := []*consolev1.Service{
		{Metadata: clitest.Meta("logs-a"), Spec: &consolev1.ServiceSpec{Cluster: "a"}},
		{Metadata: clitest.Meta("logs-b"), Spec: &consolev1.ServiceSpec{Cluster: "b", Sync: keeps}},
	}
	objects := []*consolev1.ClusterObject{{Object: &deliveryv1.ManagedObject{Version: "v1", Kind: "ConfigMap", Name: "c"}}}
	return []hubtest.Answer{
		hubtest.Returns[consolev1.GetGlobalServiceRequest](consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure,
			&consolev1.GetGlobalServiceResponse{GlobalService: &consolev1.GlobalService{
				Metadata: clitest.Meta("logs"), Spec: &consolev1.GlobalServiceSpec{OnLeave: onLeave},
			}}),
		hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
			&consolev1.ListServicesResponse{Services: services}),
		hubtest.Returns[consolev1.ListObjectsRequest](consolev1connect.ObjectServiceListObjectsProcedure,
			&consolev1.ListObjectsResponse{Objects: objects}),
		hubtest.Returns[consolev1.GetClusterRequest](consolev1connect.ClusterServiceGetClusterProcedure,
			&consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{Metadata: clitest.Meta("a"), Status: status}}),
	}
}

func TestWhatGoesWithAGlobalServiceIsShown(t *testing.T) {
	t.Parallel()
	asked := `GetGlobalService {"name":"logs"}
ListServices {"pageSize":500,"filter":"labels.fairlead.dev/global = \"logs\""}
`
	hubtest.Run(t, map[string]hubtest.Case{
		"a dry run": {
			Line: "delete globalservice logs --dry-run", Hub: logsHub(consolev1.OnLeave_ON_LEAVE_DELETE, nil),
			Asked: asked + `ListObjects {"pageSize":1000,"service":"logs-a"}
GetCluster {"name":"a"}
ListObjects {"pageSize":1000,"service":"logs-b"}
`,
			Stdout: "with service \"logs-a\" cluster \"a\" loses 1 object:\n  1 ConfigMap\n",
			Stderr: "cluster \"b\" keeps 1 object of service \"logs-b\" (spec.sync.onDelete)\n",
		},
		"a dry run, and a cluster that has left": {
			Line: "delete globalservice logs --dry-run",
			Hub:  logsHub(consolev1.OnLeave_ON_LEAVE_DELETE, &consolev1.ClusterStatus{LeaveTime: clitest.Before(time.Hour)}),
			Asked: asked + `ListObjects {"pageSize":1000,"service":"logs-a"}
GetCluster {"name":"a"}
ListObjects {"pageSize":1000,"service":"logs-b"}
`,
			Stdout: "with service \"logs-a\" cluster \"a\", which has left, " +
				"loses 1 object when an agent joins again:\n  1 ConfigMap\n",
			Stderr: "cluster \"b\" keeps 1 object of service \"logs-b\" (spec.sync.onDelete)\n",
		},
		"a dry run, and its services stay": {
			Line: "delete globalservice logs --dry-run", Hub: logsHub(consolev1.OnLeave_ON_LEAVE_DETACH, nil),
			Asked: asked,
			Stdout: "service \"logs-a\" stays in cluster \"a\", on its own\n" +
				"service \"logs-b\" stays in cluster \"b\", on its own\n",
		},
		"detached": {
			Line: "delete globalservice logs --detach",
			Err: "--detach is for services: with spec.onLeave: detach the services of a global service stay " +
				"when it is deleted",
		},
		"a dry run of another kind": {
			Line: "delete source shop --dry-run",
			Err:  "--dry-run and --detach are for services and global services: sources have no objects in clusters",
		},
	})
}

// firstApplyHub has a service that was handed out to a cluster, and no list of its objects: while they are applied for
// the first time, and after a move. Once the service leaves its objects, the cluster reports what is handed out then.
func firstApplyHub(cluster *consolev1.ClusterStatus) []hubtest.Answer {
	service := func(digest, reported string, sync *deliveryv1.SyncSpec) *consolev1.Service {
		return &consolev1.Service{
			Metadata: clitest.Meta("shop"), Spec: &consolev1.ServiceSpec{Cluster: "a", Sync: sync},
			Status: &consolev1.ServiceStatus{
				Hub:     &consolev1.HubTruth{Digest: digest},
				Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{Digest: reported}},
			},
		}
	}
	now := service("sha256:1", "", nil)
	return []hubtest.Answer{
		hubtest.On(consolev1connect.ServiceServiceGetServiceProcedure,
			func(*consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
				return &consolev1.GetServiceResponse{Service: now}, nil
			}),
		hubtest.On(consolev1connect.ServiceServiceUpdateServiceProcedure,
			func(req *consolev1.UpdateServiceRequest) (*consolev1.UpdateServiceResponse, error) {
				now = service("sha256:2", "sha256:2", req.GetService().GetSpec().GetSync())
				return &consolev1.UpdateServiceResponse{Service: now}, nil
			}),
		hubtest.Returns[consolev1.DeleteServiceRequest](consolev1connect.ServiceServiceDeleteServiceProcedure,
			&consolev1.DeleteServiceResponse{}),
		hubtest.Returns[consolev1.ListObjectsRequest](consolev1connect.ObjectServiceListObjectsProcedure,
			&consolev1.ListObjectsResponse{}),
		hubtest.Returns[consolev1.GetClusterRequest](consolev1connect.ClusterServiceGetClusterProcedure,
			&consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{Metadata: clitest.Meta("a"), Status: cluster}}),
	}
}

// A cluster may have objects of which the hub knows nothing yet.
func TestObjectsThatAreNotKnownYetAreNotLostByADetach(t *testing.T) {
	t.Parallel()
	joined := &consolev1.ClusterStatus{JoinTime: clitest.Before(time.Hour)}
	const listed = "GetService {\"name\":\"shop\"}\nListObjects {\"pageSize\":1000,\"service\":\"shop\"}\n"
	const looked = listed + "GetCluster {\"name\":\"a\"}\n"
	const text = "cluster \"a\" has told of no objects of service \"shop\" yet, and may have some: it loses them\n"
	hubtest.Run(t, map[string]hubtest.Case{
		"detached": {
			Line: "delete service shop --detach", Hub: firstApplyHub(joined),
			Asked: looked + `UpdateService {"service":{"metadata":{"name":"shop"},"spec":{"cluster":"a","sync":{"onDelete":"DELETE_POLICY_ORPHAN"}},"status":{"hub":{"digest":"sha256:1"},"cluster":{"report":{}}}}}
GetService {"name":"shop"}
DeleteService {"name":"shop"}
`,
			Stdout: "service/shop deleted\n", Stderr: "waiting until cluster \"a\" knows that the objects stay\n",
		},
		"detached from a cluster that no agent has joined": {
			Line: "delete service shop --detach", Hub: firstApplyHub(nil),
			Asked: looked + "DeleteService {\"name\":\"shop\"}\n", Stdout: "service/shop deleted\n",
		},
		"a dry run": {
			Line: "delete service shop --dry-run", Hub: firstApplyHub(joined),
			Asked: looked + "GetCluster {\"name\":\"a\"}\n", Stdout: text,
		},
		"without an answer": {
			Line: "delete service shop", Hub: firstApplyHub(joined),
			Asked: looked + "GetCluster {\"name\":\"a\"}\n", Stderr: text,
			Err: "nothing was done: say --yes to go on, or --detach to leave the objects in the cluster",
		},
		"with --yes": {
			Line: "delete service shop --yes", Hub: firstApplyHub(joined),
			Asked: listed + "DeleteService {\"name\":\"shop\"}\n", Stdout: "service/shop deleted\n",
		},
	})
}
