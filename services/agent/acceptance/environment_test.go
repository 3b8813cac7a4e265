package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

// A question of a template to the cluster may have another answer later. Only what asked is rendered anew.
func TestWhatDependsOnTheClusterIsRenderedAnewWhenThatChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	group := w.namespace + ".example.com"
	chart, plain := w.service("chart"), w.service("plain")
	first := w.hub.push(t, chart, w.namespace, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/hook.yaml": annotated("check", "1",
			"helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded"),
		"templates/a.yaml": `{{ if .Capabilities.APIVersions.Has "` + group + `/v1/Raft" }}` + configMap("with", "1") +
			"{{ else }}" + configMap("without", "1") + "{{ end }}",
	})
	w.hub.awaitPhase(t, chart, first, healthy)
	w.hub.awaitPhase(t, plain, w.hub.push(t, plain, w.namespace, map[string]string{"a.yaml": configMap("plain", "1")}),
		healthy)
	if !w.has("without") || w.api.patches("/configmaps/check") != 1 {
		t.Error("it was not made, or its hook was not")
	}
	stop()
	before := w.record(plain).Applied
	kubectl(w, strings.NewReplacer("GROUP", group).Replace(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rafts.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Raft, plural: rafts}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`), "apply", "-f", "-")
	await.True(w.t, "the kind is listed", func() bool {
		versions, err := w.cluster.APIVersions(t.Context())
		return err == nil && slices.Contains(versions, group+"/v1/Raft")
	})
	w.start()
	await.True(w.t, "it is rendered anew", func() bool { return w.has("with") && !w.has("without") })
	w.hub.awaitPhase(t, chart, first, healthy)
	if ran := w.api.patches("/configmaps/check"); ran != 1 {
		t.Errorf("the hook of one revision was run %d times", ran)
	}
	if after := w.record(plain).Applied; after != before {
		t.Errorf("what asked nothing was applied anew: %+v, before %+v", after, before)
	}
}

// Services that bring kinds change what the cluster can do, for each other, too: nobody is rendered again for every one
// of them.
func TestServicesThatBringKindsAreRenderedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	const many = 6
	digests := map[string]string{}
	for i := range many {
		name, group := w.service(fmt.Sprintf("chart%d", i)), fmt.Sprintf("g%d.%s.dev", i, w.namespace)
		digests[name] = w.hub.push(t, name, w.namespace, map[string]string{
			"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"templates/a.yaml": crd(group),
			"templates/b.yaml": templated(fmt.Sprintf("c%d", i),
				`{{ .Capabilities.APIVersions.Has "`+group+`/v1/Raft" }}`),
		})
	}
	for name, digest := range digests {
		w.hub.awaitPhase(t, name, digest, healthy)
	}
	// Every service is looked at once more.
	for name := range digests {
		w.hub.awaitPhase(t, name,
			w.hub.sync(name, &deliveryv1.SyncSpec{PostHooks: deliveryv1.PostHooks_POST_HOOKS_SENT}), healthy)
	}
	// the agent's first look may come in between
	if renders := w.counted("fairlead_agent_render_seconds", ""); renders > many+1 {
		t.Errorf("%d services were rendered %v times", many, renders)
	}
}
