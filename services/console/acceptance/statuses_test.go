package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/console"
)

// gitHost is a stand-in for a Git host's statuses of commits. The stand-in takes what the public documentation of the
// host allows, and keeps the last status of each name.
type gitHost struct {
	*httptest.Server
	take func(req *http.Request, body map[string]string) (status string, err error)

	mu      sync.Mutex
	took    []string                      // Guarded by mu.
	bad     []string                      // Guarded by mu.
	refuse  func(http.ResponseWriter) int // The answer to the next requests; nil: they are taken. Guarded by mu.
	refused int                           // Guarded by mu.
}

func newGitHost(t *testing.T, take func(req *http.Request, body map[string]string) (string, error)) *gitHost {
	t.Helper()
	h := &gitHost{take: take}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *gitHost) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(req.Body)
	body := map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		h.refused++
		w.WriteHeader(h.refuse(w))
		_, _ = io.WriteString(w, `{"message":"said with `+plantedToken+`"}`)
		return
	}
	var took string
	if err == nil {
		if req.Method != http.MethodPost || !strings.HasPrefix(req.Header.Get("Content-Type"), "application/json") {
			err = fmt.Errorf("not POST with JSON")
		} else {
			took, err = h.take(req, body)
		}
	}
	if err != nil {
		h.bad = append(h.bad, fmt.Sprintf("%s %s: %v: %s", req.Method, req.URL, err, text))
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	h.took = append(h.took, took)
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":1}`)
}

func (h *gitHost) got(t *testing.T) []string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bad) > 0 {
		t.Fatal(h.bad)
	}
	return slices.Clone(h.took)
}

func (h *gitHost) refuses(answer func(http.ResponseWriter) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse, h.refused = answer, 0
}

func (h *gitHost) refusals() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// only says what is wrong with the fields of a body: those that must be there are long enough and short enough, and
// there are no others.
func only(body map[string]string, most int, fields ...string) error {
	for name := range body {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("field %q", name)
		}
	}
	for _, name := range fields {
		if strings.HasSuffix(name, "url") {
			if u, err := url.Parse(body[name]); body[name] != "" && (err != nil || u.Scheme != "https") {
				return fmt.Errorf("field %q: %q", name, body[name])
			}
			continue
		}
		if body[name] == "" || utf8.RuneCountInString(body[name]) > most {
			return fmt.Errorf("field %q: %q", name, body[name])
		}
	}
	return nil
}

func oneOf(state string, states ...string) error {
	if !slices.Contains(states, state) {
		return fmt.Errorf("state %q", state)
	}
	return nil
}

// commitAt is the commit of a path of a repository, if it is that of acme/shop.
func commitAt(path, before, after string) (string, error) {
	rest, ok := strings.CutPrefix(path, before)
	commit, end := strings.CutSuffix(rest, after)
	if !ok || !end || len(commit) != 40 {
		return "", fmt.Errorf("path %q", path)
	}
	return commit[:2], nil
}

// newGitHub is "create a commit status": https://docs.github.com/en/rest/commits/statuses, as GitHub Enterprise Server
// has it.
func newGitHub(t *testing.T) *gitHost {
	return newGitHost(t, func(req *http.Request, body map[string]string) (string, error) {
		commit, err := commitAt(req.URL.EscapedPath(), "/api/v3/repos/acme/shop/statuses/", "")
		if req.Header.Get("Authorization") != "Bearer "+plantedToken ||
			req.Header.Get("Accept") != "application/vnd.github+json" {
			return "", fmt.Errorf("headers %v", req.Header)
		}
		for _, e := range []error{
			err, only(body, 140, "state", "context", "description", "target_url"),
			oneOf(body["state"], "error", "failure", "pending", "success"),
		} {
			if e != nil {
				return "", e
			}
		}
		return fmt.Sprintf("%s %s %s: %s", commit, body["context"], body["state"], body["description"]), nil
	})
}

