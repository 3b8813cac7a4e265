package view

import (
	"fmt"
	"maps"
	"strings"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// FigureHead are the columns of figureCells.
func FigureHead() []string {
	return []string{"NODES", "CPU", "MEMORY", "PODS", "NOT-READY", "RESTARTS/H", "PULLS", "WARNINGS/H"}
}

// FairShares are the figures of a sum with the shares of those clusters that know both what is requested and what nodes
// can give.
func FairShares(f map[string]int64) map[string]int64 {
	out := maps.Clone(f)
	for _, what := range []string{"cpu", "memory"} {
		delete(out, "nodes."+what+"_allocatable")
		if whole, ok := f["shares."+what+"_allocatable"]; ok {
			out["nodes."+what+"_allocatable"], out["requests."+what] = whole, f["shares."+what+"_requested"]
		}
	}
	return out
}

// FigureCells show figures. An unknown figure is "-", and one that was counted in a sample has "≈" before it.
func FigureCells(f map[string]int64) []string {
	about := func(names ...string) string {
		for _, name := range names {
			if section, _, _ := strings.Cut(name, "."); f[section+".sampled"] > 0 {
				return "≈"
			}
		}
		return ""
	}
	count := func(name string) string {
		n, ok := f[name]
		if !ok {
			return "-"
		}
		return about(name) + fmt.Sprint(n)
	}
	share := func(part, whole string, show func(int64) string) string {
		a, okA := f[part]
		b, okB := f[whole]
		switch {
		case okA && okB && b > 0:
			return about(part, whole) + fmt.Sprintf("%s/%s (%d%%)", show(a), show(b), a*100/b)
		case okA:
			return about(part) + show(a) + "/-"
		}
		return "-"
	}
	nodes := "-"
	if _, ok := f["nodes.total"]; ok {
		nodes = about("nodes.total") + fmt.Sprintf("%d/%d", f["nodes.ready"], f["nodes.total"])
	}
	return []string{
		nodes, share("requests.cpu", "nodes.cpu_allocatable", FormatCores),
		share("requests.memory", "nodes.memory_allocatable", table.FormatBytes),
		count("pods.total"), count("pods.not_ready"),
		count("restarts.hour"), count("pulls.pods"), count("warnings.hour"),
	}
}

// RowState says how far a row can be trusted; empty: it is of now. What keeps the view of a connected cluster from
// following it is in a gap.
func (v View) RowState(of *consolev1.ClusterViewRow) string {
	switch {
	case !of.GetConnected():
		return "away, as of " + v.AgoText(of.GetLastSeenTime())
	case of.GetUnfollowedTime() != nil:
		return "as of " + v.AgoText(of.GetUnfollowedTime())
	}
	return ""
}

// FormatCores shows thousandths of a core.
func FormatCores(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%.1f", float64(milli)/1000)
}
