package bound

import (
	"slices"
	"testing"

	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
)

func TestAProjectBoundsEachOfSeveralSources(t *testing.T) {
	t.Parallel()
	p := resource.ProjectSpec{Sources: []string{"charts", "shop-*"}}
	s := state.ServiceSpec{
		Source: "charts", Cluster: "prod",
		Sources: []state.ServiceSource{{Name: "chart", Source: "charts"}, {Name: "values", Source: "secrets"}},
	}
	bad, cluster := fault{"sources[1].source", `source "secrets"`}, fault{"cluster", `cluster "prod"`}
	if got := refuses(&p, s, nil); !slices.Equal(got, []fault{bad, cluster}) {
		t.Errorf("got %q", got)
	}
	s.Sources[1].Source = "shop-values"
	if got := refuses(&p, s, nil); !slices.Equal(got, []fault{cluster}) {
		t.Errorf("got %q", got)
	}
}
