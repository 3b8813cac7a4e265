package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

// past is a service whose deployments a test makes.
type past struct {
	*running
	admin, gitcache, distributor api
	history                      consolev1connect.RevisionServiceClient
	source                       *consolev1.Source
	epoch                        int64
	sequence                     uint64
	service, uid, head           string
}

func (r *running) histories(t *testing.T, token string) consolev1connect.RevisionServiceClient {
	t.Helper()
	return consolev1connect.NewRevisionServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(r.sending(token)))...)
}

func newPast(t *testing.T, r *running) *past {
	t.Helper()
	p := &past{
		running: r, admin: r.admin(t), gitcache: r.service(t, identity.ServiceGitcache),
		distributor: r.service(t, identity.ServiceDistributor), history: r.histories(t, r.adminToken(t)),
	}
	p.source = p.admin.putSource(t, "shop", "https://git.example.com/shop")
	p.admin.putCluster(t, "edge-1")
	p.service, p.uid = "web", p.admin.putService(t, "web", "edge-1").GetMetadata().GetUid()
	claim, err := p.gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
		Source: "shop", Uid: p.source.GetMetadata().GetUid(), Owner: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.epoch = claim.GetEpoch()
	return p
}

// commitTime is when a test's commits were made.
var commitTime = time.Now().Add(-time.Hour).Truncate(time.Second)

// push publishes a commit, and deliver hands it out under a digest, which the cluster applies: healthy or not.
func (p *past) push(t *testing.T, commit string) {
	t.Helper()
	req := publishRequest(p.source, p.epoch, commit)
	req.Heads[0].Revision.CommitTime, req.Heads[0].Revision.Author = timestamppb.New(commitTime), "Kim <kim@example.com>"
	if _, err := p.gitcache.heads.PublishHeads(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	p.head = commit
}

func (p *past) deliver(t *testing.T, commit, digest string, phase deliveryv1.Phase) {
	t.Helper()
	for range 2 { // a truth that is told again is there once
		said := &consolev1.ServiceHub{Service: p.service, Uid: p.uid, Hub: &consolev1.HubTruth{Digest: digest}}
		ref := &consolev1.RefHub{
			SourceUid: p.source.GetMetadata().GetUid(), Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commit},
		}
		if commit == p.head { // distributors tell the commit of a ref once, when all that was made of it is told
			said.SourceUid, said.Ref = ref.GetSourceUid(), ref.GetRef()
			p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{said}})
			p.record(t, &consolev1.RecordHubRequest{Refs: []*consolev1.RefHub{ref}})
			continue
		}
		said.Hub.Revision = ref.GetRevision()
		p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{said}})
	}
	p.sequence++
	said := &deliveryv1.ServiceReport{
		Service: p.service, Sequence: p.sequence, Phase: phase, Digest: digest, Commit: commit,
	}
	if phase != deliveryv1.Phase_PHASE_FAILED {
		said.AppliedDigest, said.AppliedTime = digest, timestamppb.Now()
	}
	said.ObservedTime = timestamppb.Now()
	report(t, p.distributor, said)
}

