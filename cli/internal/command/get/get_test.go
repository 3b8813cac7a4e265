package get_test

import (
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
)

// Whoever may see nothing is not told that there is nothing.
func TestAnEmptyListIsOfWhatAPersonMaySee(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"services": {
			Line: "get services",
			Hub: []hubtest.Answer{hubtest.Returns[consolev1.ListServicesRequest](
				consolev1connect.ServiceServiceListServicesProcedure, &consolev1.ListServicesResponse{})},
			Asked:  `ListServices {"pageSize":500}` + "\n",
			Stderr: "no services that you may see; make one with `fairlead apply -f FILE`\n",
		},
		"clusters": {
			Line: "get clusters",
			Hub: []hubtest.Answer{hubtest.Returns[consolev1.ListClustersRequest](
				consolev1connect.ClusterServiceListClustersProcedure, &consolev1.ListClustersResponse{})},
			Asked:  `ListClusters {"pageSize":500}` + "\n",
			Stderr: "no clusters that you may see; `fairlead cluster join NAME` brings one in\n",
		},
	})
}

// A script that asks for several resources reads a list, also where only one of them is there.
func TestSeveralNamesAreAListInJSON(t *testing.T) {
	t.Parallel()
	sinks := []hubtest.Answer{hubtest.On(consolev1connect.SinkServiceGetSinkProcedure,
		func(req *consolev1.GetSinkRequest) (*consolev1.GetSinkResponse, error) {
			if req.GetName() == "gone" {
				return nil, connect.NewError(connect.CodeNotFound, errors.New(`sink "gone" does not exist`))
			}
			return &consolev1.GetSinkResponse{Sink: &consolev1.Sink{Metadata: clitest.Meta(req.GetName())}}, nil
		})}
	const none = "no sink \"gone\": see `fairlead get sinks`"
	hubtest.Run(t, map[string]hubtest.Case{
		"one": {
			Line: "get sink a -o jsonpath={.metadata.name}", Hub: sinks, Asked: "GetSink {\"name\":\"a\"}\n", Stdout: "a",
		},
		"two": {
			Line: "get sinks a b -o jsonpath={.items[*].metadata.name}", Hub: sinks, Stdout: "a b",
			Asked: "GetSink {\"name\":\"a\"}\nGetSink {\"name\":\"b\"}\n",
		},
		"two of which one is there": {
			Line: "get sinks a gone -o jsonpath={.items[*].metadata.name}", Hub: sinks, Stdout: "a", Err: none,
			Asked: "GetSink {\"name\":\"a\"}\nGetSink {\"name\":\"gone\"}\n",
		},
	})
}

func TestQuestionsThatTheHubCannotAnswerAreRefusedInWords(t *testing.T) {
	t.Parallel()
	hubtest.Run(t, map[string]hubtest.Case{
		"values of secrets": {
			Line: "get secrets -o yaml",
			Err: "secrets can't be shown as yaml, for their values are never read back: `fairlead export secrets` " +
				"prints them with empty values, and applying that leaves the values as they are",
		},
		"a search for nothing": {
			Line: "search ''",
			Err: "the word to search for is empty: give a name, a label, a place or a commit, " +
				"or list all by `fairlead get KIND`",
		},
	})
}

// After a restart of the hub a watch goes on: with what changed since, or with what differs from what was shown.
func TestAWatchGoesOnAfterARestartOfTheHub(t *testing.T) {
	t.Parallel()
	type message = consolev1.WatchResourcesResponse
	begin := &message{Event: &consolev1.WatchResourcesResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}}}
	end := func(token string) *message {
		over := &consolev1.WatchResourcesResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}
		return &message{ResumeToken: token, Event: over}
	}
	changes := func(token string, deleted []*consolev1.Deleted, namesAndFilters ...string) *message {
		list := &consolev1.LiveChanges{Deleted: deleted}
		for i := 0; i < len(namesAndFilters); i += 2 {
			sink := &consolev1.Sink{
				Metadata: clitest.Meta(namesAndFilters[i]), Spec: &consolev1.SinkSpec{Filter: namesAndFilters[i+1]},
			}
			list.Resources = append(list.Resources, &consolev1.Resource{Resource: &consolev1.Resource_Sink{Sink: sink}})
		}
		return &message{ResumeToken: token, Event: &consolev1.WatchResourcesResponse_Changes{Changes: list}}
	}
	stops := connect.NewError(connect.CodeUnavailable, errors.New("the console stops: dial again"))
	over := connect.NewError(connect.CodeInvalidArgument, errors.New("it is over"))
	hub := func(again ...*message) []hubtest.Answer {
		return []hubtest.Answer{hubtest.OnStreams(consolev1connect.LiveServiceWatchResourcesProcedure,
			func(req *consolev1.WatchResourcesRequest) ([]*message, error) {
				if req.GetResumeToken() == "" {
					all := changes("", nil, "a", "one", "b", "one", "c", "one")
					return []*message{begin, all, end("1"), changes("2", nil, "b", "two")}, stops
				}
				return again, over
			})}
	}
	const asked = `WatchResources {"kinds":["KIND_SINK"]}
WatchResources {"kinds":["KIND_SINK"],"resumeToken":"2"}
`
	const note = "the hub is asked again: the console stops: dial again\n"
	const first = "sink/a\nsink/b\nsink/c\nsink/b\n"
	hubtest.Run(t, map[string]hubtest.Case{
		"with what changed": {
			Line: "get sinks --watch -o name", Asked: asked, Stderr: note, Err: "it is over",
			Hub:    hub(changes("3", []*consolev1.Deleted{{Name: "a"}}, "c", "two")),
			Stdout: first + "sink/c\na gone\n",
		},
		"with all of it": {
			Line: "get sinks --watch -o name", Asked: asked, Stderr: note, Err: "it is over",
			Hub:    hub(begin, changes("", nil, "b", "two", "c", "two", "d", "one"), end("3")),
			Stdout: first + "sink/c\nsink/d\na gone\n",
		},
		"a hub that was never there": {
			Line: "get sinks --watch -o name", Asked: "WatchResources {\"kinds\":[\"KIND_SINK\"]}\n",
			Err: "the console stops: dial again",
			Hub: []hubtest.Answer{hubtest.OnStream[consolev1.WatchResourcesRequest, message](
				consolev1connect.LiveServiceWatchResourcesProcedure, stops)},
		},
	})
}

