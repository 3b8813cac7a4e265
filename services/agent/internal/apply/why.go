package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

const (
	// whyAfter is how long a hook runs before its pods and events are asked why it has not ended; whyAgain is between
	// two questions.
	whyAfter, whyAgain = 3 * time.Second, 10 * time.Second
	// mostPods and mostEvents bound what is read to find a reason.
	mostPods, mostEvents = 20, 50
	// maxWhyBytes bounds a reason.
	maxWhyBytes = 400
)

// reason is why a hook had not ended, and when that was found out.
type reason struct {
	text string
	at   time.Time
}

// whyNot says in words that follow others why a hook has not ended well: what its pods or events say; "" if they say
// nothing, or may not be read. now: it is asked whatever was found out before.
func (a *Applier) whyNot(ctx context.Context, r Request, p *Progress, item set.Item, now bool) string {
	if !runsToCompletion(item) || !now && a.now().Sub(p.since) < whyAfter {
		return ""
	}
	p.mu.Lock()
	known, uid := p.reasons[item.Run()], p.made[item.Run()]
	p.mu.Unlock()
	if now || a.now().Sub(known.at) >= whyAgain {
		known = reason{text: shortenWords(r.maskText(a.explainHook(ctx, item, string(uid)))), at: a.now()}
		p.mu.Lock()
		p.reasons[item.Run()] = known
		p.mu.Unlock()
	}
	if known.text == "" {
		return ""
	}
	return " (" + known.text + ")"
}

// maskText is what an object of the service says, without secrets: a container may write anything into the message that
// it ends with.
func (r Request) maskText(text string) string {
	if r.Mask == nil || text == "" {
		return text
	}
	return r.Mask(text)
}

func shortenWords(text string) string {
	text = strings.TrimRight(strings.Join(strings.Fields(text), " "), ". ")
	if len(text) > maxWhyBytes {
		text = strings.ToValidUTF8(text[:maxWhyBytes], "") + "..."
	}
	return text
}

// explainHook asks the pods of a hook, and then the events.
func (a *Applier) explainHook(ctx context.Context, item set.Item, uid string) string {
	if item.Kind == "Pod" {
		pod, err := a.api.Get(ctx, item.Ref)
		if err != nil {
			return ""
		}
		return cmp.Or(podTrouble(pod), a.latestWarning(ctx, item.Namespace, uid))
	}
	pods, err := a.api.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, item.Namespace,
		metav1.ListOptions{LabelSelector: "controller-uid=" + uid, Limit: mostPods})
	if err != nil || len(pods) == 0 {
		return a.latestWarning(ctx, item.Namespace, uid)
	}
	newest := slices.MaxFunc(pods, func(a, b *unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	text := cmp.Or(podTrouble(newest), a.latestWarning(ctx, item.Namespace, string(newest.GetUID())))
	if text == "" {
		return a.latestWarning(ctx, item.Namespace, uid)
	}
	return "pod " + newest.GetName() + ": " + text
}

// podTrouble is what the status of a pod says about why it does not end, or how it failed.
func podTrouble(pod *unstructured.Unstructured) string {
	if scheduled := object.ConditionOf(pod, "PodScheduled"); scheduled.Status == "False" {
		return joinParts(scheduled.Reason, scheduled.Message)
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, one := range statuses {
			status, _ := one.(map[string]any)
			if text := containerTrouble(status); text != "" {
				return fmt.Sprintf("container %v: %s", status["name"], text)
			}
		}
	}
	reason, _, _ := unstructured.NestedString(pod.Object, "status", "reason")
	message, _, _ := unstructured.NestedString(pod.Object, "status", "message")
	return joinParts(reason, message)
}

func containerTrouble(status map[string]any) string {
	ended := func(field string) string {
		exit, found, _ := unstructured.NestedMap(status, field, "terminated")
		if !found || exit["exitCode"] == int64(0) {
			return ""
		}
		return fmt.Sprintf("exit code %v, ", exit["exitCode"]) + joinParts(exit["reason"], exit["message"])
	}
	if text := ended("state"); text != "" {
		return text
	}
	waiting, _, _ := unstructured.NestedMap(status, "state", "waiting")
	switch waiting["reason"] {
	case nil, "ContainerCreating", "PodInitializing":
		return ""
	case "CrashLoopBackOff":
		return cmp.Or(ended("lastState"), "CrashLoopBackOff")
	}
	return joinParts(waiting["reason"], waiting["message"])
}

func joinParts(parts ...any) string {
	var texts []string
	for _, part := range parts {
		if text, _ := part.(string); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ": ")
}

// latestWarning is the latest that events say about an object.
func (a *Applier) latestWarning(ctx context.Context, namespace, uid string) string {
	events := a.listEvents(ctx, namespace, uid, "type=Warning")
	if len(events) == 0 {
		return ""
	}
	last := slices.MaxFunc(events, func(a, b *unstructured.Unstructured) int { return cmp.Compare(eventTime(a), eventTime(b)) })
	return joinParts(last.Object["reason"], last.Object["message"])
}

// eventTells tells whether the events about an object have this reason.
func (a *Applier) eventTells(ctx context.Context, item set.Item, obj *unstructured.Unstructured, reason string) bool {
	return len(a.listEvents(ctx, item.Namespace, string(obj.GetUID()), "reason="+reason)) > 0
}

func (a *Applier) listEvents(ctx context.Context, namespace, uid, fields string) []*unstructured.Unstructured {
	if uid == "" {
		return nil
	}
	events, err := a.api.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Event"}, namespace, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + uid + "," + fields, Limit: mostEvents,
	})
	if err != nil {
		return nil // events only explain
	}
	return events
}

// eventTime is when an event was last seen, in a form that sorts.
func eventTime(event *unstructured.Unstructured) string {
	for _, field := range []string{"lastTimestamp", "eventTime"} {
		if text, _ := event.Object[field].(string); text != "" {
			return text
		}
	}
	return event.GetCreationTimestamp().UTC().Format(time.RFC3339)
}
