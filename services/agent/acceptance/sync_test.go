package acceptance

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A service that is found as it was is compared, and that is all: not even the inventory is written, until there is
// something to say.
func TestSyncThatFindsNothingToDoWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("still")
	files := map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	asked := func() *deliveryv1.SyncSpec {
		return &deliveryv1.SyncSpec{RequestTime: timestamppb.New(time.Now().Add(time.Minute))}
	}
	seen := w.api.count("")
	digest := ""
	for range 3 {
		digest = w.hub.sync(name, asked())
		w.hub.awaitPhase(t, name, digest, healthy)
	}
	stop()
	if requests := slices.DeleteFunc(w.api.since(seen),
		func(line string) bool { return strings.HasPrefix(line, http.MethodGet) }); len(requests) > 0 {
		t.Errorf("written: %v", requests)
	}
	if got := w.counted("fairlead_agent_render_seconds", ""); got != 4 {
		t.Errorf("%v renders", got)
	}
	// An agent that did not get to know compares once more, and the next change is written with all.
	w.forget()
	w.start()
	w.hub.awaitPhase(t, name, digest, healthy)
	if sent := w.sent(); len(sent) > 0 {
		t.Errorf("sent after a restart: %v", sent)
	}
	files["b.yaml"] = configMap("b", "2")
	digest = w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, digest, healthy)
	if record := w.record(name); !record.Has(digest) || len(record.Entries) != 2 {
		t.Errorf("inventory: %+v", record)
	}
}
