package acceptance

import (
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/services/tunnel/internal/rpc"
)

// A procedure that changes or reveals something has an event in the audit trail: a new one fails here until it says why
// it needs none.
func TestEveryProcedureSaysWhyItLeavesNoEvent(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"Connect":       "a session of an agent, which ListSessions shows while it lasts; requests through it are in the trail (TestEveryRequestIsAudited)",
		"ListReplicas":  "addresses for agents",
		"ListSessions":  "state that grants show",
		"WatchSessions": "state that grants show",
	}
	for procedure := range rpc.Policy() {
		method := procedure[strings.LastIndexByte(procedure, '/')+1:]
		if without[method] == "" {
			t.Errorf("%s changes or reveals something: record it in the audit trail, or say here why not", procedure)
		}
		delete(without, method)
	}
	for method := range without {
		t.Errorf("there is no procedure %s", method)
	}
}

func TestReadsOfTheLogAndOfProfilesAreAudited(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, path := range []string{"/debug/log", "/debug/pprof/heap?secret=planted"} {
		if resp, body := h.do(h.request("GET", path, nil)); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, body)
		}
	}
	h.await("two events", func() bool { return len(h.audited("debug.read")) == 2 })
	for i, e := range h.audited("debug.read") {
		if e.GetActor().GetName() != "alice" || e.GetCode() != http.StatusOK ||
			e.GetResource() != []string{"/debug/log", "/debug/pprof/heap"}[i] || e.GetRemote() == "" {
			t.Errorf("the trail has %v", e)
		}
	}
}
