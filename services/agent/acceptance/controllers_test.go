package acceptance

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

// nested reads a field of an object without a namespace of its own, or of the test's.
func (w *world) nested(apiVersion, kind, namespace, name string, fields ...string) string {
	w.t.Helper()
	obj, err := w.get(apiVersion, kind, namespace, name)
	if err != nil {
		return err.Error()
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, fields...)
	return fmt.Sprint(value)
}

// secondPass pushes another revision of the same objects, and names what was sent for it. The agent lists its
// inventories again whenever the watch of them ends, which is not for the revision.
func (w *world) secondPass(name string, files map[string]string) {
	w.t.Helper()
	w.forget()
	files["README.md"] += "# Another revision of the same objects\n"
	w.hub.awaitPhase(w.t, name, w.hub.push(w.t, name, w.namespace, files), healthy)
	const inventories = "/api/v1/namespaces/fairlead-system/configmaps"
	for _, line := range w.api.since(0) {
		written, _ := path.Match("PUT "+inventories+"/inventory.*", line)
		if !written && line != "GET "+inventories {
			w.t.Errorf("the second pass sent %s", line)
		}
	}
}

const controlledFields = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME-all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {NAME: "yes"}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME-part, labels: {NAME: "yes"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Service
metadata: {name: svc}
spec: {type: NodePort, clusterIP: "", healthCheckNodePort: 0, selector: {app: web}, ports: [{name: http, port: 80, nodePort: 0}, {name: https, port: 443, nodePort: null}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: account}
secrets: []
imagePullSecrets: []
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec: {capacity: {storage: 1Mi}, accessModes: [ReadWriteOnce], storageClassName: NAME, hostPath: {path: /tmp/NAME}, persistentVolumeReclaimPolicy: Retain}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, annotations: {pv.kubernetes.io/bind-completed: "no"}}
spec: {volumeName: "", storageClassName: NAME, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {deployment.kubernetes.io/revision: "7"}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: pause, env: [{name: A, value: first}, {name: B, value: b}, {name: A, value: last}]}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: NAME}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://127.0.0.1:1/", caBundle: ""}
  rules: [{apiGroups: [NAME.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAME}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://127.0.0.1:1/", caBundle: Cg==}
  rules: [{apiGroups: [NAME.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

const convertedKind = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tugs.NAME.example.com}
spec:
  group: NAME.example.com
  scope: Namespaced
  names: {kind: Tug, plural: tugs}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/", caBundle: ""}}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// The cluster's controllers, and injectors of certificates, write fields that manifests carry as well.
func TestFieldsOfControllersAreLeftToThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() {
		for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "pv"} {
			_, _ = kube.Cluster(t).Kubectl(context.WithoutCancel(t.Context()), "", "delete", kind, w.namespace,
				"--wait=false")
		}
	})
	w.start()
	name := w.service("hello")
	files := map[string]string{
		"a.yaml":   strings.ReplaceAll(controlledFields, "NAME", w.namespace),
		"crd.yaml": strings.ReplaceAll(convertedKind, "NAME", w.namespace),
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	role := func() string {
		return w.nested("rbac.authorization.k8s.io/v1", "ClusterRole", "", w.namespace+"-all", "rules")
	}
	await.True(w.t, "the controller has aggregated the rules", func() bool { return strings.Contains(role(), "pods") })
	await.True(w.t, "the claim is bound", func() bool {
		return w.nested("v1", "PersistentVolumeClaim", w.namespace, "claim", "spec", "volumeName") == w.namespace
	})
	injector := httptest.NewTLSServer(nil)
	t.Cleanup(injector.Close)
	certificate := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: injector.Certificate().Raw,
	}))
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		w.kubectl("patch", kind, w.namespace, "--type=json", "--field-manager=injector",
			`-p=[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+certificate+`"}]`)
	}
	w.kubectl("patch", "crd", "tugs."+w.namespace+".example.com", "--type=json", "--field-manager=injector",
		`-p=[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":"`+certificate+`"}]`)
	w.kubectl("patch", "serviceaccount", "account", "--type=merge", "--field-manager=registry",
		`-p={"secrets":[{"name":"token"}],"imagePullSecrets":[{"name":"pull"}]}`)
	w.secondPass(name, files)

	// Another revision of each object changes none of them either.
	files["a.yaml"] = strings.NewReplacer("metadata: {name: ", "metadata: {labels: {tier: gold}, name: ",
		", labels: {"+w.namespace+": \"yes\"}", "").Replace(files["a.yaml"])
	files["a.yaml"] = strings.Replace(files["a.yaml"], "labels: {tier: gold}, name: "+w.namespace+"-part",
		"labels: {tier: gold, "+w.namespace+": \"yes\"}, name: "+w.namespace+"-part", 1)
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	for what, got := range map[string]string{
		"rules":            role(),
		"clusterIP":        w.nested("v1", "Service", w.namespace, "svc", "spec", "clusterIP"),
		"secrets":          w.nested("v1", "ServiceAccount", w.namespace, "account", "secrets"),
		"imagePullSecrets": w.nested("v1", "ServiceAccount", w.namespace, "account", "imagePullSecrets"),
		"volumeName":       w.nested("v1", "PersistentVolumeClaim", w.namespace, "claim", "spec", "volumeName"),
		"mutating caBundle": w.nested("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "",
			w.namespace, "webhooks"),
		"validating caBundle": w.nested("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "",
			w.namespace, "webhooks"),
		"conversion caBundle": w.nested("apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
			"tugs."+w.namespace+".example.com", "spec", "conversion"),
		"deployment.kubernetes": w.nested("apps/v1", "Deployment", w.namespace, "web", "metadata", "annotations"),
		"env": w.nested("apps/v1", "Deployment", w.namespace, "web", "spec", "template", "spec",
			"containers"),
	} {
		want := map[string]string{
			"rules": "pods", "clusterIP": "10.", "secrets": "token", "imagePullSecrets": "pull",
			"volumeName": w.namespace, "mutating caBundle": certificate,
			"validating caBundle": certificate, "conversion caBundle": certificate,
			"deployment.kubernetes": "revision:1", "env": "[map[name:B value:b] map[name:A value:last]]",
		}[what]
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
}

