package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor"
)

// ship puts a service "hello" on edge-1 at commit 1.
func (w *world) ship() {
	w.t.Helper()
	w.git.commit(w.t, commit("1"), "apps/hello", "one")
	w.console.Put(shop("HEAD", commit("1")), service("hello", "edge-1", "apps/hello"))
}

func TestServiceIsDeliveredToItsClusterOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.mustHave()
	s := a.got["hello"]
	if s.GetNamespace() != "default" || s.GetSource() != "shop" || s.GetPath() != "apps/hello" ||
		s.GetRevision().GetSubject() != "subject of 1111111" || s.GetArtifact().GetFiles() != 1 {
		t.Errorf("delivered %v", s)
	}
	if b := e.agent("edge-2"); b.sync() || len(b.got) != 0 {
		t.Errorf("the other cluster got %v", b.got)
	}
}

func TestClusterThatHasAllIsNotModified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.poll = 100 * time.Second
	w.ship()
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	// A plain poll carries the digest only.
	resp := a.ask(&deliveryv1.SyncRequest{Digest: a.digest()})
	if resp.GetNotModified() == nil {
		t.Errorf("got %v", resp)
	}
	if d := resp.GetNextPoll().AsDuration(); d < 90*time.Second || d > 110*time.Second {
		t.Errorf("next poll in %s", d)
	}
	// So does a cluster that is meant to have nothing.
	if resp := a.e.agent("edge-2").ask(&deliveryv1.SyncRequest{}); resp.GetNotModified() == nil {
		t.Errorf("got %v", resp)
	}
}

func TestPollWithADifferenceIsAskedForWhatItHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	if resp := a.ask(&deliveryv1.SyncRequest{Digest: "something else"}); resp.GetHaveWanted() == nil {
		t.Errorf("got %v", resp)
	}
	// A list that was cut short is not taken for all that there is.
	if resp := a.ask(&deliveryv1.SyncRequest{Digest: "something else", Have: a.list()}); resp.GetHaveWanted() == nil {
		t.Errorf("got %v", resp)
	}
	// An agent that lost its state gets everything.
	if resp := a.ask(&deliveryv1.SyncRequest{}); len(resp.GetChanges().GetServices()) != 1 {
		t.Errorf("got %v", resp)
	}
}

func TestNewCommitChangesOnlyWhatItTouches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.commit(t, commit("1"), "apps/a", "a one")
	w.git.commit(t, commit("1"), "apps/b", "b one")
	w.git.commit(t, commit("2"), "apps/a", "a two")
	w.git.commit(t, commit("2"), "apps/b", "b one")
	w.console.Put(shop("HEAD", commit("1")), service("a", "edge-1", "apps/a"), service("b", "edge-1", "apps/b"))
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("a", commit("1"))
	a.awaitCommit("b", commit("1"))
	before := a.have["b"]
	w.console.Put(shop("HEAD", commit("2")))
	a.awaitCommit("a", commit("2"))
	await.True(w.t, "the console knows what is delivered at the new commit", func() bool {
		return w.console.hubOf("b").GetRevision().GetCommit() == commit("2") &&
			w.console.hubOf("a").GetRevision().GetCommit() == commit("2")
	})
	if a.sync() || a.have["b"] != before {
		t.Error("a commit outside of its folder changed b")
	}
	if h := w.console.hubOf("a"); h.GetDigest() != a.have["a"] || h.GetProblem() != nil ||
		h.GetArtifact().GetDigest() != a.got["a"].GetArtifact().GetDigest() {
		t.Errorf("the console was told %v", h)
	}
}

