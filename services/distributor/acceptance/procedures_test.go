package acceptance

import (
	"strings"
	"testing"

	"fairlead.dev/services/distributor/internal/rpc"
)

// A procedure that changes or reveals something has an event in the audit trail: a new one fails here until it says why
// it needs none.
func TestEveryProcedureSaysWhyItLeavesNoEvent(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"Sync":          "an agent's own services; the configurations that it gets are config.access at the console",
		"Watch":         "tells an agent that there is news",
		"Report":        "an agent's own state: the console makes events of it",
		"ReportDetails": "an agent's own state: the console keeps it",
		"PushView":      "an agent's own state: the console keeps it",
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