// An autoscaler below its minimum scales without any metrics.
func TestReplicasThatAnAutoscalerSetsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	const scaler = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: MIN, maxReplicas: 9}
`
	replicas := func() string { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") }
	// The number leaves the manifest in the moment when an autoscaler comes: it stays as it is.
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"web.yaml": strings.ReplaceAll(webDeployment, "replicas: 2", "replicas: 3"),
		}), healthy)
	without := strings.ReplaceAll(webDeployment, "replicas: 2, ", "")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"web.yaml": without, "scaler.yaml": strings.ReplaceAll(scaler, "MIN", "3"),
	})
	applied := func(digest string) func(*deliveryv1.ServiceReport) bool {
		return func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest }
	}
	w.hub.await(t, name, applied(digest))
	if replicas() != "3" {
		t.Errorf("without a number in the manifest there are %s", replicas())
	}
	// A number in the manifest is for the first time only.
	digest = w.hub.push(t, name, w.namespace, map[string]string{
		"web.yaml": webDeployment, "scaler.yaml": strings.ReplaceAll(scaler, "MIN", "5"),
	})
	w.hub.await(t, name, applied(digest))
	await.True(w.t, "the autoscaler has scaled", func() bool { return replicas() == "5" })
	before := w.api.patches("/deployments/web")
	digest = w.hub.push(t, name, w.namespace, map[string]string{
		"web.yaml":    strings.ReplaceAll(webDeployment, "image: pause", "image: other"),
		"scaler.yaml": strings.ReplaceAll(scaler, "MIN", "5"),
	})
	w.hub.await(t, name, applied(digest))
	// the apply, and the field is given up
	if patches := w.api.patches("/deployments/web") - before; replicas() != "5" || patches > 2 {
		t.Errorf("there are %s after %d patches", replicas(), patches)
	}
}

// The autoscaler takes over the number that the service had until then, or sent for the first time: nothing is put
// right for that.
func TestAutoscalerThatTakesOverIsNoDrift(t *testing.T) {
	t.Parallel()
	const scaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n" +
		"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 5, maxReplicas: 9}\n"
	for name, revisions := range map[string][]string{
		"switched on":        {webDeployment, strings.ReplaceAll(webDeployment, "replicas: 2, ", "") + scaler},
		"with a number":      {webDeployment, webDeployment + scaler},
		"from the beginning": {webDeployment + scaler},
		"changed while it runs": {
			webDeployment + scaler, strings.ReplaceAll(webDeployment, "image: pause", "image: other") + scaler,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			name := w.service("hello")
			for _, text := range revisions {
				digest := w.hub.push(t, name, w.namespace, map[string]string{
					"web.yaml": text, "a.yaml": configMap("a", "1"),
				})
				w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
			}
			await.True(w.t, "the autoscaler has scaled",
				func() bool { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") == "5" })
			kubectl(w, "", "patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`)
			report := w.hub.await(t, name,
				func(r *deliveryv1.ServiceReport) bool { return r.GetRepaired().GetName() == "a" })
			if report.GetRepairs() != 1 {
				t.Errorf("%d repairs were made, want that of the ConfigMap", report.GetRepairs())
			}
		})
	}
}

