package agent_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/mux/muxhttp"
)

// person lets somebody do something with objects of kinds in the test's namespace, as a role says.
func (w *world) person(name string, rule ...string) muxhttp.Impersonated {
	w.t.Helper()
	user := name + "." + w.namespace
	if len(rule) > 0 {
		w.kubectl(append([]string{"create", "role", name}, rule...)...)
		w.kubectl("create", "rolebinding", name, "--role="+name, "--user="+user)
	}
	return muxhttp.Impersonated{User: user, Groups: []string{"people"}}
}

// asked is what the agent answers a person, once it knows the service; an error is in its own words.
func (w *world) asked(as muxhttp.Impersonated, method, path string, body io.Reader) (detail *deliveryv1.ServiceDetail, code int, message string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.agent.Answer(answer, httptest.NewRequestWithContext(w.t.Context(), method, "/fairlead/v1/services/"+path, body), as)
	if answer.Code != http.StatusOK {
		var status struct{ Message string }
		if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
			w.t.Fatalf("%d %s: %v", answer.Code, answer.Body, err)
		}
		return nil, answer.Code, status.Message
	}
	detail = &deliveryv1.ServiceDetail{}
	if err := protojson.Unmarshal(answer.Body.Bytes(), detail); err != nil {
		w.t.Fatal(err)
	}
	return detail, answer.Code, ""
}

func secretObject(name, value string) string {
	return "---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {x: " + value + "}\n"
}

// What would be removed, and which Secrets differ, is told by name to those only who may read it in the cluster.
func TestAComparisonNamesNoObjectThatThePersonMayNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("keeps", "1") + "---\n" + configMap("leaves", "1") + secretObject("token", "one") + secretObject("old", "one")})
	w.hub.awaitPhase(t, name, w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, "a look")), held)
	w.hub.awaitPhase(t, name, w.hub.sync(name, nil), healthy)
	w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, "a look"))
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("keeps", "2") + secretObject("token", "two") + secretObject("new", "one")}), held)

	reader := w.person("reader", "--verb=get", "--resource=configmaps")
	detail, code, message := w.asked(reader, http.MethodGet, name+"/diff", nil)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	text := protojson.Format(detail)
	if d := detail.GetDiff(); d.GetCreated() != 1 || d.GetChanged() != 2 || d.GetRemoved() != 2 || len(d.GetObjects()) != 5 {
		t.Errorf("counted %s", text)
	}
	for _, secret := range []string{"token", "old", "new"} {
		if strings.Contains(text, `"`+secret+`"`) {
			t.Errorf("Secret %q is named: %s", secret, text)
		}
	}
	if !strings.Contains(text, `"leaves"`) || !strings.Contains(text, `"keeps"`) || !strings.Contains(text, "not named") {
		t.Errorf("what may be read is not told: %s", text)
	}

	_, code, message = w.asked(w.person("some", "--verb=get", "--resource=configmaps", "--resource-name=keeps"), http.MethodGet, name+"/diff", nil)
	if code != http.StatusForbidden || strings.Contains(message, "leaves") || !strings.Contains(message, "kind ConfigMap in namespace "+w.namespace) {
		t.Errorf("an object that would be removed and may not be read: %d, %s", code, message)
	}
	_, code, message = w.asked(w.person("nobody"), http.MethodGet, name+"/diff", nil)
	if code != http.StatusForbidden || strings.Contains(message, "keeps") {
		t.Errorf("somebody without rights: %d, %s", code, message)
	}

	all, code, message := w.asked(w.person("all", "--verb=get", "--resource=configmaps,secrets"), http.MethodGet, name+"/diff", nil)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	if got := changes(all.GetDiff()); got["token"] != "UPDATE" || got["old"] != "REMOVE" || got["new"] != "CREATE" || got["leaves"] != "REMOVE" {
		t.Errorf("got %v", got)
	}
}
