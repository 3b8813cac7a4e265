package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/resource"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalogyaml"
)

func TestNewerVersionsAreToldOfOneSourceAndInWideTables(t *testing.T) {
	t.Parallel()
	charts := func(heads ...*consolev1.Head) *consolev1.Source {
		return &consolev1.Source{
			Metadata: clitest.Meta("charts"),
			Spec:     &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: "https://charts.example.com"}},
			Status:   &consolev1.SourceStatus{Heads: heads},
		}
	}
	s := charts(
		&consolev1.Head{Ref: "chart:redis@^19.1", ResolvedRef: "chart:redis@19.1.5", NewerVersion: "20.1.0"},
		&consolev1.Head{Ref: "chart:web@1.0.0", ResolvedRef: "chart:web@1.0.0"},
	)
	const want = "charts: newer versions: redis ^19.1 has 19.1.5, and there is 20.1.0"
	for name, c := range map[string]struct {
		view  View
		found []catalogyaml.Message
		told  bool
	}{
		"one":  {View{Now: clitest.Noon()}, []catalogyaml.Message{s}, true},
		"many": {View{Now: clitest.Noon()}, []catalogyaml.Message{s, charts()}, false},
		"wide": {View{Now: clitest.Noon(), Wide: true}, []catalogyaml.Message{s, charts()}, true},
	} {
		if got := render(t, c.view, resource.SourceKind(), c.found); strings.Contains(got, want) != c.told {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

func services() []catalogyaml.Message {
	revision := func(commit string, age time.Duration) *artifactv1.Revision {
		return &artifactv1.Revision{Commit: strings.Repeat(commit, 8), CommitTime: clitest.Before(age)}
	}
	failing := &consolev1.Service{
		Metadata: clitest.Meta("shop-b"),
		Spec:     &consolev1.ServiceSpec{Source: "shop", Ref: "main", Path: "deploy", Cluster: "b"},
		Status: &consolev1.ServiceStatus{
			State: consolev1.ServiceState_SERVICE_STATE_FAILED, StateMessage: "deploy/web.yaml: line 3:\nno kind",
			StateSince: clitest.Before(3 * time.Minute),
			Git: &consolev1.GitTruth{
				Revision: revision("abcde", 4*time.Minute),
				Problem:  &consolev1.Problem{Message: "401 from git.example.com", Since: clitest.Before(time.Hour)},
			},
			Hub: &consolev1.HubTruth{
				Digest: "sha256:0123456789", Revision: revision("12345", time.Hour),
				ResolveTime: clitest.Before(200 * time.Second),
			},
			Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{
				Phase: deliveryv1.Phase_PHASE_FAILED, AppliedCommit: strings.Repeat("12345", 8),
				AppliedTime: clitest.Before(48 * time.Hour), ObservedTime: clitest.Before(3 * time.Minute),
				Message: "2 objects are refused", ObjectsTotal: 9, ObjectsHealthy: 7,
				Objects: []*deliveryv1.ObjectReport{
					{
						Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web",
						Health: "Failed", Message: "spec.replicas: \x1b[31mnot a number",
					},
					{Version: "v1", Kind: "Namespace", Name: "shop", Health: "Missing"},
				},
			}},
		},
	}
	return []catalogyaml.Message{
		&consolev1.Service{Metadata: clitest.Meta("new"), Spec: &consolev1.ServiceSpec{Source: "shop", Cluster: "a"}},
		&consolev1.Service{
			Metadata: clitest.Meta("shop-a"), Spec: &consolev1.ServiceSpec{Source: "shop", Cluster: "a"},
			Status: &consolev1.ServiceStatus{
				State: consolev1.ServiceState_SERVICE_STATE_HEALTHY,
				Git: &consolev1.GitTruth{
					Revision: &artifactv1.Revision{Commit: "fedcba9876"}, FetchTime: clitest.Before(90 * time.Second),
				},
				Hub: &consolev1.HubTruth{
					Digest: "sha256:0123456789", Revision: &artifactv1.Revision{Commit: "fedcba9876"},
					ResolveTime: clitest.Before(80 * time.Second),
				},
				Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{
					Phase: deliveryv1.Phase_PHASE_HEALTHY, AppliedCommit: "fedcba9876",
					AppliedTime: clitest.Before(70 * time.Second), ObjectsTotal: 3, ObjectsHealthy: 3,
				}},
			},
		},
		failing,
	}
}

