package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
)

func TestUpdateCreatesChangesAndLeavesAlone(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	source := &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: "shop", Labels: map[string]string{"team": "o'brien"}},
		Spec: &consolev1.SourceSpec{
			Git: &consolev1.GitSource{Url: "https://git.example.com/shop", Interval: durationpb.New(30 * time.Second)},
		},
	}
	update := func(allowMissing bool) (*consolev1.UpdateSourceResponse, error) {
		return admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			Source: source, AllowMissing: allowMissing,
		})
	}
	_, err := update(false)
	wantCode(t, err, connect.CodeNotFound, `source "shop" does not exist`)
	created, err := update(true)
	if err != nil || created.GetOutcome() != consolev1.Outcome_OUTCOME_CREATED {
		t.Fatalf("got %v, %v", created, err)
	}
	same, err := update(true)
	if err != nil || same.GetOutcome() != consolev1.Outcome_OUTCOME_UNCHANGED ||
		!proto.Equal(same.GetSource(), created.GetSource()) {
		t.Fatalf("got %v, %v", same, err)
	}
	source.Metadata.Labels["tier"] = "1"
	source.Metadata.Etag = created.GetSource().GetMetadata().GetEtag()
	updated, err := update(false)
	if err != nil || updated.GetOutcome() != consolev1.Outcome_OUTCOME_UPDATED ||
		updated.GetSource().GetMetadata().GetRevision() != 2 {
		t.Fatalf("got %v, %v", updated, err)
	}
	source.Metadata.Labels["tier"] = "2"
	_, err = update(false) // with the etag of revision 1
	wantCode(t, err, connect.CodeAborted, "is at revision 2", "Read it again and merge")
	_, err = admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{
		Name: "shop", Etag: source.GetMetadata().GetEtag(),
	})
	wantCode(t, err, connect.CodeAborted)
	got, err := admin.sources.GetSource(t.Context(), &consolev1.GetSourceRequest{Name: "shop"})
	if err != nil || !proto.Equal(got.GetSource(), updated.GetSource()) {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{
		Name: "shop", Etag: got.GetSource().GetMetadata().GetEtag(),
	}); err != nil {
		t.Fatal(err)
	}
	_, err = update(true) // the etag is of one that is gone
	wantCode(t, err, connect.CodeAborted, "was deleted")
}

func TestEtagLetsOneOfManyWritersThrough(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	a, b := h.start(t).admin(t), h.start(t).admin(t)
	etag := a.putCluster(t, "edge-1").GetMetadata().GetEtag()
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 10 {
		admin := []api{a, b}[i%2]
		wg.Go(func() {
			_, err := admin.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
				Cluster: &consolev1.Cluster{
					Metadata: &consolev1.Metadata{Name: "edge-1", Etag: etag},
					Spec:     &consolev1.ClusterSpec{Description: fmt.Sprint(i)},
				},
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if connect.CodeOf(err) != connect.CodeAborted {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Fatalf("%d writers won", won)
	}
}

func TestWhatIsNamedExistsAndStays(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	service := &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
		Metadata: meta("web"), Spec: &consolev1.ServiceSpec{Source: "shop", Cluster: "edge-1"},
	}}
	_, err := admin.services.UpdateService(t.Context(), service)
	wantCode(t, err, connect.CodeFailedPrecondition,
		`service "web": spec.source: source "shop" does not exist: create it first`)
	_, err = admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
		AllowMissing: true, Source: &consolev1.Source{
			Metadata: meta("shop"), Spec: &consolev1.SourceSpec{
				Git: &consolev1.GitSource{Url: "https://git.example.com/shop", Secret: "git"},
			},
		},
	})
	wantCode(t, err, connect.CodeFailedPrecondition, `secret "git"`)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	_, err = admin.services.UpdateService(t.Context(), service)
	wantCode(t, err, connect.CodeFailedPrecondition, `cluster "edge-1"`)
	admin.putCluster(t, "edge-1")
	for _, name := range []string{"a", "b", "c", "d"} {
		admin.putService(t, name, "edge-1")
	}
	_, err = admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "shop"})
	wantCode(t, err, connect.CodeFailedPrecondition,
		`service "a", service "b", service "c" and more: delete or change them first`)
	_, err = admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "edge-1"})
	wantCode(t, err, connect.CodeFailedPrecondition, `service "a"`)
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: name,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{
		Name: "edge-1",
	}); err != nil {
		t.Fatal(err)
	}
}

