package lever_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const (
	listDeployments = consolev1connect.RevisionServiceListDeploymentsProcedure
	listRevisions   = consolev1connect.RevisionServiceListRevisionsProcedure
	rollbackService = consolev1connect.RevisionServiceRollbackServiceProcedure
	getRemovals     = consolev1connect.AdminServiceGetRemovalsProcedure
	confirmRemovals = consolev1connect.AdminServiceConfirmRemovalsProcedure
	getGlobal       = consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure
	previewGlobal   = consolev1connect.GlobalServiceServicePreviewGlobalServiceProcedure
	confirmGlobal   = consolev1connect.GlobalServiceServiceConfirmGlobalServiceProcedure
)

// deployed is a service with two deployments, and a lever that was pulled between them.
func deployed() []hubtest.Answer {
	first := &consolev1.Deployment{
		Number: 1, Cause: consolev1.DeploymentCause_DEPLOYMENT_CAUSE_SPEC, Author: "user:kim",
		Commit: &artifactv1.Revision{Commit: "0123456789"}, Outcome: consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_HEALTHY,
		DeliverTime: clitest.Before(time.Hour), ApplyTime: clitest.Before(59 * time.Minute),
		HealthyTime: clitest.Before(58 * time.Minute), Digest: "sha256:11",
	}
	second := &consolev1.Deployment{
		Number: 2, Cause: consolev1.DeploymentCause_DEPLOYMENT_CAUSE_COMMIT, Author: "Kim <kim@example.com>",
		Commit:    &artifactv1.Revision{Commit: "fedcba9876", CommitTime: clitest.Before(300 * time.Second)},
		Outcome:   consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_DEGRADED,
		FetchTime: clitest.Before(290 * time.Second), DeliverTime: clitest.Before(288 * time.Second),
		ApplyTime: clitest.Before(285 * time.Second), Digest: "sha256:22", Message: "Deployment web: 1 of 3 pods is ready",
	}
	return hub(
		hubtest.Returns[consolev1.ListDeploymentsRequest](listDeployments,
			&consolev1.ListDeploymentsResponse{Deployments: []*consolev1.Deployment{second, first}}),
		hubtest.Returns[consolev1.ListRevisionsRequest](listRevisions, &consolev1.ListRevisionsResponse{
			Revisions: []*consolev1.Revision{
				{Revision: 3, Action: "resumed", Author: "user:ada", Time: clitest.Before(20 * time.Minute)},
				{Revision: 1, Action: "created", Author: "user:kim", Time: clitest.Before(2 * time.Hour), Diff: "+source: shop\n"},
			},
		}))
}

// moved is a service whose last deployment may be of another source and folder than the one before; those of the first
// one are not known.
func moved(source, path, toSource, toPath string) []hubtest.Answer {
	byKim := &consolev1.Deployment{
		Number: 1, Cause: consolev1.DeploymentCause_DEPLOYMENT_CAUSE_COMMIT, Author: "Kim",
		Commit:  &artifactv1.Revision{Commit: "0123456789"},
		Outcome: consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_HEALTHY, DeliverTime: clitest.Before(5 * time.Minute),
	}
	before := proto.CloneOf(byKim)
	before.Number, before.DeliverTime, before.Source, before.Path = 2, clitest.Before(4*time.Minute), source, path
	before.Outcome = consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_DEGRADED
	return hub(
		hubtest.Returns[consolev1.ListDeploymentsRequest](listDeployments, &consolev1.ListDeploymentsResponse{
			Deployments: []*consolev1.Deployment{{
				Number: 3, Cause: consolev1.DeploymentCause_DEPLOYMENT_CAUSE_SPEC,
				Commit:  &artifactv1.Revision{Commit: "fedcba9876"},
				Outcome: consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_RUNNING, DeliverTime: clitest.Before(2 * time.Minute),
				Source: toSource, Path: toPath,
			}, before, byKim},
		}),
		hubtest.Returns[consolev1.ListRevisionsRequest](listRevisions, &consolev1.ListRevisionsResponse{}))
}

