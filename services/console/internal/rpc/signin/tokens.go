package signin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	rules "fairlead.dev/platform/access"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/identity"
)

type tokens struct{ Deps }

func (s *tokens) CreateToken(ctx context.Context, req *consolev1.CreateTokenRequest) (*consolev1.CreateTokenResponse, error) {
	caller, _ := platform.FromContext(ctx)
	owner := caller
	if account := req.GetServiceAccount(); account != "" {
		if !caller.Has(platform.RoleAdmin) {
			return nil, connect.NewError(connect.CodePermissionDenied, errors.New("only administrators make tokens for service accounts: leave serviceAccount out for one of your own"))
		}
		owner = platform.ServiceAccount(account)
	}
	limits, err := s.decodeLimits(ctx, req.GetLimits())
	if err != nil {
		return nil, err
	}
	text, info, err := s.Authority.CreateAPIToken(ctx, call.Who(ctx), owner, limits, req.GetDescription(), req.GetLifetime().AsDuration())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.CreateTokenResponse{Token: text, Info: encodeAPIToken(info)}, nil
}

// decodeLimits returns nil for none.
func (s *tokens) decodeLimits(ctx context.Context, in *consolev1.TokenLimits) (*platform.Limits, error) {
	clusters := in.GetClusters()
	if clusters.GetWhere() != "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("limits.clusters.where: can't bound a token: use names, labels or all"))
	}
	if in.GetRole() == "" && len(in.GetProjects()) == 0 && (clusters == nil || clusters.GetAll()) {
		return nil, nil //nolint:nilnil // no limits is an answer
	}
	out := &platform.Limits{Role: in.GetRole(), Projects: in.GetProjects()}
	if clusters != nil && !clusters.GetAll() {
		out.Clusters = &platform.Clusters{Names: clusters.GetNames(), Labels: clusters.GetLabels()}
	}
	if out.Role != "" && !rules.IsBuiltin(out.Role) {
		known, err := s.Rights.HasRole(ctx, out.Role)
		if err != nil {
			return nil, s.Fail(ctx, err)
		}
		if !known {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("limits.role: there is no role %q: see `fairlead get roles`", out.Role))
		}
	}
	return out, nil
}

// maxTokens is how many are listed at once.
const maxTokens = 1000

func (s *tokens) ListTokens(ctx context.Context, req *consolev1.ListTokensRequest) (*consolev1.ListTokensResponse, error) {
	caller, _ := platform.FromContext(ctx)
	subject := caller.Subject()
	switch {
	case caller.Has(platform.RoleAdmin) && req.GetSubject() == "":
		subject = ""
	case req.GetSubject() != "" && req.GetSubject() != shownSubject(caller):
		if !caller.Has(platform.RoleAdmin) {
			return nil, connect.NewError(connect.CodePermissionDenied, errors.New("only administrators see the tokens of others: leave the subject out"))
		}
		id, err := identityOf(req.GetSubject(), nil)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		subject = id.Subject()
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: is not one that a list returned"))
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = 100
	}
	list, next, err := s.Authority.ListAPITokens(ctx, subject, string(after), min(size, maxTokens))
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	out := &consolev1.ListTokensResponse{Tokens: descriptor.Each(list, encodeAPIToken)}
	if next != "" {
		out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	return out, nil
}

func (s *tokens) RevokeToken(ctx context.Context, req *consolev1.RevokeTokenRequest) (*consolev1.RevokeTokenResponse, error) {
	caller, _ := platform.FromContext(ctx)
	owner := caller.Subject()
	if caller.Has(platform.RoleAdmin) {
		owner = ""
	}
	if err := s.Authority.RevokeAPIToken(ctx, call.Who(ctx), req.GetId(), owner); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.RevokeTokenResponse{}, nil
}

func (s *tokens) ExchangeToken(ctx context.Context, req *consolev1.ExchangeTokenRequest) (*consolev1.ExchangeTokenResponse, error) {
	token, err := s.Authority.Exchange(ctx, call.Peer(ctx), req.GetToken())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	s.tellToken(ctx, token, "token.exchange", "of API token "+token.Identity.Parent+" until "+token.Identity.ExpiresAt.Format(time.RFC3339))
	return &consolev1.ExchangeTokenResponse{Token: token.Text, ExpireTime: descriptor.Stamp(token.Identity.ExpiresAt)}, nil
}

func encodeAPIToken(t identity.APIToken) *consolev1.APIToken {
	out := &consolev1.APIToken{
		Id: t.ID, Subject: shownName(t.Subject), Description: t.Description, Creator: shownName(t.Creator),
		CreateTime: descriptor.Stamp(t.CreateTime), ExpireTime: descriptor.Stamp(t.ExpireTime), LastUseTime: descriptor.Stamp(t.LastUse),
	}
	if l := t.Limits; l != nil {
		out.Limits = &consolev1.TokenLimits{Role: l.Role, Projects: l.Projects}
		if l.Clusters != nil {
			out.Limits.Clusters = &consolev1.ClusterSelector{Names: l.Clusters.Names, Labels: l.Clusters.Labels, All: l.Clusters.All}
		}
	}
	return out
}
