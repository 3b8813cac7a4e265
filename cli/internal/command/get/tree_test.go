package get

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// tunnel answers as an API server does that is asked for tables of metadata.
func tunnel(t *testing.T, answers map[string]string) (*hubclient.Hub, *[]string) {
	t.Helper()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		answer, ok := answers[strings.TrimPrefix(r.URL.Path, "/clusters/edge-1")]
		if !ok || r.Header.Get("Accept") != "application/json;as=Table;v=v1;g=meta.k8s.io" || r.URL.Query().Get("limit") == "" {
			w.WriteHeader(http.StatusForbidden)
			answer = `{"kind":"Status","message":"no pods for you"}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	h := &hubclient.Hub{HTTP: server.Client()}
	h.Context.Endpoints = contexts.Endpoints{Tunnels: []string{server.URL}}
	return h, &asked
}

func tableRow(cells, name, uid, owner string) string {
	return `{"cells":[` + cells + `],"object":{"metadata":{"name":"` + name + `","namespace":"shop","uid":"` + uid +
		`","ownerReferences":[{"uid":"x"},{"uid":"` + owner + `","controller":true}]}}}`
}

func TestTreeShowsWhatControllersMade(t *testing.T) {
	t.Parallel()
	h, asked := tunnel(t, map[string]string{
		"/apis/apps/v1/namespaces/shop/replicasets": `{"columnDefinitions":[{"name":"Name"},{"name":"Desired"},{"name":"Current"},{"name":"Ready"}],"rows":[` +
			tableRow(`"web-2",2,2,1`, "web-2", "rs2", "dep") + "," +
			tableRow(`"web-1",0,0,0`, "web-1", "rs1", "dep") + `]}`,
		"/api/v1/namespaces/shop/pods": `{"metadata":{"continue":"more"},"columnDefinitions":[{"name":"Name"},{"name":"Ready"},{"name":"Status"},{"name":"Restarts"}],"rows":[` +
			tableRow(`"web-2-b","0/1","CrashLoopBackOff",7`, "web-2-b", "p2", "rs2") + "," +
			tableRow(`"web-2-a","1/1","Running",0`, "web-2-a", "p1", "rs2") + "," +
			tableRow(`"other","1/1","Running",0`, "other", "p3", "elsewhere") +
			`,{"cells":["bare"],"object":{"metadata":{"name":"bare"}}}]}`,
	})
	managed := func(kind, name, uid string) *consolev1.ClusterObject {
		return &consolev1.ClusterObject{
			Object: &deliveryv1.ManagedObject{Kind: kind, Namespace: "shop", Name: name, Uid: uid},
			Report: &deliveryv1.ObjectReport{Health: "Healthy"},
		}
	}
	objects := []*consolev1.ClusterObject{
		managed("ConfigMap", "settings", "cm"), managed("Deployment", "web", "dep"), managed("Deployment", "db", "dep2"),
	}
	found, err := object.LiveChildren(t.Context(), h, "edge-1", objects)
	if err != nil {
		t.Fatal(err)
	}
	if len(*asked) != 2 {
		t.Errorf("asked %v", *asked)
	}
	s := &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1"},
		Status: &consolev1.ServiceStatus{},
	}
	_, got, _ := strings.Cut(treeText(s, objects, found), "\n")
	want := `├── ConfigMap shop/settings  Healthy
├── Deployment shop/web  Healthy
│   └── ReplicaSet shop/web-2  1 of 2 ready
│       ├── Pod shop/web-2-a  Running, 1/1 ready
│       └── Pod shop/web-2-b  CrashLoopBackOff, 0/1 ready
└── Deployment shop/db  Healthy
There are more than 500 objects of kind Pod in a namespace: not all are shown.
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTreeSaysWhyTheClusterDoesNotTell(t *testing.T) {
	t.Parallel()
	h, _ := tunnel(t, nil)
	objects := []*consolev1.ClusterObject{
		{Object: &deliveryv1.ManagedObject{Kind: "StatefulSet", Namespace: "shop", Name: "db"}},
	}
	_, err := object.LiveChildren(t.Context(), h, "edge-1", objects)
	if err == nil || err.Error() != "read pods in namespace shop of cluster edge-1: 403 Forbidden: no pods for you" {
		t.Errorf("got %v", err)
	}
}

func TestTreeIsReadable(t *testing.T) {
	t.Parallel()
	s := &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1"},
		Status: &consolev1.ServiceStatus{State: consolev1.ServiceState_SERVICE_STATE_DEGRADED},
	}
	object := func(wave int32, kind, name, health, message string) *consolev1.ClusterObject {
		return &consolev1.ClusterObject{
			Object: &deliveryv1.ManagedObject{Kind: kind, Namespace: "shop", Name: name, Wave: wave},
			Report: &deliveryv1.ObjectReport{Health: health, Message: message},
		}
	}
	got := treeText(s, []*consolev1.ClusterObject{
		object(-1, "ConfigMap", "o'brien", "Healthy", ""), object(0, "Deployment", "web", "Degraded", "image is gone"),
		object(0, "Service", "web", "Healthy", ""),
	}, nil)
	want := `service web on cluster edge-1: Degraded
│   wave -1
├── ConfigMap shop/o'brien  Healthy
│   wave 0
├── Deployment shop/web  Degraded  image is gone
└── Service shop/web  Healthy
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
