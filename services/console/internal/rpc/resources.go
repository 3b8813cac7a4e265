package rpc

import (
	"context"
	"errors"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
)

type sources struct{ Deps }

func (s *sources) GetSource(ctx context.Context, req *consolev1.GetSourceRequest) (*consolev1.GetSourceResponse, error) {
	out, err := serve(s.Deps, sourceKind()).Get(ctx, req)
	return &consolev1.GetSourceResponse{Source: out}, err
}

func (s *sources) ListSources(ctx context.Context, req *consolev1.ListSourcesRequest) (*consolev1.ListSourcesResponse, error) {
	out, next, err := serve(s.Deps, sourceKind()).List(ctx, req)
	return &consolev1.ListSourcesResponse{Sources: out, NextPageToken: next}, err
}

func (s *sources) UpdateSource(ctx context.Context, req *consolev1.UpdateSourceRequest) (*consolev1.UpdateSourceResponse, error) {
	out, outcome, err := serve(s.Deps, sourceKind()).Update(ctx, req.GetSource(), req)
	return &consolev1.UpdateSourceResponse{Source: out, Outcome: outcome}, err
}

func (s *sources) DeleteSource(ctx context.Context, req *consolev1.DeleteSourceRequest) (*consolev1.DeleteSourceResponse, error) {
	return &consolev1.DeleteSourceResponse{}, serve(s.Deps, sourceKind()).Delete(ctx, req)
}

type clusters struct{ Deps }

func (s *clusters) GetCluster(ctx context.Context, req *consolev1.GetClusterRequest) (*consolev1.GetClusterResponse, error) {
	out, err := serve(s.Deps, clusterKind()).Get(ctx, req)
	return &consolev1.GetClusterResponse{Cluster: out}, err
}

func (s *clusters) ListClusters(ctx context.Context, req *consolev1.ListClustersRequest) (*consolev1.ListClustersResponse, error) {
	out, next, err := serve(s.Deps, clusterKind()).List(ctx, req)
	return &consolev1.ListClustersResponse{Clusters: out, NextPageToken: next}, err
}

func (s *clusters) UpdateCluster(ctx context.Context, req *consolev1.UpdateClusterRequest) (*consolev1.UpdateClusterResponse, error) {
	out, outcome, err := serve(s.Deps, clusterKind()).Update(ctx, req.GetCluster(), req)
	return &consolev1.UpdateClusterResponse{Cluster: out, Outcome: outcome}, err
}