func render(t *testing.T, v View, k resource.Kind, found []catalogyaml.Message) string {
	t.Helper()
	var b strings.Builder
	tb, notes := v.BuildTable(k, found)
	if err := tb.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String() + v.NotesText(notes)
}

// Figures of a connected cluster that are not of now have a note, also where the hub never kept one.
func TestWideClustersSayWhyTheirFiguresAreNotOfNow(t *testing.T) {
	t.Parallel()
	const refused = "the hub has refused all pushes of the agent since 2026-03-01T11:00:00Z: a view of 70000 bytes"
	connected := &consolev1.ClusterStatus{Connected: true, LastSeenTime: clitest.Before(time.Second), AgentVersion: "v1"}
	v := View{Now: clitest.Noon(), Wide: true, Figures: map[string]*consolev1.ClusterView{
		"before": {Connected: true, Unfollowed: refused}, "never": {Connected: true, Missing: refused}, "away": {Missing: refused},
	}}
	got := render(t, v, resource.ClusterKind(), []catalogyaml.Message{
		&consolev1.Cluster{Metadata: clitest.Meta("away"), Status: &consolev1.ClusterStatus{LastSeenTime: clitest.Before(time.Hour), AgentVersion: "v1"}},
		&consolev1.Cluster{Metadata: clitest.Meta("before"), Status: connected}, &consolev1.Cluster{Metadata: clitest.Meta("never"), Status: connected},
	})
	for _, want := range []string{"\nbefore: its figures are of before: " + refused, "\nnever: its figures are not known: " + refused} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "away: its figures") {
		t.Errorf("of a cluster that is away it says\n%s", got)
	}
	row := &consolev1.ClusterViewRow{Cluster: "before", Connected: true, UnfollowedTime: clitest.Before(time.Hour)}
	if got := v.RowState(row); got != "as of 60m ago" {
		t.Errorf("a row of before is %q", got)
	}
}

func TestServicesShowThreeTruthsAndEveryCause(t *testing.T) {
	t.Parallel()
	want := `NAME    CLUSTER  STATE    SYNC      GIT             HUB              APPLIED
new     a        Pending  -         -               -                -
shop-a  a        Healthy  in sync   fedcba98 (90s)  fedcba98 (80s)   fedcba98 (70s)
shop-b  b        Failed   3 behind  abcdeabc (4m)   12345123 (3m)    12345123 (2d)

shop-b: for 3m: deploy/web.yaml: line 3: no kind
shop-b: for 60m: 401 from git.example.com
`
	if got := clitest.Squeeze(render(t, View{Now: clitest.Noon(), Behind: map[string]Distance{"shop-b": {Commits: 3}}}, resource.ServiceKind(),
		services())); got != clitest.Squeeze(want) {
		t.Errorf("got\n%swant\n%s", got, clitest.Squeeze(want))
	}
	wide := clitest.Squeeze(render(t, View{Now: clitest.Noon(), Wide: true}, resource.ServiceKind(), services()))
	for _, want := range []string{
		"APPLIED HEALTH TESTS SEEN SOURCE REF PATH NAMESPACE\n",
		"\nshop-b b Failed behind abcdeabc (4m, stale 60m) 01234567 of 12345123 (3m) 12345123 (2d) failed 7/9 (3m) - - shop main deploy -\n",
	} {
		if !strings.Contains(wide, want) {
			t.Errorf("no %q in\n%s", want, wide)
		}
	}
}

