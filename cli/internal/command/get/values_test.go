package get

import (
	"strings"
	"testing"

	"fairlead.dev/cli/internal/clitest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// charts is a source of charts whose services name these refs.
func charts(heads ...*consolev1.Head) *consolev1.Source {
	return &consolev1.Source{
		Metadata: clitest.Meta("charts"),
		Spec:     &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: "https://charts.example.com"}},
		Status:   &consolev1.SourceStatus{Heads: heads},
	}
}

func TestValuesAreOfTheChartThatLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	redis, web := &consolev1.Head{Ref: "chart:redis@^19.1"}, &consolev1.Head{Ref: "chart:web@1.0.0"}
	git := &consolev1.Source{Metadata: clitest.Meta("shop"), Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{}}}
	for _, c := range []struct {
		source         *consolev1.Source
		chart, version string
		ref, err       string
	}{
		{charts(redis), "", "", "chart:redis@^19.1", ""},
		{charts(redis, web), "web", "", "chart:web@1.0.0", ""},
		{charts(redis), "redis", "20.1.0", "chart:redis@20.1.0", ""},
		{charts(redis), "nginx", "", "chart:nginx@", ""},
		{charts(redis, web), "", "", "", "choose one by --chart and --chart-version: redis ^19.1, web 1.0.0"},
		{charts(), "", "", "", "no service names a chart"},
		{charts(redis), "", "20.1.0", "", "add --chart"},
		{git, "", "", "", "is no repository of charts"},
	} {
		g := getting{of: chartFlags{values: true, chart: c.chart, version: c.version}}
		ref, err := g.chartRef(c.source)
		if ref != c.ref || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q %q: %q, %v; want %q %q", c.chart, c.version, ref, err, c.ref, c.err)
		}
	}
}
