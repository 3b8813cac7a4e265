package config

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/places"
)

// effective returns what services get, in their order, and the places of backends that nobody has read yet.
func (r *Resolver) effective(ctx context.Context, v store.View, services []store.Resource) ([][]Effective, []places.Place, error) {
	l := &loaded{resolver: r, rows: map[store.Ref]store.Resource{}, layers: map[store.Ref][]Layer{}, places: map[place]content{}}
	specs := make([]state.ServiceSpec, len(services))
	var refs []store.Ref
	for i, s := range services {
		if err := json.Unmarshal(s.Spec, &specs[i]); err != nil {
			return nil, nil, fmt.Errorf("decode service %q: %w", s.Name, err)
		}
		refs = append(refs, origins(specs[i])...)
	}
	if err := l.load(ctx, v, refs); err != nil {
		return nil, nil, err
	}
	for _, row := range services {
		l.rows[store.Ref{Kind: row.Kind, Name: row.Name}] = row
		refs = append(refs, store.Ref{Kind: row.Kind, Name: row.Name})
	}
	if err := l.loadPlaces(ctx, v, refs); err != nil {
		return nil, nil, err
	}
	out := make([][]Effective, len(services))
	for i, s := range services {
		var layers []Layer
		for _, ref := range append(origins(specs[i]), store.Ref{Kind: s.Kind, Name: s.Name}) {
			of, err := l.of(ref)
			if err != nil {
				return nil, nil, err
			}
			layers = append(layers, of...)
		}
		out[i] = Merge(layers, facts(s.Name, specs[i], l.rows[store.Ref{Kind: store.KindCluster, Name: specs[i].Cluster}].Labels))
	}
	return out, l.unread, nil
}

// origins are what layers of a service come from besides itself, in their order.
func origins(spec state.ServiceSpec) (refs []store.Ref) {
	if spec.Project != "" {
		refs = append(refs, store.Ref{Kind: store.KindProject, Name: spec.Project})
	}
	for _, name := range spec.ConfigSets {
		refs = append(refs, store.Ref{Kind: store.KindConfigSet, Name: name})
	}
	return append(refs, store.Ref{Kind: store.KindCluster, Name: spec.Cluster})
}

// facts are what ${...} knows besides entries.
func facts(name string, spec state.ServiceSpec, labels map[string]string) map[string]string {
	namespace := spec.Namespace
	if namespace == "" {
		namespace = "default"
	}
	out := map[string]string{"cluster.name": spec.Cluster, "service.name": name, "service.namespace": namespace}
	if spec.Project != "" {
		out["project.name"] = spec.Project
	}
	for key, value := range labels {
		out["cluster.labels."+key] = value
	}
	return out
}

// loaded is what layers are made of, each read once.
type loaded struct {
	resolver *Resolver
	rows     map[store.Ref]store.Resource
	layers   map[store.Ref][]Layer
	places   map[place]content
	// unread are places of backends that nobody has read yet.
	unread []places.Place
}

// place is where values are kept.
type place struct{ backend, path string }

// String is for people.
func (p place) String() string {
	if p.backend == "" {
		return fmt.Sprintf("secret %q", p.path)
	}
	return fmt.Sprintf("backend %q, %s", p.backend, p.path)
}

// content is what is at a place, or why nothing is known of it.
type content struct {
	values  map[string]string
	problem string
	// unread says that no console has read the place yet; problem says so, too.
	unread bool
	// stale is why it can't be read now; the values are those that were read last.
	stale string
}

// load reads resources.
func (l *loaded) load(ctx context.Context, v store.View, refs []store.Ref) error {
	named := map[store.Kind]map[string]bool{}
	for _, ref := range refs {
		if named[ref.Kind] == nil {
			named[ref.Kind] = map[string]bool{}
		}
		named[ref.Kind][ref.Name] = true
	}
	for kind, names := range named {
		list := make([]string, 0, len(names))
		for name := range names {
			list = append(list, name)
		}
		found, err := v.Named(ctx, kind, list)
		if err != nil {
			return err
		}
		for name, row := range found {
			l.rows[store.Ref{Kind: kind, Name: name}] = row
		}
	}
	return nil
}

