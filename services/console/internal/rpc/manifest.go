package rpc

import (
	"context"
	"fmt"
	"time"

	"fairlead.dev/deploy"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
)

// maxReplicas of an agent: one works, another stands by.
const maxReplicas = 5

func (s *clusters) RenderAgentManifest(ctx context.Context, req *consolev1.RenderAgentManifestRequest) (*consolev1.RenderAgentManifestResponse, error) {
	values := req.GetValues().AsMap()
	replicas, err := replicas(values)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if _, ok := values["createNamespace"]; !ok {
		values["createNamespace"] = true
	}
	fill(values, "hub", "url", s.Endpoints.Console())
	if req.GetHubCa() != "" {
		fill(values, "hub", "ca", req.GetHubCa())
	}
	fill(values, "join", "tokens", []any{})
	// Before there are tokens: values that the chart refuses make none.
	if _, err := deploy.Agent(values, version.String()); err != nil {
		return nil, s.fail(ctx, refusal.New(refusal.Invalid, "%s", err))
	}
	var tokens []any
	var expire time.Time
	for range replicas {
		token, until, err := s.Authority.CreateJoinToken(ctx, call.Who(ctx), req.GetCluster())
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		tokens, expire = append(tokens, token), until
	}
	values["join"] = map[string]any{"tokens": tokens}
	manifest, err := deploy.Agent(values, version.String())
	if err != nil {
		return nil, s.fail(ctx, fmt.Errorf("render the agent's manifest: %w", err))
	}
	return &consolev1.RenderAgentManifestResponse{Manifest: string(manifest), ExpireTime: descriptor.Stamp(expire)}, nil
}

// replicas says how many agents want a token each.
func replicas(values map[string]any) (int, error) {
	given, ok := values["replicas"]
	if !ok {
		return 1, nil
	}
	count, ok := given.(float64)
	if !ok || count != float64(int(count)) || count < 1 || count > maxReplicas {
		return 0, refusal.New(refusal.Invalid, "replicas must be a number from 1 to %d", maxReplicas)
	}
	return int(count), nil
}

// fill sets a value that the caller has not set.
func fill(values map[string]any, part, key string, value any) {
	inner, ok := values[part].(map[string]any)
	if !ok {
		if values[part] != nil {
			return // of a wrong kind, which the chart refuses
		}
		inner = map[string]any{}
		values[part] = inner
	}
	if _, ok := inner[key]; !ok {
		inner[key] = value
	}
}
