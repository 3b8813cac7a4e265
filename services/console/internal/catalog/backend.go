package catalog

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// BackendSpec is a place that keeps configuration. One of Kubernetes, Vault and Files is set.
type BackendSpec struct {
	Kubernetes *KubernetesBackend `json:"kubernetes,omitempty"`
	Vault      *VaultBackend      `json:"vault,omitempty"`
	Files      *FilesBackend      `json:"files,omitempty"`
	// Interval between looks; 0: a minute.
	Interval time.Duration `json:"intervalNanos,omitzero"`
	// Projects whose configuration may name it; none: whoever may change the backend.
	Projects []string `json:"projects,omitempty"`
	// Paths that may be read, and what is below them; none: all.
	Paths []string `json:"paths,omitempty"`
}

// KubernetesBackend is Secrets and ConfigMaps of a cluster.
type KubernetesBackend struct {
	Server     string   `json:"server,omitempty"`
	Secret     string   `json:"secret,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
}

// VaultBackend is a KV engine of version 2.
type VaultBackend struct {
	Address   string `json:"address"`
	Mount     string `json:"mount,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Secret    string `json:"secret"`
}

// FilesBackend is a folder of files.
type FilesBackend struct {
	Folder string `json:"folder,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Secret names what has the credentials; empty: it needs none.
func (s BackendSpec) Secret() string {
	switch {
	case s.Kubernetes != nil:
		return s.Kubernetes.Secret
	case s.Vault != nil:
		return s.Vault.Secret
	case s.Files != nil:
		return s.Files.Secret
	}
	return ""
}

func (s BackendSpec) secretField() string {
	switch {
	case s.Kubernetes != nil:
		return "spec.kubernetes.secret"
	case s.Vault != nil:
		return "spec.vault.secret"
	}
	return "spec.files.secret"
}

// Target is where the credentials go to.
func (s BackendSpec) Target() string {
	switch {
	case s.Kubernetes != nil:
		return "kubernetes " + s.Kubernetes.Server
	case s.Vault != nil:
		return "vault " + s.Vault.Address
	}
	return ""
}

// Backend is such a resource.
type Backend = Resource[BackendSpec]

// Backends is their kind.
func Backends() Type[BackendSpec] {
	return Type[BackendSpec]{
		Kind: store.KindBackend,
		Check: func(b *Backend) error {
			if err := b.Spec.check(); err != nil {
				return err
			}
			for i, name := range b.Spec.Projects {
				if !dnsLabel.MatchString(name) {
					return refusal.New(refusal.Invalid, "spec.projects[%d] %q: is not a name of a project", i, name)
				}
			}
			return nil
		},
		Refs: func(s BackendSpec) []Reference {
			if s.Secret() == "" {
				return nil
			}
			return []Reference{RefTo(store.KindSecret, s.Secret(), s.secretField())}
		},
	}
}

func (s BackendSpec) check() error {
	switch {
	case s.Kubernetes != nil:
		if s.Kubernetes.Server != "" {
			if err := checkAddress("spec.kubernetes.server", s.Kubernetes.Server); err != nil {
				return err
			}
			if s.Kubernetes.Secret == "" {
				return refusal.New(refusal.Invalid, "spec.kubernetes.secret: is missing: name a Secret with token (and ca.crt), or with kubeconfig")
			}
		}
	case s.Vault != nil:
		if err := checkAddress("spec.vault.address", s.Vault.Address); err != nil {
			return err
		}
	case s.Files == nil:
		return refusal.New(refusal.Invalid, "spec: needs one of kubernetes, vault and files")
	}
	if s.Secret() != "" && !dnsLabel.MatchString(s.Secret()) {
		return refusal.New(refusal.Invalid, "%s: %s", s.secretField(), wantSecretName)
	}
	return nil
}

// checkAddress repeats nothing of what may hold a password.
func checkAddress(field, text string) error {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return refusal.New(refusal.Invalid, "%s: must be https://host[:port]", field)
	}
	if at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return refusal.New(refusal.Invalid, "%s: must have no user, query or fragment: put credentials into a Secret", field)
	}
	return nil
}

// boundBackends refuses configuration of backends that are for other projects. Administrators are told of which.
func boundBackends(ctx context.Context, tx *store.Tx, by By, r store.Resource) error {
	refs, err := RefsOfSettings(&r)
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
	project, err := ProjectOf(r)
	if err != nil {
		return err
	}
	for _, name := range names {
		backend, err := Backends().Decode(rows[name])
		if err != nil {
			return err
		}
		if !backend.Spec.serves(project) {
			whose := "other projects"
			if by.all() {
				whose = fmt.Sprintf("projects %s only", strings.Join(backend.Spec.Projects, ", "))
			}
			return refusal.New(refusal.Precondition, "%s %q: backend %q is for configuration of %s", r.Kind, r.Name, name, whose)
		}
	}
	return nil
}

func (s BackendSpec) serves(project string) bool {
	return len(s.Projects) == 0 || slices.Contains(s.Projects, project)
}

// boundBackend refuses to take a backend away from configuration that names it.
func boundBackend(ctx context.Context, tx *store.Tx, by By, r store.Resource) error {
	backend, err := Backends().Decode(r)
	if err != nil || len(backend.Spec.Projects) == 0 {
		return err
	}
	refs, err := tx.Referrers(ctx, store.Ref{Kind: r.Kind, Name: r.Name}, maxReferrers)
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
			project, err := ProjectOf(rows[name])
			if err != nil {
				return err
			}
			if !backend.Spec.serves(project) {
				who := "something"
				if by.all() {
					who = fmt.Sprintf("%s %q", kind, name)
				}
				return refusal.New(refusal.Precondition, "backend %q: spec.projects: %s names it and is of none of them: change it first", r.Name, who)
			}
		}
	}
	return nil
}

// ProjectOf is whose configuration a resource has; empty: nobody's in particular.
func ProjectOf(r store.Resource) (string, error) {
	switch r.Kind {
	case store.KindProject:
		return r.Name, nil
	case store.KindGlobalService:
		global, err := GlobalServices().Decode(r)
		return global.Spec.Template.Project, err
	case store.KindService, store.KindConfigSet, store.KindSink:
		var spec struct{ Project string }
		err := state.Decode(r, &spec)
		return spec.Project, err
	}
	return "", nil
}

// PlacesOf is where a resource takes values from; nil takes none.
func PlacesOf(r *store.Resource) (out []Import, err error) {
	if r == nil {
		return nil, nil
	}
	all := []state.Settings{nil}
	switch r.Kind {
	case store.KindGlobalService:
		global, err := GlobalServices().Decode(*r)
		if err != nil {
			return nil, err
		}
		all[0] = global.Spec.Template.Config
		for _, o := range global.Spec.Overrides {
			all = append(all, o.Config)
		}
	case store.KindConfigSet:
		set, err := ConfigSets().Decode(*r)
		if err != nil {
			return nil, err
		}
		all[0], out = set.Spec.Entries, append(out, set.Spec.Imports...)
	default:
		if all[0], err = DecodeSettings(*r); err != nil {
			return nil, err
		}
	}
	for _, settings := range all {
		for _, s := range settings {
			if s.Ref != nil {
				out = append(out, Import{Backend: s.Ref.Backend, Path: s.Ref.Path, Plain: s.Ref.Plain})
			}
		}
	}
	return out, nil
}

// Readings say how backends are read, by uid.
func (c *Catalog) Readings(ctx context.Context, uids []string) (out map[string]store.Reading, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = v.Readings(ctx, uids)
		return err
	})
	return out, err
}
