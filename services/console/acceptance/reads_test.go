package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

// bothDatabases runs a test over a console on each database.
func bothDatabases(t *testing.T, test func(t *testing.T, r *running)) {
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newHub(t, db).start(t))
		})
	}
}

func (a api) names(t testing.TB, filter, order string) string {
	t.Helper()
	var names []string
	for token := ""; ; {
		resp, err := a.services.ListServices(t.Context(),
			&consolev1.ListServicesRequest{Filter: filter, OrderBy: order, PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetServices() {
			names = append(names, s.GetMetadata().GetName())
		}
		if token = resp.GetNextPageToken(); token == "" {
			return strings.Join(names, " ")
		}
	}
}

func (a api) putLabelled(t testing.TB, name, cluster string, labels map[string]string) {
	t.Helper()
	_, err := a.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: name, Labels: labels},
		Spec:     &consolev1.ServiceSpec{Source: "shop", Cluster: cluster, Path: "deploy/" + name},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// A resource that was written before a list is in it, and in its order.
func TestListsAreFilteredAndSorted(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop")
		admin.putCluster(t, "edge-1")
		admin.putCluster(t, "edge-2")
		for i, name := range []string{"e", "b", "d", "a", "c"} {
			admin.putLabelled(t, name, fmt.Sprintf("edge-%d", i%2+1),
				map[string]string{"env": []string{"prod", "test"}[i%2]})
		}
		for _, c := range []struct{ filter, order, want string }{
			{"labels.env = prod", "", "c d e"},
			{"cluster = edge-2", "", "a b"},
			{"", "name desc", "e d c b a"},
			{"", "update_time", "e b d a c"},
			{"", "labels.env desc, name", "a b c d e"},
			{"path : DEPLOY/A OR name = e", "", "a e"},
			{"NOT labels.env = prod AND update_time > 1h", "update_time desc", "a b"},
			{"state = pending", "name", "a b c d e"},
			{"state = healthy", "", ""},
		} {
			if got := admin.names(t, c.filter, c.order); got != c.want {
				t.Errorf("%s by %s: got %q, want %q", c.filter, c.order, got, c.want)
			}
		}
		admin.putLabelled(t, "a", "edge-2", map[string]string{"env": "prod"})
		if got := admin.names(t, "labels.env = prod", ""); got != "a c d e" {
			t.Errorf("after a change: %s", got)
		}
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "c"}); err != nil {
			t.Fatal(err)
		}
		if got := admin.names(t, "labels.env = prod", ""); got != "a d e" {
			t.Errorf("after a deletion: %s", got)
		}

		resp, err := admin.services.ListServices(t.Context(), &consolev1.ListServicesRequest{
			Filter: "name = a", ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"metadata.name", "spec"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := resp.GetServices()[0]; s.GetMetadata().GetName() != "a" || s.GetMetadata().GetUid() != "" ||
			s.GetSpec().GetCluster() != "edge-2" || s.GetStatus() != nil {
			t.Errorf("masked: %v", s)
		}
		for words, req := range map[string]*consolev1.ListServicesRequest{
			`there is no field "nme": there are cluster`: {Filter: "nme = a"},
			"order_by: there is no field":                {OrderBy: "nope"},
			"read_mask: \"spec.nope\" is no field":       {ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.nope"}}},
			"page_token: is not one":                     {Filter: "name = a", PageToken: "x"},
		} {
			_, err := admin.services.ListServices(t.Context(), req)
			wantCode(t, err, connect.CodeInvalidArgument, words)
		}
		page, err := admin.services.ListServices(t.Context(),
			&consolev1.ListServicesRequest{OrderBy: "name", PageSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = admin.services.ListServices(t.Context(),
			&consolev1.ListServicesRequest{OrderBy: "name desc", PageSize: 1, PageToken: page.GetNextPageToken()})
		wantCode(t, err, connect.CodeInvalidArgument, "another filter or order")
	})
}

// A page goes on behind the last row that was seen, whatever came and went before it.
func TestPagesAreStableWhileRowsChange(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	for _, name := range []string{"b", "d", "f", "h"} {
		admin.putLabelled(t, name, "edge-1", nil)
	}
	req := &consolev1.ListServicesRequest{Filter: "cluster = edge-1", PageSize: 2}
	first, err := admin.services.ListServices(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	admin.putLabelled(t, "a", "edge-1", nil)
	admin.putLabelled(t, "g", "edge-1", nil)
	if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	req.PageToken = first.GetNextPageToken()
	second, err := admin.services.ListServices(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range second.GetServices() {
		got = append(got, s.GetMetadata().GetName())
	}
	if !slices.Equal(got, []string{"f", "g"}) {
		t.Errorf("second page: %v", got)
	}
}

// lookOn follows the catalog as a person.
type lookOn struct {
	t      testing.TB
	stream *connect.ServerStreamForClient[consolev1.WatchResourcesResponse]
	token  string
}

func (r *running) look(t testing.TB, token string, req *consolev1.WatchResourcesRequest) *lookOn {
	t.Helper()
	c := consolev1connect.NewLiveServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(r.sending(token)))...)
	stream, err := c.WatchResources(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return &lookOn{t: t, stream: stream}
}

// next returns what is told until done says that it is enough: +name:state of services, +name of others, -name of what
// goes.
func (l *lookOn) next(done func(told []string) bool) []string {
	l.t.Helper()
	var told []string
	for l.stream.Receive() {
		m := l.stream.Msg()
		if m.GetResumeToken() != "" {
			l.token = m.GetResumeToken()
		}
		switch {
		case m.GetSnapshotBegin() != nil:
			told = append(told, "begin")
		case m.GetSnapshotEnd() != nil:
			told = append(told, "end")
		}
		for _, res := range m.GetChanges().GetResources() {
			if s := res.GetService(); s != nil {
				told = append(told, "+"+s.GetMetadata().GetName()+":"+
					strings.ToLower(strings.TrimPrefix(s.GetStatus().GetState().String(), "SERVICE_STATE_")))
				continue
			}
			told = append(told, "+"+res.GetCluster().GetMetadata().GetName()+res.GetSource().GetMetadata().GetName())
		}
		for _, d := range m.GetChanges().GetDeleted() {
			told = append(told, "-"+d.GetName())
		}
		if done(told) {
			return told
		}
	}
	l.t.Fatalf("the stream ended after %v: %v", told, l.stream.Err())
	return nil
}

// until waits for something to be told.
func (l *lookOn) until(what string) []string {
	l.t.Helper()
	return l.next(func(told []string) bool { return slices.Contains(told, what) })
}

func TestWatchLeavesAndEntersFilter(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop")
		admin.putCluster(t, "edge-1")
		admin.putLabelled(t, "web", "edge-1", map[string]string{"env": "prod"})
		admin.putLabelled(t, "api", "edge-1", map[string]string{"env": "test"})
		l := r.look(t, r.adminToken(t), &consolev1.WatchResourcesRequest{Kinds: []consolev1.Kind{consolev1.Kind_KIND_SERVICE}, Filter: "labels.env = prod"})
		if got := l.until("end"); !slices.Equal(got, []string{"begin", "+web:pending", "end"}) {
			t.Fatalf("snapshot: %v", got)
		}
		admin.putLabelled(t, "api", "edge-1", map[string]string{"env": "prod"})
		l.until("+api:pending")
		admin.putLabelled(t, "web", "edge-1", map[string]string{"env": "test"})
		l.until("-web")
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "api"}); err != nil {
			t.Fatal(err)
		}
		l.until("-api")
		// And by a status.
		l = r.look(t, r.adminToken(t), &consolev1.WatchResourcesRequest{Filter: "state = failed"})
		l.until("end")
		fail(t, r, admin, "web", 1)
		l.until("+web:failed")
	})
}

