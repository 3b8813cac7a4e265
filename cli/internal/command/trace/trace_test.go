package trace_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
)

// parts are the answers of a hub, each by the name of what it is about.
type parts map[string]hubtest.Answer

// list returns the answers, with some in place of others.
func (p parts) list(others parts) []hubtest.Answer {
	var out []hubtest.Answer
	for name, answer := range p {
		if _, ok := others[name]; !ok {
			out = append(out, answer)
		}
	}
	for _, answer := range others {
		out = append(out, answer)
	}
	return out
}

// wellHub has a service with which nothing is wrong.
func wellHub() parts {
	return parts{
		"service": hubtest.On(consolev1connect.ServiceServiceGetServiceProcedure,
			func(req *consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
				s := clitest.WellService()
				if req.GetName() != s.GetMetadata().GetName() {
					return nil, connect.NewError(connect.CodeNotFound, errNotThere(req.GetName()))
				}
				return &consolev1.GetServiceResponse{Service: s}, nil
			}),
		"source": hubtest.Returns[consolev1.GetSourceRequest](consolev1connect.SourceServiceGetSourceProcedure,
			&consolev1.GetSourceResponse{Source: &consolev1.Source{
				Metadata: clitest.Meta("shop"),
				Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/shop.git"}},
				Status: &consolev1.SourceStatus{
					Heads: []*consolev1.Head{{Ref: "refs/heads/main", Revision: clitest.WellRevision()}},
				},
			}}),
		"cluster": hubtest.Returns[consolev1.GetClusterRequest](consolev1connect.ClusterServiceGetClusterProcedure,
			&consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{
				Metadata: clitest.Meta("a"), Status: &consolev1.ClusterStatus{
					JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(20 * time.Second),
					NextPollTime: clitest.Before(-100 * time.Second), AgentVersion: "v1", KubernetesVersion: "v1.36.3",
					Connected: true,
				},
			}}),
		"live": hubtest.Returns[gitcachev1.GetSourceRequest](gitcachev1connect.SourceServiceGetSourceProcedure,
			&gitcachev1.GetSourceResponse{Source: &gitcachev1.LiveSource{
				Name: "shop", Owner: "gitcache-0", LastPollTime: clitest.Before(40 * time.Second),
				NextPollTime: clitest.Before(-80 * time.Second), Url: "https://git.example.com/shop.git",
			}}),
	}
}

// errNotThere is what a console says of a service that it has not.
type errNotThere string

func (e errNotThere) Error() string { return `service "` + string(e) + `" does not exist` }

