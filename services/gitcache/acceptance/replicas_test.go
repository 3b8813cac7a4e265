package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// fleetTTL of leases and memberships: short, and long enough for a busy machine.
const fleetTTL = 8 * time.Second

// fleet is a hub with a Redis, some sources and replicas that come and go.
type fleet struct {
	*fixture
	redis *redistest.Server
	repos map[string]*gittest.Repo // by source
	heads map[string]string

	mu    sync.Mutex // guards nodes
	nodes map[string]*node
}

func newFleet(t *testing.T, sources int) *fleet {
	t.Helper()
	f := &fleet{
		fixture: newFixture(t), redis: redistest.Start(t), repos: map[string]*gittest.Repo{},
		heads: map[string]string{}, nodes: map[string]*node{},
	}
	f.console.deleteSource()
	for i := range sources {
		name := fmt.Sprintf("s%02d", i)
		repo := f.git.NewRepo(t, name+".git")
		f.heads[name] = repo.Commit("one", gittest.Files{"deploy/web.yaml": "name: " + name + "\n"})
		f.repos[name] = repo
		f.console.add(name, repo.URL())
	}
	return f
}

// add makes a source with a service that uses its folder deploy.
func (c *console) add(name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	c.sources[name] = &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: name, Uid: "uid-" + name},
		Spec:     &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url, Interval: durationpb.New(seldom)}},
		Status:   &consolev1.SourceStatus{},
	}
	c.services["web-"+name] = &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "web-" + name, Uid: "uid-web-" + name},
		Spec:     &consolev1.ServiceSpec{Source: name, Path: "deploy", Cluster: "a"},
	}
}

// begin starts a replica over an empty folder.
func (f *fleet) begin(name string) *node { return f.over(name, f.t.TempDir()) }

// over starts a replica over a folder.
func (f *fleet) over(name, dir string) *node {
	f.t.Helper()
	n := f.startWith(f.member(name, dir))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[name] = n
	return n
}

// unready starts a replica over an empty folder that has nothing to give yet.
func (f *fleet) unready(name string) *node {
	f.t.Helper()
	return f.run(f.member(name, f.t.TempDir()))
}

func (f *fleet) member(name, dir string) (gitcache.Config, coordination.Coordinator) {
	f.t.Helper()
	c, err := coordination.Open(f.redis.URL())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	cfg := f.config(dir)
	cfg.Replica, cfg.LeaseTTL = name, fleetTTL
	return cfg, c
}

// end stops a replica as SIGTERM does. Callers are not sent to it any more before it is gone.
func (f *fleet) end(name string) {
	f.t.Helper()
	f.mu.Lock()
	n := f.nodes[name]
	delete(f.nodes, name)
	f.mu.Unlock()
	n.stop()
}

func (f *fleet) live() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*node
	for _, n := range f.nodes {
		all = append(all, n)
	}
	return all
}

// shards is ShardService, called by an administrator.
func (n *node) shards() gitcachev1connect.ShardServiceClient {
	return n.shardsAs(identity.Identity{Kind: identity.KindUser, Name: "root", Groups: []string{identity.AdminsGroup}})
}

func (n *node) shardsAs(id identity.Identity) gitcachev1connect.ShardServiceClient {
	hc, options := n.as(id)
	return gitcachev1connect.NewShardServiceClient(hc, n.url, options...)
}

func (n *node) listShards(replica string) []*gitcachev1.Shard {
	n.f.t.Helper()
	var all []*gitcachev1.Shard
	shards, token := n.shards(), ""
	for {
		var resp *gitcachev1.ListShardsResponse
		await.NoError(n.f.t, "shards are listed", func() (err error) { // a busy Redis may not answer in time
			resp, err = shards.ListShards(n.f.t.Context(),
				&gitcachev1.ListShardsRequest{PageSize: 5, PageToken: token, Replica: replica})
			return err
		})
		all = append(all, resp.GetShards()...)
		if token = resp.GetNextPageToken(); token == "" {
			return all
		}
	}
}