// The same when it has scaled before the agent could give up the number: the patch that gives it up is of a version
// that is gone.
func TestAutoscalerThatIsFasterIsNoDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scale := sync.OnceFunc(func() { kubectl(w, "", "scale", "deployment/web", "--replicas=5") })
	w.api.set(func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, w.namespace+"/deployments/web") &&
			r.Header.Get("Content-Type") == "application/json-patch+json" {
			scale()
		}
		return 0
	})
	w.start()
	name := w.service("hello")
	const scaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n" +
		"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 5, maxReplicas: 9}\n"
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"web.yaml": webDeployment + scaler, "a.yaml": configMap("a", "1"),
	})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
	kubectl(w, "", "patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetRepaired().GetName() == "a" })
	if got := w.field("apps/v1", "Deployment", "web", "spec", "replicas"); report.GetRepairs() != 1 || got != "5" {
		t.Errorf("%d repairs were made, want that of the ConfigMap; there are %s replicas", report.GetRepairs(), got)
	}
}

func TestPortsOfOneKeyAreNamedWithTheirContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	bad := strings.ReplaceAll(webDeployment, "image: pause",
		"image: pause, ports: [{name: a, containerPort: 80}, {name: b, containerPort: 80}]")
	report := w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"web.yaml": bad}), failed)
	for _, want := range []string{`containers[name="c"].ports`, `containerPort=80`, `protocol="TCP"`} {
		if !strings.Contains(report.GetMessage(), want) {
			t.Errorf("%s does not name %s", report.GetMessage(), want)
		}
	}
}

// The controller makes an aggregated role anew that it does not know to be gone when it hears of a part that went.
func TestAggregatedRolesGoBeforeTheirParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("roles")
	var text strings.Builder
	for _, part := range []string{"a", "b", "c", "d", "e"} {
		fmt.Fprintf(&text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %[1]s-%[2]s, labels: {%[1]s: \"yes\"}}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n---\n", w.namespace, part)
	}
	fmt.Fprintf(&text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %[1]s-z}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {%[1]s: \"yes\"}}]}\nrules: []\n", w.namespace)
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"roles.yaml": text.String()}), healthy)
	w.forget()
	w.hub.remove(name)
	var deleted []string
	await.True(w.t, "all roles are deleted", func() bool {
		deleted = slices.DeleteFunc(w.api.since(0), func(line string) bool {
			return !strings.HasPrefix(line, "DELETE ") || !strings.Contains(line, "/clusterroles/")
		})
		return len(deleted) == 6
	})
	if !strings.HasSuffix(deleted[0], w.namespace+"-z") {
		t.Errorf("the aggregated role does not go first: %v", deleted)
	}
}
