package resource

import (
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/store"
)

// RoleSpec is a role of one's own.
type RoleSpec struct {
	Description string     `json:"description,omitempty"`
	Rules       []RoleRule `json:"rules,omitempty"`
	// Kubernetes is the role that it counts as at the Kubernetes APIs; empty: none.
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Role is such a resource.
type Role = Of[RoleSpec]

// RoleRule allows verbs on kinds.
type RoleRule struct {
	Verbs []string `json:"verbs"`
	Kinds []string `json:"kinds"`
}

// Roles is the kind of roles of one's own.
func Roles() Type[RoleSpec] {
	return Type[RoleSpec]{Kind: store.KindRole, Check: func(r *Role) error {
		if access.IsBuiltin(r.Meta.Name) {
			return refusal.New(refusal.Invalid, "role %q is always there and can't be changed: choose another name", r.Meta.Name)
		}
		for i, rule := range r.Spec.Rules {
			if err := access.CheckRule(rule.Verbs, rule.Kinds); err != nil {
				return refusal.New(refusal.Invalid, "spec.rules[%d].kinds: %v", i, err)
			}
		}
		return nil
	}}
}

// ServiceAccountSpec is an account of a program.
type ServiceAccountSpec struct {
	Description string `json:"description,omitempty"`
	// Disabled says that its tokens count for nothing.
	Disabled bool `json:"disabled,omitempty"`
}

// ServiceAccount is such a resource.
type ServiceAccount = Of[ServiceAccountSpec]

// ServiceAccounts is the kind of accounts of programs.
func ServiceAccounts() Type[ServiceAccountSpec] {
	return Type[ServiceAccountSpec]{Kind: store.KindServiceAccount}
}
