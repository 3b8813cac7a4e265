package lever_test

import (
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
)

const (
	holdService   = consolev1connect.SyncServiceHoldServiceProcedure
	resumeService = consolev1connect.SyncServiceResumeServiceProcedure
	pinService    = consolev1connect.SyncServicePinServiceProcedure
	requestSync   = consolev1connect.SyncServiceRequestSyncProcedure
	confirmPrune  = consolev1connect.SyncServiceConfirmPruneProcedure
	freeze        = consolev1connect.SyncServiceFreezeProcedure
	unfreeze      = consolev1connect.SyncServiceUnfreezeProcedure
	listCommits   = gitcachev1connect.SourceServiceListCommitsProcedure
)

// with returns the well service with a changed sync.
func with(sync *deliveryv1.SyncSpec) *consolev1.Service {
	s := proto.CloneOf(clitest.WellService())
	s.Spec.Sync = sync
	return s
}

// hub has the well service, and what a test adds.
func hub(answers ...hubtest.Answer) []hubtest.Answer {
	return append(answers, hubtest.Returns[consolev1.GetServiceRequest](
		consolev1connect.ServiceServiceGetServiceProcedure,
		&consolev1.GetServiceResponse{Service: clitest.WellService()}))
}

func TestAServiceIsHeldAndResumed(t *testing.T) {
	t.Parallel()
	held := func(mode deliveryv1.SyncMode) []hubtest.Answer {
		return hub(hubtest.Returns[consolev1.HoldServiceRequest](holdService, &consolev1.HoldServiceResponse{
			Service: with(&deliveryv1.SyncSpec{Mode: mode, Reason: "the sale"}),
		}))
	}
	resumed := hub(hubtest.Returns[consolev1.ResumeServiceRequest](resumeService,
		&consolev1.ResumeServiceResponse{Service: with(nil)}))
	const hold, suspend = deliveryv1.SyncMode_SYNC_MODE_HOLD, deliveryv1.SyncMode_SYNC_MODE_SUSPEND
	hubtest.Run(t, map[string]hubtest.Case{
		"held": {
			Line: "hold service shop-a --reason 'the sale'", Hub: held(hold),
			Asked: `GetService {"name":"shop-a"}
HoldService {"name":"shop-a","mode":"SYNC_MODE_HOLD","reason":"the sale"}
`,
			Stdout: "service/shop-a follows main, mode hold (the sale)\n",
		},
		"held by reference": {
			Line: "hold service/shop-a --reason 'the sale'", Hub: held(hold),
			Asked: `GetService {"name":"shop-a"}
HoldService {"name":"shop-a","mode":"SYNC_MODE_HOLD","reason":"the sale"}
`,
			Stdout: "service/shop-a follows main, mode hold (the sale)\n",
		},
		"held for a while": {
			Line: "hold service shop-a --reason 'the sale' --for 2h", Hub: held(hold),
			Asked: `GetService {"name":"shop-a"}
HoldService {"name":"shop-a","mode":"SYNC_MODE_HOLD","reason":"the sale","untilTime":"2026-03-01T14:00:00Z"}
`,
			Stdout: "service/shop-a follows main, mode hold (the sale)\n",
		},
		"held until a time": {
			Line: "hold service shop-a --reason 'the sale' --until 2026-03-02T06:00:00Z",
			Hub:  held(hold),
			Asked: `GetService {"name":"shop-a"}
HoldService {"name":"shop-a","mode":"SYNC_MODE_HOLD","reason":"the sale","untilTime":"2026-03-02T06:00:00Z"}
`,
			Stdout: "service/shop-a follows main, mode hold (the sale)\n",
		},
		"suspended": {
			Line: "hold service shop-a --mode suspend --reason 'the sale'", Hub: held(suspend),
			Asked: `GetService {"name":"shop-a"}
HoldService {"name":"shop-a","mode":"SYNC_MODE_SUSPEND","reason":"the sale"}
`,
			Stdout: "service/shop-a follows main, mode suspend (the sale)\n",
		},
		"without a reason": {
			Line: "hold service shop-a", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: "--reason is missing: say to others why shop-a stands still",
		},
		"in an unknown mode": {
			Line: "hold service shop-a --mode stop --reason a", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: `unknown mode "stop": known are hold, suspend, dry-run and manual`,
		},
		"for no time": {
			Line: "hold service shop-a --reason a --for 0s", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: "--for must be more than 0s",
		},
		"until no time": {
			Line: "hold service shop-a --reason a --until tomorrow", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: `--until: "tomorrow" is no time: write it like 2026-01-31T12:00:00Z`,
		},
		"for and until": {
			Line: "hold service shop-a --reason a --for 2h --until 2026-03-02T06:00:00Z",
			Err:  "--for and --until can't be given together: see `fairlead hold --help`",
		},
		"another kind": {
			Line: "hold cluster a --reason a",
			Err:  "use it as `fairlead hold service NAME --reason TEXT`: see `fairlead hold --help`",
		},
		"without a name": {
			Line: "hold service --reason a",
			Err:  "name a service, or choose several by --filter, --cluster or --global",
		},
		"resumed with a pin": {
			Line: "resume service shop-a",
			Hub: hub(hubtest.Returns[consolev1.ResumeServiceRequest](resumeService,
				&consolev1.ResumeServiceResponse{Service: with(&deliveryv1.SyncSpec{Pin: "3f1c0d2e9b7a4c5d6e8f9012a3b4c5d6e7f80912"})})),
			Asked: `GetService {"name":"shop-a"}
ResumeService {"name":"shop-a"}
`,
			Stdout: "service/shop-a is pinned to 3f1c0d2e\n",
			Stderr: "the pin of service \"shop-a\" stays: `fairlead pin service shop-a --release` ends it\n",
		},
		"resumed": {
			Line: "resume service shop-a", Hub: resumed,
			Asked: `GetService {"name":"shop-a"}
ResumeService {"name":"shop-a"}
`,
			Stdout: "service/shop-a follows main\n",
		},
		"resumed without name": {
			Line: "resume service",
			Err:  "name a service, or choose several by --filter, --cluster or --global",
		},
		"by somebody who may not": {
			Line: "hold service shop-a --reason a",
			Hub: hub(hubtest.Refuses[consolev1.HoldServiceRequest, consolev1.HoldServiceResponse](
				holdService, connect.CodePermissionDenied, `user:kim may not deploy service "shop-a"`)),
			Asked: `GetService {"name":"shop-a"}
HoldService {"name":"shop-a","mode":"SYNC_MODE_HOLD","reason":"a"}
`,
			Err: `user:kim may not deploy service "shop-a"`,
		},
	})
}

