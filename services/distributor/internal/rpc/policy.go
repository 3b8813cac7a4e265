package rpc

import (
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/identity"
)

// Policy says who may call what.
func Policy() identity.Policy {
	return identity.Policy{
		deliveryv1connect.DeliveryServiceSyncProcedure:   identity.RoleAgent,
		deliveryv1connect.DeliveryServiceWatchProcedure:  identity.RoleAgent,
		deliveryv1connect.DeliveryServiceReportProcedure: identity.RoleAgent,

		deliveryv1connect.DetailServiceReportDetailsProcedure: identity.RoleAgent,
		deliveryv1connect.ViewServicePushViewProcedure:        identity.RoleAgent,
	}
}
