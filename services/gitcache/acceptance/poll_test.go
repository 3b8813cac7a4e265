package acceptance

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/registrytest"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// addSource adds a source beside shop.
func (c *console) addSource(name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	c.sources[name] = &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: name, Uid: "uid-" + name},
		Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url, Interval: durationpb.New(seldom)}},
		Status:   &consolev1.SourceStatus{},
	}
}

func (c *console) statusOf(name string) *consolev1.SourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.CloneOf(c.sources[name].GetStatus())
}

// hang leaves requests without an answer: all, or only fetches.
func hang(started chan<- struct{}, all bool) gittest.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !all && gittest.Service(r) == "list" {
			return false
		}
		select {
		case started <- struct{}{}:
		default:
		}
		if all {
			<-r.Context().Done()
			return true
		}
		return gittest.HangOnFetch()(w, r)
	}
}

func TestAHungHostBlocksNoOther(t *testing.T) {
	t.Parallel()
	for what, all := range map[string]bool{"lists": true, "fetches": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			other := gittest.NewServer(t)
			repo := other.NewRepo(t, "hung.git")
			repo.Commit("one", gittest.Files{"a": "1"})
			started := make(chan struct{}, 1)
			other.SetFault(hang(started, all))
			for i := range 100 {
				f.console.addSource(fmt.Sprintf("hung-%d", i), repo.URL())
			}
			first := f.repo.Commit("one", gittest.Files{"a": "1"})
			n := f.one()
			<-started
			f.published("HEAD", first)
			second := f.repo.Commit("two", gittest.Files{"a": "2"})
			n.refresh()
			f.published("HEAD", second)
			if lists, fetches := other.Count("list"), other.Count("fetch"); all && lists > 8 || fetches > 2 {
				t.Errorf("a host that does not answer was asked %d and %d times at once", lists, fetches)
			}
		})
	}
}

func TestTheLiveStateSaysHowUpstreamIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	n := f.one()
	f.published("HEAD", first)
	n.poll()
	live := n.live()
	if got, want := live.GetUpstreamRequestsLastHour(), int32(len(f.git.Log())); got != want {
		t.Errorf("%d requests in the last hour, upstream saw %d", got, want)
	}
	if live.GetStaleSince() != nil || live.GetMirrorBytes() < 100 || live.GetMirrorPacks() != 1 {
		t.Errorf("the state is %v", live)
	}
	f.git.SetFault(gittest.Status(500))
	n.poll()
	since := n.live().GetStaleSince().AsTime()
	n.poll()
	if again := n.live().GetStaleSince().AsTime(); !again.Equal(since) || time.Since(since) > patience {
		t.Errorf("stale since %s, then since %s", since, again)
	}
	if got := n.metric("fairlead_gitcache_sources_stale"); got != 1 {
		t.Errorf("%v sources are stale", got)
	}
	f.git.SetFault(nil)
	n.poll()
	if got := n.live().GetStaleSince(); got != nil {
		t.Errorf("still stale since %s", got.AsTime())
	}
}

// A failure that outlasts the gitcache that met it keeps its beginning.
func TestAFailureKeepsItsBeginningOverARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	dir := t.TempDir()
	n := f.start(dir, nil)
	f.published("HEAD", first)
	f.git.SetFault(gittest.Status(500))
	n.poll()
	f.problem("500")
	began := f.console.status().GetProblem().GetSince().AsTime()
	n.stop()
	n = f.start(dir, nil)
	await.True(t, "it is polled", func() bool { return n.live().GetLastPollTime() != nil })
	n.poll()
	if since := n.live().GetStaleSince().AsTime(); !since.Equal(began) {
		t.Errorf("stale since %s, want %s", since, began)
	}
	if since := f.console.status().GetProblem().GetSince().AsTime(); !since.Equal(began) {
		t.Errorf("the problem began at %s, want %s", since, began)
	}
	f.git.SetFault(nil)
	n.poll()
	f.problem()
	if got := n.live().GetStaleSince(); got != nil {
		t.Errorf("still stale since %s", got.AsTime())
	}
}