func TestAServiceIsPinned(t *testing.T) {
	t.Parallel()
	const id = "3f1c0d2e9b7a4c5d6e8f9012a3b4c5d6e7f80912"
	pinned := hubtest.On(pinService, func(req *consolev1.PinServiceRequest) (*consolev1.PinServiceResponse, error) {
		return &consolev1.PinServiceResponse{Service: with(&deliveryv1.SyncSpec{Pin: req.GetCommit()})}, nil
	})
	found := func(commits ...string) hubtest.Answer {
		var all []*artifactv1.Revision
		for _, commit := range commits {
			all = append(all, &artifactv1.Revision{Commit: commit})
		}
		return hubtest.Returns[gitcachev1.ListCommitsRequest](listCommits, &gitcachev1.ListCommitsResponse{Commits: all})
	}
	bare := with(nil)
	bare.Status = nil
	hubtest.Run(t, map[string]hubtest.Case{
		"to what is applied": {
			Line: "pin service shop-a --reason broken", Hub: hub(pinned),
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
PinService {"name":"shop-a","commit":"fedcba9876","reason":"broken"}
`,
			Stdout: "service/shop-a is pinned to fedcba98\n",
		},
		"to a whole id": {
			Line: "pin service shop-a " + id, Hub: hub(pinned),
			Asked: `GetService {"name":"shop-a"}
PinService {"name":"shop-a","commit":"3f1c0d2e9b7a4c5d6e8f9012a3b4c5d6e7f80912"}
`,
			Stdout: "service/shop-a is pinned to 3f1c0d2e\n",
		},
		"to the letters of one": {
			Line: "pin service shop-a 3f1c0d2", Hub: hub(pinned, found(id)),
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
ListCommits {"source":"shop","revision":"3f1c0d2","pageSize":1}
PinService {"name":"shop-a","commit":"3f1c0d2e9b7a4c5d6e8f9012a3b4c5d6e7f80912"}
`,
			Stdout: "service/shop-a is pinned to 3f1c0d2e\n",
		},
		"to no commit": {
			Line: "pin service shop-a v9", Hub: hub(found()),
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
ListCommits {"source":"shop","revision":"v9","pageSize":1}
`,
			Err: `source "shop" has no commit "v9"`,
		},
		"until the next": {
			Line: "pin service shop-a --until-next", Hub: hub(pinned),
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
PinService {"name":"shop-a","commit":"fedcba9876","untilNext":true}
`,
			Stdout: "service/shop-a is pinned to fedcba98\n",
		},
		"released": {
			Line: "pin service shop-a --release", Hub: hub(pinned),
			Asked: `GetService {"name":"shop-a"}
PinService {"name":"shop-a"}
`,
			Stdout: "service/shop-a follows main\n",
		},
		"released to a commit": {
			Line: "pin service shop-a v1 --release", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: "--release and a commit don't go together",
		},
		"released for a while": {
			Line: "pin service shop-a --release --for 2h", Hub: hub(),
			Asked: `GetService {"name":"shop-a"}
`,
			Err: "--release ends the pin now: leave out --for and --until",
		},
		"released until the next": {
			Line: "pin service shop-a --release --until-next",
			Err:  "--release and --until-next can't be given together: see `fairlead pin --help`",
		},
		"nothing is applied yet": {
			Line: "pin service shop-a", Hub: []hubtest.Answer{hubtest.Returns[consolev1.GetServiceRequest](
				consolev1connect.ServiceServiceGetServiceProcedure, &consolev1.GetServiceResponse{Service: bare})},
			Asked: `GetService {"name":"shop-a"}
GetService {"name":"shop-a"}
`,
			Err: `nothing is applied of service "shop-a" yet: name a commit`,
		},
	})
}