func (p *past) record(t *testing.T, req *consolev1.RecordHubRequest) {
	t.Helper()
	if _, err := p.distributor.status.RecordHub(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func (p *past) list(t *testing.T) (out []string) {
	t.Helper()
	for token := ""; ; {
		resp, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{
			Service: "web", PageSize: 2, PageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range resp.GetDeployments() {
			out = append(out, fmt.Sprintf("%d %s %s %s by %s", d.GetNumber(), d.GetDigest(),
				short(d.GetCause().String(), "DEPLOYMENT_CAUSE_"),
				short(d.GetOutcome().String(), "DEPLOYMENT_OUTCOME_"), d.GetAuthor()))
		}
		if token = resp.GetNextPageToken(); token == "" {
			return out
		}
	}
}

func short(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

func (p *past) get(t *testing.T) *consolev1.ServiceSpec {
	t.Helper()
	resp, err := p.admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: p.service})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetService().GetSpec()
}

func TestRollbackGoesBackAndReleasesWhenTheRefMovesOn(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		commitC := strings.Repeat("c", 40)
		_, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{Service: "web"})
		wantCode(t, err, connect.CodeFailedPrecondition, "no deployment before the current one was healthy")
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		spec := p.get(t)
		spec.Namespace = "other"
		if _, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: &consolev1.Service{Metadata: meta("web"), Spec: spec},
		}); err != nil {
			t.Fatal(err)
		}
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
		if got, want := p.list(t), []string{
			"2 d2 commit failed by Kim <kim@example.com>", "1 d1 spec healthy by user:ada",
		}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		whole, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		if err != nil {
			t.Fatal(err)
		}
		first := whole.GetDeployments()[1]
		steps := []time.Time{
			commitTime, first.GetFetchTime().AsTime(), first.GetDeliverTime().AsTime(), first.GetApplyTime().AsTime(),
			first.GetHealthyTime().AsTime(),
		}
		if !slices.IsSortedFunc(steps, time.Time.Compare) ||
			first.GetTotal().AsDuration() != steps[4].Sub(commitTime) || first.GetEndTime() == nil ||
			whole.GetDeployments()[0].GetEndTime() != nil {
			t.Errorf("steps %v, total %v", steps, first.GetTotal().AsDuration())
		}

		back, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Reason: "2 is broken",
		})
		if err != nil || back.GetDeployment().GetNumber() != 1 {
			t.Fatalf("got %v, %v", back, err)
		}
		spec = p.get(t)
		if s := spec.GetSync(); s.GetPin() != commitA || s.GetReason() != "2 is broken" ||
			spec.GetUnpinAfter() != commitB || spec.GetNamespace() != "" {
			t.Errorf("rolled back to %v", spec)
		}
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		if got := p.list(t); got[0] != "3 d1 rollback healthy by user:ada" {
			t.Errorf("got %q", got)
		}
		p.push(t, commitB) // as before
		if p.get(t).GetSync().GetPin() != commitA {
			t.Error("released for the commit that it keeps away")
		}
		p.push(t, commitC)
		if spec = p.get(t); spec.GetSync().GetPin() != "" || spec.GetSync().GetReason() != "" ||
			spec.GetUnpinAfter() != "" {
			t.Errorf("not released: %v", spec)
		}
		released, err := p.history.ListRevisions(t.Context(), &consolev1.ListRevisionsRequest{
			Kind: consolev1.Kind_KIND_SERVICE, Name: "web", PageSize: 1,
		})
		if err != nil || released.GetRevisions()[0].GetAuthor() != "release" {
			t.Errorf("released by %v, %v", released, err)
		}
		// A rollback that was decided before the ref moved on would wait for the commit after.
		spec.Sync, spec.UnpinAfter = &deliveryv1.SyncSpec{Pin: commitA}, commitB
		_, err = p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: &consolev1.Service{Metadata: meta("web"), Spec: spec},
		})
		wantCode(t, err, connect.CodeAborted, "the ref has moved on to cccccccc")

		// A rollback that is kept stays, whatever comes.
		p.deliver(t, commitC, "d3", deliveryv1.Phase_PHASE_HEALTHY)
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Deployment: 2, Keep: true,
		}); err != nil {
			t.Fatal(err)
		}
		p.push(t, strings.Repeat("d", 40))
		if spec = p.get(t); spec.GetSync().GetPin() != commitB || spec.GetUnpinAfter() != "" ||
			spec.GetNamespace() != "other" {
			t.Errorf("not kept: %v", spec)
		}
		_, err = p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Deployment: 99,
		})
		wantCode(t, err, connect.CodeNotFound, "no deployment 99")
		_, err = p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Deployment: 1, Etag: "x-1",
		})
		wantCode(t, err, connect.CodeAborted)
	})
}

