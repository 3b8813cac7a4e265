package apply

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
	"fairlead.dev/services/agent/internal/set"
)

// Attempt is one making of the object of a test, or of what a test needs.
type Attempt struct {
	Item set.Item
	// Began is when it was written down that the object is about to be made. Resumed: it may have been made since, and
	// nobody knows.
	Began   time.Time
	Resumed bool
	// Earlier is the object of the attempt before.
	Earlier types.UID
	// UID of the object; "": it is not known to have been made.
	UID types.UID
}

// Trial is how an attempt is.
type Trial struct {
	// UID of the object; "": there is none yet.
	UID types.UID
	// Outcome is RUNNING until the object has ended, or can't be made.
	Outcome deliveryv1.TestOutcome
	// Text says why, or what is waited for; without a full stop.
	Text string
	// Refused: the API server does not take the object, which it may do later.
	Refused bool
}

// TestsInTurn are the objects of tests in the order in which they are made: by wave, name and kind as Helm does; of
// those without Helm's annotation what tests need goes first in each wave.
func TestsInTurn(items []set.Item) []set.Item {
	var turn []set.Item
	for _, step := range order.Hooks(items, object.Test) {
		if !step.Gate && !step.Drop {
			turn = append(turn, step.Items...)
		}
	}
	place := func(item set.Item) int {
		if item.Flags&object.InTurn == 0 && !IsTest(item) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(turn, func(a, b set.Item) int { return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(place(a), place(b))) })
	return turn
}

// IsTest tells the objects that are tests from those that tests need.
func IsTest(item set.Item) bool { return runsToCompletion(item) }

// Try makes the object of an attempt, if it was not made, and tells how it is. p is of BeginHooks with this item.
func (a *Applier) Try(ctx context.Context, r Request, p *Progress, attempt Attempt) Trial {
	give, err := a.width.Take(ctx)
	if err != nil {
		return Trial{UID: attempt.UID, Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING, Text: "waits for its turn"}
	}
	defer give()
	item := attempt.Item
	if attempt.UID != "" && !p.isMade(item) {
		if waits := a.takeOver(ctx, r, p, attempt); waits != "" {
			return Trial{UID: attempt.UID, Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING, Text: waits}
		}
	}
	if !p.isMade(item) {
		if attempt.Resumed {
			if trial, ran := a.ranUnseen(ctx, attempt); ran {
				return trial
			}
		}
		wait, problem := a.startHook(ctx, r, p, item)
		switch {
		case problem != nil && problem.Mistake:
			return Trial{Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, Text: problem.Text}
		case problem != nil:
			return Trial{Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING, Text: "can't be made: " + problem.Text, Refused: true}
		case wait != "":
			return Trial{Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING, Text: wait}
		}
	}
	return a.lookAtTest(ctx, r, p, item)
}

// takeOver follows an object that was made before.
func (a *Applier) takeOver(ctx context.Context, r Request, p *Progress, attempt Attempt) (waits string) {
	obj, err := a.api.Get(ctx, attempt.Item.Ref)
	switch {
	case err == nil && obj.GetUID() == attempt.UID:
		a.follower.Follow(r.Service, obj)
	case err != nil && !NotThere(err):
		return "can't be read: " + explainError(attempt.Item, err).Text
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[attempt.Item.Run()] = attempt.UID
	return ""
}

// ranUnseen finds out whether an object was made, ran and went before its making could be written down: a test runs
// once.
func (a *Applier) ranUnseen(ctx context.Context, attempt Attempt) (Trial, bool) {
	item := attempt.Item
	if !runsToCompletion(item) {
		return Trial{}, false
	}
	if _, err := a.api.Metadata(ctx, item.Ref); !NotThere(err) {
		return Trial{}, false
	}
	events, err := a.api.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Event"}, item.Namespace, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + item.Kind + ",involvedObject.name=" + item.Name, Limit: mostEvents,
	})
	events = slices.DeleteFunc(events, func(event *unstructured.Unstructured) bool {
		about, _, _ := unstructured.NestedString(event.Object, "involvedObject", "uid")
		return about == string(attempt.Earlier) || event.GetCreationTimestamp().Time.Before(attempt.Began.Truncate(time.Second))
	})
	switch {
	case err != nil:
		return Trial{
			Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING,
			Text:    "waits, since it can't be told whether it has run: " + explainError(item, err).Text,
		}, true
	case len(events) == 0:
		return Trial{}, false
	case slices.ContainsFunc(events, func(event *unstructured.Unstructured) bool { return event.Object["reason"] == "Completed" }):
		return Trial{Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_PASSED}, true
	}
	return Trial{Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, Text: unseen}, true
}

// unseen is why the outcome of a test is not known.
const unseen = "it ran and went away while no agent looked, so that nobody knows how it ended; ask for another run"

// lookAtTest tells how an object is that was made.
func (a *Applier) lookAtTest(ctx context.Context, r Request, p *Progress, item set.Item) Trial {
	p.mu.Lock()
	trial := Trial{UID: p.made[item.Run()], Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING}
	p.mu.Unlock()
	if !isAwaited(item) || item.Kind == "PersistentVolumeClaim" { // which may wait for the pod
		trial.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
		return trial
	}
	last, err := a.readLast(ctx, p, item)
	if err != nil {
		trial.Text = "can't be read: " + explainError(item, err).Text
		return trial
	}
	state, message := a.hookState(ctx, last.Object, p.rules)
	if !runsToCompletion(item) && !cluster.DataOnly(item.GVK()) && state == health.Degraded && !last.Gone {
		trial.Text = "is not healthy: " + message // the object may become so
		return trial
	}
	switch {
	case state == health.Healthy:
		trial.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	case state == health.Degraded:
		trial.Outcome, trial.Text = deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, strings.TrimSpace(strings.TrimSuffix(message, ".")+a.whyNot(ctx, r, p, item, true))
	case !last.Gone:
		trial.Text = "has not ended" + a.whyNot(ctx, r, p, item, false)
	case last.Missed && a.eventTells(ctx, item, withUID(last.Object, trial.UID), "Completed"):
		trial.Outcome = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	case last.Missed:
		trial.Outcome, trial.Text = deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, unseen
	default:
		trial.Outcome, trial.Text = deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED, "somebody deleted it before it had ended"
	}
	return trial
}

// withUID is an object of which nothing else may be known.
func withUID(obj *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	obj.SetUID(uid)
	return obj
}
