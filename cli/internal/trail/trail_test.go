package trail

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/view"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
)

// well is the trail of a service with which nothing is wrong.
func well() *Trail {
	return &Trail{
		View:    view.View{Now: clitest.Noon()},
		Service: clitest.WellService(),
		Source: &consolev1.Source{
			Metadata: clitest.Meta("shop"),
			Spec: &consolev1.SourceSpec{
				Git: &consolev1.GitSource{Url: "https://kim:s3cret@git.example.com/shop.git"},
			},
			Status: &consolev1.SourceStatus{
				Heads: []*consolev1.Head{{Ref: "refs/heads/main", Revision: clitest.WellRevision(), SignedBy: "SHA256:key"}},
			},
		},
		Cluster: &consolev1.Cluster{Metadata: clitest.Meta("a"), Status: &consolev1.ClusterStatus{
			JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(20 * time.Second),
			NextPollTime: clitest.Before(-100 * time.Second), AgentVersion: "v1", KubernetesVersion: "v1.36.3", Connected: true,
		}},
		Live: &gitcachev1.LiveSource{
			Name: "shop", Owner: "gitcache-0", LastPollTime: clitest.Before(40 * time.Second),
			NextPollTime: clitest.Before(-80 * time.Second), Url: "https://git.example.com/shop.git",
		},
	}
}

func TestTraceOfAServiceThatIsWell(t *testing.T) {
	t.Parallel()
	want := `shop-a: Healthy for 3m

SOURCE    ok     shop https://git.example.com/shop.git
                 fetched by gitcache-0, polled 40s ago, next in 80s
COMMIT    ok     main is fedcba98, 5m old: "Add the shop" by Kim
                 fetched 4m ago, signed by SHA256:key
HUB       ok     01234567 of fedcba98, 3m ago
                 artifact abcdef01, 2.0 KiB in 3 files
DELIVERY  ok     cluster a, connected, seen 20s ago, asks in 100s or when it is nudged
                 agent v1, Kubernetes v1.36.3
CLUSTER   ok     for 3m: healthy, 3 of 3 objects are healthy
                 applied: 01234567 of fedcba98 (3m)

fedcba98 runs in cluster a and is healthy: nothing to do.
`
	tr := well()
	if got := tr.RenderText(tr.ListSteps()); got != want {
		t.Errorf("got\n%s", got)
	}
}

