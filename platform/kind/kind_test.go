package kind_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/kind"
)

func TestEachKindIsWhole(t *testing.T) {
	t.Parallel()
	numbers := map[consolev1.Kind]bool{consolev1.Kind_KIND_UNSPECIFIED: true}
	for _, k := range kind.All() {
		if numbers[k.Number()] {
			t.Errorf("%s: its number %s is none, or another kind's: the enum Kind has to name the field of Resource",
				k.Name(), k.Number())
		}
		numbers[k.Number()] = true
		for _, verb := range []string{"Get", "List", "Update", "Delete"} {
			if k.Method(verb) == nil {
				t.Errorf("%s: its service has no %s", k.Name(), verb)
			}
		}
		if of, ok := kind.Named(k.Singular()); !ok || of != k {
			t.Errorf("%s is not found by the name %q", k.Name(), k.Singular())
		}
		if of, ok := kind.Numbered(k.Number()); !ok || of != k {
			t.Errorf("%s is not found by its number", k.Name())
		}
		m := k.New()
		if of, back := kind.Unwrap(kind.Wrap(m)); of != k || !proto.Equal(back, m) {
			t.Errorf("%s: wrapped and unwrapped it is a %s", k.Name(), of.Name())
		}
	}
	if len(numbers) != len(consolev1.Kind_name) {
		t.Errorf("the enum Kind has %d values, and Resource %d kinds", len(consolev1.Kind_name)-1, len(numbers)-1)
	}
}

func TestAnEmptyEnvelopeHoldsNothing(t *testing.T) {
	t.Parallel()
	if _, m := kind.Unwrap(&consolev1.Resource{}); m != nil {
		t.Errorf("%v was in it", m)
	}
	if r := kind.Wrap(nil); r != nil {
		t.Errorf("nil was wrapped into %v", r)
	}
	if k, ok := kind.Named("Ship"); ok {
		t.Errorf("there is a kind %s", k.Name())
	}
}