// A service differs from what the hub hands out for more than commits of its folder: those of folders that it refers to,
// and a rollback that failed.
func TestServicesThatRunOtherThanTheHubHandsOutAreNotInSync(t *testing.T) {
	t.Parallel()
	base, back := clitest.WellService(), clitest.WellService()
	base.Status.Cluster.Report.AppliedDigest, base.Status.Cluster.Report.AppliedCommit = "sha256:before", "0123456789"
	back.Status.Hub.Digest, back.Status.Hub.Revision = "sha256:back", &artifactv1.Revision{Commit: "0123456789"}
	lever := clitest.WellService()
	lever.Status.Hub.Digest = "sha256:lever"
	if got := (View{}).syncText(lever); got != "in sync" {
		t.Errorf("a healthy service after a lever is %q", got)
	}
	base.Status.State, back.Status.State = consolev1.ServiceState_SERVICE_STATE_HELD, consolev1.ServiceState_SERVICE_STATE_FAILED
	for name, s := range map[string]*consolev1.Service{"a folder that it refers to": base, "a rollback": back} {
		v := View{Now: clitest.Noon(), Behind: map[string]Distance{"shop-a": {}}}
		if got := v.syncText(s); got != "behind" {
			t.Errorf("%s: the service is %q", name, got)
		}
	}
	if got := (View{Behind: map[string]Distance{"shop-a": {Commits: 2}}}).syncText(base); got != "2 behind" {
		t.Errorf("with 2 commits of its folder the service is %q", got)
	}
}

