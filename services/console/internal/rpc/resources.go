package rpc

import (
	"context"
	"errors"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

type sources struct{ Deps }

func (s *sources) GetSource(ctx context.Context, req *consolev1.GetSourceRequest) (*consolev1.GetSourceResponse, error) {
	out, err := s.Catalog.GetSource(ctx, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetSourceResponse{Source: encodeSource(out)}, nil
}

func (s *sources) ListSources(ctx context.Context, req *consolev1.ListSourcesRequest) (*consolev1.ListSourcesResponse, error) {
	list, next, err := s.Catalog.ListSources(ctx, page(req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := masked(req, each(list, encodeSource))
	return &consolev1.ListSourcesResponse{Sources: out, NextPageToken: next}, err
}

func (s *sources) UpdateSource(ctx context.Context, req *consolev1.UpdateSourceRequest) (*consolev1.UpdateSourceResponse, error) {
	in := decodeSource(req.GetSource())
	out, outcome, err := s.Catalog.UpdateSource(ctx, by(ctx), in, expectation(in.Meta, req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UpdateSourceResponse{Source: encodeSource(out), Outcome: encodeOutcome(outcome)}, nil
}

func (s *sources) DeleteSource(ctx context.Context, req *consolev1.DeleteSourceRequest) (*consolev1.DeleteSourceResponse, error) {
	if err := s.Catalog.DeleteSource(ctx, by(ctx), req.GetName(), req.GetEtag()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.DeleteSourceResponse{}, nil
}

type clusters struct{ Deps }

func (s *clusters) GetCluster(ctx context.Context, req *consolev1.GetClusterRequest) (*consolev1.GetClusterResponse, error) {
	out, err := s.Catalog.GetCluster(ctx, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetClusterResponse{Cluster: encodeCluster(out)}, nil
}

func (s *clusters) ListClusters(ctx context.Context, req *consolev1.ListClustersRequest) (*consolev1.ListClustersResponse, error) {
	list, next, err := s.Catalog.ListClusters(ctx, page(req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := masked(req, each(list, encodeCluster))
	return &consolev1.ListClustersResponse{Clusters: out, NextPageToken: next}, err
}

func (s *clusters) UpdateCluster(ctx context.Context, req *consolev1.UpdateClusterRequest) (*consolev1.UpdateClusterResponse, error) {
	in := decodeCluster(req.GetCluster())
	out, outcome, err := s.Catalog.UpdateCluster(ctx, by(ctx), in, expectation(in.Meta, req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UpdateClusterResponse{Cluster: encodeCluster(out), Outcome: encodeOutcome(outcome)}, nil
}

func (s *clusters) BatchUpdateClusters(ctx context.Context, req *consolev1.BatchUpdateClustersRequest) (*consolev1.BatchUpdateClustersResponse, error) {
	results, err := s.Catalog.UpdateClusters(ctx, by(ctx), each(req.GetRequests(), func(r *consolev1.UpdateClusterRequest) catalog.Update[catalog.Cluster] {
		in := decodeCluster(r.GetCluster())
		return catalog.Update[catalog.Cluster]{Resource: in, Want: expectation(in.Meta, r)}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.BatchUpdateClustersResponse{Responses: each(results, func(r catalog.Result[catalog.Cluster]) *consolev1.UpdateClusterResponse {
		return &consolev1.UpdateClusterResponse{Cluster: encodeCluster(r.Resource), Outcome: encodeOutcome(r.Outcome)}
	})}, nil
}

func (s *clusters) DeleteCluster(ctx context.Context, req *consolev1.DeleteClusterRequest) (*consolev1.DeleteClusterResponse, error) {
	if err := s.Catalog.DeleteCluster(ctx, by(ctx), req.GetName(), req.GetEtag()); err != nil {
		return nil, s.fail(ctx, err)
	}
	// The revocation is durable; without this it would be seen here only at the next reload.
	if err := s.Authority.Reload(ctx); err != nil {
		s.Log.WarnContext(ctx, "revocation is not in force yet", "cluster", req.GetName(), "err", err)
	}
	return &consolev1.DeleteClusterResponse{}, nil
}

type services struct{ Deps }

func (s *services) GetService(ctx context.Context, req *consolev1.GetServiceRequest) (*consolev1.GetServiceResponse, error) {
	out, err := s.Catalog.GetService(ctx, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetServiceResponse{Service: encodeService(out)}, nil
}

func (s *services) ListServices(ctx context.Context, req *consolev1.ListServicesRequest) (*consolev1.ListServicesResponse, error) {
	list, next, err := s.Catalog.ListServices(ctx, page(req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := masked(req, each(list, encodeService))
	return &consolev1.ListServicesResponse{Services: out, NextPageToken: next}, err
}

func (s *services) UpdateService(ctx context.Context, req *consolev1.UpdateServiceRequest) (*consolev1.UpdateServiceResponse, error) {
	in := decodeService(req.GetService())
	out, outcome, err := s.Catalog.UpdateService(ctx, by(ctx), in, expectation(in.Meta, req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UpdateServiceResponse{Service: encodeService(out), Outcome: encodeOutcome(outcome)}, nil
}

func (s *services) BatchUpdateServices(ctx context.Context, req *consolev1.BatchUpdateServicesRequest) (*consolev1.BatchUpdateServicesResponse, error) {
	results, err := s.Catalog.UpdateServices(ctx, by(ctx), each(req.GetRequests(), func(r *consolev1.UpdateServiceRequest) catalog.Update[catalog.Service] {
		in := decodeService(r.GetService())
		return catalog.Update[catalog.Service]{Resource: in, Want: expectation(in.Meta, r)}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.BatchUpdateServicesResponse{Responses: each(results, func(r catalog.Result[catalog.Service]) *consolev1.UpdateServiceResponse {
		return &consolev1.UpdateServiceResponse{Service: encodeService(r.Resource), Outcome: encodeOutcome(r.Outcome)}
	})}, nil
}

func (s *services) DeleteService(ctx context.Context, req *consolev1.DeleteServiceRequest) (*consolev1.DeleteServiceResponse, error) {
	if err := s.Catalog.DeleteService(ctx, by(ctx), req.GetName(), req.GetEtag(), req.GetConfirmation()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.DeleteServiceResponse{}, nil
}

type secrets struct{ Deps }

func (s *secrets) GetSecret(ctx context.Context, req *consolev1.GetSecretRequest) (*consolev1.GetSecretResponse, error) {
	out, err := s.Catalog.GetSecret(ctx, req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetSecretResponse{Secret: encodeSecret(out)}, nil
}

func (s *secrets) ListSecrets(ctx context.Context, req *consolev1.ListSecretsRequest) (*consolev1.ListSecretsResponse, error) {
	list, next, err := s.Catalog.ListSecrets(ctx, page(req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := masked(req, each(list, encodeSecret))
	return &consolev1.ListSecretsResponse{Secrets: out, NextPageToken: next}, err
}

func (s *secrets) UpdateSecret(ctx context.Context, req *consolev1.UpdateSecretRequest) (*consolev1.UpdateSecretResponse, error) {
	in := catalog.Secret{Meta: decodeMeta(req.GetSecret().GetMetadata()), Data: req.GetSecret().GetData()}
	out, outcome, err := s.Catalog.UpdateSecret(ctx, by(ctx), in, expectation(in.Meta, req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UpdateSecretResponse{Secret: encodeSecret(out), Outcome: encodeOutcome(outcome)}, nil
}

func (s *secrets) DeleteSecret(ctx context.Context, req *consolev1.DeleteSecretRequest) (*consolev1.DeleteSecretResponse, error) {
	if err := s.Catalog.DeleteSecret(ctx, by(ctx), req.GetName(), req.GetEtag()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.DeleteSecretResponse{}, nil
}

func (s *secrets) AccessSecret(ctx context.Context, req *consolev1.AccessSecretRequest) (*consolev1.AccessSecretResponse, error) {
	data, revision, err := s.Catalog.AccessSecret(ctx, actor(ctx), req.GetName())
	if refused, ok := errors.AsType[*catalog.Error](err); ok && refused.Reason == catalog.Forbidden {
		s.Accesses.Refused(who(ctx), req.GetName(), refused.Message)
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	s.Accesses.Secret(who(ctx), req.GetName(), revision)
	return &consolev1.AccessSecretResponse{Data: data, Revision: revision}, nil
}

func page(req listRequest) catalog.Page {
	return catalog.Page{Size: int(req.GetPageSize()), Token: req.GetPageToken(), Filter: req.GetFilter(), Order: req.GetOrderBy()}
}

// expectation is what all update requests have in common.
func expectation(meta catalog.Meta, req interface{ GetAllowMissing() bool }) catalog.Expectation {
	return catalog.Expectation{ETag: meta.ETag, AllowMissing: req.GetAllowMissing()}
}

func each[T, M any](list []T, encode func(T) M) []M {
	out := make([]M, len(list))
	for i, v := range list {
		out[i] = encode(v)
	}
	return out
}

func encodeKind(k store.Kind) consolev1.Kind {
	switch k {
	case store.KindSource:
		return consolev1.Kind_KIND_SOURCE
	case store.KindCluster:
		return consolev1.Kind_KIND_CLUSTER
	case store.KindService:
		return consolev1.Kind_KIND_SERVICE
	case store.KindSecret:
		return consolev1.Kind_KIND_SECRET
	case store.KindGrant:
		return consolev1.Kind_KIND_GRANT
	case store.KindProject:
		return consolev1.Kind_KIND_PROJECT
	case store.KindGlobalService:
		return consolev1.Kind_KIND_GLOBAL_SERVICE
	case store.KindRole:
		return consolev1.Kind_KIND_ROLE
	case store.KindConfigSet:
		return consolev1.Kind_KIND_CONFIG_SET
	case store.KindBackend:
		return consolev1.Kind_KIND_BACKEND
	case store.KindServiceAccount:
		return consolev1.Kind_KIND_SERVICE_ACCOUNT
	case store.KindSink:
		return consolev1.Kind_KIND_SINK
	}
	return consolev1.Kind_KIND_UNSPECIFIED
}
