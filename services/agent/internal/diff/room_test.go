package diff

import (
	"crypto/sha256"
	"fmt"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

func TestALongDiffNamesAllThatIsRefused(t *testing.T) {
	t.Parallel()
	d := differ{out: &deliveryv1.Diff{}, sum: sha256.New()}
	add := func(change deliveryv1.Change, name string) {
		d.add(&deliveryv1.ObjectDiff{Change: change}, object.Ref{Key: object.Key{Kind: "ConfigMap", Name: name}, Version: "v1"})
	}
	add(deliveryv1.Change_CHANGE_REFUSED, "early")
	for i := range maxObjects {
		add(deliveryv1.Change_CHANGE_UPDATE, fmt.Sprint(i))
	}
	add(deliveryv1.Change_CHANGE_REFUSED, "late")
	objects := d.out.GetObjects()
	if len(objects) != maxObjects || objects[0].GetName() != "early" || objects[1].GetName() != "0" ||
		objects[maxObjects-1].GetName() != "late" {
		t.Errorf("%d objects, from %v to %v", len(objects), objects[0], objects[len(objects)-1])
	}
	for i := range maxObjects {
		add(deliveryv1.Change_CHANGE_REFUSED, fmt.Sprint("more", i))
	}
	for _, o := range d.out.GetObjects() {
		if o.GetChange() != deliveryv1.Change_CHANGE_REFUSED {
			t.Errorf("%v is listed", o)
		}
	}
}
