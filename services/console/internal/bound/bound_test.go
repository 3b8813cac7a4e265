package bound

import (
	"strings"
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
	if field, why := refuses(&p, s, nil); field != "sources[1].source" || !strings.Contains(why, "secrets") {
		t.Errorf("got %q, %q", field, why)
	}
	s.Sources[1].Source = "shop-values"
	if field, _ := refuses(&p, s, nil); strings.Contains(field, "source") {
		t.Errorf("got %q", field)
	}
}
