package pods_test

import (
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// kubectl ends with the hub. What fairlead can follow itself goes on at the last whole line.
func TestLogsOfAPodGoOnAfterARestartOfTheHub(t *testing.T) {
	t.Parallel()
	const pod = "/clusters/edge-1/api/v1/namespaces/shop/pods/web-0"
	const one, two = "2026-01-31T12:00:00Z one\n", "2026-01-31T12:00:01Z two\n"
	const away = `{"kind":"Status","message":"cluster \"edge-1\" is not connected"}`
	const again = "GET " + pod + "/log\n"
	const asked = `GetCluster {"name":"edge-1"}` + "\nGET " + pod + "\n" + again
	const stopped = "the hub is asked again: HUB can't be reached: stream error: stream ID 3; INTERNAL_ERROR; " +
		"received from peer. Is the hub running there (`fairlead up`)?\n"
	type answer struct {
		query, body string
		status      int
	}
	hub := func(spec string, answers ...answer) []hubtest.Answer {
		return []hubtest.Answer{
			hubtest.Returns[consolev1.GetClusterRequest](consolev1connect.ClusterServiceGetClusterProcedure,
				&consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{Metadata: clitest.Meta("edge-1")}}),
			hubtest.Page(pod, http.StatusOK, spec),
			hubtest.OnPage(pod+"/log", func(r *http.Request) (int, string) {
				if len(answers) == 0 {
					t.Errorf("the log is asked for once more: %s", r.URL.RawQuery)
					return http.StatusTeapot, ""
				}
				now := answers[0]
				if answers = answers[1:]; r.URL.RawQuery != now.query {
					t.Errorf("asked with %s, want %s", r.URL.RawQuery, now.query)
				}
				return now.status, now.body
			}),
		}
	}
	const web = `{"spec":{"containers":[{"name":"web"}]}}`
	const pair = `{"spec":{"containers":[{"name":"proxy"},{"name":"web"}]}}`
	const chosen = `{"metadata":{"annotations":{"kubectl.kubernetes.io/default-container":"web"}},` +
		`"spec":{"containers":[{"name":"proxy"},{"name":"web"}]}}`
	const first = "container=web&follow=true&timestamps=true"
	const later = "container=web&follow=true&sinceTime=2026-01-31T12%3A00%3A00Z&timestamps=true"
	cases := map[string]hubtest.Case{
		"until its agent is back": {
			Line:  "logs --server HUB edge-1 -n shop web-0 -f",
			Asked: asked + again + again, Stdout: "one\ntwo\n", Stderr: stopped,
			Hub: hub(web, answer{first, one + two[:len(two)-2], 0}, answer{later, away, http.StatusServiceUnavailable},
				answer{later, one + two, http.StatusOK}),
		},
		"with the flags of kubectl": {
			Line:  "logs --server HUB --timestamps edge-1 --follow pod/web-0 --namespace=shop --tail 5 --since=10m",
			Asked: asked + again, Stdout: one + two, Stderr: stopped,
			Hub: hub(web, answer{"container=web&follow=true&sinceSeconds=600&tailLines=5&timestamps=true", one, 0},
				answer{later, two, http.StatusOK}),
		},
		"and ends where the pod is gone": {
			Line: "logs --server HUB edge-1 -n shop web-0 -f", Asked: asked + again, Stdout: "one\n", Stderr: stopped,
			Err: `cluster edge-1: it is not there: pods "web-0" not found`,
			Hub: hub(web, answer{first, one, 0},
				answer{later, `{"message":"pods \"web-0\" not found"}`, http.StatusNotFound}),
		},
		"of a container that is named": {
			Line: "logs --server HUB edge-1 -n shop web-0 -f -c web", Asked: asked, Stdout: "one\n",
			Hub: hub(pair, answer{first, one, http.StatusOK}),
		},
		"of the first of several": {
			Line: "logs --server HUB edge-1 -n shop web-0 -f", Asked: asked, Stdout: "one\n",
			Stderr: "Defaulted container \"proxy\" out of: proxy, web\n",
			Hub:    hub(pair, answer{"container=proxy&follow=true&timestamps=true", one, http.StatusOK}),
		},
		"of the one that the pod names": {
			Line: "logs --server HUB edge-1 -n shop web-0 -f", Asked: asked, Stdout: "one\n",
			Hub: hub(chosen, answer{first, one, http.StatusOK}),
		},
		"of the first where the one that the pod names is not there": {
			Line: "logs --server HUB edge-1 -n shop web-0 -f", Asked: asked, Stdout: "one\n",
			Hub: hub(strings.Replace(chosen, `container":"web"`, `container":"wbe"`, 1),
				answer{"container=proxy&follow=true&timestamps=true", one, http.StatusOK}),
			Stderr: "Defaulted container \"proxy\" out of: proxy, web\n",
		},
		"of a container that does not run yet": {
			Line: "logs --server HUB edge-1 -n shop web-0 -f", Asked: asked,
			Err: `cluster edge-1: container "web" in pod "web-0" is waiting to start: ContainerCreating`,
			Hub: hub(web, answer{first, `{"message":"container \"web\" in pod \"web-0\" is waiting to start: ` +
				`ContainerCreating"}`, http.StatusBadRequest}),
		},
	}
	hubtest.Run(t, cases)
}