func TestABranchThatMovesDuringAFetchIsFollowed(t *testing.T) {
	t.Parallel()
	for what, rewrite := range map[string]bool{"forward": false, "force-push": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
			var second atomic.Value
			var once sync.Once
			f.git.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
				if gittest.Service(r) == "fetch" {
					once.Do(func() {
						if rewrite {
							f.repo.Work("checkout", "--quiet", "--orphan", "again")
						}
						second.Store(f.repo.Commit("two", gittest.Files{"deploy/a": "2"}))
					})
				}
				return false
			})
			n := f.one()
			await.NoError(t, "the new commit is published", func() error {
				n.refresh()
				if got := head(f.console.status(), "HEAD").GetCommit(); got != second.Load() {
					return errors.New("at " + got)
				}
				return nil
			})
			f.problem()
			if got := n.download(n.resolve("HEAD", "deploy").GetArtifact().GetDigest())["a"]; got != "2" {
				t.Errorf("served %q", got)
			}
		})
	}
}

func TestASHA256RepositoryIsSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	f.one()
	f.published("HEAD", first)
	f.console.setSource(f.git.NewSHA256Repo(t, "new.git").URL(), "")
	f.problem("uses SHA-256 object names, which Fairlead can't read yet")
	if got := head(f.console.status(), "HEAD").GetCommit(); got != first {
		t.Errorf("the head is at %q", got)
	}
}

// since are the bytes and requests of a host's log from a point on.
func since(s *gittest.Server, mark int) (bytes int64, requests int) {
	log := s.Log()[mark:]
	for _, r := range log {
		bytes += r.Bytes
	}
	return bytes, len(log)
}

func TestPollsOfARepositoryWithManyRefsAreSmall(t *testing.T) {
	t.Parallel()
	const refs, maxPoll = 50_000, 16 << 10
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.tag("v1.0.0", true)
	f.repo.AddRefs(refs, first)
	tagged := f.tag("v1.1.0", true)
	f.console.setService("web", "semver:1.x")
	f.console.setService("shop", "feature/ticket-000100")
	f.console.setService("cart", "refs/tags/build-000100")
	n := f.one()
	f.resolved("semver:1.x", "v1.1.0", tagged)
	f.published("refs/heads/feature/ticket-000100", first)
	f.published("refs/tags/build-000100", first)
	f.problem()
	if bytes, _ := since(f.git, 0); bytes > 2*maxPoll {
		t.Errorf("the first poll and fetch took %d bytes", bytes)
	}
	mark, listed := len(f.git.Log()), n.metric("fairlead_gitcache_listed_bytes_total")
	for range 3 {
		n.poll()
	}
	bytes, requests := since(f.git, mark)
	if requests != 3 || bytes > 3*maxPoll {
		t.Errorf("3 polls took %d requests and %d bytes", requests, bytes)
	}
	if got := n.metric("fairlead_gitcache_listed_bytes_total") - listed; got != float64(bytes) {
		t.Errorf("%v bytes of lists were counted, %d were sent", got, bytes)
	}
	second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	f.repo.Bare("update-ref", "refs/heads/feature/ticket-000100", second)
	f.repo.Bare("update-ref", "-d", "refs/tags/build-000100")
	n.refresh()
	f.published("HEAD", second)
	f.published("refs/heads/feature/ticket-000100", second)
	f.problem(`ref "refs/tags/build-000100" of service "cart" is gone upstream`, first[:8]+" is kept")
}