// Two services with one folder differ by their rules, and a change of rules is one of content.
func TestRulesAreAskedForWithTheFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.commit(t, commit("1"), "apps", "all of it")
	w.git.commit(t, commit("1"), "apps +*.yaml,!x.yaml -test/", "a part")
	w.git.commit(t, commit("1"), "apps + -test/", "nearly all of it")
	part := func(include ...string) *consolev1.Change {
		s := service("part", "edge-1", "apps")
		s.GetService().Spec.Include, s.GetService().Spec.Ignore = include, []string{"test/"}
		return s
	}
	w.console.Put(shop("HEAD", commit("1")), service("all", "edge-1", "apps"), part("*.yaml", "!x.yaml"))
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("all", commit("1"))
	a.awaitCommit("part", commit("1"))
	digest := func(service string) string { return a.got[service].GetArtifact().GetDigest() }
	before := digest("part")
	if digest("all") == before {
		t.Fatal("the rules were not asked for")
	}
	w.console.Put(part())
	await.True(w.t, "the other rules are delivered", func() bool { return a.sync() && digest("part") != before })
	if digest("part") == digest("all") {
		t.Error("a rule was lost")
	}
	if _, err := a.download(digest("part")); err != nil {
		t.Error(err)
	}

	// The content on the disk is of these rules.
	e.stop()
	w.gitServer.stop()
	again := w.start().agent("edge-1")
	if resp := again.ask(&deliveryv1.SyncRequest{Digest: a.digest()}); resp.GetNotModified() == nil {
		t.Errorf("got %v", resp)
	}
}

func TestServiceThatLeftTheCatalogIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	old := a.got["hello"].GetArtifact().GetDigest()
	w.console.Put(consoletest.Deleted(consolev1.Kind_KIND_SERVICE, "hello"))
	await.True(w.t, "hello is removed", func() bool { return a.sync() && len(a.have) == 0 })
	if _, err := a.download(old); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("its content can still be had: %v", err)
	}
}

func TestServiceThatMovesLeavesOneClusterForTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a, b := e.agent("edge-1"), e.agent("edge-2")
	a.awaitCommit("hello", commit("1"))
	w.console.Put(service("hello", "edge-2", "apps/hello"))
	b.awaitCommit("hello", commit("1"))
	await.True(w.t, "it left", func() bool { a.sync(); return len(a.have) == 0 })
}

// A folder that can't be resolved changes nothing in the cluster, and says why.
func TestMissingFolderKeepsWhatWasDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	for _, step := range []struct {
		change *consolev1.Change
		want   string
	}{
		{service("hello", "edge-1", "apps/nope"), `service "hello": folder "apps/nope" is not in commit 11111111 of source "shop". Check spec.path.`},
		{shop("HEAD", commit("2")), `service "hello": folder "apps/nope" is not in commit 22222222 of source "shop". Check spec.path.`},
	} {
		w.console.Put(step.change)
		await.True(w.t, step.want, func() bool { return w.console.hubOf("hello").GetProblem().GetMessage() == step.want })
		if a.sync() {
			t.Error("an error changed the cluster")
		}
		a.mustHave()
		if h := w.console.hubOf("hello"); h.GetRevision().GetCommit() != commit("1") ||
			h.GetDigest() != a.have["hello"] {
			t.Errorf("the console was told %v", h)
		}
	}
	w.console.Put(shop("HEAD", commit("1")))
	w.console.Put(service("hello", "edge-1", "apps/hello"))
	await.True(w.t, "the problem is gone", func() bool { return w.console.hubOf("hello").GetProblem() == nil })
}

func TestServiceThatWasNeverResolvedIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.console.Put(shop("HEAD", commit("1")), service("hello", "edge-1", "apps/nope"))
	a := w.start().agent("edge-1")
	// The agent has it from another replica, or from before this one lost its disk.
	a.have["hello"] = "sha256:from-before"
	await.True(w.t, "the problem is told", func() bool { return w.console.hubOf("hello").GetProblem() != nil })
	if resp := a.ask(&deliveryv1.SyncRequest{Digest: a.digest(), Have: a.list()}); len(resp.GetChanges().GetRemoved()) != 0 || resp.GetChanges() == nil {
		t.Errorf("got %v", resp)
	}
}

func TestMissingSourceIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.console.Put(consoletest.Deleted(consolev1.Kind_KIND_SOURCE, "shop"), service("hello", "edge-1", "apps/hello"))
	w.start()
	await.True(w.t, "the problem is told", func() bool {
		return w.console.hubOf("hello").GetProblem().GetMessage() == `service "hello": source "shop" is not in the catalog. Create it, or correct spec.source.`
	})
}

func TestClusterThatTheCatalogDoesNotHaveIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	_, err := e.agent("nope").rpc.Sync(context.Background(), &deliveryv1.SyncRequest{})
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v", err)
	}
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	w.console.Put(consoletest.Deleted(consolev1.Kind_KIND_CLUSTER, "edge-1"))
	await.True(w.t, "the cluster is gone", func() bool {
		_, err := a.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{Digest: a.digest(), Have: a.list()})
		return connect.CodeOf(err) == connect.CodeNotFound
	})
	// The cluster comes back with all it had.
	w.console.Put(consoletest.Cluster("edge-1"))
	await.True(w.t, "the cluster is back", func() bool {
		resp, err := a.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{Digest: a.digest()})
		return err == nil && resp.GetNotModified() != nil
	})
}

func TestRestartWithEverythingElseDownServesTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	e.stop()
	w.consoleServer.stop()
	w.gitServer.stop()

	again := w.start().agent("edge-1")
	if resp := again.ask(&deliveryv1.SyncRequest{Digest: a.digest()}); resp.GetNotModified() == nil {
		t.Errorf("got %v", resp)
	}
	if !again.sync() || again.have["hello"] != a.have["hello"] {
		t.Errorf("got %v, before %v", again.have, a.have)
	}
	again.mustHave()

	// And it catches up when they are back.
	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.Put(shop("HEAD", commit("2")))
	w.consoleServer.start()
	w.gitServer.start()
	again.awaitCommit("hello", commit("2"))
	again.mustHave()
}

// The catalog that a restart finds on the disk may be older than what agents were told: by this replica before it was
// killed, or by another one. Until the console has confirmed it, it is good for what an agent lacks only.
func TestOldCatalogTakesNothingAwayAndTurnsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	e.stop()
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}

	e = w.start()
	a := e.agent("edge-1")
	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.Put(shop("HEAD", commit("2")), service("later", "edge-1", "apps/hello"))
	a.awaitCommit("hello", commit("2"))
	a.awaitCommit("later", commit("2"))
	e.stop()
	w.consoleServer.stop()

	w.dir = old
	e = w.start()
	behind := e.agent("edge-1")
	behind.have = maps.Clone(a.have)
	if behind.sync() || behind.have["hello"] != a.have["hello"] || behind.have["later"] != a.have["later"] {
		t.Errorf("an old catalog changed %v to %v", a.have, behind.have)
	}
	if fresh := e.agent("edge-1"); !fresh.sync() || fresh.have["hello"] == "" {
		t.Errorf("an agent that has nothing got %v", fresh.have)
	}

	// Confirmed, it takes away and changes again.
	w.console.Put(consoletest.Deleted(consolev1.Kind_KIND_SERVICE, "later"))
	w.consoleServer.start()
	await.True(w.t, "later is removed", func() bool { behind.sync(); return behind.have["later"] == "" })
	if behind.have["hello"] != a.have["hello"] {
		t.Errorf("hello was turned back to %s", behind.have["hello"])
	}
}

func TestWithoutACatalogNothingIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	e.stop()
	w.consoleServer.stop()
	if err := os.RemoveAll(filepath.Join(w.dir, "catalog")); err != nil {
		t.Fatal(err)
	}
	e = w.startUnready()
	if code := e.readyz(); code != http.StatusServiceUnavailable {
		t.Errorf("readyz %d", code)
	}
	a = e.agent("edge-1")
	_, err := a.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{})
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	w.consoleServer.start()
	await.True(w.t, "it is ready", func() bool { return e.readyz() == http.StatusOK })
	a.awaitCommit("hello", commit("1"))
}

