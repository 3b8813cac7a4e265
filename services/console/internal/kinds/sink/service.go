package sink

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
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	deliver "fairlead.dev/services/console/internal/sink"
	"fairlead.dev/services/console/internal/store"
)

// Deps is what the API of the kind works with.
type Deps struct {
	descriptor.Door
	Rights *authz.Rules
	// Sinks delivers to sinks.
	Sinks    *deliver.Deliverer
	Accesses *audit.Accesses
}

// Mount serves the API of the kind.
func Mount(d Deps) server.Mount {
	return server.RPC(consolev1connect.SinkServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewSinkServiceHandler(&service{
			Service: descriptor.Service[resource.Sink, *consolev1.Sink]{Of: Kind(), Door: d.Door}, deps: d,
		}, o...)
	})
}

func policy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.SinkServiceGetSinkProcedure:    identity.RoleUser,
		consolev1connect.SinkServiceListSinksProcedure:  identity.RoleUser,
		consolev1connect.SinkServiceUpdateSinkProcedure: identity.RoleUser,
		consolev1connect.SinkServiceDeleteSinkProcedure: identity.RoleUser,
		consolev1connect.SinkServiceTestSinkProcedure:   identity.RoleUser,
	}
}

type service struct {
	descriptor.Service[resource.Sink, *consolev1.Sink]
	deps Deps
}

func (s *service) GetSink(ctx context.Context, req *consolev1.GetSinkRequest) (*consolev1.GetSinkResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetSinkResponse{Sink: out}, err
}

func (s *service) ListSinks(ctx context.Context, req *consolev1.ListSinksRequest) (*consolev1.ListSinksResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListSinksResponse{Sinks: out, NextPageToken: next}, err
}

func (s *service) UpdateSink(ctx context.Context, req *consolev1.UpdateSinkRequest) (*consolev1.UpdateSinkResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetSink(), req)
	return &consolev1.UpdateSinkResponse{Sink: out, Outcome: outcome}, err
}

func (s *service) DeleteSink(ctx context.Context, req *consolev1.DeleteSinkRequest) (*consolev1.DeleteSinkResponse, error) {
	return &consolev1.DeleteSinkResponse{}, s.Delete(ctx, req)
}

func (s *service) TestSink(ctx context.Context, req *consolev1.TestSinkRequest) (*consolev1.TestSinkResponse, error) {
	is, err := catalog.Get(ctx, s.Catalog, store.KindSink, req.GetName(), resource.Sinks().Load) // a caller that may not see the sink is told that there is none
	if err == nil {
		err = s.deps.Rights.May(ctx, rules.Edit, rules.Target{Kind: rules.Sink, Name: is.Meta.Name, Project: is.Spec.Project})
	}
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	s.deps.Accesses.Tell(call.Who(ctx), audit.Act{Action: "sink.test", Resource: "sink", Name: is.Meta.Name})
	began := time.Now()
	answer, accepted, err := s.deps.Sinks.Test(ctx, req.GetName(), call.Actor(ctx))
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.TestSinkResponse{Answer: answer, Accepted: accepted, Duration: durationpb.New(time.Since(began))}, nil
}
