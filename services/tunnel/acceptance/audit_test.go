package acceptance

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/identity"
)

// requestAs makes a request of another user.
func (h *hub) requestAs(id identity.Identity, method, target string) *http.Request {
	req := h.request(method, target, nil)
	req.Header.Set("Authorization", "Bearer "+h.sign(h.t, id))
	return req
}

func bob(groups ...string) identity.Identity {
	return identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: groups}
}

func grantTo(group, role string) *consolev1.Grant {
	return &consolev1.Grant{Metadata: &consolev1.Metadata{Name: group, Uid: "uid-" + group}, Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_Group{Group: group}}},
		Role:     role, Clusters: &consolev1.GrantClusters{Names: []string{"edge-1"}},
	}}
}

func TestEveryRequestIsAudited(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "the body's secret")
	})
	h.do(h.request("GET", "/clusters/edge-1/apis/apps/v1/namespaces/x/deployments/web/scale?token=query-secret", nil))
	h.do(h.request("POST", "/clusters/edge-1/api/v1/namespaces/x/secrets?dryRun=query-secret",
		strings.NewReader("posted secret")))
	h.do(h.request("GET", "/clusters/nowhere/api", nil))
	h.await("four events", func() bool {
		return len(h.audited("tunnel.request")) == 2 && len(h.audited("tunnel.request.begin")) == 1 &&
			len(h.audited("tunnel.request.end")) == 1
	})
	for _, e := range h.audited("tunnel.request") {
		switch e.GetCluster() {
		case "edge-1":
			if e.GetResource() != "deployments.apps/scale" || e.GetNamespace() != "x" ||
				e.GetName() != "web" || e.GetVerb() != "get" || e.GetCode() != 200 ||
				e.GetBytesReceived() != 17 || e.GetActor().GetName() != "alice" ||
				len(e.GetActor().GetGroups()) != 2 || e.GetRemote() != "127.0.0.1" ||
				len(e.GetTraceId()) != 32 || e.GetDuration().AsDuration() <= 0 {
				t.Errorf("read: %v", e)
			}
		case "nowhere":
			if e.GetCode() != 404 || !strings.Contains(e.GetReason(), "not in the catalog") {
				t.Errorf("refused: %v", e)
			}
		}
	}
	begin, end := h.audited("tunnel.request.begin")[0], h.audited("tunnel.request.end")[0]
	if begin.GetRequest() == "" || begin.GetRequest() != end.GetRequest() ||
		begin.GetId() == end.GetId() || begin.GetCode() != 0 ||
		end.GetVerb() != "create" || end.GetResource() != "secrets" || end.GetBytesSent() != 13 ||
		end.GetCode() != 200 {
		t.Errorf("write: %v, %v", begin, end)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if strings.Contains(e.String(), "-secret") || strings.Contains(e.String(), " secret") {
			t.Errorf("the trail holds a secret: %v", e)
		}
	}
}

func TestWatchIsAuditedWhenItBegins(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	ended := make(chan struct{})
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	// As an API server reads it: all but false and 0 is yes.
	resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods?watch", nil))
	if err != nil {
		t.Fatal(err)
	}
	h.await("its begin", func() bool { return len(h.audited("tunnel.request.begin")) == 1 })
	if len(h.audited("tunnel.request.end")) > 0 {
		t.Error("it has ended")
	}
	_ = resp.Body.Close()
	<-ended
	h.await("its end", func() bool { return len(h.audited("tunnel.request.end")) == 1 })
	if e := h.audited("tunnel.request.end")[0]; e.GetVerb() != "watch" || e.GetCode() != 0 || e.GetReason() == "" {
		t.Errorf("end: %v", e)
	}
}

