package resource

import (
	"fmt"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// ConfigSetSpec is configuration for services that name it.
type ConfigSetSpec struct {
	Description string `json:"description,omitempty"`
	// Project whose services may name it; empty: any.
	Project string `json:"project,omitempty"`
	// Imports are taken in this order, and Entries over them.
	Imports []Import       `json:"imports,omitempty"`
	Entries state.Settings `json:"entries,omitempty"`
}

// Import is all that is at one place.
type Import struct {
	// Backend is empty for the catalog's own Secrets.
	Backend string `json:"backend,omitempty"`
	Path    string `json:"path"`
	Plain   bool   `json:"plain,omitempty"`
}

// ConfigSet is such a resource.
type ConfigSet = Of[ConfigSetSpec]

// ConfigSets is their kind.
func ConfigSets() Type[ConfigSetSpec] {
	return Type[ConfigSetSpec]{
		Kind: store.KindConfigSet,
		Check: func(s *ConfigSet) error {
			if s.Spec.Project != "" && !IsName(s.Spec.Project) {
				return refusal.New(refusal.Invalid, "spec.project %q: is not a name of a project", s.Spec.Project)
			}
			for i, at := range s.Spec.Imports {
				if err := checkPlace(fmt.Sprintf("spec.imports[%d]", i), at.Backend, at.Path, at.Plain); err != nil {
					return err
				}
			}
			return checkSettings(s.Spec.Entries, "entries")
		},
		Refs: func(s ConfigSetSpec) []Reference {
			refs := RefsOfField(s.Entries, "spec.entries")
			for i, at := range s.Imports {
				refs = append(refs, placeRef(fmt.Sprintf("spec.imports[%d]", i), at.Backend, at.Path))
			}
			if s.Project != "" {
				refs = append(refs, RefTo(store.KindProject, s.Project, "spec.project"))
			}
			return refs
		},
	}
}
