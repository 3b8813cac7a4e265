package acceptance

import (
	"io"
	"net/http"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/consoletest"
)

// A right at the API of a cluster is none to its services: the agent compares one only for callers who may view it, and
// with a folder of theirs only for those who may edit it.
func TestAServiceIsComparedForThoseWhoMayOnly(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "compared") })
	const path = "/clusters/edge-1/fairlead/v1/services/web/diff"
	ask := func(group, method, path string) (int, string) {
		t.Helper()
		resp, body := h.do(h.requestAs(bob(group), method, path))
		return resp.StatusCode, body
	}
	for name, rules := range map[string][]*consolev1.RoleRule{
		"api-only": nil, "looks": {{Verbs: []string{"view"}, Kinds: []string{"Service"}}},
	} {
		h.Put(&consolev1.Change{Change: &consolev1.Change_Role{Role: &consolev1.Role{
			Metadata: consoletest.Meta(name), Spec: &consolev1.RoleSpec{Kubernetes: "admin", Rules: rules},
		}}})
	}
	h.SetGrants(grantTo("api", "api-only"), grantTo("lookers", "looks"), grantTo("deployers", "deployer"))
	h.await("the grants are known", func() bool {
		code, _ := ask("deployers", "GET", "/clusters/edge-1/api")
		return code == http.StatusOK
	})
	for _, tc := range []struct {
		group, method, path string
		code                int
		says                string
	}{
		{"deployers", "GET", path, 200, "compared"},
		{"deployers", "POST", path, 200, "compared"},
		{"lookers", "GET", path, 200, "compared"},
		{"lookers", "POST", path, 403, "you may not edit Service web"},
		{"api", "GET", path, 403, "you may not view Service web"},
		{"api", "HEAD", path, 403, ""},
		{"api", "POST", path, 403, "you may not edit Service web"},
		{"api", "PUT", path, 403, "you may not edit Service web"},
		{"api", "GET", strings.Replace(path, "fairlead", "f%61irlead", 1), 403, "you may not view Service web"},
		{"api", "GET", strings.Replace(path, "web", "w%65b", 1), 403, "you may not view Service web"},
		{"api", "GET", "/clusters/edge-1/api", 200, "compared"},
	} {
		if code, body := ask(tc.group, tc.method, tc.path); code != tc.code || !strings.Contains(body, tc.says) {
			t.Errorf("%s of %s by %s: %d %s", tc.method, tc.path, tc.group, code, body)
		}
	}
	// A grant at the service's project: the console knows that, and is asked as the caller.
	req := h.requestAs(bob("api"), "POST", path)
	h.mu.Lock()
	h.allowed = map[string]string{"edit Service web": strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")}
	h.mu.Unlock()
	if resp, body := h.do(req); resp.StatusCode != http.StatusOK || body != "compared" {
		t.Errorf("by a grant at its project: %d %s", resp.StatusCode, body)
	}
	h.setAway(true)
	if code, body := ask("api", "POST", path); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "Try again") {
		t.Errorf("without the console: %d %s", code, body)
	}
	if code, body := ask("deployers", "POST", path); code != http.StatusOK {
		t.Errorf("without the console, by a grant at the cluster: %d %s", code, body)
	}
}