// settled waits until every source is with the replica that should own it, and one more has a copy.
func (n *node) settled(replicas int) {
	n.f.t.Helper()
	await.NoError(n.f.t, fmt.Sprintf("everything is where it should be with %d replicas", replicas), func() error {
		resp, err := n.shards().ListReplicas(n.f.t.Context(), &gitcachev1.ListReplicasRequest{})
		if err != nil {
			return err
		}
		if len(resp.GetReplicas()) != replicas {
			return fmt.Errorf("%d replicas live", len(resp.GetReplicas()))
		}
		for _, s := range n.listShards("") {
			if s.GetNote() != "" || s.GetOwner() == "" {
				return fmt.Errorf("%s: %s", s.GetSource(), s.GetNote())
			}
		}
		var copies int32
		for _, r := range resp.GetReplicas() {
			copies += r.GetCopies()
		}
		if want := len(n.listShards("")); replicas > 1 && int(copies) != want {
			return fmt.Errorf("%d copies, want %d", copies, want)
		}
		return nil
	})
}

func (f *fleet) allPublished() {
	f.t.Helper()
	await.NoError(f.t, "all heads are published", func() error {
		for name, commit := range f.heads {
			if got := head(f.console.statusOf(name), "HEAD").GetCommit(); got != commit {
				return fmt.Errorf("%s is at %q", name, got)
			}
		}
		return nil
	})
}

// fetch asks for a source's folder and reads the artifact: what a distributor does. The error says what is wrong.
func (n *node) fetch(ctx context.Context, source string) error {
	resp, err := n.artifacts.Resolve(ctx, &artifactv1.ResolveRequest{
		Queries: []*artifactv1.Query{{Source: source, Revision: "HEAD", Path: "deploy"}},
	})
	if err != nil {
		return fmt.Errorf("resolve: %w", err)
	}
	r := resp.GetResults()[0]
	if r.GetError() != nil {
		return errors.New(r.GetError().GetMessage())
	}
	d, err := artifact.ParseDigest(r.GetResolved().GetArtifact().GetDigest())
	if err != nil {
		return err
	}
	in, err := artifact.Fetch(ctx, n.bytes, n.url, d, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	found := ""
	err = artifact.Walk(in, artifact.Limits{}, func(_ artifact.Entry, content io.Reader) error {
		b, err := io.ReadAll(content)
		found += string(b)
		return err
	})
	if err == nil && !strings.HasPrefix(found, "name: "+source+"\n") {
		err = fmt.Errorf("the artifact holds %q", found)
	}
	return err
}

// load asks the live replicas for everything, over and over, until stopped.
func (f *fleet) load() (stop func() (answers int64)) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var asking sync.WaitGroup
	var answers atomic.Int64
	for range 2 {
		asking.Go(func() {
			for ctx.Err() == nil {
				for name := range f.repos {
					for _, n := range f.live() {
						err := n.fetch(ctx, name)
						if err != nil && ctx.Err() == nil && slices.Contains(f.live(), n) {
							f.t.Errorf("%s: %v", name, err)
						}
						answers.Add(1)
					}
				}
			}
		})
	}
	return func() int64 {
		cancel()
		asking.Wait()
		return answers.Load()
	}
}

// pause waits for what must not happen.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// asked is how often upstream was asked for a list and for a pack.
func (f *fleet) asked() (lists, fetches int) { return f.git.Count("list"), f.git.Count("fetch") }

func (f *fleet) upstreamOff() { f.git.SetFault(gittest.Status(http.StatusServiceUnavailable)) }

