package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	rules "fairlead.dev/platform/access"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/kinds/role"
	"fairlead.dev/services/console/internal/kinds/serviceaccount"
	"fairlead.dev/services/console/internal/store"
)

// identityMounts are the services about who may do what.
func identityMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.RoleServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewRoleServiceHandler(&roles{d}, o...)
		}),
		server.RPC(consolev1connect.ServiceAccountServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewServiceAccountServiceHandler(&serviceAccounts{d}, o...)
		}),
		server.RPC(consolev1connect.AccessServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewAccessServiceHandler(&access{d}, o...)
		}),
		server.RPC(consolev1connect.LendingServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewLendingServiceHandler(&lendings{d}, o...)
		}),
		server.RPC(consolev1connect.RecordingServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewRecordingServiceHandler(&recordings{d}, o...)
		}),
		server.RPC(consolev1connect.TokenServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewTokenServiceHandler(&tokens{d}, o...)
		}),
		server.RPC(consolev1connect.LoginServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewLoginServiceHandler(&logins{d}, o...)
		}),
	}
}

func identityPolicy() platform.Policy {
	const read = platform.RoleUser | platform.RoleHub
	return platform.Policy{
		consolev1connect.RoleServiceGetRoleProcedure:    read,
		consolev1connect.RoleServiceListRolesProcedure:  read,
		consolev1connect.RoleServiceUpdateRoleProcedure: platform.RoleAdmin,
		consolev1connect.RoleServiceDeleteRoleProcedure: platform.RoleAdmin,

		consolev1connect.ServiceAccountServiceGetServiceAccountProcedure:    read,
		consolev1connect.ServiceAccountServiceListServiceAccountsProcedure:  read,
		consolev1connect.ServiceAccountServiceUpdateServiceAccountProcedure: platform.RoleAdmin,
		consolev1connect.ServiceAccountServiceDeleteServiceAccountProcedure: platform.RoleAdmin,

		consolev1connect.LendingServiceCreateAccessRequestProcedure:  platform.RoleUser,
		consolev1connect.LendingServiceListAccessRequestsProcedure:   platform.RoleUser,
		consolev1connect.LendingServiceApproveAccessRequestProcedure: platform.RoleUser,
		consolev1connect.LendingServiceDenyAccessRequestProcedure:    platform.RoleUser,
		consolev1connect.LendingServiceRevokeAccessRequestProcedure:  platform.RoleUser,

		consolev1connect.RecordingServiceBeginRecordingProcedure:  platform.RoleTunnel,
		consolev1connect.RecordingServiceAppendRecordingProcedure: platform.RoleTunnel,
		consolev1connect.RecordingServiceListRecordingsProcedure:  platform.RoleUser,
		consolev1connect.RecordingServiceReadRecordingProcedure:   platform.RoleUser,

		consolev1connect.AccessServiceCheckAccessProcedure: platform.RoleUser,
		consolev1connect.AccessServiceGetCallerProcedure:   platform.RoleAny,

		consolev1connect.TokenServiceCreateTokenProcedure:   platform.RoleUser,
		consolev1connect.TokenServiceListTokensProcedure:    platform.RoleUser,
		consolev1connect.TokenServiceRevokeTokenProcedure:   platform.RoleUser,
		consolev1connect.TokenServiceExchangeTokenProcedure: platform.RoleOpen,

		consolev1connect.LoginServiceGetLoginOptionsProcedure:   platform.RoleOpen,
		consolev1connect.LoginServiceExchangeLoginLinkProcedure: platform.RoleOpen,
		consolev1connect.LoginServiceCreateLoginLinkProcedure:   platform.RoleAdmin,
		consolev1connect.LoginServiceExchangeIDTokenProcedure:   platform.RoleOpen,
		consolev1connect.LoginServiceLogoutProcedure:            platform.RoleUser,
		consolev1connect.LoginServiceListLoginsProcedure:        platform.RoleUser,
		consolev1connect.LoginServiceEndLoginProcedure:          platform.RoleUser,
		consolev1connect.LoginServiceEndOtherLoginsProcedure:    platform.RoleUser,
		consolev1connect.LoginServiceLeaveClusterProcedure:      platform.RoleAgent | platform.RoleUser,
	}
}

