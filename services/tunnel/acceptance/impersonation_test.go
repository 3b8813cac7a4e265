package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux/muxhttp"
)

// asksAs is an API server that says who asks it, and as whom.
func asksAs(w http.ResponseWriter, r *http.Request) {
	caller, _ := muxhttp.CallerFrom(r.Context())
	as, err := json.Marshal(caller.As)
	fmt.Fprintf(w, "%s as %s %v", caller.User, as, err)
	for name := range r.Header {
		if strings.HasPrefix(strings.ToLower(name), "impersonate") {
			fmt.Fprintf(w, " and by header %s", name)
		}
	}
}

// The agent is told whom the caller asks to pass off as, over any replica, and the audit trail shows both.
func TestImpersonationIsCarried(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	other := h.another()
	h.connect("edge-1", asksAs)
	const want = `alice as {"User":"system:serviceaccount:shop:web","UID":"7","Groups":["dev","ops"],"Extra":{"example.com/scopes":["a","b"]}} <nil>`
	for name, at := range map[string]*hub{"here": h, "relayed": other} {
		req := at.request("GET", "/clusters/edge-1/api/v1/namespaces/"+name+"/pods", nil)
		req.Header["Impersonate-User"] = []string{"system:serviceaccount:shop:web"}
		req.Header["Impersonate-Group"] = []string{"dev", "ops"}
		req.Header["Impersonate-Uid"] = []string{"7"}
		req.Header["Impersonate-Extra-Example.com%2fscopes"] = []string{"a", "b"}
		if resp, body := at.do(req); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %s\n%s, want\n%s", name, resp.Status, body, want)
		}
	}
	h.await("two events", func() bool { return len(h.audited("tunnel.request")) == 2 })
	for _, e := range h.audited("tunnel.request") {
		as := e.GetImpersonated()
		if e.GetActor().GetName() != "alice" || as.GetName() != "system:serviceaccount:shop:web" ||
			len(as.GetGroups()) != 2 || as.GetUid() != "7" ||
			len(as.GetExtra()) != 1 || as.GetExtra()[0].GetKey() != "example.com/scopes" ||
			!slices.Equal(as.GetExtra()[0].GetValues(), []string{"a", "b"}) {
			t.Errorf("the trail has %v", e)
		}
	}
	if _, body := h.do(h.request("GET", "/clusters/edge-1/api", nil)); body != "alice as null <nil>" {
		t.Errorf("without: %s", body)
	}
}

// A request that asks for impersonation and can't be carried is refused, with a reason: it never runs with the rights
// of the caller.
func TestImpersonationIsNeverIgnored(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(http.ResponseWriter, *http.Request) { t.Error("the agent was asked") })
	for name, fields := range map[string]http.Header{
		"a group alone":      {"Impersonate-Group": {"dev"}},
		"a uid alone":        {"Impersonate-Uid": {"1"}},
		"extra alone":        {"Impersonate-Extra-Scopes": {"a"}},
		"no name":            {"Impersonate-User": {""}},
		"two users":          {"Impersonate-User": {"bob", "eve"}},
		"underscores":        {"Impersonate_User": {"bob"}},
		"an unknown field":   {"Impersonate-User": {"bob"}, "Impersonate-Roles": {"admin"}},
		"a key without name": {"Impersonate-User": {"bob"}, "Impersonate-Extra-": {"a"}},
		"broken escapes":     {"Impersonate-User": {"bob"}, "Impersonate-Extra-%zz": {"a"}},
		"a user's bytes":     {"Impersonate-User": {"bo\xffb"}},
		"a key's bytes":      {"Impersonate-User": {"bob"}, "Impersonate-Extra-%ff": {"a"}},
		"a value's bytes":    {"Impersonate-User": {"bob"}, "Impersonate-Extra-A": {"\xff"}},
		"too many":           {"Impersonate-User": {"bob"}, "Impersonate-Group": strings.Split(strings.Repeat("g,", 70), ",")},
	} {
		req := h.request("GET", "/clusters/edge-1/api", nil)
		maps.Copy(req.Header, fields)
		if resp, body := h.do(req); resp.StatusCode != http.StatusBadRequest ||
			!hasAll(body, `"kind":"Status"`, `"reason":"BadRequest"`, "impersonate") {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
}

// An agent of before there was this would run the request with the rights of the caller, if it was told in a way that
// it reads.
func TestAgentThatCarriesNoImpersonationIsAskedNothing(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	old := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api" {
			t.Errorf("the agent was asked for %s", r.URL.Path)
		}
	}
	h.dialAs(map[string]string{"version": "v-old"}, h.url,
		h.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}), old)
	h.await("the session", func() bool { return len(h.sessions()) > 0 })
	req := h.request("GET", "/clusters/edge-1/apis", nil)
	req.Header.Set("Impersonate-User", "bob")
	if resp, body := h.do(req); resp.StatusCode != http.StatusForbidden ||
		!hasAll(body, `"kind":"Status"`, "upgrade the agent") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, body := h.do(h.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != http.StatusOK {
		t.Errorf("without impersonation: %s %s", resp.Status, body)
	}
}

// A replica tells another one about impersonation in a header that replicas of before it don't read, and nowhere else.
func TestRelayedImpersonationIsToldOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", asksAs)
	service := h.sign(t, identity.Identity{Kind: identity.KindService, Name: identity.ServiceTunnel})
	told := func(user string) []string { return []string{base64.StdEncoding.EncodeToString([]byte(user))} }
	const alice, bob = `{"name":"alice"}`, `{"name":"alice","as":{"User":"bob"}}`
	for name, tt := range map[string]struct {
		user, as []string
		want     int
	}{
		"alice":                        {told(alice), nil, 200},
		"alice as bob":                 {nil, told(bob), 200},
		"as bob, in the header of all": {told(bob), nil, 400},
		"as nobody":                    {nil, told(alice), 400},
		"both":                         {told(alice), told(bob), 400},
	} {
		req := h.request("GET", "/relay/edge-1/api", nil)
		req.Header.Del("Authorization")
		maps.Copy(req.Header, identitytest.Header(t, identity.ServiceTunnel, service, consoletest.HubSecret))
		req.Header["Fairlead-User"], req.Header["Fairlead-Impersonation"] = tt.user, tt.as
		resp, body := h.do(req)
		if resp.StatusCode != tt.want || tt.want == 200 && strings.Contains(body, "bob") != (tt.as != nil) {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
}
