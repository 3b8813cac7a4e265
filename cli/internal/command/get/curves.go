package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// sparks is how many characters a curve has: half an hour each.
	sparks = 48
	// sparkLevels are those of a curve, the lowest first, and sparkGap is where nothing is known.
	sparkLevels, sparkGap = "▁▂▃▄▅▆▇█", "·"
)

// showCurves shows the last 24 hours of a cluster, or of all that fit.
func (o *topping) showCurves(ctx context.Context, h *hubclient.Hub, to io.Writer, name string) error {
	got, err := h.Views.GetViewCurves(ctx, &consolev1.GetViewCurvesRequest{Cluster: name, Filter: o.Filter})
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return errors.New("the hub is older than this command and has no curves: update it")
	}
	if err != nil {
		return err
	}
	if o.format != app.FormatTable {
		return o.app.ShowPlain(o.format, got)
	}
	of, now := "Cluster "+name, o.app.Now()
	if name == "" {
		of = fmt.Sprintf("Clusters (%d)", got.GetClusters())
	}
	t, notes := curveTable(got, now)
	if t == nil {
		_, err := fmt.Fprintf(to, "%s: nothing is known of the last 24 hours\n", of)
		return err
	}
	if _, err := fmt.Fprintf(to, "%s, the last 24 hours:\n", of); err != nil {
		return err
	}
	if err := o.writeTable(t, to); err != nil {
		return err
	}
	_, err = io.WriteString(to, notes)
	return err
}

// curveTable shows curves, and notes what they do not. nil: nothing is known.
func curveTable(got *consolev1.GetViewCurvesResponse, now time.Time) (t *table.Table, notes string) {
	t = table.New("FIGURE", "LAST", "HIGHEST", "WHEN", "CURVE")
	known, fewer, gaps := false, false, false
	for _, c := range got.GetCurves() {
		line := sparkLine(got, c)
		if gaps = gaps || strings.Contains(line, sparkGap); len(c.GetPoints()) == 0 {
			t.AddRow(curveName(c.GetFigure()), "", "", "", line)
			continue
		}
		known = true
		last, highest := c.GetPoints()[len(c.GetPoints())-1], highestOf(c)
		shown := curveValue(c, last.GetLast())
		if last.GetTime().AsTime().Before(got.GetEndTime().AsTime()) {
			shown += ", " + curveAge(last, now)
		}
		fewer = fewer || last.GetClusters() < got.GetClusters()
		t.AddRow(curveName(c.GetFigure()), shown, curveValue(c, highest.GetHighest()), curveAge(highest, now), line)
	}
	if !known {
		return nil, ""
	}
	if gaps {
		notes += sparkGap + " is a gap: no agent was connected and counted all of it.\n"
	}
	if fewer && got.GetClusters() > 1 {
		notes += "Clusters that are away, or do not know a figure, are left out.\n"
	}
	return t, notes
}

func curveName(figure string) string {
	switch figure {
	case "pods.not_ready":
		return "pods not ready"
	case "restarts.hour":
		return "restarts an hour"
	case "warnings.hour":
		return "warnings an hour"
	case "shares.cpu":
		return "CPU requested"
	case "shares.memory":
		return "memory requested"
	}
	return figure
}

func isShare(c *consolev1.ViewCurve) bool { return strings.HasPrefix(c.GetFigure(), "shares.") }

// curveValue shows a value of a curve: a share in percent, an estimate with "≈" before it.
func curveValue(c *consolev1.ViewCurve, n int64) string {
	shown := fmt.Sprint(n)
	if isShare(c) {
		shown = fmt.Sprintf("%d%%", (n+5)/10)
	}
	if c.GetSampled() > 0 {
		return "≈" + shown
	}
	return shown
}

// curveAge says when a step ended.
func curveAge(p *consolev1.ViewCurvePoint, now time.Time) string {
	if !p.GetTime().AsTime().Before(now) {
		return "now"
	}
	return table.FormatAge(now, p.GetTime().AsTime()) + " ago"
}

// highestOf is the latest of the highest points of a curve that has some.
func highestOf(c *consolev1.ViewCurve) *consolev1.ViewCurvePoint {
	out := c.GetPoints()[0]
	for _, p := range c.GetPoints() {
		if p.GetHighest() >= out.GetHighest() {
			out = p
		}
	}
	return out
}

// sparkLine draws the highest values of a curve, from 0 to the highest of all, and shares to at least 100 percent.
func sparkLine(got *consolev1.GetViewCurvesResponse, c *consolev1.ViewCurve) string {
	begin, length := got.GetBeginTime().AsTime(), got.GetStep().AsDuration()
	if length <= 0 {
		return ""
	}
	steps := int(got.GetEndTime().AsTime().Sub(begin)/length) + 1
	each := max(1, (steps+sparks-1)/sparks)
	values, top := map[int]int64{}, int64(1)
	if isShare(c) {
		top = 1000
	}
	for _, p := range c.GetPoints() {
		at := int(p.GetTime().AsTime().Sub(begin)/length) / each
		was := values[at]
		values[at] = max(was, p.GetHighest())
		top = max(top, p.GetHighest())
	}
	levels := []rune(sparkLevels)
	var b strings.Builder
	for at := range (steps + each - 1) / each {
		n, ok := values[at]
		if !ok {
			b.WriteString(sparkGap)
			continue
		}
		rest := int64(len(levels) - 1)
		b.WriteRune(levels[min(rest, (n*rest+top-1)/top)]) // what is not 0 is seen
	}
	return b.String()
}