func TestTheHistoryOfAServiceIsShown(t *testing.T) {
	t.Parallel()
	nothing := hub(hubtest.Returns[consolev1.ListDeploymentsRequest](listDeployments,
		&consolev1.ListDeploymentsResponse{}))
	hubtest.Run(t, map[string]hubtest.Case{
		"its deployments": {
			Line: "history service shop-a", Hub: deployed(),
			Asked: `ListDeployments {"service":"shop-a","pageSize":20}
ListRevisions {"kind":"KIND_SERVICE","name":"shop-a","pageSize":200}
GetService {"name":"shop-a"}
`,
			Stdout: `NUMBER  COMMIT    BY                 OUTCOME   WHEN     FETCHED  DELIVERED  APPLIED  HEALTHY  TESTS
2       fedcba98  commit, Kim        degraded  4m ago   +10s     +2s        +3s      -        -
-       -         resumed, user:ada  -         20m ago  -        -          -        -        -
1       01234567  spec, user:kim     healthy   60m ago  -        -          +1m0s    +1m0s    -
`,
		},
		"of several folders": {
			Line: "history service shop-a", Hub: moved("shop", "apps/shop", "shop", "deploy/shop"),
			Asked: `ListDeployments {"service":"shop-a","pageSize":20}
ListRevisions {"kind":"KIND_SERVICE","name":"shop-a","pageSize":200}
GetService {"name":"shop-a"}
`,
			Stdout: `NUMBER  COMMIT    PATH         BY           OUTCOME   WHEN    FETCHED  DELIVERED  APPLIED  HEALTHY  TESTS
3       fedcba98  deploy/shop  spec         running   2m ago  -        -          -        -        -
2       01234567  apps/shop    commit, Kim  degraded  4m ago  -        -          -        -        -
1       01234567  -            commit, Kim  healthy   5m ago  -        -          -        -        -
`,
		},
		"of several sources": {
			Line: "history service shop-a", Hub: moved("shop", "deploy", "store", "deploy"),
			Asked: `ListDeployments {"service":"shop-a","pageSize":20}
ListRevisions {"kind":"KIND_SERVICE","name":"shop-a","pageSize":200}
GetService {"name":"shop-a"}
`,
			Stdout: `NUMBER  COMMIT    SOURCE  BY           OUTCOME   WHEN    FETCHED  DELIVERED  APPLIED  HEALTHY  TESTS
3       fedcba98  store   spec         running   2m ago  -        -          -        -        -
2       01234567  shop    commit, Kim  degraded  4m ago  -        -          -        -        -
1       01234567  -       commit, Kim  healthy   5m ago  -        -          -        -        -
`,
		},
		"the numbers": {
			Line: "history service/shop-a --limit 2 -o jsonpath={.deployments[*].number}", Hub: deployed(),
			Asked: `ListDeployments {"service":"shop-a","pageSize":2}
`,
			Stdout: "2 1",
		},
		"its changes": {
			Line: "history service shop-a --changes", Hub: deployed(),
			Asked: `ListRevisions {"kind":"KIND_SERVICE","name":"shop-a","pageSize":20}
`,
			Stdout: `revision 3 resumed by user:ada at 2026-03-01T11:40:00Z

revision 1 created by user:kim at 2026-03-01T10:00:00Z
+source: shop

`,
		},
		"its changes as YAML": {
			Line: "history service shop-a --changes -o yaml", Hub: deployed(),
			Asked: `ListRevisions {"kind":"KIND_SERVICE","name":"shop-a","pageSize":20}
`,
			Stdout: `revisions:
  - action: resumed
    author: user:ada
    revision: "3"
    time: "2026-03-01T11:40:00Z"
  - action: created
    author: user:kim
    diff: |
      +source: shop
    revision: "1"
    time: "2026-03-01T10:00:00Z"
`,
		},
		"nothing was delivered": {
			Line: "history service shop-a", Hub: nothing,
			Asked: `ListDeployments {"service":"shop-a","pageSize":20}
`,
			Stderr: "nothing was delivered of service \"shop-a\" yet: `fairlead trace service shop-a` says why\n",
		},
		"of another kind": {
			Line: "history cluster a",
			Err:  "use it as `fairlead history service NAME`: see `fairlead history --help`",
		},
		"in an unknown form": {
			Line: "history service shop-a -o wide",
			Err:  `unknown form of output "wide": known are table, json, yaml, jsonpath, custom-columns`,
		},
		"without a name": {
			Line: "history service",
			Err:  "use it as `fairlead history service NAME`: see `fairlead history --help`",
		},
		"of a service not there": {
			Line: "history service shp",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.ListDeploymentsRequest, consolev1.ListDeploymentsResponse](
				listDeployments, connect.CodeNotFound, `service "shp" does not exist`)},
			Asked: `ListDeployments {"service":"shp","pageSize":20}
`,
			Err: "service \"shp\" does not exist: see `fairlead get services`",
		},
	})
}