// Every break on the way is found where it is, with its age and the next step.
func TestTraceSaysWhereItStands(t *testing.T) {
	t.Parallel()
	problem := func(text string) *consolev1.Problem {
		return &consolev1.Problem{Message: text, Since: clitest.Before(time.Hour)}
	}
	for name, tt := range map[string]struct {
		change  func(*Trail, *consolev1.ServiceStatus)
		lines   []string
		verdict string
	}{
		"the Git host is away": {
			func(_ *Trail, s *consolev1.ServiceStatus) {
				s.Git.Problem = problem(`source "shop": connection refused. Check it.`)
			},
			[]string{"SOURCE    stale  shop", " for 60m: connection refused. Check it.", "CLUSTER   ok"},
			"fedcba98 runs in cluster a and is healthy; but nothing newer comes from SOURCE for 60m: connection refused. Check it. Next: put that right; `fairlead sources refresh shop` asks at once.",
		},
		"nothing was ever fetched": {
			func(_ *Trail, s *consolev1.ServiceStatus) {
				s.Git, s.Hub, s.Cluster = &consolev1.GitTruth{Problem: problem("401.")}, nil, nil
			},
			[]string{
				"SOURCE    FAIL", "COMMIT    wait   nothing was fetched at main yet",
				"HUB       wait   waits for a commit",
			},
			"it stands at SOURCE for 60m: 401. Next: put that right; `fairlead sources refresh shop` asks at once.",
		},
		"no gitcache answers": {
			func(tr *Trail, _ *consolev1.ServiceStatus) { tr.Live, tr.noLive = nil, "can't be reached" },
			[]string{
				"SOURCE    ?      shop https://git.example.com/shop.git",
				"no gitcache says how it is (can't be reached)", "what the console heard last, 4m ago",
			},
			"fedcba98 runs in cluster a and is healthy; but nobody answers for SOURCE. Next: run `fairlead check`.",
		},
		"the ref is not there": {
			func(_ *Trail, s *consolev1.ServiceStatus) { s.Git, s.Hub, s.Cluster = nil, nil, nil },
			[]string{"COMMIT    wait   nothing was fetched at main yet"},
			"it stands at COMMIT: nothing was fetched at main yet. Next: `fairlead sources refresh shop` asks at once; `fairlead sources log shop` shows what is there.",
		},
		"the folder is gone": {
			func(_ *Trail, s *consolev1.ServiceStatus) {
				s.Hub.Problem = problem(`service "shop-a": folder "deploy" is not in commit fedcba98.`)
			},
			[]string{
				"HUB       FAIL   01234567 of fedcba98, 3m ago", `for 60m: folder "deploy" is not in commit fedcba98.`,
			},
			`it stands at HUB for 60m: folder "deploy" is not in commit fedcba98. Next: put that right and push, or change the service.`,
		},
		"a newer commit": {
			func(_ *Trail, s *consolev1.ServiceStatus) {
				s.Git.Revision = &artifactv1.Revision{Commit: "99999999aa"}
			},
			[]string{"main is 99999999: \"\"", "HUB       wait", "CLUSTER   ok"},
			"it stands at HUB for 4m: 99999999 is fetched and not handed out yet. Next: wait some seconds; if it stays, `fairlead check` says what is wrong with distributors.",
		},
		"all distributors are down": {
			func(tr *Trail, _ *consolev1.ServiceStatus) {
				tr.distributors, tr.noDistributors = []string{"distributor x: is down"}, true
			},
			[]string{"HUB       stale", "distributor x: is down"},
			"fedcba98 runs in cluster a and is healthy; but nothing newer comes from HUB: no distributor answers, so nothing new can be handed out. Next: `fairlead check` says more.",
		},
		"a distributor is ready and something is wrong with it": {
			func(tr *Trail, _ *consolev1.ServiceStatus) {
				tr.distributors = []string{"distributor x: ready, version v1, but the disk is nearly full"}
			},
			[]string{"HUB       ok", "the disk is nearly full"},
			"fedcba98 runs in cluster a and is healthy: nothing to do.",
		},
		"no agent": {
			func(tr *Trail, s *consolev1.ServiceStatus) { tr.Cluster.Status, s.Cluster = nil, nil },
			[]string{"DELIVERY  wait   cluster a, pending", "CLUSTER   wait   has not reported on it yet"},
			"it stands at DELIVERY: no agent has joined cluster a. Next: run `fairlead cluster join-token a`.",
		},
		"disconnected is never green": {
			func(tr *Trail, _ *consolev1.ServiceStatus) {
				c := tr.Cluster.Status
				c.Connected, c.LastSeenTime, c.NextPollTime = false, clitest.Before(10*time.Minute), clitest.Before(8*time.Minute)
			},
			[]string{
				"DELIVERY  FAIL   cluster a, disconnected, seen 10m ago, should have asked 8m ago", "CLUSTER   ?",
				"said 3m ago; not connected since, so nobody knows",
			},
			"it stands at DELIVERY for 10m: cluster a is not connected. Next: see that its agent runs and reaches the hub: its log says why it does not.",
		},
		"an API server that hangs": {
			func(tr *Trail, _ *consolev1.ServiceStatus) {
				tr.Cluster.Status.ClusterProblem = "the API server has not answered since noon"
			},
			[]string{"DELIVERY  FAIL   cluster a, connected", "its agent can do nothing in it: the API server has not answered since noon"},
			"it stands at DELIVERY: the agent can do nothing in cluster a (the API server has not answered since noon). " +
				"Next: see how its API server is, and what the agent's log says.",
		},
		"a clock that is off": {
			func(tr *Trail, _ *consolev1.ServiceStatus) {
				tr.Cluster.Status.ClockSkew = durationpb.New(2 * time.Minute)
			},
			[]string{"DELIVERY  ok     cluster a, connected", "its clock is 2m behind the hub's"},
			"fedcba98 runs in cluster a and is healthy: nothing to do.",
		},
		"being applied": {
			func(_ *Trail, s *consolev1.ServiceStatus) { s.Cluster.Report.Digest = "sha256:older" },
			[]string{"CLUSTER   wait"},
			"it stands at CLUSTER for 3m: the cluster has not taken fedcba98 in yet. Next: wait, or look into the cluster: fairlead kubeconfig a.",
		},
		"another service first": {
			func(tr *Trail, s *consolev1.ServiceStatus) {
				tr.Service.Spec.Sync = &deliveryv1.SyncSpec{DependsOn: []string{"api", "db"}}
				s.Cluster.Report.Phase = deliveryv1.Phase_PHASE_WAITING
				s.Cluster.Report.Message = `Waits for service "db", which failed.`
			},
			[]string{"CLUSTER   wait"},
			"it stands at CLUSTER for 3m: Waits for service \"db\", which failed. Next: the service goes on when these are ready: see `fairlead trace service db`.",
		},
		"a cluster that the person may not view": {
			func(tr *Trail, _ *consolev1.ServiceStatus) {
				tr.Cluster, tr.noCluster, tr.hiddenCluster = nil, "kim may not view it", true
			},
			[]string{"DELIVERY  ?      nothing is known of cluster a (kim may not view it)"},
			"fedcba98 runs in cluster a and is healthy; but DELIVERY is not shown, since you lack a grant to view cluster a. Next: an administrator can add a grant: see `fairlead get grants`.",
		},
		"a removal to confirm": {
			func(_ *Trail, s *consolev1.ServiceStatus) {
				r := s.Cluster.Report
				r.Phase, r.Message = deliveryv1.Phase_PHASE_WAITING, "would remove 8 of 12 objects."
				r.Guard = &deliveryv1.Guard{
					Id: "5be1",
					Sample: []*deliveryv1.ManagedObject{
						{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "prices"},
					},
				}
			},
			[]string{"CLUSTER   wait", "\n  shop: ConfigMap/prices  Guarded  would be removed"},
			"it stands at CLUSTER for 3m: would remove 8 of 12 objects. Next: `fairlead confirm prune shop-a 5be1`, or put the manifests back and push.",
		},
		"an object fails": {
			func(_ *Trail, s *consolev1.ServiceStatus) {
				r := s.Cluster.Report
				r.Phase, r.ObjectsHealthy = deliveryv1.Phase_PHASE_DEGRADED, 2
				r.Objects = []*deliveryv1.ObjectReport{
					{Group: "apps", Kind: "Deployment", Name: "web", Health: "Degraded", Message: "no image \x1b[31m"},
				}
			},
			[]string{
				"CLUSTER   FAIL   for 3m: degraded, 2 of 3 objects are healthy",
				"\n  Deployment.apps/web  Degraded  no image [31m",
			},
			`it stands at CLUSTER for 3m: Deployment.apps/web is degraded: no image [31m. Next: put it right in "deploy" of source shop and push, or look into the cluster: fairlead kubeconfig a.`,
		},
	} {
		checkTrail(t, name, tt.change, append(tt.lines, tt.verdict+"\n")...)
	}
}

