package sink

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

func hostAt(kind, url string, repositories ...string) target {
	at := &resource.CommitStatusSink{URL: url, Repositories: repositories}
	spec := resource.SinkSpec{}
	switch kind {
	case "github":
		spec.GitHub = at
	case "gitlab":
		spec.GitLab = at
	case "gitea":
		spec.Gitea = at
	default:
		spec.Bitbucket = at
	}
	return target{name: "git", spec: spec, credentials: map[string]string{resource.SinkToken: plantedSecret}}
}

func TestRepositoriesOfSourcesAtAGitHost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, at, source, want string }{
		{"github", "", "https://github.com/acme/shop.git", "acme/shop"},
		{"github", "", "https://GitHub.com/acme/shop/", "acme/shop"},
		{"github", "", "git@github.com:acme/shop.git", "acme/shop"},
		{"github", "", "ssh://git@ssh.github.com:443/acme/shop.git", "acme/shop"},
		{"github", "", "https://github.com.evil.example/acme/shop", ""},
		{"github", "", "https://gitlab.com/acme/shop", ""},
		{"github", "", "https://github.com/acme", ""},
		{"github", "", "https://github.com/acme/shop/tree", ""},
		{"github", "https://ghe.example.com", "https://ghe.example.com/acme/shop", "acme/shop"},
		{"gitlab", "", "https://gitlab.com/acme/group/sub/shop.git", "acme/group/sub/shop"},
		{"gitlab", "", "ssh://git@altssh.gitlab.com:443/acme/shop.git", "acme/shop"},
		{"gitea", "https://example.com/git", "https://example.com/git/acme/shop.git", "acme/shop"},
		{"gitea", "https://example.com/git", "https://example.com/acme/shop.git", ""},
		{"gitea", "https://example.com/git", "git@example.com:acme/shop.git", "acme/shop"},
		{"bitbucket", "", "https://bitbucket.org/acme/shop.git", "acme/shop"},
		{"bitbucket", "https://bb.example.com", "https://bb.example.com/scm/ACME/shop.git", "ACME/shop"},
		{"bitbucket", "https://bb.example.com", "ssh://git@bb.example.com:7999/acme/shop.git", "acme/shop"},
		{"bitbucket", "https://bb.example.com", "", ""},
	} {
		if got := hostAt(test.kind, test.at).repository(test.source); got != test.want {
			t.Errorf("%s %s: %s is %q, want %q", test.kind, test.at, test.source, got, test.want)
		}
	}
	limited := hostAt("github", "", "acme/*", "other/docs")
	for source, want := range map[string]string{
		"acme/shop": "acme/shop", "other/docs": "other/docs",
		"other/shop": "",
	} {
		if got := limited.repository("https://github.com/" + source); got != want {
			t.Errorf("%s is %q, want %q", source, got, want)
		}
	}
}

// The public hosts have their APIs elsewhere, and Bitbucket Cloud another one than Bitbucket Data Center:
// https://developer.atlassian.com/cloud/bitbucket/rest/api-group-commit-statuses/.
func TestStatusesAtPublicHosts(t *testing.T) {
	t.Parallel()
	const commit = "0123456789012345678901234567890123456789"
	long := "fairlead/global/" + strings.Repeat("x", 60)
	for kind, test := range map[string]struct {
		to, header, value string
		fields            map[string]string
	}{
		"github": {"https://api.github.com/repos/acme/shop/statuses/" + commit, "Authorization", "Bearer " + plantedSecret, map[string]string{"state": "success", "context": long, "description": "healthy"}},
		"gitlab": {"https://gitlab.com/api/v4/projects/acme%2Fshop/statuses/" + commit, "Private-Token", plantedSecret, map[string]string{"state": "success", "name": long, "description": "healthy"}},
		"bitbucket": {"https://api.bitbucket.org/2.0/repositories/acme/shop/commit/" + commit + "/statuses/build", "Authorization", "Bearer " + plantedSecret, map[string]string{
			"state": "SUCCESSFUL", "name": long, "key": keyOf(long), "description": "healthy",
			"url": "https://bitbucket.org/acme/shop/commits/" + commit,
		}},
	} {
		is := commitStatus{name: long, CommitStatus: store.CommitStatus{
			Repository: "acme/shop", Commit: commit,
			State: statusHealthy, Description: "healthy",
		}}
		to, header, body, err := hostAt(kind, "").statusRequest(is)
		got := map[string]string{}
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || to != test.to || header.Get(test.header) != test.value || len(got) != len(test.fields) {
			t.Errorf("%s: %s %v %v: %v", kind, to, header, got, err)
		}
		for name, want := range test.fields {
			if got[name] != want {
				t.Errorf("%s: %s is %q, want %q", kind, name, got[name], want)
			}
		}
		is.link = "https://fairlead.example.com/" + strings.Repeat("x", maxLink)
		if _, _, body, err := hostAt(kind, "").statusRequest(is); err != nil ||
			strings.Contains(string(body), "fairlead.example.com") {
			t.Errorf("%s: a link that is too long: %s, %v", kind, body, err)
		}
	}
	if key := keyOf(long); len(key) != maxKey || key == keyOf(long+"x") || keyOf("fairlead/web") != "fairlead/web" {
		t.Errorf("key %q", key)
	}
	if got := describe("ä\n"+strings.Repeat("ö", 200), 140); utf8.RuneCountInString(got) != 140 ||
		!strings.HasSuffix(got, "…") || strings.Contains(got, "\n") {
		t.Errorf("described as %q", got)
	}
}