// fail has a service be failed.
func fail(t *testing.T, r *running, admin api, name string, sequence uint64) {
	t.Helper()
	distributor, gitcache := r.service(t, identity.ServiceDistributor), r.service(t, identity.ServiceGitcache)
	s, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	source, err := admin.sources.GetSource(t.Context(), &consolev1.GetSourceRequest{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	uid := source.GetSource().GetMetadata().GetUid()
	claim, err := gitcache.heads.ClaimSource(t.Context(),
		&consolev1.ClaimSourceRequest{Source: "shop", Uid: uid, Owner: "gitcache-0"})
	if err != nil {
		t.Fatal(err)
	}
	rev := &consolev1.Head{Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commitA}}
	if _, err := gitcache.heads.PublishHeads(t.Context(), &consolev1.PublishHeadsRequest{Source: "shop", Uid: uid, Epoch: claim.GetEpoch(), Heads: []*consolev1.Head{rev}}); err != nil {
		t.Fatal(err)
	}
	if _, err := distributor.status.RecordHub(t.Context(), &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{
		Service: name, Uid: s.GetService().GetMetadata().GetUid(),
		Hub: &consolev1.HubTruth{Digest: "d1", Revision: rev.GetRevision()},
	}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{Clusters: []*consolev1.ClusterSeen{{Cluster: "edge-1", Time: timestamppb.Now()}}}); err != nil {
		t.Fatal(err)
	}
	report(t, distributor, &deliveryv1.ServiceReport{
		Service: name, Sequence: sequence,
		Phase: deliveryv1.Phase_PHASE_FAILED, Digest: "d1", Commit: commitA, Message: "deploy.yaml:3: no such kind",
	})
}

func report(t *testing.T, distributor api, reports ...*deliveryv1.ServiceReport) {
	t.Helper()
	if _, err := distributor.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{Clusters: []*consolev1.ClusterReports{{Cluster: "edge-1", Reports: reports}}}); err != nil {
		t.Fatal(err)
	}
}