// The hub gives the same digest to commits that change other folders only. The agent hears of none of them, and trace
// names the commit that `fairlead get` names.
func TestTraceNamesTheCommitThatGetNames(t *testing.T) {
	t.Parallel()
	checkTrail(t, "a failed rollback that was ended", func(_ *Trail, s *consolev1.ServiceStatus) {
		s.Cluster.Report.AppliedCommit = "0badc0ffee"
		s.Cluster.Report.Commit = "0badc0ffee"
	}, "applied: 01234567 of fedcba98 (3m)", "fedcba98 runs in cluster a and is healthy: nothing to do.\n")
}

// The step after a failure is the one that the agent advises.
func TestTraceProposesWhatMendsAFailure(t *testing.T) {
	t.Parallel()
	const (
		push = "put it right in \"deploy\" of source shop and push, or look into the cluster: fairlead kubeconfig a"
		does = "do as the message says, or look into the cluster: fairlead kubeconfig a"
		wait = "wait, or look into the cluster: fairlead kubeconfig a"
		pod  = "Pod p (deploy/p.yaml, document 1): "
	)
	for message, next := range map[string]string{
		"the API server can't be reached: EOF. It is tried again":                                        wait,
		"ask the API server for the kinds of v1: no such host. It is tried again":                        wait,
		pod + "the API server did not answer in time. It is tried again":                                 wait,
		pod + "the API server forbids it. It is tried again":                                             wait,
		pod + "a.b: no such field. Fix the manifest and push":                                            push,
		pod + "it is what the agent itself keeps there. Give it another name and push":                   push,
		"data: a value is not base64. Encode it, or write it as plain text, and push":                    push,
		"The hook failed. Look at its logs, fix it and push; or ask for a sync":                          push,
		"apps: deploy holds no manifests. To keep them put the manifests back and push":                  push,
		pod + "may not patch it. Allow it to that account, see the agent's README":                       does,
		pod + "x.policy.dev denied it. Change what forbids it, or the manifest. It is tried again":       does,
		pod + "spec.selector: immutable. It can't be changed: undo the change":                           does,
		pod + "it belongs to service \"b\". Remove it from one of the two":                               does,
		pod + "it belongs to Helm. Remove it there first, or take it over":                               does,
		pod + "it is held by its annotation. Take the annotation off there":                              does,
		pod + "it must not be taken over. Delete it there, give it another name":                         does,
		pod + "namespace \"b\" does not exist. Add it to the manifests, or create it. It is tried again": does,
		pod + "the cluster does not know kind Boat of b.dev/v1. Install its CustomResourceDefinition, " +
			"or mend apiVersion and kind. It is tried again": does,
		pod + "the cluster has kind Boat of b.dev/v1 outside of namespaces. Ask for a sync to have " +
			"the service rendered again. It is tried again": does,
		"Project \"p\" does not allow the account \"x/y\": set another spec.sync.impersonate": does,
	} {
		message += "; the previous state stays applied."
		checkTrail(t, message, func(_ *Trail, s *consolev1.ServiceStatus) {
			s.Cluster.Report.Phase, s.Cluster.Report.Message = deliveryv1.Phase_PHASE_FAILED, message
		}, "it stands at CLUSTER for 3m: "+message+" Next: "+next+".\n")
	}
}

