package view

import (
	"fmt"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

func (v View) agentConfig(c *consolev1.AgentConfig) (r row) {
	s, name := c.GetStatus(), c.GetMetadata().GetName()
	r.cells = []cell{
		{"NAME", name},
		{"CLUSTERS", fmt.Sprint(s.GetClusters())},
		{"IN-FORCE", fmt.Sprint(s.GetInForce())},
		{"ON-TRIAL", fmt.Sprint(s.GetOnTrial())},
		{"REFUSED", fmt.Sprint(s.GetRefusedTotal())},
		{"CHANGED", v.AgoText(c.GetMetadata().GetUpdateTime())},
	}
	r.more = []cell{{"DESCRIPTION", c.GetSpec().GetDescription()}}
	if s.GetRefusedTotal() > 0 {
		names := s.GetRefused()[:min(len(s.GetRefused()), maxAbout)]
		text := strings.Join(names, ", ")
		if more := int(s.GetRefusedTotal()) - len(names); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		r.notes = []note{{about: name, text: fmt.Sprintf(
			"%s did not take it, and went back to the last good one: %s. `fairlead get cluster NAME -o yaml` says why",
			plural.Of(int(s.GetRefusedTotal()), "agent"), text)}}
	}
	return r
}

// configTrouble says what is wrong with how the agent of a cluster is configured; "": nothing is.
func configTrouble(c *consolev1.ClusterAgentConfig) string {
	switch c.GetPhase() {
	case consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_REFUSED:
		return "its agent works with its last good configuration: " + c.GetMessage()
	case consolev1.AgentConfigPhase_AGENT_CONFIG_PHASE_UNSUPPORTED:
		return "an AgentConfig is for it, and " + c.GetMessage()
	default:
		return ""
	}
}

func (v View) viewSet(s *consolev1.ViewSet) (r row) {
	is, name, of := s.GetStatus(), s.GetMetadata().GetName(), s.GetSpec().GetOf()
	kind := of.GetKind()
	if of.GetGroup() != "" {
		kind += "." + of.GetGroup()
	}
	r.cells = []cell{
		{"NAME", name},
		{"KIND", kind},
		{"CLUSTERS", fmt.Sprint(is.GetClusters())},
		{"WHOLE", fmt.Sprint(is.GetWhole())},
		{"TROUBLES", fmt.Sprint(is.GetTroublesTotal())},
		{"CHANGED", v.AgoText(s.GetMetadata().GetUpdateTime())},
	}
	r.more = []cell{{"DESCRIPTION", s.GetSpec().GetDescription()}}
	about := map[string][]string{}
	var reasons []string
	for _, trouble := range is.GetTroubles() {
		if about[trouble.GetReason()] == nil {
			reasons = append(reasons, trouble.GetReason())
		}
		about[trouble.GetReason()] = append(about[trouble.GetReason()], trouble.GetCluster())
	}
	for _, reason := range reasons {
		clusters := about[reason]
		text := strings.Join(clusters[:min(len(clusters), maxAbout)], ", ")
		if more := len(clusters) - maxAbout; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		r.notes = append(r.notes, note{about: name, text: text + ": " + reason})
	}
	return r
}