// loadPlaces reads what the settings of resources refer to.
func (l *loaded) loadPlaces(ctx context.Context, v store.View, refs []store.Ref) error {
	wanted := map[place]bool{}
	for _, ref := range refs {
		row, ok := l.rows[ref]
		if !ok {
			continue
		}
		if err := placesOf(row, wanted); err != nil {
			return err
		}
	}
	var names []string
	paths := map[string][]string{} // by backend
	for at := range wanted {
		if at.backend == "" {
			names = append(names, at.path)
		} else {
			paths[at.backend] = append(paths[at.backend], at.path)
		}
	}
	if err := l.loadSecrets(ctx, v, names); err != nil || len(paths) == 0 {
		return err
	}
	backends, err := v.Named(ctx, store.KindBackend, slices.Collect(maps.Keys(paths)))
	if err != nil {
		return err
	}
	for name, list := range paths {
		if err := l.loadBackend(ctx, v, name, backends[name], list); err != nil {
			return err
		}
	}
	return nil
}

// loadSecrets reads Secrets of the catalog.
func (l *loaded) loadSecrets(ctx context.Context, v store.View, names []string) error {
	// PostgreSQL has no such texts.
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !utf8.ValidString(name) || strings.ContainsRune(name, 0) })
	secrets, err := v.Named(ctx, store.KindSecret, known)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := place{path: name}
		row, ok := secrets[name]
		if !ok {
			l.places[at] = content{problem: absent}
			continue
		}
		values, err := l.resolver.catalog.ValuesOf(row)
		if errors.Is(err, seal.ErrSealed) {
			l.places[at] = content{problem: unreadable}
			continue
		}
		if err != nil {
			return err
		}
		l.places[at] = content{values: values}
		if err := backend.Values(values).Fit(); err != nil {
			l.places[at] = content{problem: err.Error()}
		}
	}
	return nil
}

// absent is about a place where nothing is.
const absent = "does not exist"

// unreadable is about values of the catalog that the master keys don't open.
const unreadable = "has values that can not be opened with the master key of the console: write them anew"

// unreadablePlace is about values of a backend that are kept and that the master keys don't open.
const unreadablePlace = "has values that can not be opened with the master key of the console: " +
	"the next read of the backend replaces them"

// notRead is about a place of a backend until its first read is answered.
const notRead = "was not read yet: look again in a moment"

// notGranted is about a path that a backend does not give out.
const notGranted = "is not among spec.paths of the backend, nor below one of them"

// loadBackend takes what was read of a backend last.
func (l *loaded) loadBackend(ctx context.Context, v store.View, name string, row store.Resource, paths []string) error {
	if row.UID == "" {
		for _, path := range paths {
			l.places[place{name, path}] = content{problem: absent}
		}
		return nil
	}
	of, err := resource.Backends().Decode(row)
	if err != nil {
		return err
	}
	kept, err := v.Places(ctx, row.UID, paths)
	if err != nil {
		return err
	}
	for _, path := range paths {
		at := place{name, path}
		p, known := kept[path]
		switch {
		case !backend.Allowed(of.Spec.Paths, path):
			l.places[at] = content{problem: notGranted}
		case p.ReadTime.IsZero():
			if !known {
				l.unread = append(l.unread, places.Place{Backend: row.UID, Path: path})
			}
			l.places[at] = content{problem: cmp.Or(p.Problem, notRead), unread: p.Problem == ""}
		case p.Sealed == nil:
			l.places[at] = content{problem: absent}
		default:
			values, err := l.resolver.openPlace(p)
			if err != nil { // a problem of the services that need it, and of no others
				l.places[at] = content{problem: cmp.Or(p.Problem, unreadablePlace)}
				continue
			}
			l.places[at] = content{values: values, stale: p.Problem}
		}
	}
	return nil
}

