package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alarming are a rule, and a receiver of its events.
const alarming = `apiVersion: fairlead.dev/v1
kind: Alert
metadata: {name: alarming}
spec:
  description: Ask the team of the probes.
  clusters: {names: [CLUSTER]}
  when: pods.state.AlarmingProbe > 0
  recover: 0s
  severity: error
---
apiVersion: fairlead.dev/v1
kind: Sink
metadata: {name: alarmed}
spec:
  filter: alert = alarming
  webhook: {url: URL, key: {secret: alarming-webhook-key}}
`

// alarm is a pod that no node runs, so that the test alone writes its status.
const alarm = `apiVersion: v1
kind: Namespace
metadata: {name: alarming}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: alarmer, namespace: alarming}
---
apiVersion: v1
kind: Pod
metadata: {name: alarm, namespace: alarming}
spec: {schedulerName: none, serviceAccountName: alarmer, containers: [{name: c, image: registry.example/app}]}
`

// What an agent sees in its cluster becomes a message, a person acknowledges it, and its end is a message, too.
func TestAnAlertGoesFromAClusterToASink(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := s.Clusters[0]
	type event struct{ Type, Alert, Severity, Message string }
	came := make(chan event, 100)
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Events []event }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Errorf("the sink sends %v", err)
		}
		for _, e := range in.Events {
			came <- e
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer to.Close()
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	fairlead := func(args ...string) string {
		t.Helper()
		out, err := s.Fairlead(ctx, args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := s.Kubectl(ctx, c.Kubeconfig, args...); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	next := func(typ string) event {
		t.Helper()
		for {
			select {
			case e := <-came:
				if e.Type == typ {
					return e
				}
				if e.Type == "alert.firing" || e.Type == "alert.resolved" {
					t.Fatalf("instead of %s came %+v", typ, e)
				}
			case <-ctx.Done():
				t.Fatalf("no %s came:\n%s", typ, fairlead("get", "alert", "alarming", "-o", "yaml"))
			}
		}
	}
	fairlead("apply", "-f", write("alarming.yaml",
		strings.NewReplacer("CLUSTER", c.Name, "URL", to.URL).Replace(alarming)))
	kubectl("apply", "-f", write("alarm.yaml", alarm))
	kubectl("patch", "pod", "alarm", "-n", "alarming", "--subresource=status", "--type=merge", "-p",
		`{"status": {"phase": "Pending", "reason": "AlarmingProbe"}}`)
	fires := next("alert.firing")
	if fires.Alert != "alarming" || fires.Severity != "SEVERITY_ERROR" ||
		!strings.Contains(fires.Message, c.Name+". Ask the team of the probes.") {
		t.Errorf("the sink is told %+v", fires)
	}
	fairlead("acknowledge", "alert", "alarming", "--reason", "incident 7")
	if out := fairlead("get", "alerts"); !strings.Contains(out, "Firing") || !strings.Contains(out, "incident 7") {
		t.Errorf("get alerts says\n%s", out)
	}
	kubectl("delete", "pod", "alarm", "-n", "alarming", "--grace-period=0", "--force")
	if ends := next("alert.resolved"); ends.Alert != "alarming" {
		t.Errorf("the sink is told %+v", ends)
	}
	fairlead("delete", "sink", "alarmed")
	fairlead("delete", "alert", "alarming")
}
