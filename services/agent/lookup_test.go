package agent_test

import (
	"fmt"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A chart that makes an object only while there is none must not lose it by its second render, and knows it for its own.
func TestWhatALookupFoundOfTheServiceIsNotRemovedAndIsShownAsHelms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	chart := w.service("chart")
	files := map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/once.yaml": `{{ if not (lookup "v1" "ConfigMap" .Release.Namespace "once") }}` + configMap("once", "1") + "{{ end }}",
		"templates/seen.yaml": templated("seen", `{{ dig "metadata" "annotations" "meta.helm.sh/release-name" "none" (lookup "v1" "ConfigMap" .Release.Namespace "once") }}`),
	}
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	w.mustData("seen", "none")
	files["templates/more.yaml"] = configMap("more", "1")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	w.mustData("once", "1")
	w.mustData("seen", chart)
	w.mustData("more", "1")
	held := w.hub.sync(chart, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_DRY_RUN})
	w.hub.awaitPhase(t, chart, held, healthy)
	w.hub.sync(chart, nil)
	delete(files, "templates/once.yaml")
	delete(files, "templates/seen.yaml")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "once")
}

func TestALookupOfAListFindsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	const many = 520
	var all strings.Builder
	for i := range many {
		fmt.Fprintf(&all, "---\n%s", configMap(fmt.Sprintf("one-%d", i), "1"))
	}
	plain, chart := w.service("plain"), w.service("chart")
	w.hub.awaitPhase(t, plain, w.hub.push(t, plain, w.namespace, map[string]string{"all.yaml": all.String()}), healthy)
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/sum.yaml": templated("sum", `{{ $n := 0 }}{{ range (lookup "v1" "ConfigMap" .Release.Namespace "").items }}{{ if hasPrefix "one-" .metadata.name }}{{ $n = add1 $n }}{{ end }}{{ end }}{{ $n }}`),
	}), healthy)
	w.mustData("sum", fmt.Sprint(many))
}

// templated is configMap for a template's text.
func templated(name, text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n  x: '" + text + "'\n"
}