func TestWideServicesShowWhatCanBeComparedAndHowOldItIs(t *testing.T) {
	t.Parallel()
	held, gone := clitest.WellService(), clitest.WellService()
	held.Status.Hub.Problem = &consolev1.Problem{Message: "no folder", Since: clitest.Before(5 * time.Minute)}
	held.Status.Git.Problem = &consolev1.Problem{Message: "401", Since: clitest.Before(6 * time.Minute)}
	gone.Spec.Cluster = "b"
	gone.Status.State, gone.Status.StateSince = consolev1.ServiceState_SERVICE_STATE_UNKNOWN, clitest.Before(10*time.Minute)
	v := View{
		Now: clitest.Noon(), Wide: true,
		Seen: map[string]*timestamppb.Timestamp{"a": clitest.Before(20 * time.Second), "b": clitest.Before(10 * time.Minute)},
	}
	got := clitest.Squeeze(render(t, v, resource.ServiceKind(), []catalogyaml.Message{held, gone}))
	for _, want := range []string{
		"a Healthy in sync fedcba98 (5m, stale 6m) 01234567 of fedcba98 (3m, held up 5m) 01234567 of fedcba98 (3m) healthy 3/3 (3m) - 20s ago shop main deploy -\n",
		"b Unknown in sync fedcba98 (5m) 01234567 of fedcba98 (3m) 01234567 of fedcba98 (3m) unknown, was healthy 3/3 10m ago - 10m ago shop main deploy -\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestObjectsThatAreNotHealthyAreListed(t *testing.T) {
	t.Parallel()
	want := `
shop-b in cluster b, failed for 3m:
  2 objects are refused
  OBJECT                     HEALTH   MESSAGE
  shop: Deployment.apps/web  Failed   spec.replicas: [31mnot a number
  Namespace/shop             Missing  -
`
	if got := (View{Now: clitest.Noon()}).ListUnhealthy(services()); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestClustersSayWhatToDo(t *testing.T) {
	t.Parallel()
	got := clitest.Squeeze(render(t, View{Now: clitest.Noon()}, resource.ClusterKind(), []catalogyaml.Message{
		&consolev1.Cluster{Metadata: clitest.Meta("new")},
		&consolev1.Cluster{
			Metadata: clitest.Meta("gone"),
			Status: &consolev1.ClusterStatus{
				JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(10 * time.Minute), AgentVersion: "v1",
				KubernetesVersion: "v1.36.3",
			},
		},
		&consolev1.Cluster{
			Metadata: clitest.Meta("well"),
			Status: &consolev1.ClusterStatus{
				JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(10 * time.Second), AgentVersion: "v1",
				Connected: true,
			},
		},
		&consolev1.Cluster{
			Metadata: clitest.Meta("old"),
			Status: &consolev1.ClusterStatus{
				JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(10 * time.Second), AgentVersion: "v0",
				Connected: true, Skew: "1 major version behind v1",
			},
		},
		&consolev1.Cluster{Metadata: clitest.Meta("twice"), Status: &consolev1.ClusterStatus{
			JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(10 * time.Second), AgentVersion: "v1", Connected: true,
			TokenReuseTime: clitest.Before(5 * time.Minute), TokenReuse: "from 10.0.0.9: a token",
		}},
		&consolev1.Cluster{
			Metadata: clitest.Meta("keyless"),
			Status: &consolev1.ClusterStatus{
				LastSeenTime: clitest.Before(10 * time.Second), AgentVersion: "v0", Connected: true, TokenUnbound: true,
			},
		},
	}))
	want := "NAME STATE LAST-SEEN AGENT KUBERNETES\n" +
		"new Pending - - -\n" +
		"gone Disconnected 10m ago v1 v1.36.3\n" +
		"well Connected 10s ago v1 -\n" +
		"old Connected 10s ago v0 -\n" +
		"twice Copied 10s ago v1 -\n" +
		"keyless Connected 10s ago v0 -\n" +
		"\nnew: no agent has joined: run `fairlead cluster join-token new`\n" +
		"gone: not heard of for 10m: is its agent running, and can it reach the hub?\n" +
		"old: its agent is 1 major version behind v1: `fairlead cluster manifest old | kubectl apply --server-side -f -` upgrades it\n" +
		"twice: 5m ago a token of its agent was used that had been renewed before, so somebody may have a copy of the agent's data folder (from 10.0.0.9: a token): " +
		"`fairlead cluster leave twice` ends it, then let the agent join again with `fairlead cluster join-token twice`\n" +
		"keyless: its agent's token is bound to no key, so a copy of it can't be told from it: upgrade the agent before the hub stops to accept it (--unsigned-members)\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAMissingRefIsNoProblemOfItsSource(t *testing.T) {
	t.Parallel()
	source := func(name string, missing bool, refs ...string) *consolev1.Source {
		s := &consolev1.Source{
			Metadata: clitest.Meta(name),
			Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "https://git.example.com/x.git"}},
			Status: &consolev1.SourceStatus{
				Problem: &consolev1.Problem{
					Message: `source "` + name + `": gone`, Since: clitest.Before(time.Minute), Refs: refs,
				},
			},
		}
		for _, ref := range refs {
			s.Status.Problem.RefProblems = append(s.Status.Problem.RefProblems, &consolev1.RefProblem{
				Ref: ref, Message: "gone", Missing: missing,
			})
		}
		return s
	}
	got := clitest.Squeeze(render(t, View{
		Now: clitest.Noon(),
	}, resource.SourceKind(), []catalogyaml.Message{
		source("wrong", true, "refs/heads/x"), source("part", false, "refs/heads/x"), source("whole", false),
	}))
	want := "NAME STATE DEFAULT-BRANCH FETCHED URL\nwrong Ready - - https://git.example.com/x.git\npart Degraded - - https://git.example.com/x.git\nwhole Failing - - https://git.example.com/x.git\n\npart, whole: for 60s: gone\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestSourcesHideCredentials(t *testing.T) {
	t.Parallel()
	got := render(t, View{Now: clitest.Noon(), Wide: true}, resource.SourceKind(), []catalogyaml.Message{&consolev1.Source{
		Metadata: clitest.Meta("shop"), Spec: &consolev1.SourceSpec{
			Git: &consolev1.GitSource{Url: "https://kim:s3cret@git.example.com/x.git"},
		},
	}})
	if strings.Contains(got, "s3cret") || !strings.Contains(got, "https://git.example.com/x.git") {
		t.Errorf("got\n%s", got)
	}
}

