package view

import (
	"slices"
	"testing"
)

// The figures of a sample are estimates: a reader of the table can tell them.
func TestFiguresOfASampleAreMarked(t *testing.T) {
	t.Parallel()
	got := FigureCells(map[string]int64{
		"nodes.total": 3, "nodes.ready": 2, "nodes.cpu_allocatable": 4000, "requests.cpu": 1000, "requests.sampled": 1,
		"pods.total": 1200, "pods.sampled": 1, "warnings.hour": 0,
	})
	want := []string{"2/3", "≈" + FormatCores(1000) + "/" + FormatCores(4000) + " (25%)", "-", "≈1200", "-", "-", "-", "0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A cluster whose agent may not list nodes has requests that no share of a sum counts.
func TestSharesOfSumsAreOfTheClustersThatKnowBoth(t *testing.T) {
	t.Parallel()
	got := FigureCells(FairShares(map[string]int64{
		"requests.cpu": 5000, "nodes.cpu_allocatable": 4000, "shares.cpu_requested": 1000,
		"shares.cpu_allocatable": 4000,
		"requests.memory":        1 << 30, "nodes.memory_allocatable": 1 << 20,
	}))
	want := []string{"-", FormatCores(1000) + "/" + FormatCores(4000) + " (25%)", "1.0 GiB/-"}
	if !slices.Equal(got[:3], want) {
		t.Errorf("got %q, want %q", got[:3], want)
	}
}
