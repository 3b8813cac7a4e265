package get

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/catalogyaml"
)

// valuesFile of a chart has its default values.
const valuesFile = "values.yaml"

// chartFlags choose the default values of a chart.
type chartFlags struct {
	values         bool
	chart, version string
}

func (f *chartFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.values, "values", false,
		"show the default values of a chart of a source instead, as the chart has them")
	flags.StringVar(&f.chart, "chart", "",
		"with --values: the name of the chart; default: the only one that services name")
	flags.StringVar(&f.version, "chart-version", "",
		"with --values: its version, or a range; default: the one that services name")
}

// shower shows resources of one kind, by their names.
type shower = func(context.Context, *hubclient.Hub, []string) error

// valuesOf returns what shows the values; nil: that is not asked for.
func (g *getting) valuesOf(k resource.Kind, names []string, asked bool) (shower, error) {
	switch {
	case !g.of.values && (g.of.chart != "" || g.of.version != ""):
		return nil, errors.New("--chart and --chart-version choose what --values shows: add --values, or leave them out")
	case !g.of.values:
		return nil, nil
	case k.ID != catalogyaml.Source || len(names) != 1 || asked || g.format != app.FormatTable:
		return nil, errors.New("--values shows those of a chart of one source: fairlead get source NAME --values --chart CHART")
	case g.of.chart != "" && !catalog.IsChartName(g.of.chart):
		return nil, fmt.Errorf("--chart %q: is no name of a chart", g.of.chart)
	}
	return func(ctx context.Context, h *hubclient.Hub, names []string) error {
		return g.showValues(ctx, h, names[0])
	}, nil
}

// showValues writes the file as it is, so that it can be a file of values again.
func (g *getting) showValues(ctx context.Context, h *hubclient.Hub, name string) error {
	got, err := h.Sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: name})
	if err != nil {
		return resource.SourceKind().ExplainMissing(name, err)
	}
	ref, err := g.chartRef(got.GetSource())
	if err != nil {
		return err
	}
	file, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, c hubclient.Gitcache) (*gitcachev1.ReadFileResponse, error) {
		return c.Sources.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: name, Revision: ref, Path: valuesFile})
	})
	if err != nil {
		return err
	}
	_, err = g.app.Stdout.Write(file.GetContent())
	return err
}

// chartRef is the ref of the chart whose values are wanted: as services name it, where that leaves no doubt.
func (g *getting) chartRef(s *consolev1.Source) (string, error) {
	name := s.GetMetadata().GetName()
	if s.GetSpec().GetHelm() == nil {
		const text = "source %q is no repository of charts: `fairlead sources cat %s PATH/values.yaml` shows a file of it"
		return "", fmt.Errorf(text, name, name)
	}
	if g.of.chart != "" && g.of.version != "" {
		return catalog.ChartRef(g.of.chart, g.of.version), nil
	}
	var refs, shown []string
	for _, h := range s.GetStatus().GetHeads() {
		chart, _, ok := catalog.ParseChartRef(h.GetRef())
		if ok && (g.of.chart == "" || chart == g.of.chart) {
			refs, shown = append(refs, h.GetRef()), append(shown, catalog.ShowRef(h.GetRef()))
		}
	}
	slices.Sort(shown)
	switch {
	case g.of.version != "" && g.of.chart == "":
		return "", errors.New("--chart-version is of a chart: add --chart")
	case len(refs) == 1:
		return refs[0], nil
	case len(refs) > 1:
		const text = "services name several charts or versions of source %q: choose one by --chart and --chart-version: %s"
		return "", fmt.Errorf(text, name, strings.Join(shown, ", "))
	case g.of.chart != "":
		return catalog.ChartRef(g.of.chart, ""), nil // the highest one
	}
	return "", fmt.Errorf("no service names a chart of source %q: choose one by --chart", name)
}