// newGitLab is "set commit pipeline status": https://docs.gitlab.com/api/commits/. The stand-in takes no state that a
// status has already.
func newGitLab(t *testing.T) *gitHost {
	return newGitHost(t, func(req *http.Request, body map[string]string) (string, error) {
		commit, err := commitAt(req.URL.EscapedPath(), "/api/v4/projects/acme%2Fweb%2Fshop/statuses/", "")
		if req.Header.Get("Private-Token") != plantedToken {
			return "", fmt.Errorf("headers %v", req.Header)
		}
		for _, e := range []error{
			err, only(body, 255, "state", "name", "description", "target_url"),
			oneOf(body["state"], "pending", "running", "success", "failed", "canceled", "skipped"),
		} {
			if e != nil {
				return "", e
			}
		}
		return fmt.Sprintf("%s %s %s: %s", commit, body["name"], body["state"], body["description"]), nil
	})
}

// newGitea is "create a commit status" of its OpenAPI document: https://docs.gitea.com/api/. The API is below a path,
// and Forgejo's is the same.
func newGitea(t *testing.T) *gitHost {
	return newGitHost(t, func(req *http.Request, body map[string]string) (string, error) {
		commit, err := commitAt(req.URL.EscapedPath(), "/git/api/v1/repos/acme/shop/statuses/", "")
		if req.Header.Get("Authorization") != "token "+plantedToken {
			return "", fmt.Errorf("headers %v", req.Header)
		}
		for _, e := range []error{
			err, only(body, 255, "state", "context", "description", "target_url"),
			oneOf(body["state"], "pending", "success", "error", "failure", "warning"),
		} {
			if e != nil {
				return "", e
			}
		}
		return fmt.Sprintf("%s %s %s: %s", commit, body["context"], body["state"], body["description"]), nil
	})
}

// newBitbucket is "store a build status" of Bitbucket Data Center:
// https://developer.atlassian.com/server/bitbucket/rest/. A status must have a URL.
func newBitbucket(t *testing.T) *gitHost {
	return newGitHost(t, func(req *http.Request, body map[string]string) (string, error) {
		commit, err := commitAt(req.URL.EscapedPath(), "/rest/api/latest/projects/acme/repos/shop/commits/", "/builds")
		if req.Header.Get("Authorization") != "Bearer "+plantedToken {
			return "", fmt.Errorf("headers %v", req.Header)
		}
		for _, e := range []error{
			err, only(body, 255, "state", "key", "name", "description", "url"),
			oneOf(body["state"], "CANCELLED", "FAILED", "INPROGRESS", "SUCCESSFUL", "UNKNOWN"),
		} {
			if e != nil {
				return "", e
			}
		}
		if body["url"] == "" {
			return "", fmt.Errorf("no url")
		}
		return fmt.Sprintf("%s %s %s: %s", commit, body["name"], body["state"], body["description"]), nil
	})
}

// withStatuses starts a console that people reach at an address, and whose sinks may be on this machine.
func (h *hub) withStatuses(t *testing.T) *running {
	t.Helper()
	return h.startWith(t, func(c *console.Config) {
		c.AllowAddresses, c.AdvertisePages = []string{"127.0.0.0/8"}, "https://fairlead.example.com"
	})
}

// pastAt is a service whose source is at an address.
func pastAt(t *testing.T, r *running, source string) *past {
	t.Helper()
	p := newPast(t, r)
	p.source = p.admin.putSource(t, "shop", source)
	return p
}

func commitStatus(name, url string) *consolev1.Sink {
	return &consolev1.Sink{Metadata: meta(name), Spec: &consolev1.SinkSpec{To: &consolev1.SinkSpec_Github{Github: &consolev1.CommitStatusSink{Url: url, Token: secret(plantedToken)}}}}
}

