package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/version"
)

// A service that is ready may not be well: what it says of itself is a finding.
func TestWhatAServiceSaysOfItselfIsAFinding(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ready, text string
		wrong       bool
	}{
		{"ok", "ready, version v1", false},
		{
			"ok, but it can't agree with the other replicas: redis refuses the login",
			"ready, version v1, but it can't agree with the other replicas: redis refuses the login", true,
		},
		{"ok, but it can't agree with the other replicas; the disk of its data folder is nearly full: 9 MiB of 999 MiB are left", "ready, version v1, but it can't agree with the other replicas; the disk of its data folder is nearly full: 9 MiB of 999 MiB are left", true},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, test.ready) })
		mux.HandleFunc("/version",
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"service":"gitcache","version":"v1"}`) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		found := probe.CheckService(t.Context(), &hubclient.Hub{HTTP: server.Client()}, "gitcache", server.URL)
		if found.Wrong != test.wrong || found.Version != "v1" || found.Text != test.text ||
			!strings.HasPrefix(found.About, "gitcache ") {
			t.Errorf("got %+v, want %+v", found, test)
		}
	}
}

func TestCheckWarnsOfADiskThatIsNearlyFull(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"service":"gitcache","version":"v1"}`)
			return
		}
		fmt.Fprintln(w, "ok, but "+datadir.NearlyFull+": 9 MiB of 999 MiB are left")
	}))
	t.Cleanup(service.Close)
	got := probe.CheckService(t.Context(), &hubclient.Hub{HTTP: service.Client()}, "gitcache", service.URL)
	if !got.Warns || got.Wrong || got.Version != "v1" ||
		!strings.HasSuffix(got.Text, "nearly full: 9 MiB of 999 MiB are left") {
		t.Errorf("got %+v", got)
	}
}

func TestCheckFailsWhileUnsignedMembersAreAccepted(t *testing.T) {
	t.Parallel()
	for body, bad := range map[string]bool{
		`{"service":"tunnel","version":"v1"}`:                        false,
		`{"service":"tunnel","version":"v1","unsignedMembers":true}`: true,
	} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				fmt.Fprint(w, body)
				return
			}
			fmt.Fprintln(w, "ok")
		}))
		t.Cleanup(service.Close)
		got := probe.CheckService(t.Context(), &hubclient.Hub{HTTP: service.Client()}, "tunnel", service.URL)
		if got.Wrong != bad || strings.Contains(got.Text, "--unsigned-members=accept") != bad {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

func TestCheckWarnsOfOtherVersionsAndOfCertificatesThatEnd(t *testing.T) {
	t.Parallel()
	services := []probe.Finding{
		{About: "console a", Version: version.String(), Ends: clitest.Noon().Add(15 * 24 * time.Hour)},
		{About: "gitcache b", Version: "v0", Ends: clitest.Noon().Add(48 * time.Hour)},
		{About: "tunnel c"},
	}
	if got := checkVersions(services); len(got) != 1 || !got[0].Warns || got[0].About != "gitcache b" ||
		!strings.Contains(got[0].Text, "is version v0") {
		t.Errorf("versions: %+v", got)
	}
	a := &app.App{IO: app.IO{Now: clitest.Noon}}
	if got := checkCertificates(a, services); len(got) != 1 || !got[0].Warns || got[0].About != "gitcache b" ||
		!strings.Contains(got[0].Text, "its certificate ends in 2d") {
		t.Errorf("certificates: %+v", got)
	}
}

func TestCheckFindsWhatWaitsForAPersonAndWhatTakesLong(t *testing.T) {
	t.Parallel()
	v := view.View{Now: clitest.Noon()}
	service := func(state consolev1.ServiceState, since time.Duration,
		change func(*consolev1.Service),
	) *consolev1.Service {
		s := &consolev1.Service{
			Metadata: clitest.Meta("web"), Spec: &consolev1.ServiceSpec{},
			Status: &consolev1.ServiceStatus{State: state, StateMessage: "is so", StateSince: clitest.Before(since)},
		}
		if change != nil {
			change(s)
		}
		return s
	}
	hold := func(age time.Duration) func(*consolev1.Service) {
		return func(s *consolev1.Service) {
			s.Spec.Sync = &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "incident 7"}
			s.Levers = &consolev1.ServiceLevers{
				Mode: &consolev1.Lever{
					Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Author: "user:ada", Reason: "incident 7",
					SinceTime: clitest.Before(age),
				},
			}
		}
	}
	for name, test := range map[string]struct {
		service        *consolev1.Service
		wrong, warning string
	}{
		"well":            {service(consolev1.ServiceState_SERVICE_STATE_HEALTHY, time.Hour, nil), "", ""},
		"just on its way": {service(consolev1.ServiceState_SERVICE_STATE_PROGRESSING, 14*time.Minute, nil), "", ""},
		"long on its way": {
			service(consolev1.ServiceState_SERVICE_STATE_PROGRESSING, 16*time.Minute, nil),
			"progressing for 16m: is so", "",
		},
		"held since today": {service(consolev1.ServiceState_SERVICE_STATE_HELD, time.Hour, hold(23*time.Hour)), "", ""},
		"held for long": {
			service(consolev1.ServiceState_SERVICE_STATE_HELD, time.Hour, hold(25*time.Hour)), "",
			"for 25h: held by user:ada (incident 7): `fairlead resume service web` ends it",
		},
		"a guard": {service(consolev1.ServiceState_SERVICE_STATE_WAITING, time.Minute, func(s *consolev1.Service) {
			s.Status.Cluster = &consolev1.ClusterTruth{
				Report: &deliveryv1.ServiceReport{Guard: &deliveryv1.Guard{Id: "5be1", Removing: 8, ObjectsTotal: 12}},
			}
		}), "for 60s: waits for a person: 8 of 12 objects would be removed. See `fairlead trace service web`, then `fairlead confirm prune web 5be1`", ""},
		"a pin": {service(consolev1.ServiceState_SERVICE_STATE_HEALTHY, time.Hour, func(s *consolev1.Service) {
			s.Spec.Sync = &deliveryv1.SyncSpec{Pin: "fedcba9876"}
		}), "", "pinned to fedcba98 by its files: `fairlead pin service web --release` ends it"},
	} {
		if wrong, warning := serviceTrouble(v, test.service); wrong != test.wrong || warning != test.warning {
			t.Errorf("%s: got %q, %q; want %q, %q", name, wrong, warning, test.wrong, test.warning)
		}
	}
}

