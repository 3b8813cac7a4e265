package bound

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// checkBackends refuses configuration of backends that are for other projects. Administrators are told of which.
func checkBackends(ctx context.Context, tx *store.Tx, by catalog.By, r store.Resource) error {
	refs, err := resource.RefsOfSettings(&r)
	if err != nil {
		return err
	}
	var names []string
	for _, ref := range refs {
		if ref.Kind == store.KindBackend {
			names = append(names, ref.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := tx.Named(ctx, store.KindBackend, names)
	if err != nil {
		return err
	}
	project, err := resource.ProjectOf(r)
	if err != nil {
		return err
	}
	for _, name := range names {
		backend, err := resource.Backends().Decode(rows[name])
		if err != nil {
			return err
		}
		if !serves(backend.Spec, project) {
			whose := "other projects"
			if by.SeesAll() {
				whose = fmt.Sprintf("projects %s only", strings.Join(backend.Spec.Projects, ", "))
			}
			return refusal.New(refusal.Precondition, "%s %q: backend %q is for configuration of %s", r.Kind, r.Name, name, whose)
		}
	}
	return nil
}

func serves(s resource.BackendSpec, project string) bool {
	return len(s.Projects) == 0 || slices.Contains(s.Projects, project)
}

// checkBackend refuses to take a backend away from configuration that names it.
func checkBackend(ctx context.Context, tx *store.Tx, by catalog.By, r store.Resource) error {
	backend, err := resource.Backends().Decode(r)
	if err != nil || len(backend.Spec.Projects) == 0 {
		return err
	}
	refs, err := tx.Referrers(ctx, store.Ref{Kind: r.Kind, Name: r.Name}, catalog.MaxReferrers)
	if err != nil {
		return err
	}
	byKind := map[store.Kind][]string{}
	for _, ref := range refs {
		byKind[ref.Kind] = append(byKind[ref.Kind], ref.Name)
	}
	for _, kind := range store.Kinds() {
		rows, err := tx.Named(ctx, kind, byKind[kind])
		if err != nil {
			return err
		}
		for _, name := range byKind[kind] {
			project, err := resource.ProjectOf(rows[name])
			if err != nil {
				return err
			}
			if !serves(backend.Spec, project) {
				who := "something"
				if by.SeesAll() {
					who = fmt.Sprintf("%s %q", kind, name)
				}
				return refusal.New(refusal.Precondition, "backend %q: spec.projects: %s names it and is of none of them: change it first", r.Name, who)
			}
		}
	}
	return nil
}