func TestGitHostsShowHowFarACommitIs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		host   *gitHost
		source string
		sink   func(url string) *consolev1.SinkSpec
		states map[string]string
	}{
		"GitHub": {newGitHub(t), "/acme/shop.git", func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{To: &consolev1.SinkSpec_Github{Github: &consolev1.CommitStatusSink{
				Url:   url,
				Token: secret(plantedToken), Repositories: []string{"acme/*"},
			}}}
		}, map[string]string{"fetched": "pending", "applied": "pending", "healthy": "success", "failed": "failure"}},
		"GitLab": {newGitLab(t), "/acme/web/shop", func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{To: &consolev1.SinkSpec_Gitlab{Gitlab: &consolev1.CommitStatusSink{Url: url +
				"/", Token: secret(plantedToken)}}}
		}, map[string]string{"fetched": "pending", "applied": "running", "healthy": "success", "failed": "failed"}},
		"Gitea": {newGitea(t), "/git/acme/shop.git", func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{To: &consolev1.SinkSpec_Gitea{Gitea: &consolev1.CommitStatusSink{Url: url +
				"/git", Token: secret(plantedToken)}}}
		}, map[string]string{"fetched": "pending", "applied": "pending", "healthy": "success", "failed": "failure"}},
		"Bitbucket": {newBitbucket(t), "/scm/acme/shop.git", func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{To: &consolev1.SinkSpec_Bitbucket{Bitbucket: &consolev1.CommitStatusSink{Url: url, Token: secret(plantedToken)}}}
		}, map[string]string{
			"fetched": "INPROGRESS", "applied": "INPROGRESS", "healthy": "SUCCESSFUL",
			"failed": "FAILED",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pastAt(t, newHub(t, "").withStatuses(t), test.host.URL+test.source)
			spec := test.sink(test.host.URL)
			spec.Interval = durationpb.New(time.Second)
			if err := p.admin.putSink(t, &consolev1.Sink{Metadata: meta("git"), Spec: spec}); err != nil {
				t.Fatal(err)
			}
			is := func(commit, state, description string) {
				t.Helper()
				want := fmt.Sprintf("%s fairlead/web %s: %s", commit[:2], test.states[state], description)
				await.True(t, want, func() bool { return slices.Contains(test.host.got(t), want) })
			}
			tested, err := p.admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "git"})
			if err != nil || tested.GetAccepted() || !strings.Contains(tested.GetAnswer(), "no commit to try it at") {
				t.Errorf("tested without a commit: %v, %v", tested, err)
			}
			p.push(t, commitA)
			tested, err = p.admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "git"})
			if err != nil || !tested.GetAccepted() ||
				!strings.Contains(tested.GetAnswer(), "status fairlead/test of aaaaaaaa in acme/") ||
				strings.Contains(tested.GetAnswer(), plantedToken) {
				t.Errorf("tested: %v, %v", tested, err)
			}
			p.handOver(t, commitA, "d1")
			is(commitA, "fetched", "fetched")
			p.says(t, "d1", deliveryv1.Phase_PHASE_PROGRESSING, "")
			is(commitA, "applied", "applied on 1/1")
			p.says(t, "d1", deliveryv1.Phase_PHASE_HEALTHY, "")
			is(commitA, "healthy", "healthy")
			p.push(t, commitB)
			p.handOver(t, commitB, "d2")
			is(commitB, "fetched", "fetched")
			p.says(t, "d2", deliveryv1.Phase_PHASE_DEGRADED, "Deployment shop/web: 1 of 3 pods is ready")
			is(commitB, "failed", "failed: Deployment shop/web: 1 of 3 pods is ready")
			p.says(t, "d2", deliveryv1.Phase_PHASE_HEALTHY, "")
			is(commitB, "healthy", "healthy")
			for i, one := range test.host.got(t) {
				if slices.Contains(test.host.got(t)[:i], one) {
					t.Errorf("set twice: %s", one)
				}
			}
			holdsNoSecret(t, p.admin, "git")
		})
	}
}

// handOver has a distributor hand a commit out under a digest.
func (p *past) handOver(t *testing.T, commit, digest string) {
	t.Helper()
	source := p.source.GetMetadata().GetUid()
	p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{Service: p.service, Uid: p.uid, SourceUid: source, Ref: "HEAD", Hub: &consolev1.HubTruth{Digest: digest}}}})
	p.record(t, &consolev1.RecordHubRequest{Refs: []*consolev1.RefHub{{SourceUid: source, Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commit}}}})
}