// A restart of the hub takes its tunnel away, too: the cluster is asked again until its agent is back.
func TestALiveTreeThatIsWatchedOutlastsARestartOfTheHub(t *testing.T) {
	t.Parallel()
	const pods = "/clusters/a/api/v1/namespaces/shop/pods"
	const look = `GetService {"name":"shop-a"}` + "\n" + `ListObjects {"pageSize":1000,"service":"shop-a"}` + "\n"
	const tree = "service shop-a on cluster a: Healthy\n└── Job shop/load  Healthy\n"
	const away = `{"kind":"Status","message":"cluster \"a\" is not connected"}`
	over := connect.NewError(connect.CodeInvalidArgument, errors.New("it is over"))
	hub := func(status int, body string) []hubtest.Answer {
		looks, lists := 0, 0
		return []hubtest.Answer{
			hubtest.On(consolev1connect.ServiceServiceGetServiceProcedure,
				func(*consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
					if looks++; looks == 4 {
						return nil, over
					}
					return &consolev1.GetServiceResponse{Service: clitest.WellService()}, nil
				}),
			hubtest.Returns[consolev1.ListObjectsRequest](consolev1connect.ObjectServiceListObjectsProcedure,
				&consolev1.ListObjectsResponse{Objects: []*consolev1.ClusterObject{{
					Object: &deliveryv1.ManagedObject{Group: "batch", Kind: "Job", Namespace: "shop", Name: "load"},
					Report: &deliveryv1.ObjectReport{Health: "Healthy"},
				}}}),
			hubtest.OnPage(pods, func(*http.Request) (int, string) {
				if lists++; lists == 1 {
					return http.StatusOK, `{}`
				}
				return status, body
			}),
		}
	}
	const reading = "read pods in namespace shop of cluster a: "
	const asked = look + "GET " + pods + "\n"
	watching := hubtest.Case{
		Line: "tree service shop-a --live --watch", Stdout: tree, Err: "it is over",
		Asked: asked + asked + asked + `GetService {"name":"shop-a"}` + "\n",
	}
	gone, broken, refused := watching, watching, watching
	gone.Hub = hub(http.StatusServiceUnavailable, away)
	gone.Stderr = "the hub is asked again: " + reading + "503 Service Unavailable: cluster \"a\" is not connected\n"
	broken.Hub = hub(0, `{"rows":[`)
	broken.Stderr = "the hub is asked again: " + reading + "HUB can't be reached: stream error: stream ID 3; " +
		"INTERNAL_ERROR; received from peer. Is the hub running there (`fairlead up`)?\n"
	refused.Hub, refused.Asked = hub(http.StatusForbidden, `{"message":"no pods for you"}`), asked+asked
	refused.Err = reading + "403 Forbidden: no pods for you"
	hubtest.Run(t, map[string]hubtest.Case{
		"its agent is not back": gone, "the connection breaks": broken, "another error": refused,
		"from the beginning": {
			Line: "tree service shop-a --live --watch", Hub: hub(0, ""), Tunnels: []string{hubtest.Away}, Asked: look,
			Err: reading + "AWAY can't be reached: connection refused. Is the hub running there (`fairlead up`)?",
		},
	})
}

// The commit of a service with several sources is of no source, so that no gitcache can count from it.
func TestCommitsBehindAreCountedOfOneSource(t *testing.T) {
	t.Parallel()
	list := func(sources ...*consolev1.ServiceSource) []hubtest.Answer {
		service := clitest.WellService()
		service.Status.Git.Revision = &artifactv1.Revision{Commit: "99999999aa"}
		if len(sources) > 0 {
			service.Spec = &consolev1.ServiceSpec{Sources: sources, Cluster: "a"}
		}
		return []hubtest.Answer{
			hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
				&consolev1.ListServicesResponse{Services: []*consolev1.Service{service}}),
			hubtest.Returns[gitcachev1.ListCommitsRequest](gitcachev1connect.SourceServiceListCommitsProcedure,
				&gitcachev1.ListCommitsResponse{Commits: []*artifactv1.Revision{{Commit: "99999999aa"}}}),
		}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"one": {
			Line: "get services", Hub: list(),
			Asked: `ListServices {"pageSize":500}
ListCommits {"source":"shop","revision":"99999999aa","pageSize":100,"path":"deploy","until":"fedcba9876"}
`,
			Stdout: "NAME    CLUSTER  STATE    SYNC          GIT            HUB            APPLIED\n" +
				"shop-a  a        Healthy  another line  99999999 (4m)  fedcba98 (3m)  fedcba98 (3m)\n",
		},
		"two": {
			Line: "get services", Hub: list(&consolev1.ServiceSource{Name: "web", Source: "shop"},
				&consolev1.ServiceSource{Name: "values", Source: "shop"}),
			Asked: `ListServices {"pageSize":500}` + "\n",
			Stdout: "NAME    CLUSTER  STATE    SYNC    GIT            HUB            APPLIED\n" +
				"shop-a  a        Healthy  behind  99999999 (4m)  fedcba98 (3m)  fedcba98 (3m)\n",
		},
	})
}