func TestAServiceIsSynced(t *testing.T) {
	t.Parallel()
	synced := hubtest.Returns[consolev1.RequestSyncRequest](requestSync,
		&consolev1.RequestSyncResponse{Service: with(nil)})
	bare := with(nil)
	bare.Status = nil
	confirmed := hubtest.Returns[consolev1.ConfirmPruneRequest](confirmPrune,
		&consolev1.ConfirmPruneResponse{Service: with(nil)})
	other := proto.CloneOf(clitest.WellService())
	other.Metadata.Name = "shop-b"
	listed := hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
		&consolev1.ListServicesResponse{Services: []*consolev1.Service{clitest.WellService(), other}})
	none := hubtest.Returns[consolev1.ListServicesRequest](consolev1connect.ServiceServiceListServicesProcedure,
		&consolev1.ListServicesResponse{})
	hubtest.Run(t, map[string]hubtest.Case{
		"all of it": {
			Line: "sync service shop-a", Hub: hub(synced),
			Asked: `GetService {"name":"shop-a"}
RequestSync {"name":"shop-a"}
`,
			Stdout: "service/shop-a follows main\n",
		},
		"over a closed window, some objects": {
			Line: "sync service shop-a --override --only Deployment/web --only ConfigMap/shop/web", Hub: hub(synced),
			Asked: `GetService {"name":"shop-a"}
RequestSync {"name":"shop-a","override":true,"only":["Deployment/web","ConfigMap/shop/web"]}
`,
			Stdout: "service/shop-a follows main\n",
		},
		"nothing is handed out yet": {
			Line: "sync service shop-a --only Deployment/web", Hub: hub(hubtest.Returns[consolev1.RequestSyncRequest](
				requestSync, &consolev1.RequestSyncResponse{Service: bare})),
			Asked: `GetService {"name":"shop-a"}
RequestSync {"name":"shop-a","only":["Deployment/web"]}
`,
			Stdout: "service/shop-a follows main\n",
			Stderr: "nothing is handed out of service \"shop-a\" yet, so nothing is synced: " +
				"`fairlead trace service shop-a` says why\n",
		},
		"several, unasked": {
			Line: "sync services --cluster a", Hub: hub(synced, listed),
			Asked: `ListServices {"pageSize":500,"filter":"cluster = \"a\""}
`,
			Stderr: `sync these services (2):
NAME    CLUSTER  STATE
shop-a  a        Healthy
shop-b  a        Healthy
`,
			Err: "nothing was done: say --yes to go on",
		},
		"several": {
			Line: "sync services --cluster a --yes", Hub: hub(synced, listed),
			Asked: `ListServices {"pageSize":500,"filter":"cluster = \"a\""}
GetService {"name":"shop-a"}
RequestSync {"name":"shop-a"}
GetService {"name":"shop-b"}
RequestSync {"name":"shop-b"}
`,
			Stdout: `service/shop-a follows main
service/shop-b follows main
`,
		},
		"several, only shown": {
			Line: "sync services --cluster a --dry-run", Hub: hub(synced, listed),
			Asked: `ListServices {"pageSize":500,"filter":"cluster = \"a\""}
`,
			Stdout: `NAME    CLUSTER  STATE
shop-a  a        Healthy
shop-b  a        Healthy
`,
		},
		"several, and a name": {
			Line: "sync service shop-a --cluster a",
			Err:  `--filter, --cluster and --global choose services: leave "shop-a" out`,
		},
		"none": {
			Line: "sync services --cluster z --yes", Hub: hub(synced, none),
			Asked: `ListServices {"pageSize":500,"filter":"cluster = \"z\""}
`,
			Err: "there is no service to sync among those that are chosen",
		},
		"a removal confirmed": {
			Line: "confirm prune shop-a 5be1f0c2a9d34417", Hub: hub(confirmed),
			Asked: `GetService {"name":"shop-a"}
ConfirmPrune {"name":"shop-a","guard":"5be1f0c2a9d34417"}
`,
			Stdout: "service/shop-a follows main\n",
		},
		"a removal of no guard": {
			Line: "confirm prune shop-a",
			Err:  "use it as `fairlead confirm prune SERVICE GUARD`: see `fairlead confirm --help`",
		},
		"something else": {
			Line: "confirm delete shop-a 5be1f0c2a9d34417",
			Err:  "use it as `fairlead confirm prune SERVICE GUARD`: see `fairlead confirm --help`",
		},
		"a guard of before": {
			Line: "confirm prune shop-a 5be1f0c2a9d34417",
			Hub: hub(hubtest.Refuses[consolev1.ConfirmPruneRequest, consolev1.ConfirmPruneResponse](confirmPrune,
				connect.CodeFailedPrecondition, "the guard is another one now: look again")),
			Asked: `GetService {"name":"shop-a"}
ConfirmPrune {"name":"shop-a","guard":"5be1f0c2a9d34417"}
`,
			Err: "the guard is another one now: look again",
		},
	})
}

