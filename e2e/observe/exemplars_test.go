package observe

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exemplary are the histograms that people are told to find traces by.
func exemplary(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "have exemplars")
	list, _, _ = strings.Cut(list, "\n\n")
	return regexp.MustCompile("fairlead_[a-z_]+").FindAllString(list, -1)
}

// latenciesLeadToTraces: each histogram with exemplars has a panel that shows them, and what it shows is a trace that
// the Collector got.
func latenciesLeadToTraces(t *testing.T, w *world) {
	histograms := exemplary(t)
	if len(histograms) == 0 {
		t.Fatal("no histogram has exemplars")
	}
	shown := slices.DeleteFunc(panels(t), func(e expression) bool { return !e.exemplars })
	for _, histogram := range histograms {
		if !slices.ContainsFunc(shown,
			func(e expression) bool { return strings.Contains(e.expr, histogram+"_bucket") }) {
			t.Errorf("no panel shows exemplars of %s", histogram)
		}
	}
	for _, e := range shown {
		await(t.Context(), t, e.where+" leads to a trace",
			func(ctx context.Context) error { return w.leads(ctx, e.expr) })
	}
}

// leads tells whether an exemplar of an expression is a trace that the Collector has.
func (w *world) leads(ctx context.Context, expr string) error {
	var series []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	if err := w.ask(ctx, "query_exemplars", url.Values{"query": {expr}, "start": {"0"}, "end": {"4e9"}},
		&series); err != nil {
		return err
	}
	traces, err := w.traced()
	if err != nil {
		return err
	}
	for _, s := range series {
		for _, exemplar := range s.Exemplars {
			if len(traces[exemplar.Labels["trace_id"]]) > 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("no trace is found by %v", series)
}
