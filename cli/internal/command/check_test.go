package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
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
		{"ok, but it can't agree with the other replicas: redis refuses the login", "ready, version v1, but it can't agree with the other replicas: redis refuses the login", true},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, test.ready) })
		mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"service":"gitcache","version":"v1"}`) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		found := checkService(t.Context(), &hub.Hub{HTTP: server.Client()}, "gitcache", server.URL)
		if found.wrong != test.wrong || found.version != "v1" || found.text != test.text || !strings.HasPrefix(found.about, "gitcache ") {
			t.Errorf("got %+v, want %+v", found, test)
		}
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
		got := checkService(t.Context(), &hub.Hub{HTTP: service.Client()}, "tunnel", service.URL)
		if got.wrong != bad || strings.Contains(got.text, "--unsigned-members=accept") != bad {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

func TestCheckWarnsOfOtherVersionsAndOfCertificatesThatEnd(t *testing.T) {
	t.Parallel()
	services := []finding{
		{about: "console a", version: version.String(), ends: noon().Add(15 * 24 * time.Hour)},
		{about: "gitcache b", version: "v0", ends: noon().Add(48 * time.Hour)},
		{about: "tunnel c"},
	}
	if got := checkVersions(services); len(got) != 1 || !got[0].warns || got[0].about != "gitcache b" || !strings.Contains(got[0].text, "is version v0") {
		t.Errorf("versions: %+v", got)
	}
	a := &app{IO: IO{Now: noon}}
	if got := a.checkCertificates(services); len(got) != 1 || !got[0].warns || got[0].about != "gitcache b" || !strings.Contains(got[0].text, "its certificate ends in 2d") {
		t.Errorf("certificates: %+v", got)
	}
}

func TestCheckFindsWhatWaitsForAPersonAndWhatTakesLong(t *testing.T) {
	t.Parallel()
	v := view{now: noon()}
	service := func(state consolev1.ServiceState, since time.Duration, change func(*consolev1.Service)) *consolev1.Service {
		s := &consolev1.Service{Metadata: meta("web"), Spec: &consolev1.ServiceSpec{}, Status: &consolev1.ServiceStatus{State: state, StateMessage: "is so", StateSince: before(since)}}
		if change != nil {
			change(s)
		}
		return s
	}
	hold := func(age time.Duration) func(*consolev1.Service) {
		return func(s *consolev1.Service) {
			s.Spec.Sync = &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Reason: "incident 7"}
			s.Levers = &consolev1.ServiceLevers{Mode: &consolev1.Lever{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, Author: "user:ada", Reason: "incident 7", SinceTime: before(age)}}
		}
	}
	for name, test := range map[string]struct {
		service        *consolev1.Service
		wrong, warning string
	}{
		"well":             {service(consolev1.ServiceState_SERVICE_STATE_HEALTHY, time.Hour, nil), "", ""},
		"just on its way":  {service(consolev1.ServiceState_SERVICE_STATE_PROGRESSING, 14*time.Minute, nil), "", ""},
		"long on its way":  {service(consolev1.ServiceState_SERVICE_STATE_PROGRESSING, 16*time.Minute, nil), "progressing for 16m: is so", ""},
		"held since today": {service(consolev1.ServiceState_SERVICE_STATE_HELD, time.Hour, hold(23*time.Hour)), "", ""},
		"held for long":    {service(consolev1.ServiceState_SERVICE_STATE_HELD, time.Hour, hold(25*time.Hour)), "", "for 25h: held by user:ada (incident 7): `fairlead resume service web` ends it"},
		"a guard": {service(consolev1.ServiceState_SERVICE_STATE_WAITING, time.Minute, func(s *consolev1.Service) {
			s.Status.Cluster = &consolev1.ClusterTruth{Report: &deliveryv1.ServiceReport{Guard: &deliveryv1.Guard{Id: "5be1", Removing: 8, ObjectsTotal: 12}}}
		}), "for 60s: waits for a person: 8 of 12 objects would be removed. See `fairlead trace service web`, then `fairlead confirm prune web 5be1`", ""},
		"a pin": {service(consolev1.ServiceState_SERVICE_STATE_HEALTHY, time.Hour, func(s *consolev1.Service) {
			s.Spec.Sync = &deliveryv1.SyncSpec{Pin: "fedcba9876"}
		}), "", "pinned to fedcba98 by its files: `fairlead pin service web --release` ends it"},
	} {
		if wrong, warning := v.serviceTrouble(test.service); wrong != test.wrong || warning != test.warning {
			t.Errorf("%s: got %q, %q; want %q, %q", name, wrong, warning, test.wrong, test.warning)
		}
	}
}
