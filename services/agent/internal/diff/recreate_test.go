package diff

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// refusing is a cluster with every object, that refuses any change.
type refusing struct {
	API

	why string
}

func (refusing) Live(context.Context, object.Ref) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{}, nil
}

func (r refusing) Rehearse(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.x", Message: r.why},
		}},
	}}
}

type single set.Item

func (s single) Items() ([]set.Item, error) { return []set.Item{set.Item(s)}, nil }

func (single) Object(set.Item) (*unstructured.Unstructured, kubeyaml.Position, error) {
	return &unstructured.Unstructured{}, kubeyaml.Position{}, nil
}

// A diff does not promise what a sync would not do: a mistake is refused where the object may be made anew, too.
func TestOnlyWhatASyncMakesAnewIsSaidToBeMadeAnew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, why string
		flags     set.Flags
		want      deliveryv1.Change
	}{
		"allowed":     {"Job", "field is immutable", object.Recreate, deliveryv1.Change_CHANGE_RECREATE},
		"not allowed": {"Job", "field is immutable", 0, deliveryv1.Change_CHANGE_REFUSED},
		"a mistake":   {"Job", "must be positive", object.Recreate, deliveryv1.Change_CHANGE_REFUSED},
		"data":        {"PersistentVolumeClaim", "spec is immutable", object.Recreate, deliveryv1.Change_CHANGE_REFUSED},
	} {
		key := object.Key{Kind: test.kind, Namespace: "shop", Name: "a"}
		item := set.Item{Ref: object.Ref{Key: key}, Flags: test.flags}
		deps := Deps{API: refusing{why: test.why}, Explain: apply.Explain, Recreates: apply.Recreates}
		out, err := Of(t.Context(), deps, single(item), inventory.Record{Service: "web"})
		if err != nil || len(out.GetObjects()) != 1 || out.GetObjects()[0].GetChange() != test.want {
			t.Errorf("%s: got %v, %v; want %s", name, out, err, test.want)
		}
	}
}
