package signin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/login"
)

// The logins of the caller.

func (s *logins) ListLogins(ctx context.Context, req *consolev1.ListLoginsRequest) (*consolev1.ListLoginsResponse, error) {
	caller, _ := platform.FromContext(ctx) // the policy has seen to it
	after, err := decodeLoginPlace(req.GetPageToken())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = 100
	}
	list, next, err := s.Authority.ListLogins(ctx, caller, after, size)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ListLoginsResponse{
		Logins:        descriptor.Each(list, func(l login.Login) *consolev1.Login { return encodeLogin(l, caller) }),
		NextPageToken: encodeLoginPlace(next),
	}, nil
}

func (s *logins) EndLogin(ctx context.Context, req *consolev1.EndLoginRequest) (*consolev1.EndLoginResponse, error) {
	if err := s.Authority.EndLogin(ctx, call.Who(ctx), req.GetId()); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.EndLoginResponse{}, nil
}

func (s *logins) EndOtherLogins(ctx context.Context, _ *consolev1.EndOtherLoginsRequest) (*consolev1.EndOtherLoginsResponse, error) {
	ended, err := s.Authority.EndOtherLogins(ctx, call.Who(ctx))
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.EndOtherLoginsResponse{Ended: int32(ended)}, nil
}

func encodeLogin(l login.Login, caller platform.Identity) *consolev1.Login {
	out := &consolev1.Login{
		Id: l.ID, Action: l.Action, Program: l.Program, BeginTime: descriptor.Stamp(l.BeginTime), BeginAddress: l.BeginAddress,
		LastUseTime: descriptor.Stamp(l.UseTime), LastUseAddress: l.UseAddress, ExpireTime: descriptor.Stamp(l.ExpireTime), Own: l.ID == caller.TokenID,
	}
	switch identity.Client(l.Client) {
	case identity.Browser:
		out.Client = consolev1.LoginClient_LOGIN_CLIENT_BROWSER
	case identity.Command:
		out.Client = consolev1.LoginClient_LOGIN_CLIENT_COMMAND
	case identity.HandedOn:
		out.Client = consolev1.LoginClient_LOGIN_CLIENT_TOKEN
	}
	return out
}

func encodeLoginPlace(p login.LoginPlace) string {
	if p.ID == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", p.BeginTime.UnixMicro(), p.ID))
}

func decodeLoginPlace(token string) (p login.LoginPlace, err error) {
	if token == "" {
		return p, nil
	}
	wrong := errors.New("page_token: is not one that a list returned")
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return p, wrong
	}
	at, id, ok := strings.Cut(string(text), ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok || micros <= 0 || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return p, wrong
	}
	return login.LoginPlace{BeginTime: database.FromMicros(micros), ID: id}, nil
}