func TestProjectsAndClustersAreFrozen(t *testing.T) {
	t.Parallel()
	frozen := hubtest.On(freeze, func(req *consolev1.FreezeRequest) (*consolev1.FreezeResponse, error) {
		if req.GetName() == "edge-9" {
			return nil, connect.NewError(connect.CodePermissionDenied, errRights)
		}
		return &consolev1.FreezeResponse{Freeze: &deliveryv1.Freeze{
			Reason: req.GetReason(), Author: "user:kim", Drift: req.GetDrift(), UntilTime: req.GetUntilTime(),
		}}, nil
	})
	ended := func(was bool) hubtest.Answer {
		return hubtest.Returns[consolev1.UnfreezeRequest](unfreeze, &consolev1.UnfreezeResponse{Ended: was})
	}
	clusters := hubtest.Returns[consolev1.ListClustersRequest](consolev1connect.ClusterServiceListClustersProcedure,
		&consolev1.ListClustersResponse{Clusters: []*consolev1.Cluster{
			{Metadata: clitest.Meta("edge-1")}, {Metadata: clitest.Meta("edge-9")},
		}})
	hubtest.Run(t, map[string]hubtest.Case{
		"a project": {
			Line: "freeze project shop --reason 'the sale'", Hub: hub(frozen),
			Asked: `Freeze {"kind":"project","name":"shop","reason":"the sale"}
`,
			Stdout: "project/shop is frozen by user:kim (the sale)\n",
		},
		"a cluster": {
			Line: "freeze cluster/edge-1 --reason 'the sale' --leave-drift", Hub: hub(frozen),
			Asked: `Freeze {"kind":"cluster","name":"edge-1","reason":"the sale","drift":"WINDOW_DRIFT_LEAVE"}
`,
			Stdout: "cluster/edge-1 is frozen by user:kim (the sale)\n",
		},
		"without a reason": {
			Line: "freeze project shop", Hub: hub(frozen),
			Err: "--reason is missing: say to others why shop stands still",
		},
		"without a name": {
			Line: "freeze project --reason a", Hub: hub(frozen),
			Err: "name a project, or choose several by --filter",
		},
		"another kind": {
			Line: "freeze service shop --reason a", Hub: hub(frozen),
			Err: "one service is held, not frozen: see `fairlead hold --help`",
		},
		"several, unasked": {
			Line: "freeze clusters --filter labels.env=prod --reason a", Hub: hub(frozen, clusters),
			Asked: `ListClusters {"pageSize":500,"filter":"labels.env=prod"}
`,
			Stderr: `freeze these clusters (2), with all services of each:
NAME    FREEZE
edge-1  none
edge-9  none
`,
			Err: "nothing was done: say --yes to go on",
		},
		"several, and one fails": {
			Line: "freeze clusters --filter labels.env=prod --reason a --yes", Hub: hub(frozen, clusters),
			Asked: `ListClusters {"pageSize":500,"filter":"labels.env=prod"}
Freeze {"kind":"cluster","name":"edge-1","reason":"a"}
Freeze {"kind":"cluster","name":"edge-9","reason":"a"}
`,
			Stdout: "cluster/edge-1 is frozen by user:kim (a)\n",
			Stderr: `cluster/edge-9: user:kim may not edit cluster "edge-9"
`,
			Err: "1 of 2 clusters failed, as said above",
		},
		"several, only shown": {
			Line: "freeze clusters --filter labels.env=prod --reason a --dry-run", Hub: hub(frozen, clusters),
			Asked: `ListClusters {"pageSize":500,"filter":"labels.env=prod"}
`,
			Stdout: `NAME    FREEZE
edge-1  none
edge-9  none
`,
		},
		"several, and a name": {
			Line: "freeze cluster edge-1 --filter labels.env=prod --reason a", Hub: hub(frozen),
			Err: `--filter chooses clusters: leave "edge-1" out`,
		},
		"one, with --yes": {
			Line: "freeze cluster edge-1 --reason a --yes", Hub: hub(frozen),
			Err: "--yes and --dry-run go with --filter",
		},
		"ended": {
			Line: "unfreeze project shop", Hub: hub(ended(true)),
			Asked: `Unfreeze {"kind":"project","name":"shop"}
`,
			Stdout: "project/shop is not frozen any more\n",
		},
		"not there to end": {
			Line: "unfreeze project shop", Hub: hub(ended(false)),
			Asked: `Unfreeze {"kind":"project","name":"shop"}
`,
			Stdout: "project/shop was not frozen\n",
		},
		"none of a filter": {
			Line: "unfreeze clusters --filter labels.env=prod --yes", Hub: hub(clusters),
			Asked: `ListClusters {"pageSize":500,"filter":"labels.env=prod"}
`,
			Err: "there is no cluster to unfreeze among those that are chosen",
		},
	})
}

