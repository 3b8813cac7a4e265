package resource

import (
	"strings"

	"fairlead.dev/platform/kubename"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// ProjectSpec bounds what its services may be.
type ProjectSpec struct {
	Description string `json:"description,omitempty"`
	// Sources are names in which * stands for any text; none: no source.
	Sources []string `json:"sources,omitempty"`
	// Clusters is nil for none.
	Clusters *Selector `json:"clusters,omitempty"`
	// Namespaces that objects may be in, as patterns; none: any.
	Namespaces []string `json:"namespaces,omitempty"`
	// Kinds that objects may be of, as patterns of Kind.group; none: any that is in a namespace, if anything else is
	// said of objects. Agents hold these, and DeniedKinds.
	Kinds       []string `json:"kinds,omitempty"`
	DeniedKinds []string `json:"deniedKinds,omitempty"`
	// Accounts that services may be applied as, as patterns of namespace/name; none: see package accounts.
	Accounts []string `json:"accounts,omitempty"`
	// Config is the layer below all others of the configuration of its services.
	Config state.Settings `json:"config,omitempty"`
	// Windows say when new content of its services may be applied; Freeze, an operator's lever, that none may.
	Windows state.Windows `json:"windows,omitempty"`
	Freeze  *state.Freeze `json:"freeze,omitempty"`
	// Recording says what becomes of shells in its pods, as the API's enum; 0: they are not recorded.
	Recording int32 `json:"recording,omitempty"`
}

// Project is a bound for services.
type Project = Of[ProjectSpec]

// Projects is their kind.
func Projects() Type[ProjectSpec] {
	return Type[ProjectSpec]{Kind: store.KindProject, Check: func(p *Project) error {
		for i, pattern := range p.Spec.Sources {
			if !IsName(strings.ReplaceAll(pattern, "*", "x")) {
				return refusal.New(refusal.Invalid,
					"spec.sources[%d] %q: must be a name, in which * stands for any text", i, pattern)
			}
		}
		for i, pattern := range p.Spec.Namespaces {
			if !IsName(strings.ReplaceAll(pattern, "*", "x")) {
				return refusal.New(refusal.Invalid,
					"spec.namespaces[%d] %q: must be a namespace, in which * stands for any text", i, pattern)
			}
		}
		if err := checkKinds("spec.kinds", p.Spec.Kinds); err != nil {
			return err
		}
		if err := checkKinds("spec.deniedKinds", p.Spec.DeniedKinds); err != nil {
			return err
		}
		for i, pattern := range p.Spec.Accounts {
			if !kubename.IsAccount(strings.ReplaceAll(pattern, "*", "x")) {
				return refusal.New(refusal.Invalid, "spec.accounts[%d] %q: must be namespace/name of a Kubernetes service account, in which * stands for any text", i, pattern)
			}
		}
		if err := checkWindows(p.Spec.Windows, "windows"); err != nil {
			return err
		}
		return checkSettings(p.Spec.Config, "config")
	}, Refs: func(p ProjectSpec) []Reference { return RefsOfField(p.Config, "spec.config") }}
}

func checkKinds(field string, patterns []string) error {
	for i, pattern := range patterns {
		if !kindPattern.MatchString(pattern) {
			return refusal.New(refusal.Invalid, "%s[%d] %q: must be a kind with its group, as Deployment.apps or ConfigMap, in which * stands for any text", field, i, pattern)
		}
	}
	return nil
}
