package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/registrytest"
)

const (
	fluxConfig  = "application/vnd.cncf.flux.config.v1+json"
	fluxContent = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// TestPushesToARegistryGoLive: a chart that Helm's client pushes and an artifact in Flux' layout run in every cluster, new patch versions
// arrive, and with the registry down values change and rollbacks work all the same.
func TestPushesToARegistryGoLive(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
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
		files := map[string]string{"deploy/namespace.yaml": namespaceManifest("buoy"), "deploy/config.yaml": configMap("buoy", text), "README.md": "not for clusters"}
		registry.OrasPush(t, "team/buoy:"+version, fluxConfig, registrytest.File{Name: "buoy.tgz", MediaType: fluxContent, Content: tgz(t, files)})
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
		if out, err := s.FairleadStdin(ctx, resources.String(), "apply", "-f", "-"); err != nil {
			t.Fatalf("apply: %v\n%s", err, out)
		}
	}
	fairlead := func(args ...string) {
		t.Helper()
		if out, err := s.Fairlead(ctx, args...); err != nil {
			t.Fatalf("fairlead %v: %v\n%s", args, err, out)
		}
	}
	runs := func(name, want string) {
		t.Helper()
		for _, c := range s.Clusters {
			err := process.Await(ctx, want+" runs in "+c.Name, func(ctx context.Context) error {
				got, err := s.Kubectl(ctx, c.Kubeconfig, "get", "configmap", name, "-n", name, "-o", "jsonpath={.data.text}")
				if err == nil && got != want {
					err = fmt.Errorf("it is %q", got)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	apply("world")
	runs("pilot", "first world 1.0.0")
	runs("buoy", "first")

	pushChart("1.0.1", "patched")
	pushFolder("1.0.1", "patched")
	fairlead("sources", "refresh", "registry-charts")
	fairlead("sources", "refresh", "registry-buoy")
	runs("pilot", "patched world 1.0.1")
	runs("buoy", "patched")
	traced(ctx, t, s, "pilot-"+s.Clusters[0].Name, "pilot ^1", "pilot 1.0.1 (app 9.9)")
	awaitSays(ctx, t, s, "The patched pilot says world.", "get", "service", "pilot-"+s.Clusters[0].Name, "--notes")

	registry.Stop()
	fairlead("sources", "refresh", "registry-charts")
	awaitSays(ctx, t, s, registry.Host+": connection refused", "get", "source", "registry-charts")
	apply("harbour")
	runs("pilot", "patched harbour 1.0.1")
	for _, c := range s.Clusters {
		fairlead("rollback", "service", "buoy-"+c.Name, "--reason", "a test")
	}
	runs("buoy", "first")
}

// awaitSays repeats a command of the CLI until it prints a text.
func awaitSays(ctx context.Context, t *testing.T, s *stack.Stack, want string, args ...string) {
	t.Helper()
	err := process.Await(ctx, fmt.Sprintf("fairlead %v says %q", args, want), func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, args...)
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func namespaceManifest(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

func configMap(name, text string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {text: %q}\n", name, name, text)
}

// tgz packs files.
func tgz(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	_ = gz.Close()
	return b.Bytes()
}