// says has the cluster say that it has applied a digest, and how it is.
func (p *past) says(t *testing.T, digest string, phase deliveryv1.Phase, message string) {
	t.Helper()
	p.sequence++
	report(t, p.distributor, &deliveryv1.ServiceReport{
		Service: p.service, Sequence: p.sequence, Phase: phase, Digest: digest, AppliedDigest: digest, Commit: p.head,
		AppliedCommit: p.head, Message: message,
		AppliedTime: timestamppb.Now(), ObservedTime: timestamppb.Now(), ObjectsTotal: 3,
	})
}

// A status that is there is not set again: not by a console that starts, nor by a second one.
func TestStatusesAreSetOnceByAllConsoles(t *testing.T) {
	t.Parallel()
	db := postgres.Database(t)
	host := newGitHub(t)
	one := newHub(t, db)
	p := pastAt(t, one.withStatuses(t), host.URL+"/acme/shop")
	sink := commitStatus("git", host.URL)
	sink.Spec.Interval = durationpb.New(time.Second)
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	p.push(t, commitA)
	p.handOver(t, commitA, "d1")
	p.says(t, "d1", deliveryv1.Phase_PHASE_HEALTHY, "")
	const healthy = "aa fairlead/web success: healthy"
	await.True(t, healthy, func() bool { return slices.Contains(host.got(t), healthy) })
	two := *one
	two.withStatuses(t)
	p.push(t, commitB) // which changes nothing in the folder
	p.handOver(t, commitB, "d1")
	p.says(t, "d1", deliveryv1.Phase_PHASE_DEGRADED, "2 of 3")
	p.says(t, "d1", deliveryv1.Phase_PHASE_HEALTHY, "")
	p.push(t, strings.Repeat("c", 40))
	p.handOver(t, strings.Repeat("c", 40), "d2")
	const fetched = "cc fairlead/web pending: fetched"
	await.True(t, fetched, func() bool { return slices.Contains(host.got(t), fetched) })
	for i, is := range host.got(t) {
		if strings.HasPrefix(is, "bb") {
			t.Errorf("a commit without a change has a status: %s", is)
		}
		if i > 0 && is == host.got(t)[i-1] {
			t.Errorf("set twice: %s", is)
		}
	}
}

// A commit that changes nothing in the folder, and for a while can't be delivered, has the state of its service when it
// can.
func TestStatusFollowsAProblemOfTheHubThatPasses(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sets statuses for seconds")
	host := newGitHub(t)
	p := pastAt(t, newHub(t, "").withStatuses(t), host.URL+"/acme/shop")
	sink := commitStatus("git", host.URL)
	sink.Spec.Interval = durationpb.New(time.Second)
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		await.True(t, want, func() bool { return slices.Contains(host.got(t), want) })
	}
	p.push(t, commitA)
	p.handOver(t, commitA, "d1")
	p.says(t, "d1", deliveryv1.Phase_PHASE_HEALTHY, "")
	is("aa fairlead/web success: healthy")
	p.push(t, commitB)
	p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{
		Service: p.service, Uid: p.uid, SourceUid: p.source.GetMetadata().GetUid(), Ref: "HEAD",
		Hub: &consolev1.HubTruth{
			Digest: "d1", Revision: &artifactv1.Revision{Commit: commitA},
			Problem: &consolev1.Problem{Message: "no room"},
		},
	}}})
	is("bb fairlead/web failure: failed: no room")
	p.handOver(t, commitB, "d1")
	is("bb fairlead/web success: healthy")
}