// errRights is what a console says to somebody who may not.
var errRights = rights("user:kim may not edit cluster \"edge-9\"")

type rights string

func (e rights) Error() string { return string(e) }

func TestAlertsAreAnswered(t *testing.T) {
	t.Parallel()
	const acknowledge = consolev1connect.AlertServiceAcknowledgeAlertProcedure
	const silence = consolev1connect.AlertServiceSilenceAlertProcedure
	known := hubtest.Returns[consolev1.AcknowledgeAlertRequest](acknowledge, &consolev1.AcknowledgeAlertResponse{})
	silent := hubtest.Returns[consolev1.SilenceAlertRequest](silence, &consolev1.SilenceAlertResponse{})
	hubtest.Run(t, map[string]hubtest.Case{
		"acknowledged": {
			Line: "acknowledge alert nodes --reason 'the rack moves'", Hub: hub(known),
			Asked: `AcknowledgeAlert {"name":"nodes","reason":"the rack moves"}
`,
			Stdout: "alert/nodes is acknowledged (the rack moves)\n",
		},
		"a group of it": {
			Line: "acknowledge alert/nodes --group eu-1 --reason a", Hub: hub(known),
			Asked: `AcknowledgeAlert {"name":"nodes","group":"eu-1","reason":"a"}
`,
			Stdout: "alert/nodes is acknowledged (a)\n",
		},
		"acknowledged, no reason": {
			Line: "acknowledge alert nodes", Hub: hub(),
			Err: "--reason is missing: say to others what you do about it",
		},
		"acknowledged, other kind": {
			Line: "acknowledge sink nodes --reason a",
			Err:  "use it as `fairlead acknowledge alert NAME --reason TEXT`: see `fairlead acknowledge --help`",
		},
		"silent, no time": {
			Line: "silence alert nodes --reason a", Hub: hub(),
			Err: "--for or --until is missing: say how long, such as --for 2h",
		},
		"silent, no reason": {
			Line: "silence alert nodes --for 2h", Hub: hub(),
			Err: "--reason is missing: say to others why the alert is silent",
		},
		"silent, no name": {
			Line: "silence alert --for 2h --reason a",
			Err: "use it as `fairlead silence alert NAME --for TIME --reason TEXT`: see `fairlead silence " +
				"--help`",
		},
		"not silent any more": {
			Line: "unsilence alert nodes", Hub: hub(silent),
			Asked: `SilenceAlert {"name":"nodes"}
`,
			Stdout: "alert/nodes is not silent any more\n",
		},
		"not there": {
			Line: "unsilence alert nods",
			Hub: hub(hubtest.Refuses[consolev1.SilenceAlertRequest, consolev1.SilenceAlertResponse](
				silence, connect.CodeNotFound, `alert "nods" does not exist`)),
			Asked: `SilenceAlert {"name":"nods"}
`,
			Err: "alert \"nods\" does not exist: see `fairlead get alerts`",
		},
	})
}

