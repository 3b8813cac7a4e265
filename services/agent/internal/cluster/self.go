package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/object"
)

const rbacGroup = "rbac.authorization.k8s.io"

// Self is the cluster for an agent that runs in it: what its own pod needs is never deleted, whoever wants that.
type Self struct {
	*Cluster

	// Namespace and Pod name the pod; empty: the agent runs in none.
	Namespace, Pod string

	mu sync.Mutex // guards what follows, and has one ask for all
	// granted are the roles that the account had when that was asked.
	granted map[object.Key]bool
	account string
	asked   time.Time
}

// Metadata tells of what the agent needs that it is never pruned.
func (s *Self) Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	meta, err := s.Cluster.Metadata(ctx, ref)
	if err != nil {
		return nil, err
	}
	needed, err := s.Needs(impersonate.Own(ctx), ref)
	if err != nil {
		return nil, fmt.Errorf("find out whether the agent itself needs it: %w", err)
	}
	if needed {
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[object.PruneAnnotation] = "never"
	}
	return meta, nil
}

// Replace refuses to delete what the agent needs: it would not be there to make it anew.
func (s *Self) Replace(ctx context.Context, ref object.Ref, uid types.UID, version string) error {
	if err := s.spare(ctx, ref); err != nil {
		return err
	}
	return s.Cluster.Replace(ctx, ref, uid, version)
}

// Delete refuses, too: an object may have become a hook, which is deleted before it is made again.
func (s *Self) Delete(ctx context.Context, ref object.Ref, uid types.UID) error {
	if err := s.spare(ctx, ref); err != nil {
		return err
	}
	return s.Cluster.Delete(ctx, ref, uid)
}

// spare refuses what the agent needs.
func (s *Self) spare(ctx context.Context, ref object.Ref) error {
	needed, err := s.Needs(impersonate.Own(ctx), ref)
	if err != nil {
		return fmt.Errorf("find out whether the agent itself needs it: %w", err)
	}
	if !needed {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: "the agent itself runs by it, so that it is not deleted to be made anew; give it another name",
	}}
}

// Needs tells whether the agent's pod would end, or could do less, without the object.
func (s *Self) Needs(ctx context.Context, ref object.Ref) (bool, error) {
	role := ref.Group == rbacGroup
	if s.Pod == "" || ref.Namespace != s.Namespace && !role && ref.Kind != "Namespace" {
		return false, nil
	}
	if ref.Kind == "Namespace" && ref.Group == "" {
		return ref.Name == s.Namespace, nil
	}
	pod, err := s.Get(ctx, object.Ref{Key: object.Key{Kind: "Pod", Namespace: s.Namespace, Name: s.Pod}, Version: "v1"})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if role {
		account, _, _ := unstructured.NestedString(pod.Object, "spec", "serviceAccountName")
		return s.grants(ctx, ref, account)
	}
	if slices.Contains(named(pod), ref.Key) {
		return true, nil
	}
	return s.owns(ctx, ref, pod.GetOwnerReferences())
}

// owns goes up from the pod: to its ReplicaSet, and from there to the Deployment.
func (s *Self) owns(ctx context.Context, ref object.Ref, owners []metav1.OwnerReference) (bool, error) {
	const most = 5 // generations
	for range most {
		if len(owners) == 0 {
			return false, nil
		}
		owner := owners[0]
		if at := slices.IndexFunc(owners, func(one metav1.OwnerReference) bool { return one.Controller != nil && *one.Controller }); at >= 0 {
			owner = owners[at]
		}
		gv, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil {
			return false, err
		}
		key := object.Key{Group: gv.Group, Kind: owner.Kind, Namespace: s.Namespace, Name: owner.Name}
		if key == ref.Key {
			return true, nil
		}
		meta, err := s.Cluster.Metadata(ctx, object.Ref{Key: key, Version: gv.Version})
		if unknown := (*UnknownKindError)(nil); apierrors.IsNotFound(err) || errors.As(err, &unknown) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		owners = meta.OwnerReferences
	}
	return false, nil
}

