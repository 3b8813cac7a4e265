package acceptance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// follower keeps the model of what a Watch told, and complains about what must not happen.
type follower struct {
	kinds     []consolev1.Kind
	revision  int64
	token     string
	snapshots int
	clusters  map[string]*consolev1.Cluster
	sources   map[string]*consolev1.Source
	services  map[string]*consolev1.Service
	secrets   map[string]*consolev1.Secret
	etags     map[string]bool // every state that a delta told
	deleted   map[string]bool
	inside    bool // a snapshot
	problems  []string
}

func newFollower() *follower {
	f := &follower{etags: map[string]bool{}, deleted: map[string]bool{}}
	f.clear()
	return f
}

func (f *follower) clear() {
	f.clusters, f.sources = map[string]*consolev1.Cluster{}, map[string]*consolev1.Source{}
	f.services, f.secrets = map[string]*consolev1.Service{}, map[string]*consolev1.Secret{}
}

func (f *follower) take(m *consolev1.WatchResponse) {
	if !f.inside && m.GetSnapshotBegin() == nil && m.GetResumeToken() == "" {
		f.problems = append(f.problems, "no token outside of a snapshot")
	}
	if m.GetResumeToken() != "" {
		f.token, f.revision = m.GetResumeToken(), m.GetRevision()
	}
	switch {
	case m.GetSnapshotBegin() != nil:
		f.clear()
		f.snapshots++
		f.inside = true
	case m.GetSnapshotEnd() != nil:
		f.inside = false
	case m.GetChanges() != nil:
		for _, c := range m.GetChanges().GetChanges() {
			f.change(c)
		}
	}
}

func (f *follower) change(c *consolev1.Change) {
	switch {
	case c.GetCluster() != nil:
		m := c.GetCluster().GetMetadata()
		if !f.inside && f.etags[m.GetEtag()] {
			f.problems = append(f.problems, "twice: "+m.GetName()+" "+m.GetEtag())
		}
		if old := f.clusters[m.GetName()]; old != nil &&
			(old.GetMetadata().GetUid() != m.GetUid() || old.GetMetadata().GetRevision() >= m.GetRevision()) {
			f.problems = append(f.problems, fmt.Sprintf("%s went from %v to %v", m.GetName(), old.GetMetadata(), m))
		}
		f.etags[m.GetEtag()] = true
		f.clusters[m.GetName()] = c.GetCluster()
	case c.GetSource() != nil:
		f.sources[c.GetSource().GetMetadata().GetName()] = c.GetSource()
	case c.GetService() != nil:
		f.services[c.GetService().GetMetadata().GetName()] = c.GetService()
	case c.GetSecret() != nil:
		f.secrets[c.GetSecret().GetMetadata().GetName()] = c.GetSecret()
	case c.GetDeleted() != nil:
		d := c.GetDeleted()
		if f.deleted[d.GetUid()] {
			f.problems = append(f.problems, "deleted twice: "+d.GetName())
		}
		f.deleted[d.GetUid()] = true
		switch d.GetKind() {
		case consolev1.Kind_KIND_CLUSTER:
			delete(f.clusters, d.GetName())
		case consolev1.Kind_KIND_SOURCE:
			delete(f.sources, d.GetName())
		case consolev1.Kind_KIND_SERVICE:
			delete(f.services, d.GetName())
		case consolev1.Kind_KIND_SECRET:
			delete(f.secrets, d.GetName())
		}
	}
}

func (f *follower) etagsOfClusters() map[string]string {
	out := map[string]string{}
	for name, c := range f.clusters {
		out[name] = c.GetMetadata().GetEtag()
	}
	return out
}

// patience bounds waits for what happens at once on a machine that has time.
const patience = 5 * time.Minute

// follow takes messages in until enough says so.
func (f *follower) follow(t *testing.T, a api, enough func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := a.catalog.Watch(ctx, &consolev1.WatchRequest{ResumeToken: f.token, Kinds: f.kinds})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = stream.Close() }() // in this order: Close reads on until the stream ends
	for !enough() {
		if !stream.Receive() {
			t.Fatalf("stream ended: %v", stream.Err())
		}
		f.take(stream.Msg())
	}
}