type roles struct{ Deps }

func (s *roles) GetRole(ctx context.Context, req *consolev1.GetRoleRequest) (*consolev1.GetRoleResponse, error) {
	for _, builtin := range rules.Builtin() {
		if builtin.GetMetadata().GetName() == req.GetName() {
			return &consolev1.GetRoleResponse{Role: builtin}, nil
		}
	}
	out, err := serve(s.Deps, role.Kind()).Get(ctx, req)
	return &consolev1.GetRoleResponse{Role: out}, err
}

// builtinToken begins the page tokens for the roles that are always there, which come first.
const builtinToken = "~"

func (s *roles) ListRoles(ctx context.Context, req *consolev1.ListRolesRequest) (*consolev1.ListRolesResponse, error) {
	at := descriptor.PageOf(req)
	if at.Filter != "" || at.Order != "" {
		// The roles that are always there have nothing to be filtered or ordered by.
		out, next, err := serve(s.Deps, role.Kind()).List(ctx, req)
		return &consolev1.ListRolesResponse{Roles: out, NextPageToken: next}, err
	}
	if at.Size == 0 {
		at.Size = 100
	}
	out := &consolev1.ListRolesResponse{}
	if from, ok := strings.CutPrefix(at.Token, builtinToken); ok || at.Token == "" {
		first, _ := strconv.Atoi(from) // a token without a number is the beginning
		builtin := rules.Builtin()
		builtin = builtin[min(max(first, 0), len(builtin)):]
		out.Roles = builtin[:min(at.Size, len(builtin))]
		at.Token, at.Size = "", at.Size-len(out.GetRoles())
		if at.Size == 0 {
			out.NextPageToken = builtinToken + strconv.Itoa(first+len(out.GetRoles()))
			return out, nil
		}
	}
	list, next, err := catalog.List(ctx, s.Catalog, store.KindRole, at, catalog.Roles().Load)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out.Roles, out.NextPageToken = append(out.GetRoles(), descriptor.Each(list, role.Kind().Encode)...), next
	return out, nil
}

func (s *roles) UpdateRole(ctx context.Context, req *consolev1.UpdateRoleRequest) (*consolev1.UpdateRoleResponse, error) {
	out, outcome, err := serve(s.Deps, role.Kind()).Update(ctx, req.GetRole(), req)
	return &consolev1.UpdateRoleResponse{Role: out, Outcome: outcome}, err
}

func (s *roles) DeleteRole(ctx context.Context, req *consolev1.DeleteRoleRequest) (*consolev1.DeleteRoleResponse, error) {
	return &consolev1.DeleteRoleResponse{}, serve(s.Deps, role.Kind()).Delete(ctx, req)
}

type serviceAccounts struct{ Deps }

func (s *serviceAccounts) GetServiceAccount(ctx context.Context, req *consolev1.GetServiceAccountRequest) (*consolev1.GetServiceAccountResponse, error) {
	out, err := serve(s.Deps, serviceaccount.Kind()).Get(ctx, req)
	return &consolev1.GetServiceAccountResponse{ServiceAccount: out}, err
}

func (s *serviceAccounts) ListServiceAccounts(ctx context.Context, req *consolev1.ListServiceAccountsRequest) (*consolev1.ListServiceAccountsResponse, error) {
	out, next, err := serve(s.Deps, serviceaccount.Kind()).List(ctx, req)
	return &consolev1.ListServiceAccountsResponse{ServiceAccounts: out, NextPageToken: next}, err
}

func (s *serviceAccounts) UpdateServiceAccount(ctx context.Context, req *consolev1.UpdateServiceAccountRequest) (*consolev1.UpdateServiceAccountResponse, error) {
	out, outcome, err := serve(s.Deps, serviceaccount.Kind()).Update(ctx, req.GetServiceAccount(), req)
	if err != nil {
		return nil, err
	}
	s.reload(ctx)
	return &consolev1.UpdateServiceAccountResponse{ServiceAccount: out, Outcome: outcome}, nil
}

