package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

func (v view) projects(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "SERVICES", "CLUSTERS"}, "FREEZE", "WINDOWS", "SOURCES", "DESCRIPTION")
	for _, m := range found {
		p := m.(*consolev1.Project)
		s := p.GetSpec()
		v.row(t, []string{p.GetMetadata().GetName(), strconv.Itoa(int(p.GetStatus().GetServices())), chosen(s.GetClusters())},
			frozen(p.GetFreeze()), strconv.Itoa(len(s.GetWindows())), strings.Join(s.GetSources(), ", "), s.GetDescription())
	}
	return t
}

func (v view) globals(found []manifest.Message) (*table.Table, []note) {
	t := v.newTable([]string{"NAME", "CLUSTERS", "HEALTHY", "HELD-BACK"}, "CHOSEN", "SOURCE", "REF", "PATH", "NAMESPACE", "PROJECT")
	var notes []note
	for _, m := range found {
		g := m.(*consolev1.GlobalService)
		name, s, status := g.GetMetadata().GetName(), g.GetSpec(), g.GetStatus()
		v.row(t, []string{name, strconv.Itoa(int(status.GetClusters())), strconv.Itoa(int(status.GetHealthy())), strconv.Itoa(int(status.GetHeldBackTotal()))},
			chosen(s.GetClusters()), sourcesOf(s.GetTemplate()), cmp.Or(refsOf(s.GetTemplate()), s.GetTemplate().GetRef()), s.GetTemplate().GetPath(), s.GetTemplate().GetNamespace(), s.GetTemplate().GetProject())
		if text := v.globalNote(g); text != "" {
			notes = append(notes, note{about: name, text: text})
		}
		if n := status.GetClusters() - status.GetHealthy(); n > 0 {
			notes = append(notes, note{about: name, text: fmt.Sprintf("%d of its services are not healthy: `fairlead trace globalservice %s` says why", n, name)})
		}
	}
	return t, notes
}

func (v view) roles(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "RULES", "KUBERNETES"}, "DESCRIPTION")
	for _, m := range found {
		r := m.(*consolev1.Role)
		var rules []string
		for _, rule := range r.GetSpec().GetRules() {
			rules = append(rules, strings.Join(rule.GetVerbs(), ",")+" "+strings.Join(rule.GetKinds(), ","))
		}
		v.row(t, []string{r.GetMetadata().GetName(), strings.Join(rules, "; "), r.GetSpec().GetKubernetes()}, r.GetSpec().GetDescription())
	}
	return t
}

func (v view) accounts(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "DISABLED"}, "DESCRIPTION")
	for _, m := range found {
		a := m.(*consolev1.ServiceAccount)
		v.row(t, []string{a.GetMetadata().GetName(), strconv.FormatBool(a.GetSpec().GetDisabled())}, a.GetSpec().GetDescription())
	}
	return t
}

// chosen says which clusters are.
func chosen(s *consolev1.ClusterSelector) string {
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
