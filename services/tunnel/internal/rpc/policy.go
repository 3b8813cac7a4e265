package rpc

import (
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/identity"
)

// Policy says who may call what.
func Policy() identity.Policy {
	return identity.Policy{
		tunnelv1connect.TunnelServiceConnectProcedure:       identity.RoleAgent,
		tunnelv1connect.TunnelServiceListReplicasProcedure:  identity.RoleAgent,
		tunnelv1connect.TunnelServiceListSessionsProcedure:  identity.RoleUser | identity.RoleConsole | identity.RoleTunnel,
		tunnelv1connect.TunnelServiceWatchSessionsProcedure: identity.RoleUser | identity.RoleConsole,
	}
}
