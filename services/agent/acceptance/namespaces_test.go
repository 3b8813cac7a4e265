package acceptance

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

func creates(labels map[string]string, own bool) *deliveryv1.SyncSpec {
	return &deliveryv1.SyncSpec{CreateNamespace: &deliveryv1.CreateNamespace{Labels: labels, Own: own}}
}

func TestNamespaceIsMadeBeforeWhatIsInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-made"
	files := map[string]string{"a.yaml": configMap("a", "1")}
	w.hub.push(t, name, space, files)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	w.hub.awaitPhase(t, name, w.hub.sync(name, creates(map[string]string{"team": "shop"}, false)), healthy)
	made, err := w.get("v1", "Namespace", "", space)
	if err != nil || made.GetLabels()["team"] != "shop" || object.Owner(made) != "" {
		t.Fatalf("got %v, %v", made, err)
	}
	// The namespace goes on as it is, whoever labels it, and is not what the service has.
	kubectl(w, "", "label", "namespace", space, "team=bakery", "--overwrite")
	files["a.yaml"] = configMap("a", "2")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, space, files), healthy)
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	stays, err := w.get("v1", "Namespace", "", space)
	if err != nil || stays.GetUID() != made.GetUID() || stays.GetDeletionTimestamp() != nil ||
		stays.GetLabels()["team"] != "bakery" {
		t.Errorf("the namespace did not stay as it was: %v, %v", stays, err)
	}
}

func TestTwoServicesMayMakeOneNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first, second, space := w.service("first"), w.service("second"), w.namespace+"-shared"
	w.hub.push(t, first, space, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.push(t, second, space, map[string]string{"b.yaml": configMap("b", "1")})
	w.hub.awaitPhase(t, first, w.hub.sync(first, creates(nil, false)), healthy)
	w.hub.awaitPhase(t, second, w.hub.sync(second, creates(nil, false)), healthy)
}

func TestOwnNamespaceGoesWithItsService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-own"
	w.hub.push(t, name, space, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, w.hub.sync(name, creates(map[string]string{"team": "shop"}, true)), healthy)
	made, err := w.get("v1", "Namespace", "", space)
	if err != nil || object.Owner(made) != name {
		t.Fatalf("got %v, %v", made, err)
	}
	w.hub.awaitPhase(t, name, w.hub.sync(name, creates(map[string]string{"team": "bakery"}, true)), healthy)
	if made, err = w.get("v1", "Namespace", "", space); err != nil || made.GetLabels()["team"] != "bakery" {
		t.Errorf("its labels are %v, %v", made.GetLabels(), err)
	}
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	if left, err := w.get("v1", "Namespace", "", space); !apierrors.IsNotFound(err) &&
		left.GetDeletionTimestamp() == nil {
		t.Errorf("the namespace stays: %v", err)
	}
}

func TestProjectBoundsTheNamespaceThatIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-bound"
	w.hub.push(t, name, space, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.bound(name, &deliveryv1.ObjectRules{Project: "shop", Namespaces: []string{space}})
	w.hub.sync(name, creates(nil, false))
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed &&
			strings.Contains(r.GetMessage(), `project "shop" does not allow kind Namespace`) &&
			strings.Contains(r.GetMessage(), "spec.sync.createNamespace")
	})
	if _, err := w.get("v1", "Namespace", "", space); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is there: %v", err)
	}
}
