package object

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// field is one that manifests carry and that a controller of Kubernetes, or an injector, owns.
type field struct {
	group, kind string
	// pointer to the field; * is any element.
	pointer string
	// left says when the field is left out of what is sent: then it is the controller's.
	left func(obj map[string]any, value any) bool
}

// controlled is the table of those fields; docs/applying.md says the same in words. A number of replicas is the other
// such field: it belongs to a HorizontalPodAutoscaler of the service, see Scaled.
var controlled = []field{ //nolint:gochecknoglobals // It never changes.
	{"rbac.authorization.k8s.io", "ClusterRole", "/rules", ifAggregated},
	{"admissionregistration.k8s.io", "MutatingWebhookConfiguration", "/webhooks/*/clientConfig/caBundle", ifEmpty},
	{"admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "/webhooks/*/clientConfig/caBundle", ifEmpty},
	{"apiextensions.k8s.io", "CustomResourceDefinition", "/spec/conversion/webhook/clientConfig/caBundle", ifEmpty},
	{"apiregistration.k8s.io", "APIService", "/spec/caBundle", ifEmpty},
	{"", "Service", "/spec/clusterIP", ifEmpty},
	{"", "Service", "/spec/clusterIPs", ifEmpty},
	{"", "Service", "/spec/ports/*/nodePort", ifEmpty},
	{"", "Service", "/spec/healthCheckNodePort", ifEmpty},
	{"", "PersistentVolumeClaim", "/spec/volumeName", ifEmpty},
	{"", "PersistentVolumeClaim", "/metadata/annotations/pv.kubernetes.io~1bind-completed", always},
	{"", "PersistentVolumeClaim", "/metadata/annotations/pv.kubernetes.io~1bound-by-controller", always},
	{"", "ServiceAccount", "/secrets", ifEmpty},
	{"", "ServiceAccount", "/imagePullSecrets", ifEmpty},
	{"apps", "Deployment", "/metadata/annotations/deployment.kubernetes.io~1revision", always},
	{"apps", "DaemonSet", "/metadata/annotations/deprecated.daemonset.template.generation", always},
}

func always(map[string]any, any) bool { return true }

// ifEmpty: a certificate of nothing but blanks is one, too: it stands where validation wanted some value.
func ifEmpty(_ map[string]any, value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		text, err := base64.StdEncoding.DecodeString(v)
		return v == "" || err == nil && strings.TrimSpace(string(text)) == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		for _, element := range v {
			if !ifEmpty(nil, element) {
				return false
			}
		}
		return true
	}
	return false
}

func ifAggregated(obj map[string]any, _ any) bool {
	selectors, _, _ := unstructured.NestedSlice(obj, "aggregationRule", "clusterRoleSelectors")
	return len(selectors) > 0
}

// LeaveToControllers takes the fields out of a manifest that controllers own.
func LeaveToControllers(obj *unstructured.Unstructured) {
	kind := obj.GroupVersionKind().GroupKind()
	for _, one := range controlled {
		if kind == (schema.GroupKind{Group: one.group, Kind: one.kind}) {
			leave(obj.Object, strings.Split(one.pointer, "/")[1:], func(value any) bool { return one.left(obj.Object, value) })
		}
	}
}

// leave takes out a field below a value. A map that is empty then goes, too: who sends an empty one owns it, and
// loses it to the first who adds to it.
func leave(value any, way []string, left func(any) bool) {
	switch v := value.(type) {
	case map[string]any:
		key := strings.ReplaceAll(strings.ReplaceAll(way[0], "~1", "/"), "~0", "~")
		below, ok := v[key]
		if ok && len(way) == 1 && left(below) {
			delete(v, key)
		} else if ok && len(way) > 1 {
			if leave(below, way[1:], left); isEmpty(below) {
				delete(v, key)
			}
		}
	case []any:
		for _, element := range v {
			if len(way) > 1 {
				leave(element, way[1:], left)
			}
		}
	}
}

func isEmpty(value any) bool {
	fields, ok := value.(map[string]any)
	return ok && len(fields) == 0
}

// IsScaler tells the kind of autoscalers.
func IsScaler(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
}

// Scales is the object of which an autoscaler sets the number of replicas; ok is false for what is no autoscaler.
func Scales(obj *unstructured.Unstructured) (target Key, ok bool) {
	if !IsScaler(obj.GroupVersionKind().GroupKind()) {
		return Key{}, false
	}
	reference, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "scaleTargetRef")
	version, err := schema.ParseGroupVersion(reference["apiVersion"])
	if err != nil {
		return Key{}, false
	}
	return Key{Group: version.Group, Kind: reference["kind"], Namespace: obj.GetNamespace(), Name: reference["name"]}, true
}

// podSpecs are where the kinds of the built-in API have containers.
var podSpecs = map[schema.GroupKind][]string{ //nolint:gochecknoglobals // It never changes.
	{Kind: "Pod"}:                        {"spec"},
	{Kind: "PodTemplate"}:                {"template", "spec"},
	{Kind: "ReplicationController"}:      {"spec", "template", "spec"},
	{Group: "apps", Kind: "Deployment"}:  {"spec", "template", "spec"},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec", "template", "spec"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "template", "spec"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec", "template", "spec"},
	{Group: "batch", Kind: "Job"}:        {"spec", "template", "spec"},
	{Group: "batch", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
}

// LastEnv leaves, of several environment variables of one name, the last one: it is the one that a container gets, and
// server-side apply refuses the others.
func LastEnv(obj *unstructured.Unstructured) {
	way, ok := podSpecs[obj.GroupVersionKind().GroupKind()]
	if !ok {
		return
	}
	var inner any = obj.Object
	for _, key := range way {
		fields, _ := inner.(map[string]any)
		inner = fields[key]
	}
	spec, _ := inner.(map[string]any)
	for _, key := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, _ := spec[key].([]any)
		for _, container := range containers {
			fields, _ := container.(map[string]any)
			if env, ok := fields["env"].([]any); ok {
				fields["env"] = lastOfName(env)
			}
		}
	}
}

func lastOfName(env []any) []any {
	last := map[string]int{}
	for i, variable := range env {
		fields, _ := variable.(map[string]any)
		if name, ok := fields["name"].(string); ok {
			last[name] = i
		}
	}
	left := env[:0]
	for i, variable := range env {
		fields, _ := variable.(map[string]any)
		if name, ok := fields["name"].(string); !ok || last[name] == i {
			left = append(left, variable)
		}
	}
	return left
}
