package rpc

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/kinds/agentconfig"
	"fairlead.dev/services/console/internal/kinds/alert"
	"fairlead.dev/services/console/internal/kinds/backend"
	"fairlead.dev/services/console/internal/kinds/grant"
	"fairlead.dev/services/console/internal/kinds/project"
	"fairlead.dev/services/console/internal/kinds/role"
	"fairlead.dev/services/console/internal/kinds/serviceaccount"
	"fairlead.dev/services/console/internal/kinds/sink"
	"fairlead.dev/services/console/internal/kinds/viewset"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Kinds is the table of all kinds, in the order of the oneof Resource: those with a folder below internal/kinds, and
// those whose messages are made and read here.
func Kinds() descriptor.Table {
	return descriptor.Table{
		role.Kind(), serviceaccount.Kind(), secretKind(), backend.Kind(), sourceKind(), project.Kind(), clusterKind(), configSetKind(), globalKind(), serviceKind(),
		grant.Kind(), sink.Kind(), agentconfig.Kind(), viewset.Kind(), alert.Kind(),
	}
}

func secretKind() descriptor.Of[resource.Secret, *consolev1.Secret] {
	return descriptor.Of[resource.Secret, *consolev1.Secret]{
		Kind: store.KindSecret, Decode: descriptor.Always(decodeSecret), Encode: encodeSecret, Read: resource.ReadSecret,
		Draft: (*catalog.Catalog).DraftSecret,
		Mask:  maskSecret,
		Follow: func(c store.Change) (*consolev1.Secret, error) {
			s, err := resource.ReadSecret(c.Resource)
			return encodeSecret(s), err
		},
	}
}

// maskSecret masks all values. The history keeps none, so it can't be said of them which changed.
func maskSecret(c *catalog.Catalog, m *consolev1.Secret, before, after *store.Resource) (err error) {
	if after.Sealed == nil {
		for key := range m.GetData() {
			m.Data[key] = catalog.Masked
		}
		return nil
	}
	m.Data, err = c.MaskSecret(before, *after)
	return err
}

func sourceKind() descriptor.Of[state.Source, *consolev1.Source] {
	return descriptor.Of[state.Source, *consolev1.Source]{
		Kind: store.KindSource, Decode: descriptor.Always(decodeSource), Encode: encodeSource, Read: state.ReadSource, Load: state.Loader.Sources,
		Draft:  descriptor.DraftBy(catalog.DraftSource),
		Follow: followSource,
	}
}

func followSource(c store.Change) (*consolev1.Source, error) {
	s, err := state.ReadSource(c.Resource)
	if err == nil {
		s.Status, err = state.ReadHeads(c.Heads)
	}
	return encodeSource(s), err
}

func clusterKind() descriptor.Of[state.Cluster, *consolev1.Cluster] {
	return descriptor.Of[state.Cluster, *consolev1.Cluster]{
		Kind: store.KindCluster, Decode: descriptor.Always(decodeCluster), Encode: encodeCluster, Read: state.ReadCluster, Load: state.Loader.Clusters,
		Draft: descriptor.DraftBy(catalog.DraftCluster), Show: showClusters,
		Mask: descriptor.MaskBy(func(m *consolev1.Cluster, changed map[string]bool) {
			descriptor.MaskSettings(m.GetSpec().GetConfig(), changed)
		}),
		Follow: func(c store.Change) (*consolev1.Cluster, error) {
			in, err := state.ReadCluster(c.Resource)
			in.Spec.Config = nil
			out := encodeCluster(in)
			out.Status = nil // it changes too often
			return out, err
		},
	}
}

// showClusters encodes clusters with what their agents are configured with.
func showClusters(ctx context.Context, c *catalog.Catalog, list []state.Cluster) ([]*consolev1.Cluster, error) {
	states, err := agentconfig.States(ctx, c, list)
	out := descriptor.Each(list, encodeCluster)
	for i, one := range states {
		out[i].Status.AgentConfig = one
	}
	return out, err
}

func configSetKind() descriptor.Of[resource.ConfigSet, *consolev1.ConfigSet] {
	d := descriptor.Plainly(resource.ConfigSets(), descriptor.Always(decodeConfigSet), encodeConfigSet)
	d.Show = showConfigSets
	d.Mask = descriptor.MaskBy(func(m *consolev1.ConfigSet, changed map[string]bool) {
		descriptor.MaskSettings(m.GetSpec().GetEntries(), changed)
	})
	return d
}

func globalKind() descriptor.Of[resource.GlobalService, *consolev1.GlobalService] {
	d := descriptor.Plainly(resource.GlobalServices(), decodeGlobal, encodeGlobal)
	d.Show = showGlobals
	return d
}

func serviceKind() descriptor.Of[state.Service, *consolev1.Service] {
	return descriptor.Of[state.Service, *consolev1.Service]{
		Kind: store.KindService, Decode: descriptor.Always(decodeService), Encode: encodeService, Read: state.ReadService, Load: state.Loader.Services,
		Draft: descriptor.DraftBy(catalog.DraftService),
		Mask: descriptor.MaskBy(func(m *consolev1.Service, changed map[string]bool) {
			descriptor.MaskSettings(m.GetSpec().GetConfig(), changed)
		}),
		Follow: followService,
	}
}

// followService leaves configuration out: it is for the clusters of services only, and comes to them another way. The
// status changes too often.
func followService(c store.Change) (*consolev1.Service, error) {
	s, err := state.ReadService(c.Resource)
	s.Spec.ConfigSets, s.Spec.Config = nil, nil
	out := &consolev1.Service{Metadata: descriptor.Metadata(s.Meta), Spec: encodeServiceSpec(s.Spec)}
	if c.Config != "" {
		out.Status = &consolev1.ServiceStatus{ConfigRevision: c.Config}
	}
	return out, err
}

// serve has the bodies of the calls of a kind.
func serve[T any, M descriptor.Message](d Deps, of descriptor.Of[T, M]) descriptor.Service[T, M] {
	return descriptor.Service[T, M]{Of: of, Door: d.door()}
}

func (d Deps) door() descriptor.Door {
	return descriptor.Door{Catalog: d.Catalog, By: call.By, Fail: d.fail}
}
