// Package contexts keeps which hubs the CLI knows and the credentials for them, in one file that only
// its owner can read. A token is there, too, or in the keyring of the owner's desktop.
package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/lockfile"
)

// Context is one hub and who the CLI is there.
type Context struct {
	Name string `json:"name"`
	// URL of the console.
	URL string `json:"url"`
	// CA holds PEM certificates to trust besides the system's.
	CA    string `json:"ca,omitempty"`
	User  string `json:"user"`
	Token string `json:"token,omitempty"`
	// Keyring says that the token is in the keyring, and not in the file.
	Keyring   bool      `json:"tokenInKeyring,omitempty"`
	Issued    time.Time `json:"tokenIssueTime"`
	Expires   time.Time `json:"tokenExpireTime"`
	Endpoints Endpoints `json:"endpoints"`
}

// Endpoints is where the hub's services are reached.
type Endpoints struct {
	Gitcaches    []string `json:"gitcaches,omitempty"`
	Distributors []string `json:"distributors,omitempty"`
	Tunnels      []string `json:"tunnels,omitempty"`
}

type file struct {
	Current  string    `json:"currentContext"`
	Contexts []Context `json:"contexts"`
}

// Store is the file, and the keyring for what is not in it.
type Store struct {
	path    string
	keyring Keyring
}

// DefaultPath returns $FAIRLEAD_CONFIG, or fairlead/config.yaml in $XDG_CONFIG_HOME or ~/.config.
func DefaultPath(getenv func(string) string) (string, error) {
	if path := getenv("FAIRLEAD_CONFIG"); path != "" {
		return filepath.Abs(path)
	}
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("where to keep the configuration is unknown: set FAIRLEAD_CONFIG to a file, or HOME")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "fairlead", "config.yaml"), nil
}

// NewStore returns the store in a file, which need not exist yet.
func NewStore(path string, keyring Keyring) *Store { return &Store{path, keyring} }

// Path of the file.
func (s *Store) Path() string { return s.path }

// Get returns the context of that name, or the current one for "".
func (s *Store) Get(name string) (Context, error) {
	f, err := s.loadFile()
	if err != nil {
		return Context{}, err
	}
	if name == "" {
		name = f.Current
	}
	i := f.contextIndex(name)
	switch {
	case i >= 0:
		return s.withToken(f.Contexts[i])
	case len(f.Contexts) == 0:
		return Context{}, fmt.Errorf("not logged in to any hub: run `fairlead login URL`, or `fairlead up` to try one here (looked in %s)", s.path)
	case name == "":
		return Context{}, fmt.Errorf("no context is chosen: give --context, or run `fairlead context use NAME`; known are %s", f.contextNames())
	default:
		return Context{}, fmt.Errorf("no context %q in %s: known are %s", name, s.path, f.contextNames())
	}
}

// List returns all contexts by name, and the name of the current one. Tokens in the keyring are left there.
func (s *Store) List() ([]Context, string, error) {
	f, err := s.loadFile()
	return f.Contexts, f.Current, err
}

// Put adds or replaces a context and makes it the current one.
func (s *Store) Put(c Context) error {
	return s.changeFile(func(f *file) error {
		if err := s.putContext(f, c); err != nil {
			return err
		}
		f.Current = c.Name
		return nil
	})
}

// Update replaces a context that is there, and leaves alone which one is current.
func (s *Store) Update(c Context) error {
	return s.changeFile(func(f *file) error {
		if f.contextIndex(c.Name) < 0 {
			return fmt.Errorf("context %q is gone", c.Name)
		}
		return s.putContext(f, c)
	})
}

// Remove forgets a context and its token. No context is the current one afterwards if it was that.
func (s *Store) Remove(name string) error {
	return s.changeFile(func(f *file) error {
		i := f.contextIndex(name)
		if i < 0 {
			return nil
		}
		if f.Contexts[i].Keyring {
			if err := s.keyring.Set(s.keyringAccount(name), ""); err != nil {
				return fmt.Errorf("keyring: %w", err)
			}
		}
		f.Contexts = slices.Delete(f.Contexts, i, i+1)
		if f.Current == name {
			f.Current = ""
		}
		return nil
	})
}

// At returns the context of the hub with a URL: the current one, if it is that, and else the first; false: there is
// none.
func (s *Store) At(url string) (Context, bool, error) {
	f, err := s.loadFile()
	if err != nil {
		return Context{}, false, err
	}
	found := -1
	for i, c := range f.Contexts {
		if c.URL == url && (found < 0 || c.Name == f.Current) {
			found = i
		}
	}
	if found < 0 {
		return Context{}, false, nil
	}
	return f.Contexts[found], true, nil
}

// Use makes a context the current one.
func (s *Store) Use(name string) error {
	return s.changeFile(func(f *file) error {
		if f.contextIndex(name) < 0 {
			return fmt.Errorf("no context %q in %s: known are %s", name, s.path, f.contextNames())
		}
		f.Current = name
		return nil
	})
}

func (f *file) contextIndex(name string) int {
	return slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
}

// putContext brings the token where it belongs, and the rest into the file.
func (s *Store) putContext(f *file, c Context) error {
	if c.Keyring {
		if err := s.keyring.Set(s.keyringAccount(c.Name), c.Token); err != nil {
			return fmt.Errorf("keyring: %w", err)
		}
		c.Token = ""
	}
	f.putContext(c)
	return nil
}

// withToken fetches the token of a context if it is in the keyring.
func (s *Store) withToken(c Context) (Context, error) {
	if !c.Keyring {
		return c, nil
	}
	token, err := s.keyring.Get(s.keyringAccount(c.Name))
	if err != nil {
		return c, fmt.Errorf("the token of context %q is in the keyring: %w. Unlock it, or run `fairlead login %s --context %s` again", c.Name, err, c.URL, c.Name)
	}
	c.Token = token
	return c, nil
}

// keyringAccount is what the keyring knows a token by: contexts of several files may have the same name.
func (s *Store) keyringAccount(name string) string { return name + " in " + s.path }

func (f *file) putContext(c Context) {
	if i := f.contextIndex(c.Name); i >= 0 {
		f.Contexts[i] = c
	} else {
		f.Contexts = append(f.Contexts, c)
	}
	slices.SortFunc(f.Contexts, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
}

func (f *file) contextNames() string {
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

func (s *Store) loadFile() (file, error) {
	var f file
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read configuration: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return f, fmt.Errorf("%s holds tokens and can be read by others: run `chmod 600 %s`", s.path, s.path)
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return f, fmt.Errorf("read configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		// The parser's text may repeat what stands in the file: tokens.
		return f, fmt.Errorf("%s is not a configuration of this version of fairlead: move it away and run `fairlead login` again", s.path)
	}
	return f, nil
}

// changeFile loads, changes and writes the file while no other fairlead does.
func (s *Store) changeFile(do func(*file) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	lock, err := lockfile.Acquire(s.path + ".lock")
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	f, err := s.loadFile()
	if err != nil {
		return err
	}
	if err := do(&f); err != nil {
		return err
	}
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := durable.WriteFile(s.path, data, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}