// A push gives no rights: of a folder whose service account lacks a grant the trail names the grant.
func TestTraceNamesTheGrantThatAFolderLacks(t *testing.T) {
	t.Parallel()
	refused := (&access.Rules{}).May(identity.ServiceAccount("fleet"), access.Edit,
		access.Target{Kind: access.Service, Name: "web", Project: "shop", Cluster: "a"}).Reason
	checkTrail(t, "no grant", func(tr *Trail, s *consolev1.ServiceStatus) {
		tr.Service.Spec.Catalog, tr.Service.Spec.ServiceAccount = true, "fleet"
		s.Cluster.Report.Phase = deliveryv1.Phase_PHASE_FAILED
		s.Cluster.Report.Message = "Nothing of it was applied: " + refused + "."
	}, "Next: an administrator can add a grant with role deployer for service account fleet with `fairlead apply`, "+
		"and the folder is tried again by itself, or look at what happened: fairlead history service shop-a.\n")
}

// checkTrail looks for parts of what is told after a change to a service with which nothing is wrong.
func checkTrail(t *testing.T, name string, change func(*Trail, *consolev1.ServiceStatus), parts ...string) {
	t.Helper()
	tr := well()
	tr.Service = proto.CloneOf(tr.Service)
	change(tr, tr.Service.GetStatus())
	got := tr.RenderText(tr.ListSteps())
	for _, want := range parts {
		if !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", name, want, got)
		}
	}
	if strings.Contains(got, "s3cret") {
		t.Errorf("%s: a password is shown:\n%s", name, got)
	}
}

// Of new content that is not applied on purpose the trail says what holds it, and what lets it go on.
func TestTraceSaysWhatHoldsAServiceAndWhatEndsThat(t *testing.T) {
	t.Parallel()
	const (
		dryRun, manual = deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, deliveryv1.SyncMode_SYNC_MODE_MANUAL
		resume         = "`fairlead resume service shop-a` ends the hold of the hub."
		before         = "`fairlead sync service shop-a --override` applies it before."
		annotated      = "Held by the annotation fairlead.dev/hold in the cluster (ada)."
	)
	closed, opens := &consolev1.WindowStatus{Closed: true}, clitest.Before(-2*time.Hour)
	for name, tt := range map[string]struct {
		mode    deliveryv1.SyncMode
		windows *consolev1.WindowStatus
		message string // of the cluster
		ends    string
	}{
		"held":      {mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, message: "Held (incident 7).", ends: resume},
		"a dry run": {mode: dryRun, message: "Nothing is applied, this is a dry run.", ends: resume},
		"manual mode": {
			mode: manual, message: "In manual mode.", ends: "`fairlead sync service shop-a` applies it.",
		},
		"manual mode in a closed window": {
			mode: manual, windows: closed, message: "In manual mode.",
			ends: "`fairlead sync service shop-a --override` applies it.",
		},
		"a closed window": {
			windows: &consolev1.WindowStatus{Closed: true, ChangeTime: opens}, message: `Closed: deny window "nights".`,
			ends: "it is applied when the service opens, in 2h, and " + before,
		},
		"a freeze": {
			windows: closed, message: "Closed: the freeze.",
			ends: "no end is in sight until the freeze is ended or the window changed, and " + before,
		},
		"an annotation in the cluster": {
			message: annotated,
			ends: "`kubectl annotate configmap -n fairlead-system inventory.shop-a fairlead.dev/hold-` " +
				"ends the hold in the cluster.",
		},
	} {
		phase, word := deliveryv1.Phase_PHASE_HELD, "held"
		if tt.mode == dryRun {
			phase, word = deliveryv1.Phase_PHASE_DIFFERS, "differs"
		}
		checkTrail(t, name, func(tr *Trail, s *consolev1.ServiceStatus) {
			tr.Service.Spec.Sync = &deliveryv1.SyncSpec{Mode: tt.mode}
			s.Windows, s.Cluster.Report.Phase, s.Cluster.Report.Message = tt.windows, phase, tt.message
		}, "CLUSTER   wait   for 3m: "+word, "it stands at CLUSTER for 3m: "+tt.message+
			" Next: `fairlead diff service shop-a` shows what differs, "+tt.ends+"\n")
	}
}