// A commit that was there before a pin was released came by the release, and not by its author.
func TestWhatAReleaseDeliversIsOfThePersonThatReleased(t *testing.T) {
	t.Parallel()
	p := newPast(t, newHub(t, "").start(t))
	p.push(t, commitA)
	p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
	pin := func(commit string) {
		t.Helper()
		req := &consolev1.PinServiceRequest{Name: "web", Commit: commit}
		if _, err := p.admin.levers.PinService(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	pin(commitA)
	p.push(t, commitB)
	pin("")
	p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
	if got := p.list(t); got[0] != "2 d2 spec healthy by user:ada" {
		t.Errorf("got %q", got)
	}
}

// A rollback to another source waits for that one: the source that it keeps away does not end it.
func TestARollbackIsReleasedByTheSourceThatItRunsFrom(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		spec, was := p.get(t), *p
		p.source = p.admin.putSource(t, "next", "https://git.example.com/next")
		claim, err := p.gitcache.heads.ClaimSource(t.Context(), &consolev1.ClaimSourceRequest{
			Source: "next", Uid: p.source.GetMetadata().GetUid(), Owner: "a",
		})
		if err != nil {
			t.Fatal(err)
		}
		p.epoch = claim.GetEpoch()
		spec.Source = "next"
		if _, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: &consolev1.Service{Metadata: meta("web"), Spec: spec},
		}); err != nil {
			t.Fatal(err)
		}
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web", Deployment: 1,
		}); err != nil {
			t.Fatal(err)
		}
		for _, commit := range []string{commitB, strings.Repeat("c", 40)} {
			p.push(t, commit)
			if spec := p.get(t); spec.GetSource() != "shop" || spec.GetSync().GetPin() != commitA {
				t.Fatalf("%.8s of the source that it keeps away ended it: %v", commit, spec)
			}
		}
		was.push(t, commitA)
		if spec := p.get(t); spec.GetSync().GetPin() != commitA {
			t.Errorf("ended without another commit: %v", spec)
		}
		was.push(t, strings.Repeat("d", 40))
		if spec := p.get(t); spec.GetSource() != "next" || spec.GetSync().GetPin() != "" {
			t.Errorf("not released: %v", spec)
		}
	})
}

// A pin by a person after a rollback stays, though the pin of the rollback would have gone.
func TestAPinAfterARollbackStays(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web",
		}); err != nil {
			t.Fatal(err)
		}
		p.wantEvents(t, "pin.set", "It is pinned to aaaaaaaa until its ref gets another commit.")
		for _, pin := range []string{commitA, "", commitA} {
			if _, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{
				Name: "web", Commit: pin,
			}); err != nil {
				t.Fatal(err)
			}
			if spec := p.get(t); spec.GetSync().GetPin() != pin || spec.GetUnpinAfter() != "" {
				t.Errorf("pinned to %q: %v", pin, spec)
			}
		}
		p.push(t, strings.Repeat("c", 40))
		if spec := p.get(t); spec.GetSync().GetPin() != commitA {
			t.Errorf("released: %v", spec)
		}
		p.wantEvents(t, "service.delivered", "aaaaaaaa is ready for the cluster.", "bbbbbbbb is ready for the cluster.")
	})
}

