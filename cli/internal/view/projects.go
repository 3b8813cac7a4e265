package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// GlobalNote is what a person should know of a global service.
func (v View) GlobalNote(g *consolev1.GlobalService) string {
	if g.GetStatus().GetHeldBackTotal() == 0 {
		return ""
	}
	text := fmt.Sprintf("the guard keeps services of clusters that are not chosen any more: %s. To delete them: `fairlead confirm global %s`",
		v.listNames(g.GetStatus().GetHeldBack()), g.GetMetadata().GetName())
	return v.SinceText(text, g.GetStatus().GetHeldBackSince())
}

func (v View) projectRow(p *consolev1.Project) row {
	s := p.GetSpec()
	return row{
		cells: []cell{
			{"NAME", p.GetMetadata().GetName()},
			{"SERVICES", strconv.Itoa(int(p.GetStatus().GetServices()))},
			{"CLUSTERS", describeSelector(s.GetClusters())},
		},
		more: []cell{
			{"FREEZE", DescribeFreeze(p.GetFreeze())},
			{"WINDOWS", strconv.Itoa(len(s.GetWindows()))},
			{"SOURCES", strings.Join(s.GetSources(), ", ")},
			{"DESCRIPTION", s.GetDescription()},
		},
	}
}

func (v View) globalService(g *consolev1.GlobalService) (r row) {
	name, status, template := g.GetMetadata().GetName(), g.GetStatus(), g.GetSpec().GetTemplate()
	r.cells = []cell{
		{"NAME", name},
		{"CLUSTERS", strconv.Itoa(int(status.GetClusters()))},
		{"HEALTHY", strconv.Itoa(int(status.GetHealthy()))},
		{"HELD-BACK", strconv.Itoa(int(status.GetHeldBackTotal()))},
	}
	r.more = []cell{
		{"CHOSEN", describeSelector(g.GetSpec().GetClusters())},
		{"SOURCE", SourcesOf(template)},
		{"REF", cmp.Or(refsOf(template), template.GetRef())},
		{"PATH", template.GetPath()},
		{"NAMESPACE", template.GetNamespace()},
		{"PROJECT", template.GetProject()},
	}
	if text := v.GlobalNote(g); text != "" {
		r.notes = append(r.notes, note{about: name, text: text})
	}
	if n := status.GetClusters() - status.GetHealthy(); n > 0 {
		r.notes = append(r.notes, note{
			about: name,
			text:  fmt.Sprintf("%d of its services are not healthy: `fairlead trace globalservice %s` says why", n, name),
		})
	}
	return r
}

func (v View) roleRow(r *consolev1.Role) row {
	var rules []string
	for _, rule := range r.GetSpec().GetRules() {
		rules = append(rules, strings.Join(rule.GetVerbs(), ",")+" "+strings.Join(rule.GetKinds(), ","))
	}
	return row{
		cells: []cell{{"NAME", r.GetMetadata().GetName()}, {"RULES", strings.Join(rules, "; ")}, {"KUBERNETES", r.GetSpec().GetKubernetes()}},
		more:  []cell{{"DESCRIPTION", r.GetSpec().GetDescription()}},
	}
}

func (v View) serviceAccount(a *consolev1.ServiceAccount) row {
	return row{
		cells: []cell{{"NAME", a.GetMetadata().GetName()}, {"DISABLED", strconv.FormatBool(a.GetSpec().GetDisabled())}},
		more:  []cell{{"DESCRIPTION", a.GetSpec().GetDescription()}},
	}
}

// describeSelector says which clusters are.
func describeSelector(s *consolev1.ClusterSelector) string {
	switch {
	case s.GetAll():
		return "all"
	case s.GetWhere() != "":
		return s.GetWhere()
	}
	clusters := slices.Clone(s.GetNames())
	for _, key := range slices.Sorted(maps.Keys(s.GetLabels())) {
		clusters = append(clusters, key+"="+s.GetLabels()[key])
	}
	return strings.Join(clusters, ", ")
}