func TestBadFieldsAreNamed(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	for url, want := range map[string]string{
		"https://ada:hunter2@git.example.com/shop": "user or password",
		"http://git.example.com/shop":              "loopback",
		"ext::sh -c id":                            "spaces",
		"file:///etc/passwd":                       "https://",
		"ssh://git.example.com/shop":               "names no user",
		"--upload-pack=id":                         "begin with '-'",
	} {
		_, err := admin.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{
			AllowMissing: true, Source: &consolev1.Source{
				Metadata: meta("shop"), Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: url}},
			},
		})
		wantCode(t, err, connect.CodeInvalidArgument, "spec.git.url", want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
	admin.putSource(t, "local", "http://127.0.0.1:8080/shop.git")
	_, err := admin.clusters.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{
		AllowMissing: true, Cluster: &consolev1.Cluster{Metadata: meta("Edge_1")},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "name")
	for _, name := range []string{"no\x00pe", "../x", strings.Repeat("a", 300), "'"} {
		_, err = admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: name})
		wantCode(t, err, connect.CodeNotFound)
		_, err = admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: name})
		wantCode(t, err, connect.CodeNotFound)
	}
	_, err = admin.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{PageToken: "???"})
	wantCode(t, err, connect.CodeInvalidArgument, "page_token")
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	for i := range 7 {
		admin.putCluster(t, fmt.Sprintf("c%d", i))
	}
	var names []string
	for token := ""; ; {
		resp, err := admin.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{
			PageSize: 3, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.GetClusters() {
			names = append(names, c.GetMetadata().GetName())
		}
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "c0 c1 c2 c3 c4 c5 c6" {
		t.Fatalf("got %s", got)
	}
}

func TestSecretValuesAreOnlyForGitcaches(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, gitcache := r.admin(t), r.service(t, identity.ServiceGitcache)
	put := func(data map[string]string) (*consolev1.UpdateSecretResponse, error) {
		return admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true, Secret: &consolev1.Secret{Metadata: meta("git"), Data: data},
		})
	}
	_, err := put(map[string]string{"token": ""})
	wantCode(t, err, connect.CodeInvalidArgument, `data["token"]: has no value`)
	created, err := put(map[string]string{"username": "ada", "password": "hunter2-planted"})
	if err != nil {
		t.Fatal(err)
	}
	same, err := put(map[string]string{"username": "ada", "password": "hunter2-planted"})
	if err != nil || same.GetOutcome() != consolev1.Outcome_OUTCOME_UNCHANGED ||
		same.GetSecret().GetMetadata().GetRevision() != 1 {
		t.Fatalf("same data: %v, %v", same, err)
	}
	// Reading and writing back must not lose what can't be read.
	got, err := admin.secrets.GetSecret(t.Context(), &consolev1.GetSecretRequest{Name: "git"})
	if err != nil {
		t.Fatal(err)
	}
	if back, err := put(got.GetSecret().GetData()); err != nil ||
		back.GetOutcome() != consolev1.Outcome_OUTCOME_UNCHANGED {
		t.Fatalf("written back: %v, %v", back, err)
	}
	list, err := admin.secrets.ListSecrets(t.Context(), &consolev1.ListSecretsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(list.GetSecrets(), created.GetSecret(), got.GetSecret()) {
		if data := s.GetData(); len(data) != 2 || data["username"] != "" || data["password"] != "" {
			t.Errorf("read back %v", data)
		}
	}
	_, err = gitcache.secrets.AccessSecret(t.Context(), &consolev1.AccessSecretRequest{Name: "git"})
	wantCode(t, err, connect.CodePermissionDenied, "no source names it")
	if got := admin.reasons(t, "secret.refused", 1); len(got) != 1 || !strings.Contains(got[0], "no source names it") {
		t.Errorf("the trail says %q", got)
	}
	named := newSource("shop")
	named.Spec.Git.Secret = "git"
	admin.must(t, named)
	access, err := gitcache.secrets.AccessSecret(t.Context(), &consolev1.AccessSecretRequest{Name: "git"})
	if err != nil || access.GetData()["password"] != "hunter2-planted" || access.GetRevision() != 1 {
		t.Fatalf("access: %v, %v", access, err)
	}
	changed, err := put(map[string]string{"username": "ada", "password": "hunter3-planted"})
	if err != nil || changed.GetOutcome() != consolev1.Outcome_OUTCOME_UPDATED ||
		changed.GetSecret().GetMetadata().GetRevision() != 2 {
		t.Fatalf("changed: %v, %v", changed, err)
	}
	if !strings.Contains(r.logs.String(), "secret accessed") || strings.Contains(r.logs.String(), "-planted") {
		t.Error("the log has no audit of the access, or a value")
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "console.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no database")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("-planted")) {
			t.Errorf("a value can be read in %s", file)
		}
	}
}