func TestAServiceIsFollowedFromGitToItsCluster(t *testing.T) {
	t.Parallel()
	noCluster := parts{"cluster": hubtest.Refuses[consolev1.GetClusterRequest, consolev1.GetClusterResponse](
		consolev1connect.ClusterServiceGetClusterProcedure, connect.CodePermissionDenied,
		`user:kim may not view cluster "a"`)}
	hubtest.Run(t, map[string]hubtest.Case{
		"all parts answer": {
			Line: "trace service shop-a", Hub: wellHub().list(nil), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
`,
			Stdout: `shop-a: Healthy for 3m

SOURCE    ok     shop https://git.example.com/shop.git
                 fetched by gitcache-0, polled 40s ago, next in 80s
COMMIT    ok     main is fedcba98, 5m old: "Add the shop" by Kim
                 fetched 4m ago
HUB       ok     01234567 of fedcba98, 3m ago
                 artifact abcdef01, 2.0 KiB in 3 files
DELIVERY  ok     cluster a, connected, seen 20s ago, asks in 100s or when it is nudged
                 agent v1, Kubernetes v1.36.3
CLUSTER   ok     for 3m: healthy, 3 of 3 objects are healthy
                 applied: 01234567 of fedcba98 (3m)

fedcba98 runs in cluster a and is healthy: nothing to do.
`,
		},
		"by its reference": {
			Line: "trace service/shop-a -o jsonpath={.verdict}", Hub: wellHub().list(nil), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
`,
			Stdout: "fedcba98 runs in cluster a and is healthy: nothing to do.",
		},
		"as JSON": {
			Line: "trace service shop-a -o json", Hub: wellHub().list(nil), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
`,
			Stdout: `{
  "cluster": {
    "metadata": {
      "name": "a"
    },
    "status": {
      "agentVersion": "v1",
      "connected": true,
      "joinTime": "2026-03-01T11:00:00Z",
      "kubernetesVersion": "v1.36.3",
      "lastSeenTime": "2026-03-01T11:59:40Z",
      "nextPollTime": "2026-03-01T12:01:40Z"
    }
  },
  "live": {
    "lastPollTime": "2026-03-01T11:59:20Z",
    "name": "shop",
    "nextPollTime": "2026-03-01T12:01:20Z",
    "owner": "gitcache-0",
    "url": "https://git.example.com/shop.git"
  },
  "service": {
    "metadata": {
      "name": "shop-a"
    },
    "spec": {
      "cluster": "a",
      "path": "deploy",
      "ref": "main",
      "source": "shop"
    },
    "status": {
      "cluster": {
        "receiveTime": "2026-03-01T11:57:00Z",
        "report": {
          "appliedCommit": "fedcba9876",
          "appliedDigest": "sha256:0123456789",
          "appliedTime": "2026-03-01T11:56:40Z",
          "commit": "fedcba9876",
          "digest": "sha256:0123456789",
          "objectsHealthy": 3,
          "objectsTotal": 3,
          "observedTime": "2026-03-01T11:56:50Z",
          "phase": "healthy"
        }
      },
      "git": {
        "fetchTime": "2026-03-01T11:56:00Z",
        "revision": {
          "author": "Kim",
          "commit": "fedcba9876",
          "commitTime": "2026-03-01T11:55:00Z",
          "subject": "Add the shop"
        }
      },
      "hub": {
        "artifact": {
          "digest": "sha256:abcdef0123",
          "files": 3,
          "size": "2048"
        },
        "digest": "sha256:0123456789",
        "resolveTime": "2026-03-01T11:56:10Z",
        "revision": {
          "author": "Kim",
          "commit": "fedcba9876",
          "commitTime": "2026-03-01T11:55:00Z",
          "subject": "Add the shop"
        }
      },
      "state": "healthy",
      "stateSince": "2026-03-01T11:57:00Z"
    }
  },
  "source": {
    "metadata": {
      "name": "shop"
    },
    "spec": {
      "git": {
        "url": "https://git.example.com/shop.git"
      }
    },
    "status": {
      "heads": [
        {
          "ref": "refs/heads/main",
          "revision": {
            "author": "Kim",
            "commit": "fedcba9876",
            "commitTime": "2026-03-01T11:55:00Z",
            "subject": "Add the shop"
          }
        }
      ]
    }
  },
  "steps": {
    "cluster": "ok",
    "commit": "ok",
    "delivery": "ok",
    "hub": "ok",
    "source": "ok"
  },
  "verdict": "fedcba98 runs in cluster a and is healthy: nothing to do."
}
`,
		},
		"its steps": {
			Line: "trace service shop-a -o jsonpath={.steps}", Hub: wellHub().list(nil), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
`,
			Stdout: `{"cluster":"ok","commit":"ok","delivery":"ok","hub":"ok","source":"ok"}`,
		},
		"no gitcache answers": {
			Line: "trace service shop-a", Hub: wellHub().list(nil), Gitcaches: []string{hubtest.Away}, Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
`,
			Stdout: "shop-a: Healthy for 3m\n" +
				"\n" +
				"SOURCE    ?      shop https://git.example.com/shop.git\n" +
				"                 no gitcache says how it is (AWAY can't be reached: connection refused. Is " +
				"the hub running there (`fairlead up`)?)\n" +
				"                 below is what the console heard last, 4m ago\n" +
				"COMMIT    ok     main is fedcba98, 5m old: \"Add the shop\" by Kim\n" +
				"                 fetched 4m ago\n" +
				"HUB       ok     01234567 of fedcba98, 3m ago\n" +
				"                 artifact abcdef01, 2.0 KiB in 3 files\n" +
				"DELIVERY  ok     cluster a, connected, seen 20s ago, asks in 100s or when it is nudged\n" +
				"                 agent v1, Kubernetes v1.36.3\n" +
				"CLUSTER   ok     for 3m: healthy, 3 of 3 objects are healthy\n" +
				"                 applied: 01234567 of fedcba98 (3m)\n" +
				"\n" +
				"fedcba98 runs in cluster a and is healthy; but nobody answers for SOURCE. Next: run " +
				"`fairlead check`.\n",
		},
		"the cluster is hidden": {
			Line: "trace service shop-a", Hub: wellHub().list(noCluster), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
`,
			Stdout: "shop-a: Healthy for 3m\n" +
				"\n" +
				"SOURCE    ok     shop https://git.example.com/shop.git\n" +
				"                 fetched by gitcache-0, polled 40s ago, next in 80s\n" +
				"COMMIT    ok     main is fedcba98, 5m old: \"Add the shop\" by Kim\n" +
				"                 fetched 4m ago\n" +
				"HUB       ok     01234567 of fedcba98, 3m ago\n" +
				"                 artifact abcdef01, 2.0 KiB in 3 files\n" +
				"DELIVERY  ?      nothing is known of cluster a (user:kim may not view cluster \"a\")\n" +
				"CLUSTER   ok     for 3m: healthy, 3 of 3 objects are healthy\n" +
				"                 applied: 01234567 of fedcba98 (3m)\n" +
				"\n" +
				"fedcba98 runs in cluster a and is healthy; but DELIVERY is not shown, since you lack a grant to view " +
				"cluster a. Next: an administrator can add a grant: see `fairlead get grants`.\n",
		},
		"a distributor is away": {
			Line: "trace service shop-a -o jsonpath={.noAnswer}", Hub: wellHub().list(nil),
			Distributors: []string{hubtest.Away}, Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
`,
			Stdout: `["distributor AWAY: can't be reached: connection refused. Is the hub running there ` +
				"(`fairlead up`)?\"]",
		},
		"it is not there": {
			Line: "trace service shp", Hub: wellHub().list(nil),
			Asked: `GetService {"name":"shp"}
`,
			Err: "no service \"shp\": see `fairlead get services`",
		},
		"without a name": {
			Line: "trace service",
			Err:  "use it as `fairlead trace service|globalservice NAME`: see `fairlead trace --help`",
		},
		"without a kind": {
			Line: "trace shop-a",
			Err:  "use it as `fairlead trace service shop-a`: see `fairlead trace --help`",
		},
		"of a commit": {
			Line: "trace 3f1c0d2e",
			Err:  "use it as `fairlead trace service NAME`: `fairlead search 3f1c0d2e` finds the services of a commit",
		},
		"without anything": {
			Line: "trace",
			Err:  "use it as `fairlead trace service|globalservice NAME`: see `fairlead trace --help`",
		},
		"of another kind": {
			Line: "trace source shop",
			Err:  "only services and global services can be traced, not \"source\": see `fairlead trace --help`",
		},
		"of a kind that is unknown": {
			Line: "trace shop a",
			Err:  "only services and global services can be traced, not \"shop\": see `fairlead trace --help`",
		},
		"in an unknown form": {
			Line: "trace service shop-a -o wide",
			Err:  `unknown form of output "wide": known are table, json, yaml, jsonpath, custom-columns`,
		},
		"watched as JSON": {
			Line: "trace service shop-a --watch -o json",
			Err:  "--watch can't be shown as json: leave out -o",
		},
		"the console is away": {
			Line: "trace service shop-a --server AWAY",
			Err:  "AWAY can't be reached: connection refused. Is the hub running there (`fairlead up`)?",
		},
	})
}

func TestAGlobalServiceIsFollowedWhereItIsNotWell(t *testing.T) {
	t.Parallel()
	global := func(clusters, healthy int32) hubtest.Answer {
		return hubtest.Returns[consolev1.GetGlobalServiceRequest](
			consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure, &consolev1.GetGlobalServiceResponse{
				GlobalService: &consolev1.GlobalService{
					Metadata: clitest.Meta("shop"), Spec: &consolev1.GlobalServiceSpec{},
					Status: &consolev1.GlobalServiceStatus{Clusters: clusters, Healthy: healthy},
				},
			})
	}
	list := func(services ...*consolev1.Service) hubtest.Answer {
		return hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
			&consolev1.ListServicesResponse{Services: services})
	}
	broken := proto.CloneOf(clitest.WellService())
	broken.Status.State = consolev1.ServiceState_SERVICE_STATE_DEGRADED
	elsewhere := proto.CloneOf(broken)
	elsewhere.Metadata.Name, elsewhere.Spec.Cluster = "shop-b", "b"
	hub := func(answers ...hubtest.Answer) []hubtest.Answer { return append(wellHub().list(nil), answers...) }
	hubtest.Run(t, map[string]hubtest.Case{
		"all are well": {
			Line: "trace globalservice shop", Hub: hub(global(1, 1), list(clitest.WellService())), Any: true,
			Asked: `GetGlobalService {"name":"shop"}
ListServices {"pageSize":500,"filter":"labels.fairlead.dev/global = \"shop\""}
`,
			Stdout: "shop: 1 service, 1 of them healthy\n",
		},
		"one is not, and one can't be read": {
			Line: "trace globalservice/shop", Hub: hub(global(3, 1), list(broken, clitest.WellService(), elsewhere)),
			Any: true,
			Asked: `GetCluster {"name":"a"}
GetGlobalService {"name":"shop"}
GetService {"name":"shop-a"}
GetService {"name":"shop-b"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
ListServices {"pageSize":500,"filter":"labels.fairlead.dev/global = \"shop\""}
`,
			Stdout: "shop: 3 services, 1 of them healthy\n" +
				"\n" +
				"shop-a in cluster a: Degraded\n" +
				"  fedcba98 runs in cluster a and is healthy: nothing to do.\n" +
				"\n" +
				"shop-b in cluster b: Degraded\n" +
				"  no service \"shop-b\": see `fairlead get services`\n",
		},
		"it has no services": {
			Line: "trace globalservice shop", Hub: hub(global(0, 0), list()),
			Asked: `GetGlobalService {"name":"shop"}
ListServices {"pageSize":500,"filter":"labels.fairlead.dev/global = \"shop\""}
`,
			Stdout: "shop: 0 services, 0 of them healthy\n",
		},
		"watched": {
			Line: "trace globalservice shop --watch",
			Err:  "--watch follows one service: name that service",
		},
		"as JSON": {
			Line: "trace globalservice shop -o json",
			Err:  "of a global service the trace is for people: leave out -o, or trace its services one by one",
		},
		"it is not there": {
			Line: "trace globalservice shp",
			Hub: hub(hubtest.Refuses[consolev1.GetGlobalServiceRequest, consolev1.GetGlobalServiceResponse](
				consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure, connect.CodeNotFound,
				`globalservice "shp" does not exist`)),
			Asked: `GetGlobalService {"name":"shp"}
`,
			Err: "no globalservice \"shp\": see `fairlead get globalservices`",
		},
	})
}

