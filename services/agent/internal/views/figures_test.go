package views

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/clusterview"
)

// Consoles know the figures of agents by the list of platform/clusterview: a figure that is counted and not in the list
// can be asked for by nobody, and one that is in the list and not counted is asked for in vain.
func TestAgentsCountTheFiguresThatConsolesKnow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	fill(v, 0)
	v.guessed = now.Unix()
	c := &counted{first: now.Unix(), last: now.Unix(), guessed: now.Unix()}
	c.add(now.Unix(), now.Unix(), 1)
	v.groups[others()] = c
	sections, ok := v.Sections()
	if !ok {
		t.Fatal("the view has not begun")
	}
	var names []string
	for _, s := range sections {
		section := s.GetName()
		names = append(names, section)
		known := append(clusterview.Always(section), clusterview.Sometimes(section)...)
		for _, name := range known {
			if _, counts := s.GetFigures()[name]; !counts {
				t.Errorf("%s.%s is not counted", section, name)
			}
		}
		for name := range s.GetFigures() {
			ofState := section == clusterview.Pods && strings.HasPrefix(name, clusterview.State)
			if !ofState && !slices.Contains(known, name) {
				t.Errorf("%s.%s is not in the list", section, name)
			}
		}
	}
	if !slices.Equal(names, clusterview.Sections()) {
		t.Errorf("sections are %q, want %q", names, clusterview.Sections())
	}
}
