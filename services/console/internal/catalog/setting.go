package catalog

import (
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"fairlead.dev/services/console/internal/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// configured is what has settings.
type configured interface{ Settings() state.Settings }

func (s ProjectSpec) Settings() state.Settings   { return s.Config }
func (s ConfigSetSpec) Settings() state.Settings { return s.Entries }

// checkSettings looks at settings of a field.
func checkSettings(s state.Settings, field string) error {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		at := fmt.Sprintf("spec.%s[%q]", field, name)
		if IsFact(name) {
			return refusal.New(refusal.Invalid, "%s: ${%s} is known already: choose another name", at, name)
		}
		set := s[name]
		if set.JSON != nil {
			var value any
			if err := json.Unmarshal([]byte(*set.JSON), &value); err != nil {
				return refusal.New(refusal.Invalid, "%s.json: is not JSON", at) // the decoder would quote it
			}
			switch value.(type) {
			case map[string]any, []any:
			default:
				return refusal.New(refusal.Invalid, "%s.json: must be an object or a list; use text, number or flag", at)
			}
		}
		if set.Ref != nil {
			if err := checkRef(set.Ref, at+".ref"); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsFact tells names of what is known of cluster, service and project from those of entries.
func IsFact(name string) bool {
	return strings.HasPrefix(name, "cluster.") || strings.HasPrefix(name, "service.") || strings.HasPrefix(name, "project.")
}

func checkRef(r *state.SettingRef, at string) error {
	return checkPlace(at, r.Backend, r.Path, r.Plain)
}

// checkPlace looks at a path of a backend.
func checkPlace(at, backend, path string, plain bool) error {
	switch {
	case backend != "":
		if !dnsLabel.MatchString(backend) {
			return refusal.New(refusal.Invalid, "%s.backend %q: is not a name of a backend", at, backend)
		}
		if strings.ContainsFunc(path, unicode.IsControl) {
			return refusal.New(refusal.Invalid, "%s.path %q: has characters that no path has", at, path)
		}
	case !dnsLabel.MatchString(path):
		return refusal.New(refusal.Invalid, "%s.path: %s", at, wantSecretName)
	case plain:
		return refusal.New(refusal.Invalid, "%s.plain: the values of Secrets are never shown: leave it out", at)
	}
	return nil
}

// refsOfField are the resources that settings of a field name.
func refsOfField(s state.Settings, field string) (out []Reference) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if r := s[name].Ref; r != nil {
			out = append(out, placeRef(fmt.Sprintf("%s[%q].ref", field, name), r.Backend, r.Path))
		}
	}
	return out
}

func placeRef(at, backend, path string) Reference {
	if backend == "" {
		return RefTo(store.KindSecret, path, at+".path")
	}
	return RefTo(store.KindBackend, backend, at+".backend")
}

// settingsField is where the settings of a kind are written.
func settingsField(kind store.Kind) string {
	if kind == store.KindConfigSet {
		return "spec.entries"
	}
	return "spec.config"
}

// settingsPurpose binds sealed values to what they are of.
func settingsPurpose(kind store.Kind, name string) string {
	return "config/" + string(kind) + "/" + name
}

// sealSettings puts the secret ones into a draft. Unchanged settings stay as they are sealed, so that an update without
// a change is seen as one.
func (c *Catalog) sealSettings(d *store.Draft, settings state.Settings, current *store.Resource) error {
	before, err := c.openSettings(current)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for name, s := range settings {
		if !s.Secret {
			continue
		}
		if values[name] = s.Write; s.Write == "" {
			if values[name] = before[name]; values[name] == "" {
				return refusal.New(refusal.Invalid, "%s %q: %s[%q].secret: has no value yet: write one", d.Kind, d.Name, settingsField(d.Kind), name)
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	plain, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("encode configuration of %s %q: %w", d.Kind, d.Name, err)
	}
	if current != nil {
		old, err := json.Marshal(before)
		if err != nil {
			return fmt.Errorf("encode configuration of %s %q: %w", d.Kind, d.Name, err)
		}
		if hmac.Equal(plain, old) { // in constant time
			d.Sealed = current.Sealed
			return nil
		}
	}
	d.Sealed = c.box.Seal(settingsPurpose(d.Kind, d.Name), plain)
	return nil
}

// openSettings returns the secret settings of a resource by name; nil has none.
func (c *Catalog) openSettings(r *store.Resource) (map[string]string, error) {
	if r == nil || len(r.Sealed) == 0 {
		return nil, nil
	}
	plain, err := c.box.Open(settingsPurpose(r.Kind, r.Name), r.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open configuration of %s %q: %w", r.Kind, r.Name, err)
	}
	values := map[string]string{}
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("open configuration of %s %q: it is damaged", r.Kind, r.Name) // the decoder may quote it
	}
	return values, nil
}

// SettingsOf returns the settings of a resource, and the values of the secret ones by name.
func (c *Catalog) SettingsOf(r store.Resource) (state.Settings, map[string]string, error) {
	settings, err := DecodeSettings(r)
	if err != nil || len(settings) == 0 {
		return nil, nil, err
	}
	values, err := c.openSettings(&r)
	return settings, values, err
}

// DecodeSettings returns the settings of a resource. A resource of a kind without settings has none.
func DecodeSettings(r store.Resource) (state.Settings, error) {
	var spec configured
	var err error
	switch r.Kind {
	case store.KindService:
		spec, err = specOf[state.ServiceSpec](r)
	case store.KindCluster:
		spec, err = specOf[state.ClusterSpec](r)
	case store.KindProject:
		spec, err = specOf[ProjectSpec](r)
	case store.KindConfigSet:
		spec, err = specOf[ConfigSetSpec](r)
	case store.KindSink:
		spec, err = specOf[SinkSpec](r)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return spec.Settings(), nil
}

func specOf[S any](r store.Resource) (spec S, err error) {
	err = state.Decode(r, &spec)
	return spec, err
}

// ValuesOf opens a Secret of the catalog.
func (c *Catalog) ValuesOf(r store.Resource) (map[string]string, error) { return c.openSecret(r) }

// ConfigSetSpec is configuration for services that name it.
type ConfigSetSpec struct {
	Description string `json:"description,omitempty"`
	// Project whose services may name it; empty: any.
	Project string `json:"project,omitempty"`
	// Imports are taken in this order, and Entries over them.
	Imports []Import       `json:"imports,omitempty"`
	Entries state.Settings `json:"entries,omitempty"`
}

// Import is all that is at one place.
type Import struct {
	// Backend is empty for the catalog's own Secrets.
	Backend string `json:"backend,omitempty"`
	Path    string `json:"path"`
	Plain   bool   `json:"plain,omitempty"`
}

// ConfigSet is such a resource.
type ConfigSet = Resource[ConfigSetSpec]

// ConfigSets is their kind.
func ConfigSets() Type[ConfigSetSpec] {
	return Type[ConfigSetSpec]{
		Kind: store.KindConfigSet,
		Check: func(s *ConfigSet) error {
			if s.Spec.Project != "" && !dnsLabel.MatchString(s.Spec.Project) {
				return refusal.New(refusal.Invalid, "spec.project %q: is not a name of a project", s.Spec.Project)
			}
			for i, at := range s.Spec.Imports {
				if err := checkPlace(fmt.Sprintf("spec.imports[%d]", i), at.Backend, at.Path, at.Plain); err != nil {
					return err
				}
			}
			return checkSettings(s.Spec.Entries, "entries")
		},
		Refs: func(s ConfigSetSpec) []Reference {
			refs := refsOfField(s.Entries, "spec.entries")
			for i, at := range s.Imports {
				refs = append(refs, placeRef(fmt.Sprintf("spec.imports[%d]", i), at.Backend, at.Path))
			}
			if s.Project != "" {
				refs = append(refs, RefTo(store.KindProject, s.Project, "spec.project"))
			}
			return refs
		},
	}
}

// RefsOfSettings are what configuration in a resource takes values of, among what else it names; nil has none.
func RefsOfSettings(r *store.Resource) ([]store.Ref, error) {
	if r == nil {
		return nil, nil
	}
	switch r.Kind {
	case store.KindConfigSet:
		set, err := ConfigSets().Decode(*r)
		return once(ConfigSets().Refs(set.Spec)), err
	case store.KindGlobalService:
		global, err := GlobalServices().Decode(*r)
		return once(GlobalServices().Refs(global.Spec)), err
	default:
		settings, err := DecodeSettings(*r)
		return once(refsOfField(settings, "spec.config")), err
	}
}

// ChangedSettings are the secret settings of after, and whether they are not those of before; nil has none.
func (c *Catalog) ChangedSettings(before, after *store.Resource) (map[string]bool, error) {
	if after == nil || after.Kind == store.KindSecret {
		return nil, nil
	}
	was, err := c.openSettings(before)
	if err != nil {
		return nil, err
	}
	is, err := c.openSettings(after)
	if err != nil {
		return nil, err
	}
	changed := make(map[string]bool, len(is))
	for name, value := range is {
		old, ok := was[name]
		changed[name] = ok && old != value
	}
	return changed, nil
}

// SealPurpose is what the sealed part of a resource is bound to.
func SealPurpose(kind store.Kind, name string) string {
	if kind == store.KindSecret {
		return secretPurpose(name)
	}
	return settingsPurpose(kind, name)
}
