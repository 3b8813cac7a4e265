package view

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

func (v View) alertRow(a *consolev1.Alert) (r row) {
	s, name := a.GetStatus(), a.GetMetadata().GetName()
	state, clusters := "Quiet", 0
	if s == nil {
		state = "-" // streams have no status of alerts
	}
	if s.GetProblem() != "" {
		state = "Failing" // it can find nothing, or less than it asks for
		r.notes = append(r.notes, note{about: name, text: s.GetProblem()})
	}
	for _, g := range s.GetFiring() {
		clusters += int(g.GetTotal())
		if state != "Firing" && !IsSet(g.GetSinceTime()) {
			state = "Flapping"
		} else {
			state = "Firing"
		}
		since := g.GetSinceTime()
		if IsSet(g.GetFlapsSinceTime()) {
			since = g.GetFlapsSinceTime()
		}
		r.notes = append(r.notes, note{about: name, text: v.describeGroup(g), since: since})
	}
	if silence := s.GetSilence(); silence != nil {
		state += ", silent"
		r.notes = append(r.notes, note{about: name, text: fmt.Sprintf(
			"silent until %s, by %s%s: `fairlead unsilence alert %s` ends it",
			silence.GetUntilTime().AsTime().Local().Format(time.RFC3339), silence.GetAuthor(),
			FormatReason(silence.GetReason()), name)})
	}
	r.cells = []cell{
		{"NAME", name},
		{"STATE", state},
		{"CLUSTERS", fmt.Sprint(clusters)},
		{"PENDING", fmt.Sprint(s.GetPending())},
		{"UNKNOWN", fmt.Sprint(s.GetUnknown())},
		{"WHEN", a.GetSpec().GetWhen()},
	}
	r.more = []cell{{"FOR", a.GetSpec().GetFor().AsDuration().String()}, {"DESCRIPTION", a.GetSpec().GetDescription()}}
	return r
}

// describeGroup says what an alert has found in a group.
func (v View) describeGroup(g *consolev1.AlertGroup) string {
	names := g.GetClusters()[:min(len(g.GetClusters()), maxAbout)]
	text := plural.Of(int(g.GetTotal()), "cluster")
	if g.GetGroup() != "" {
		text = g.GetGroup() + ": " + text
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	if more := int(g.GetTotal()) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if IsSet(g.GetFlapsSinceTime()) {
		text += "; the alert begins and ends again and again there: its next event comes once it has not done so for 10m"
	}
	if n := g.GetUnknown(); n > 0 {
		text += fmt.Sprintf("; %d of them give no answer, the first since %s ago", n,
			table.FormatAge(v.Now, g.GetUnknownSinceTime().AsTime()))
	}
	if ack := g.GetAcknowledged(); ack != nil {
		text += fmt.Sprintf(" (acknowledged by %s%s)", ack.GetAuthor(), FormatReason(ack.GetReason()))
	}
	return text
}