// A client that lost its stream goes on where it was, and one that was away for too long, or at another console, begins
// again.
func TestWatchResumes(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, token := r.admin(t), r.adminToken(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	l := r.look(t, token, &consolev1.WatchResourcesRequest{})
	l.until("end")
	admin.putCluster(t, "edge-1")
	l.until("+edge-1")
	admin.putCluster(t, "edge-2")
	admin.putLabelled(t, "web", "edge-1", nil)
	again := r.look(t, token, &consolev1.WatchResourcesRequest{ResumeToken: l.token})
	if got := again.until("+web:pending"); slices.Contains(got, "begin") || !slices.Contains(got, "+edge-2") ||
		slices.Contains(got, "+edge-1") {
		t.Errorf("resumed with %v", got)
	}
	foreign := r.look(t, token, &consolev1.WatchResourcesRequest{ResumeToken: "abc.7"})
	if got := foreign.until("end"); !slices.Contains(got, "+edge-1") {
		t.Errorf("began with %v", got)
	}
}

// A commit has all services of its source in another state, told to who looks on, and known to who comes later.
func TestWatchTellsWhatComesOfASource(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, token := r.admin(t), r.adminToken(t)
	of := followed(t, r, admin)
	l := r.look(t, token, &consolev1.WatchResourcesRequest{Filter: "name = web"})
	l.until("end")
	of.push(t, commitB)
	l.until("+web:progressing")
	of.handOut(t, commitB)
	l.until("+web:healthy")
	if err := l.stream.Close(); err != nil {
		t.Fatal(err)
	}
	listed := func(state string) {
		t.Helper()
		await.NoError(t, "the index has caught up", func() error {
			if got := admin.names(t, "state = "+state, ""); got != "web" {
				return fmt.Errorf("%s: %q", state, got)
			}
			return nil
		})
	}
	of.push(t, commitA)
	listed("progressing")
	of.handOut(t, commitA)
	listed("healthy")
	r.look(t, token, &consolev1.WatchResourcesRequest{Filter: "name = web", ResumeToken: l.token}).until("+web:healthy")
}

// followed is the ref of a service that is handed out from whatever commit it is at, and healthy at commitA.
func followed(t *testing.T, r *running, admin api) *ref {
	t.Helper()
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putLabelled(t, "web", "edge-1", nil)
	of := newRef(t, r, admin)
	fail(t, r, admin, "web", 1)
	of.follow(t, admin, "web")
	of.handOut(t, commitA)
	report(t, of.distributor, &deliveryv1.ServiceReport{
		Service: "web", Sequence: 2,
		Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "d2", AppliedDigest: "d2", Commit: commitA,
	})
	return of
}

// A commit takes services out of what a follower looks at, and brings them back.
func TestWatchTellsWhatASourceTakesOutOfAFilter(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	of, token := followed(t, r, r.admin(t)), r.adminToken(t)
	l := r.look(t, token, &consolev1.WatchResourcesRequest{Filter: "state = healthy"})
	l.until("+web:healthy")
	of.push(t, commitB)
	l.until("-web")
	of.handOut(t, commitB)
	l.until("+web:healthy")
}

// Lists and watches show nothing foreign, and what a grant adds or takes away counts for who looks on already.
func TestLookingOnShowsNothingForeign(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putLabelled(t, "mine", "edge-1", nil)
	admin.putLabelled(t, "foreign", "edge-2", nil)
	grant := func(clusters ...string) {
		t.Helper()
		_, err := admin.grants.UpdateGrant(t.Context(), &consolev1.UpdateGrantRequest{AllowMissing: true, Grant: &consolev1.Grant{
			Metadata: meta("bob"), Spec: &consolev1.GrantSpec{
				Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "bob"}}},
				Role:     "viewer",
				Clusters: &consolev1.GrantClusters{Names: clusters},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	grant("edge-1")
	token := r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob"})
	bob := r.as(t, token)
	if got := bob.names(t, "", "name desc"); got != "mine" {
		t.Errorf("list: %s", got)
	}
	l := r.look(t, token, &consolev1.WatchResourcesRequest{Kinds: []consolev1.Kind{
		consolev1.Kind_KIND_SERVICE,
		consolev1.Kind_KIND_CLUSTER,
	}})
	if got := l.until("end"); !slices.Equal(got, []string{"begin", "+edge-1", "+mine:pending", "end"}) {
		t.Fatalf("snapshot: %v", got)
	}
	admin.putLabelled(t, "foreign", "edge-2", map[string]string{"a": "b"})
	admin.putLabelled(t, "mine", "edge-1", map[string]string{"a": "b"})
	if got := l.until("+mine:pending"); !slices.Equal(got, []string{"+mine:pending"}) {
		t.Errorf("told %v", got)
	}
	grant("edge-2")
	// By the rules of a moment ago it may see the old state once more: then it begins anew.
	if got := l.next(func(told []string) bool {
		return slices.Contains(told, "+foreign:pending") && told[len(told)-1] == "end"
	}); slices.Contains(got[slices.Index(got, "begin"):], "+mine:pending") {
		t.Errorf("told %v", got)
	}
}

// After any change, at two consoles, the board of either says what the database does.
func TestBoardEqualsDatabase(t *testing.T) {
	t.Parallel()
	db := postgres.Database(t)
	one := newHub(t, db)
	a := one.start(t)
	two := *one
	b := two.start(t)
	admins := []api{a.admin(t), b.admin(t)}
	admins[0].putSource(t, "shop", "https://git.example.com/shop")
	admins[0].putCluster(t, "edge-1")
	admins[0].putCluster(t, "edge-2")
	sequence := uint64(0)
	ref := newRef(t, a, admins[0])
	rapid.Check(t, func(rt *rapid.T) {
		want := map[string]string{} // services by name: cluster
		for i := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			admin := admins[rapid.IntRange(0, 1).Draw(rt, "console")]
			name := fmt.Sprint("s", rapid.IntRange(0, 3).Draw(rt, "service"))
			commit := rapid.SampledFrom([]string{commitA, commitB}).Draw(rt, "commit")
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0:
				_, _ = admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: name}) // the service may not be there
				continue
			case 1:
				ref.push(t, commit)
				continue
			case 2:
				ref.handOut(t, commit)
				continue
			case 3:
				ref.follow(t, admin, name)
				continue
			}
			admin.putLabelled(t, name, "edge-"+rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "cluster"),
				map[string]string{"step": fmt.Sprint(i)})
			if rapid.Bool().Draw(rt, "fails") {
				sequence++
				fail(t, a, admin, name, sequence)
			}
		}
		all, err := admins[0].services.ListServices(t.Context(), &consolev1.ListServicesRequest{})
		if err != nil {
			rt.Fatal(err)
		}
		for _, s := range all.GetServices() {
			want[s.GetMetadata().GetName()] = s.GetSpec().GetCluster() + s.GetMetadata().GetLabels()["step"] + s.GetStatus().GetState().String()
		}
		// By a question per row, so that it is the board that answers.
		for i, admin := range admins {
			await.NoError(t, "the index has caught up", func() error {
				got := map[string]string{}
				for _, s := range all.GetServices() {
					state := strings.ToLower(strings.TrimPrefix(s.GetStatus().GetState().String(), "SERVICE_STATE_"))
					question := fmt.Sprintf("name = %s AND cluster = %s AND labels.step = %s AND state = %s",
						s.GetMetadata().GetName(), s.GetSpec().GetCluster(), s.GetMetadata().GetLabels()["step"], state)
					if admin.names(t, question, "") == s.GetMetadata().GetName() {
						got[s.GetMetadata().GetName()] = want[s.GetMetadata().GetName()]
					}
				}
				if n := len(strings.Fields(admin.names(t, "uid != x", ""))); n != len(want) || !maps.Equal(got, want) {
					return fmt.Errorf("console %d: %d services, these as in the database: %v; want %v", i, n, got, want)
				}
				return nil
			})
		}
	})
}