// TestReplicasComeAndGo is scale-up, scale-down and drain under load: upstream sees none of it.
func TestReplicasComeAndGoAndUpstreamSeesNoneOfIt(t *testing.T) {
	t.Parallel()
	const sources = 12
	f := newFleet(t, sources)
	one := f.begin("one")
	f.allPublished()
	one.settled(1)
	lists, fetches := f.asked()
	if lists != sources || fetches != sources {
		t.Fatalf("%d sources: %d lists and %d fetches", sources, lists, fetches)
	}
	stop := f.load()

	two := f.begin("two")
	f.begin("three")
	one.settled(3)
	for _, name := range []string{"one", "two", "three"} {
		if len(one.listShards(name)) == 0 {
			t.Errorf("%s owns nothing", name)
		}
	}
	f.end("one")
	two.settled(2)
	f.over("one", one.dir)
	two.settled(3)
	f.end("three")
	two.settled(2)

	if answers := stop(); answers < sources {
		t.Errorf("only %d answers", answers)
	}
	if l, g := f.asked(); l != lists || g != fetches {
		t.Errorf("moving cost upstream %d lists and %d fetches", l-lists, g-fetches)
	}
	for name := range f.repos {
		if s := f.console.statusOf(name); s.GetEpoch() < 1 || s.GetProblem() != nil {
			t.Errorf("%s: %v", name, s)
		}
	}

	// A push still arrives, wherever its source is now.
	for name, repo := range f.repos {
		f.heads[name] = repo.Commit("two", gittest.Files{"deploy/web.yaml": "name: " + name + "\nround: 2\n"})
		if _, err := two.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	f.allPublished()
	if l, g := f.asked(); l != lists+sources || g != fetches+sources {
		t.Errorf("%d pushes cost %d lists and %d fetches", sources, l-lists, g-fetches)
	}
}

func TestAnEmptyReplicaFillsFromItsPeersWithUpstreamOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	one := f.begin("one")
	two := f.begin("two")
	f.allPublished()
	one.settled(2)
	for name := range f.repos {
		if err := one.fetch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	f.upstreamOff()

	// One is replaced by another with nothing, then the other as well.
	f.end("one")
	three := f.begin("three")
	two.settled(2)
	f.end("two")
	three.settled(1)
	for name := range f.repos {
		if err := three.fetch(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := three.metric("fairlead_gitcache_fetches_total"); got != 0 {
		t.Errorf("it asked upstream for %v packs", got)
	}
	if got := three.metric("fairlead_gitcache_copied_bytes_total"); got == 0 {
		t.Error("it copied nothing")
	}
}

// The empty one is first and owns everything; upstream is off, so it has nothing until the other one comes.
func TestAnEmptyOwnerCopiesFromWhoComesLater(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	one := f.begin("one")
	f.allPublished()
	for name := range f.repos {
		if err := one.fetch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	f.end("one")
	f.upstreamOff()
	two := f.unready("two")
	f.over("one", one.dir)
	f.talkTo(two)
	two.settled(2)
	f.end("one")
	two.settled(1)
	for name := range f.repos {
		if err := two.fetch(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := two.metric("fairlead_gitcache_fetches_total"); got != 0 {
		t.Errorf("it asked upstream for %v packs", got)
	}
}

func TestReplicasOfOtherServicesAreListed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	one := f.begin("one")
	_, c := f.member("other", t.TempDir())
	meta := map[string]string{"version": "v1.2.3", "started": "2026-11-25T10:00:00Z", "draining": "1"}
	for group, m := range map[string]coordination.Member{
		"tunnel": {ID: "t", URL: "http://127.0.0.1:1", Meta: meta}, "distributor": {ID: "d", URL: "http://127.0.0.1:2"}, "agents": {ID: "x", URL: "http://127.0.0.1:3"},
	} {
		if err := signing(c).Join(t.Context(), group, m, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	await.NoError(t, "the replicas are listed", func() error {
		resp, err := one.shards().ListReplicas(t.Context(), &gitcachev1.ListReplicasRequest{})
		if err != nil {
			return err
		}
		var got []string
		for _, r := range resp.GetOthers() {
			got = append(got, fmt.Sprint(r.GetService(), " ", r.GetName(), " ", r.GetVersion(), " ", r.GetDraining(), " ", r.GetStartTime().GetSeconds()))
		}
		if want := []string{"distributor d  false 0", "tunnel t v1.2.3 true 1795600800"}; !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q: %s", got, want, resp.GetOthersMissing())
		}
		return nil
	})
}

func TestAReplicaDrainsWhenAnAdministratorSaysSo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	one := f.begin("one")
	two := f.begin("two")
	f.allPublished()
	one.settled(2)
	drain := func(at *node, replica string, draining bool) error {
		_, err := at.shards().SetDraining(t.Context(),
			&gitcachev1.SetDrainingRequest{Replica: replica, Draining: draining})
		return err
	}
	user := identity.Identity{Kind: identity.KindUser, Name: "ada"}
	if _, err := one.shardsAs(user).SetDraining(t.Context(), &gitcachev1.SetDrainingRequest{Replica: "one", Draining: true}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a user drains a replica: %v", err)
	}
	_, err := one.shardsAs(user).ListReplicas(t.Context(), &gitcachev1.ListReplicasRequest{})
	wantCode(t, err, connect.CodePermissionDenied, "no grant")
	f.console.grant("viewer", "shop")
	await.NoError(t, "whoever has a grant may look", func() error {
		_, err := one.shardsAs(user).ListReplicas(t.Context(), &gitcachev1.ListReplicasRequest{})
		return err
	})
	_, err = one.shardsAs(user).GetCoordination(t.Context(), &gitcachev1.GetCoordinationRequest{})
	wantCode(t, err, connect.CodePermissionDenied, "may not call this")
	await.NoError(t, "an administrator sees how the replicas agree", func() error {
		is, err := one.shards().GetCoordination(t.Context(), &gitcachev1.GetCoordinationRequest{})
		if err == nil && (is.GetReplica() != "one" || is.GetKind() != "redis" || is.GetProblem() != "" || is.GetSince() == nil || is.GetRoundTrip().AsDuration() <= 0) {
			err = fmt.Errorf("got %v", is)
		}
		return err
	})
	if err := drain(one, "nobody", true); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("drain of a stranger: %v", err)
	}
	if err := drain(two, "one", true); err != nil { // another replica hands the call on
		t.Fatal(err)
	}
	if err := drain(one, "two", true); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("drain of the last one: %v", err)
	}
	await.NoError(t, "it owns nothing", func() error {
		for _, s := range two.listShards("") {
			if s.GetOwner() != "two" || s.GetNote() != "" || len(s.GetPreferred()) != 1 {
				return fmt.Errorf("%v", s)
			}
		}
		return nil
	})
	if _, err := two.shards().MoveSource(t.Context(), &gitcachev1.MoveSourceRequest{Source: "s00", Replica: "one"}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("moved to a replica that drains: %v", err)
	}
	for name := range f.repos {
		if err := one.fetch(t.Context(), name); err != nil {
			t.Errorf("it does not serve any more: %v", err)
		}
	}
	if err := drain(two, "one", false); err != nil {
		t.Fatal(err)
	}
	one.settled(2)
	if lists, fetches := f.asked(); lists != 6 || fetches != 6 {
		t.Errorf("%d lists and %d fetches for 6 sources", lists, fetches)
	}
}

func TestASourceThatWasMovedStays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	one := f.begin("one")
	two := f.begin("two")
	f.allPublished()
	one.settled(2)
	name := "s00"
	shard := func() *gitcachev1.Shard {
		all := two.listShards("")
		return all[slices.IndexFunc(all, func(s *gitcachev1.Shard) bool { return s.GetSource() == name })]
	}
	preferred, other := shard().GetPreferred()[0], shard().GetPreferred()[1]
	for _, at := range []*node{one, two} { // any replica takes the call, also again
		if _, err := at.shards().MoveSource(t.Context(), &gitcachev1.MoveSourceRequest{Source: name, Replica: other}); err != nil {
			t.Fatal(err)
		}
		if s := shard(); s.GetOwner() != other || s.GetNote() == "" {
			t.Fatalf("after the move: %v", s)
		}
	}
	for target, code := range map[string]connect.Code{"nobody": connect.CodeNotFound} {
		if _, err := one.shards().MoveSource(t.Context(), &gitcachev1.MoveSourceRequest{Source: name, Replica: target}); connect.CodeOf(err) != code {
			t.Errorf("moved to %s: %v", target, err)
		}
	}
	if _, err := one.shards().MoveSource(t.Context(), &gitcachev1.MoveSourceRequest{Source: "none", Replica: other}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("moved what is not there: %v", err)
	}
	pause(t, 2*fleetTTL)
	if s := shard(); s.GetOwner() != other {
		t.Errorf("it did not stay: %v", s)
	}
	// The move ends with the replica, though.
	f.end(other)
	f.mu.Lock()
	left := f.nodes[preferred]
	f.mu.Unlock()
	left.settled(1)
	if lists, fetches := f.asked(); lists != 3 || fetches != 3 {
		t.Errorf("%d lists and %d fetches for 3 sources", lists, fetches)
	}
}

// flushLeeway is what an owner may be late with its word to a flushed store, less some: beyond, the next in line is to
// take over.
const flushLeeway = fleetTTL/8 - 500*time.Millisecond

func TestAFlushedRedisMovesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9)
	one := f.begin("one")
	f.begin("two")
	f.begin("three")
	f.allPublished()
	one.settled(3)
	const rounds, mostStalled = 3, 12
	late := "" // what a flush moved though no stall was seen: one owner's word may be late between two looks, and twice it is no accident
	for passed, stalled := 0, 0; passed < rounds; {
		longest := f.stalls()
		moved := f.flush(one)
		stall := longest()
		switch {
		case moved == "":
			passed++
		case stall < flushLeeway && late != "":
			t.Fatalf("one flush %s, and another one %s", late, moved)
		case stall < flushLeeway:
			late = moved
			t.Logf("repeated, though the machine stood still for %s only: the flush %s", stall, moved)
		case stalled == mostStalled:
			t.Fatalf("the machine was too busy for %d rounds; in the last it stood still for %s, and the flush %s",
				stalled, stall, moved)
		default:
			stalled++
			t.Logf("repeated, as the machine stood still for %s: the flush %s", stall, moved)
		}
	}
}