func TestUsersDoWhatTheyAreGranted(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1", "edge-2")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) })
	const (
		pods    = "/clusters/edge-1/api/v1/namespaces/x/pods"
		secrets = "/clusters/edge-1/api/v1/secrets"
	)
	refused := func(id identity.Identity, method, target, want string) {
		t.Helper()
		resp, body := h.do(h.requestAs(id, method, target))
		if resp.StatusCode != http.StatusForbidden || !hasAll(body, `"kind":"Status"`, `"reason":"Forbidden"`, want) {
			t.Errorf("%s %s as %v: %d %s", method, target, id.Groups, resp.StatusCode, body)
		}
	}
	refused(bob("dev"), "GET", pods, "needs a grant with role viewer")
	h.SetGrants(grantTo("dev", "viewer"), grantTo("ops", "operator"))
	h.await("the grant holds", func() bool {
		resp, _ := h.do(h.requestAs(bob("dev"), "GET", pods))
		return resp.StatusCode == http.StatusOK
	})
	for _, allowed := range []struct {
		groups         []string
		method, target string
	}{
		{[]string{"x", "ops"}, "DELETE", pods + "/web"},
		{[]string{"ops"}, "POST", pods + "/web/exec"},
		{[]string{identity.AdminsGroup}, "GET", secrets},
	} {
		if resp, body := h.do(h.requestAs(bob(allowed.groups...), allowed.method, allowed.target)); resp.StatusCode != http.StatusOK {
			t.Errorf("%+v: %d %s", allowed, resp.StatusCode, body)
		}
	}
	refused(bob("dev"), "POST", pods, "needs a grant with role deployer")
	refused(bob("dev"), "GET", pods+"/web/exec", "needs a grant with role operator")
	refused(bob("ops"), "GET", secrets, "needs a grant with role admin")
	refused(bob("ops"), "GET", "/clusters/edge-2/api/v1/pods", "no grant for this cluster")
	// Smuggled groups are nobody's.
	req := h.requestAs(bob("dev"), "POST", pods)
	req.Header.Set("Impersonate-Group", "ops")
	req.Header.Set("Fairlead-User", "eyJuYW1lIjoiYWxpY2UiLCJncm91cHMiOlsib3BzIl19")
	if resp, body := h.do(req); resp.StatusCode != http.StatusForbidden {
		t.Errorf("smuggled: %d %s", resp.StatusCode, body)
	}
	h.SetGrants()
	h.await("the grant is gone", func() bool {
		resp, _ := h.do(h.requestAs(bob("dev"), "GET", pods))
		return resp.StatusCode == http.StatusForbidden
	})
}

// With the console away a replica is killed after somebody has changed something.
func TestTrailSurvivesKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	redis, dir := redistest.Start(t), t.TempDir()
	base := newHub(t, "edge-1")
	base.setAway(true)
	h, process := base.process(redis.URL(), dir)
	h.agent(eventAPI(t), "edge-1")
	h.spread("edge-1", 1)
	if resp, body := h.do(h.request("DELETE", "/clusters/edge-1/api/v1/namespaces/x/pods/web", nil)); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, body)
	}
	h.await("both events are on the disk", func() bool {
		var spooled []byte
		files, err := filepath.Glob(filepath.Join(dir, "audit", "*"))
		for _, file := range files {
			data, readErr := os.ReadFile(file)
			spooled, err = append(spooled, data...), errors.Join(err, readErr)
		}
		return err == nil && bytes.Contains(spooled, []byte("tunnel.request.begin")) &&
			bytes.Contains(spooled, []byte("tunnel.request.end"))
	})
	process.Kill()
	base.setAway(false)
	h, _ = base.process(redis.URL(), dir)
	h.await("they are in the trail, and so is that it was killed", func() bool {
		return len(h.audited("tunnel.request.begin")) == 1 && len(h.audited("tunnel.request.end")) == 1 &&
			len(h.audited("audit.lost")) == 1
	})
	if e := h.audited("tunnel.request.end")[0]; e.GetVerb() != "delete" || e.GetName() != "web" ||
		e.GetCode() != http.StatusOK {
		t.Errorf("end: %v", e)
	}
}
