package rpc

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/rights"
)

type grants struct{ Deps }

func (s *grants) GetGrant(ctx context.Context, req *consolev1.GetGrantRequest) (*consolev1.GetGrantResponse, error) {
	out, err := s.Catalog.GetGrant(ctx, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetGrantResponse{Grant: encodeGrant(out)}, nil
}

func (s *grants) ListGrants(ctx context.Context, req *consolev1.ListGrantsRequest) (*consolev1.ListGrantsResponse, error) {
	list, next, err := s.Catalog.ListGrants(ctx, page(req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := masked(req, each(list, encodeGrant))
	return &consolev1.ListGrantsResponse{Grants: out, NextPageToken: next}, err
}

func (s *grants) UpdateGrant(ctx context.Context, req *consolev1.UpdateGrantRequest) (*consolev1.UpdateGrantResponse, error) {
	in := decodeGrant(req.GetGrant())
	out, outcome, err := s.Catalog.UpdateGrant(ctx, by(ctx), in, expectation(in.Meta, req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UpdateGrantResponse{Grant: encodeGrant(out), Outcome: encodeOutcome(outcome)}, nil
}

func (s *grants) DeleteGrant(ctx context.Context, req *consolev1.DeleteGrantRequest) (*consolev1.DeleteGrantResponse, error) {
	if err := s.Catalog.DeleteGrant(ctx, by(ctx), req.GetName(), req.GetEtag()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.DeleteGrantResponse{}, nil
}

func decodeGrant(g *consolev1.Grant) catalog.Grant {
	spec, clusters := g.GetSpec(), g.GetSpec().GetClusters()
	out := catalog.Grant{Meta: decodeMeta(g.GetMetadata()), Spec: catalog.GrantSpec{
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
	return &consolev1.Grant{Metadata: encodeMeta(g.Meta), Spec: rights.Grant(g.Spec)}
}