// A pin until the ref moves on holds while that stays where it is, and goes with the next commit, the one that a
// rollback would wait for.
func TestAPinUntilTheNextCommitIsReleasedByIt(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		pin := func(commit string, untilNext bool) error {
			_, err := p.admin.levers.PinService(t.Context(), &consolev1.PinServiceRequest{
				Name: "web", Commit: commit, UntilNext: untilNext,
			})
			return err
		}
		wantCode(t, pin(commitA, true), connect.CodeFailedPrecondition,
			"does not know where HEAD of source \"shop\" points")
		wantCode(t, pin("", true), connect.CodeInvalidArgument, "until_next needs a commit")
		if err := pin(commitA, false); err != nil {
			t.Fatal(err)
		}
		wantCode(t, pin(commitA, true), connect.CodeFailedPrecondition,
			"does not know where HEAD of source \"shop\" points")
		if err := pin("", false); err != nil {
			t.Fatal(err)
		}
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		steps := []struct {
			pin, head, next string
		}{
			// an older one than the head, which was there before
			{commitA, commitB, strings.Repeat("c", 40)},
			{strings.Repeat("c", 40), strings.Repeat("c", 40), strings.Repeat("d", 40)}, // the head itself
		}
		for _, step := range steps {
			if _, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
				Name: "web", Reason: "incident 7",
			}); err != nil {
				t.Fatal(err)
			}
			if err := pin(step.pin, true); err != nil {
				t.Fatal(err)
			}
			p.push(t, step.head) // told again
			if spec := p.get(t); spec.GetSync().GetPin() != step.pin || spec.GetUnpinAfter() != step.head {
				t.Errorf("pinned to %q: %v", step.pin, spec)
			}
			p.push(t, step.next)
			spec := p.get(t)
			if spec.GetSync().GetPin() != "" || spec.GetUnpinAfter() != "" {
				t.Errorf("not released by %q: %v", step.next, spec)
			}
			if spec.GetSync().GetMode() != deliveryv1.SyncMode_SYNC_MODE_HOLD ||
				spec.GetSync().GetReason() != "incident 7" {
				t.Errorf("the hold went with the pin: %v", spec)
			}
		}
		p.wantEvents(t, "pin.set", "It is pinned to aaaaaaaa: what the ref gets later does not count.",
			"It is pinned to aaaaaaaa until its ref gets another commit.",
			"It is pinned to cccccccc until its ref gets another commit.")

		// A pin is no rollback, and without a word it stays.
		if err := pin(commitA, true); err != nil {
			t.Fatal(err)
		}
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		if got := p.list(t)[0]; got != "3 d1 pin healthy by user:ada" {
			t.Errorf("got %q", got)
		}
		if err := pin(commitA, false); err != nil {
			t.Fatal(err)
		}
		p.push(t, strings.Repeat("e", 40))
		if spec := p.get(t); spec.GetSync().GetPin() != commitA {
			t.Errorf("released: %v", spec)
		}
	})
}

// wantEvents fails unless these are the messages of the service's events of a type.
func (p *past) wantEvents(t *testing.T, kind string, want ...string) {
	t.Helper()
	var got []string
	for _, e := range listEvents(t, p.events(t, p.adminToken(t)), "service = web AND type = "+kind) {
		got = append(got, e.GetMessage())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", kind, got, want)
	}
}

// The levers of services of a global service are their own, and this is one.
func TestServicesOfGlobalServicesRollBackAndAreReleased(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		g := newGlobal("logs", nil)
		g.Spec.Clusters = &consolev1.ClusterSelector{Names: []string{"edge-1"}}
		p.admin.putGlobal(t, g)
		p.service = "logs-edge-1"
		got, err := p.admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: p.service})
		if err != nil {
			t.Fatal(err)
		}
		p.uid = got.GetService().GetMetadata().GetUid()
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_FAILED)
		if _, err := p.history.RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: p.service,
		}); err != nil {
			t.Fatal(err)
		}
		g.Spec.Template.Namespace = "other"
		p.admin.putGlobal(t, g)
		if spec := p.get(t); spec.GetSync().GetPin() != commitA || spec.GetUnpinAfter() != commitB ||
			spec.GetNamespace() != "" {
			t.Errorf("a change of the global service did not wait behind the rollback: %v", spec)
		}
		p.push(t, strings.Repeat("c", 40))
		if spec := p.get(t); spec.GetSync().GetPin() != "" || spec.GetUnpinAfter() != "" ||
			spec.GetNamespace() != "other" {
			t.Errorf("not released: %v", spec)
		}
	})
}