// flush empties Redis, and says what that moved or cost, if anything.
func (f *fleet) flush(one *node) string {
	f.t.Helper()
	before := map[string]string{}
	for _, s := range one.listShards("") {
		before[s.GetSource()] = s.GetOwner()
	}
	lists, fetches := f.asked()
	f.redis.Do("FLUSHALL")
	await.NoError(f.t, "the leases are back", func() error {
		for _, s := range one.listShards("") {
			if s.GetOwner() == "" {
				return errors.New(s.GetSource() + " has no owner")
			}
		}
		return nil
	})
	pause(f.t, 2*fleetTTL)
	var moved []string
	for _, s := range one.listShards("") {
		if was := before[s.GetSource()]; was != s.GetOwner() {
			moved = append(moved, fmt.Sprintf("moved %s from %s to %s", s.GetSource(), was, s.GetOwner()))
		}
	}
	one.settled(3)
	if l, g := f.asked(); l != lists || g != fetches {
		moved = append(moved, fmt.Sprintf("cost upstream %d lists and %d fetches", l-lists, g-fetches))
	}
	return strings.Join(moved, ", ")
}

// stalls watches how long this process gets no processor, or Redis no answer to it; longest ends that and says the
// worst.
func (f *fleet) stalls() (longest func() time.Duration) {
	f.t.Helper()
	const often = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(f.t.Context())
	var worst time.Duration
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := time.Now(); ctx.Err() == nil; {
			f.redis.Do("PING")
			pause(f.t, often)
			now := time.Now()
			worst, last = max(worst, now.Sub(last)-often), now
		}
	})
	end := func() { cancel(); watching.Wait() }
	f.t.Cleanup(end) // before Redis ends
	return func() time.Duration {
		end()
		return worst
	}
}

