// Package signin serves what people, programs and agents sign in with, and what they may do then: logins and sessions
// of browsers, tokens, access that is lent for a time, recordings of shells, and the check of an access.
package signin

import (
	"net/http"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/descriptor"
	credentials "fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/lending"
	"fairlead.dev/services/console/internal/login"
	"fairlead.dev/services/console/internal/recording"
	"fairlead.dev/services/console/internal/seal"
)

// Endpoints says where the hub's services are reached from outside of it.
type Endpoints struct {
	Console      func() string // known once the listener is
	Pages        func() string // where people open the pages
	Gitcaches    []string
	Distributors []string
	Tunnels      []string
}

// Deps is what the handlers work with.
type Deps struct {
	descriptor.Door
	Authority *credentials.Authority
	Rights    *authz.Rules
	Provider  *login.Provider
	Lending   *lending.Desk
	// Recordings are of shells.
	Recordings *recording.Archive
	Accesses   *audit.Accesses
	// Seal keeps what a browser holds for the console.
	Seal      *seal.Box
	Endpoints Endpoints
	// Cookies says that browsers reach the console over TLS, so that they keep sessions.
	Cookies bool
}

// Mounts are the services of this room.
func Mounts(d Deps) []server.Mount {
	return append((&browsers{d}).mounts(),
		server.RPC(consolev1connect.IdentityServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewIdentityServiceHandler(&identities{d}, o...)
		}),
		server.RPC(consolev1connect.AccessServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewAccessServiceHandler(&access{d}, o...)
		}),
		server.RPC(consolev1connect.LendingServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewLendingServiceHandler(&lendings{d}, o...)
		}),
		server.RPC(consolev1connect.RecordingServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewRecordingServiceHandler(&recordingService{d}, o...)
		}),
		server.RPC(consolev1connect.TokenServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewTokenServiceHandler(&tokens{d}, o...)
		}),
		server.RPC(consolev1connect.LoginServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewLoginServiceHandler(&logins{d}, o...)
		}),
	)
}

// Policy says who may call these.
func Policy() identity.Policy {
	return identity.Policy{
		consolev1connect.IdentityServiceExchangeHubSecretProcedure: identity.RoleOpen,
		consolev1connect.IdentityServiceJoinClusterProcedure:       identity.RoleOpen,
		consolev1connect.IdentityServiceRenewTokenProcedure:        identity.RoleAny,
		consolev1connect.IdentityServiceCreateJoinTokenProcedure:   identity.RoleAdmin,
		consolev1connect.IdentityServiceCreateUserTokenProcedure:   identity.RoleAdmin,
		consolev1connect.IdentityServiceRevokeTokensProcedure:      identity.RoleAdmin,
		consolev1connect.IdentityServiceGetTrustBundleProcedure:    identity.RoleHub,
		consolev1connect.IdentityServiceRotateSigningKeyProcedure:  identity.RoleAdmin,

		consolev1connect.LendingServiceCreateAccessRequestProcedure:  identity.RoleUser,
		consolev1connect.LendingServiceListAccessRequestsProcedure:   identity.RoleUser,
		consolev1connect.LendingServiceApproveAccessRequestProcedure: identity.RoleUser,
		consolev1connect.LendingServiceDenyAccessRequestProcedure:    identity.RoleUser,
		consolev1connect.LendingServiceRevokeAccessRequestProcedure:  identity.RoleUser,

		consolev1connect.RecordingServiceBeginRecordingProcedure:  identity.RoleTunnel,
		consolev1connect.RecordingServiceAppendRecordingProcedure: identity.RoleTunnel,
		consolev1connect.RecordingServiceListRecordingsProcedure:  identity.RoleUser,
		consolev1connect.RecordingServiceReadRecordingProcedure:   identity.RoleUser,

		consolev1connect.AccessServiceCheckAccessProcedure: identity.RoleUser,
		consolev1connect.AccessServiceGetCallerProcedure:   identity.RoleAny,

		consolev1connect.TokenServiceCreateTokenProcedure:   identity.RoleUser,
		consolev1connect.TokenServiceListTokensProcedure:    identity.RoleUser,
		consolev1connect.TokenServiceRevokeTokenProcedure:   identity.RoleUser,
		consolev1connect.TokenServiceExchangeTokenProcedure: identity.RoleOpen,

		consolev1connect.LoginServiceGetLoginOptionsProcedure:   identity.RoleOpen,
		consolev1connect.LoginServiceExchangeLoginLinkProcedure: identity.RoleOpen,
		consolev1connect.LoginServiceCreateLoginLinkProcedure:   identity.RoleAdmin,
		consolev1connect.LoginServiceExchangeIDTokenProcedure:   identity.RoleOpen,
		consolev1connect.LoginServiceLogoutProcedure:            identity.RoleUser,
		consolev1connect.LoginServiceListLoginsProcedure:        identity.RoleUser,
		consolev1connect.LoginServiceEndLoginProcedure:          identity.RoleUser,
		consolev1connect.LoginServiceEndOtherLoginsProcedure:    identity.RoleUser,
		consolev1connect.LoginServiceLeaveClusterProcedure:      identity.RoleAgent | identity.RoleUser,
	}
}