// ref is what gitcache and distributor say of the ref of a source.
type ref struct {
	gitcache, distributor api
	source                string // uid
}

func newRef(t *testing.T, r *running, admin api) *ref {
	t.Helper()
	out := &ref{
		gitcache:    r.service(t, identity.ServiceGitcache),
		distributor: r.service(t, identity.ServiceDistributor),
	}
	source, err := admin.sources.GetSource(t.Context(), &consolev1.GetSourceRequest{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	out.source = source.GetSource().GetMetadata().GetUid()
	return out
}

func (r *ref) push(t *testing.T, commit string) {
	t.Helper()
	claim, err := r.gitcache.heads.ClaimSource(t.Context(),
		&consolev1.ClaimSourceRequest{Source: "shop", Uid: r.source, Owner: "gitcache-1"})
	if err != nil {
		t.Fatal(err)
	}
	head := &consolev1.Head{Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commit}}
	if _, err := r.gitcache.heads.PublishHeads(t.Context(), &consolev1.PublishHeadsRequest{Source: "shop", Uid: r.source, Epoch: claim.GetEpoch(), Heads: []*consolev1.Head{head}}); err != nil {
		t.Fatal(err)
	}
}

func (r *ref) handOut(t *testing.T, commit string) {
	t.Helper()
	of := &consolev1.RefHub{SourceUid: r.source, Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commit}}
	if _, err := r.distributor.status.RecordHub(t.Context(), &consolev1.RecordHubRequest{Refs: []*consolev1.RefHub{of}}); err != nil {
		t.Fatal(err)
	}
}