// A host that limits requests is asked again when it says so, and gets the newest state then; a repository that the
// token may not write holds up no other.
func TestGitHostsThatRefuse(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the host refuses for seconds")
	host := newGitHub(t)
	p := pastAt(t, newHub(t, "").withStatuses(t), host.URL+"/acme/shop")
	sink := commitStatus("git", host.URL)
	sink.Spec.Interval = durationpb.New(time.Second)
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	problem := func(want string) {
		t.Helper()
		await.True(t, want, func() bool {
			return strings.Contains(p.admin.sink(t, "git").GetStatus().GetProblem().GetMessage(), want)
		})
		if got := p.admin.sink(t, "git").String(); strings.Contains(got, plantedToken) {
			t.Errorf("shown: %s", got)
		}
	}
	host.refuses(func(w http.ResponseWriter) int {
		w.Header().Set("X-Ratelimit-Remaining", "0")
		w.Header().Set("X-Ratelimit-Reset", fmt.Sprint(time.Now().Add(40*time.Minute).Unix()))
		return http.StatusForbidden
	})
	p.push(t, commitA)
	p.handOver(t, commitA, "d1")
	problem("GitHub limits the requests of this token; statuses wait until")
	if retry := p.admin.sink(t, "git").GetStatus().GetRetryTime().AsTime(); time.Until(retry) < 30*time.Minute {
		t.Errorf("tried again at %v", retry)
	}
	p.says(t, "d1", deliveryv1.Phase_PHASE_HEALTHY, "")
	if n := host.refusals(); n != 1 {
		t.Errorf("%d requests while the host limits them", n)
	}
	host.refuses(nil)
	if err := p.admin.putSink(t, func() *consolev1.Sink { sink.Spec.RetryFor = durationpb.New(time.Hour); return sink }()); err != nil { // which tries it at once
		t.Fatal(err)
	}
	await.True(t, "the newest state", func() bool { return len(host.got(t)) > 0 })
	if got := host.got(t); !slices.Equal(got, []string{"aa fairlead/web success: healthy"}) {
		t.Errorf("set %q", got)
	}
	for status, want := range map[int]string{
		http.StatusForbidden:           `the token may not set statuses in repository acme/shop: it needs the permission "Commit statuses: write"`,
		http.StatusNotFound:            "GitHub shows this token no repository acme/shop with commit",
		http.StatusUnprocessableEntity: "GitHub refuses the status of",
		http.StatusMovedPermanently:    "repository acme/shop was renamed or moved",
	} {
		host.refuses(func(http.ResponseWriter) int { return status })
		digest := fmt.Sprint("d", status)
		p.push(t, strings.Repeat(fmt.Sprint(status%10), 40))
		p.handOver(t, p.head, digest)
		problem(want)
		if waiting := p.admin.sink(t, "git").GetStatus().GetWaiting(); waiting > 0 {
			t.Errorf("%d: %d events wait", status, waiting)
		}
	}
	host.refuses(func(http.ResponseWriter) int { return http.StatusUnauthorized })
	p.push(t, strings.Repeat("e", 40))
	p.handOver(t, p.head, "d9")
	problem("GitHub does not accept the token: it is wrong, revoked or has expired")
	if waiting := p.admin.sink(t, "git").GetStatus().GetWaiting(); waiting == 0 {
		t.Error("nothing waits for a token that is accepted")
	}
}

func TestCommitStatusSinksThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	github := func(edit func(*consolev1.SinkSpec)) *consolev1.SinkSpec {
		spec := commitStatus("", "https://git.example.com").Spec
		edit(spec)
		return spec
	}
	for want, spec := range map[string]*consolev1.SinkSpec{
		"spec.gitea.url: is missing":                    {To: &consolev1.SinkSpec_Gitea{Gitea: &consolev1.CommitStatusSink{Token: secret("t")}}},
		"spec.github.url: must be https://":             github(func(s *consolev1.SinkSpec) { s.GetGithub().Url = "git.example.com" }),
		"spec.github.token.secret: has no value":        github(func(s *consolev1.SinkSpec) { s.GetGithub().Token = secret("") }),
		"spec.github.token: is empty, or has spaces":    github(func(s *consolev1.SinkSpec) { s.GetGithub().Token = secret("a b\n") }),
		"spec.github.repositories[0]":                   github(func(s *consolev1.SinkSpec) { s.GetGithub().Repositories = []string{"https://git.example.com/a/b"} }),
		"spec.types: leave it out: a status follows":    github(func(s *consolev1.SinkSpec) { s.Types = []string{"service.*"} }),
		"spec.severity: leave it out: a status follows": github(func(s *consolev1.SinkSpec) { s.Severity = consolev1.Severity_SEVERITY_ERROR }),
		"spec.template: leave it out: a status follows": github(func(s *consolev1.SinkSpec) { s.Template = "x" }),
		"spec.filter: leave it out: a status follows":   github(func(s *consolev1.SinkSpec) { s.Filter = "service = web" }),
		"spec.github: ca: holds no certificate":         github(func(s *consolev1.SinkSpec) { s.GetGithub().Ca = "nonsense" }),
		"spec.github.context: does not match":           github(func(s *consolev1.SinkSpec) { s.GetGithub().Context = "a b" }),
	} {
		if err := admin.putSink(t, &consolev1.Sink{Metadata: meta("wrong"), Spec: spec}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := admin.putSink(t, commitStatus("moved", "https://git.example.com")); err != nil {
		t.Fatal(err)
	}
	moved := commitStatus("moved", "https://elsewhere.example.com")
	moved.Spec.GetGithub().Token = secret("")
	if err := admin.putSink(t, moved); err == nil ||
		!strings.Contains(err.Error(), "spec.github.token.secret: write it again") {
		t.Errorf("moved: %v", err)
	}
}

// The services of a global service share a status, which counts clusters; those of a monorepo have one each.
func TestStatusOfAGlobalServiceCountsClusters(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sets statuses for seconds")
	host := newGitHub(t)
	p := pastAt(t, newHub(t, "").withStatuses(t), host.URL+"/acme/shop")
	p.admin.must(t, newCluster("edge-1", "env", "prod"), newCluster("edge-2", "env", "prod"))
	p.admin.putGlobal(t, newGlobal("logs", prod()))
	sink := commitStatus("git", host.URL)
	sink.Spec.Interval, sink.Spec.GetGithub().Context = durationpb.New(time.Second), "hub-7"
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	p.push(t, commitA)
	for _, name := range []string{"logs-edge-1", "logs-edge-2"} {
		p.service, p.uid, p.sequence = name, p.admin.uidOf(t, name), 0
		p.handOver(t, commitA, "d-"+name)
	}
	is := func(want string) {
		t.Helper()
		await.True(t, want, func() bool { return slices.Contains(host.got(t), want) })
	}
	is("aa hub-7/global/logs pending: fetched")
	p.service = "logs-edge-1"
	p.says(t, "d-logs-edge-1", deliveryv1.Phase_PHASE_HEALTHY, "")
	is("aa hub-7/global/logs pending: applied on 1/2")
	said := &deliveryv1.ServiceReport{
		Service: "logs-edge-2", Sequence: 1, Phase: deliveryv1.Phase_PHASE_FAILED, Digest: "d-logs-edge-2",
		Commit: commitA, ObservedTime: timestamppb.Now(), Message: "deploy.yaml:3: no such kind",
	}
	if _, err := p.distributor.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{Clusters: []*consolev1.ClusterReports{{Cluster: "edge-2", Reports: []*deliveryv1.ServiceReport{said}}}}); err != nil {
		t.Fatal(err)
	}
	is("aa hub-7/global/logs failure: failed on 1/2: edge-2: deploy.yaml:3: no such kind")
	p.admin.must(t, newCluster("edge-2")) // which the global service is for no more
	is("aa hub-7/global/logs success: healthy")
	p.service, p.uid = "web", p.admin.uidOf(t, "web")
	p.handOver(t, commitA, "d1")
	is("aa hub-7/web pending: fetched")
}