func TestCheckFindsClustersThatAreAwayOrDiffer(t *testing.T) {
	t.Parallel()
	v := view.View{Now: clitest.Noon()}
	for name, test := range map[string]struct {
		status         *consolev1.ClusterStatus
		wrong, warning string
	}{
		"well": {
			&consolev1.ClusterStatus{Connected: true, JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(0)}, "", "",
		},
		"away": {
			&consolev1.ClusterStatus{JoinTime: clitest.Before(time.Hour), LastSeenTime: clitest.Before(20 * time.Minute)},
			"not heard of for 20m: is its agent running, and can it reach the hub?", "",
		},
		"never joined": {
			&consolev1.ClusterStatus{}, "no agent has joined: run `fairlead cluster join-token edge`", "",
		},
		"other version": {
			&consolev1.ClusterStatus{Connected: true, JoinTime: clitest.Before(time.Hour), Skew: "older than the hub"}, "",
			"its agent is older than the hub",
		},
		"other clock": {
			&consolev1.ClusterStatus{
				Connected: true, JoinTime: clitest.Before(time.Hour), ClockSkew: durationpb.New(2 * time.Minute),
			},
			"its clock is 2m behind the hub's, and windows and freezes open and close by it: have its nodes set their clocks (NTP)", "",
		},
		"API server that hangs": {
			&consolev1.ClusterStatus{
				Connected: true, JoinTime: clitest.Before(time.Hour),
				ClusterProblem: "the API server has not answered since 2026-03-01T12:00:00Z",
			},
			"its agent can do nothing in it: the API server has not answered since 2026-03-01T12:00:00Z. " +
				"See how its API server is, and what the agent's log says", "",
		},
		"left": {
			&consolev1.ClusterStatus{JoinTime: clitest.Before(time.Hour), LeaveTime: clitest.Before(time.Minute)}, "",
			"left 60s ago, and keeps what it has applied: `fairlead cluster join-token edge` lets an agent join again, `fairlead delete cluster edge` forgets it",
		},
	} {
		if wrong, warning := clusterTrouble(v, &consolev1.Cluster{
			Metadata: clitest.Meta("edge"), Status: test.status,
		}); wrong != test.wrong || warning != test.warning {
			t.Errorf("%s: got %q, %q; want %q, %q", name, wrong, warning, test.wrong, test.warning)
		}
	}
}

func TestCheckFindsSourcesThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	v := view.View{Now: clitest.Noon()}
	if wrong, warning := sourceTrouble(v, &consolev1.Source{
		Metadata: clitest.Meta("shop"), Status: &consolev1.SourceStatus{},
	}); wrong != "" || warning != "" {
		t.Errorf("a source that is well: %q, %q", wrong, warning)
	}
	bad := &consolev1.SourceStatus{
		Problem: &consolev1.Problem{Message: "the host refuses the credentials", Since: clitest.Before(3 * time.Minute)},
	}
	if wrong, warning := sourceTrouble(v, &consolev1.Source{
		Metadata: clitest.Meta("shop"), Status: bad,
	}); wrong != "for 3m: the host refuses the credentials" || warning != "" {
		t.Errorf("got %q, %q", wrong, warning)
	}
}

func TestCheckFindsSinksThatTakeNothing(t *testing.T) {
	t.Parallel()
	v := view.View{Now: clitest.Noon()}
	bad := &consolev1.SinkStatus{Problem: &consolev1.Problem{Message: "answers 503", Since: clitest.Before(3 * time.Minute)}}
	for name, test := range map[string]struct {
		sink           *consolev1.Sink
		wrong, warning string
	}{
		"well":    {&consolev1.Sink{}, "", ""},
		"refused": {&consolev1.Sink{Status: bad}, "for 3m: answers 503", ""},
		"disabled by an operator": {
			&consolev1.Sink{Spec: &consolev1.SinkSpec{Disabled: true}, Status: bad}, "",
			"is disabled: its events are not sent",
		},
	} {
		if wrong, warning := sinkTrouble(v, test.sink); wrong != test.wrong || warning != test.warning {
			t.Errorf("%s: got %q, %q; want %q, %q", name, wrong, warning, test.wrong, test.warning)
		}
	}
}

func TestCheckFindsBackendsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	v := view.View{Now: clitest.Noon()}
	if wrong, warning := backendTrouble(v, &consolev1.Backend{}); wrong != "" || warning != "" {
		t.Errorf("a backend that is well: %q, %q", wrong, warning)
	}
	bad := &consolev1.BackendStatus{
		Problem: &consolev1.Problem{Message: "Vault is sealed", Since: clitest.Before(3 * time.Minute)},
	}
	if wrong, warning := backendTrouble(v, &consolev1.Backend{Status: bad}); wrong != "for 3m: Vault is sealed; services keep the values that they have" || warning != "" {
		t.Errorf("got %q, %q", wrong, warning)
	}
}

func TestCheckFindsGlobalServicesWhoseGuardWaits(t *testing.T) {
	t.Parallel()
	v := view.View{Now: clitest.Noon()}
	for held, want := range map[int32]string{
		0: "", 3: "for 2h: the guard keeps 3 services of clusters that are not chosen any more, until somebody confirms it: `fairlead confirm global logs`",
	} {
		g := &consolev1.GlobalService{
			Metadata: clitest.Meta("logs"), Status: &consolev1.GlobalServiceStatus{HeldBackTotal: held},
		}
		if held > 0 {
			g.Status.HeldBackSince = clitest.Before(2 * time.Hour)
		}
		if wrong, warning := globalTrouble(v, g); wrong != want || warning != "" {
			t.Errorf("%d held back: %q, %q; want %q", held, wrong, warning, want)
		}
	}
}

// deafAdmin answers nothing of what administrators may know.
type deafAdmin struct {
	consolev1connect.AdminServiceClient
	err error
}

func (d deafAdmin) GetHub(context.Context, *consolev1.GetHubRequest) (*consolev1.GetHubResponse, error) {
	return nil, d.err
}

func (d deafAdmin) GetRemovals(context.Context, *consolev1.GetRemovalsRequest) (*consolev1.GetRemovalsResponse, error) {
	return nil, d.err
}

// What the console does not answer is said, but for what the person may not know.
func TestCheckSaysWhatTheConsoleDidNotAnswer(t *testing.T) {
	t.Parallel()
	for code, want := range map[connect.Code]int{connect.CodePermissionDenied: 0, connect.CodeDeadlineExceeded: 2} {
		h := &hubclient.Hub{Admin: deafAdmin{err: connect.NewError(code, errors.New("no answer"))}}
		found := append(checkCondition(t.Context(), &app.App{}, h), checkRemovals(t.Context(), h)...)
		if len(found) != want {
			t.Errorf("%s: found %+v", code, found)
		}
		for _, f := range found {
			if !f.Wrong || !strings.HasPrefix(f.Text, "not known: ") {
				t.Errorf("%s: found %+v", code, f)
			}
		}
	}
}
