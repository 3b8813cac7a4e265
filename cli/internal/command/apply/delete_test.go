package apply_test

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// delivered is the status of a service with the digests that the hub hands out and that its cluster reported.
func delivered(handed, reported string) *consolev1.ServiceStatus {
	return &consolev1.ServiceStatus{
		Hub:     &consolev1.HubTruth{Digest: handed},
		Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{Digest: reported}},
	}
}

// logsHub has a global service with two services: one with objects in its cluster, which has the status, and one that
// leaves them there.
func logsHub(onLeave consolev1.OnLeave, status *consolev1.ClusterStatus) []hubtest.Answer {
	keeps := &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN}
	services := []*consolev1.Service{
		{Metadata: clitest.Meta("logs-a"), Spec: &consolev1.ServiceSpec{Cluster: "a"}},
		{
			Metadata: clitest.Meta("logs-b"), Spec: &consolev1.ServiceSpec{Cluster: "b", Sync: keeps},
			Status: delivered("sha256:1", "sha256:1"),
		},
	}
	objects := []*consolev1.ClusterObject{{Object: &deliveryv1.ManagedObject{Version: "v1", Kind: "ConfigMap", Name: "c"}}}
	return []hubtest.Answer{
		hubtest.Returns[consolev1.GetGlobalServiceRequest](consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure,
			&consolev1.GetGlobalServiceResponse{GlobalService: &consolev1.GlobalService{
				Metadata: clitest.Meta("logs"), Spec: &consolev1.GlobalServiceSpec{OnLeave: onLeave},
			}}),
		hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
			&consolev1.ListServicesResponse{Services: services}),
		hubtest.Returns[consolev1.ListDeploymentsRequest](consolev1connect.RevisionServiceListDeploymentsProcedure,
			&consolev1.ListDeploymentsResponse{Deployments: []*consolev1.Deployment{{Digest: "sha256:1"}}}),
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
ListDeployments {"service":"logs-b","pageSize":100}
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
ListDeployments {"service":"logs-b","pageSize":100}
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
			Status: delivered(digest, reported),
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
		hubtest.Returns[consolev1.ListDeploymentsRequest](consolev1connect.RevisionServiceListDeploymentsProcedure,
			&consolev1.ListDeploymentsResponse{Deployments: []*consolev1.Deployment{{Digest: "sha256:2"}}}),
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
ListDeployments {"service":"shop","pageSize":100}
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

// orphanHub has a service whose spec leaves its objects in the cluster since its third revision. The cluster reported
// what the hub handed out of a revision; once it is waited for, it has heard of the third.
func orphanHub(heard int64) []hubtest.Answer {
	service := func(revision int64, policy deliveryv1.DeletePolicy) *consolev1.Service {
		meta := clitest.Meta("shop")
		meta.Revision = revision
		return &consolev1.Service{
			Metadata: meta, Status: delivered("sha256:of-3", "sha256:of-3"),
			Spec: &consolev1.ServiceSpec{Cluster: "a", Sync: &deliveryv1.SyncSpec{OnDelete: policy}},
		}
	}
	const orphan, remove = deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN, deliveryv1.DeletePolicy_DELETE_POLICY_UNSPECIFIED
	now := service(4, orphan)
	now.Status = delivered("sha256:of-3", fmt.Sprintf("sha256:of-%d", heard))
	written := func(revision int64, policy deliveryv1.DeletePolicy) *consolev1.Revision {
		return &consolev1.Revision{Revision: revision, Resource: &consolev1.Resource{
			Resource: &consolev1.Resource_Service{Service: service(revision, policy)},
		}}
	}
	return []hubtest.Answer{
		hubtest.On(consolev1connect.ServiceServiceGetServiceProcedure,
			func(*consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
				return &consolev1.GetServiceResponse{Service: now}, nil
			}),
		hubtest.On(consolev1connect.ServiceServiceUpdateServiceProcedure,
			func(*consolev1.UpdateServiceRequest) (*consolev1.UpdateServiceResponse, error) {
				now = service(4, orphan)
				return &consolev1.UpdateServiceResponse{Service: now}, nil
			}),
		hubtest.Returns[consolev1.DeleteServiceRequest](consolev1connect.ServiceServiceDeleteServiceProcedure,
			&consolev1.DeleteServiceResponse{}),
		hubtest.Returns[consolev1.ListDeploymentsRequest](consolev1connect.RevisionServiceListDeploymentsProcedure,
			&consolev1.ListDeploymentsResponse{Deployments: []*consolev1.Deployment{
				{Digest: "sha256:of-3", SpecRevision: 3}, {Digest: "sha256:of-2", SpecRevision: 2},
			}}),
		hubtest.Returns[consolev1.ListRevisionsRequest](consolev1connect.RevisionServiceListRevisionsProcedure,
			&consolev1.ListRevisionsResponse{Revisions: []*consolev1.Revision{
				written(4, orphan), written(3, orphan), written(2, remove), written(1, remove),
			}}),
		hubtest.Returns[consolev1.ListObjectsRequest](consolev1connect.ObjectServiceListObjectsProcedure,
			&consolev1.ListObjectsResponse{Objects: []*consolev1.ClusterObject{
				{Object: &deliveryv1.ManagedObject{Version: "v1", Kind: "ConfigMap", Name: "c"}},
			}}),
		hubtest.Returns[consolev1.GetClusterRequest](consolev1connect.ClusterServiceGetClusterProcedure,
			&consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{Metadata: clitest.Meta("a")}}),
	}
}

