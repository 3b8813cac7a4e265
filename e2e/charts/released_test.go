package charts_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/registrytest"
)

// The charts of a release's bundle, mirrored to a registry, are had and rendered by oci:// as docs/operate/release.md
// says: they make what the charts of the tree make, with the release's version and images.
func TestReleasedChartsComeFromARegistry(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if _, err := process.Run(t.Context(), []string{"GOWORK=off"}, "", "go", "-C", "../../tools/images", "run", ".",
		"release", "-try", "-charts", "-root", "../..", "-out", out); err != nil {
		t.Fatal(err)
	}
	bundles, err := filepath.Glob(filepath.Join(out, "*", "fairlead-bundle-*.tar"))
	if err != nil || len(bundles) != 1 {
		t.Fatalf("the release has the bundles %v, %v", bundles, err)
	}
	version := filepath.Base(filepath.Dir(bundles[0]))

	r := registrytest.Start(t, "-auth", "basic")
	ca, mirror := filepath.Join(t.TempDir(), "ca.crt"), r.Host+"/mirror/fairlead"
	if err := os.WriteFile(ca, []byte(r.CA), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Run(t.Context(), nil, r.Password, filepath.Join(bins.Dir, "fairlead"), "images", "mirror",
		bundles[0], mirror,
		"--ca-file", ca, "--username", r.Username, "--password-stdin"); err != nil {
		t.Fatal(err)
	}
	for folder, c := range map[string]struct{ values, images string }{
		"hub":   {"values-ha.yaml", "image: {registry: " + mirror + "}"},
		"agent": {"values-base.yaml", "image: {repository: " + mirror + "/agent}"},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			values := valuesOf(t, filepath.Join("../../deploy/kustomize", folder, c.values), c.images)
			got := templated(t, r, "oci://"+mirror+"/charts/fairlead-"+folder, version, values)
			if want := templated(t, r, filepath.Join("../../deploy/charts", folder), version, values); got != want {
				t.Errorf("the chart of the registry renders\n%s\nthat of the tree\n%s", got, want)
			}
			images := regexp.MustCompile(`(?m)image: "?([^"\s]+)"?$`).FindAllStringSubmatch(got, -1)
			if len(images) == 0 {
				t.Errorf("no image in\n%s", got)
			}
			for _, image := range images {
				if !strings.HasPrefix(image[1], mirror+"/") || !strings.HasSuffix(image[1], ":"+version) {
					t.Errorf("the chart wants the image %s", image[1])
				}
			}
		})
	}
}

// valuesOf reads a file, and adds more to it.
func valuesOf(t *testing.T, file, more string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(append(text, more...), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// templated is what `helm template` prints for a chart: a folder, or oci:// with the credentials of the registry.
func templated(t *testing.T, r *registrytest.Registry, name, version string, values map[string]any) string {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client, err := helmregistry.NewClient(helmregistry.ClientOptHTTPClient(&http.Client{Transport: transport}),
		helmregistry.ClientOptBasicAuth(r.Username, r.Password), helmregistry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	settings, dir := cli.New(), t.TempDir()
	settings.RepositoryCache, settings.ContentCache, settings.PluginsDirectory = filepath.Join(dir,
		"repository"), filepath.Join(dir, "content"), filepath.Join(dir, "plugins")

	install := action.NewInstall(action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)))
	install.SetRegistryClient(client)
	install.DryRunStrategy, install.Replace, install.Version = action.DryRunClient, true, version
	install.ReleaseName, install.Namespace = "fairlead", "fairlead"
	// the library's own is older than charts take
	if install.KubeVersion, err = common.ParseKubeVersion("v1.36.3"); err != nil {
		t.Fatal(err)
	}
	at, err := install.LocateChart(name, settings)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.Load(at)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(name, "oci:") {
		checkVersion(t, loaded.Metadata, version)
	} else {
		loaded.Metadata.Version, loaded.Metadata.AppVersion = version, version // which a release sets
	}
	made, err := install.RunWithContext(t.Context(), loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	release, ok := made.(*helmrelease.Release)
	if !ok {
		t.Fatalf("Helm makes a %T", made)
	}
	text := release.Manifest
	for _, hook := range release.Hooks {
		text += "---\n# Source: " + hook.Path + "\n" + hook.Manifest + "\n"
	}
	return text
}

func checkVersion(t *testing.T, about *chart.Metadata, version string) {
	t.Helper()
	if about.Version != version || about.AppVersion != version {
		t.Errorf("%s has version %s and appVersion %s, want %s", about.Name, about.Version, about.AppVersion, version)
	}
}