func TestNotesSayTheSameOnce(t *testing.T) {
	t.Parallel()
	var found []catalogyaml.Message
	for i := range 30 {
		found = append(found, &consolev1.Service{
			Metadata: clitest.Meta(fmt.Sprintf("a-%02d", i)), Status: &consolev1.ServiceStatus{
				State: consolev1.ServiceState_SERVICE_STATE_FAILED, StateMessage: "401 from git.example.com",
				StateSince: clitest.Before(time.Minute),
			},
		})
	}
	for i := range 30 {
		name := fmt.Sprintf("b-%02d", i)
		found = append(found, &consolev1.Service{Metadata: clitest.Meta(name), Status: &consolev1.ServiceStatus{
			State:        consolev1.ServiceState_SERVICE_STATE_FAILED,
			StateMessage: fmt.Sprintf("service %q: folder %q is not there", name, name),
		}})
	}
	got := render(t, View{Now: clitest.Noon()}, resource.ServiceKind(), found)
	for _, want := range []string{
		"\n\na-00, a-01, a-02, a-03, a-04 and 25 more: for 60s: 401 from git.example.com\n",
		"\nb-18: folder \"b-18\" is not there\n11 more: see -o wide\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if wide := render(t, View{Now: clitest.Noon(), Wide: true}, resource.ServiceKind(),
		found); !strings.Contains(wide, "a-29: for 60s:") || !strings.Contains(wide, "b-29: folder") {
		t.Errorf("-o wide leaves something out:\n%s", wide)
	}
}

func TestWhatRunsIsNamedByTheNewestCommitWithItsContent(t *testing.T) {
	t.Parallel()
	for want, report := range map[string]*deliveryv1.ServiceReport{
		"new": {Commit: "new", Digest: "x", AppliedCommit: "old", AppliedDigest: "x"},
		"old": {Commit: "new", Digest: "y", AppliedCommit: "old", AppliedDigest: "x"},
		"":    {Commit: "new", Digest: "y"},
	} {
		if got := AppliedCommit(report); got != want {
			t.Errorf("%v: got %q, want %q", report, got, want)
		}
	}
}

func TestWideSourcesShowWhatGitcachesKnow(t *testing.T) {
	t.Parallel()
	source := func(name string) catalogyaml.Message {
		return &consolev1.Source{
			Metadata: clitest.Meta(name),
			Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: "git@git.example.com:" + name}},
			Status:   &consolev1.SourceStatus{Owner: "before", Epoch: 2},
		}
	}
	v := View{Now: clitest.Noon(), Wide: true, Live: map[string]*gitcachev1.LiveSource{
		"known": {
			Owner: "gitcache-0", Epoch: 3, LastPollTime: clitest.Before(40 * time.Second),
			NextPollTime: clitest.Before(-80 * time.Second), StaleSince: clitest.Before(5 * time.Minute),
			UpstreamRequestsLastHour: 31, MirrorBytes: 3 << 20, Standbys: []string{"gitcache-1", "gitcache-2"},
		},
		"silent": {Owner: "gitcache-9"},
	}}
	tab, _ := v.BuildTable(resource.SourceKind(), []catalogyaml.Message{source("known"), source("silent"), source("unknown")})
	var b strings.Builder
	if err := tab.Write(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{
		1: "git@git.example.com:known 0 gitcache-0 3 40s ago in 80s 5m 31 3.0 MiB gitcache-1, gitcache-2",
		2: "git@git.example.com:silent 0 gitcache-9 2 - - - - - -",
		3: "git@git.example.com:unknown 0 before 2 - - - - - -",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An alert that can find nothing is not quiet.
func TestAnAlertWithoutItsFigureSaysSo(t *testing.T) {
	t.Parallel()
	const problem = `there is no ViewSet "certs": no cluster has figures of set-certs before it is written`
	kind, err := resource.FindKind("alert")
	if err != nil {
		t.Fatal(err)
	}
	got := render(t, View{Now: clitest.Noon()}, kind, []catalogyaml.Message{
		&consolev1.Alert{
			Metadata: clitest.Meta("a"), Spec: &consolev1.AlertSpec{When: "set-certs.total > 0"},
			Status: &consolev1.AlertStatus{Problem: problem},
		},
		&consolev1.Alert{
			Metadata: clitest.Meta("b"), Spec: &consolev1.AlertSpec{When: "pods.total > 0"},
			Status: &consolev1.AlertStatus{},
		},
	})
	for _, want := range []string{"a Failing 0", "b Quiet 0", "a: " + problem} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}
