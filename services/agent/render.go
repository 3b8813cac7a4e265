package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/bounds"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/lookup"
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

// lookup reads the cluster for the templates of a service, within the bounds of its project.
func (a *Agent) lookup(service desired.Service) lookup.Ask {
	return func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change func(*unstructured.Unstructured)) (json.RawMessage, error) {
		kind, err := a.cluster.Kind(ctx, gvk)
		if unknown := (*cluster.UnknownKindError)(nil); errors.As(err, &unknown) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		asked := bounds.Lookup{Kind: gvk.GroupKind(), Namespaced: kind.Namespaced, Namespace: namespace, Name: name}
		if refused := asked.Judge(service.Rules, service.Namespace, service.Sync.GetImpersonate()); refused != "" {
			return nil, &render.RefusedError{Why: fmt.Sprintf("project %q does not allow lookup of %s", service.Rules.GetProject(), refused)}
		}
		found, err := a.cluster.Lookup(ctx, gvk, namespace, name, change)
		if errors.Is(err, cluster.ErrLookupSize) {
			return nil, &render.RefusedError{Why: err.Error()}
		}
		return found, err
	}
}
