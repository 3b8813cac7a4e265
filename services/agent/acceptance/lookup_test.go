package acceptance

import (
	"fmt"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A chart that makes an object only while there is none must not lose it by its second render, and knows it for its
// own.
func TestWhatALookupFoundOfTheServiceIsNotRemovedAndIsShownAsHelms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	chart := w.service("chart")
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/once.yaml": `{{ if not (lookup "v1" "ConfigMap" .Release.Namespace "once") }}` +
			configMap("once", "1") + "{{ end }}",
		"templates/seen.yaml": templated("seen",
			`{{ dig "metadata" "annotations" "meta.helm.sh/release-name" "none" (lookup "v1" "ConfigMap" .Release.Namespace "once") }}`),
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

// An apply that did not come to its end has made objects, too.
func TestWhatALookupFoundOfAnApplyThatDidNotEndIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	chart := w.service("chart")
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/once.yaml": `{{ if not (lookup "v1" "Secret" .Release.Namespace "once") }}` +
			secret("once", "1", "") + "{{ end }}",
		"templates/wrong.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndatta: {}\n",
	}
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), failed)
	once := w.found("v1", "Secret", "once")
	delete(files, "templates/wrong.yaml")
	files["templates/more.yaml"] = configMap("more", "1")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	if after := w.found("v1", "Secret", "once"); after.GetUID() != once.GetUID() {
		t.Error("the Secret was made anew")
	}
	record := w.record(chart)
	if len(record.Entries) != 2 || record.Entries[1].UID != once.GetUID() {
		t.Errorf("inventory: %+v", record)
	}
	delete(files, "templates/once.yaml")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	w.mustBeGone("v1", "Secret", w.namespace, "once")
}

// A Secret that an installation made stays with the service, also after renders that left it out because a lookup had
// found it.
func TestSecretOfAHookThatALookupFoundStaysAHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	chart := w.service("chart")
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/once.yaml": `{{ if not (lookup "v1" "Secret" .Release.Namespace "once") }}` +
			secret("once", "1", "helm.sh/hook: pre-install") + "{{ end }}",
		"templates/more.yaml": configMap("more", "1"),
	}
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	once := w.found("v1", "Secret", "once")
	files["templates/more.yaml"] = configMap("more", "2")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	delete(files, "templates/once.yaml")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	if after := w.found("v1", "Secret", "once"); after.GetUID() != once.GetUID() {
		t.Error("the Secret was made again")
	}
	w.hub.remove(chart)
	w.hub.await(t, chart, gone)
	w.mustBeGone("v1", "Secret", w.namespace, "once")
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
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/sum.yaml": templated("sum",
			`{{ $n := 0 }}{{ range (lookup "v1" "ConfigMap" .Release.Namespace "").items }}{{ if hasPrefix "one-" .metadata.name }}{{ $n = add1 $n }}{{ end }}{{ end }}{{ $n }}`),
	}), healthy)
	w.mustData("sum", fmt.Sprint(many))
}

// templated is configMap for a template's text.
func templated(name, text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n  x: '" + text + "'\n"
}

// The agent reads everything, and what a template has read is in its objects, or in an error at the hub.
func TestLookupsOfABoundedServiceKeepToItsProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, space := range []string{w.namespace, w.namespace + "-eu", "default"} {
		if space == w.namespace+"-eu" {
			if err := w.cluster.EnsureNamespace(t.Context(), space); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := kube.Cluster(t).Kubectl(t.Context(), "", "create", "secret", "generic", w.namespace, "-n", space,
			"--from-literal=password=hush-"+space); err != nil {
			t.Fatal(err)
		}
	}
	rules := func() *deliveryv1.ObjectRules {
		return &deliveryv1.ObjectRules{Project: "shop", Namespaces: []string{w.namespace, w.namespace + "-*"}}
	}
	noSecrets, anywhere := rules(), rules()
	noSecrets.DeniedKinds = []string{"Secret"}
	anywhere.Namespaces, anywhere.Kinds = nil, []string{"*"}
	chart := func(template string) map[string]string {
		return map[string]string{
			"Chart.yaml":          "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"templates/seen.yaml": "# what is seen\n" + templated("seen", template),
		}
	}
	name := w.service("chart")
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	for _, test := range []struct {
		rules             *deliveryv1.ObjectRules
		template, account string
		want              string
	}{
		{
			noSecrets, `{{ lookup "v1" "Secret" "kube-system" "" | toJson | b64enc }}`, "",
			"does not allow lookup of kind Secret",
		},
		{
			noSecrets, `{{ fail (lookup "v1" "Secret" .Release.Namespace "` + w.namespace + `" | toJson) }}`, "",
			"does not allow lookup of kind Secret",
		},
		{
			rules(), `{{ lookup "v1" "Secret" "default" "` + w.namespace + `" | toJson }}`, "",
			"does not allow lookup of namespace default",
		},
		{
			rules(), `{{ lookup "v1" "Secret" "` + w.namespace + `-eu" "" | toJson }}`, "",
			"does not allow lookup of Secrets outside of the service's namespace",
		},
		{
			rules(), `{{ lookup "v1" "ConfigMap" "" "" | toJson }}`, "",
			"does not allow lookup of kind ConfigMap in all namespaces",
		},
		{
			rules(), `{{ lookup "v1" "Namespace" "" "` + w.namespace + `" | toJson }}`, "",
			"does not allow lookup of kind Namespace, which is not in a namespace",
		},
		{
			anywhere, `{{ lookup "v1" "ConfigMap" "fairlead-system" "cluster" | toJson }}`, "",
			"does not allow lookup of namespace fairlead-system, where the agent is",
		},
		{
			rules(),
			`{{ index (lookup "v1" "Secret" .Release.Namespace "` + w.namespace + `") "data" "password" | b64dec }}`,
			"", "",
		},
		{
			rules(),
			`{{ index (lookup "v1" "Secret" "` + w.namespace + `-eu" "` + w.namespace +
				`") "data" "password" | b64dec }}`,
			w.namespace + "/deployer", "",
		},
	} {
		if test.account != "" {
			w.kubectl("create", "serviceaccount", "deployer")
			for _, space := range []string{w.namespace, w.namespace + "-eu"} {
				if _, err := kube.Cluster(t).Kubectl(t.Context(), "", "create", "rolebinding", "deployer", "-n", space,
					"--clusterrole=cluster-admin",
					"--serviceaccount="+strings.Replace(test.account, "/", ":", 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.hub.sync(name, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD})
		w.hub.bound(name, test.rules)
		w.hub.push(t, name, w.namespace, chart(test.template))
		digest := w.hub.sync(name, &deliveryv1.SyncSpec{Impersonate: test.account})
		report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
			return r.GetDigest() == digest && (r.GetPhase() == failed || r.GetPhase() == healthy)
		})
		if message := report.GetMessage(); (report.GetPhase() == healthy) != (test.want == "") ||
			!strings.Contains(message, test.want) || strings.Contains(message, "hush") {
			t.Errorf("%s: got %s %s\nwant %q", test.template, report.GetPhase(), message, test.want)
		} else if test.want != "" &&
			(!strings.Contains(message, "web/templates/seen.yaml:6:") || !strings.Contains(message, `project "shop"`)) {
			t.Errorf("%s: %s names no project, chart, file and line", test.template, message)
		}
	}
	w.mustData("seen", "hush-"+w.namespace+"-eu")
}