// The name of a status does not depend on which refs other services of the global service follow: the ref of the
// template has the plain name.
func TestStatusOfAGlobalServiceKeepsItsName(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sets statuses for seconds")
	host := newGitHub(t)
	p := pastAt(t, newHub(t, "").withStatuses(t), host.URL+"/acme/shop")
	p.admin.must(t, newCluster("edge-1", "env", "prod"), newCluster("edge-2", "env", "prod"))
	logs := newGlobal("logs", prod())
	p.admin.putGlobal(t, logs)
	sink := commitStatus("git", host.URL)
	sink.Spec.Interval = durationpb.New(time.Second)
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		await.True(t, want, func() bool { return slices.Contains(host.got(t), want) })
	}
	handOver := func(cluster, ref, commit string) {
		t.Helper()
		p.service, p.uid, p.sequence = "logs-"+cluster, p.admin.uidOf(t, "logs-"+cluster), 0
		hub := &consolev1.HubTruth{Digest: "d-" + ref, Revision: &artifactv1.Revision{Commit: commit}}
		p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{Service: p.service, Uid: p.uid, SourceUid: p.source.GetMetadata().GetUid(), Ref: ref, Hub: hub}}})
	}
	p.push(t, commitA)
	handOver("edge-1", "HEAD", commitA)
	handOver("edge-2", "HEAD", commitA)
	is("aa fairlead/global/logs pending: fetched")
	logs.Spec.Overrides = []*consolev1.GlobalOverride{{
		Clusters: &consolev1.ClusterSelector{Names: []string{"edge-2"}},
		Ref:      "next",
	}}
	p.admin.putGlobal(t, logs)
	handOver("edge-2", "next", commitB)
	is("bb fairlead/global/logs/next pending: fetched")
	p.service, p.sequence, p.head = "logs-edge-1", 0, commitA
	p.says(t, "d-HEAD", deliveryv1.Phase_PHASE_HEALTHY, "")
	is("aa fairlead/global/logs success: healthy")
}

// Everybody can read the statuses of a public repository: without details they name no cluster and no problem.
func TestStatusWithoutDetails(t *testing.T) {
	t.Parallel()
	host := newGitHub(t)
	p := pastAt(t, newHub(t, "").withStatuses(t), host.URL+"/acme/shop")
	sink := commitStatus("git", host.URL)
	sink.Spec.Interval, sink.Spec.GetGithub().Details = durationpb.New(time.Second), new(bool)
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	p.push(t, commitA)
	p.handOver(t, commitA, "d1")
	p.says(t, "d1", deliveryv1.Phase_PHASE_DEGRADED, "Deployment shop/web: 1 of 3 pods is ready")
	const failed = "aa fairlead/web failure: failed"
	await.True(t, failed, func() bool { return slices.Contains(host.got(t), failed) })
	if got := host.got(t); slices.ContainsFunc(got, func(is string) bool { return strings.Contains(is, "shop/web") }) {
		t.Errorf("set %q", got)
	}
	if details := p.admin.sink(t, "git").GetSpec().GetGithub().Details; details == nil || *details {
		t.Errorf("details are %v", details)
	}
}

// A commit that many services take a content from sets their statuses in parts, within the limits of hosts.
func TestStatusesOfAMonorepoAreSetInParts(t *testing.T) {
	t.Parallel()
	longform.Only(t, "the console sets statuses for seconds")
	host := newGitHub(t)
	p := pastAt(t, newHub(t, "").withStatuses(t), host.URL+"/acme/shop")
	sink := commitStatus("git", host.URL)
	if err := p.admin.putSink(t, sink); err != nil {
		t.Fatal(err)
	}
	p.push(t, commitA)
	const services = 12
	var told []*consolev1.ServiceHub
	for i := range services {
		name := fmt.Sprintf("web-%02d", i)
		told = append(told, &consolev1.ServiceHub{
			Service:   name,
			Uid:       p.admin.putService(t, name, "edge-1").GetMetadata().GetUid(),
			SourceUid: p.source.GetMetadata().GetUid(), Ref: "HEAD", Hub: &consolev1.HubTruth{Digest: "d-" + name},
		})
	}
	p.record(t, &consolev1.RecordHubRequest{
		Services: told,
		Refs: []*consolev1.RefHub{{
			SourceUid: p.source.GetMetadata().GetUid(), Ref: "HEAD",
			Revision: &artifactv1.Revision{Commit: commitA},
		}},
	})
	await.True(t, "all have a status", func() bool { return len(host.got(t)) >= services })
	got := host.got(t)
	slices.Sort(got)
	if len(slices.Compact(got)) != services {
		t.Errorf("set %q", got)
	}
	if status := p.admin.sink(t, "git").GetStatus(); status.GetProblem() != nil || status.GetDropped() > 0 {
		t.Errorf("the sink is %v", status)
	}
}

func (a api) uidOf(t *testing.T, service string) string {
	t.Helper()
	resp, err := a.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: service})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetService().GetMetadata().GetUid()
}