// A holder that can't renew its lease stops asking upstream by its own clock.
func TestWhoLosesItsLeaseStopsItsFetch(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	one := f.begin("one")
	f.allPublished()
	one.settled(1)
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	stall := gittest.StallFetch(started, nil)
	f.git.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		handled := stall(w, r)
		if handled {
			ended <- struct{}{}
		}
		return handled
	})
	f.repos["s00"].Commit("two", gittest.Files{"deploy/web.yaml": "name: s00\n2\n"})
	if _, err := one.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "s00"}); err != nil {
		t.Fatal(err)
	}
	<-started
	f.redis.Pause()
	defer f.redis.Resume()
	select {
	case <-ended:
	case <-time.After(fleetTTL + patience):
		t.Fatal("it goes on asking without a lease")
	}
	f.git.SetFault(nil)
	if err := one.fetch(t.Context(), "s00"); err != nil {
		t.Errorf("with Redis hung it does not serve: %v", err)
	}
}

// spawnOne runs a replica as a process of its own.
func (f *fleet) spawnOne(dir string) (n *node, kill func()) {
	f.t.Helper()
	return f.spawn(dir, "GITCACHE_TEST_REDIS="+f.redis.URL())
}

func TestAKilledOwnerIsFollowedByItsCopyWithUpstreamOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	dir := t.TempDir()
	victim, kill := f.spawnOne(dir)
	two := f.begin("two")
	f.allPublished()
	two.settled(2)
	mine := len(two.listShards("two"))
	if mine == 0 || mine == len(f.repos) {
		t.Fatalf("one of two replicas owns %d of %d", mine, len(f.repos))
	}
	for name := range f.repos {
		if err := victim.fetch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	f.upstreamOff()
	_, fetches := f.asked()

	kill()
	for name := range f.repos {
		if err := two.fetch(t.Context(), name); err != nil {
			t.Errorf("right after the kill: %s: %v", name, err)
		}
	}
	await.NoError(t, "it owns all", func() error {
		for _, s := range two.listShards("") {
			if s.GetOwner() != "two" {
				return fmt.Errorf("%v", s)
			}
		}
		return nil
	})
	for name, commit := range f.heads {
		if got := head(f.console.statusOf(name), "HEAD").GetCommit(); got != commit {
			t.Errorf("the head of %s went from %s to %s", name, commit, got)
		}
	}
	if _, g := f.asked(); g != fetches {
		t.Errorf("%d packs were asked for", g-fetches)
	}

	// The replica comes back under its name with its disk, and gets its share back.
	again, _ := f.spawnOne(dir)
	again.settled(2)
	if got := len(two.listShards("two")); got != mine {
		t.Errorf("%d sources before, %d after the other one came back", mine, got)
	}
}

func TestAnOwnerThatWasStoppedStepsDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	victim, _ := f.spawnOne(t.TempDir())
	two := f.begin("two")
	f.allPublished()
	two.settled(2)
	lists, _ := f.asked()
	signal := func(s syscall.Signal) {
		if err := victim.process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	stopped := len(f.repos) - len(two.listShards("two"))
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { _ = victim.process.Signal(syscall.SIGCONT) })
	for name := range f.repos { // what the console was told may reach the replica late on a busy machine
		await.NoError(t, "while the other one hangs, "+name+" is answered", func() error { return two.fetch(t.Context(), name) })
	}
	await.NoError(t, "the other one owns all", func() error {
		for _, s := range two.listShards("") {
			if s.GetOwner() != "two" {
				return fmt.Errorf("%v", s)
			}
		}
		return nil
	})
	for name, repo := range f.repos {
		f.heads[name] = repo.Commit("two", gittest.Files{"deploy/web.yaml": "name: " + name + "\nround: 2\n"})
		if _, err := two.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	f.allPublished()
	pause(t, fleetTTL) // a poll that is due comes late on a busy machine
	l, _ := f.asked()
	if most := lists + 2*len(f.repos); l > most { // a poll for the failover, one for the refresh
		t.Errorf("%d lists, at most %d are due", l, most)
	}
	claims := f.claims()
	signal(syscall.SIGCONT)
	two.settled(2)
	if got := len(f.repos) - len(two.listShards("two")); got != stopped {
		t.Errorf("it owned %d, and %d after it went on", stopped, got)
	}
	f.allPublished() // nothing went back
	// On a machine that stood still for longer than a lease lasts, sources were claimed besides, each with a poll.
	besides := f.claims() - claims - int64(stopped)
	if now, _ := f.asked(); int64(now-l) > besides {
		t.Errorf("the one that went on asked upstream %d times, after %d times since it was stopped, with %d claims that were no hand-overs", now-l, l-lists, besides)
	}
}

// claims are all that there were of the fleet's sources.
func (f *fleet) claims() (n int64) {
	for name := range f.repos {
		n += f.console.statusOf(name).GetEpoch()
	}
	return n
}

// front is a console as one replica reaches it.
type front struct {
	*httptest.Server
	cut atomic.Bool
}

func (f *fleet) front() *front {
	f.t.Helper()
	away := &front{}
	away.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		f.console.Config.Handler.ServeHTTP(w, r)
	}))
	away.Config.Protocols = f.console.Config.Protocols
	away.Start()
	f.t.Cleanup(func() {
		away.CloseClientConnections()
		away.Close()
	})
	return away
}

func (f *front) cutOff() {
	f.cut.Store(true)
	f.CloseClientConnections()
}

// Commits that a replica fetches wait if it reaches Redis and not the console: the replica leaves its sources to one
// that reaches both.
func TestAnOwnerThatIsCutOffFromTheConsoleIsFollowedByOneThatReachesIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	link := f.front()
	cfg, c := f.member("one", t.TempDir())
	cfg.ConsoleURL = link.URL
	one, two := f.startWith(cfg, c), f.begin("two")
	f.allPublished()
	two.settled(2)
	if len(one.listShards("one")) == 0 {
		t.Fatal("it should own some")
	}
	link.cutOff()
	for name, repo := range f.repos {
		f.heads[name] = repo.Commit("two", gittest.Files{"deploy/web.yaml": "name: " + name + "-2\n"})
	}
	await.NoError(t, "all commits are published", func() error {
		for name, commit := range f.heads {
			if head(f.console.statusOf(name), "HEAD").GetCommit() == commit {
				continue
			}
			// As a push does. The one that is cut off is told, too, fetches, and can't publish.
			_, err := two.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: name})
			return errors.Join(fmt.Errorf("%s is not published", name), err)
		}
		return nil
	})
	for _, s := range two.listShards("") {
		if s.GetOwner() != "two" || s.GetNote() != "" {
			t.Errorf("%s is owned by %q: %s", s.GetSource(), s.GetOwner(), s.GetNote())
		}
	}
	for name, commit := range f.heads {
		if s := f.console.statusOf(name); s.GetOwner() != "two" || head(s, "HEAD").GetCommit() != commit {
			t.Errorf("%s was published by %q", name, s.GetOwner())
		}
	}
}