// A distributor that serves without the console says how old what it knows is.
func TestReadyzSaysHowStaleTheCatalogIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.start()
	current := func() bool { code, text := e.readiness(); return code == http.StatusOK && text == "ok\n" }
	await.True(w.t, "the catalog is the console's", current)
	e.stop()
	w.consoleServer.stop()
	written := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(filepath.Join(w.dir, "catalog", "catalog.snapshot"), written, written); err != nil {
		t.Fatal(err)
	}
	e = w.start()
	if _, text := e.readiness(); !strings.Contains(text, "the console was not heard since the start") ||
		!strings.Contains(text, "written 3h") {
		t.Errorf("with the console down: %q", text)
	}
	w.consoleServer.start()
	await.True(w.t, "it is current again", current)
}

func TestLostDiskIsFilledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	e.stop()
	w.dir = t.TempDir()
	again := w.start().agent("edge-1")
	again.awaitCommit("hello", commit("1"))
	if again.have["hello"] != a.have["hello"] {
		t.Error("another replica computes another digest")
	}
}

func TestBadCacheFileIsFetchedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	_, before := w.git.counts()
	files, err := filepath.Glob(filepath.Join(w.dir, "artifacts", "*.tar.zst"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	for i, damage := range []func(string) error{
		func(f string) error { return os.Truncate(f, 10) },
		func(f string) error { return os.WriteFile(f, []byte("rubbish"), 0o600) },
		os.Remove,
	} {
		if err := damage(files[0]); err != nil {
			t.Fatal(err)
		}
		a.mustHave()
		if _, serves := w.git.counts(); serves != before+i+1 {
			t.Errorf("damage %d: fetched %d times", i, serves-before)
		}
	}
}

func TestArtifactOfAnotherClusterIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	digest := a.got["hello"].GetArtifact().GetDigest()
	for _, other := range []*agent{e.agent("edge-2"), e.agent("nope")} {
		if _, err := other.download(digest); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
	// An artifact that is on the gitcache, but of no service of this cluster.
	w.git.commit(t, commit("9"), "other", "secret of others")
	if _, err := a.download(string(w.git.folders[commit("9")+" other"].Digest)); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyAgentsAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	digest := a.got["hello"].GetArtifact().GetDigest()
	for _, id := range []identity.Identity{
		{Kind: identity.KindUser, Name: "edge-1", Groups: []string{identity.AdminsGroup}},
		{Kind: identity.KindService, Name: identity.ServiceGitcache},
	} {
		x := e.as(id)
		if _, err := x.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s: sync: %v", id.Subject(), err)
		}
		if _, err := x.rpc.Report(context.Background(), report(1)); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s: report: %v", id.Subject(), err)
		}
		var status *artifact.StatusError
		if _, err := x.download(digest); !errors.As(err, &status) || status.Code != http.StatusForbidden {
			t.Errorf("%s: download: %v", id.Subject(), err)
		}
	}
	resp, err := w.client.Get(e.url + artifact.Path + digest)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", resp.Status)
	}
}

func TestNudgeComesWhenTheContentIsLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a, b := e.agent("edge-1"), e.agent("edge-2")
	a.awaitCommit("hello", commit("1"))
	events, others := a.watch(), b.watch()
	// A stream begins with a nudge while the last change is recent.
	a.awaitEvent(events, isNudge)
	b.awaitEvent(others, isNudge)

	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.Put(shop("HEAD", commit("2")))
	// The nudge for the first commit may still be on its way when its content was seen already: with it
	// nothing is new. A nudge that came too early for the second would be the last.
	for changed := false; !changed; changed = a.sync() {
		a.awaitEvent(events, isNudge)
	}
	w.gitServer.stop()
	if a.got["hello"].GetRevision().GetCommit() != commit("2") {
		t.Fatalf("nudged before there was anything: %v", a.got["hello"])
	}
	a.mustHave()
	select {
	case m := <-others:
		if isNudge(m) {
			t.Errorf("the other cluster heard %v", m)
		}
	default:
	}
}

func TestWatcherThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	slow, err := a.rpc.Watch(context.Background(), &deliveryv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	events := a.watch()
	a.awaitEvent(events, isNudge)
	for i := range 30 {
		c := commit(fmt.Sprintf("%x", 2+i%2))
		w.git.commit(t, c, "apps/hello", c)
		w.console.Put(shop("HEAD", c))
		a.awaitEvent(events, isNudge)
		a.awaitCommit("hello", c)
	}
}

func TestStreamSaysGoAwayOnDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logged := &record{}
	w.logged = logged
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	events := a.watch()
	a.awaitEvent(events, isNudge)
	e.stop()
	a.awaitEvent(events, isGoAway)
	if _, open := <-events; open {
		t.Error("the stream goes on after GoAway")
	}
	if logged.has("requests unfinished") {
		t.Error("the stream had to be cut")
	}
}

func TestWatchOfUnknownClusterIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream, err := w.start().agent("nope").rpc.Watch(context.Background(), &deliveryv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeNotFound {
		t.Errorf("got %v", stream.Err())
	}
	_ = stream.Close()
}

func report(sequence uint64) *deliveryv1.ReportRequest {
	return &deliveryv1.ReportRequest{Reports: []*deliveryv1.ServiceReport{{
		Service: "hello", Sequence: sequence,
		Phase: deliveryv1.Phase_PHASE_HEALTHY,
	}}}
}

func TestReportIsAcknowledgedOnlyWhenTheConsoleHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	a := w.start().agent("edge-1")
	resp, err := a.rpc.Report(context.Background(), report(7))
	if err != nil || len(resp.GetAcknowledged()) != 1 || resp.GetAcknowledged()[0].GetSequence() != 7 ||
		w.console.reports["edge-1/hello"] != 7 {
		t.Fatalf("got %v, %v; the console has %v", resp, err, w.console.reports)
	}
	w.console.fail(connect.NewError(connect.CodeUnavailable, errors.New("the database is down")))
	if _, err := a.rpc.Report(context.Background(), report(8)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	w.console.fail(nil)
	// An agent that lost its counter learns where to go on.
	resp, err = a.rpc.Report(context.Background(), report(1))
	if err != nil || resp.GetAcknowledged()[0].GetSequence() != 7 {
		t.Errorf("got %v, %v", resp, err)
	}
	w.consoleServer.stop()
	if _, err := a.rpc.Report(context.Background(), report(9)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestSyncIsASignOfLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.sync()
	seen := func() *consolev1.ClusterSeen {
		w.console.mu.Lock()
		defer w.console.mu.Unlock()
		return w.console.seen["edge-1"]
	}
	await.True(w.t, "the console knows that edge-1 lives", func() bool { return seen() != nil })
	if s := seen(); s.GetAgent().GetKubernetesVersion() != "v1.36" || time.Since(s.GetTime().AsTime()) > time.Hour {
		t.Errorf("got %v", s)
	}
	// Another sign that says nothing of the agent does not take away what is known.
	first := seen().GetTime().AsTime()
	a.watch()
	await.True(w.t, "the stream counts, too", func() bool { return seen().GetTime().AsTime().After(first) })
	if seen().GetAgent().GetVersion() != "v1" {
		t.Errorf("got %v", seen())
	}
}

// The end of a stream is told if it was not the distributor that ended it.
func TestBrokenStreamIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	lost := func(cluster string) bool {
		w.console.mu.Lock()
		defer w.console.mu.Unlock()
		return w.console.lost[cluster]
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := e.agent("edge-1").rpc.Watch(ctx, &deliveryv1.WatchRequest{})
	if err != nil || !stream.Receive() {
		t.Fatalf("watch: %v, %v", err, stream.Err())
	}
	drained := e.agent("edge-2").watch()
	<-drained
	cancel()
	_ = stream.Close()
	await.True(w.t, "the end of the stream is told", func() bool { return lost("edge-1") })
	e.stop()
	if lost("edge-2") {
		t.Error("a drain is told as the end of an agent")
	}
}

func TestGitcacheThatIsAwayOrBehindIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	w.git.fail(&artifactv1.ResolveError{Reason: artifactv1.ResolveError_REASON_NOT_FETCHED, Message: "not fetched yet"})
	a := w.start().agent("edge-1")
	await.True(w.t, "it was asked twice", func() bool { n, _ := w.git.counts(); return n >= 2 })
	if p := w.console.hubOf("hello").GetProblem(); p != nil {
		t.Errorf("what may pass within seconds was told: %v", p)
	}
	w.gitServer.stop()
	w.git.fail(nil)
	w.gitServer.start()
	a.awaitCommit("hello", commit("1"))
	n, _ := w.git.counts()
	a.sync()
	if again, _ := w.git.counts(); again != n {
		t.Error("what is resolved was asked for again")
	}
}

