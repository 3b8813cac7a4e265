package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.dev/cli/internal/hub"
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
		if found.wrong != test.wrong || found.text != test.text || !strings.HasPrefix(found.about, "gitcache ") {
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
