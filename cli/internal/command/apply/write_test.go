package apply

import (
	"slices"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// What is more than 3 MiB goes in parts, none of which is larger; a single larger object goes by itself, and the
// console says what is wrong with it.
func TestApplyGoesInPartsOfThreeMiB(t *testing.T) {
	t.Parallel()
	of := func(kib ...int) (list []*catalogyaml.Object) {
		for _, n := range kib {
			list = append(list, &catalogyaml.Object{Message: &consolev1.Project{Spec: &consolev1.ProjectSpec{Description: strings.Repeat("x", n<<10)}}})
		}
		return list
	}
	for name, tc := range map[string]struct {
		kib  []int
		want []int
	}{
		"nothing":       {nil, nil},
		"less":          {[]int{1000, 1000, 1000}, []int{3}},
		"more":          {[]int{1000, 1000, 1000, 1000}, []int{3, 1}},
		"a large one":   {[]int{4000, 1, 1}, []int{1, 2}},
		"between":       {[]int{1, 4000, 1}, []int{1, 1, 1}},
		"just too much": {[]int{1536, 1536}, []int{1, 1}}, // with their other fields
	} {
		var got []int
		for left := of(tc.kib...); len(left) > 0; {
			n := partOf(left)
			got, left = append(got, n), left[n:]
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: parts of %v, want %v", name, got, tc.want)
		}
	}
	err := (&writing{prune: true}).writeObjects(t.Context(), of(1000, 1000, 1000, 1000)) // and the hub, which is none here, hears nothing
	if err == nil || !strings.Contains(err.Error(), "prune them in smaller sets") {
		t.Errorf("with --prune: %v", err)
	}
}
