package resource

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

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

// Configured is a spec with settings.
type Configured interface{ Settings() state.Settings }

// Settings implements Configured.
func (s ProjectSpec) Settings() state.Settings { return s.Config }

// Settings implements Configured.
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
		if !IsName(backend) {
			return refusal.New(refusal.Invalid, "%s.backend %q: is not a name of a backend", at, backend)
		}
		if strings.ContainsFunc(path, unicode.IsControl) {
			return refusal.New(refusal.Invalid, "%s.path %q: has characters that no path has", at, path)
		}
	case !IsName(path):
		return refusal.New(refusal.Invalid, "%s.path: %s", at, wantSecretName)
	case plain:
		return refusal.New(refusal.Invalid, "%s.plain: the values of Secrets are never shown: leave it out", at)
	}
	return nil
}

// RefsOfField are the resources that settings of a field name.
func RefsOfField(s state.Settings, field string) (out []Reference) {
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

// DecodeSettings returns the settings of a resource. A resource of a kind without settings has none.
func DecodeSettings(r store.Resource) (state.Settings, error) {
	var spec Configured
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

// RefsOfSettings are what configuration in a resource takes values of, among what else it names; nil has none.
func RefsOfSettings(r *store.Resource) ([]store.Ref, error) {
	if r == nil {
		return nil, nil
	}
	switch r.Kind {
	case store.KindConfigSet:
		set, err := ConfigSets().Decode(*r)
		return Distinct(ConfigSets().Refs(set.Spec)), err
	case store.KindGlobalService:
		global, err := GlobalServices().Decode(*r)
		return Distinct(GlobalServices().Refs(global.Spec)), err
	default:
		settings, err := DecodeSettings(*r)
		return Distinct(RefsOfField(settings, "spec.config")), err
	}
}