// The agent deletes by the policy that it heard of last, whatever the spec says by now.
func TestObjectsStayWhereTheClusterKnowsThatTheyDo(t *testing.T) {
	t.Parallel()
	const looked = `GetService {"name":"shop"}
ListObjects {"pageSize":1000,"service":"shop"}
ListDeployments {"service":"shop","pageSize":100}
ListRevisions {"kind":"KIND_SERVICE","name":"shop","pageSize":100}
`
	const shown = looked + "GetCluster {\"name\":\"a\"}\n"
	const keeps = "cluster \"a\" keeps 1 object of service \"shop\" (spec.sync.onDelete)\n"
	const unheard = "service \"shop\" has spec.sync.onDelete: orphan, and cluster \"a\" has not reported yet that it knows\n"
	const loses = "with service \"shop\" cluster \"a\" loses 1 object:\n  1 ConfigMap\n"
	hubtest.Run(t, map[string]hubtest.Case{
		"the cluster knows": {
			Line: "delete service shop", Hub: orphanHub(3), Asked: looked + "DeleteService {\"name\":\"shop\"}\n",
			Stdout: "service/shop deleted\n", Stderr: keeps,
		},
		"the cluster knows, and it is detached": {
			Line: "delete service shop --detach", Hub: orphanHub(3),
			Asked:  looked + "DeleteService {\"name\":\"shop\"}\n",
			Stdout: "service/shop deleted\n", Stderr: keeps,
		},
		"the cluster has not heard of it": {
			Line: "delete service shop", Hub: orphanHub(2), Asked: shown, Stderr: unheard + loses,
			Err: "nothing was done: say --yes to go on, or --detach to leave the objects in the cluster",
		},
		"a dry run, and the cluster has not heard of it": {
			Line: "delete service shop --dry-run", Hub: orphanHub(2), Asked: shown, Stdout: unheard + loses,
		},
		"with --yes, and the cluster has not heard of it": {
			Line: "delete service shop --yes", Hub: orphanHub(2),
			Asked:  shown + "DeleteService {\"name\":\"shop\"}\n",
			Stdout: "service/shop deleted\n", Stderr: unheard + loses,
		},
		"detached, and the cluster hears of it meanwhile": {
			Line: "delete service shop --detach", Hub: orphanHub(2),
			Asked: looked + `UpdateService {"service":{"metadata":{"name":"shop","revision":"4"},"spec":{"cluster":"a","sync":{"onDelete":"DELETE_POLICY_ORPHAN"}},"status":{"hub":{"digest":"sha256:of-3"},"cluster":{"report":{"digest":"sha256:of-2"}}}}}
GetService {"name":"shop"}
ListDeployments {"service":"shop","pageSize":100}
ListRevisions {"kind":"KIND_SERVICE","name":"shop","pageSize":100}
DeleteService {"name":"shop"}
`,
			Stdout: "service/shop deleted\n",
			Stderr: "waiting until cluster \"a\" knows that the objects stay\n",
		},
	})
}
