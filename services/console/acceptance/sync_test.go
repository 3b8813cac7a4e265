package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/store"
)

// syncing is the part of the API that holds services and knows their objects.
type syncing struct {
	api

	levers  consolev1connect.SyncServiceClient
	objects consolev1connect.ObjectServiceClient
}

func (r *running) syncing(t testing.TB, token string) syncing {
	t.Helper()
	opts, hc := append(client.Options(), client.WithToken(r.sending(token))), newHTTPClient(t)
	return syncing{
		api: r.as(t, token), levers: consolev1connect.NewSyncServiceClient(hc, r.url, opts...),
		objects: consolev1connect.NewObjectServiceClient(hc, r.url, opts...),
	}
}

func (s syncing) report(t *testing.T, cluster string, reports ...*deliveryv1.ServiceReport) {
	t.Helper()
	if _, err := s.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{
		Clusters: []*consolev1.ClusterReports{{Cluster: cluster, Reports: reports}},
	}); err != nil {
		t.Fatal(err)
	}
}

// distributorToken is the token of a distributor.
func (r *running) distributorToken(t testing.TB) string {
	t.Helper()
	return r.sign(t, identity.Identity{Kind: identity.KindService, Name: identity.ServiceDistributor})
}

func TestLeversAreWrittenInTheHistory(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.syncing(t, r.adminToken(t))
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	created := admin.putService(t, "web", "edge-1")
	commit := strings.Repeat("a", 40)
	steps := []struct {
		pull func(ctx context.Context) (*consolev1.Service, error)
		want *deliveryv1.SyncSpec
	}{
		{func(ctx context.Context) (*consolev1.Service, error) {
			out, err := admin.levers.HoldService(ctx, &consolev1.HoldServiceRequest{Name: "web", Reason: "incident 7"})
			return out.GetService(), err
		}, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "incident 7"}},
		{func(ctx context.Context) (*consolev1.Service, error) {
			out, err := admin.levers.PinService(ctx, &consolev1.PinServiceRequest{Name: "web", Commit: commit})
			return out.GetService(), err
		}, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "incident 7", Pin: commit}},
		{func(ctx context.Context) (*consolev1.Service, error) {
			out, err := admin.levers.ResumeService(ctx, &consolev1.ResumeServiceRequest{Name: "web"})
			return out.GetService(), err
		}, &deliveryv1.SyncSpec{Reason: "incident 7", Pin: commit}},
		{func(ctx context.Context) (*consolev1.Service, error) {
			out, err := admin.levers.PinService(ctx, &consolev1.PinServiceRequest{Name: "web"})
			return out.GetService(), err
		}, nil},
		{func(ctx context.Context) (*consolev1.Service, error) {
			out, err := admin.levers.HoldService(ctx, &consolev1.HoldServiceRequest{
				Name: "web", Reason: "x", Mode: deliveryv1.SyncMode_SYNC_MODE_DRY_RUN,
			})
			return out.GetService(), err
		}, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, Reason: "x"}},
	}
	for i, step := range steps {
		got, err := step.pull(t.Context())
		if err != nil {
			t.Fatal(i, err)
		}
		want := proto.CloneOf(created.GetSpec())
		want.Sync = step.want
		if !proto.Equal(got.GetSpec(), want) || got.GetMetadata().GetRevision() != int64(i)+2 {
			t.Errorf("%d: got %v at %d", i, got.GetSpec(), got.GetMetadata().GetRevision())
		}
	}
	// Safe to repeat: the same again is no revision.
	again, err := steps[4].pull(t.Context())
	if err != nil || again.GetMetadata().GetRevision() != 6 {
		t.Errorf("the same again: revision %d, %v", again.GetMetadata().GetRevision(), err)
	}
	asked, err := admin.levers.RequestSync(t.Context(), &consolev1.RequestSyncRequest{Name: "web"})
	if err != nil || asked.GetService().GetSpec().GetSync().GetRequestTime() == nil {
		t.Errorf("sync: %v, %v", asked, err)
	}
	_, err = admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
		Name: "web", Reason: "x", Mode: deliveryv1.SyncMode_SYNC_MODE_AUTO,
	})
	wantCode(t, err, connect.CodeInvalidArgument, "mode")
	_, err = admin.levers.ResumeService(t.Context(), &consolev1.ResumeServiceRequest{Name: "none"})
	wantCode(t, err, connect.CodeNotFound, "none")

	history := func() (out []string) {
		s, err := store.New(r.db, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			list, err := v.Revisions(ctx, created.GetMetadata().GetUid(), 10)
			for _, h := range list {
				out = append(out, fmt.Sprintf("%d %s %s", h.Revision, h.Action, h.Author))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}()
	if len(history) != 7 || history[0] != "7 sync asked user:ada" || history[3] != "4 resumed user:ada" ||
		history[6] != "1 created user:ada" {
		t.Errorf("history: %q", history)
	}
}

func TestConfirmOfAnOldGuardIsRefused(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, distributor := r.syncing(t, r.adminToken(t)), r.syncing(t, r.distributorToken(t))
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putService(t, "web", "edge-1")
	confirm := func(guard string) (*consolev1.Service, error) {
		out, err := admin.levers.ConfirmPrune(t.Context(), &consolev1.ConfirmPruneRequest{Name: "web", Guard: guard})
		return out.GetService(), err
	}
	_, err := confirm("g1")
	wantCode(t, err, connect.CodeFailedPrecondition, "nothing is to be confirmed")
	guarded := &deliveryv1.ServiceReport{
		Service: "web", Sequence: 1, Phase: deliveryv1.Phase_PHASE_WAITING, Digest: "d", ObjectsDrifted: 2, Repairs: 3,
		RepairTime: timestamppb.Now(),
		Guard: &deliveryv1.Guard{
			Id: "g2", Removing: 9, ObjectsTotal: 12,
			Sample: []*deliveryv1.ManagedObject{{Kind: "ConfigMap", Name: "o'brien", Uid: "u", Wave: -1}},
		},
		Repaired: &deliveryv1.ObjectReport{
			Kind: "Deployment", Name: "web", Health: "Healthy", Rival: "kubectl-edit",
			Fields: []string{"/spec/replicas"},
		},
	}
	guarded.RepairTime.Nanos = 0
	distributor.report(t, "edge-1", guarded)
	kept, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
	if err != nil || !proto.Equal(kept.GetService().GetStatus().GetCluster().GetReport(), guarded) {
		t.Errorf("kept %v, %v", kept.GetService().GetStatus().GetCluster().GetReport(), err)
	}
	_, err = confirm("g1")
	wantCode(t, err, connect.CodeFailedPrecondition, "9 of 12", "g2")
	got, err := confirm("g2")
	if err != nil || got.GetSpec().GetSync().GetPrune().GetConfirmed() != "g2" {
		t.Errorf("confirmed: %v, %v", got.GetSpec().GetSync(), err)
	}
	distributor.report(t, "edge-1", &deliveryv1.ServiceReport{
		Service: "web", Sequence: 2, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "d",
	})
	_, err = confirm("g2")
	wantCode(t, err, connect.CodeFailedPrecondition, "nothing is to be confirmed")
}

func TestServicesWaitForOthersThatExist(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.putSource(t, "shop", "https://git.example.com/shop")
		admin.putCluster(t, "edge-1")
		admin.putCluster(t, "edge-2")
		waits := func(name, cluster string, on ...string) *consolev1.UpdateServiceRequest {
			u := onEdge(name, "deploy")
			u.Service.Spec.Cluster, u.Service.Spec.Sync = cluster, &deliveryv1.SyncSpec{DependsOn: on}
			return u
		}
		if _, err := admin.batchServices(t, waits("c", "edge-1", "b"), waits("b", "edge-1", "a"), waits("a", "edge-1"),
			waits("far", "edge-2")); err != nil {
			t.Fatal(err) // in any order
		}
		for _, bad := range []struct {
			update *consolev1.UpdateServiceRequest
			words  string
		}{
			{waits("c", "edge-1", "none"), `service "none" does not exist`},
			{waits("c", "edge-1", "far"), `service "far" is for cluster "edge-2"`},
			{waits("a", "edge-1", "c"), "a -> c -> b -> a"},
			{waits("a", "edge-1", "a"), "a -> a"},
			{waits("b", "edge-2"), `service "b": spec.cluster: it is waited for in cluster "edge-1" by service "c" (spec.sync.dependsOn)`},
		} {
			_, err := admin.batchServices(t, bad.update)
			wantCode(t, err, connect.CodeFailedPrecondition, "spec.sync.dependsOn", bad.words)
		}
		for _, batch := range [][]*consolev1.UpdateServiceRequest{
			{waits("c", "edge-2", "b"), waits("b", "edge-2")}, // together, in any order
			{waits("b", "edge-1", "a"), waits("c", "edge-1", "b", "a")},
		} {
			if _, err := admin.batchServices(t, batch...); err != nil {
				t.Error(err)
			}
		}
		_, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "a"})
		wantCode(t, err, connect.CodeFailedPrecondition,
			`service "a" is waited for by service "b", service "c" (spec.sync.dependsOn): delete or change them first`)
		for _, name := range []string{"c", "b", "a", "far"} {
			if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
				Name: name,
			}); err != nil {
				t.Error(name, err)
			}
		}
	})
}

