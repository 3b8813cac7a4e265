package command

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

func (v view) projects(found []manifest.Message) *table.Table {
	t := v.newTable([]string{"NAME", "SERVICES", "CLUSTERS"}, "SOURCES", "NAMESPACES", "KINDS", "DENIED-KINDS", "DESCRIPTION")
	for _, m := range found {
		p := m.(*consolev1.Project)
		s := p.GetSpec()
		v.row(t, []string{p.GetMetadata().GetName(), strconv.Itoa(int(p.GetStatus().GetServices())), chosen(s.GetClusters())},
			strings.Join(s.GetSources(), ", "), strings.Join(s.GetNamespaces(), ", "), strings.Join(s.GetKinds(), ", "),
			strings.Join(s.GetDeniedKinds(), ", "), s.GetDescription())
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
