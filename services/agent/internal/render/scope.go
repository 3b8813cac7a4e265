package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Scope is what templates see besides the folder.
type Scope struct {
	// Configuration of the service.
	Configuration map[string]any `json:"configuration"`
	Cluster       ClusterScope   `json:"cluster"`
	Service       ServiceScope   `json:"service"`
	Release       ReleaseScope   `json:"release"`
	// Given are values of objects of the cluster, in the order in which they are merged.
	Given []Given `json:"given,omitempty"`
	// ReleaseService is what charts see as .Release.Service.
	ReleaseService string `json:"releaseService,omitempty"`
}

// Given is what a key of a ConfigMap or Secret holds.
type Given struct {
	// From names the key.
	From string `json:"from"`
	Text string `json:"text"`
	// Path is where the text becomes a value; "": it is YAML as in a values.yaml.
	Path string `json:"path,omitempty"`
	// Secret: nothing of the text is told.
	Secret bool `json:"secret,omitempty"`
}

// ReleaseScope is what a chart sees as .Release besides names.
type ReleaseScope struct {
	// Revision counts from 1. Install: nothing of the service was applied completely before; else it is an upgrade.
	Revision int64 `json:"revision"`
	Install  bool  `json:"install"`
}

// ClusterScope is the cluster that a template is rendered for.
type ClusterScope struct {
	Name              string            `json:"name"`
	Labels            map[string]string `json:"labels"`
	KubernetesVersion string            `json:"kubernetesVersion"`
	// APIVersions are those that the API server has: "apps/v1" and "apps/v1/Deployment".
	APIVersions []string `json:"apiVersions"`
}

// Environment names what the cluster can do: where it is the same, what depends on that is rendered alike.
func (c ClusterScope) Environment() string {
	sum := sha256.New()
	for _, text := range append([]string{c.KubernetesVersion}, c.APIVersions...) {
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// ServiceScope is the service that a template is rendered for.
type ServiceScope struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// Lookup reads an object of the cluster, or without a name a list of them, as JSON, as the service may. Nil: there is
// none. A *RefusedError is a mistake of the folder; after any other error the render is tried again.
type Lookup func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (json.RawMessage, error)

// RefusedError: a template asks for what the service may not see, or for too much.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Scoped tells whether a folder's objects depend on the scope.
func (f *Folder) Scoped() bool {
	return f.Renderer == deliveryv1.Renderer_RENDERER_HELM || f.Renderer == deliveryv1.Renderer_RENDERER_TEMPLATE
}
