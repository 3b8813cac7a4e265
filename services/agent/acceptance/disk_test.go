package acceptance

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

func TestLostDiskRemovesAsTheServicesAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	w.kubectl("create", "serviceaccount", "deployer")
	w.kubectl("create", "role", "deployer", "--verb=get,list,create,patch,update,delete", "--resource=configmaps")
	w.kubectl("create", "rolebinding", "deployer", "--role=deployer", "--serviceaccount="+w.namespace+":deployer")
	name := w.service("web")
	w.hub.awaitPhase(t, name,
		w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")},
			&deliveryv1.SyncSpec{Impersonate: w.namespace + "/deployer"}), healthy)
	stop()
	w.loseDisk()
	w.hub.remove(name)
	var mu sync.Mutex // guards users
	var users []string
	w.api.set(func(r *http.Request) int {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
			mu.Lock()
			defer mu.Unlock()
			users = append(users, r.Header.Get("Impersonate-User"))
		}
		return 0
	})
	w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	mu.Lock()
	defer mu.Unlock()
	if want := "system:serviceaccount:" + w.namespace + ":deployer"; len(users) != 1 || users[0] != want {
		t.Errorf("it was deleted by %q, want %s", users, want)
	}
}

// The fate of the objects is known before an apply ends that may never do so.
func TestOrphansStayThoughTheDiskWasLostInTheMiddleOfAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("web")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	bad := w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": "kind: ["}, &deliveryv1.SyncSpec{
		OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN,
	})
	w.hub.awaitPhase(t, name, bad, failed)
	stop()
	w.loseDisk()
	w.hub.remove(name)
	w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustData("a", "1")
}