func TestHistoryIsForWhoMaySeeAndRollbackForWhoMayDeploy(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		if _, err := p.admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true,
			Secret:       &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": "planted"}},
		}); err != nil {
			t.Fatal(err)
		}
		p.admin.let(t, "viewers", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		p.admin.let(t, "deployers", "deployer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		as := func(groups ...string) consolev1connect.RevisionServiceClient {
			return p.histories(t, p.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: groups}))
		}
		ask := &consolev1.ListRevisionsRequest{Kind: consolev1.Kind_KIND_SERVICE, Name: "web"}
		_, err := as().ListRevisions(t.Context(), ask)
		wantCode(t, err, connect.CodeNotFound, "no grant")
		_, err = as().ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		wantCode(t, err, connect.CodeNotFound, "no grant")
		_, err = as("viewers").RollbackService(t.Context(), &consolev1.RollbackServiceRequest{Service: "web"})
		wantCode(t, err, connect.CodePermissionDenied, "may not deploy service")
		if _, err = as("deployers").RollbackService(t.Context(), &consolev1.RollbackServiceRequest{
			Service: "web",
		}); err != nil {
			t.Error(err)
		}
		if _, err := p.admin.services.DeleteService(t.Context(), &consolev1.DeleteServiceRequest{
			Name: "web",
		}); err != nil {
			t.Fatal(err)
		}
		_, err = as().ListRevisions(t.Context(), ask)
		wantCode(t, err, connect.CodeNotFound, "no grant")
		var got []string
		for token := ""; ; {
			resp, err := as("viewers").ListRevisions(t.Context(), &consolev1.ListRevisionsRequest{
				Kind: ask.GetKind(), Name: "web", PageSize: 2, PageToken: token,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range resp.GetRevisions() {
				got = append(got, fmt.Sprintf("%d %s by %s", v.GetRevision(), v.GetAction(), v.GetAuthor()))
				if pins := strings.Contains(v.GetDiff(), "+    pin: "+commitA); pins != (v.GetRevision() == 2) ||
					(v.GetAction() == "deleted") != (v.GetResource() == nil) {
					t.Errorf("revision %d: %v\n%s", v.GetRevision(), v.GetResource(), v.GetDiff())
				}
			}
			if token = resp.GetNextPageToken(); token == "" {
				break
			}
		}
		if want := []string{
			"3 deleted by user:ada", "2 rolled back by user:bob", "1 created by user:ada",
		}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		secret, err := p.history.ListRevisions(t.Context(), &consolev1.ListRevisionsRequest{
			Kind: consolev1.Kind_KIND_SECRET, Name: "git",
		})
		if err != nil || len(secret.GetRevisions()) != 1 || strings.Contains(secret.String(), "planted") ||
			!strings.Contains(secret.GetRevisions()[0].GetDiff(), "token: '***'") {
			t.Errorf("got %v, %v", secret, err)
		}
	})
}

// A deployment is of the spec that it was made of, be that an older one by the time it is told of.
func TestDeploymentIsOfTheSpecThatItWasMadeOf(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		spec := p.get(t)
		spec.Namespace = "later"
		if _, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: &consolev1.Service{Metadata: meta("web"), Spec: spec},
		}); err != nil {
			t.Fatal(err)
		}
		p.record(t, &consolev1.RecordHubRequest{
			Services: []*consolev1.ServiceHub{
				{
					Service: "web", Uid: p.uid, ServiceRevision: 1,
					Hub: &consolev1.HubTruth{Digest: "d1", Revision: &artifactv1.Revision{Commit: commitA}},
				},
			},
		})
		p.deliver(t, commitA, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		list, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		if err != nil || len(list.GetDeployments()) != 2 || list.GetDeployments()[0].GetSpecRevision() != 2 ||
			list.GetDeployments()[1].GetSpecRevision() != 1 {
			t.Errorf("got %v, %v", list, err)
		}
	})
}