func TestOnlyTheCurrentEpochPublishes(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, gitcache := r.admin(t), r.service(t, identity.ServiceGitcache)
	source := admin.putSource(t, "shop", "https://git.example.com/shop")
	uid := source.GetMetadata().GetUid()
	claim := func(owner string) int64 {
		t.Helper()
		resp, err := gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
			Source: "shop", Uid: uid, Owner: owner,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetEpoch()
	}
	get := func() *consolev1.Source {
		t.Helper()
		resp, err := admin.sources.GetSource(t.Context(), &consolev1.GetSourceRequest{Name: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetSource()
	}
	_, err := gitcache.heads.PublishHeads(t.Context(), publishRequest(source, 1, commitA))
	wantCode(t, err, connect.CodeAborted) // no gitcache has claimed the source
	first := claim("gitcache-0")
	publish(t, gitcache, source, first, commitA)
	fetched := get().GetStatus().GetHeads()[0].GetFetchTime().AsTime()
	second := claim("gitcache-1")
	if second != first+1 {
		t.Fatalf("epochs %d, %d", first, second)
	}
	_, err = gitcache.heads.PublishHeads(t.Context(), publishRequest(source, first, commitB))
	wantCode(t, err, connect.CodeAborted, "step down", "gitcache-1")
	_, err = gitcache.heads.PublishHeads(t.Context(), publishRequest(source, second+1, commitB))
	wantCode(t, err, connect.CodeAborted)
	if got := get().GetStatus(); got.GetHeads()[0].GetRevision().GetCommit() != commitA || got.GetEpoch() != second ||
		got.GetOwner() != "gitcache-1" {
		t.Fatalf("status %v", got)
	}

	// A problem leaves the heads, keeps its beginning, and the same news is no change.
	failing := publishRequest(source, second, commitA)
	failing.Problem = &consolev1.Problem{Message: "401 from git.example.com"}
	if _, err := gitcache.heads.PublishHeads(t.Context(), failing); err != nil {
		t.Fatal(err)
	}
	before := get()
	if p := before.GetStatus().GetProblem(); p.GetMessage() == "" || p.GetSince() == nil ||
		!before.GetStatus().GetHeads()[0].GetFetchTime().AsTime().Equal(fetched) {
		t.Fatalf("status %v", before.GetStatus())
	}
	failing.Problem.Since = timestamppb.New(time.Now().Add(time.Minute))
	failing.Heads[0].FetchTime = timestamppb.Now()
	sequence := changeSequence(t, r)
	if _, err := gitcache.heads.PublishHeads(t.Context(), failing); err != nil {
		t.Fatal(err)
	}
	if after := get(); !proto.Equal(after, before) || changeSequence(t, r) != sequence {
		t.Fatalf("no news were written: %v", after)
	}
	failing.Problem = nil
	if _, err := gitcache.heads.PublishHeads(t.Context(), failing); err != nil ||
		get().GetStatus().GetProblem() != nil {
		t.Fatalf("the problem stays: %v, %v", get().GetStatus(), err)
	}
	if rev := get().GetMetadata().GetRevision(); rev != 1 {
		t.Errorf("publishing made revision %d of the spec", rev)
	}

	// The same name again is another source.
	if _, err := admin.sources.DeleteSource(t.Context(), &consolev1.DeleteSourceRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	admin.putSource(t, "shop", "https://git.example.com/shop")
	_, err = gitcache.heads.PublishHeads(t.Context(), publishRequest(source, second, commitB))
	wantCode(t, err, connect.CodeNotFound, "deleted and created again")
	_, err = gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
		Source: "shop", Uid: uid, Owner: "x",
	})
	wantCode(t, err, connect.CodeNotFound)
	bad := publishRequest(get(), 1, "not-a-commit")
	_, err = gitcache.heads.PublishHeads(t.Context(), bad)
	wantCode(t, err, connect.CodeInvalidArgument, "not-a-commit")
}

// A gitcache that takes a source over learns of its problem, and since when it lasts.
func TestAClaimTellsTheProblemOfTheSource(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	source := r.admin(t).putSource(t, "shop", "https://git.example.com/shop")
	gitcache := r.service(t, identity.ServiceGitcache)
	claim := func() *consolev1.ClaimSourceResponse {
		t.Helper()
		resp, err := gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
			Source: "shop", Uid: source.GetMetadata().GetUid(), Owner: "gitcache-0",
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := claim()
	failing := publishRequest(source, first.GetEpoch(), commitA)
	failing.Problem = &consolev1.Problem{
		Message: "401 from git.example.com", Since: timestamppb.New(time.Unix(1_700_000_000, 0)),
	}
	if _, err := gitcache.heads.PublishHeads(t.Context(), failing); err != nil {
		t.Fatal(err)
	}
	if got := claim().GetProblem(); first.GetProblem() != nil || !proto.Equal(got, failing.GetProblem()) {
		t.Errorf("claims tell %v, then %v", first.GetProblem(), got)
	}
}

// changeSequence is the number of the last change, as a resume token tells it.
func changeSequence(t *testing.T, r *running) string {
	t.Helper()
	f := newFollower()
	f.follow(t, r.service(t, identity.ServiceTunnel), func() bool { return f.snapshots == 1 && !f.inside })
	return f.token
}

func TestReportsAreKeptAndAcknowledged(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putService(t, "web", "edge-1")
	report := func(cluster string, reports ...*deliveryv1.ServiceReport) map[string]uint64 {
		t.Helper()
		resp, err := distributor.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{
			Clusters: []*consolev1.ClusterReports{
				{Cluster: "edge-2"}, {Cluster: cluster, Reports: reports},
			},
		})
		if err != nil || len(resp.GetClusters()) != 2 || len(resp.GetClusters()[0].GetAcknowledged()) != 0 {
			t.Fatalf("got %v, %v", resp, err)
		}
		acks := map[string]uint64{}
		for _, a := range resp.GetClusters()[1].GetAcknowledged() {
			acks[a.GetService()] = a.GetSequence()
		}
		return acks
	}
	web := func(sequence uint64, message string) *deliveryv1.ServiceReport {
		return &deliveryv1.ServiceReport{
			Service: "web", Sequence: sequence, Phase: deliveryv1.Phase_PHASE_FAILED, Message: message, Digest: "d",
			Objects: []*deliveryv1.ObjectReport{{Kind: "Deployment", Name: "o'brien", Health: "Failed"}},
		}
	}
	kept := func() *deliveryv1.ServiceReport {
		t.Helper()
		resp, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetService().GetStatus().GetCluster().GetReport()
	}
	if acks := report("edge-1", web(5, "five")); acks["web"] != 5 || !proto.Equal(kept(), web(5, "five")) {
		t.Fatalf("acks %v, kept %v", acks, kept())
	}
	if acks := report("edge-1", web(3, "three")); acks["web"] != 5 || kept().GetMessage() != "five" {
		t.Fatalf("acks %v, kept %v", acks, kept())
	}
	// Not meant for that cluster, gone, or impossible: dropped, and never sent again.
	if acks := report("edge-2", web(9, "stranger")); acks["web"] != 9 || kept().GetMessage() != "five" {
		t.Fatalf("acks %v, kept %v", acks, kept())
	}
	gone := web(4, "gone")
	gone.Service = "gone"
	if acks := report("edge-1", gone, web(1<<63, "impossible")); acks["gone"] != 4 || acks["web"] != 1<<63 ||
		kept().GetMessage() != "five" {
		t.Fatalf("acks %v, kept %v", acks, kept())
	}
	if acks := report("nowhere", web(4, "x")); acks["web"] != 4 {
		t.Fatalf("acks %v", acks)
	}
	// A service that moves forgets: the new cluster counts from 1.
	admin.putService(t, "web", "edge-2")
	if kept() != nil {
		t.Fatalf("kept %v", kept())
	}
	if acks := report("edge-2", web(1, "one")); acks["web"] != 1 || kept().GetMessage() != "one" {
		t.Fatalf("acks %v, kept %v", acks, kept())
	}
}

func TestHubTruthKeepsItsTimes(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	service := admin.putService(t, "web", "edge-1")
	base := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	record := func(uid string, hub *consolev1.HubTruth) *consolev1.HubTruth {
		t.Helper()
		if _, err := distributor.status.RecordHub(t.Context(), &consolev1.RecordHubRequest{
			Services: []*consolev1.ServiceHub{{Service: "web", Uid: uid, Hub: hub}},
		}); err != nil {
			t.Fatal(err)
		}
		resp, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetService().GetStatus().GetHub()
	}
	hub := func(digest string, at time.Duration, problem string) *consolev1.HubTruth {
		h := &consolev1.HubTruth{
			Digest: digest, Revision: &artifactv1.Revision{Commit: commitA}, ResolveTime: timestamppb.New(base.Add(at)),
			Artifact: &artifactv1.Artifact{Digest: "sha256:" + strings.Repeat("a", 64), Size: 1, Files: 2},
		}
		if problem != "" {
			h.Problem = &consolev1.Problem{Message: problem, Since: timestamppb.New(base.Add(at))}
		}
		return h
	}
	uid := service.GetMetadata().GetUid()
	if got := record(uid, hub("d1", 0, "")); !proto.Equal(got, hub("d1", 0, "")) {
		t.Fatalf("got %v", got)
	}
	if got := record(uid, hub("d1", time.Minute, "")); !proto.Equal(got, hub("d1", 0, "")) {
		t.Fatalf("resolve time moved: %v", got)
	}
	want := hub("d1", 0, "")
	want.Problem = &consolev1.Problem{Message: "no folder", Since: timestamppb.New(base.Add(2 * time.Minute))}
	if got := record(uid, hub("d1", 2*time.Minute, "no folder")); !proto.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	if got := record(uid, hub("d1", 3*time.Minute, "no folder")); !proto.Equal(got, want) {
		t.Fatalf("the problem's beginning moved: %v", got)
	}
	if got := record(uid, hub("d2", 4*time.Minute, "")); !proto.Equal(got, hub("d2", 4*time.Minute, "")) {
		t.Fatalf("got %v", got)
	}
	if got := record("another-uid", hub("d3", 5*time.Minute, "")); got.GetDigest() != "d2" {
		t.Fatalf("a truth about another service was taken: %v", got)
	}
}

func TestDisconnectedClusterIsNeverGreen(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, distributor, gitcache := r.admin(t), r.service(t,
		identity.ServiceDistributor), r.service(t, identity.ServiceGitcache)
	source := admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	service := admin.putService(t, "web", "edge-1")
	admin.join(t, "edge-1")
	state := func() (consolev1.ServiceState, string) {
		t.Helper()
		resp, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		s := resp.GetService().GetStatus()
		if s.GetStateSince() == nil {
			t.Errorf("%v says not since when", s)
		}
		return s.GetState(), s.GetStateMessage()
	}
	seen := func(at time.Time) {
		t.Helper()
		if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
			Clusters: []*consolev1.ClusterSeen{
				{
					Cluster: "edge-1", Time: timestamppb.New(at),
					Agent:        &deliveryv1.AgentInfo{Version: "v1", KubernetesVersion: "v1.36.3"},
					NextPollTime: timestamppb.New(time.Unix(1e9, 0)),
				}, {Cluster: "nowhere"},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if s, m := state(); s != consolev1.ServiceState_SERVICE_STATE_PENDING || !strings.Contains(m, "shop") {
		t.Fatalf("new service: %v %s", s, m)
	}
	claim, err := gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
		Source: "shop", Uid: source.GetMetadata().GetUid(), Owner: "g",
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, gitcache, source, claim.GetEpoch(), commitA)
	if _, err := distributor.status.RecordHub(t.Context(), &consolev1.RecordHubRequest{
		Services: []*consolev1.ServiceHub{{
			Service: "web", Uid: service.GetMetadata().GetUid(),
			Hub: &consolev1.HubTruth{Digest: "d1", Revision: &artifactv1.Revision{Commit: commitA}},
		}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := distributor.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{
		Clusters: []*consolev1.ClusterReports{{Cluster: "edge-1", Reports: []*deliveryv1.ServiceReport{{
			Service: "web", Sequence: 1, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "d1", Commit: commitA,
			AppliedDigest: "d1", AppliedCommit: commitA, ObjectsTotal: 3, ObjectsHealthy: 3,
		}}}},
	}); err != nil {
		t.Fatal(err)
	}
	seen(time.Now().Add(-10 * time.Minute))
	if s, m := state(); s != consolev1.ServiceState_SERVICE_STATE_UNKNOWN || !strings.Contains(m, "10 min ago") ||
		!strings.Contains(m, "Check that the agent runs") {
		t.Fatalf("not seen for 10 minutes: %v %s", s, m)
	}
	seen(time.Now().Add(-3 * time.Minute))
	if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
		Clusters: []*consolev1.ClusterSeen{
			{Cluster: "edge-1", Time: timestamppb.New(time.Now().Add(-2 * time.Minute)), Lost: true},
		},
	}); err != nil {
		t.Fatal(err)
	}
	if s, m := state(); s != consolev1.ServiceState_SERVICE_STATE_UNKNOWN || !strings.Contains(m, "3 min ago") {
		t.Fatalf("its stream broke: %v %s", s, m)
	}
	seen(time.Now().Add(time.Hour)) // a distributor whose clock is ahead
	if s, m := state(); s != consolev1.ServiceState_SERVICE_STATE_HEALTHY || !strings.Contains(m, "3 objects") {
		t.Fatalf("connected: %v %s", s, m)
	}
	cluster, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	status := cluster.GetCluster().GetStatus()
	if next := status.GetNextPollTime(); next.AsTime().Unix() != 1e9 {
		t.Errorf("it asks again at %v", next)
	}
	if !status.GetConnected() || status.GetKubernetesVersion() != "v1.36.3" || status.GetJoinTime() == nil ||
		status.GetLastSeenTime().AsTime().After(time.Now()) {
		t.Errorf("status %v", status)
	}
}