func (s *serviceAccounts) DeleteServiceAccount(ctx context.Context, req *consolev1.DeleteServiceAccountRequest) (*consolev1.DeleteServiceAccountResponse, error) {
	if err := serve(s.Deps, serviceaccount.Kind()).Delete(ctx, req); err != nil {
		return nil, err
	}
	s.reload(ctx)
	return &consolev1.DeleteServiceAccountResponse{}, nil
}

// reload puts a revocation that is durable in force here; elsewhere it is at the next look at the database.
func (d Deps) reload(ctx context.Context) {
	if err := d.Authority.Reload(ctx); err != nil {
		d.Log.WarnContext(ctx, "revocation is not in force yet", "err", err)
	}
}

type access struct{ Deps }

func (s *access) GetCaller(ctx context.Context, _ *consolev1.GetCallerRequest) (*consolev1.GetCallerResponse, error) {
	caller, _ := platform.FromContext(ctx) // the policy has seen to it
	grants, err := s.Rights.Grants(ctx, caller)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetCallerResponse{
		Subject: shownSubject(caller), Groups: caller.Groups, Administrator: caller.Has(platform.RoleAdmin), ExpireTime: descriptor.Stamp(caller.ExpiresAt), Grants: grants,
	}, nil
}

const serviceAccountSubject = "serviceaccount:"

// shownSubject is how people name somebody: service accounts are a kind of their own for them.
func shownSubject(id platform.Identity) string { return shownName(id.Subject()) }

func shownName(subject string) string {
	user, ok := strings.CutPrefix(subject, string(platform.KindUser)+":")
	if ok && strings.HasPrefix(user, serviceAccountSubject) {
		return user
	}
	return subject
}

// identityOf is who is meant by a subject as people write it.
func identityOf(subject string, groups []string) (platform.Identity, error) {
	if account, ok := strings.CutPrefix(subject, serviceAccountSubject); ok {
		id := platform.ServiceAccount(account)
		return id, id.Validate()
	}
	user, ok := strings.CutPrefix(subject, string(platform.KindUser)+":")
	if !ok {
		return platform.Identity{}, fmt.Errorf("subject %q: must be like user:ada or serviceaccount:ci", subject)
	}
	return platform.Person(user, groups)
}

func (s *access) CheckAccess(ctx context.Context, req *consolev1.CheckAccessRequest) (*consolev1.CheckAccessResponse, error) {
	who, _ := platform.FromContext(ctx)
	if req.GetSubject() != "" && req.GetSubject() != shownSubject(who) {
		if !who.Has(platform.RoleAdmin) {
			return nil, connect.NewError(connect.CodePermissionDenied, errors.New("only administrators ask for others: leave the subject out"))
		}
		var err error
		if who, err = identityOf(req.GetSubject(), req.GetGroups()); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	decision, err := s.decide(ctx, who, req)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &consolev1.CheckAccessResponse{Allowed: decision.Allowed, Reason: decision.Reason}
	if decision.Allowed {
		out.Reason = decision.Rule
	}
	return out, nil
}

func (s *access) decide(ctx context.Context, who platform.Identity, req *consolev1.CheckAccessRequest) (rules.Decision, error) {
	if req.GetKind() == "" {
		if req.GetCluster() == "" {
			return rules.Decision{}, catalog.Refuse(catalog.Invalid, "name a kind, or a cluster for its Kubernetes API")
		}
		return s.Rights.AtCluster(ctx, who, req.GetVerb(), req.GetCluster())
	}
	verb := rules.Verb(req.GetVerb())
	if !slices.Contains(rules.Verbs(), verb) {
		return rules.Decision{}, catalog.Refuse(catalog.Invalid, "verb %q: there are view, deploy, edit and delete; without a kind, read, write, exec and secrets", verb)
	}
	if !slices.Contains(rules.Kinds(), req.GetKind()) {
		return rules.Decision{}, catalog.Refuse(catalog.Invalid, "kind %q: there are %s", req.GetKind(), strings.Join(rules.Kinds(), ", "))
	}
	at, err := s.Rights.Find(ctx, rules.Target{Kind: req.GetKind(), Name: req.GetName(), Project: req.GetProject(), Cluster: req.GetCluster()})
	if err != nil {
		return rules.Decision{}, err
	}
	return s.Rights.Decide(ctx, who, verb, at)
}
