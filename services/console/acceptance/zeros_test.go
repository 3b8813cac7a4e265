package acceptance

import (
	"encoding/base64"
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
)

func TestAPITokenWithAZeroInItsIDIsNotFound(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		for _, id := range []string{"\x00", "a\x00b", "tok_\x00"} {
			_, err := r.admin(t).tokens.RevokeToken(t.Context(), &consolev1.RevokeTokenRequest{Id: id})
			wantCode(t, err, connect.CodeNotFound, "fairlead token list")
		}
	})
}

// What a caller asks for may have any characters: of a NUL, which PostgreSQL does not take, nothing is found.
func TestQuestionsWithAZeroFindNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		ctx, admin, odd := t.Context(), r.admin(t), "a\x00b"
		_, history := r.histories(t, r.adminToken(t)).ListRevisions(ctx, &consolev1.ListRevisionsRequest{
			Kind: consolev1.Kind_KIND_SERVICE, Name: odd,
		})
		wantCode(t, history, connect.CodeNotFound)
		_, requests := admin.lending.ListAccessRequests(ctx, &consolev1.ListAccessRequestsRequest{PageToken: odd})
		_, tokens := admin.tokens.ListTokens(ctx, &consolev1.ListTokensRequest{
			PageToken: base64.RawURLEncoding.EncodeToString([]byte("a\x00\xff")),
		})
		_, events := r.events(t, r.adminToken(t)).ListEvents(ctx, &consolev1.ListEventsRequest{
			Filter: `cluster = "` + odd + `"`,
		})
		for what, err := range map[string]error{"access requests": requests, "tokens": tokens, "events": events} {
			if code := connect.CodeOf(err); err != nil && code != connect.CodeInvalidArgument {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// PostgreSQL takes no NUL. A report that has one is kept with another character, for the reports of other clusters come
// in the same call.
func TestReportWithAZeroHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	r := newHub(t, postgres.Database(t)).start(t)
	admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	admin.putService(t, "hostile", "edge-1")
	admin.putService(t, "web", "edge-2")
	report := func(service, text string) []*deliveryv1.ServiceReport {
		return []*deliveryv1.ServiceReport{{
			Service: service, Sequence: 1, Phase: deliveryv1.Phase_PHASE_DEGRADED, Message: text, Commit: text,
			Digest:  text,
			Objects: []*deliveryv1.ObjectReport{{Kind: "Deployment", Name: text, Fields: []string{text}}},
		}}
	}
	resp, err := distributor.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{
		Clusters: []*consolev1.ClusterReports{
			{Cluster: "edge-1", Reports: report("hostile", "a\x00b")},
			{Cluster: "edge-2", Reports: report("web", "fine")},
		},
	})
	if err != nil || len(resp.GetClusters()) != 2 || len(resp.GetClusters()[1].GetAcknowledged()) != 1 {
		t.Fatalf("got %v, %v", resp, err)
	}
	for service, want := range map[string]string{"hostile": "a\ufffdb", "web": "fine"} {
		got, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: service})
		if message := got.GetService().GetStatus().GetCluster().GetReport().GetMessage(); err != nil ||
			!strings.Contains(message, want) {
			t.Errorf("%s: %q, %v", service, message, err)
		}
	}
}
