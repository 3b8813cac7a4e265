package rpc

import (
	"net/http"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
)

// writeMounts are the services that write many resources at once, or resources that others come of.
func writeMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.GlobalServiceServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewGlobalServiceServiceHandler(&globals{d}, o...)
		}),
		server.RPC(consolev1connect.ApplyServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewApplyServiceHandler(&applies{d}, o...)
		}),
	}
}

func writePolicy() identity.Policy {
	const read = identity.RoleUser | identity.RoleHub
	return identity.Policy{
		consolev1connect.GlobalServiceServiceGetGlobalServiceProcedure:     read,
		consolev1connect.GlobalServiceServiceListGlobalServicesProcedure:   read,
		consolev1connect.GlobalServiceServicePreviewGlobalServiceProcedure: identity.RoleUser,
		consolev1connect.GlobalServiceServiceUpdateGlobalServiceProcedure:  identity.RoleUser,
		consolev1connect.GlobalServiceServiceDeleteGlobalServiceProcedure:  identity.RoleUser,
		consolev1connect.GlobalServiceServiceConfirmGlobalServiceProcedure: identity.RoleUser,

		consolev1connect.ApplyServiceApplyProcedure: identity.RoleUser, // grants decide, within the write
	}
}