func TestAServiceIsRolledBack(t *testing.T) {
	t.Parallel()
	back := hub(hubtest.Returns[consolev1.RollbackServiceRequest](rollbackService, &consolev1.RollbackServiceResponse{
		Service:    with(&deliveryv1.SyncSpec{Pin: "0123456789"}),
		Deployment: &consolev1.Deployment{Number: 1, Commit: &artifactv1.Revision{Commit: "0123456789"}},
	}))
	held := []hubtest.Answer{back[0], hubtest.Returns[consolev1.GetServiceRequest](
		consolev1connect.ServiceServiceGetServiceProcedure, &consolev1.GetServiceResponse{
			Service: with(&deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "the sale"}),
		})}
	hubtest.Run(t, map[string]hubtest.Case{
		"to the last that was healthy": {
			Line: "rollback service shop-a --reason '2.0 loses lines'", Hub: back,
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
RollbackService {"service":"shop-a","reason":"2.0 loses lines"}
`,
			Stdout: "service/shop-a is pinned to 01234567\n",
			Stderr: "back to deployment 1, 01234567\n",
		},
		"to one, and stays": {
			Line: "rollback service shop-a 1 --keep --for 2h", Hub: back,
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
RollbackService {"service":"shop-a","deployment":"1","keep":true,"untilTime":"2026-03-01T14:00:00Z"}
`,
			Stdout: "service/shop-a is pinned to 01234567\n",
			Stderr: "back to deployment 1, 01234567\n",
		},
		"one that was held": {
			Line: "rollback service shop-a", Hub: held,
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
RollbackService {"service":"shop-a"}
`,
			Stdout: "service/shop-a is pinned to 01234567\n",
			Stderr: "it was held (the sale): the rollback takes the place of the hold, and stays until `fairlead " +
				"pin service shop-a --release`\n" +
				"back to deployment 1, 01234567\n",
		},
		"to no number": {
			Line: "rollback service shop-a last", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: "\"last\" is no number of a deployment: `fairlead history service shop-a` lists them",
		},
		"to number 0": {
			Line: "rollback service shop-a 0", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: "\"0\" is no number of a deployment: `fairlead history service shop-a` lists them",
		},
		"of another kind": {
			Line: "rollback source shop",
			Err:  "use it as `fairlead rollback service NAME [NUMBER]`: see `fairlead rollback --help`",
		},
		"to none that was healthy": {
			Line: "rollback service shop-a",
			Hub: hub(hubtest.Refuses[consolev1.RollbackServiceRequest, consolev1.RollbackServiceResponse](rollbackService,
				connect.CodeFailedPrecondition, "no deployment before the current one was healthy")),
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
RollbackService {"service":"shop-a"}
`,
			Err: "no deployment before the current one was healthy",
		},
	})
}

func TestRemovalsThatAreHeldAreConfirmed(t *testing.T) {
	t.Parallel()
	since := clitest.Noon().Add(-time.Hour)
	holds := func(res *consolev1.GetRemovalsResponse) hubtest.Answer {
		return hubtest.Returns[consolev1.GetRemovalsRequest](getRemovals, res)
	}
	lost := &consolev1.GetRemovalsResponse{
		Id: "r1", HoldTime: clitest.Before(time.Hour), Reason: "the database was restored",
		Clusters: []*consolev1.HeldRemovals{{Cluster: "edge-1", Services: []string{"shop", "web"}}},
	}
	confirmed := hubtest.Returns[consolev1.ConfirmRemovalsRequest](confirmRemovals, &consolev1.ConfirmRemovalsResponse{})
	notes := "since " + since.Local().Format("2006-01-02 15:04:05") +
		" nothing is removed from clusters: the database was restored\n  cluster edge-1: shop, web\n"
	hubtest.Run(t, map[string]hubtest.Case{
		"all": {
			Line: "confirm removals --yes", Hub: []hubtest.Answer{holds(lost), confirmed}, Stderr: notes,
			Asked: `GetRemovals {}
ConfirmRemovals {"id":"r1"}
`,
			Stdout: "removals confirmed\n",
		},
		"all, unasked": {
			Line: "confirm removals", Hub: []hubtest.Answer{holds(lost)}, Stderr: notes,
			Asked: "GetRemovals {}\n",
			Err:   "nothing was done: say --yes to have them removed, with all of their objects",
		},
		"of agents that have not asked": {
			Line: "confirm removals --yes",
			Hub:  []hubtest.Answer{holds(&consolev1.GetRemovalsResponse{Id: "r2"}), confirmed},
			Asked: `GetRemovals {}
ConfirmRemovals {"id":"r2"}
`,
			Stdout: "removals confirmed\n",
			Stderr: "  no agent has asked so far that has a service which the catalog lacks\n",
		},
		"none": {
			Line: "confirm removals --yes", Hub: []hubtest.Answer{holds(&consolev1.GetRemovalsResponse{})},
			Asked: "GetRemovals {}\n",
			Err:   "no removals are held",
		},
		"others meanwhile": {
			Line: "confirm removals --yes", Stderr: notes,
			Hub: []hubtest.Answer{
				holds(lost), hubtest.Refuses[consolev1.ConfirmRemovalsRequest, consolev1.ConfirmRemovalsResponse](
					confirmRemovals, connect.CodeFailedPrecondition, "others are held now: look again"),
			},
			Asked: `GetRemovals {}
ConfirmRemovals {"id":"r1"}
`,
			Err: "others are held now: look again",
		},
	})
}

func TestServicesThatTheGuardHoldsBackAreConfirmed(t *testing.T) {
	t.Parallel()
	holds := func(confirmation string, status *consolev1.GlobalServiceStatus) []hubtest.Answer {
		return []hubtest.Answer{
			hubtest.Returns[consolev1.GetGlobalServiceRequest](getGlobal, &consolev1.GetGlobalServiceResponse{
				GlobalService: &consolev1.GlobalService{Metadata: clitest.Meta("logs"), Status: status},
			}),
			hubtest.On(previewGlobal, func(*consolev1.PreviewGlobalServiceRequest) (*consolev1.PreviewGlobalServiceResponse, error) {
				return &consolev1.PreviewGlobalServiceResponse{Confirmation: confirmation}, nil
			}),
			hubtest.Returns[consolev1.ConfirmGlobalServiceRequest](confirmGlobal, &consolev1.ConfirmGlobalServiceResponse{}),
		}
	}
	two := &consolev1.GlobalServiceStatus{
		HeldBack: []string{"logs-a", "logs-b"}, HeldBackTotal: 2, HeldBackSince: clitest.Before(2 * time.Hour),
	}
	since := clitest.Noon().Add(-2 * time.Hour).Local().Format(time.DateTime)
	hubtest.Run(t, map[string]hubtest.Case{
		"two": {
			Line: "confirm global logs --yes", Hub: holds("c1", two),
			Asked: `GetGlobalService {"name":"logs"}
PreviewGlobalService {"globalService":{"metadata":{"name":"logs"},"status":{"heldBack":["logs-a","logs-b"],"heldBackTotal":2,"heldBackSince":"2026-03-01T10:00:00Z"}}}
ConfirmGlobalService {"name":"logs","confirmation":"c1"}
`,
			Stderr: "2 services of clusters that are not chosen any more are deleted, with all objects\n  logs-a\n  logs-b\n" +
				"the guard holds back the first of them since " + since + "\n",
			Stdout: "globalservice/logs confirmed\n",
		},
		"unasked, and since an earlier hub": {
			Line: "confirm global logs", Hub: holds("c1", &consolev1.GlobalServiceStatus{HeldBack: []string{"logs-a"}, HeldBackTotal: 1}),
			Asked: `GetGlobalService {"name":"logs"}
PreviewGlobalService {"globalService":{"metadata":{"name":"logs"},"status":{"heldBack":["logs-a"],"heldBackTotal":1}}}
`,
			Stderr: "1 service of clusters that are not chosen any more is deleted, with all objects\n  logs-a\n",
			Err:    "nothing was done: say --yes to go on",
		},
		"none": {
			Line: "confirm global logs --yes", Hub: holds("", &consolev1.GlobalServiceStatus{}),
			Asked: `GetGlobalService {"name":"logs"}
PreviewGlobalService {"globalService":{"metadata":{"name":"logs"},"status":{}}}
`,
			Err: `globalservice "logs": nothing is held back`,
		},
	})
}
