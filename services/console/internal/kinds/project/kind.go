// Package project is the kind Project: what bounds services, and settings that they share.
package project

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Kind describes the kind.
func Kind() descriptor.Of[resource.Project, *consolev1.Project] {
	d := described()
	d.Mount, d.Policy = mount, policy()
	return d
}

// described is Kind without its API, which works by it.
func described() descriptor.Of[resource.Project, *consolev1.Project] {
	d := descriptor.Plainly(resource.Projects(), decode, encode)
	d.Show = show
	d.Mask = descriptor.MaskBy(func(m *consolev1.Project, changed map[string]bool) {
		descriptor.MaskSettings(m.GetSpec().GetConfig(), changed)
	})
	d.Follow = func(c store.Change) (*consolev1.Project, error) {
		p, err := resource.Projects().Decode(c.Resource)
		p.Spec.Config = nil
		return encode(p), err
	}
	return d
}

// show encodes projects with their statuses.
func show(ctx context.Context, c *catalog.Catalog, list []resource.Project) ([]*consolev1.Project, error) {
	names := descriptor.Each(list, func(p resource.Project) string { return p.Meta.Name })
	services, err := c.CountServices(ctx, store.KindProject, names)
	return descriptor.Each(list, func(p resource.Project) *consolev1.Project {
		out := encode(p)
		out.Status = &consolev1.ProjectStatus{Services: int32(services[p.Meta.Name])}
		return out
	}), err
}

func decode(p *consolev1.Project) (out resource.Project, err error) {
	spec := p.GetSpec()
	out.Meta = descriptor.Meta(p.GetMetadata())
	out.Spec = resource.ProjectSpec{
		Description: spec.GetDescription(), Sources: spec.GetSources(), Config: descriptor.Settings(spec.GetConfig()),
		Namespaces: spec.GetNamespaces(), Kinds: spec.GetKinds(), DeniedKinds: spec.GetDeniedKinds(), Accounts: spec.GetAccounts(), Windows: spec.GetWindows(),
		Recording: int32(spec.GetRecording()),
	}
	out.Spec.Clusters, err = descriptor.Selector("spec.clusters", spec.GetClusters())
	return out, err
}

func encode(p resource.Project) *consolev1.Project {
	return &consolev1.Project{Metadata: descriptor.Metadata(p.Meta), Freeze: p.Spec.Freeze.Encode(), Spec: &consolev1.ProjectSpec{
		Description: p.Spec.Description, Sources: p.Spec.Sources, Clusters: descriptor.ClusterSelector(p.Spec.Clusters), Config: descriptor.ConfigSettings(p.Spec.Config),
		Namespaces: p.Spec.Namespaces, Kinds: p.Spec.Kinds, DeniedKinds: p.Spec.DeniedKinds, Accounts: p.Spec.Accounts, Windows: p.Spec.Windows,
		Recording: consolev1.RecordingMode(p.Spec.Recording),
	}}
}