func TestWatchTellsTheWholeCatalog(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, gitcache := r.admin(t), r.service(t, identity.ServiceGitcache)
	source := admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putService(t, "web", "edge-1")
	if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
		AllowMissing: true, Secret: &consolev1.Secret{
			Metadata: meta("git"), Data: map[string]string{"token": "hunter2"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	f := newFollower()
	f.follow(t, gitcache, func() bool { return f.snapshots == 1 && !f.inside })
	if len(f.sources) != 1 || len(f.clusters) != 1 || len(f.services) != 1 || len(f.secrets) != 1 {
		t.Fatalf("snapshot %+v", f)
	}
	if f.services["web"].GetSpec().GetPath() != "deploy" || f.services["web"].GetStatus() != nil ||
		f.clusters["edge-1"].GetStatus() != nil {
		t.Errorf("service %v, cluster %v", f.services["web"], f.clusters["edge-1"])
	}
	if got := f.secrets["git"].GetData(); len(got) != 1 || got["token"] != "" {
		t.Errorf("secret data %v", got)
	}
	claim, err := gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
		Source: "shop", Uid: source.GetMetadata().GetUid(), Owner: "gitcache-0",
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, gitcache, source, claim.GetEpoch(), commitA)
	f.follow(t, gitcache, func() bool { return len(f.sources["shop"].GetStatus().GetHeads()) == 1 })
	status := f.sources["shop"].GetStatus()
	if status.GetEpoch() != 1 || status.GetOwner() != "gitcache-0" ||
		status.GetHeads()[0].GetRevision().GetCommit() != commitA {
		t.Errorf("status %v", status)
	}
	if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	f.follow(t, gitcache, func() bool { return len(f.services) == 0 })
	if f.snapshots != 1 || len(f.problems) > 0 {
		t.Errorf("%d snapshots, problems %v", f.snapshots, f.problems)
	}
}

func TestWatchTellsOfTheKindsThatAreAskedForOnly(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, tunnel := r.admin(t), r.service(t, identity.ServiceTunnel)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putService(t, "web", "edge-1")
	f := newFollower()
	f.kinds = []consolev1.Kind{consolev1.Kind_KIND_CLUSTER}
	f.follow(t, tunnel, func() bool { return f.snapshots == 1 && !f.inside })
	before := f.revision
	admin.putService(t, "web-2", "edge-1")
	admin.putCluster(t, "edge-2")
	if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	// The place in the log moves with what is left out, too.
	f.follow(t, tunnel, func() bool { return f.revision == before+3 })
	if len(f.clusters) != 2 || len(f.sources)+len(f.services)+len(f.secrets)+len(f.deleted) != 0 {
		t.Errorf("told of %+v", f)
	}
	f.kinds = []consolev1.Kind{99}
	stream, err := tunnel.catalog.Watch(t.Context(), &consolev1.WatchRequest{Kinds: f.kinds})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeInvalidArgument {
		t.Errorf("kinds that nobody knows: %v", stream.Err())
	}
}

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func publishRequest(source *consolev1.Source, epoch int64, commit string) *consolev1.PublishHeadsRequest {
	return &consolev1.PublishHeadsRequest{
		Source: source.GetMetadata().GetName(), Uid: source.GetMetadata().GetUid(), Epoch: epoch,
		Heads: []*consolev1.Head{
			{Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commit, Subject: "it's a commit"}},
		},
	}
}

func publish(t *testing.T, gitcache api, source *consolev1.Source, epoch int64, commit string) {
	t.Helper()
	if _, err := gitcache.heads.PublishHeads(t.Context(), publishRequest(source, epoch, commit)); err != nil {
		t.Fatal(err)
	}
}

// TestWatchResumesWithoutGapOrDuplicate lets followers hop between consoles, resuming, while writers
// write at all of them.
func TestWatchResumesWithoutGapOrDuplicate(t *testing.T) {
	t.Parallel()
	for name, consoles := range map[string]int{"sqlite": 1, "postgres with two consoles": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := ""
			if consoles > 1 {
				db = postgres.Database(t)
			}
			h := newHub(t, db)
			var admins, tunnels []api
			for range consoles {
				r := h.start(t)
				admins, tunnels = append(admins, r.admin(t)), append(tunnels, r.service(t, identity.ServiceTunnel))
			}
			hop(t, admins, tunnels)
		})
	}
}

