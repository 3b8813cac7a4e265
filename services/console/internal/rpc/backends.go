package rpc

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
)

type backends struct{ Deps }

func (s *backends) GetBackend(ctx context.Context, req *consolev1.GetBackendRequest) (*consolev1.GetBackendResponse, error) {
	out, err := serve(s.Deps, backendKind()).Get(ctx, req)
	return &consolev1.GetBackendResponse{Backend: out}, err
}

func (s *backends) ListBackends(ctx context.Context, req *consolev1.ListBackendsRequest) (*consolev1.ListBackendsResponse, error) {
	out, next, err := serve(s.Deps, backendKind()).List(ctx, req)
	return &consolev1.ListBackendsResponse{Backends: out, NextPageToken: next}, err
}

func (s *backends) UpdateBackend(ctx context.Context, req *consolev1.UpdateBackendRequest) (*consolev1.UpdateBackendResponse, error) {
	out, outcome, err := serve(s.Deps, backendKind()).Update(ctx, req.GetBackend(), req)
	return &consolev1.UpdateBackendResponse{Backend: out, Outcome: outcome}, err
}

func (s *backends) DeleteBackend(ctx context.Context, req *consolev1.DeleteBackendRequest) (*consolev1.DeleteBackendResponse, error) {
	return &consolev1.DeleteBackendResponse{}, serve(s.Deps, backendKind()).Delete(ctx, req)
}

func (s *backends) CheckBackend(ctx context.Context, req *consolev1.CheckBackendRequest) (*consolev1.CheckBackendResponse, error) {
	in := decodeBackend(req.GetBackend())
	if _, err := catalog.Backends().Draft(in, catalog.Expectation{AllowMissing: true}); err != nil {
		return nil, s.fail(ctx, err)
	}
	s.Accesses.Tell(who(ctx), audit.Act{Action: "backend.check", Resource: "backend", Name: in.Meta.Name, Reason: "path " + req.GetPath()})
	keys, problem, err := s.Config.Check(ctx, s.OpenBackend, in.Spec, req.GetPath())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	slices.Sort(keys)
	out := &consolev1.CheckBackendResponse{Keys: keys}
	if problem != nil {
		out.Problem = problem.Error()
	}
	return out, nil
}

// showBackends encodes backends with their statuses.
func showBackends(ctx context.Context, c *catalog.Catalog, list []catalog.Backend) ([]*consolev1.Backend, error) {
	readings, err := c.Readings(ctx, each(list, func(b catalog.Backend) string { return b.Meta.UID }))
	return each(list, func(b catalog.Backend) *consolev1.Backend {
		out, of := encodeBackend(b), readings[b.Meta.UID]
		out.Status = &consolev1.BackendStatus{ReadTime: stamp(of.ReadTime)}
		if of.Problem != "" {
			out.Status.Problem = &consolev1.Problem{Message: of.Problem, Since: stamp(of.ProblemTime)}
		}
		return out
	}), err
}

func decodeBackend(b *consolev1.Backend) catalog.Backend {
	spec := b.GetSpec()
	out := catalog.Backend{Meta: descriptor.Meta(b.GetMetadata()), Spec: catalog.BackendSpec{
		Interval: spec.GetInterval().AsDuration(), Projects: spec.GetProjects(), Paths: spec.GetPaths(),
	}}
	switch at := spec.GetAt().(type) {
	case *consolev1.BackendSpec_Kubernetes:
		out.Spec.Kubernetes = &catalog.KubernetesBackend{Server: at.Kubernetes.GetServer(), Secret: at.Kubernetes.GetSecret(), Namespaces: at.Kubernetes.GetNamespaces()}
	case *consolev1.BackendSpec_Vault:
		out.Spec.Vault = &catalog.VaultBackend{
			Address: at.Vault.GetAddress(), Mount: at.Vault.GetMount(), Namespace: at.Vault.GetNamespace(), Secret: at.Vault.GetSecret(),
		}
	case *consolev1.BackendSpec_Files:
		out.Spec.Files = &catalog.FilesBackend{Folder: at.Files.GetFolder(), Secret: at.Files.GetSecret()}
	}
	return out
}

func encodeBackend(b catalog.Backend) *consolev1.Backend {
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
