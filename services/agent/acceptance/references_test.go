package acceptance

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

// loginSecret is a manifest of one for kubectl.
func loginSecret(key, text string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ndata: {%s: %s}\n", key,
		base64.StdEncoding.EncodeToString([]byte(text)))
}

// Users of Flux put values into ConfigMaps and Secrets beside the release.
func TestValuesComeFromTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("chart")
	apply := func(text string) { t.Helper(); kubectl(w, text, "-n", w.namespace, "apply", "-f", "-") }
	settings := func(text string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {values.yaml: \"" + text + "\"}\n"
	}
	files := map[string]string{
		"Chart.yaml": chartOnly, "values.yaml": "a: chart\nb: chart\nc: chart\nd: chart\ne: chart\n",
		"prod.yaml": "b: file\nc: file\nd: file\n",
		"templates/a.yaml": configMap("all",
			"{{ .Values.a }}-{{ .Values.b }}-{{ .Values.c }}-{{ .Values.d }}-{{ .Values.e.f }}"),
	}
	w.hub.renders(name, &deliveryv1.HelmSpec{
		ValuesFiles: []string{"prod.yaml"}, Values: "d: inline\n",
		ValuesFrom: []*deliveryv1.ValuesReference{
			{Kind: "ConfigMap", Name: "settings"},
			{Kind: "Secret", Name: "nothing", Optional: true},
			{Kind: "Secret", Name: "login", Key: "password", TargetPath: "e.f"},
		},
	})
	apply(settings("c: map"))
	digest := w.hub.push(t, name, w.namespace, files)
	report := w.hub.awaitPhase(t, name, digest, failed)
	if want := "Secret " + w.namespace + "/login does not exist"; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %q, want %q", report.GetMessage(), want)
	}
	apply(loginSecret("password", "opensesame,x=1"))
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustData("all", "chart-file-map-inline-opensesame,x=1")
	// Every change is rendered.
	apply(settings("c: other"))
	await.True(w.t, "it has the other value",
		func() bool { return w.value("all") == "chart-file-other-inline-opensesame,x=1" })
	kubectl(w, "", "-n", w.namespace, "delete", "configmap", "settings")
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed &&
			strings.Contains(r.GetMessage(), "ConfigMap "+w.namespace+"/settings does not exist")
	})
	w.mustData("all", "chart-file-other-inline-opensesame,x=1")
	apply(settings("c: third"))
	await.True(w.t, "it has the third value",
		func() bool { return w.value("all") == "chart-file-third-inline-opensesame,x=1" })
	w.hub.awaitPhase(t, name, digest, healthy)
	// A restart renders nothing, and sees what changed meanwhile.
	stop()
	apply(loginSecret("password", "closesesame"))
	w.start()
	await.True(w.t, "it has the new password",
		func() bool { return w.value("all") == "chart-file-third-inline-closesesame" })
	w.hub.awaitPhase(t, name, digest, healthy)
}

// A Secret's values are shown nowhere, and a project bounds what is read.
func TestValuesOfSecretsAreMaskedAndBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("chart")
	w.hub.renders(name, &deliveryv1.HelmSpec{
		ValuesFrom: []*deliveryv1.ValuesReference{{Kind: "Secret", Name: "login", Key: "values"}},
	})
	kubectl(w, loginSecret("values", "deep: {password: opensesame}\n"), "-n", w.namespace, "apply", "-f", "-")
	files := map[string]string{
		"Chart.yaml": chartOnly, "templates/a.yaml": `{{ fail (printf "bad %s" .Values.deep.password) }}`,
	}
	digest := w.hub.push(t, name, w.namespace, files)
	if report := w.hub.awaitPhase(t, name, digest, failed); strings.Contains(report.GetMessage(), "opensesame") ||
		!strings.Contains(report.GetMessage(), "bad ***") {
		t.Errorf("got %q", report.GetMessage())
	}
	// Other values fix what was wrong with the values.
	kubectl(w, loginSecret("values",
		"deep: {password: opensesame, mended: true}\n"), "-n", w.namespace, "apply", "-f", "-")
	files["templates/a.yaml"] = `{{ if not .Values.deep.mended }}{{ fail "not yet" }}{{ end }}` + configMap("all", "1")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	kubectl(w, loginSecret("values", "deep: {password: opensesame, mended: false}\n"), "-n", w.namespace, "apply",
		"-f", "-")
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed && strings.Contains(r.GetMessage(), "not yet")
	})
	kubectl(w, loginSecret("values",
		"deep: {password: opensesame, mended: true}\n"), "-n", w.namespace, "apply", "-f", "-")
	await.True(w.t, "it is healthy again", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		all := w.hub.reports[name]
		return all[len(all)-1].GetPhase() == healthy
	})
	// A quote of the API server is masked, too, after a restart that renders nothing.
	files["templates/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: all}\ndata: {x: ok}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: {{ .Values.deep.password }}, ports: [{port: 80}]}\n"
	digest = w.hub.push(t, name, w.namespace, files)
	quoted := func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && r.GetPhase() == failed && strings.Contains(r.GetMessage(), "***")
	}
	if report := w.hub.await(t, name, quoted); strings.Contains(fmt.Sprint(report), "opensesame") {
		t.Errorf("got %v", report)
	}
	stop()
	w.start()
	w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_AUTO, "again"))
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed && r.GetDigest() != digest
	})
	w.hub.mu.Lock()
	if text := fmt.Sprint(w.hub.reports[name]); strings.Contains(text, "opensesame") {
		t.Errorf("reports: %s", text)
	}
	w.hub.mu.Unlock()
	// The project decides before the cluster is asked.
	for _, rules := range []*deliveryv1.ObjectRules{
		{Project: "shop", DeniedKinds: []string{"Secret"}}, {Project: "shop", Namespaces: []string{"other"}},
	} {
		digest = w.hub.bound(name, rules)
		report := w.hub.awaitPhase(t, name, digest, failed)
		if !strings.Contains(report.GetMessage(), `project "shop" does not allow`) ||
			!strings.Contains(report.GetMessage(), "valuesFrom") {
			t.Errorf("got %q", report.GetMessage())
		}
	}
	// So does the account that the service names.
	w.kubectl("create", "serviceaccount", "deployer")
	w.hub.bound(name, nil)
	digest = w.hub.sync(name, &deliveryv1.SyncSpec{Impersonate: w.namespace + "/deployer"})
	report := w.hub.awaitPhase(t, name, digest, failed)
	if !strings.Contains(report.GetMessage(), "system:serviceaccount:"+w.namespace+":deployer") ||
		!strings.Contains(report.GetMessage(), "secrets") {
		t.Errorf("got %q", report.GetMessage())
	}
}