// What a file says behind a rollback counts again when that ends, so the services that it waits for stay.
func TestAServiceWaitsForOthersBehindARollback(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.admin.putService(t, "db", "edge-1")
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
		p.rollBack(t)
		waits := func(name, on string) error {
			s := newService(name, "shop", "edge-1")
			s.Spec.Sync = &deliveryv1.SyncSpec{DependsOn: []string{on}}
			return p.admin.tryService(t, s)
		}
		wantCode(t, waits("web", "none"), connect.CodeFailedPrecondition, `service "none" does not exist`)
		if err := waits("web", "db"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, waits("db", "web"), connect.CodeFailedPrecondition, "db -> web -> db")
		_, err := p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{Name: "db"})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "db" is waited for by service "web"`)
		if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web"}); err != nil {
			t.Errorf("the end of the rollback: %v", err)
		}
	})
}

func TestDetailsSurviveAndAreListed(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.start(t)
	admin, distributor := r.syncing(t, r.adminToken(t)), r.syncing(t, r.distributorToken(t))
	admin.putSource(t, "shop", "https://git.example.com/shop")
	for _, cluster := range []string{"edge-1", "edge-2"} {
		admin.putCluster(t, cluster)
		admin.putService(t, "web-"+cluster, cluster)
	}
	record := func(cluster string, d *deliveryv1.ServiceDetail) {
		t.Helper()
		d.ObservedTime = timestamppb.Now()
		if _, err := distributor.objects.RecordDetails(t.Context(), &consolev1.RecordDetailsRequest{
			Cluster: cluster, Detail: d,
		}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(names ...string) *deliveryv1.ServiceDetail_Objects {
		out := &deliveryv1.ObjectList{}
		for _, name := range names {
			out.Objects = append(out.Objects, &deliveryv1.ManagedObject{
				Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name,
			})
		}
		out.Objects = append(out.Objects, &deliveryv1.ManagedObject{
			Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web",
		})
		return &deliveryv1.ServiceDetail_Objects{Objects: out}
	}
	_, err := admin.objects.GetServiceDiff(t.Context(), &consolev1.GetServiceDiffRequest{Name: "web-edge-1"})
	wantCode(t, err, connect.CodeNotFound, "there is no diff")
	_, err = admin.objects.GetServiceDiff(t.Context(), &consolev1.GetServiceDiffRequest{Name: "none"})
	wantCode(t, err, connect.CodeNotFound, `service "none"`)
	record("edge-1", &deliveryv1.ServiceDetail{Service: "web-edge-1", Digest: "d1", Detail: list("old")})
	record("edge-1", &deliveryv1.ServiceDetail{Service: "web-edge-1", Digest: "d2", Detail: list("a", "o'brien", "c")})
	record("edge-2", &deliveryv1.ServiceDetail{Service: "web-edge-2", Digest: "d2", Detail: list("a")})
	record("edge-2", &deliveryv1.ServiceDetail{Service: "web-edge-1", Digest: "x", Detail: list("stranger")})
	record("edge-1", &deliveryv1.ServiceDetail{Service: "gone", Digest: "x", Detail: list("gone")})
	diff := &deliveryv1.Diff{
		Created: 3,
		Objects: []*deliveryv1.ObjectDiff{{Kind: "ConfigMap", Name: "a", Change: deliveryv1.Change_CHANGE_CREATE}},
	}
	record("edge-1", &deliveryv1.ServiceDetail{
		Service: "web-edge-1", Digest: "d2", Detail: &deliveryv1.ServiceDetail_Diff{Diff: diff},
	})
	_, err = admin.objects.GetServiceNotes(t.Context(), &consolev1.GetServiceNotesRequest{Name: "web-edge-1"})
	wantCode(t, err, connect.CodeNotFound, "there are no notes")
	_, err = admin.objects.GetServiceNotes(t.Context(), &consolev1.GetServiceNotesRequest{Name: "none"})
	wantCode(t, err, connect.CodeNotFound, `service "none"`)
	for _, text := range []string{"old", "Thanks."} {
		record("edge-1", &deliveryv1.ServiceDetail{
			Service: "web-edge-1", Digest: "d2",
			Detail: &deliveryv1.ServiceDetail_Notes{Notes: &deliveryv1.Notes{Text: text}},
		})
	}
	record("edge-2", &deliveryv1.ServiceDetail{
		Service: "web-edge-2", Digest: "d2", Detail: &deliveryv1.ServiceDetail_Notes{Notes: &deliveryv1.Notes{}},
	})
	_, err = admin.objects.GetServiceNotes(t.Context(), &consolev1.GetServiceNotesRequest{Name: "web-edge-2"})
	wantCode(t, err, connect.CodeNotFound, "there are no notes")
	distributor.report(t, "edge-1", &deliveryv1.ServiceReport{
		Service: "web-edge-1", Sequence: 1,
		Objects: []*deliveryv1.ObjectReport{
			{
				Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web", Health: "Degraded",
				Message: "image is gone",
			},
		},
	})
	if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
		Clusters: []*consolev1.ClusterSeen{{Cluster: "edge-1", Time: timestamppb.Now()}},
	}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = h.start(t)
	admin = r.syncing(t, r.adminToken(t))
	got, err := admin.objects.GetServiceDiff(t.Context(), &consolev1.GetServiceDiffRequest{Name: "web-edge-1"})
	if err != nil || !proto.Equal(got.GetDiff(), diff) || got.GetDigest() != "d2" || got.GetObservedTime() == nil {
		t.Errorf("diff: %v, %v", got, err)
	}
	notes, err := admin.objects.GetServiceNotes(t.Context(), &consolev1.GetServiceNotesRequest{Name: "web-edge-1"})
	if err != nil || notes.GetText() != "Thanks." || notes.GetDigest() != "d2" || notes.GetObservedTime() == nil {
		t.Errorf("notes: %v, %v", notes, err)
	}
	objects := func(size int32, req *consolev1.ListObjectsRequest) (out []string) {
		t.Helper()
		req.PageSize = size
		for {
			page, err := admin.objects.ListObjects(t.Context(), req)
			if err != nil || len(page.GetObjects()) > int(size) {
				t.Fatal(len(page.GetObjects()), err)
			}
			for _, o := range page.GetObjects() {
				out = append(out, fmt.Sprintf("%s %s %s %s", o.GetCluster(), o.GetService(), o.GetObject().GetName(),
					o.GetReport().GetHealth()))
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				return out
			}
		}
	}
	all := []string{
		"edge-1 web-edge-1 a Healthy", "edge-1 web-edge-1 o'brien Healthy", "edge-1 web-edge-1 c Healthy",
		"edge-1 web-edge-1 web Degraded",
		"edge-2 web-edge-2 a Unknown", "edge-2 web-edge-2 web Unknown", // the agent was never seen
	}
	for _, size := range []int32{1, 2, 3, 4, 100} {
		if got := objects(size, &consolev1.ListObjectsRequest{}); !slices.Equal(got, all) {
			t.Errorf("in pages of %d: %q", size, got)
		}
	}
	for _, c := range []struct {
		req  *consolev1.ListObjectsRequest
		want []string
	}{
		{&consolev1.ListObjectsRequest{Service: "web-edge-2"}, all[4:]},
		{&consolev1.ListObjectsRequest{Cluster: "edge-1"}, all[:4]},
		{&consolev1.ListObjectsRequest{Health: "degraded"}, all[3:4]},
		{&consolev1.ListObjectsRequest{Kind: "deployment", Namespace: "shop"}, []string{all[3], all[5]}},
		{&consolev1.ListObjectsRequest{Object: "o'brien"}, all[1:2]},
		{&consolev1.ListObjectsRequest{Service: "none"}, nil},
	} {
		if got := objects(1, c.req); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q", c.req, got)
		}
	}
	_, err = admin.objects.ListObjects(t.Context(), &consolev1.ListObjectsRequest{PageToken: "x"})
	wantCode(t, err, connect.CodeInvalidArgument, "page_token")
	_, err = admin.objects.ListObjects(t.Context(), &consolev1.ListObjectsRequest{Health: "degradet"})
	wantCode(t, err, connect.CodeInvalidArgument, `health: no object is "degradet"; did you mean "Degraded"?`)
}
