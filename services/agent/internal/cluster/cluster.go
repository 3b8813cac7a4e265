// Package cluster is the Kubernetes API as the agent uses it: server-side apply, reads, deletes with
// preconditions, and which kinds there are. The package keeps no copy of any object.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"fairlead.dev/platform/version"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// requestTimeout bounds one request. Slow admission webhooks may take 30 s by themselves.
	requestTimeout = 45 * time.Second
)

// Cluster is a connection to one cluster. A Cluster is safe for concurrent use.
type Cluster struct {
	http     *http.Client
	dynamic  dynamic.Interface
	metadata metadata.Interface
	raw      rest.Interface
	kinds    kinds
	streams  *streams
	warnings *warnings
}

// LogTo returns a context for requests whose say in client-go goes to log.
func LogTo(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(&calledOff{log.Handler()}))
}

// calledOff logs what client-go says of a request that the agent itself has called off, as a failure to read the rest
// of an answer, for debugging only: nobody has to act.
type calledOff struct{ slog.Handler }

func (h *calledOff) Handle(ctx context.Context, record slog.Record) error {
	record.Attrs(func(attr slog.Attr) bool {
		if err, ok := attr.Value.Any().(error); ok && errors.Is(err, context.Canceled) {
			record.Level = slog.LevelDebug
		}
		return true
	})
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h *calledOff) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &calledOff{h.Handler.WithAttrs(attrs)}
}

func (h *calledOff) WithGroup(name string) slog.Handler { return &calledOff{h.Handler.WithGroup(name)} }

// Load finds the way to the API server: the named context of a kubeconfig, or with neither given the
// service account of the pod.
func Load(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig == "" && context == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the cluster: %w. Outside of a pod give --kubeconfig or --context", err)
		}
		return config, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return config, nil
}

// New prepares a connection; nothing is dialled yet.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // No limit of client-go's own: the API server says what it can take, see apply.Width.
	config.Timeout = requestTimeout
	config.Wrap(impersonate.Transport)
	config.UserAgent = "fairlead-agent/" + version.String()
	config.DisableCompression = true // the API server is near: packing long lists costs it more than sending them
	c := &Cluster{}
	c.warnings = &warnings{seen: map[schema.GroupVersionKind]deprecated{}, resource: func(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
		kind, known := c.kinds.get(gvk)
		return kind.Resource, known
	}}
	config.WarningHandlerWithContext = c.warnings
	streams := rest.CopyConfig(config)
	config.Wrap(boundAnswers)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	c.http = client
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	plain := dynamic.ConfigFor(config)
	plain.GroupVersion = &schema.GroupVersion{}
	if c.raw, err = rest.UnversionedRESTClientForConfigAndClient(plain, client); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if c.streams, err = openStreams(streams); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends idle connections.
func (c *Cluster) Close() {
	c.http.CloseIdleConnections()
	c.streams.http.CloseIdleConnections()
}

// Version asks the API server for its version, such as "v1.36.3".
func (c *Cluster) Version(ctx context.Context) (string, error) {
	data, err := c.raw.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return "", fmt.Errorf("read the API server's version: %w", err)
	}
	return info.GitVersion, nil
}

// ConfigMaps gives access to the ConfigMaps of a namespace, in the agent's own name.
func (c *Cluster) ConfigMaps(namespace string) dynamic.ResourceInterface {
	return own{c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)}
}

// Secrets gives access to the Secrets of a namespace, in the agent's own name.
func (c *Cluster) Secrets(namespace string) dynamic.ResourceInterface {
	return own{c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace)}
}

// Leases gives access to the Leases of a namespace, in the agent's own name.
func (c *Cluster) Leases(namespace string) dynamic.ResourceInterface {
	return own{c.dynamic.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace(namespace)}
}

// EnsureNamespace makes a namespace if it is missing.
func (c *Cluster) EnsureNamespace(ctx context.Context, name string) error {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
	namespaces := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err := namespaces.Create(impersonate.Own(ctx), namespace, metav1.CreateOptions{FieldManager: object.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}

// Apply sends an object by server-side apply and returns it as it is now. Fields that others manage
// are taken over: what is in Git wins. With dryRun nothing is changed. The answer for a kind that is only data has no
// data, so that the content of Secrets is not read.
func (c *Cluster) Apply(ctx context.Context, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	ref := object.RefOf(obj)
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: object.FieldManager, Force: &force}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if DataOnly(ref.GVK()) {
		meta, err := c.meta(kind, ref.Namespace).Patch(ctx, ref.Name, types.ApplyPatchType, body, options)
		if err != nil {
			return nil, c.failed(ref, err)
		}
		return fromMeta(ref, meta), nil
	}
	applied, err := c.objects(kind, ref.Namespace).Patch(ctx, ref.Name, types.ApplyPatchType, body, options)
	if err != nil {
		return nil, c.failed(ref, err)
	}
	return applied, nil
}

// Get reads an object; of a kind that is only data, the metadata. Errors: those of the API.
func (c *Cluster) Get(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	if DataOnly(ref.GVK()) {
		meta, err := c.Metadata(ctx, ref)
		if err != nil {
			return nil, err
		}
		return fromMeta(ref, meta), nil
	}
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	obj, err := c.objects(kind, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, c.failed(ref, err)
	}
	return obj, nil
}

// Metadata reads the metadata of an object only.
func (c *Cluster) Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	meta, err := c.meta(kind, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, c.failed(ref, err)
	}
	return meta, nil
}

// Delete removes the object with this UID, and no other that took its name. Objects that it owns go after it.
func (c *Cluster) Delete(ctx context.Context, ref object.Ref, uid types.UID) error {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	err = c.meta(kind, ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	return c.failed(ref, err)
}

// DataOnly tells the kinds that have nothing but data: no status to read, and content that the agent
// has no business with once it is applied.
func DataOnly(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "" && (gvk.Kind == "Secret" || gvk.Kind == "ConfigMap")
}

func fromMeta(ref object.Ref, meta *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(ref.GVK())
	obj.SetName(meta.Name)
	obj.SetNamespace(meta.Namespace)
	obj.SetUID(meta.UID)
	obj.SetResourceVersion(meta.ResourceVersion)
	obj.SetGeneration(meta.Generation)
	obj.SetDeletionTimestamp(meta.DeletionTimestamp)
	obj.SetLabels(meta.Labels)
	obj.SetAnnotations(meta.Annotations)
	obj.SetManagedFields(meta.ManagedFields)
	return obj
}

func (c *Cluster) objects(kind Kind, namespace string) dynamic.ResourceInterface {
	if kind.Namespaced {
		return c.dynamic.Resource(kind.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(kind.Resource)
}

func (c *Cluster) meta(kind Kind, namespace string) metadata.ResourceInterface {
	if kind.Namespaced {
		return c.metadata.Resource(kind.Resource).Namespace(namespace)
	}
	return c.metadata.Resource(kind.Resource)
}
