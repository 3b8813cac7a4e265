package inventory

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A service is foreign where another cluster of the same name put it: the one that the note names, or that its
// inventory names.
func TestServicesOfAnotherClusterOfTheSameNameAreForeign(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		uid, noted string
		anew       bool
		service    string // the UID in its inventory
		isForeign  bool
		stamped    string
	}{
		"the noted cluster":          {uid: "old", noted: "old"},
		"another one":                {uid: "new", noted: "old", isForeign: true, stamped: "new"},
		"another one wants it":       {uid: "new", noted: "old", service: "new", stamped: "new"},
		"the noted one is back":      {uid: "old", noted: "old", service: "new", isForeign: true},
		"a third one":                {uid: "third", noted: "old", service: "new", isForeign: true, stamped: "third"},
		"the note was made anew":     {uid: "third", noted: "third", anew: true, service: "new"},
		"a hub that says no UID":     {noted: "old", service: "new", stamped: "new"},
		"a hub that never said them": {},
	} {
		s := New(nil, nil)
		note := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{uidKey: test.noted}}}
		if err := s.settle(t.Context(), note, test.uid, test.anew); err != nil {
			t.Fatal(err)
		}
		record := Record{Service: "web", Cluster: test.service}
		if got := s.IsForeign(record); got != test.isForeign {
			t.Errorf("%s: foreign is %t, want %t", name, got, test.isForeign)
		}
		if s.stamp(&record); record.Cluster != test.stamped {
			t.Errorf("%s: the inventory names %q, want %q", name, record.Cluster, test.stamped)
		}
	}
}