func (s *clusters) BatchUpdateClusters(ctx context.Context, req *consolev1.BatchUpdateClustersRequest) (*consolev1.BatchUpdateClustersResponse, error) {
	results, err := s.Catalog.UpdateClusters(ctx, call.By(ctx), descriptor.Each(req.GetRequests(), func(r *consolev1.UpdateClusterRequest) catalog.Update[state.Cluster] {
		in := decodeCluster(r.GetCluster())
		return catalog.Update[state.Cluster]{Resource: in, Want: expectation(in.Meta, r)}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.BatchUpdateClustersResponse{Responses: descriptor.Each(results, func(r catalog.Result[state.Cluster]) *consolev1.UpdateClusterResponse {
		return &consolev1.UpdateClusterResponse{Cluster: encodeCluster(r.Resource), Outcome: descriptor.Outcome(r.Outcome)}
	})}, nil
}

func (s *clusters) DeleteCluster(ctx context.Context, req *consolev1.DeleteClusterRequest) (*consolev1.DeleteClusterResponse, error) {
	if err := serve(s.Deps, clusterKind()).Delete(ctx, req); err != nil {
		return nil, err
	}
	// The revocation is durable; without this it would be seen here only at the next reload.
	if err := s.Authority.Reload(ctx); err != nil {
		s.Log.WarnContext(ctx, "revocation is not in force yet", "cluster", req.GetName(), "err", err)
	}
	return &consolev1.DeleteClusterResponse{}, nil
}

type services struct{ Deps }

func (s *services) GetService(ctx context.Context, req *consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
	out, err := serve(s.Deps, serviceKind()).Get(ctx, req)
	return &consolev1.GetServiceResponse{Service: out}, err
}

func (s *services) ListServices(ctx context.Context, req *consolev1.ListServicesRequest) (*consolev1.ListServicesResponse, error) {
	out, next, err := serve(s.Deps, serviceKind()).List(ctx, req)
	return &consolev1.ListServicesResponse{Services: out, NextPageToken: next}, err
}

func (s *services) UpdateService(ctx context.Context, req *consolev1.UpdateServiceRequest) (*consolev1.UpdateServiceResponse, error) {
	out, outcome, err := serve(s.Deps, serviceKind()).Update(ctx, req.GetService(), req)
	return &consolev1.UpdateServiceResponse{Service: out, Outcome: outcome}, err
}

func (s *services) BatchUpdateServices(ctx context.Context, req *consolev1.BatchUpdateServicesRequest) (*consolev1.BatchUpdateServicesResponse, error) {
	results, err := s.Catalog.UpdateServices(ctx, call.By(ctx), descriptor.Each(req.GetRequests(), func(r *consolev1.UpdateServiceRequest) catalog.Update[state.Service] {
		in := decodeService(r.GetService())
		return catalog.Update[state.Service]{Resource: in, Want: expectation(in.Meta, r)}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.BatchUpdateServicesResponse{Responses: descriptor.Each(results, func(r catalog.Result[state.Service]) *consolev1.UpdateServiceResponse {
		return &consolev1.UpdateServiceResponse{Service: encodeService(r.Resource), Outcome: descriptor.Outcome(r.Outcome)}
	})}, nil
}

func (s *services) DeleteService(ctx context.Context, req *consolev1.DeleteServiceRequest) (*consolev1.DeleteServiceResponse, error) {
	if err := s.Catalog.DeleteService(ctx, call.By(ctx), req.GetName(), req.GetEtag(), req.GetConfirmation()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.DeleteServiceResponse{}, nil
}

type secrets struct{ Deps }

func (s *secrets) GetSecret(ctx context.Context, req *consolev1.GetSecretRequest) (*consolev1.GetSecretResponse, error) {
	out, err := serve(s.Deps, secretKind()).Get(ctx, req)
	return &consolev1.GetSecretResponse{Secret: out}, err
}

func (s *secrets) ListSecrets(ctx context.Context, req *consolev1.ListSecretsRequest) (*consolev1.ListSecretsResponse, error) {
	out, next, err := serve(s.Deps, secretKind()).List(ctx, req)
	return &consolev1.ListSecretsResponse{Secrets: out, NextPageToken: next}, err
}

func (s *secrets) UpdateSecret(ctx context.Context, req *consolev1.UpdateSecretRequest) (*consolev1.UpdateSecretResponse, error) {
	out, outcome, err := serve(s.Deps, secretKind()).Update(ctx, req.GetSecret(), req)
	return &consolev1.UpdateSecretResponse{Secret: out, Outcome: outcome}, err
}

func (s *secrets) DeleteSecret(ctx context.Context, req *consolev1.DeleteSecretRequest) (*consolev1.DeleteSecretResponse, error) {
	return &consolev1.DeleteSecretResponse{}, serve(s.Deps, secretKind()).Delete(ctx, req)
}

func (s *secrets) AccessSecret(ctx context.Context, req *consolev1.AccessSecretRequest) (*consolev1.AccessSecretResponse, error) {
	data, revision, err := s.Catalog.AccessSecret(ctx, call.Actor(ctx), req.GetName())
	if refused, ok := errors.AsType[*refusal.Error](err); ok && refused.Reason == refusal.Forbidden {
		s.Accesses.Refused(call.Who(ctx), req.GetName(), refused.Message)
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	s.Accesses.Secret(call.Who(ctx), req.GetName(), revision)
	return &consolev1.AccessSecretResponse{Data: data, Revision: revision}, nil
}

// expectation is what all update requests have in common.
func expectation(meta state.Meta, req interface{ GetAllowMissing() bool }) catalog.Expectation {
	return catalog.Expectation{ETag: meta.ETag, AllowMissing: req.GetAllowMissing()}
}

func decodeSecret(s *consolev1.Secret) resource.Secret {
	return resource.Secret{Meta: descriptor.Meta(s.GetMetadata()), Data: s.GetData()}
}
