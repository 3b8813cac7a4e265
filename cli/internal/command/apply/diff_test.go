package apply

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
)

type oneService struct {
	consolev1connect.ServiceServiceClient
	service *consolev1.Service
}

func (s oneService) GetService(context.Context, *consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
	return &consolev1.GetServiceResponse{Service: s.service}, nil
}

// answers are given one after the other; the sum of what was sent with the questions is counted.
type answers struct {
	codes  []int
	bodies []string
	sent   int64
	asked  []time.Time
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return nil, err
	}
	i := len(a.asked)
	a.sent, a.asked = a.sent+n, append(a.asked, time.Now())
	return &http.Response{StatusCode: a.codes[i], Body: io.NopCloser(strings.NewReader(a.bodies[i])), Request: r}, nil
}

// A folder may be large: its first comparison is taken, whatever the hub hands out meanwhile, and a busy agent is asked
// again after some seconds only.
func TestAFolderIsSentNoMoreOftenThanNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &consolev1.Service{
			Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1"},
			Status: &consolev1.ServiceStatus{Hub: &consolev1.HubTruth{Digest: "sha256:new"}},
		}
		agent := &answers{codes: []int{503, 200, 200}, bodies: []string{
			`{"message": "busy"}`,
			`{"digest": "sha256:old", "diff": {"created": 1}}`, `{"digest": "sha256:new", "diff": {}}`,
		}}
		h := &hubclient.Hub{
			HTTP: &http.Client{Transport: agent}, Services: oneService{service: service},
			Context: contexts.Context{Endpoints: contexts.Endpoints{Tunnels: []string{"https://tunnel.example"}}},
		}
		a := &app.App{IO: app.IO{Now: time.Now}}
		const folder = "the folder"
		got, err := compareNow(t.Context(), a, h, service,
			io.NewSectionReader(strings.NewReader(folder), 0, int64(len(folder))))
		if err != nil || got.GetDiff().GetCreated() != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		if len(agent.asked) != 2 || agent.sent != 2*int64(len(folder)) ||
			agent.asked[1].Sub(agent.asked[0]) < 2*time.Second {
			t.Errorf("asked at %v, with %d bytes in all", agent.asked, agent.sent)
		}
	})
}

// A cluster without an agent gets none in a moment; an agent that is busy is asked again.
func TestAClusterThatIsNotConnectedIsAskedOnce(t *testing.T) {
	t.Parallel()
	const away = `cluster "edge-1" is not connected: no agent of it has connected since this tunnel replica started.`
	for _, tc := range []struct {
		message, fails string
		asked          int
	}{
		{away, away, 1},
		{`cluster "edge-1": its sessions are busy or ending. Try again in a moment`, "", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := &consolev1.Service{
				Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1"},
			}
			agent := &answers{codes: []int{503, 200}, bodies: []string{
				`{"message": "` + strings.ReplaceAll(tc.message, `"`, `\"`) + `"}`, `{"diff": {}}`,
			}}
			h := &hubclient.Hub{
				HTTP: &http.Client{Transport: agent}, Services: oneService{service: service},
				Context: contexts.Context{Endpoints: contexts.Endpoints{Tunnels: []string{"https://tunnel.example"}}},
			}
			_, err := compareNow(t.Context(), &app.App{IO: app.IO{Now: time.Now}}, h, service, nil)
			if len(agent.asked) != tc.asked || (err == nil) != (tc.fails == "") ||
				err != nil && err.Error() != tc.fails {
				t.Errorf("%s: asked %d times, %v", tc.message, len(agent.asked), err)
			}
		})
	}
}

// What can't be rendered will not be rendered in a moment: the report of the agent says why.
func TestAServiceThatFailsToRenderIsNotAskedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &consolev1.Service{
			Metadata: &consolev1.Metadata{Name: "web"}, Spec: &consolev1.ServiceSpec{Cluster: "edge-1"},
			Status: &consolev1.ServiceStatus{
				Hub: &consolev1.HubTruth{Digest: "sha256:new"},
				Cluster: &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{
					Digest: "sha256:new", Phase: deliveryv1.Phase_PHASE_FAILED, Message: "chart web: no value for port.",
				}},
			},
		}
		agent := &answers{codes: []int{503, 503}, bodies: []string{
			`{"message": "service \"web\" can't be compared: it is not rendered yet"}`, "",
		}}
		h := &hubclient.Hub{
			HTTP: &http.Client{Transport: agent}, Services: oneService{service: service},
			Context: contexts.Context{Endpoints: contexts.Endpoints{Tunnels: []string{"https://tunnel.example"}}},
		}
		_, err := compareNow(t.Context(), &app.App{IO: app.IO{Now: time.Now}}, h, service, nil)
		const want = `service "web" can't be compared: it is not rendered yet: chart web: no value for port.`
		if err == nil || err.Error() != want || len(agent.asked) != 1 {
			t.Errorf("asked %d times, got %v", len(agent.asked), err)
		}
	})
}