func TestAnotherGitcacheIsAskedWhereOneCanNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	behind := newGitcache(t)
	behind.fail(&artifactv1.ResolveError{
		Reason:  artifactv1.ResolveError_REASON_UNKNOWN_SOURCE,
		Message: "never heard of it",
	})
	w.join("gitcache-0", w.serve(behind.handler()).url)
	gone := w.serve(http.NotFoundHandler())
	gone.stop()
	w.join("gitcache-00", gone.url)
	w.join("evil", "http://evil.example.com") // a forged member: our token must not go there
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.mustHave()
	if n, _ := behind.counts(); n == 0 {
		t.Error("the first gitcache was not asked: this test shows nothing")
	}
}

func TestRefusedFolderIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	w.git.fail(&artifactv1.ResolveError{
		Reason:  artifactv1.ResolveError_REASON_REFUSED,
		Message: `link "a" leaves the folder`,
	})
	w.start()
	await.True(w.t, "the problem is told", func() bool {
		return w.console.hubOf("hello").GetProblem().GetMessage() ==
			`service "hello": folder "apps/hello" in commit 11111111 of source "shop" can't be delivered: link "a" leaves the folder.`
	})
}

func TestReplicaIsAMemberOfItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.start()
	members := func() []string {
		var urls []string
		ms, err := w.coord.Members(context.Background(), "distributor")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			urls = append(urls, m.URL)
		}
		return urls
	}
	await.True(w.t, "it is listed", func() bool { return slices.Equal(members(), []string{e.url}) })
	e.stop()
	if len(members()) != 0 {
		t.Errorf("still listed: %v", members())
	}
}

func TestMetricsAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	admin := e.as(identity.Identity{Kind: identity.KindUser, Name: "root", Groups: []string{identity.AdminsGroup}})
	resp, err := admin.http.Get(e.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`fairlead_distributor_syncs_total{result="changes"} `,
		`fairlead_distributor_resolves_total{result="resolved"} 1`,
		"fairlead_distributor_services 1", "fairlead_distributor_clusters 2", "fairlead_distributor_cache_artifacts 1",
		"fairlead_distributor_catalog_silence_seconds", "fairlead_distributor_unresolved 0",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestConfigSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	good := distributor.Config{Config: hubservice.Config{
		DataDir: "x", HubSecretFile: "y",
		ConsoleURL: "https://hub.example.com",
	}}
	if err := good.Validate(); err != nil || good.NextPoll != 2*time.Minute {
		t.Errorf("%v, %v", err, good.NextPoll)
	}
	for want, change := range map[string]func(*distributor.Config){
		"--data-dir":        func(c *distributor.Config) { c.DataDir = "" },
		"--hub-secret-file": func(c *distributor.Config) { c.HubSecretFile = "" },
		"--console-url":     func(c *distributor.Config) { c.ConsoleURL = "https://user:hunter2@hub" },
		"--gitcache-urls":   func(c *distributor.Config) { c.GitcacheURLs = []string{"ftp://x"} },
		"--advertise-url":   func(c *distributor.Config) { c.AdvertiseURL = "hub:7402" },
		"--next-poll":       func(c *distributor.Config) { c.NextPoll = time.Millisecond },
		"--cache-bytes":     func(c *distributor.Config) { c.CacheBytes = -1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
