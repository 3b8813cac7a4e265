package views

import (
	"fmt"
	"slices"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/clusterview"
	"fairlead.dev/platform/typo"
	"fairlead.dev/platform/viewset"
)

// sampled is a figure of each section: the console says so of a section that is an estimate.
const sampled = "sampled"

// allFigures are the figures of the sections that each view has. The sections of statePrefix and reasonPrefix have more,
// which depend on what goes on.
func allFigures() []string {
	out := known()
	for _, section := range clusterview.Sections() {
		for _, name := range clusterview.Sometimes(section) {
			out = append(out, section+"."+name)
		}
	}
	return out
}

// statePrefix is before the states of pods.
const statePrefix = clusterview.Pods + "." + clusterview.State

// Sets are the names of the ViewSets whose figures a question asks for.
func (q *Question) Sets() (names []string) {
	for _, field := range q.expr.Fields() {
		section, _, _ := strings.Cut(field, ".")
		if name, ofSet := viewset.NameOf(section); ofSet && isFigure(field) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Mistake names a figure that no view has, and the one that was probably meant; empty: there is none. Of the sets that
// are not there, any figure may come.
func (q *Question) Mistake(sets map[string]*consolev1.ViewSet) string {
	for _, field := range q.expr.Fields() {
		if !isFigure(field) {
			continue
		}
		section, figure, _ := strings.Cut(field, ".")
		name, ofSet := viewset.NameOf(section)
		switch set := sets[name]; {
		case !ofSet && !isCounted(section, field):
			return mistaken(field, section, append(allFigures(), statePrefix+"<state>", reasonPrefix+"<reason>"))
		case ofSet && set != nil && !countsFigure(set.GetSpec(), figure):
			return mistaken(field, section, figuresOf(section, set.GetSpec()))
		}
	}
	return ""
}

// Missing says that a ViewSet is not there whose figures a question asks for; empty: all are.
func (q *Question) Missing(sets map[string]*consolev1.ViewSet) string {
	for _, name := range q.Sets() {
		if sets[name] == nil {
			return fmt.Sprintf("there is no ViewSet %q: no cluster has figures of %s before it is written",
				name, viewset.Section(name))
		}
	}
	return ""
}

// isCounted says whether agents count a figure, or may.
func isCounted(section, field string) bool {
	return field == section+"."+sampled || slices.Contains(allFigures(), field) ||
		isNameAfter(statePrefix, field) || isNameAfter(reasonPrefix, field)
}

func isNameAfter(prefix, field string) bool {
	name, ok := strings.CutPrefix(field, prefix)
	return ok && name != ""
}

// countsFigure says whether a set has a figure: total, NAME.VALUE of what it counts, or NAME.STATE of a condition.
func countsFigure(of *consolev1.ViewSetSpec, figure string) bool {
	if figure == "total" || figure == sampled {
		return true
	}
	name, value, _ := strings.Cut(figure, ".")
	if slices.Contains(of.GetConditions(), name) {
		return slices.Contains(states(), value)
	}
	for _, count := range of.GetCounts() {
		if count.GetName() == name {
			return value != ""
		}
	}
	return false
}

// states are those of conditions in views.
func states() []string { return []string{"true", "false", "unknown", "none"} }

// figuresOf are figures of a set, with a <value> where that depends on the objects.
func figuresOf(section string, of *consolev1.ViewSetSpec) []string {
	out := []string{section + ".total"}
	for _, name := range of.GetConditions() {
		for _, state := range states() {
			out = append(out, section+"."+name+"."+state)
		}
	}
	for _, count := range of.GetCounts() {
		out = append(out, section+"."+count.GetName()+".<value>")
	}
	return out
}

// mistaken says that there is no such figure, and which was probably meant, or which the section has.
func mistaken(field, section string, known []string) string {
	known = slices.DeleteFunc(known, func(name string) bool { return !strings.HasPrefix(name, section+".") })
	return fmt.Sprintf("there is no figure %q%s", field, typo.Suggest(field, known))
}
