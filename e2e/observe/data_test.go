package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/e2e/stack"
)

// never are selectors that match nothing in a product that works, each with the reason.
func never() map[string]string {
	return map[string]string{
		`fairlead_rpc_total{code=~"internal|unknown"}`: "nothing fails inside; that codes are counted is seen in the panel of other codes",
	}
}

// expression is a query of a panel or a rule.
type expression struct {
	where, expr string
	legend      string // of a panel
	exemplars   bool   // a panel shows them, which lead to traces
}

// panels are the queries of all dashboards, as Grafana sends them.
func panels(t *testing.T) (all []expression) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(observability, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct {
					Expr, LegendFormat string
					Exemplar           bool
				}
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "30m") // all of the test
				all = append(all, expression{
					filepath.Base(file) + ": " + panel.Title, expr, target.LegendFormat, target.Exemplar,
				})
			}
		}
	}
	return all
}

// everyPanelAndRuleHasData asks a Prometheus for what dashboards and rules ask, after all that they tell of has
// happened.
func everyPanelAndRuleHasData(t *testing.T, w *world, ship *stack.Ship) {
	w.live(t, ship)
	shown := panels(t)
	for _, e := range shown {
		await(t.Context(), t, e.where+" shows "+e.expr, func(ctx context.Context) error { return w.shows(ctx, e) })
	}
	all := shown
	for _, r := range rules(t) {
		all = append(all, expression{where: r.Alert + r.Record, expr: r.Expr})
	}
	absent := map[string]bool{}
	for _, e := range all {
		found := selectors(e.expr)
		if len(found) == 0 {
			t.Errorf("%s: no selector is found in %s", e.where, e.expr)
		}
		for _, selector := range found {
			series, err := w.query(t.Context(), selector)
			if err != nil {
				t.Fatal(err)
			}
			if len(series) == 0 {
				absent[selector] = true
				if never()[selector] == "" {
					t.Errorf("%s: nothing is %s", e.where, selector)
				}
			}
		}
	}
	for selector := range never() {
		if !absent[selector] {
			t.Errorf("%s has data: it needs no exception", selector)
		}
	}
}

// shows tells whether a panel has a number to show, and the labels that it names series by.
func (w *world) shows(ctx context.Context, e expression) error {
	series, err := w.query(ctx, e.expr)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(series, func(s sample) bool {
		value, err := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64)
		return err == nil && !math.IsNaN(value)
	}) {
		return fmt.Errorf("no data: %v", series)
	}
	for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(e.legend, -1) {
		if !slices.ContainsFunc(series, func(s sample) bool { return s.Metric[label[1]] != "" }) {
			return fmt.Errorf("no series has the label %s of the legend: %v", label[1], series)
		}
	}
	return nil
}

// selectors are the series that an expression asks for. Words in an expression are functions, unless they begin like a
// metric.
func selectors(expr string) []string {
	return regexp.MustCompile(`\b(?:fairlead[_:][a-z0-9_:]+|process_[a-z_]+|go_[a-z_]+|up)(?:{[^}]*})?`).FindAllString(expr, -1)
}
