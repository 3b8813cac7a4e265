package rpc

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/rights"
)

type grants struct{ Deps }

func (s *grants) GetGrant(ctx context.Context, req *consolev1.GetGrantRequest) (*consolev1.GetGrantResponse, error) {
	out, err := serve(s.Deps, grantKind()).Get(ctx, req)
	return &consolev1.GetGrantResponse{Grant: out}, err
}

func (s *grants) ListGrants(ctx context.Context, req *consolev1.ListGrantsRequest) (*consolev1.ListGrantsResponse, error) {
	out, next, err := serve(s.Deps, grantKind()).List(ctx, req)
	return &consolev1.ListGrantsResponse{Grants: out, NextPageToken: next}, err
}

func (s *grants) UpdateGrant(ctx context.Context, req *consolev1.UpdateGrantRequest) (*consolev1.UpdateGrantResponse, error) {
	out, outcome, err := serve(s.Deps, grantKind()).Update(ctx, req.GetGrant(), req)
	return &consolev1.UpdateGrantResponse{Grant: out, Outcome: outcome}, err
}

func (s *grants) DeleteGrant(ctx context.Context, req *consolev1.DeleteGrantRequest) (*consolev1.DeleteGrantResponse, error) {
	return &consolev1.DeleteGrantResponse{}, serve(s.Deps, grantKind()).Delete(ctx, req)
}

func decodeGrant(g *consolev1.Grant) catalog.Grant {
	spec, clusters := g.GetSpec(), g.GetSpec().GetClusters()
	out := catalog.Grant{Meta: descriptor.Meta(g.GetMetadata()), Spec: catalog.GrantSpec{
		Role: spec.GetRole(), Projects: spec.GetProjects(),
		Clusters: catalog.GrantClusters{Names: clusters.GetNames(), Labels: clusters.GetLabels(), All: clusters.GetAll()},
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

func encodeGrant(g catalog.Grant) *consolev1.Grant {
	return &consolev1.Grant{Metadata: descriptor.Metadata(g.Meta), Spec: rights.Grant(g.Spec)}
}
