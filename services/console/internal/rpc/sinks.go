package rpc

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	rules "fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/kinds/sink"
	"fairlead.dev/services/console/internal/store"
)

func sinkMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.SinkServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewSinkServiceHandler(&sinks{d}, o...)
		}),
	}
}

func sinkPolicy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.SinkServiceGetSinkProcedure:    identity.RoleUser,
		consolev1connect.SinkServiceListSinksProcedure:  identity.RoleUser,
		consolev1connect.SinkServiceUpdateSinkProcedure: identity.RoleUser,
		consolev1connect.SinkServiceDeleteSinkProcedure: identity.RoleUser,
		consolev1connect.SinkServiceTestSinkProcedure:   identity.RoleUser,
	}
}

type sinks struct{ Deps }

func (s *sinks) GetSink(ctx context.Context, req *consolev1.GetSinkRequest) (*consolev1.GetSinkResponse, error) {
	out, err := serve(s.Deps, sink.Kind()).Get(ctx, req)
	return &consolev1.GetSinkResponse{Sink: out}, err
}

func (s *sinks) ListSinks(ctx context.Context, req *consolev1.ListSinksRequest) (*consolev1.ListSinksResponse, error) {
	out, next, err := serve(s.Deps, sink.Kind()).List(ctx, req)
	return &consolev1.ListSinksResponse{Sinks: out, NextPageToken: next}, err
}

func (s *sinks) UpdateSink(ctx context.Context, req *consolev1.UpdateSinkRequest) (*consolev1.UpdateSinkResponse, error) {
	out, outcome, err := serve(s.Deps, sink.Kind()).Update(ctx, req.GetSink(), req)
	return &consolev1.UpdateSinkResponse{Sink: out, Outcome: outcome}, err
}

func (s *sinks) DeleteSink(ctx context.Context, req *consolev1.DeleteSinkRequest) (*consolev1.DeleteSinkResponse, error) {
	return &consolev1.DeleteSinkResponse{}, serve(s.Deps, sink.Kind()).Delete(ctx, req)
}

func (s *sinks) TestSink(ctx context.Context, req *consolev1.TestSinkRequest) (*consolev1.TestSinkResponse, error) {
	is, err := catalog.Get(ctx, s.Catalog, store.KindSink, req.GetName(), catalog.Sinks().Load) // a caller that may not see the sink is told that there is none
	if err == nil {
		err = s.Rights.May(ctx, rules.Edit, rules.Target{Kind: rules.Sink, Name: is.Meta.Name, Project: is.Spec.Project})
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	s.Accesses.Tell(call.Who(ctx), audit.Act{Action: "sink.test", Resource: "sink", Name: is.Meta.Name})
	began := time.Now()
	answer, accepted, err := s.Sinks.Test(ctx, req.GetName(), call.Actor(ctx))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.TestSinkResponse{Answer: answer, Accepted: accepted, Duration: durationpb.New(time.Since(began))}, nil
}
