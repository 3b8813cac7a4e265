package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/render"
)

// besideThis is a program in the folder of the one that runs.
func besideThis(name string) []string {
	self, err := os.Executable()
	if err != nil {
		return []string{name} // starting it says what is wrong
	}
	return []string{filepath.Join(filepath.Dir(self), name)}
}

// scope is what the templates of a service see.
func (a *Agent) scope(ctx context.Context, service desired.Service) (render.Scope, error) {
	scope := render.Scope{Service: render.ServiceScope{Name: service.Name, Namespace: service.Namespace}}
	var err error
	if scope.Configuration, err = desired.Values(service.Configuration); err != nil {
		return render.Scope{}, err
	}
	scope.Cluster, err = a.environment(ctx)
	scope.Cluster.Labels = service.ClusterLabels
	return scope, err
}

// environment is the cluster as all templates see it.
func (a *Agent) environment(ctx context.Context) (render.ClusterScope, error) {
	scope := render.ClusterScope{Name: a.joiner.Cluster(), KubernetesVersion: a.kubernetesVersion()}
	if scope.KubernetesVersion == "" {
		return scope, errors.New("the API server's version is not known yet")
	}
	var err error
	scope.APIVersions, err = a.cluster.APIVersions(ctx)
	return scope, err
}

// lookup reads the cluster for the templates of a service.
func (a *Agent) lookup(desired.Service) render.Lookup {
	return func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
		return a.cluster.Lookup(ctx, gvk, namespace, name)
	}
}
