package state

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// unreadable is what no person should read: names of enums, one of several things, and sentences without an end before
// the next.
var unreadable = regexp.MustCompile(`[A-Z]{2,}_[A-Z]|\b1 \w+s are\b|[a-z)] [0-9a-f]{8} stays applied`)

func TestStateOverThreeTruths(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	const a, b = "aaaaaaaa0000000000000000000000000000aaaa", "bbbbbbbb0000000000000000000000000000bbbb"
	connected := ClusterStatus{JoinTime: at(600), LastSeen: at(1), Connected: true}
	head := &Head{Ref: "HEAD", Revision: Revision{Commit: b}, FetchTime: at(30)}
	hub := HubTruth{Digest: "db", Revision: Revision{Commit: b}, ResolveTime: at(29)}
	report := func(phase Phase, digest, applied, message string) *Report {
		return &Report{
			Phase: phase, Digest: digest, AppliedDigest: applied, AppliedCommit: a, Commit: a,
			Message: message, ObjectsTotal: 3, ObjectsHealthy: 2, ObservedTime: at(5),
		}
	}
	for name, tc := range map[string]struct {
		git     GitTruth
		hub     HubTruth
		cluster ClusterStatus
		report  *Report
		want    State
		words   []string
		since   time.Time
	}{
		"nothing fetched": {cluster: connected, want: Pending, words: []string{`Source "shop" has not been fetched`}, since: at(700)},
		"never fetched for a reason": {
			git: GitTruth{Problem: &Problem{Message: "401 from git.example.com.", Since: at(9)}}, cluster: connected,
			want:  Failed,
			words: []string{"Nothing could be fetched: 401"}, since: at(9),
		},
		"not resolved yet": {git: GitTruth{Head: head}, cluster: connected, want: Pending, words: []string{"bbbbbbbb is fetched", "distributor"}, since: at(30)},
		"can't be resolved": {
			git: GitTruth{Head: head}, hub: HubTruth{
				Digest: "da", Revision: Revision{Commit: a},
				Problem: &Problem{Message: `path "x" does not exist.`, Since: at(8)},
			},
			cluster: connected, report: report(PhaseHealthy, "da", "da", ""), want: Failed,
			words: []string{`path "x"`, "aaaaaaaa stays applied"}, since: at(8),
		},
		"no agent": {
			git: GitTruth{Head: head}, hub: hub, want: Pending,
			words: []string{`Cluster "edge" has no agent yet`}, since: at(700), // the service is newer than the cluster
		},
		"joined, never synced": {
			git: GitTruth{Head: head}, hub: hub, cluster: ClusterStatus{JoinTime: at(600)}, want: Pending,
			words: []string{"joined at", "reaches a distributor"}, since: at(600),
		},
		"disconnected beats healthy": {
			git: GitTruth{Head: head}, hub: hub, cluster: ClusterStatus{JoinTime: at(600), LastSeen: at(150)},
			report: report(PhaseHealthy, "db", "db", ""),
			want:   Unknown, words: []string{
				"2 h ago", "2026-11-20 09:30:00 UTC", "it said then: healthy",
				"Check that the agent runs",
			}, since: at(150),
		},
		"disconnected beats failed": {
			git: GitTruth{Problem: &Problem{Message: "401."}}, cluster: ClusterStatus{LastSeen: at(150)}, want: Unknown,
			words: []string{"not connected"}, since: at(150),
		},
		"newer commit": {
			git: GitTruth{Head: head}, hub: HubTruth{Digest: "da", Revision: Revision{Commit: a}}, cluster: connected,
			report: report(PhaseHealthy, "da", "da", ""),
			want:   Progressing, words: []string{"bbbbbbbb is fetched", "hands out aaaaaaaa"}, since: at(30),
		},
		"no report":                {git: GitTruth{Head: head}, hub: hub, cluster: connected, want: Progressing, words: []string{"has not reported"}, since: at(29)},
		"report on the one before": {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseFailed, "da", "", "no such kind."), want: Progressing, words: []string{"the cluster still reports on aaaaaaaa.", "That failed: no such kind."}, since: at(29)},
		"applying":                 {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseApplying, "db", "da", ""), want: Progressing, words: []string{"2 of 3"}, since: at(5)},
		"healthy":                  {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseHealthy, "db", "db", ""), want: Healthy, words: []string{"bbbbbbbb is applied"}, since: at(5)},
		"healthy, but not applied": {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseHealthy, "db", "da", ""), want: Progressing, since: at(5)},
		"degraded":                 {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseDegraded, "db", "db", ""), want: Degraded, words: []string{"2 of 3"}, since: at(5)},
		"failed":                   {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseFailed, "db", "da", "bad manifest."), want: Failed, words: []string{"bad manifest.", "aaaaaaaa stays applied"}, since: at(5)},
		"failed, and it says what stays": {
			git: GitTruth{Head: head}, hub: hub, cluster: connected,
			report: report(PhaseFailed, "db", "da", "bad manifest; the previous state stays applied."), want: Failed,
			words: []string{"bad manifest; the previous state stays applied."}, since: at(5),
		},
		"failed, without a full stop": {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseFailed, "db", "da", "bad manifest"), want: Failed, words: []string{"bad manifest. aaaaaaaa stays applied."}, since: at(5)},
		"one object": {
			git: GitTruth{Head: head}, hub: hub, cluster: connected,
			report: func() *Report { r := report(PhaseHealthy, "db", "db", ""); r.ObjectsTotal = 1; return r }(),
			want:   Healthy,
			words:  []string{"bbbbbbbb is applied; 1 object is healthy."}, since: at(5),
		},
		"held": {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseHeld, "db", "da", "Held (incident 7)."), want: Held, words: []string{"incident 7"}, since: at(5)},
		"held, and can't be resolved": {
			git: GitTruth{Head: head}, hub: HubTruth{Digest: "da", Problem: &Problem{Message: "no.", Since: at(8)}},
			cluster: connected, report: report(PhaseHeld, "da", "da", ""), want: Failed, since: at(8),
		},
		"held, and gone":    {git: GitTruth{Head: head}, hub: hub, cluster: ClusterStatus{LastSeen: at(150)}, report: report(PhaseHeld, "db", "da", ""), want: Unknown, since: at(150)},
		"held, nothing new": {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseHealthy, "db", "db", "Held."), want: Healthy, words: []string{"bbbbbbbb is applied", "Held."}, since: at(5)},
		"waiting":           {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseWaiting, "db", "da", "Waits for service db."), want: Waiting, words: []string{"service db"}, since: at(5)},
		"differs":           {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseDiffers, "db", "da", "2 objects differ."), want: Differs, words: []string{"2 objects", "fairlead diff service"}, since: at(5)},
		"removed":           {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report(PhaseRemoved, "db", "", ""), want: Progressing, words: []string{"apply it again"}, since: at(5)},
		"unknown phase":     {git: GitTruth{Head: head}, hub: hub, cluster: connected, report: report("", "db", "db", ""), want: Progressing, since: at(5)},
		"healthy from the cache": {
			git: GitTruth{Head: head, Problem: &Problem{Message: "git.example.com does not answer.", Since: at(60)}},
			hub: hub, cluster: connected, report: report(PhaseHealthy, "db", "db", ""),
			want: Healthy, words: []string{"since 2026-11-20 11:00:00 UTC", "from the cache", "does not answer"},
			since: at(5),
		},
		"healthy, with its branch gone": {
			git: GitTruth{Head: head, Problem: &Problem{
				Message: "branch main is gone upstream.", Refs: []string{"refs/heads/main"}, Since: at(60),
			}},
			hub: hub, cluster: connected, report: report(PhaseHealthy, "db", "db", ""),
			want: Healthy, words: []string{"are healthy. branch main is gone upstream."}, since: at(5),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Service{Meta: Meta{UpdateTime: at(700)}, Spec: ServiceSpec{Source: "shop"}}
			s.Status.Git, s.Status.Hub, s.Status.Cluster = tc.git, tc.hub, ClusterTruth{Report: tc.report}
			cluster := Cluster{Meta: Meta{Name: "edge", CreateTime: at(800)}, Status: tc.cluster}
			state, message, since := judge(s, cluster, now)
			if state != tc.want || !since.Equal(tc.since) || message == "" || strings.TrimSpace(message) != message {
				t.Errorf("got %s since %s: %s", state, since, message)
			}
			for _, w := range tc.words {
				if !strings.Contains(message, w) {
					t.Errorf("%q does not say %q", message, w)
				}
			}
			if wrong := unreadable.FindString(message); wrong != "" || strings.Count(message, "stays applied") > 1 {
				t.Errorf("%q: %q", message, wrong)
			}
		})
	}
}