// placesOf notes where settings of a resource are kept.
func placesOf(row store.Resource, wanted map[place]bool) error {
	places, err := resource.PlacesOf(&row)
	for _, at := range places {
		wanted[place{at.Backend, at.Path}] = true
	}
	return err
}

func importsOf(row store.Resource) ([]resource.Import, error) {
	if row.Kind != store.KindConfigSet {
		return nil, nil
	}
	set, err := resource.ConfigSets().Decode(row)
	return set.Spec.Imports, err
}

// of returns the layers of a resource.
func (l *loaded) of(ref store.Ref) ([]Layer, error) {
	if layers, ok := l.layers[ref]; ok {
		return layers, nil
	}
	row := l.rows[ref]
	origin := string(ref.Kind) + "/" + ref.Name
	settings, secrets, err := l.resolver.catalog.SettingsOf(row)
	closed := errors.Is(err, seal.ErrSealed)
	if err != nil && !closed {
		return nil, err
	}
	imports, err := importsOf(row)
	if err != nil {
		return nil, err
	}
	var layers []Layer
	for _, at := range imports {
		layers = append(layers, l.imported(origin, at))
	}
	if len(settings) > 0 {
		own := Layer{Origin: origin, Entries: make(map[string]Entry, len(settings))}
		for name, s := range settings {
			own.Entries[name] = l.entry(s, secrets[name])
			if closed && s.Secret {
				own.Entries[name] = Entry{Type: Text, Secret: true, Problem: origin + " " + unreadable}
			}
		}
		layers = append(layers, own)
	}
	l.layers[ref] = layers
	return layers, nil
}

// entryName is what keys of imports must be to become entries, and longestEntryName their longest: a bound in the
// expression would take each program milliseconds when it starts.
var entryName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

const longestEntryName = 253

func (l *loaded) imported(origin string, at resource.Import) Layer {
	from := place{at.Backend, at.Path}
	found := l.places[from]
	out := Layer{Origin: origin, Entries: map[string]Entry{}}
	if found.problem != "" {
		// Which entries are missing is not known: the place stands for them.
		out.Entries[from.String()] = Entry{
			Type: Text, Secret: true, Place: from.String(), Problem: found.problem, Unread: found.unread,
		}
	}
	for key, value := range found.values {
		if len(key) <= longestEntryName && entryName.MatchString(key) && !resource.IsFact(key) {
			out.Entries[key] = Entry{Type: Text, Value: value, Literal: true, Secret: !at.Plain, Place: from.String(), Stale: found.stale}
		}
	}
	return out
}

func (l *loaded) entry(s state.Setting, secret string) Entry {
	switch {
	case s.Text != nil:
		return Entry{Type: Text, Value: *s.Text}
	case s.Number != nil:
		return Entry{Type: Number, Value: formatNumber(*s.Number)}
	case s.Flag != nil:
		return Entry{Type: Flag, Value: fmt.Sprint(*s.Flag)}
	case s.JSON != nil:
		return Entry{Type: JSON, Value: *s.JSON}
	case s.Secret:
		return Entry{Type: Text, Value: secret, Secret: true}
	case s.Ref == nil:
		return Entry{Type: Text, Problem: "is of a kind that this console does not know"}
	}
	from := place{s.Ref.Backend, s.Ref.Path}
	out := Entry{Type: Text, Literal: true, Secret: !s.Ref.Plain, Place: from.String()}
	found := l.places[from]
	value, ok := found.values[s.Ref.Key]
	switch {
	case found.problem != "":
		out.Problem, out.Unread = from.String()+" "+found.problem, found.unread
	case !ok:
		out.Problem = fmt.Sprintf("%s has no key %q", from, s.Ref.Key)
	default:
		out.Value, out.Stale = value, found.stale
	}
	return out
}
