package resource

import (
	"net/url"
	"time"

	"fairlead.dev/platform/refusal"
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
type Backend = Of[BackendSpec]

// Backends is their kind.
func Backends() Type[BackendSpec] {
	return Type[BackendSpec]{
		Kind: store.KindBackend,
		Check: func(b *Backend) error {
			if err := b.Spec.check(); err != nil {
				return err
			}
			for i, name := range b.Spec.Projects {
				if !IsName(name) {
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
	if s.Secret() != "" && !IsName(s.Secret()) {
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