// A service that follows another source by now keeps the deployments of the earlier one, each with its own source. The
// change of the service made the first one of the new source, although the commit is another one, too.
func TestADeploymentNamesTheSourceOfItsCommit(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.admin.putSource(t, "other", "https://git.example.com/other")
		spec := p.get(t)
		spec.Source, spec.Path = "other", "apps/web"
		if _, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: &consolev1.Service{Metadata: meta("web"), Spec: spec},
		}); err != nil {
			t.Fatal(err)
		}
		p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{
			Service: "web", Uid: p.uid,
			Hub: &consolev1.HubTruth{Digest: "d2", Revision: &artifactv1.Revision{
				Commit: commitB, Author: "Lee <lee@example.com>",
			}},
		}}})
		list, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range list.GetDeployments() {
			got = append(got, fmt.Sprintf("%s of %s/%s: %s by %s", d.GetCommit().GetCommit()[:1], d.GetSource(),
				d.GetPath(), short(d.GetCause().String(), "DEPLOYMENT_CAUSE_"), d.GetAuthor()))
		}
		want := []string{"b of other/apps/web: spec by user:ada", "a of shop/deploy: spec by user:ada"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// An agent that is quick reports before the hub's batch is there, and has nothing to say afterwards.
func TestReportsThatComeBeforeTheirDeploymentCount(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		for n, digest := range []string{"d1", "d2"} { // the first report of all, and a later one
			p.sequence++
			now := timestamppb.Now()
			report(t, p.distributor, &deliveryv1.ServiceReport{
				Service: p.service, Sequence: p.sequence, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: digest,
				AppliedDigest: digest, AppliedTime: now, ObservedTime: now,
			})
			p.record(t, &consolev1.RecordHubRequest{
				Services: []*consolev1.ServiceHub{
					{
						Service: p.service, Uid: p.uid,
						Hub: &consolev1.HubTruth{Digest: digest, Revision: &artifactv1.Revision{Commit: commitA}},
					},
				},
			})
			if got, want := p.list(t)[0], fmt.Sprintf("%d %s ", n+1, digest); !strings.HasPrefix(got, want) ||
				!strings.Contains(got, " healthy ") {
				t.Errorf("got %q, want %q, healthy", got, want)
			}
		}
		resp, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range resp.GetDeployments() {
			if d.GetApplyTime().AsTime().Before(d.GetDeliverTime().AsTime()) ||
				d.GetHealthyTime().AsTime().Before(d.GetApplyTime().AsTime()) {
				t.Errorf("deployment %d goes back in time: %v", d.GetNumber(), d)
			}
		}
	})
}

func TestWithoutEditAPinIsToWhatTheRefLedToOrWasDelivered(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		p.push(t, commitB) // not delivered yet
		if _, err := p.admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true, Role: &consolev1.Role{
				Metadata: meta("release"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "deploy"}, Kinds: []string{"Service"}}},
				},
			},
		}); err != nil {
			t.Fatal(err)
		}
		p.admin.let(t, "releasers", "release", &consolev1.GrantClusters{All: true})
		bob := r.user(t, "bob", "releasers")
		pin := func(a api, commit string) error {
			_, err := a.levers.PinService(t.Context(), &consolev1.PinServiceRequest{Name: "web", Commit: commit})
			return err
		}
		fork := strings.Repeat("f", 40)
		wantCode(t, pin(bob, fork), connect.CodePermissionDenied, "spec.sync.pin", "may not edit service")
		_, err := bob.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			Service: func() *consolev1.Service {
				s := p.admin.service(t, "web")
				s.Spec.Sync = &deliveryv1.SyncSpec{Pin: fork}
				return s
			}(),
		})
		wantCode(t, err, connect.CodePermissionDenied, "spec.sync.pin")
		for _, to := range []string{commitA, commitB, ""} {
			if err := pin(bob, to); err != nil {
				t.Errorf("%s: %v", to, err)
			}
		}
		if err := pin(p.admin, fork); err != nil {
			t.Errorf("who may edit: %v", err)
		}
		if _, err := bob.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "web", Reason: "look",
		}); err != nil {
			t.Errorf("another lever while it is pinned so: %v", err)
		}
	})
}
