package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// both runs a test over either database.
func both(t *testing.T, test func(t *testing.T, admin api)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, newHub(t, "").start(t).admin(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, newHub(t, postgres.Database(t)).start(t).admin(t))
	})
}

func (a api) batchClusters(t *testing.T, names ...string) ([]*consolev1.UpdateClusterResponse, error) {
	t.Helper()
	req := &consolev1.BatchUpdateClustersRequest{}
	for _, name := range names {
		req.Requests = append(req.Requests, &consolev1.UpdateClusterRequest{
			AllowMissing: true, Cluster: &consolev1.Cluster{Metadata: meta(name)},
		})
	}
	resp, err := a.clusters.BatchUpdateClusters(t.Context(), req)
	return resp.GetResponses(), err
}

func onEdge(name, path string) *consolev1.UpdateServiceRequest {
	return &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
		Metadata: meta(name), Spec: &consolev1.ServiceSpec{Source: "shop", Cluster: "edge-1", Path: path},
	}}
}

func (a api) batchServices(t *testing.T,
	requests ...*consolev1.UpdateServiceRequest,
) ([]*consolev1.UpdateServiceResponse, error) {
	t.Helper()
	resp, err := a.services.BatchUpdateServices(t.Context(), &consolev1.BatchUpdateServicesRequest{Requests: requests})
	return resp.GetResponses(), err
}

func TestBatchAnswersInOrderWithOutcomes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.putSource(t, "shop", "https://git.example.com/shop")
		if _, err := admin.batchClusters(t, "edge-1", "edge-2"); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.batchServices(t, onEdge("b", "old"), onEdge("c", "same")); err != nil {
			t.Fatal(err)
		}
		list, err := admin.batchServices(t, onEdge("c", "same"), onEdge("a", "new"), onEdge("b", "new"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list {
			s := r.GetService()
			got = append(got, fmt.Sprint(s.GetMetadata().GetName(), " ", s.GetSpec().GetPath(), " ",
				s.GetMetadata().GetRevision(), " ", r.GetOutcome()))
		}
		want := "c same 1 OUTCOME_UNCHANGED, a new 1 OUTCOME_CREATED, b new 2 OUTCOME_UPDATED"
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("got %s", s)
		}
	})
}

func TestBatchIsAllOrNothingAndNamesTheFault(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.putSource(t, "shop", "https://git.example.com/shop")
		admin.putCluster(t, "edge-1")
		elsewhere, stale, absent := onEdge("b", ""), onEdge("b", ""), onEdge("b", "")
		elsewhere.Service.Spec.Cluster = "edge-9"
		stale.Service.Metadata.Etag = "of.1"
		absent.AllowMissing = false
		for _, test := range []struct {
			bad  *consolev1.UpdateServiceRequest
			code connect.Code
			text string
		}{
			{onEdge("b", "../x"), connect.CodeInvalidArgument, `service "b": spec.path`},
			{elsewhere, connect.CodeFailedPrecondition, `service "b": spec.cluster: cluster "edge-9" does not exist`},
			{stale, connect.CodeAborted, `service "b": metadata.etag: it was deleted`},
			{absent, connect.CodeNotFound, `service "b" does not exist`},
			{onEdge("a", ""), connect.CodeInvalidArgument, `service "a" is there twice`},
		} {
			_, err := admin.batchServices(t, onEdge("a", "one"), test.bad, onEdge("c", "three"))
			wantCode(t, err, test.code, test.text)
		}
		list, err := admin.services.ListServices(t.Context(), &consolev1.ListServicesRequest{})
		if err != nil || len(list.GetServices()) != 0 {
			t.Errorf("left behind: %v, %v", list.GetServices(), err)
		}
		_, err = admin.batchClusters(t, "edge-2", "Edge")
		wantCode(t, err, connect.CodeInvalidArgument, `requests[1].cluster.metadata.name`)
		_, err = admin.batchClusters(t)
		wantCode(t, err, connect.CodeInvalidArgument)
		_, err = admin.batchClusters(t, slices.Repeat([]string{"edge-2"}, 1001)...)
		wantCode(t, err, connect.CodeInvalidArgument)
	})
}

func TestBatchOfAThousand(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.putSource(t, "shop", "https://git.example.com/shop")
		names := make([]string, 1000)
		services := make([]*consolev1.UpdateServiceRequest, 1000)
		for i := range names {
			names[i] = fmt.Sprintf("edge-%d", i)
			services[i] = onEdge(fmt.Sprintf("web-%d", i), "apps/web")
			services[i].Service.Spec.Cluster = names[i]
		}
		if err := answered(func() error {
			list, err := admin.batchClusters(t, names...)
			if err == nil && len(list) != 1000 {
				t.Fatal(len(list))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []consolev1.Outcome{
			consolev1.Outcome_OUTCOME_CREATED, consolev1.Outcome_OUTCOME_UNCHANGED,
		} {
			var list []*consolev1.UpdateServiceResponse
			if err := answered(func() (err error) {
				list, err = admin.batchServices(t, services...)
				return err
			}); err != nil || len(list) != 1000 {
				t.Fatalf("%d, %v", len(list), err)
			}
			for i, r := range list {
				if r.GetOutcome() != want || r.GetService().GetSpec().GetCluster() != names[i] {
					t.Fatalf("%d: %v", i, r)
				}
			}
		}
		_, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "edge-999"})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "web-999"`)
	})
}

// Agents that join at the same time share commits, and each gets a credential of its own.
func TestManyJoinAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		names := make([]string, 200)
		for i := range names {
			names[i] = fmt.Sprintf("edge-%d", i)
		}
		if _, err := admin.batchClusters(t, names...); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i, name := range names {
			all.Go(func() {
				if i%10 == 0 { // a failure among the others takes none with it
					err := answered(func() error {
						_, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{
							Cluster: "none",
						})
						return err
					})
					if connect.CodeOf(err) != connect.CodeNotFound {
						t.Error(err)
					}
				}
				err := answered(func() error {
					token, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{
						Cluster: name,
					})
					if err != nil {
						return err
					}
					joined, err := admin.identity.JoinCluster(t.Context(), joining(token.GetJoinToken()))
					if err == nil && joined.GetCluster() != name {
						t.Errorf("%s joined as %q", name, joined.GetCluster())
					}
					return err
				})
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
	})
}