// A gitcache gives the problem of the source as the reason why its content can't be had.
func TestAProblemOfTheSourceIsSaidOnce(t *testing.T) {
	t.Parallel()
	const problem = `source "own": rb/kustomization.yaml line 2 at commit bbbbbbbb: base x: no such branch`
	for _, refs := range [][]string{{"HEAD"}, nil} {
		s := Service{Meta: Meta{Name: "rb"}, Spec: ServiceSpec{Source: "own"}}
		s.Status.Git = GitTruth{
			Head: &Head{Ref: "HEAD", Revision: Revision{Commit: "bbbbbbbb0000"}}, Problem: &Problem{Message: problem, Refs: refs},
		}
		s.Status.Hub.Problem = &Problem{Message: "The content can't be had from a gitcache: " + problem + ". It is tried again."}
		_, got, _ := judge(s, Cluster{Status: ClusterStatus{LastSeen: time.Now(), Connected: true}}, time.Now())
		if strings.Count(got, problem) != 1 {
			t.Errorf("the problem is there %d times, want once: %s", strings.Count(got, problem), got)
		}
	}
}

func TestALostRefIsAProblemOfItsServicesOnly(t *testing.T) {
	t.Parallel()
	source := Source{Status: SourceStatus{Problem: &Problem{Message: "ref is gone", Refs: []string{"refs/heads/gone"}}}}
	if truth := GitTruthOf(&source, "gone"); truth.Problem == nil {
		t.Error("its own service has no problem")
	}
	for _, ref := range []string{"main", "", "refs/tags/gone"} {
		if truth := GitTruthOf(&source, ref); truth.Problem != nil {
			t.Errorf("%q: %s", ref, truth.Problem.Message)
		}
	}
	source.Status.Problem.Refs = nil
	if truth := GitTruthOf(&source, "main"); truth.Problem == nil {
		t.Error("a problem of the whole source is nobody's")
	}
}