func hop(t *testing.T, admins, tunnels []api) {
	const writers, writes, followers = 4, 40, 3
	var writing, following sync.WaitGroup
	for w := range writers {
		writing.Go(func() { writeClusters(t, admins[w%len(admins)], w, writes) })
	}
	done := make(chan struct{})
	models := make([]*follower, followers)
	for i := range models {
		models[i] = newFollower()
		following.Go(func() {
			for n := i; ; n++ {
				finished := false
				select {
				case <-done:
					finished = true
				default:
				}
				// A few messages at one console, then on at the next.
				left := 1 + n%4
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				followFor(ctx, t, tunnels[n%len(tunnels)], models[i], &left)
				cancel()
				if finished && left > 0 { // there was nothing more
					return
				}
			}
		})
	}
	writing.Wait()
	end := admins[0].putCluster(t, "the-end")
	close(done)
	following.Wait()
	truth := map[string]string{}
	list, err := admins[len(admins)-1].clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{
		PageSize: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.GetClusters() {
		truth[c.GetMetadata().GetName()] = c.GetMetadata().GetEtag()
	}
	for i, f := range models {
		// The last hops may have been too short on a busy machine: go on to the end.
		f.follow(t, tunnels[0], func() bool {
			return f.clusters["the-end"].GetMetadata().GetEtag() == end.GetMetadata().GetEtag()
		})
		if len(f.problems) > 0 {
			t.Errorf("follower %d: %v", i, f.problems)
		}
		if got := f.etagsOfClusters(); !maps.Equal(got, truth) {
			t.Errorf("follower %d: got %v, want %v", i, got, truth)
		}
		if f.snapshots != 1 {
			t.Errorf("follower %d began again %d times", i, f.snapshots)
		}
	}
}

func followFor(ctx context.Context, t *testing.T, a api, f *follower, left *int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.catalog.Watch(ctx, &consolev1.WatchRequest{ResumeToken: f.token})
	if err != nil {
		return // its time was over before it began
	}
	for (*left > 0 || f.inside) && stream.Receive() {
		f.take(stream.Msg())
		*left--
	}
	// A console that could not read its log for 15 s ends streams as unavailable: on, at the next.
	if err := stream.Err(); err != nil && connect.CodeOf(err) != connect.CodeDeadlineExceeded &&
		connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("stream ended: %v", err)
	}
	if f.inside { // cut in the middle of the first snapshot: it begins again
		f.inside, f.snapshots = false, f.snapshots-1
	}
}

func writeClusters(t *testing.T, admin api, writer, writes int) {
	for i := range writes {
		name := fmt.Sprintf("c%d", (writer+i)%7)
		if i%9 == 8 {
			err := answered(func() error {
				_, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: name})
				return err
			})
			if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
				t.Error(err)
			}
			continue
		}
		if err := answered(func() error {
			_, err := admin.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
				AllowMissing: true, Cluster: &consolev1.Cluster{
					Metadata: meta(name), Spec: &consolev1.ClusterSpec{Description: fmt.Sprintf("%d-%d", writer, i)},
				},
			})
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// answered calls until the database answers: on a busy machine a write may wait for longer than the console lets it.
func answered(call func() error) error {
	for began := time.Now(); ; {
		if err := call(); connect.CodeOf(err) != connect.CodeUnavailable || time.Since(began) > patience {
			return err
		}
	}
}

func TestWatchBeginsAgainWithATokenOfAnotherHistory(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	r.admin(t).putCluster(t, "edge-1")
	tunnel := r.service(t, identity.ServiceTunnel)
	for _, token := range []string{"1.not-that-nonce", "99999.x", "garbage", "-1.", "1"} {
		f := newFollower()
		f.token = token
		f.clusters["stale"] = &consolev1.Cluster{}
		f.follow(t, tunnel, func() bool { return f.snapshots == 1 && !f.inside })
		if got := slices.Collect(maps.Keys(f.clusters)); !slices.Equal(got, []string{"edge-1"}) {
			t.Errorf("token %q: got %v", token, got)
		}
	}
}

func TestStreamsEndWhenTheConsoleStops(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	tunnel := r.service(t, identity.ServiceTunnel)
	stream, err := tunnel.catalog.Watch(t.Context(), &consolev1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() && stream.Msg().GetSnapshotEnd() == nil {
	}
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	for stream.Receive() {
		if stream.Msg().GetHeartbeat() == nil {
			t.Errorf("got %v", stream.Msg())
		}
	}
	wantCode(t, stream.Err(), connect.CodeUnavailable)
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the console does not stop")
	}
}
