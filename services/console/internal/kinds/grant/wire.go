package grant

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

func decode(g *consolev1.Grant) resource.Grant {
	spec, clusters := g.GetSpec(), g.GetSpec().GetClusters()
	out := resource.Grant{Meta: descriptor.Meta(g.GetMetadata()), Spec: resource.GrantSpec{
		Role: spec.GetRole(), Projects: spec.GetProjects(),
		Clusters: resource.GrantClusters{Names: clusters.GetNames(), Labels: clusters.GetLabels(), All: clusters.GetAll()},
	}}
	if until := spec.GetUntilTime(); until != nil {
		out.Spec.Until = until.AsTime()
	}
	for _, s := range spec.GetSubjects() {
		switch who := s.GetSubject().(type) {
		case *consolev1.GrantSubject_User:
			out.Spec.Users = append(out.Spec.Users, who.User)
		case *consolev1.GrantSubject_Group:
			out.Spec.Groups = append(out.Spec.Groups, who.Group)
		case *consolev1.GrantSubject_ServiceAccount:
			out.Spec.ServiceAccounts = append(out.Spec.ServiceAccounts, who.ServiceAccount)
		}
	}
	return out
}

func encode(g resource.Grant) *consolev1.Grant {
	return &consolev1.Grant{Metadata: descriptor.Metadata(g.Meta), Spec: authz.Grant(g.Spec)}
}
