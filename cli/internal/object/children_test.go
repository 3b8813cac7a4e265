package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// cluster is a tunnel whose only cluster answers by path, without the query.
type cluster struct {
	*hubclient.Hub

	answers map[string]string
	asked   []string // method, path and query, in order
	types   []string // of the bodies
	bodies  []string
}

func newCluster(t *testing.T, answers map[string]string) *cluster {
	t.Helper()
	c := &cluster{answers: answers}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.Hub = &hubclient.Hub{HTTP: server.Client(), Context: contexts.Context{Endpoints: contexts.Endpoints{Tunnels: []string{server.URL}}}}
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a body that is cut is not what the test wants to see
	c.asked = append(c.asked, r.Method+" "+r.URL.RequestURI())
	c.types, c.bodies = append(c.types, r.Header.Get("Content-Type")), append(c.bodies, string(body))
	answer, found := c.answers[strings.TrimPrefix(r.URL.Path, "/clusters/edge/")]
	switch {
	case !found:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","message":"pods \"gone\" not found"}`)
	case strings.HasPrefix(answer, "403 "):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, answer[4:])
	default:
		fmt.Fprint(w, answer)
	}
}

func object(kind, name, uid string) *consolev1.ClusterObject {
	group := "apps"
	if kind == "Pod" {
		group = ""
	}
	return &consolev1.ClusterObject{Object: &deliveryv1.ManagedObject{Group: group, Kind: kind, Namespace: "web", Name: name, Uid: uid}}
}

// tableOf is what an API server answers: columns, and rows of a name, a UID, the UID of the controller, and cells.
func tableOf(more string, columns string, rows ...string) string {
	return fmt.Sprintf(`{"metadata":{"continue":%q},"columnDefinitions":[%s],"rows":[%s]}`, more, columns, strings.Join(rows, ","))
}

func row(name, uid, owner, cells string) string {
	return fmt.Sprintf(`{"cells":[%s],"object":{"metadata":{"name":%q,"namespace":"web","uid":%q,"ownerReferences":[{"uid":"other"},{"uid":%q,"controller":true}]}}}`, cells, name, uid, owner)
}

const (
	setColumns = `{"name":"Desired"},{"name":"Current"},{"name":"Ready"}`
	podColumns = `{"name":"Status"},{"name":"Ready"}`
	replicas   = "apis/apps/v1/namespaces/web/replicasets"
	pods       = "api/v1/namespaces/web/pods"
)

// web is a cluster with a Deployment of two pods, whose earlier revision has none left, and a pod that nobody controls.
func web(t *testing.T) *cluster {
	t.Helper()
	return newCluster(t, map[string]string{
		replicas: tableOf("", setColumns, row("web-1", "set-1", "web", "0,0,0"), row("web-2", "set-2", "web", "2,2,1")),
		pods: tableOf("", podColumns, row("web-2-b", "pod-b", "set-2", `"Pending","0/1"`), row("web-2-a", "pod-a", "set-2", `"Running","1/1"`),
			`{"cells":["Running","1/1"],"object":{"metadata":{"name":"alone","namespace":"web","uid":"alone"}}}`),
		pods + "/web-2-a": `{"spec":{"containers":[{"name":"app"},{"name":"proxy"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		pods + "/web-2-b": `{"spec":{"containers":[{"name":"app"}]},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
	})
}

func TestWhatControllersMadeIsATreeByName(t *testing.T) {
	t.Parallel()
	c := web(t)
	children, err := LiveChildren(t.Context(), c.Hub, "edge", []*consolev1.ClusterObject{
		object("Deployment", "web", "web"), object("Deployment", "other", "other"), object("ConfigMap", "settings", "settings"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var tree strings.Builder
	children.WriteBranches(&tree, "", "web")
	const want = `└── ReplicaSet web/web-2  1 of 2 ready
    ├── Pod web/web-2-a  Running, 1/1 ready
    └── Pod web/web-2-b  Pending, 0/1 ready
`
	if tree.String() != want {
		t.Errorf("the tree is\n%swant\n%s", tree.String(), want)
	}
	if len(c.asked) != 2 {
		t.Errorf("two Deployments of one namespace asked %q, want each list once", c.asked)
	}
	if len(children[Unlisted]) != 0 {
		t.Errorf("nothing was cut, and %v is unlisted", children[Unlisted])
	}
}

func TestAListThatWasCutSaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, map[string]string{pods: tableOf("more", podColumns, row("db-0", "pod", "db", `"Running","1/1"`))})
	children, err := LiveChildren(t.Context(), c.Hub, "edge", []*consolev1.ClusterObject{object("StatefulSet", "db", "db")})
	if err != nil {
		t.Fatal(err)
	}
	if len(children["db"]) != 1 || len(children[Unlisted]) != 1 {
		t.Errorf("children of db %v and unlisted %v, want one each", children["db"], children[Unlisted])
	}
}

func TestARefusalOfAClusterHasItsWords(t *testing.T) {
	t.Parallel()
	c := newCluster(t, map[string]string{pods: `403 {"message":"pods is forbidden: ada may not list"}`, pods + "/secret": "403 <html>"})
	_, err := LiveChildren(t.Context(), c.Hub, "edge", []*consolev1.ClusterObject{object("Job", "once", "once")})
	if err == nil || err.Error() != "read pods in namespace web of cluster edge: 403 Forbidden: pods is forbidden: ada may not list" {
		t.Errorf("a list that is refused says %v", err)
	}
	w := Workload{Hub: c.Hub}
	err = w.AskCluster(t.Context(), http.MethodGet, "edge", pathOf("secret"), nil, nil)
	if err == nil || err.Error() != "cluster edge: 403 Forbidden" {
		t.Errorf("a refusal without a reason says %v", err)
	}
	err = w.AskCluster(t.Context(), http.MethodGet, "edge", pathOf("gone"), nil, nil)
	if !errors.Is(err, errGone) || !strings.Contains(err.Error(), `pods "gone" not found`) {
		t.Errorf("a pod that is gone says %v", err)
	}
}

func pathOf(pod string) string { return PodPath(Pod{Namespace: "web", Name: pod}) }

func TestWithoutATunnelNothingIsAsked(t *testing.T) {
	t.Parallel()
	alone := &hubclient.Hub{}
	_, listed := LiveChildren(t.Context(), alone, "edge", nil)
	_, sent := Workload{Hub: alone}.SendRequest(t.Context(), http.MethodGet, "edge", pods, nil)
	for _, err := range []error{listed, sent} {
		if err == nil || !strings.Contains(err.Error(), "--advertise-tunnels") {
			t.Errorf("without a tunnel: %v", err)
		}
	}
}

// objectLists answers one page a call.
type objectLists struct {
	consolev1connect.ObjectServiceClient

	pages  map[string][]*consolev1.ClusterObject // by token
	tokens []string
}

func (l *objectLists) ListObjects(_ context.Context, req *consolev1.ListObjectsRequest) (*consolev1.ListObjectsResponse, error) {
	l.tokens = append(l.tokens, req.GetPageToken())
	resp := &consolev1.ListObjectsResponse{Objects: l.pages[req.GetPageToken()]}
	if req.GetPageToken() == "" && len(l.pages) > 1 {
		resp.NextPageToken = "second"
	}
	return resp, nil
}

func TestPodsOfAServiceAreReadOnceEach(t *testing.T) {
	t.Parallel()
	c := web(t)
	lists := &objectLists{pages: map[string][]*consolev1.ClusterObject{
		"":       {object("Deployment", "web", "web")},
		"second": {object("Pod", "web-2-a", "pod-a"), object("Pod", "gone", "gone")}, // a pod of a controller, and one that is there no more
	}}
	c.Objects = lists
	found, err := Workload{Hub: c.Hub}.ListPods(t.Context(), []*consolev1.Service{{
		Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range found {
		said = append(said, fmt.Sprint(p, p.Containers, p.Ready))
	}
	if want := []string{"edge web/web-2-a [app proxy] true", "edge web/web-2-b [app] false"}; !slices.Equal(said, want) {
		t.Errorf("pods are %q, want %q", said, want)
	}
	if !slices.Equal(lists.tokens, []string{"", "second"}) {
		t.Errorf("pages were asked for by %q", lists.tokens)
	}
	if reads := slices.DeleteFunc(slices.Clone(c.asked), func(s string) bool { return !strings.Contains(s, "/pods/web-2-a") }); len(reads) != 1 {
		t.Errorf("a pod that is an object and has a controller was read %d times", len(reads))
	}
}

func TestAPatchIsAMergePatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, map[string]string{"apis/apps/v1/namespaces/web/deployments/web": "{}"})
	err := Workload{Hub: c.Hub}.AskCluster(t.Context(), http.MethodPatch, "edge", "apis/apps/v1/namespaces/web/deployments/web",
		map[string]any{"spec": map[string]int{"replicas": 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.types[0] != "application/merge-patch+json" || c.bodies[0] != `{"spec":{"replicas":3}}` {
		t.Errorf("the cluster got %s: %s", c.types[0], c.bodies[0])
	}
}

func TestControllersAreThoseWithATemplate(t *testing.T) {
	t.Parallel()
	var names []string
	for _, obj := range ListControllers([]*consolev1.ClusterObject{
		object("Deployment", "a", ""), object("ReplicaSet", "b", ""), object("DaemonSet", "c", ""), object("StatefulSet", "d", ""), object("Pod", "e", ""),
	}) {
		names = append(names, obj.GetName())
	}
	if !slices.Equal(names, []string{"a", "c", "d"}) {
		t.Errorf("controllers are %q", names)
	}
}

func TestOnlyServicesRunSomething(t *testing.T) {
	t.Parallel()
	_, err := Workload{Hub: &hubclient.Hub{}}.ListServices(t.Context(), resource.Reference{Kind: "cluster", Name: "edge"})
	if err == nil || !strings.Contains(err.Error(), "only services and globalservices run something") {
		t.Errorf("pods of a cluster: %v", err)
	}
}

func TestAnObjectWithoutANameIsItsKind(t *testing.T) {
	t.Parallel()
	for want, title := range map[string]string{
		"Secret":           Title("Secret", "web", ""),
		"Namespace web":    Title("Namespace", "", "web"),
		"Secret web/token": Title("Secret", "web", "token"),
	} {
		if title != want {
			t.Errorf("%q, want %q", title, want)
		}
	}
}

func TestFlagsOfObjectsAreForObjects(t *testing.T) {
	t.Parallel()
	if err := (&Flags{}).RefuseFlags(); err != nil {
		t.Errorf("without a flag: %v", err)
	}
	if err := (&Flags{Health: "Degraded"}).RefuseFlags(); err == nil || !strings.Contains(err.Error(), "--health") {
		t.Errorf("with --health: %v", err)
	}
}