func TestWorkingTreesAreOfSourcesThatTheServiceHas(t *testing.T) {
	t.Parallel()
	spec := &consolev1.ServiceSpec{
		Sources: []*consolev1.ServiceSource{
			{Name: "chart", Source: "charts", Chart: "web"},
			{Name: "values", Source: "config"},
		},
		Render: &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{ValuesFiles: []string{
			"../up.yaml",
			"$values/prod.yaml",
		}}},
	}
	service := &consolev1.Service{Metadata: &consolev1.Metadata{Name: "web"}, Spec: spec}
	for words, from := range map[string][]string{
		"write --from NAME=DIR": {"."}, "once for each source": {"values=.", "values=x"},
		`no source of the name "base": it has chart=charts,values=config`: {"base=."},
	} {
		if _, err := partsFrom(service, catalog.PartsOf(spec), from); err == nil ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%v: got %v", from, err)
		}
	}
	parts, err := partsFrom(service, catalog.PartsOf(spec), []string{"values=a=b", "chart=c"})
	if err != nil || len(parts) != 2 || !parts[0].Folders[0].Beyond || parts[1].Folders[0].Dir != "a=b" ||
		parts[1].Folders[0].Beyond {
		t.Fatalf("got %+v, %v", parts, err)
	}
	if got := parts[1].Folders[0].Include; len(got) != 1 || got[0] != "/prod.yaml" {
		t.Errorf("the values are %q", got)
	}
}

func TestDiffIsReadable(t *testing.T) {
	t.Parallel()
	got := diffText(&deliveryv1.Diff{
		Created: 1, Changed: 3, Removed: 1, Unchanged: 7, Objects: []*deliveryv1.ObjectDiff{
			{
				Kind: "Deployment", Namespace: "shop", Name: "web", Change: deliveryv1.Change_CHANGE_UPDATE,
				Fields: []*deliveryv1.FieldDiff{
					{Pointer: "/spec/replicas", Live: "1", Wanted: "3", Manager: "kubectl-edit"},
					{Pointer: "/spec/paused", Live: "true", Manager: "fairlead"},
					{Pointer: "/spec/x", Wanted: "\"a\x1b[1mb\""},
				},
			},
			{
				Kind: "Secret", Namespace: "shop", Name: "token", Change: deliveryv1.Change_CHANGE_UPDATE,
				Fields: []*deliveryv1.FieldDiff{{Pointer: "/data"}},
			},
			{
				Kind: "Job", Namespace: "shop", Name: "once", Change: deliveryv1.Change_CHANGE_RECREATE,
				Message: "spec.template: field is immutable",
			},
			{Kind: "Namespace", Name: "new", Change: deliveryv1.Change_CHANGE_CREATE},
			{
				Kind: "ConfigMap", Namespace: "shop", Name: "bad", Change: deliveryv1.Change_CHANGE_REFUSED,
				Message: "no.",
			},
			{Kind: "ConfigMap", Namespace: "shop", Name: "old", Change: deliveryv1.Change_CHANGE_REMOVE},
			{Kind: "Secret", Change: deliveryv1.Change_CHANGE_REMOVE, Message: "You may not read it."},
		},
	})
	want := `~ Deployment shop/web
    /spec/replicas: 1 -> 3  (set by kubectl-edit)
    /spec/paused: true -> (gone)
    /spec/x: -> "a[1mb"
~ Secret shop/token
    /data: changes (not shown)
-/+ Job shop/once: spec.template: field is immutable
+ Namespace new
! ConfigMap shop/bad: no.
- ConfigMap shop/old
- Secret: You may not read it.
1 created, 3 changed, 1 removed, 7 unchanged
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
