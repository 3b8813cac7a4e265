package role

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

func decode(r *consolev1.Role) resource.Role {
	spec := resource.RoleSpec{Description: r.GetSpec().GetDescription(), Kubernetes: r.GetSpec().GetKubernetes()}
	for _, rule := range r.GetSpec().GetRules() {
		spec.Rules = append(spec.Rules, resource.RoleRule{Verbs: rule.GetVerbs(), Kinds: rule.GetKinds()})
	}
	return resource.Role{Meta: descriptor.Meta(r.GetMetadata()), Spec: spec}
}

func encode(r resource.Role) *consolev1.Role {
	return &consolev1.Role{Metadata: descriptor.Metadata(r.Meta), Spec: authz.Role(r.Spec)}
}
