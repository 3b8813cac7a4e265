package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/registrytest"
)

const (
	fluxConfig  = "application/vnd.cncf.flux.config.v1+json"
	fluxContent = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// TestPushesToARegistryGoLive: a chart that Helm's client pushes and an artifact in Flux' layout run in every cluster,
// new patch versions arrive, and with the registry down values change and rollbacks work all the same.
func TestPushesToARegistryGoLive(t *testing.T) {
	t.Parallel()
	s := newLive(t)
	registry := registrytest.Start(t, "-auth", "basic")
	pushChart := func(version, text string) {
		registry.HelmPush(t, "team/charts/pilot:"+version, charttest.Package("pilot", version, map[string]string{
			"values.yaml":              "greeting: hello\n",
			"templates/namespace.yaml": namespaceManifest("pilot"),
			"templates/config.yaml":    configMap("pilot", text+" {{ .Values.greeting }} {{ .Chart.Version }}"),
			"templates/NOTES.txt":      "The " + text + " pilot says {{ .Values.greeting }}.",
		}))
	}
	pushFolder := func(version, text string) {
		files := map[string]string{
			"deploy/namespace.yaml": namespaceManifest("buoy"), "deploy/config.yaml": configMap("buoy", text),
			"README.md": "not for clusters",
		}
		registry.OrasPush(t, "team/buoy:"+
			version, fluxConfig, registrytest.File{Name: "buoy.tgz", MediaType: fluxContent, Content: tgz(t, files)})
	}
	pushChart("1.0.0", "first")
	pushChart("2.0.0", "out of the range")
	pushFolder("1.0.0", "first")

	apply := func(greeting string) {
		t.Helper()
		var resources strings.Builder
		fmt.Fprintf(&resources, "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: registry-login}\ndata: {username: %q, password: %q, ca.crt: %q}\n", registry.Username, registry.Password, registry.CA)
		fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: registry-charts}\nspec: {helm: {url: \"oci://%s/team/charts\", secret: registry-login}}\n", registry.Host)
		fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: registry-buoy}\nspec: {oci: {url: \"oci://%s/team/buoy\", secret: registry-login}}\n", registry.Host)
		for _, c := range s.Clusters {
			fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: pilot-%s}\nspec: {source: registry-charts, chart: pilot, version: ^1, cluster: %s, namespace: pilot, render: {helm: {values: \"greeting: %s\"}}}\n", c.Name, c.Name, greeting)
			fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: buoy-%s}\nspec: {source: registry-buoy, ref: \"semver:^1\", path: deploy, cluster: %s}\n", c.Name, c.Name)
		}
		s.apply(resources.String())
	}
	apply("world")
	s.runs("pilot", "pilot", "first world 1.0.0")
	s.runs("buoy", "buoy", "first")

	pushChart("1.0.1", "patched")
	pushFolder("1.0.1", "patched")
	s.fairlead("sources", "refresh", "registry-charts")
	s.fairlead("sources", "refresh", "registry-buoy")
	s.runs("pilot", "pilot", "patched world 1.0.1")
	s.runs("buoy", "buoy", "patched")
	traced(s.ctx, t, s.Stack, "pilot-"+s.Clusters[0].Name, "pilot ^1", "pilot 1.0.1 (app 9.9)")
	s.says([]string{"The patched pilot says world."}, "get", "service", "pilot-"+s.Clusters[0].Name, "--notes")

	registry.Stop()
	s.fairlead("sources", "refresh", "registry-charts")
	s.says([]string{registry.Host + ": connection refused"}, "get", "source", "registry-charts")
	apply("harbour")
	s.runs("pilot", "pilot", "patched harbour 1.0.1")
	s.rollBack("buoy")
	s.runs("buoy", "buoy", "first")
}

func namespaceManifest(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

func configMap(name, text string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {text: %q}\n",
		name, name, text)
}

// tgz packs files.
func tgz(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{
			Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg,
		}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	_ = gz.Close()
	return b.Bytes()
}
