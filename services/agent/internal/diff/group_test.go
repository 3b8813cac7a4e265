package diff

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// regrouped is a cluster that serves one Ingress in two groups, or two that are alike: the former one has this UID.
type regrouped struct {
	API

	former types.UID
}

func (regrouped) Live(context.Context, object.Ref) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetUID("1")
	return live, nil
}

func (r regrouped) Rehearse(ctx context.Context, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return r.Live(ctx, object.Ref{})
}

func (r regrouped) Metadata(context.Context, object.Ref) (*metav1.PartialObjectMetadata, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: r.former, Labels: map[string]string{object.ServiceLabel: "web"},
	}}, nil
}

// An object of which the manifests name another API group is the same object: a sync does not remove it.
func TestAnObjectOfAnotherGroupIsNotRemoved(t *testing.T) {
	t.Parallel()
	ingress := func(group, version string) object.Ref {
		return object.Ref{
			Key: object.Key{Group: group, Kind: "Ingress", Namespace: "shop", Name: "a"}, Version: version,
		}
	}
	before, now := ingress("extensions", "v1beta1"), ingress("networking.k8s.io", "v1")
	for name, test := range map[string]struct {
		entries []inventory.Entry
		former  types.UID
		isSent  bool
		want    int32
	}{
		"the same":                {[]inventory.Entry{{Ref: before, UID: "1"}}, "1", false, 0},
		"repaired since":          {[]inventory.Entry{{Ref: before, UID: "0"}}, "1", false, 0},
		"not known to be made":    {[]inventory.Entry{{Ref: before}}, "1", false, 0},
		"another":                 {[]inventory.Entry{{Ref: before, UID: "2"}}, "2", false, 1},
		"the same, listed, as is": {[]inventory.Entry{{Ref: before, UID: "1"}, {Ref: now, UID: "1"}}, "1", true, 0},
	} {
		deps := Deps{API: regrouped{former: test.former}, Sent: func(set.Item) bool { return test.isSent }}
		record := inventory.Record{Service: "web", Entries: test.entries}
		out, err := Of(t.Context(), deps, single(set.Item{Ref: now}), record)
		if err != nil || out.GetRemoved() != test.want {
			t.Errorf("%s: %v, %v; want %d removed", name, out, err, test.want)
		}
	}
}
