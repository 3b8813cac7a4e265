package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

// explored is what the explorer is tried on: pods with logs, a custom resource, and texts that would like to be more
// than text.
const explored = `
apiVersion: v1
kind: Namespace
metadata: {name: explored}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: explored}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: example.com/web}]}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden, namespace: explored, annotations: {kubectl.kubernetes.io/last-applied-configuration: planted-in-an-annotation}}
stringData: {password: planted-in-a-secret}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.explored.example.com}
spec:
  group: explored.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
      additionalPrinterColumns: [{name: Motto, type: string, jsonPath: .spec.motto}]
`

const hostile = `
apiVersion: explored.example.com/v1
kind: Boat
metadata:
  name: hostile
  namespace: explored
  annotations: {note: "</pre><img src=x onerror=window.stolen=1>"}
spec:
  motto: "<script>window.stolen=1</script>\u001b[31mred \u202eturned"
  link: "javascript:window.stolen=1"
---
apiVersion: v1
kind: Event
metadata: {name: hostile, namespace: explored}
involvedObject: {apiVersion: explored.example.com/v1, kind: Boat, name: hostile, namespace: explored}
reason: Hostile
type: Warning
message: "<img src=x onerror=window.stolen=1>\u001b]0;title\u0007"
lastTimestamp: "2026-01-01T00:00:00Z"
source: {component: test}
`

// A person looks at a cluster, reads logs, scales, edits and deletes; a second one, who may only look, is told why the
// rest is not theirs. Hostile text of the cluster is shown as text, and no value of a Secret reaches the browser.
func TestPersonExploresAClusterInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cluster := s.Clusters[1]
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := s.Kubectl(ctx, cluster.Kubeconfig, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	apply := func(text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		kubectl("apply", "--server-side", "--filename", file)
	}
	apply(explored)
	kubectl("wait", "--for=condition=established", "crd/boats.explored.example.com", "--timeout=180s")
	large := fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large, namespace: explored}\ndata: {text: %q}\n", strings.Repeat("0123456789abcdef", 56<<10))
	apply(hostile + large)
	kubectl("create", "clusterrolebinding", "explored-vera", "--clusterrole=view", "--user=vera")
	kubectl("--namespace=explored", "wait", "--for=condition=available", "deployment/web", "--timeout=180s")
	if _, err := s.FairleadStdin(ctx,
		"apiVersion: fairlead.dev/v1\nkind: Grant\nmetadata: {name: explored-vera}\nspec: {role: viewer, subjects: [{user: vera}], clusters: {all: true}}\n", "apply", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, person := range [][]string{{"olga", "--group", "fairlead:admins"}, {"vera"}} {
		link, err := s.Fairlead(ctx, append([]string{"admin", "login-link"}, person...)...)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, strings.TrimSpace(link))
	}
	inChromium(ctx, t, "explore.mjs", func(event string) error {
		switch verb, name, _ := strings.Cut(event, " "); verb {
		case "create":
			_, err := s.Kubectl(ctx, cluster.Kubeconfig, "--namespace=explored", "create", "configmap", name)
			return err
		case "replicas": // as the cluster has them
			return process.Await(ctx, "the deployment has "+name+" replicas", func(ctx context.Context) error {
				got, err := s.Kubectl(ctx, cluster.Kubeconfig, "--namespace=explored", "get", "deployment", "web",
					"--output=jsonpath={.spec.replicas}{.metadata.labels.tier}")
				if err == nil && got != name {
					err = fmt.Errorf("it has %q", got)
				}
				return err
			})
		default:
			return fmt.Errorf("the script says %q", event)
		}
	}, links[0], links[1], cluster.Name, os.Getenv("SHOTS"))
}