// follow has a service be handed out from whatever commit the ref is at.
func (r *ref) follow(t *testing.T, admin api, service string) {
	t.Helper()
	s, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: service})
	if err != nil {
		return // the service is not there
	}
	of := &consolev1.ServiceHub{
		Service: service, Uid: s.GetService().GetMetadata().GetUid(), SourceUid: r.source,
		Ref: "HEAD", Hub: &consolev1.HubTruth{Digest: "d2"},
	}
	if _, err := r.distributor.status.RecordHub(t.Context(), &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{of}}); err != nil {
		t.Fatal(err)
	}
}

// Pages draw a fleet from one such answer.
func TestResourcesAreCountedByTheirFields(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	for _, cluster := range []string{"edge-1", "edge-2"} {
		admin.putCluster(t, cluster)
	}
	for i, name := range []string{"a", "b", "c"} {
		admin.putLabelled(t, name, fmt.Sprintf("edge-%d", i%2+1),
			map[string]string{"env": []string{"prod", "test"}[i%2]})
	}
	admin.putLabelled(t, "plain", "edge-2", nil)
	ask := func(filter string, by ...string) string {
		t.Helper()
		resp, err := admin.live.CountResources(t.Context(),
			&consolev1.CountResourcesRequest{Kind: consolev1.Kind_KIND_SERVICE, Filter: filter, GroupBy: by})
		if err != nil {
			t.Fatal(err)
		}
		if !resp.GetObservedTime().IsValid() {
			t.Error("the answer does not say when it was counted")
		}
		var out []string
		for _, c := range resp.GetCounts() {
			out = append(out, fmt.Sprintf("%s:%d", strings.Join(c.GetValues(), "/"), c.GetCount()))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		filter, want string
		by           []string
	}{
		{"", ":4", nil},
		{"", "edge-1/pending:2 edge-2/pending:2", []string{"cluster", "state"}},
		{"", ":1 prod:2 test:1", []string{"labels.env"}},
		{"labels.env = prod", "edge-1:2", []string{"cluster"}},
		{"name = nobody", "", []string{"state"}},
	} {
		if got := ask(c.filter, c.by...); got != c.want {
			t.Errorf("%q by %v: got %q, want %q", c.filter, c.by, got, c.want)
		}
	}
	for words, req := range map[string]*consolev1.CountResourcesRequest{
		"group_by: there is no field \"nme\"":           {Kind: consolev1.Kind_KIND_SERVICE, GroupBy: []string{"nme"}},
		"group_by: update_time: only fields with texts": {Kind: consolev1.Kind_KIND_SERVICE, GroupBy: []string{"update_time"}},
		"filter: ": {Kind: consolev1.Kind_KIND_SERVICE, Filter: "state >"},
	} {
		_, err := admin.live.CountResources(t.Context(), req)
		wantCode(t, err, connect.CodeInvalidArgument, words)
	}
	nobody := r.user(t, "nobody")
	resp, err := nobody.live.CountResources(t.Context(),
		&consolev1.CountResourcesRequest{Kind: consolev1.Kind_KIND_SERVICE})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetCounts()) != 0 {
		t.Errorf("a person without a grant learns how many services there are: %v", resp.GetCounts())
	}
}