func TestLimitsOfRequestsAreHonoured(t *testing.T) {
	t.Parallel()
	f := failed("gitlab.com answers 429")
	f.status, f.header = http.StatusTooManyRequests, http.Header{}
	now := time.Unix(1_000_000, 0)
	for _, test := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "30", 30 * time.Second},
		{"Ratelimit-Reset", "1000090", 90 * time.Second},
		{"X-Ratelimit-Reset", "1009999", maxLimited},
		{"Retry-After", "-5", time.Second},
		{"", "", time.Minute},
	} {
		f.header = http.Header{test.name: {test.value}}
		if after, limited := limitedFor(f, now); !limited || after != test.want {
			t.Errorf("%s: %s waits %v, want %v", test.name, test.value, after, test.want)
		}
	}
	f.status, f.header = http.StatusForbidden, http.Header{}
	if _, limited := limitedFor(f, now); limited {
		t.Error("a token without a right waits for a limit")
	}
}

// at is a service at a cluster that has applied digests of a commit.
func at(cluster, commit, digest string, report *state.Report) state.Service {
	s := state.Service{Spec: state.ServiceSpec{Cluster: cluster}}
	s.Status.Hub = state.HubTruth{
		Digest: digest, Revision: state.Revision{Commit: commit},
		ResolveTime: time.Unix(int64(len(commit)), 0),
	}
	s.Status.Cluster.Report = report
	return s
}

func TestOutcomeOfServicesThatShareAStatus(t *testing.T) {
	t.Parallel()
	says := func(phase state.Phase, digest, applied, message string) *state.Report {
		return &state.Report{Phase: phase, Digest: digest, AppliedDigest: applied, Message: message}
	}
	away := at("edge-3", "c1", "d1", says(state.PhaseHealthy, "d1", "d1", ""))
	away.Status.State = state.Unknown
	broken := at("edge-2", "c1", "d1", nil)
	broken.Status.Hub.Problem = &state.Problem{Message: "folder deploy does not exist"}
	for want, services := range map[string][]state.Service{
		"fetched: fetched":                                            {at("edge-1", "c1", "d1", nil), at("edge-2", "c1", "d1", says(state.PhaseHealthy, "d0", "d0", ""))},
		"applied: applied on 1/2":                                     {at("edge-1", "c1", "d1", says(state.PhaseHealthy, "d1", "d1", "")), at("edge-2", "c1", "d1", says(state.PhaseApplying, "d1", "d0", ""))},
		"applied: applied on 2/2":                                     {at("edge-1", "c1", "d1", says(state.PhaseHealthy, "d1", "d1", "")), at("edge-2", "c1", "d1", says(state.PhaseProgressing, "d1", "d1", ""))},
		"healthy: healthy":                                            {at("edge-1", "c1", "d1", says(state.PhaseHealthy, "d1", "d1", "")), away},
		"fetched: fetched; not applied: held: incident 7":             {at("edge-1", "c1", "d1", says(state.PhaseHeld, "d1", "d0", "held: incident 7"))},
		"failed: failed: it could not be applied":                     {at("edge-1", "c1", "d1", says(state.PhaseFailed, "d1", "d0", ""))},
		"failed: failed on 1/2: edge-2: folder deploy does not exist": {at("edge-1", "c1", "d1", says(state.PhaseHealthy, "d1", "d1", "")), broken},
		"applied: applied on 1/2 ":                                    {at("edge-1", "c2+", "d1", says(state.PhaseHealthy, "d1", "d1", "")), at("edge-2", "c1", "d0", says(state.PhaseHealthy, "d0", "d0", ""))}, // not delivered there yet
	} {
		if word, description := outcome(services); word+": "+description != strings.TrimSpace(want) {
			t.Errorf("%s: %s, want %s", word, description, want)
		}
	}
}

