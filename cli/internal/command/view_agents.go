package command

import (
	"fmt"
	"strings"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/platform/plural"
)

func (v view) agentConfigs(found []manifest.Message) (*table.Table, []note) {
	t := v.newTable([]string{"NAME", "CLUSTERS", "IN-FORCE", "ON-TRIAL", "REFUSED", "CHANGED"}, "DESCRIPTION")
	var notes []note
	for _, m := range found {
		c := m.(*consolev1.AgentConfig)
		s, name := c.GetStatus(), c.GetMetadata().GetName()
		v.row(t, []string{
			name, fmt.Sprint(s.GetClusters()), fmt.Sprint(s.GetInForce()), fmt.Sprint(s.GetOnTrial()), fmt.Sprint(s.GetRefusedTotal()),
			v.ago(c.GetMetadata().GetUpdateTime()),
		}, c.GetSpec().GetDescription())
		if s.GetRefusedTotal() > 0 {
			names := s.GetRefused()[:min(len(s.GetRefused()), maxAbout)]
			text := strings.Join(names, ", ")
			if more := int(s.GetRefusedTotal()) - len(names); more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
			notes = append(notes, note{about: name, text: fmt.Sprintf(
				"%s did not take it, and went back to the last good one: %s. `fairlead get cluster NAME -o yaml` says why",
				plural.Of(int(s.GetRefusedTotal()), "agent"), text)})
		}
	}
	return t, notes
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
