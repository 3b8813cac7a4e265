package signin

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/identity"
)

type identities struct{ Deps }

func (s *identities) ExchangeHubSecret(ctx context.Context, req *consolev1.ExchangeHubSecretRequest) (*consolev1.ExchangeHubSecretResponse, error) {
	as := platform.Identity{Kind: platform.KindService, Name: req.GetService()}
	if name := req.GetAdministrator(); name != "" {
		as = platform.Identity{Kind: platform.KindUser, Name: name, Groups: []string{platform.AdminsGroup}}
	}
	exchange := s.Authority.ExchangeHubSecret
	if req.GetProgram() {
		exchange = s.Authority.LogInProgram
	}
	token, err := exchange(ctx, call.Who(ctx), call.Peer(ctx), req.GetHubSecret(), as)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	if as.Kind == platform.KindService { // of a person the login is in the trail
		s.tellToken(ctx, token, "login.service", "by the hub secret")
	}
	return &consolev1.ExchangeHubSecretResponse{Token: encodeToken(token), Endpoints: s.endpoints()}, nil
}

func (s *identities) JoinCluster(ctx context.Context, req *consolev1.JoinClusterRequest) (*consolev1.JoinClusterResponse, error) {
	join := identity.Join{Token: req.GetJoinToken(), Cluster: req.GetCluster()}
	if m := req.GetKey(); m != nil {
		var ok bool
		if join.Key, ok = platform.JoinKey(m, join.Token); !ok {
			return nil, connect.NewError(connect.CodeUnauthenticated, errNotProved)
		}
	}
	token, cluster, err := s.Authority.JoinCluster(ctx, call.Who(ctx), call.Peer(ctx), join)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.JoinClusterResponse{Token: encodeToken(token), Cluster: cluster, Endpoints: s.endpoints()}, nil
}

func (s *identities) RenewToken(ctx context.Context, req *consolev1.RenewTokenRequest) (*consolev1.RenewTokenResponse, error) {
	caller, _ := platform.FromContext(ctx) // the policy has seen to it
	token, err := s.renew(ctx, caller, req)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	if lifetime := req.GetLifetime().AsDuration(); lifetime > 0 {
		reason := "until " + token.Identity.ExpiresAt.Format(time.RFC3339)
		if req.GetRequestsOutlive() {
			reason += ", its requests until " + token.Identity.RequestsEnd().Format(time.RFC3339)
		}
		s.tellToken(ctx, token, "token.lend", reason)
	} else {
		s.tellToken(ctx, token, "token.renew", "until "+token.Identity.ExpiresAt.Format(time.RFC3339))
	}
	return &consolev1.RenewTokenResponse{Token: encodeToken(token), Endpoints: s.endpoints()}, nil
}

var errNotProved = errors.New("key: its signature does not show that the caller has the private key")

// renew renews a token; that of an agent with a key as the next of its line.
func (s *identities) renew(ctx context.Context, caller platform.Identity, req *consolev1.RenewTokenRequest) (identity.Token, error) {
	loan := identity.Loan{Lifetime: req.GetLifetime().AsDuration(), RequestsOutlive: req.GetRequestsOutlive()}
	switch {
	case caller.Kind != platform.KindAgent || loan != (identity.Loan{}) || req.GetKey() == nil && (caller.Key == "" || s.Authority.Unbound):
		return s.Authority.Renew(ctx, caller, loan)
	case req.GetKey() == nil:
		return identity.Token{}, connect.NewError(connect.CodeInvalidArgument, errors.New("key: a token that is bound to a key is renewed with it"))
	}
	info, _ := connect.CallInfoForHandlerContext(ctx) // there is one in a handler
	key, ok := platform.RenewalKey(req.GetKey(), platform.TokenOf(info.RequestHeader()))
	if !ok {
		return identity.Token{}, connect.NewError(connect.CodeUnauthenticated, errNotProved)
	}
	return s.Authority.RenewAgent(ctx, call.Who(ctx), caller, key, req.GetKey().GetRequest())
}

func (s *identities) CreateUserToken(ctx context.Context, req *consolev1.CreateUserTokenRequest) (*consolev1.CreateUserTokenResponse, error) {
	token, err := s.Authority.CreateUserToken(ctx, call.Who(ctx), req.GetUser(), req.GetGroups(), req.GetLifetime().AsDuration())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.CreateUserTokenResponse{Token: encodeToken(token), Endpoints: s.endpoints()}, nil
}

func (s *identities) CreateJoinToken(ctx context.Context, req *consolev1.CreateJoinTokenRequest) (*consolev1.CreateJoinTokenResponse, error) {
	token, expire, err := s.Authority.CreateJoinToken(ctx, call.Who(ctx), req.GetCluster())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.CreateJoinTokenResponse{JoinToken: token, ExpireTime: descriptor.Stamp(expire)}, nil
}

func (s *identities) RevokeTokens(ctx context.Context, req *consolev1.RevokeTokensRequest) (*consolev1.RevokeTokensResponse, error) {
	unknown, err := s.Authority.Revoke(ctx, call.Who(ctx), req.GetTokenId(), req.GetSubject())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.RevokeTokensResponse{Unknown: unknown}, nil
}

func (s *identities) GetTrustBundle(context.Context, *consolev1.GetTrustBundleRequest) (*consolev1.GetTrustBundleResponse, error) {
	return s.Authority.Bundle().Proto(), nil
}

func (s *identities) RotateSigningKey(ctx context.Context, _ *consolev1.RotateSigningKeyRequest) (*consolev1.RotateSigningKeyResponse, error) {
	id, err := s.Authority.RotateSigningKey(ctx, call.Who(ctx))
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.RotateSigningKeyResponse{KeyId: id}, nil
}

func (s Deps) endpoints() *consolev1.Endpoints {
	return &consolev1.Endpoints{
		Console: s.Endpoints.Console(), Gitcaches: s.Endpoints.Gitcaches, Distributors: s.Endpoints.Distributors, Tunnels: s.Endpoints.Tunnels,
	}
}

// tellToken tells the trail of a token that was made for its owner.
func (s Deps) tellToken(ctx context.Context, token identity.Token, action, reason string) {
	by := call.Who(ctx)
	by.Identity = token.Identity
	s.Accesses.Tell(by, audit.Act{Action: action, Name: token.Identity.TokenID, Reason: reason})
}

func encodeToken(t identity.Token) *consolev1.Token {
	return &consolev1.Token{Token: t.Text, Id: t.Identity.TokenID, ExpireTime: descriptor.Stamp(t.Identity.ExpiresAt)}
}
