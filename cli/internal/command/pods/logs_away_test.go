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

// The logs of a global service are read where its clusters can be asked, and a script sees that they are not whole.
func TestLogsAreReadWhereAClusterCanBeAsked(t *testing.T) {
	t.Parallel()
	const pod, log = "/api/v1/namespaces/logs/pods/agent", "2026-01-31T12:00:00Z one\n"
	service := func(cluster string) *consolev1.Service {
		return &consolev1.Service{
			Metadata: clitest.Meta("logs-" + cluster), Spec: &consolev1.ServiceSpec{Cluster: cluster},
		}
	}
	hub := func(clusters ...hubtest.Answer) []hubtest.Answer {
		return append(clusters,
			hubtest.Returns[consolev1.GetGlobalServiceRequest](
				consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure,
				&consolev1.GetGlobalServiceResponse{GlobalService: &consolev1.GlobalService{Metadata: clitest.Meta("logs")}}),
			hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
				&consolev1.ListServicesResponse{Services: []*consolev1.Service{service("a"), service("b")}}),
			hubtest.Returns[consolev1.ListObjectsRequest](consolev1connect.ObjectServiceListObjectsProcedure,
				&consolev1.ListObjectsResponse{Objects: []*consolev1.ClusterObject{{Object: &deliveryv1.ManagedObject{
					Version: "v1", Kind: "Pod", Namespace: "logs", Name: "agent",
				}}}}))
	}
	away := func(cluster string) hubtest.Answer {
		return hubtest.Page("/clusters/"+cluster+pod, http.StatusServiceUnavailable,
			`{"message": "cluster \"`+cluster+`\" is not connected"}`)
	}
	const asked = `GetGlobalService {"name":"logs"}
ListServices {"pageSize":500,"filter":"labels.fairlead.dev/global = \"logs\""}
ListObjects {"pageSize":1000,"service":"logs-a"}
GET /clusters/a` + pod + `
ListObjects {"pageSize":1000,"service":"logs-b"}
GET /clusters/b` + pod + `
`
	hubtest.Run(t, map[string]hubtest.Case{
		"one of two": {
			Line: "logs globalservice/logs",
			Hub: hub(away("a"), hubtest.Page("/clusters/b"+pod, http.StatusOK, `{"spec": {"containers": [{"name": "c"}]}}`),
				hubtest.Page("/clusters/b"+pod+"/log", http.StatusOK, log)),
			Asked:  asked + "GET /clusters/b" + pod + "/log\n",
			Stdout: "b agent c | one\n",
			Stderr: "service/logs-a: cluster a: cluster \"a\" is not connected\n",
			Err:    "the logs of 1 of 2 services can't be read, as said above",
		},
		"none": {
			Line: "logs globalservice/logs", Hub: hub(away("a"), away("b")), Asked: asked,
			Stderr: "service/logs-a: cluster a: cluster \"a\" is not connected\n" +
				"service/logs-b: cluster b: cluster \"b\" is not connected\n",
			Err: "none of 2 services can be asked, as said above",
		},
		"none, followed": {
			Line: "logs globalservice/logs -f", Hub: hub(away("a"), away("b")), Asked: asked,
			Stderr: "service/logs-a: cluster a: cluster \"a\" is not connected\n" +
				"service/logs-b: cluster b: cluster \"b\" is not connected\n",
			Err: "none of 2 services can be asked, as said above",
		},
	})
}
