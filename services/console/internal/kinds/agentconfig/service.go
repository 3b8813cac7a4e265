package agentconfig

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/descriptor"
)

func mount(door descriptor.Door) server.Mount {
	return server.RPC(consolev1connect.AgentConfigServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewAgentConfigServiceHandler(&service{descriptor.Service[AgentConfig, *consolev1.AgentConfig]{Of: described(), Door: door}}, o...)
	})
}

func policy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.AgentConfigServiceGetAgentConfigProcedure:    identity.RoleUser,
		consolev1connect.AgentConfigServiceListAgentConfigsProcedure:  identity.RoleUser,
		consolev1connect.AgentConfigServiceUpdateAgentConfigProcedure: identity.RoleUser,
		consolev1connect.AgentConfigServiceDeleteAgentConfigProcedure: identity.RoleUser,
	}
}

type service struct {
	descriptor.Service[AgentConfig, *consolev1.AgentConfig]
}

func (s *service) GetAgentConfig(ctx context.Context, req *consolev1.GetAgentConfigRequest) (*consolev1.GetAgentConfigResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetAgentConfigResponse{AgentConfig: out}, err
}

func (s *service) ListAgentConfigs(ctx context.Context, req *consolev1.ListAgentConfigsRequest) (*consolev1.ListAgentConfigsResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListAgentConfigsResponse{AgentConfigs: out, NextPageToken: next}, err
}

func (s *service) UpdateAgentConfig(ctx context.Context, req *consolev1.UpdateAgentConfigRequest) (*consolev1.UpdateAgentConfigResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetAgentConfig(), req)
	return &consolev1.UpdateAgentConfigResponse{AgentConfig: out, Outcome: outcome}, err
}

func (s *service) DeleteAgentConfig(ctx context.Context, req *consolev1.DeleteAgentConfigRequest) (*consolev1.DeleteAgentConfigResponse, error) {
	return &consolev1.DeleteAgentConfigResponse{}, s.Delete(ctx, req)
}
