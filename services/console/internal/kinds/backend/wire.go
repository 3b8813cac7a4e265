package backend

import (
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

func decode(b *consolev1.Backend) resource.Backend {
	spec := b.GetSpec()
	out := resource.Backend{Meta: descriptor.Meta(b.GetMetadata()), Spec: resource.BackendSpec{
		Interval: spec.GetInterval().AsDuration(), Projects: spec.GetProjects(), Paths: spec.GetPaths(),
	}}
	switch at := spec.GetAt().(type) {
	case *consolev1.BackendSpec_Kubernetes:
		out.Spec.Kubernetes = &resource.KubernetesBackend{
			Server: at.Kubernetes.GetServer(),
			Secret: at.Kubernetes.GetSecret(), Namespaces: at.Kubernetes.GetNamespaces(),
		}
	case *consolev1.BackendSpec_Vault:
		out.Spec.Vault = &resource.VaultBackend{
			Address: at.Vault.GetAddress(), Mount: at.Vault.GetMount(), Namespace: at.Vault.GetNamespace(), Secret: at.Vault.GetSecret(),
		}
	case *consolev1.BackendSpec_Files:
		out.Spec.Files = &resource.FilesBackend{Folder: at.Files.GetFolder(), Secret: at.Files.GetSecret()}
	}
	return out
}

func encode(b resource.Backend) *consolev1.Backend {
	spec := &consolev1.BackendSpec{Projects: b.Spec.Projects, Paths: b.Spec.Paths}
	if b.Spec.Interval > 0 {
		spec.Interval = durationpb.New(b.Spec.Interval)
	}
	switch at := b.Spec; {
	case at.Kubernetes != nil:
		spec.At = &consolev1.BackendSpec_Kubernetes{Kubernetes: &consolev1.KubernetesBackend{
			Server: at.Kubernetes.Server, Secret: at.Kubernetes.Secret, Namespaces: at.Kubernetes.Namespaces,
		}}
	case at.Vault != nil:
		spec.At = &consolev1.BackendSpec_Vault{Vault: &consolev1.VaultBackend{
			Address: at.Vault.Address, Mount: at.Vault.Mount, Namespace: at.Vault.Namespace, Secret: at.Vault.Secret,
		}}
	case at.Files != nil:
		spec.At = &consolev1.BackendSpec_Files{Files: &consolev1.FilesBackend{Folder: at.Files.Folder, Secret: at.Files.Secret}}
	}
	return &consolev1.Backend{Metadata: descriptor.Metadata(b.Meta), Spec: spec}
}
