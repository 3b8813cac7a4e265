package view

import (
	"fmt"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (v View) configSet(s *consolev1.ConfigSet) row {
	var imports []string
	for _, i := range s.GetSpec().GetImports() {
		imports = append(imports, strings.TrimPrefix(i.GetBackend()+":"+i.GetPath(), ":"))
	}
	return row{
		cells: []cell{
			{"NAME", s.GetMetadata().GetName()},
			{"PROJECT", s.GetSpec().GetProject()},
			{"ENTRIES", fmt.Sprint(len(s.GetSpec().GetEntries()))},
			{"SERVICES", fmt.Sprint(s.GetStatus().GetServices())},
		},
		more: []cell{{"IMPORTS", strings.Join(imports, ", ")}, {"DESCRIPTION", s.GetSpec().GetDescription()}},
	}
}
