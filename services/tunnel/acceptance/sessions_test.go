package acceptance

import (
	"context"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/platform/identity"
)

// viewer is a grant by which bob may look at clusters.
func viewer(clusters ...string) *consolev1.Grant {
	return &consolev1.Grant{Metadata: &consolev1.Metadata{Name: "bobs"}, Spec: &consolev1.GrantSpec{
		Role: "viewer", Clusters: &consolev1.GrantClusters{Names: clusters},
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "bob"}}},
	}}
}

func TestSessionsAreSeenByWhoMaySeeTheCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "edge-2")
	h.connect("edge-1", nil)
	h.connect("edge-2", nil)
	bob := h.tunnels(identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: []string{"dev"}})
	list := func() string {
		resp, err := bob.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{})
		if connect.CodeOf(err) == connect.CodePermissionDenied &&
			strings.Contains(err.Error(), `user "bob" may not view cluster`) {
			return "refused"
		}
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, s := range resp.GetSessions() {
			seen = append(seen, s.GetCluster())
		}
		return strings.Join(slices.Compact(seen), " ")
	}
	if got := list(); got != "refused" {
		t.Errorf("without a grant: %q", got)
	}
	for _, want := range []string{"edge-1", "edge-1 edge-2", "edge-2"} {
		h.SetGrants(viewer(strings.Fields(want)...))
		h.await("bob sees "+want, func() bool { return list() == want })
	}

	// A watch of sessions ends with the grant.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := bob.WatchSessions(ctx, &tunnelv1.WatchSessionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if !watch.Receive() || len(watch.Msg().GetSessions()) != 1 ||
		watch.Msg().GetSessions()[0].GetCluster() != "edge-2" {
		t.Fatalf("got %v, %v", watch.Msg(), watch.Err())
	}
	id := watch.Msg().GetSessions()[0].GetId()
	h.SetGrants(viewer("edge-1"))
	var begun, ended []string
	for !slices.Contains(ended, id) {
		if !watch.Receive() {
			t.Fatalf("the watch ended: %v", watch.Err())
		}
		ended = append(ended, watch.Msg().GetEndedIds()...)
		for _, s := range watch.Msg().GetSessions() {
			begun = append(begun, s.GetCluster())
		}
	}
	if strings.Join(slices.Compact(begun), " ") != "edge-1" {
		t.Errorf("meanwhile came %v", begun)
	}
	h.SetGrants()
	for watch.Receive() { //nolint:revive // to its end
	}
	if connect.CodeOf(watch.Err()) != connect.CodePermissionDenied {
		t.Errorf("the watch goes on without a grant: %v", watch.Err())
	}
}