func TestARefThatIsOfTheOtherKindIsSaid(t *testing.T) {
	t.Parallel()
	for version, fault := range map[string]gittest.Fault{"version 2": nil, "version 0": gittest.OnlyVersion0()} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.git.SetFault(fault)
			f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
			tagged := f.tag("v1", true)
			f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "HEAD:refs/heads/stable")
			f.console.setService("web", "v1")
			n := f.one()
			f.problem(`ref "refs/heads/v1" of service "web" does not exist upstream, and a tag of that name does. To follow it write ref: refs/tags/v1 in the service`)
			mark := len(f.git.Log())
			n.poll()
			if _, requests := since(f.git, mark); requests != 1 {
				t.Errorf("a poll took %d requests", requests)
			}
			f.console.setService("web", "refs/tags/v1")
			f.published("refs/tags/v1", tagged)
			f.problem()

			f.console.setService("web", "refs/tags/stable")
			f.problem(`ref "refs/tags/stable" of service "web" does not exist upstream, and a branch of that name does. To follow it write ref: refs/heads/stable in the service`)

			// A name that is both is what the service says.
			f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "HEAD~1:refs/heads/v1")
			f.console.setService("web", "v1")
			f.published("refs/heads/v1", f.repo.Work("rev-parse", "HEAD~1"))
			f.problem()
			f.repo.Bare("update-ref", "-d", "refs/heads/v1")
			n.refresh()
			f.problem(`ref "refs/heads/v1" of service "web" is gone upstream`,
				"is kept. A tag of that name is there: to follow it write ref: refs/tags/v1 in the service")

			f.console.setService("web", "never-there")
			f.problem(`ref "refs/heads/never-there" of service "web" does not exist upstream. Push it, or change the service`)
		})
	}
}

func TestAnotherDefaultBranchIsFollowedAndNoneIsNoEmptyRepository(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.repo.Work("commit", "--quiet", "--allow-empty", "-m", "next")
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "HEAD:refs/heads/next")
	next := f.repo.Work("rev-parse", "HEAD")
	f.console.setService("web", "")
	n := f.one()
	f.published("HEAD", first)
	f.repo.Bare("symbolic-ref", "HEAD", "refs/heads/next")
	n.refresh()
	f.published("HEAD", next)
	f.problem()
	f.repo.Bare("symbolic-ref", "HEAD", "refs/heads/none")
	n.refresh()
	f.problem(`the default branch of service "web" is gone upstream`, next[:8]+" is kept")
}

func TestACommitOfNoWantedBranchIsFetched(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.repo.Work("checkout", "--quiet", "-b", "side")
	aside := f.repo.Commit("aside", gittest.Files{"deploy/a": "2"})
	f.repo.Bare("update-ref", "refs/heads/main", first)
	f.console.setService("aside", aside)
	f.console.setService("none", strings.Repeat("ab", 20))
	n := f.one()
	f.published(aside, aside)
	f.published("HEAD", first)
	f.problem("commit abababab", `service "none"`, "not our ref")
	f.console.setService("none", "")
	f.problem()
	n.resolve(aside, "deploy")
	mark := len(f.git.Log())
	n.poll()
	if bytes, requests := since(f.git, mark); requests != 1 || bytes > 100 {
		t.Errorf("with the commit here a poll took %d requests and %d bytes", requests, bytes)
	}
}

// A rollback is a pin to a commit that is here: it needs neither a Git host nor a registry.
func TestARollbackDoesNotWaitForUpstream(t *testing.T) {
	t.Parallel()
	t.Run("git", func(t *testing.T) {
		t.Parallel()
		ada := gittest.NewSSH(t, "ed25519")
		f := newFixture(t)
		unsigned := f.repo.Commit("unsigned", gittest.Files{"deploy/a": "0"})
		f.signAs(ada)
		first := f.repo.Commit("first", gittest.Files{"deploy/a": "1"})
		second := f.repo.Commit("second", gittest.Files{"deploy/a": "2"})
		f.console.setVerification(verifyCommit, ada.Public)
		f.console.setService("web", "main")
		n := f.one()
		f.signed("refs/heads/main", second, ada.Fingerprint)
		f.git.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return true
		})
		n.refresh()
		f.problem("503")
		f.console.setService("web", first)
		f.signed(first, first, ada.Fingerprint)
		f.problem("503")
		// A commit that nobody signed is no way around the verification.
		f.console.setService("web", unsigned)
		n.refresh()
		f.console.setService("other", second)
		f.signed(second, second, ada.Fingerprint)
		if head := headOf(f.console.status(), unsigned); head != nil {
			t.Errorf("published %v", head)
		}
	})
	t.Run("registry", func(t *testing.T) {
		t.Parallel()
		f := newRegistry(t, "-plain")
		push := func(text string) {
			f.registry.OrasPush(t, "team/shop:1", fluxConfig,
				registrytest.File{Name: "shop.tgz", MediaType: fluxContent, Content: tgz(map[string]string{"a": text})})
		}
		push("first")
		f.console.setService("web", "tag:1")
		f.artifacts(&consolev1.OCISource{Insecure: true})
		n := f.one()
		first := f.resolved("tag:1", "tag:1@").GetRevision().GetCommit()
		push("second")
		n.refresh()
		await.NoError(t, "the second is published", func() error {
			if headOf(f.console.status(), "tag:1").GetRevision().GetCommit() == first {
				return errors.New("not yet")
			}
			return nil
		})
		f.registry.Stop()
		n.refresh()
		f.problem("connection refused")
		f.console.setService("web", first)
		await.NoError(t, "the first is published", func() error {
			if headOf(f.console.status(), first) == nil {
				return errors.New("not yet; problem: " + f.console.status().GetProblem().GetMessage())
			}
			return nil
		})
		if files := n.filesOf(first, ""); files["a"] != "first" {
			t.Errorf("the artifact has %v", files)
		}
	})
}