// found is what a search returns, a word for each: service/web by name.
func (a api) found(t testing.TB, req *consolev1.SearchRequest) string {
	t.Helper()
	resp, err := a.live.Search(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range resp.GetResults() {
		out = append(out, fmt.Sprintf("%s/%s by %s", strings.ToLower(strings.TrimPrefix(f.GetKind().String(), "KIND_")),
			f.GetName(), f.GetField()))
	}
	if int(resp.GetTotalSize()) < len(out) {
		t.Errorf("%d of %d", len(out), resp.GetTotalSize())
	}
	return strings.Join(out, ", ")
}

// What is called so comes first, of any kind; then what has it elsewhere.
func TestSearchLeadsToAnythingByAnyOfItsWords(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.must(t, newCluster("edge-1", "tier", "Web"), newCluster("edge-2"))
	for name, cluster := range map[string]string{
		"web": "edge-1", "website": "edge-1", "my-web": "edge-2",
		"cobweb": "edge-2", "db": "edge-1",
	} {
		admin.putLabelled(t, name, cluster, map[string]string{"team": "blue-" + name})
	}
	fail(t, r, admin, "cobweb", 1)
	for _, want := range []struct {
		text, found string
	}{
		{"web", "service/web by name, service/website by name, service/my-web by name, service/cobweb by name, cluster/edge-1 by labels.tier"},
		{" WEB  edge-2 ", "service/my-web by cluster, service/cobweb by cluster"},
		{"edge-2 cluster", "cluster/edge-2 by kind"},
		{"team=blue-db", "service/db by labels.team"},
		{"blue-db", "service/db by labels.team"},
		{commitA[:7], "service/cobweb by commit"},
		{commitA[:6], ""},
		{"db web", ""},
		{"nothing", ""},
	} {
		if got := admin.found(t, &consolev1.SearchRequest{Text: want.text}); got != want.found {
			t.Errorf("%q: %s\nwant %s", want.text, got, want.found)
		}
	}
	if got := admin.found(t, &consolev1.SearchRequest{Text: "team", Kinds: []consolev1.Kind{consolev1.Kind_KIND_SERVICE}}); got != "" {
		t.Errorf("by the key of a label: %s", got)
	}
	resp, err := admin.live.Search(t.Context(), &consolev1.SearchRequest{Text: "shop", Limit: 1})
	if err != nil || resp.GetTotalSize() != 6 || len(resp.GetResults()) != 1 ||
		resp.GetResults()[0].GetKind() != consolev1.Kind_KIND_SOURCE {
		t.Errorf("got %v, %v", resp, err)
	}
	_, err = admin.live.Search(t.Context(), &consolev1.SearchRequest{Text: "  "})
	wantCode(t, err, connect.CodeInvalidArgument, "text")
}

func TestSearchShowsNothingForeign(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putLabelled(t, "web-mine", "edge-1", nil)
	admin.putLabelled(t, "web-foreign", "edge-2", nil)
	admin.let(t, "bobs", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	bob := r.as(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: []string{"bobs"}}))
	if got := bob.found(t, &consolev1.SearchRequest{Text: "web"}); got != "service/web-mine by name" {
		t.Errorf("bob finds %s", got)
	}
	if got := bob.found(t, &consolev1.SearchRequest{Text: "edge"}); got != "cluster/edge-1 by name" {
		t.Errorf("bob finds %s", got)
	}
	resp, err := bob.live.Search(t.Context(), &consolev1.SearchRequest{Text: "web"})
	if err != nil || resp.GetTotalSize() != 1 {
		t.Errorf("the total counts what he does not see: %v, %v", resp, err)
	}
	if got := r.user(t, "nobody").found(t, &consolev1.SearchRequest{Text: "e"}); got != "" {
		t.Errorf("nobody finds %s", got)
	}
}
