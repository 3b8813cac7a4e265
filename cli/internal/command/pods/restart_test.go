package pods_test

import (
	"net/http"
	"testing"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A global service runs in many clusters, some of which are away: the pods of the others are started anew.
func TestARestartGoesOnWhereAClusterIsAway(t *testing.T) {
	t.Parallel()
	const path = "/apis/apps/v1/namespaces/logs/daemonsets/agent"
	service := func(cluster string) *consolev1.Service {
		return &consolev1.Service{
			Metadata: clitest.Meta("logs-" + cluster), Spec: &consolev1.ServiceSpec{Cluster: cluster},
		}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"the first of two": {
			Line: "restart globalservice logs",
			Hub: []hubtest.Answer{
				hubtest.Returns[consolev1.GetGlobalServiceRequest](
					consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure,
					&consolev1.GetGlobalServiceResponse{GlobalService: &consolev1.GlobalService{Metadata: clitest.Meta("logs")}}),
				hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
					&consolev1.ListServicesResponse{Services: []*consolev1.Service{service("a"), service("b")}}),
				hubtest.Returns[consolev1.ListObjectsRequest](consolev1connect.ObjectServiceListObjectsProcedure,
					&consolev1.ListObjectsResponse{Objects: []*consolev1.ClusterObject{{Object: &deliveryv1.ManagedObject{
						Group: "apps", Version: "v1", Kind: "DaemonSet", Namespace: "logs", Name: "agent",
					}}}}),
				hubtest.Page("/clusters/a"+path, http.StatusServiceUnavailable, `{"message": "cluster \"a\" is not connected"}`),
				hubtest.Page("/clusters/b"+path, http.StatusOK, "{}"),
			},
			Asked: `GetGlobalService {"name":"logs"}
ListServices {"pageSize":500,"filter":"labels.fairlead.dev/global = \"logs\""}
ListObjects {"pageSize":1000,"service":"logs-a"}
PATCH /clusters/a/apis/apps/v1/namespaces/logs/daemonsets/agent
ListObjects {"pageSize":1000,"service":"logs-b"}
PATCH /clusters/b/apis/apps/v1/namespaces/logs/daemonsets/agent
`,
			Stdout: "DaemonSet logs/agent restarted in cluster b\n",
			Stderr: "service/logs-a: cluster a: cluster \"a\" is not connected\n",
			Err:    "1 of 2 services failed, as said above",
		},
	})
}
