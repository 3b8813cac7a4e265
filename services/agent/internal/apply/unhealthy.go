package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// HasReasons tells the kinds whose objects may be asked why they are not healthy.
func HasReasons(kind schema.GroupKind) bool {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
		schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{
			Group: "batch",
			Kind:  "Job",
		}, schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return true
	}
	return false
}

// Unhealthy says why an object is not healthy: by its pods, of which the newest that is in trouble counts, or by the
// events; "" if they say nothing, or may not be read. Output of containers is left out of it, since that may be a
// secret.
func (a *Applier) Unhealthy(ctx context.Context, ref object.Ref) string {
	obj, err := a.api.Get(ctx, ref)
	if err != nil {
		return ""
	}
	var text string
	switch ref.Kind {
	case "Pod":
		text = a.unhealthyPod(ctx, obj)
	case "PersistentVolumeClaim":
		text = a.latestComplaint(ctx, ref.Namespace, string(obj.GetUID()))
	default:
		text = a.unhealthyPods(ctx, obj)
	}
	return shortenWords(text)
}

// whyUnhealthy says in words that follow others why an object that is waited for is not healthy, as it was found out
// last.
func (a *Applier) whyUnhealthy(ctx context.Context, p *Progress, item set.Item) string {
	if !HasReasons(item.GVK().GroupKind()) || a.now().Sub(p.since) < whyAfter {
		return ""
	}
	p.mu.Lock()
	known := p.reasons[item.Run()]
	p.mu.Unlock()
	if a.now().Sub(known.at) >= whyAgain {
		known = reason{text: a.Unhealthy(ctx, item.Ref), at: a.now()}
		p.mu.Lock()
		p.reasons[item.Run()] = known
		p.mu.Unlock()
	}
	if known.text == "" {
		return ""
	}
	return " (" + known.text + ")"
}

func (a *Applier) unhealthyPods(ctx context.Context, owner *unstructured.Unstructured) string {
	selector, err := selectorOf(owner)
	if err != nil {
		return ""
	}
	pods, err := a.api.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, owner.GetNamespace(),
		metav1.ListOptions{LabelSelector: selector, Limit: mostPods})
	if err != nil {
		return ""
	}
	slices.SortFunc(pods, func(a, b *unstructured.Unstructured) int { // the newest first; those of one second by name, so that the reason does not flicker
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	asked := 0
	for _, pod := range pods {
		if object.ConditionOf(pod, "Ready").IsTrue() || pod.GetDeletionTimestamp() != nil {
			continue
		}
		if asked++; asked > 3 { // the others most likely have the same trouble
			break
		}
		if text := a.unhealthyPod(ctx, pod); text != "" {
			return "pod " + withoutHash(owner, pod.GetName()) + ": " + text
		}
	}
	return a.latestComplaint(ctx, owner.GetNamespace(), string(owner.GetUID()))
}

// withoutHash is the name of a pod without what is another one after every restart where there is an owner's name to
// begin with, so that the same trouble is told in the same words.
func withoutHash(owner *unstructured.Unstructured, pod string) string {
	switch owner.GetKind() {
	case "Deployment", "ReplicaSet", "DaemonSet", "Job":
		if strings.HasPrefix(pod, owner.GetName()+"-") {
			return owner.GetName() + "-*"
		}
	}
	return pod
}

// selectorOf is what the pods of a workload are selected by.
func selectorOf(owner *unstructured.Unstructured) (string, error) {
	var selector metav1.LabelSelector
	labels, _, err := unstructured.NestedStringMap(owner.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return "", err
	}
	selector.MatchLabels = labels
	expressions, _, err := unstructured.NestedSlice(owner.Object, "spec", "selector", "matchExpressions")
	if err != nil {
		return "", err
	}
	for _, one := range expressions {
		fields, _ := one.(map[string]any)
		key, _, _ := unstructured.NestedString(fields, "key")
		operator, _, _ := unstructured.NestedString(fields, "operator")
		values, _, _ := unstructured.NestedStringSlice(fields, "values")
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values})
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || parsed.Empty() {
		return "", fmt.Errorf("%s selects no pods", owner.GetName())
	}
	return parsed.String(), nil
}

// unhealthyPod is why a pod is not ready, in words of Kubernetes' own parts.
func (a *Applier) unhealthyPod(ctx context.Context, pod *unstructured.Unstructured) string {
	pod = pod.DeepCopy()
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, one := range statuses {
			status, _ := one.(map[string]any)
			unstructured.RemoveNestedField(status, "state", "terminated", "message")
			unstructured.RemoveNestedField(status, "lastState", "terminated", "message")
		}
		if len(statuses) > 0 {
			_ = unstructured.SetNestedSlice(pod.Object, statuses, "status", field) // as it was read
		}
	}
	return cmp.Or(podTrouble(pod), a.latestComplaint(ctx, pod.GetNamespace(), string(pod.GetUID())))
}

// latestComplaint is the latest that events say about an object, without the output of probes.
func (a *Applier) latestComplaint(ctx context.Context, namespace, uid string) string {
	events := a.listEvents(ctx, namespace, uid, "type=Warning")
	if len(events) == 0 {
		return ""
	}
	last := slices.MaxFunc(events, func(a, b *unstructured.Unstructured) int { return cmp.Compare(eventTime(a), eventTime(b)) })
	message, _ := last.Object["message"].(string)
	if last.Object["reason"] == "Unhealthy" {
		message, _, _ = strings.Cut(message, ":")
	}
	return joinParts(last.Object["reason"], message)
}
