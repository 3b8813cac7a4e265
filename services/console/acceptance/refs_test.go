package acceptance

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// Services whose content a commit does not change are told of it by their ref.
func TestCommitOfARefIsThatOfItsServices(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHub(t, db).start(t)
			admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
			source := admin.putSource(t, "shop", "https://git.example.com/shop").GetMetadata().GetUid()
			admin.putCluster(t, "edge-1")
			base := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			uids := map[string]string{}
			for _, name := range []string{"web", "shop", "apart"} {
				uids[name] = admin.putService(t, name, "edge-1").GetMetadata().GetUid()
			}
			say := func(name, digest, commit string, at time.Duration) *consolev1.ServiceHub {
				h := &consolev1.HubTruth{Digest: digest, ResolveTime: timestamppb.New(base.Add(at))}
				if commit != "" {
					h.Revision = &artifactv1.Revision{Commit: commit}
				}
				return &consolev1.ServiceHub{Service: name, Uid: uids[name], SourceUid: source, Ref: "HEAD", Hub: h}
			}
			ref := func(commit string, at time.Duration) *consolev1.RefHub {
				return &consolev1.RefHub{
					SourceUid: source, Ref: "HEAD", ResolveTime: timestamppb.New(base.Add(at)),
					Revision: &artifactv1.Revision{Commit: commit, Subject: "it's " + commit, Traceparent: "00-1"},
				}
			}
			record := func(req *consolev1.RecordHubRequest) {
				t.Helper()
				if _, err := distributor.status.RecordHub(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			expect := func(name, digest, commit string, at time.Duration) {
				t.Helper()
				resp, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: name})
				if err != nil {
					t.Fatal(err)
				}
				h := resp.GetService().GetStatus().GetHub()
				got := fmt.Sprint(h.GetDigest(), " ", h.GetRevision().GetCommit(), " ",
					h.GetResolveTime().AsTime().Sub(base))
				if want := fmt.Sprint(digest, " ", commit, " ", at); got != want {
					t.Errorf("%s: got %s, want %s", name, got, want)
				}
			}
			record(&consolev1.RecordHubRequest{
				Services: []*consolev1.ServiceHub{
					say("web", "w1", "", 0), say("shop", "s1", "", 0), say("apart", "a1", commitA, 0),
				},
				Refs: []*consolev1.RefHub{
					ref(commitA, time.Second),
					{SourceUid: "gone", Ref: "HEAD", Revision: &artifactv1.Revision{Commit: commitA}},
				},
			})
			expect("web", "w1", commitA, time.Second)
			expect("apart", "a1", commitA, 0)
			// A commit that changes one of them. One can't be had at it.
			record(&consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{say("shop", "s2", "", time.Minute)}})
			expect("shop", "s2", commitA, time.Minute)
			record(&consolev1.RecordHubRequest{Refs: []*consolev1.RefHub{ref(commitB, 2*time.Minute)}})
			// again: nothing new
			record(&consolev1.RecordHubRequest{Refs: []*consolev1.RefHub{ref(commitB, 3*time.Minute)}})
			expect("web", "w1", commitB, 2*time.Minute)
			expect("shop", "s2", commitB, 2*time.Minute)
			expect("apart", "a1", commitA, 0)
			// Now it can, and is what it was.
			record(&consolev1.RecordHubRequest{
				Services: []*consolev1.ServiceHub{say("apart", "a1", "", 4*time.Minute)},
			})
			expect("apart", "a1", commitB, 2*time.Minute)
		})
	}
}