func TestBriefDescriptionsNameNoClusterAndNoProblem(t *testing.T) {
	t.Parallel()
	for long, want := range map[string]string{
		"healthy": "healthy", "applied on 1/2": "applied on 1/2",
		"failed: no such folder: deploy; nothing else":          "failed",
		"failed on 1/2: edge-2: no such folder":                 "failed on 1/2",
		"applied on 1/2; not applied: edge-2: held: incident 7": "applied on 1/2",
	} {
		if got := brief(long); got != want {
			t.Errorf("%q: %q, want %q", long, got, want)
		}
	}
}

func TestStatusIsOfTheCommitWithWhichTheContentCame(t *testing.T) {
	t.Parallel()
	delivered := func(typ, commit, digest string) waiting {
		return waiting{Event: &consolev1.Event{Type: typ, Commit: commit, Digest: digest}}
	}
	services := []state.Service{at("edge-1", "c2", "d1", nil)}
	last := store.CommitStatus{Commit: "c1", Digest: "d1"}
	for want, events := range map[string][]waiting{
		"c1":   {delivered(event.ServiceHealthy, "c2", "d1")}, // a later commit that changes nothing
		"c3":   {delivered(event.ServiceDelivered, "c3", "d1"), delivered(event.ServiceApplied, "c2", "d0")},
		"c1 ":  {delivered(event.ServiceDelivered, "c3", "d9")}, // overtaken
		"c1  ": nil,
	} {
		if commit, _ := commitOf(services, events, last); commit != strings.TrimSpace(want) {
			t.Errorf("%v: %s, want %s", events, commit, want)
		}
	}
	if commit, digest := commitOf(services, nil, store.CommitStatus{Commit: "c0", Digest: ""}); commit != "c2" ||
		digest != "d1" {
		t.Errorf("after a commit that could not be delivered: %s %s", commit, digest)
	}
	services[0].Status.Git.Head = &state.Head{Revision: state.Revision{Commit: "c3"}} // of which the hub's word comes later
	recovered := []waiting{{Event: &consolev1.Event{Type: event.ServiceRecovered, Digest: "d1"}}}
	if commit, digest := commitOf(services, recovered, store.CommitStatus{Commit: "c3"}); commit != "c3" ||
		digest != "d1" {
		t.Errorf("of a commit that can be delivered again: %s %s", commit, digest)
	}
	services[0].Status.Hub.Problem = &state.Problem{Message: "no such folder"}
	services[0].Status.Git.Head = &state.Head{Revision: state.Revision{Commit: "c4"}}
	if commit, digest := commitOf(services, nil, last); commit != "c4" || digest != "" {
		t.Errorf("of a commit that can't be delivered: %s %s", commit, digest)
	}
}

// TestServicesOfSeveralSourcesHaveAStatusAtEachRepository at the commits that their revision is made of.
func TestServicesOfSeveralSourcesHaveAStatusAtEachRepository(t *testing.T) {
	t.Parallel()
	const combination = "combination:0123"
	service := func(digest, subject string) state.Service {
		s := at("edge-1", "together", digest, nil)
		s.Spec.Ref, s.Spec.Source = combination, "charts"
		s.Spec.Sources = []state.ServiceSource{
			{Name: "chart", Source: "charts"},
			{Name: "values", Source: "config", Ref: "main"},
			{Name: "base", Source: "elsewhere"},
		}
		s.Status.Hub.Revision.Subject = subject
		return s
	}
	old, head := strings.Repeat("b", 40), strings.Repeat("a", 40)
	sources := map[string]sourceOf{
		"charts": {}, "config": {url: "https://github.com/acme/config", commits: map[string]string{"refs/heads/main": head}},
		"elsewhere": {url: "https://git.example.com/acme/base", commits: map[string]string{"HEAD": head}},
	}
	b := &batch{target: hostAt("github", "")}
	const together = "chart 1.2.0 · values aaaaaaaa · base aaaaaaaa"
	for name, tc := range map[string]struct {
		service      state.Service
		last         store.CommitStatus
		want, digest string
	}{
		"new":                           {service("d1", together), store.CommitStatus{Commit: old, Digest: "d0"}, head, "d1"},
		"a commit that changes nothing": {service("d0", together), store.CommitStatus{Commit: old, Digest: "d0"}, old, "d0"},
		"overtaken":                     {service("d1", "chart 1.2.0 · values cccccccc"), store.CommitStatus{}, "", ""},
		"of no such source":             {service("d1", "values-2 aaaaaaaa"), store.CommitStatus{}, "", ""},
	} {
		key := store.CommitStatusKey{Context: "fairlead/web", Ref: combination + "/values"}
		tc.last.CommitStatusKey = key
		set := b.changed(&group{context: "fairlead/web"}, []state.Service{tc.service}, sources,
			map[store.CommitStatusKey]store.CommitStatus{key: tc.last})
		if tc.want == "" {
			if len(set) != 0 {
				t.Errorf("%s: %+v", name, set)
			}
			continue
		}
		if len(set) != 1 || set[0].Commit != tc.want || set[0].Digest != tc.digest ||
			set[0].Repository != "acme/config" || set[0].name != "fairlead/web/values" {
			t.Errorf("%s: %+v", name, set)
		}
	}
	broken := service("d0", together)
	broken.Status.Hub.Problem = &state.Problem{Message: "no such folder"}
	broken.Status.Git.Head = &state.Head{Revision: state.Revision{Subject: together}}
	if commit, digest := commitOfPart([]state.Service{broken}, "values", head, store.CommitStatus{Commit: old, Digest: "d0"}); commit != head || digest != "" {
		t.Errorf("of a revision that can't be delivered: %s %s", commit, digest)
	}
}

