package role

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

func mount(door descriptor.Door) server.Mount {
	return server.RPC(consolev1connect.RoleServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewRoleServiceHandler(&service{
			descriptor.Service[resource.Role, *consolev1.Role]{Of: described(), Door: door},
		}, o...)
	})
}

func policy() identity.Policy {
	const read = identity.RoleUser | identity.RoleHub
	return identity.Policy{
		consolev1connect.RoleServiceGetRoleProcedure:    read,
		consolev1connect.RoleServiceListRolesProcedure:  read,
		consolev1connect.RoleServiceUpdateRoleProcedure: identity.RoleAdmin,
		consolev1connect.RoleServiceDeleteRoleProcedure: identity.RoleAdmin,
	}
}

type service struct {
	descriptor.Service[resource.Role, *consolev1.Role]
}

func (s *service) GetRole(ctx context.Context, req *consolev1.GetRoleRequest) (*consolev1.GetRoleResponse, error) {
	for _, builtin := range access.Builtin() {
		if builtin.GetMetadata().GetName() == req.GetName() {
			return &consolev1.GetRoleResponse{Role: builtin}, nil
		}
	}
	out, err := s.Get(ctx, req)
	return &consolev1.GetRoleResponse{Role: out}, err
}

// builtinToken begins the page tokens for the roles that are always there, which come first.
const builtinToken = "~"

func (s *service) ListRoles(ctx context.Context, req *consolev1.ListRolesRequest) (*consolev1.ListRolesResponse, error) {
	at := descriptor.PageOf(req)
	if at.Filter != "" || at.Order != "" {
		// The roles that are always there have nothing to be filtered or ordered by.
		out, next, err := s.List(ctx, req)
		return &consolev1.ListRolesResponse{Roles: out, NextPageToken: next}, err
	}
	if at.Size == 0 {
		at.Size = 100
	}
	out := &consolev1.ListRolesResponse{}
	if from, ok := strings.CutPrefix(at.Token, builtinToken); ok || at.Token == "" {
		first, _ := strconv.Atoi(from) // a token without a number is the beginning
		builtin := access.Builtin()
		builtin = builtin[min(max(first, 0), len(builtin)):]
		out.Roles = builtin[:min(at.Size, len(builtin))]
		at.Token, at.Size = "", at.Size-len(out.GetRoles())
		if at.Size == 0 {
			out.NextPageToken = builtinToken + strconv.Itoa(first+len(out.GetRoles()))
			return out, nil
		}
	}
	list, next, err := catalog.List(ctx, s.Catalog, store.KindRole, at, resource.Roles().Load)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	out.Roles, out.NextPageToken = append(out.GetRoles(), descriptor.Each(list, s.Encode)...), next
	return out, nil
}

func (s *service) UpdateRole(ctx context.Context, req *consolev1.UpdateRoleRequest) (*consolev1.UpdateRoleResponse, error) {
	if isBuiltin(req.GetRole()) {
		return &consolev1.UpdateRoleResponse{Role: req.GetRole(), Outcome: consolev1.Outcome_OUTCOME_UNCHANGED}, nil
	}
	out, outcome, err := s.Update(ctx, req.GetRole(), req)
	return &consolev1.UpdateRoleResponse{Role: out, Outcome: outcome}, err
}

func (s *service) DeleteRole(ctx context.Context, req *consolev1.DeleteRoleRequest) (*consolev1.DeleteRoleResponse, error) {
	return &consolev1.DeleteRoleResponse{}, s.Delete(ctx, req)
}