// What others wrote is shown as text: no terminal takes it for an order, and nothing turns its letters around.
func TestTextsOfOthersAreNoOrdersToATerminal(t *testing.T) {
	t.Parallel()
	const raw, shown = "a\n\x1b[31mred\x1b[0m \u202eb", "a [31mred[0m b"
	sync := &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: raw}
	hubtest.Run(t, map[string]hubtest.Case{
		"a service that somebody holds": {
			Line: "sync service shop-a",
			Hub: hub(hubtest.Returns[consolev1.RequestSyncRequest](
				requestSync, &consolev1.RequestSyncResponse{Service: with(sync)})),
			Asked:  "GetService {\"name\":\"shop-a\"}\nRequestSync {\"name\":\"shop-a\"}\n",
			Stdout: "service/shop-a follows main, mode hold (" + shown + ")\n",
		},
		"a freeze": {
			Line: "freeze project shop --reason a",
			Hub: hub(hubtest.Returns[consolev1.FreezeRequest](freeze, &consolev1.FreezeResponse{
				Freeze: &deliveryv1.Freeze{Author: "user:\x1b[1mkim", Reason: raw},
			})),
			Asked:  `Freeze {"kind":"project","name":"shop","reason":"a"}` + "\n",
			Stdout: "project/shop is frozen by user:[1mkim (" + shown + ")\n",
		},
		"an alert": {
			Line: "acknowledge alert nodes --reason 'a\x1b[31m b'",
			Hub: hub(hubtest.Returns[consolev1.AcknowledgeAlertRequest](
				consolev1connect.AlertServiceAcknowledgeAlertProcedure, &consolev1.AcknowledgeAlertResponse{})),
			Asked:  `AcknowledgeAlert {"name":"nodes","reason":"a\u001b[31m b"}` + "\n",
			Stdout: "alert/nodes is acknowledged (a[31m b)\n",
		},
		"a note": {
			Line: "confirm removals",
			Hub: hub(hubtest.Returns[consolev1.GetRemovalsRequest](getRemovals, &consolev1.GetRemovalsResponse{
				Id: "r1", Clusters: []*consolev1.HeldRemovals{{Cluster: "edge-1", Services: []string{"\x1b[31mshop"}}},
			})),
			Asked:  "GetRemovals {}\n",
			Stderr: "  cluster edge-1: [31mshop\n",
			Err:    "nothing was done: say --yes to have them removed, with all of their objects",
		},
		"what was changed": {
			Line: "history service shop --changes",
			Hub: hub(hubtest.Returns[consolev1.ListRevisionsRequest](
				consolev1connect.RevisionServiceListRevisionsProcedure,
				&consolev1.ListRevisionsResponse{Revisions: []*consolev1.Revision{{
					Revision: 2, Action: "held", Author: "user:\x1b[1mkim", Time: clitest.Before(0),
					Diff: "+ reason: a\n+ b\u202e\x1b[31m",
				}}})),
			Asked:  `ListRevisions {"kind":"KIND_SERVICE","name":"shop","pageSize":20}` + "\n",
			Stdout: "revision 2 held by user:[1mkim at 2026-03-01T12:00:00Z\n+ reason: a\n+ b[31m\n",
		},
		"an error of the hub": {
			Line: "sync service shop-a",
			Hub: hub(hubtest.Refuses[consolev1.RequestSyncRequest, consolev1.RequestSyncResponse](
				requestSync, connect.CodeFailedPrecondition, "it is frozen ("+raw+")")),
			Asked: "GetService {\"name\":\"shop-a\"}\nRequestSync {\"name\":\"shop-a\"}\n",
			Err:   "it is frozen (a\n[31mred[0m b)",
		},
	})
}

// A hold by the annotation in the cluster outlasts what the hub is asked for.
func TestALeverSaysThatTheClusterHoldsTheService(t *testing.T) {
	t.Parallel()
	held := clitest.WellService()
	held.Status.Cluster.Report.Message = "Held by the annotation fairlead.dev/hold in the cluster. fedcba98 stays applied."
	hubtest.Run(t, map[string]hubtest.Case{"resumed": {
		Line: "resume service shop-a", Hub: []hubtest.Answer{
			hubtest.Returns[consolev1.GetServiceRequest](
				consolev1connect.ServiceServiceGetServiceProcedure, &consolev1.GetServiceResponse{Service: held}),
			hubtest.Returns[consolev1.ResumeServiceRequest](
				resumeService, &consolev1.ResumeServiceResponse{Service: with(nil)}),
		},
		Asked:  "GetService {\"name\":\"shop-a\"}\nResumeService {\"name\":\"shop-a\"}\n",
		Stdout: "service/shop-a follows main\n",
		Stderr: "the annotation on its inventory still holds service \"shop-a\": `kubectl annotate configmap " +
			"-n fairlead-system inventory.shop-a fairlead.dev/hold-` ends the hold in the cluster\n",
	}})
}
