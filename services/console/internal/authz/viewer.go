package authz

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/services/console/internal/store"
)

// Reader tells at which clusters the caller in ctx may read the Kubernetes API, by rules that may be older by
// staleAfter; nil: at all.
func (k *Rules) Reader(ctx context.Context) (func(cluster string) bool, error) {
	who, ok := platform.FromContext(ctx)
	if !ok || who.Has(platform.RoleAdmin) {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	rules, err := k.get(ctx, staleAfter)
	if err != nil {
		return nil, err
	}
	return func(cluster string) bool {
		at := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: cluster, Labels: rules.labels[cluster]}}
		return rules.AtCluster(who, kubehttp.Read, at).Allowed
	}, nil
}

// Viewer tells what the caller in ctx sees, by kind, name, project and cluster; nil: everything. Without a caller it is
// the console's own work. fresh: by the rules of now; else they may be older by staleAfter, which is enough for who
// goes on looking.
func (k *Rules) Viewer(ctx context.Context, fresh bool) (func(kind store.Kind, name, project, cluster string) bool, error) {
	who, ok := platform.FromContext(ctx)
	if !ok || who.Has(platform.RoleHub|platform.RoleAdmin) {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	most := staleAfter
	if fresh {
		most = 0
	}
	rules, err := k.get(ctx, most)
	if err != nil {
		return nil, err
	}
	mine, own := rules.of(who)
	return func(kind store.Kind, name, project, cluster string) bool {
		at := access.Target{Kind: named(kind), Name: name, Project: project, Cluster: cluster}
		switch kind {
		case store.KindGrant:
			if own[name] {
				return true
			}
		case store.KindCluster:
			at.Cluster = name
		case store.KindProject:
			at.Project = name
		}
		at.ClusterLabels = rules.labels[at.Cluster]
		return mine.Allows(who, access.View, at)
	}, nil
}