// GitHub takes 80 requests a minute: what waits behind the statuses of a pass waits for it, also with a shorter
// interval.
func TestStatusesArePaced(t *testing.T) {
	t.Parallel()
	b := batch{target: hostAt("github", ""), plan: &statusPlan{upTo: 1}, waiting: make([]waiting, 2)}
	b.spec.Interval = time.Second
	if got := b.pause(1); got != statusPause || time.Minute/statusPause*maxStatuses > 80 {
		t.Errorf("%d statuses every %v", maxStatuses, got)
	}
	b.plan.upTo = 2
	if got := b.pause(2); got != time.Second {
		t.Errorf("%v between two passes", got)
	}
	b.spec.Interval = 0
	if got := b.pause(2); got != 5*time.Second {
		t.Errorf("%v between two passes", got)
	}
	if isStatusEvent(event.SinkFailing) || !isStatusEvent(event.ServiceHealthy) {
		t.Error("statuses follow other events")
	}
}

// GitLab answers alike to a state that a status has and to one that it can't get: only the first is settled.
func TestGitLabsAnswerToAStateThatAStatusHas(t *testing.T) {
	t.Parallel()
	gitlab := hostOf(hostAt("gitlab", "").spec)
	for message, states := range map[string][]string{
		`Cannot transition status via :run from :running (Reason(s): Status cannot transition via "run")`: {statusApplied, statusFetched},
		`400 Bad Request: {"message":"Cannot transition status via :enqueue from :pending"}`:              {statusFetched},
		"Cannot transition status via :drop from :success":                                                {statusHealthy},
		"Cannot transition status": nil,
		"from :running":            nil,
	} {
		for _, word := range []string{statusFetched, statusApplied, statusHealthy, statusFailed} {
			if got := gitlab.stands(message, word); got != slices.Contains(states, word) {
				t.Errorf("%s: %s: %v", message, word, got)
			}
		}
	}
}

// A sink to whose statuses the events change nothing reads them at the pace of the others.
func TestAPassThatSetsNothingWaits(t *testing.T) {
	t.Parallel()
	d := newDeliverer()
	b := batch{target: hostAt("github", ""), plan: &statusPlan{upTo: 2}, waiting: waitingFor(2), next: 2}
	var of store.Sending
	if _, wait := d.send(t.Context(), &of, b); wait != b.interval() || of.Seq != 2 {
		t.Errorf("waits %v at %d", wait, of.Seq)
	}
}

// What a sink has set is kept with how far it is: a claim that is lost keeps neither.
func TestStatusesAreKeptWithTheClaim(t *testing.T) {
	t.Parallel()
	d, uid := deliverTo(t, newPager(t, func(string, string) int { return 0 }))
	is := store.CommitStatus{
		CommitStatusKey: store.CommitStatusKey{Context: "fairlead/web", Ref: "HEAD"},
		Repository:      "acme/shop", Commit: "c1", Digest: "d1", State: statusHealthy,
	}
	of, mine, err := d.Store.ClaimSending(t.Context(), uid, d.ID, claimFor)
	if err != nil || !mine {
		t.Fatalf("claimed: %v, %v", mine, err)
	}
	count := func() (n int) {
		err := d.Store.Read(t.Context(), func(ctx context.Context, v store.View) error {
			found, err := v.CommitStatuses(ctx, uid, []string{is.Context})
			n = len(found)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	lost := of
	lost.Sender = "b"
	if kept, err := d.Store.PutStatuses(t.Context(), lost, 0, []store.CommitStatus{is}, nil); kept || err != nil ||
		count() != 0 {
		t.Errorf("a claim that is lost keeps %d statuses: %v, %v", count(), kept, err)
	}
	if kept, err := d.Store.PutStatuses(t.Context(), of, 0, []store.CommitStatus{is}, nil); !kept || err != nil ||
		count() != 1 {
		t.Errorf("a claim keeps %d statuses: %v, %v", count(), kept, err)
	}
}