func TestAnObjectIsFollowedBackToItsCommit(t *testing.T) {
	t.Parallel()
	// objects answers with an object for each place, of service shop-a.
	objects := func(kind string, places ...string) hubtest.Answer {
		return hubtest.On(consolev1connect.ObjectServiceListObjectsProcedure,
			func(req *consolev1.ListObjectsRequest) (*consolev1.ListObjectsResponse, error) {
				res := &consolev1.ListObjectsResponse{}
				for _, place := range places {
					cluster, rest, _ := strings.Cut(place, "/")
					namespace, name, _ := strings.Cut(rest, "/")
					if name == req.GetObject() && (req.GetCluster() == "" || req.GetCluster() == cluster) {
						res.Objects = append(res.Objects, &consolev1.ClusterObject{
							Cluster: cluster, Service: "shop-a",
							Object: &deliveryv1.ManagedObject{Kind: kind, Namespace: namespace, Name: name},
						})
					}
				}
				return res, nil
			})
	}
	const replicaSets = "/clusters/a/apis/apps/v1/namespaces/shop/replicasets/"
	const pods = "/clusters/a/api/v1/namespaces/shop/pods/"
	ownedBy := func(path, kind, name string) hubtest.Answer {
		return hubtest.Page(path, http.StatusOK,
			`{"metadata":{"ownerReferences":[{"kind":"Node","name":"n1"},
				{"kind":"`+kind+`","name":"`+name+`","controller":true}]}}`)
	}
	hub := func(answers ...hubtest.Answer) []hubtest.Answer { return append(wellHub().list(nil), answers...) }
	web := objects("Deployment", "a/shop/web")
	hubtest.Run(t, map[string]hubtest.Case{
		"an object of a service": {
			Line: "trace deployment/web", Hub: hub(web), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
ListObjects {"pageSize":1000,"object":"web"}
`,
			Stdout: `Deployment shop/web in cluster a is of service shop-a, folder "deploy" of source shop, commit fedcba98 by Kim

shop-a: Healthy for 3m

SOURCE    ok     shop https://git.example.com/shop.git
                 fetched by gitcache-0, polled 40s ago, next in 80s
COMMIT    ok     main is fedcba98, 5m old: "Add the shop" by Kim
                 fetched 4m ago
HUB       ok     01234567 of fedcba98, 3m ago
                 artifact abcdef01, 2.0 KiB in 3 files
DELIVERY  ok     cluster a, connected, seen 20s ago, asks in 100s or when it is nudged
                 agent v1, Kubernetes v1.36.3
CLUSTER   ok     for 3m: healthy, 3 of 3 objects are healthy
                 applied: 01234567 of fedcba98 (3m)

fedcba98 runs in cluster a and is healthy: nothing to do.
`,
		},
		"by kind and name": {
			Line: "trace deployments web -n shop -c a -o jsonpath={.verdict}", Hub: hub(web), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web"}
`,
			Stdout: "fedcba98 runs in cluster a and is healthy: nothing to do.",
		},
		"a pod, by way of its controllers": {
			Line: "trace pod/web-5f-x -n shop -c a -o jsonpath={.steps.cluster}",
			Hub: hub(web, ownedBy(pods+"web-5f-x", "ReplicaSet", "web-5f"),
				ownedBy(replicaSets+"web-5f", "Deployment", "web")),
			Any: true,
			Asked: `GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
GET /clusters/a/apis/apps/v1/namespaces/shop/replicasets/web-5f
GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web"}
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f"}
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
`,
			Stdout: "ok",
		},
		"in several places": {
			Line: "trace deployment/web", Hub: hub(objects("Deployment", "a/shop/web", "b/test/web")),
			Asked: `ListObjects {"pageSize":1000,"object":"web"}
`,
			Err: "deployment/web is in several places: name one of -n shop --cluster a, -n test --cluster b",
		},
		"in one of several places": {
			Line: "trace deployment/web -c a -o jsonpath={.verdict}",
			Hub:  hub(objects("Deployment", "a/shop/web", "b/test/web")), Any: true,
			Asked: `GetCluster {"name":"a"}
GetService {"name":"shop-a"}
GetSource {"name":"shop"}
GetSource {"name":"shop"}
ListObjects {"pageSize":1000,"cluster":"a","object":"web"}
`,
			Stdout: "fedcba98 runs in cluster a and is healthy: nothing to do.",
		},
		"of another kind with the same name": {
			Line: "trace statefulset/web", Hub: hub(web),
			Asked: `ListObjects {"pageSize":1000,"object":"web"}
`,
			Err: "no service has statefulset/web: `fairlead get objects` lists those of services, and what " +
				"nobody made through Fairlead is not among them",
		},
		"a pod without a cluster": {
			Line: "trace pod/web-5f-x", Hub: hub(web),
			Asked: `ListObjects {"pageSize":1000,"object":"web-5f-x"}
`,
			Err: "no service has pod/web-5f-x itself: name its cluster by --cluster, so that its owner can be " +
				"found there",
		},
		"a pod that is not there": {
			Line: "trace pod/web-5f-x -n shop -c a",
			Hub: hub(web, hubtest.Page(pods+"web-5f-x", http.StatusNotFound,
				`{"kind":"Status","message":"pods \"web-5f-x\" not found"}`)),
			Asked: `ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
`,
			Err: `cluster a: it is not there: pods "web-5f-x" not found`,
		},
		"a pod that nobody made": {
			Line: "trace pod/web-5f-x -n shop -c a",
			Hub:  hub(web, hubtest.Page(pods+"web-5f-x", http.StatusOK, `{"metadata":{}}`)),
			Asked: `ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
`,
			Err: "pod/web-5f-x in namespace shop in cluster a has no owner, and no service has it: it was not " +
				"made through Fairlead",
		},
		"a pod that owns itself": {
			Line: "trace pod/web-5f-x -n shop -c a", Hub: hub(web, ownedBy(pods+"web-5f-x", "Pod", "web-5f-x")),
			Asked: `ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
ListObjects {"pageSize":1000,"cluster":"a","namespace":"shop","object":"web-5f-x"}
GET /clusters/a/api/v1/namespaces/shop/pods/web-5f-x
`,
			Err: "pod/web-5f-x is not an object of a service",
		},
		"watched": {
			Line: "trace deployment/web --watch",
			Err:  "--watch follows one service: name that service",
		},
		"in an unknown form": {
			Line: "trace deployment/web -o wide",
			Err:  `unknown form of output "wide": known are table, json, yaml, jsonpath, custom-columns`,
		},
	})
}
