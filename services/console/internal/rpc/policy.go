package rpc

import (
	"maps"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/rpc/follow"
	"fairlead.dev/services/console/internal/rpc/signin"
)

// Policy says who may call what. The catalog is read by people and by the hub, written by
// administrators; each hub service gets what its work needs; agents get nothing but their renewal:
// what they may know comes to them through a distributor.
func Policy(kinds descriptor.Table) identity.Policy {
	all := catalogPolicy()
	for _, of := range kinds {
		_, policy := of.Serves()
		maps.Copy(all, policy)
	}
	maps.Copy(all, writePolicy())
	maps.Copy(all, configPolicy())
	maps.Copy(all, syncPolicy())
	maps.Copy(all, signin.Policy())
	maps.Copy(all, follow.Policy())
	maps.Copy(all, adminPolicy())
	return all
}

func catalogPolicy() identity.Policy {
	const (
		read  = identity.RoleUser | identity.RoleHub
		write = identity.RoleAdmin
		// judged is for users whose grants allow it: within the write.
		judged = identity.RoleUser
	)
	return identity.Policy{
		consolev1connect.SourceServiceGetSourceProcedure:    read,
		consolev1connect.SourceServiceListSourcesProcedure:  read,
		consolev1connect.SourceServiceUpdateSourceProcedure: judged,
		consolev1connect.SourceServiceDeleteSourceProcedure: judged,

		consolev1connect.ClusterServiceGetClusterProcedure:          read,
		consolev1connect.ClusterServiceListClustersProcedure:        read,
		consolev1connect.ClusterServiceUpdateClusterProcedure:       judged,
		consolev1connect.ClusterServiceBatchUpdateClustersProcedure: judged,
		consolev1connect.ClusterServiceDeleteClusterProcedure:       judged,
		consolev1connect.ClusterServiceRenderAgentManifestProcedure: write, // with join tokens, as CreateJoinToken

		consolev1connect.ServiceServiceGetServiceProcedure:          read,
		consolev1connect.ServiceServiceListServicesProcedure:        read,
		consolev1connect.ServiceServiceUpdateServiceProcedure:       judged,
		consolev1connect.ServiceServiceBatchUpdateServicesProcedure: judged,
		consolev1connect.ServiceServiceDeleteServiceProcedure:       judged,

		consolev1connect.SecretServiceGetSecretProcedure:    read,
		consolev1connect.SecretServiceListSecretsProcedure:  read,
		consolev1connect.SecretServiceUpdateSecretProcedure: judged,
		consolev1connect.SecretServiceDeleteSecretProcedure: judged,
		consolev1connect.SecretServiceAccessSecretProcedure: identity.RoleGitcache,

		consolev1connect.HeadServiceClaimSourceProcedure:  identity.RoleGitcache,
		consolev1connect.HeadServicePublishHeadsProcedure: identity.RoleGitcache,

		consolev1connect.StatusServiceRecordReportsProcedure:   identity.RoleDistributor,
		consolev1connect.StatusServiceRecordHubProcedure:       identity.RoleDistributor,
		consolev1connect.StatusServiceRecordSeenProcedure:      identity.RoleDistributor,
		consolev1connect.StatusServiceRecordViewsProcedure:     identity.RoleDistributor,
		consolev1connect.StatusServiceRecordHeldProcedure:      identity.RoleDistributor,
		consolev1connect.StatusServiceRecordTokenUsesProcedure: identity.RoleTunnel,
		consolev1connect.StatusServiceApplyFolderProcedure:     identity.RoleDistributor,

		consolev1connect.CatalogServiceWatchProcedure: identity.RoleGitcache | identity.RoleDistributor | identity.RoleTunnel,
	}
}
