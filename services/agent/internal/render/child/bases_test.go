package child_test

import (
	"maps"
	"path"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/remotebase"
)

// placeOf is where the artifact has a base.
func placeOf(t *testing.T, text string) string {
	t.Helper()
	base, isRemote, err := remotebase.Parse(text)
	if err != nil || !isRemote {
		t.Fatalf("%s: %t, %v", text, isRemote, err)
	}
	return base.Place()
}

const (
	remoteBase = "https://github.com/org/repo//deploy/base?ref=v1"
	remotePart = "git@git.example.com:org/parts.git//tls?ref=main"
)

// withBases are files with what the hub puts beside them: a base that has a component of a third repository.
func withBases(t *testing.T, files map[string]string) map[string]string {
	t.Helper()
	at, part := placeOf(t, remoteBase), placeOf(t, remotePart)
	all := map[string]string{
		at + "/kustomization.yaml": "resources: [a.yaml, ../shared]\ncomponents: ['" +
			remotePart + "']\n",
		at + "/a.yaml": configMap("a", "x"),
		path.Dir(at) + "/shared/kustomization.yaml": "resources: [b.yaml]\n",
		path.Dir(at) + "/shared/b.yaml":             configMap("b", "x"),
		part + "/kustomization.yaml":                "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnameSuffix: -tls\n",
	}
	maps.Copy(all, files)
	return all
}

// TestBasesOfOtherRepositoriesAreThoseOfTheArtifact, however they are written.
func TestBasesOfOtherRepositoriesAreThoseOfTheArtifact(t *testing.T) {
	t.Parallel()
	for name, kustomization := range map[string]string{
		"plain":          "namePrefix: dev-\nresources:\n- " + remoteBase + "\n- own.yaml\n",
		"quoted":         "namePrefix: dev-\nresources: [\"" + remoteBase + "\", 'own.yaml']\n",
		"beside others":  "# über\nnamePrefix: dev-\nresources: [own.yaml, '" + remoteBase + "'] # " + remoteBase + "\n",
		"without scheme": "namePrefix: dev-\nbases:\n- github.com/org/repo/deploy/base?version=v1\nresources: [own.yaml]\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, root := range []string{"", "overlays/dev"} {
				prefix := strings.TrimPrefix(root+"/", "/")
				got, err := run(t, &deliveryv1.RenderSpec{Path: root}, withBases(t, map[string]string{
					prefix + "kustomization.yaml": kustomization, prefix + "own.yaml": configMap("own", "x"),
				}), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{"ConfigMap dev-a-tls", "ConfigMap dev-b-tls", "ConfigMap dev-own"} {
					if got[want] == "" || len(got) != 3 {
						t.Errorf("at %q: %v has no %s", root, got, want)
					}
				}
			}
		})
	}
}

// A base that the hub did not bring is refused with its line, also where others came.
func TestABaseThatIsNotInTheArtifactIsRefused(t *testing.T) {
	t.Parallel()
	other := strings.ReplaceAll(remoteBase, "v1", "v2")
	for text, want := range map[string]string{
		"resources:\n- " + remoteBase + "\n- " + other + "\n": `apps/kustomization.yaml, line 3: "` + other + `" is not in the service's folder, and nothing is fetched. Allow its host`,
		"x: &x " + other + "\nresources:\n- *x\n":             "nothing is fetched. Allow its host",
		"x: &x " + remoteBase + "\nresources:\n- *x\n":        "nothing is fetched. Write it on one line",
		"resources:\n- &x " + remoteBase + "\n":               "nothing is fetched. Write it on one line",
		"resources:\n- https://example.com/app.yaml\n":        "nothing is fetched. Copy it into the folder",
		"x: &x ['" + other + "']\nresources: *x\n":            "nothing is fetched. Allow its host",
		"patches:\n- path: https://github.com/org/repo/a/b\n": "nothing is fetched. Copy it into the folder",
	} {
		refuses(t, nil, withBases(t, map[string]string{"kustomization.yaml": text}), want)
	}
}
