package apply

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/catalogyaml"
)

// applies answers the parts of an apply one after the other.
type applies struct {
	consolev1connect.ApplyServiceClient
	answers []error
}

func (a *applies) Apply(context.Context, *consolev1.ApplyRequest) (*consolev1.ApplyResponse, error) {
	err := a.answers[0]
	a.answers = a.answers[1:]
	return &consolev1.ApplyResponse{}, err
}

// A person has to know what became of each part of an apply that fails.
func TestAnApplyThatFailsInItsMiddleSaysWhatIsApplied(t *testing.T) {
	t.Parallel()
	wrong := connect.NewError(connect.CodeInvalidArgument, errors.New("it is wrong"))
	away := connect.NewError(connect.CodeUnavailable, errors.New("it is away"))
	for name, tc := range map[string]struct {
		answers []error
		dryRun  bool
		want    string
	}{
		"the first part":              {[]error{wrong}, false, "invalid_argument: it is wrong"},
		"a part":                      {[]error{nil, wrong}, false, "invalid_argument: it is wrong\n1 of 3 resources are applied, as printed above; of the rest, nothing"},
		"a dry run":                   {[]error{nil, wrong}, true, "invalid_argument: it is wrong"},
		"no answer":                   {[]error{nil, away}, false, "unavailable: it is away\n1 of 3 resources are applied, as printed above; of the next 1 it is not known, and of the rest, nothing: apply the same again"},
		"no last answer":              {[]error{nil, nil, away}, false, "unavailable: it is away\n2 of 3 resources are applied, as printed above; of the next 1 it is not known: apply the same again"},
		"no first answer":             {[]error{away}, false, "unavailable: it is away\n0 of 3 resources are applied; of the next 1 it is not known, and of the rest, nothing: apply the same again"},
		"a dry run without an answer": {[]error{nil, away}, true, "unavailable: it is away"},
	} {
		var objects []*catalogyaml.Object
		for range 3 {
			objects = append(objects, &catalogyaml.Object{Message: &consolev1.Project{
				Spec: &consolev1.ProjectSpec{Description: strings.Repeat("x", maxPartBytes)},
			}})
		}
		w := &writing{
			app: &app.App{IO: app.IO{Stderr: io.Discard}}, hub: &hubclient.Hub{Applies: &applies{answers: tc.answers}}, dryRun: tc.dryRun,
		}
		if err := w.writeObjects(t.Context(), objects); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

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