// named is what the pod names.
func named(pod *unstructured.Unstructured) []object.Key {
	var keys []object.Key
	add := func(kind string, from map[string]any, fields ...string) {
		if name, _, _ := unstructured.NestedString(from, fields...); name != "" {
			keys = append(keys, object.Key{Kind: kind, Namespace: pod.GetNamespace(), Name: name})
		}
	}
	add("ServiceAccount", pod.Object, "spec", "serviceAccountName")
	for _, volume := range elementsOf(pod.Object, "spec", "volumes") {
		add("Secret", volume, "secret", "secretName")
		add("ConfigMap", volume, "configMap", "name")
		add("PersistentVolumeClaim", volume, "persistentVolumeClaim", "claimName")
		for _, source := range elementsOf(volume, "projected", "sources") {
			add("Secret", source, "secret", "name")
			add("ConfigMap", source, "configMap", "name")
		}
	}
	for _, pull := range elementsOf(pod.Object, "spec", "imagePullSecrets") {
		add("Secret", pull, "name")
	}
	first, main := elementsOf(pod.Object, "spec", "initContainers"), elementsOf(pod.Object, "spec", "containers")
	for _, container := range slices.Concat(first, main) {
		for _, variable := range elementsOf(container, "env") {
			add("Secret", variable, "valueFrom", "secretKeyRef", "name")
			add("ConfigMap", variable, "valueFrom", "configMapKeyRef", "name")
		}
		for _, source := range elementsOf(container, "envFrom") {
			add("Secret", source, "secretRef", "name")
			add("ConfigMap", source, "configMapRef", "name")
		}
	}
	return keys
}

// elementsOf returns a list of an object, as far as its elements are objects.
func elementsOf(from map[string]any, fields ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(from, fields...)
	var out []map[string]any
	for _, one := range list {
		if element, ok := one.(map[string]any); ok {
			out = append(out, element)
		}
	}
	return out
}

// grants tells whether a role, or its binding, gives rights to the agent's account.
func (s *Self) grants(ctx context.Context, ref object.Ref, account string) (bool, error) {
	if ref.Kind == "ClusterRoleBinding" || ref.Kind == "RoleBinding" {
		binding, err := s.Get(ctx, ref)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && s.binds(binding, account), err
	}
	roles, err := s.roles(ctx, account)
	return roles[ref.Key], err
}

// roles are those that bindings give to the account. All bindings are looked through once for all roles that go
// together.
func (s *Self) roles(ctx context.Context, account string) (map[object.Key]bool, error) {
	const fresh = 10 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.granted != nil && s.account == account && time.Since(s.asked) < fresh {
		return s.granted, nil
	}
	asked, granted := time.Now(), map[object.Key]bool{}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		if err := s.eachOf(ctx, rbacKind(kind), func(binding *unstructured.Unstructured) {
			if !s.binds(binding, account) {
				return
			}
			of, _, _ := unstructured.NestedStringMap(binding.Object, "roleRef")
			key := object.Key{Group: rbacGroup, Kind: of["kind"], Name: of["name"]}
			if key.Kind == "Role" {
				key.Namespace = binding.GetNamespace()
			}
			granted[key] = true
		}); err != nil {
			return nil, err
		}
	}
	s.account, s.asked, s.granted = account, asked, granted
	return granted, nil
}

func rbacKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: rbacGroup, Version: "v1", Kind: kind}
}

// eachOf goes through all objects of a kind, page by page.
func (s *Self) eachOf(ctx context.Context, gvk schema.GroupVersionKind, do func(*unstructured.Unstructured)) error {
	kind, err := s.Kind(ctx, gvk)
	if err != nil {
		return err
	}
	const pageSize = 500
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := s.objects(kind, "").List(ctx, options)
		if smaller(err, &options.Limit) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			do(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// binds tells whether the account is among a binding's subjects, by whichever of its names.
func (s *Self) binds(binding *unstructured.Unstructured, account string) bool {
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	return slices.ContainsFunc(subjects, func(one any) bool {
		subject, _ := one.(map[string]any)
		name, _ := subject["name"].(string)
		switch subject["kind"] {
		case "ServiceAccount":
			return name == account && subject["namespace"] == s.Namespace
		case "User":
			return name == "system:serviceaccount:"+s.Namespace+":"+account
		case "Group":
			return name == "system:serviceaccounts" || name == "system:serviceaccounts:"+s.Namespace || name == "system:authenticated"
		}
		return false
	})
}