// A host that wants to be left alone is left alone, and a pin to what is here does not need it.
func TestARollbackDoesNotWaitUntilAHostMayBeAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("first", gittest.Files{"deploy/a": "1"})
	second := f.repo.Commit("second", gittest.Files{"deploy/a": "2"})
	f.console.setService("web", "main")
	n := f.one()
	f.published("refs/heads/main", second)
	f.git.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	n.refresh()
	f.problem("429")
	mark := len(f.git.Log())
	f.console.setService("web", first)
	f.published(first, first)
	f.problem("429")
	if _, requests := since(f.git, mark); requests != 0 {
		t.Errorf("%d requests to a host that wants none", requests)
	}
}

// A rollback is wanted most when the last push was bad: the listing works, and what is new in it can't be had.
func TestARollbackDoesNotWaitForWhatIsNewUpstream(t *testing.T) {
	t.Parallel()
	t.Run("git", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		recorder := tracetest.NewSpanRecorder()
		f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		first := f.repo.Commit("first", gittest.Files{"deploy/a": "1"})
		second := f.repo.Commit("second", gittest.Files{"deploy/a": "2"})
		f.console.setService("web", "main")
		f.one()
		f.published("refs/heads/main", second)
		f.repo.Commit("bad", gittest.Files{"deploy/a": "3"})
		f.git.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			if gittest.Service(r) != "fetch" {
				return false
			}
			http.Error(w, "down", http.StatusServiceUnavailable)
			return true
		})
		f.console.setService("other", first)
		traceparent := head(f.published(first, first), first).GetTraceparent()
		f.problem("503")
		polls := 0
		for _, s := range recorder.Ended() {
			if s.Name() == "gitcache.poll" && strings.Contains(traceparent, s.SpanContext().SpanID().String()) {
				polls++
			}
		}
		if polls != 1 {
			t.Errorf("the head carries the trace %q, which is that of %d polls", traceparent, polls)
		}
	})
	t.Run("registry", func(t *testing.T) {
		t.Parallel()
		ada := newCosigner(t, "ecdsa")
		f, l := newLiarFixture(t)
		f.console.setService("web", "tag:good")
		n := f.one()
		first := f.resolved("tag:good", "tag:good@").GetRevision().GetCommit()
		l.push("good", tgz(map[string]string{"a": "second"}), nil)
		n.refresh()
		await.NoError(t, "the second is published", func() error {
			if headOf(f.console.status(), "tag:good").GetRevision().GetCommit() == first {
				return errors.New("not yet")
			}
			return nil
		})
		f.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
			Url: "oci://" + strings.TrimPrefix(l.URL, "http://") + "/team/shop", Interval: durationpb.New(seldom),
			Insecure: true, Verify: cosignKeys(ada.public),
		}})
		f.problem("is not signed")
		l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/referrers/") {
				return false
			}
			w.Header().Set("Retry-After", "600") // no other poll comes to the rescue
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		f.console.setService("other", first)
		f.problem("429")
		await.NoError(t, "the first is published", func() error {
			if headOf(f.console.status(), first) == nil {
				return errors.New("not yet; problem: " + f.console.status().GetProblem().GetMessage())
			}
			return nil
		})
	})
}
