package config

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/places"
)

// Opener connects to a backend with the values of its Secret. An Opener asks the backend nothing yet.
type Opener func(spec resource.BackendSpec, secret map[string]string) (backend.Backend, error)

// OpenWith returns the opener of a console whose files are in dir (empty: it has none) and which connects to addresses
// that are allowed.
func OpenWith(dir string, allowed *dialpolicy.Policy) Opener {
	return func(spec resource.BackendSpec, secret map[string]string) (backend.Backend, error) {
		switch {
		case spec.Kubernetes != nil:
			return backend.NewKubernetes(backend.Kubernetes{
				Server:     spec.Kubernetes.Server,
				Namespaces: spec.Kubernetes.Namespaces, Credentials: secret, Addresses: allowed,
			})
		case spec.Vault != nil:
			return backend.NewVault(backend.Vault{
				Address: spec.Vault.Address, Mount: spec.Vault.Mount,
				Namespace: spec.Vault.Namespace, Credentials: secret, Addresses: allowed,
			}, time.Now)
		case spec.Files != nil:
			return backend.NewFiles(backend.Files{Dir: dir, Folder: spec.Files.Folder, Credentials: secret})
		}
		return nil, errors.New("is of a kind that this console does not know")
	}
}

// errLogin is about a backend with a Secret that the master keys don't open.
var errLogin = errors.New("its Secret " + unreadable)

// due has backends read soon.
func due(ctx context.Context, tx *store.Tx, uids []string) error {
	readings, err := tx.Readings(ctx, uids)
	if err != nil {
		return err
	}
	for _, uid := range uids {
		of := readings[uid]
		of.Backend, of.Next = uid, tx.Now()
		if err := tx.PutReading(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// want has places read that nobody has read yet.
func want(ctx context.Context, tx *store.Tx, list []places.Place) error {
	if len(list) == 0 {
		return nil
	}
	if err := tx.PutPlaces(ctx, list); err != nil {
		return err
	}
	var uids []string
	seen := map[string]bool{}
	for _, p := range list {
		if !seen[p.Backend] {
			seen[p.Backend] = true
			uids = append(uids, p.Backend)
		}
	}
	return due(ctx, tx, uids)
}

// connected has backends read that a write is about: by themselves, or by their credentials.
func connected(ctx context.Context, tx *store.Tx, of store.Resource) error {
	if of.Kind == store.KindBackend {
		return due(ctx, tx, []string{of.UID})
	}
	if of.Kind != store.KindSecret {
		return nil
	}
	refs, err := tx.Referrers(ctx, store.Ref{Kind: of.Kind, Name: of.Name}, maxReferrers)
	if err != nil {
		return err
	}
	var names []string
	for _, ref := range refs {
		if ref.Kind == store.KindBackend {
			names = append(names, ref.Name)
		}
	}
	rows, err := tx.Named(ctx, store.KindBackend, names)
	if err != nil {
		return err
	}
	var uids []string
	for _, row := range rows {
		uids = append(uids, row.UID)
	}
	return due(ctx, tx, uids)
}

// Check reads from a backend, which need not be written, with the values of its Secret, and returns the keys at a path.
func (r *Resolver) Check(ctx context.Context, open Opener, spec resource.BackendSpec, path string) (keys []string, problem error, err error) {
	var secret map[string]string
	err = r.store.Read(ctx, func(ctx context.Context, v store.View) error {
		if spec.Secret() == "" {
			return nil
		}
		row, err := v.Get(ctx, store.KindSecret, spec.Secret())
		if err != nil {
			return err
		}
		if secret, err = r.catalog.ValuesOf(row); errors.Is(err, seal.ErrSealed) {
			problem, err = errLogin, nil
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, refusal.New(refusal.Precondition, "secret %q does not exist: write it first", spec.Secret())
	}
	if err != nil || problem != nil {
		return nil, problem, err
	}
	at, problem := open(spec, secret)
	if problem != nil {
		return nil, problem, nil
	}
	if path == "" {
		return nil, at.Check(ctx), nil
	}
	if !backend.Allowed(spec.Paths, path) {
		return nil, errors.New(notGranted), nil
	}
	values, problem := at.Read(ctx, path)
	for key := range values {
		keys = append(keys, key)
	}
	return keys, problem, nil
}
