package acceptance

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A cold namespace is one request per kind.
func TestStrangersAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("many")
	w.kubectl("create", "configmap", "c7")
	digest := w.hub.pushSynced(t, name, w.namespace, configMaps(0,
		30), &deliveryv1.SyncSpec{Adoption: deliveryv1.Adoption_ADOPTION_NEVER})
	w.start()
	if report := w.hub.awaitPhase(t, name, digest, failed); !strings.Contains(report.GetMessage(), "c7") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.kubectl("delete", "configmap", "c7")
	w.hub.awaitPhase(t, name, digest, healthy)
	if asked := w.api.count("GET /api/v1/namespaces/" + w.namespace + "/configmaps/c"); asked > 0 {
		t.Errorf("%d objects were asked for one by one", asked)
	}
}

func TestHeldStrangerIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	w.kubectl("create", "configmap", "a", "--from-literal=x=theirs")
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold=ada looks at it")
	digest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	if report := w.hub.awaitPhase(t, name, digest,
		failed); !strings.Contains(report.GetMessage(), "held by its annotation fairlead.dev/hold") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.mustData("a", "theirs")
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustData("a", "1")
}
