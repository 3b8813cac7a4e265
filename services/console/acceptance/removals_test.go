package acceptance

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// removals follows the catalog from a token on until a snapshot or a heartbeat, and returns what it says of removals.
func removals(t *testing.T, a api, token string) *consolev1.Removals {
	t.Helper()
	stream, err := a.catalog.Watch(t.Context(), &consolev1.WatchRequest{ResumeToken: token})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if m := stream.Msg(); m.GetSnapshotEnd() != nil || m.GetHeartbeat() != nil {
			return m.GetRemovals()
		}
	}
	t.Fatal(stream.Err())
	return nil
}

// A follower with a place of another history makes it plain that the database was put back. Agents remove nothing from
// then on, until an administrator confirms the removals.
func TestRemovalsWaitAfterTheDatabaseWasPutBack(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
		admin.putCluster(t, "edge-1")
		f := newFollower()
		f.follow(t, distributor, func() bool { return f.snapshots == 1 && !f.inside })
		for _, good := range []string{"", f.token, "garbage"} {
			if got := removals(t, distributor, good); got.GetHeld() {
				t.Errorf("held after token %q", good)
			}
		}
		if _, err := admin.admin.ConfirmRemovals(t.Context(), &consolev1.ConfirmRemovalsRequest{
			Id: "x",
		}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("nothing to confirm: %v", err)
		}

		got := removals(t, distributor, "99999.x")
		if !got.GetHeld() || got.GetConfirmation() != "" {
			t.Fatalf("got %v", got)
		}
		if got := removals(t, distributor, ""); !got.GetHeld() {
			t.Error("another follower is not told")
		}
		held := func(services ...string) *consolev1.GetRemovalsResponse {
			t.Helper()
			// A cluster that does not exist is passed over.
			req := &consolev1.RecordHeldRequest{
				Clusters: []*consolev1.ClusterHeld{
					{Cluster: "edge-1", Services: services}, {Cluster: "gone", Services: services},
				},
			}
			if _, err := distributor.status.RecordHeld(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			out, err := admin.admin.GetRemovals(t.Context(), &consolev1.GetRemovalsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		before := held("web", "o'brien")
		if !strings.Contains(before.GetReason(), "change 99999") || before.GetHoldTime() == nil ||
			len(before.GetClusters()) != 1 || len(before.GetClusters()[0].GetServices()) != 2 {
			t.Errorf("got %v", before)
		}
		now := held("web", "o'brien", "new")
		_, err := admin.admin.ConfirmRemovals(t.Context(), &consolev1.ConfirmRemovalsRequest{Id: before.GetId()})
		wantCode(t, err, connect.CodeFailedPrecondition)
		if _, err := admin.admin.ConfirmRemovals(t.Context(), &consolev1.ConfirmRemovalsRequest{
			Id: now.GetId(),
		}); err != nil {
			t.Fatal(err)
		}
		if got := removals(t, distributor, ""); got.GetHeld() || got.GetConfirmation() == "" {
			t.Errorf("after the confirmation: %v", got)
		}
		if empty := held(); empty.GetId() != "" || len(empty.GetClusters()) > 0 {
			t.Errorf("left is %v", empty)
		}
		events := listEvents(t, r.events(t, r.adminToken(t)), "type : removals OR type = catalog.restored")
		if got := types(events); got != "catalog.restored removals.held removals.confirmed" {
			t.Errorf("events are %s", got)
		}
	})
}

// Where only one cluster keeps services, every distributor is told which: an agent may come to another one, which knows
// nothing of it.
func TestEveryDistributorIsToldWhichClustersWait(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
		admin.putCluster(t, "edge-1")
		admin.putCluster(t, "edge-2")
		if _, err := distributor.status.RecordHeld(t.Context(), &consolev1.RecordHeldRequest{
			Clusters: []*consolev1.ClusterHeld{{Cluster: "edge-2", Services: []string{"web"}}},
		}); err != nil {
			t.Fatal(err)
		}
		f := newFollower()
		f.follow(t, distributor, func() bool { return f.snapshots == 1 && !f.inside })
		for _, token := range []string{"", f.token} {
			if got := removals(t, distributor, token); got.GetHeld() || !slices.Equal(got.GetClusters(), []string{"edge-2"}) {
				t.Errorf("after token %q: %v", token, got)
			}
		}
		held, err := admin.admin.GetRemovals(t.Context(), &consolev1.GetRemovalsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.admin.ConfirmRemovals(t.Context(), &consolev1.ConfirmRemovalsRequest{Id: held.GetId()}); err != nil {
			t.Fatal(err)
		}
		if got := removals(t, distributor, ""); len(got.GetClusters()) > 0 || got.GetConfirmation() == "" {
			t.Errorf("after the confirmation: %v", got)
		}
	})
}

// A heartbeat that is older than the hold would have followers remove what the snapshot before it kept.
func TestTheHeartbeatBehindAHoldSaysSo(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		distributor := r.service(t, identity.ServiceDistributor)
		removals(t, distributor, "") // the log was read
		stream, err := distributor.catalog.Watch(t.Context(), &consolev1.WatchRequest{ResumeToken: "99999.x"})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for stream.Receive() {
			if m := stream.Msg(); m.GetHeartbeat() != nil {
				if !m.GetRemovals().GetHeld() {
					t.Error("the first heartbeat lets removals go")
				}
				return
			}
		}
		t.Error(stream.Err())
	})
}
