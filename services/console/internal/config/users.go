package config

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

const (
	// usersChunk is how many services are put together at once, and usersLooked for one page: most services that name a
	// resource get values from it, and a search for one entry ends in time.
	usersChunk, usersLooked = 200, 2_000
)

// User is a service that gets values from a resource.
type User struct {
	Service, Cluster string
	// Entries are in the order of their names.
	Entries []Used
}

// Used is an entry that a service has from a resource.
type Used struct {
	Name, Origin string
	// Over is where the service gets it from instead; empty: it gets this one.
	Over string
}

// Users returns services that the caller in ctx sees and that get values from a resource, or one entry, and the token
// of the next page.
func (r *Resolver) Users(ctx context.Context, of store.Ref, entry string, page catalog.Page) (out []User, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil || !utf8.Valid(after) {
		return nil, "", refusal.New(refusal.Invalid, "page_token: is not one that a list returned")
	}
	if err := r.catalog.MayView(ctx, of); err != nil {
		return nil, "", err
	}
	sees, err := r.catalog.Sees(ctx)
	if err != nil {
		return nil, "", err
	}
	err = r.store.Read(ctx, func(ctx context.Context, v store.View) error {
		names, err := touched(ctx, v, &store.Resource{Kind: of.Kind, Name: of.Name})
		if err != nil {
			return err
		}
		begin, _ := slices.BinarySearch(names, string(after)+"\x00")
		names = names[begin:]
		looked := 0
		for looked < min(len(names), usersLooked) && len(out) < page.Limit() {
			end := min(looked+usersChunk, len(names))
			part, err := r.usersAmong(ctx, v, names[looked:end], of, entry, sees)
			if err != nil {
				return err
			}
			out, looked = append(out, part...), end
		}
		if len(out) > page.Limit() {
			out = out[:page.Limit()]
			next = out[len(out)-1].Service
		} else if looked < len(names) {
			next = names[looked-1]
		}
		return nil
	})
	return out, base64.RawURLEncoding.EncodeToString([]byte(next)), err
}

// usersAmong are the users of a resource among services.
func (r *Resolver) usersAmong(ctx context.Context, v store.View, names []string, of store.Ref, entry string,
	sees func(store.Resource) bool,
) (out []User, err error) {
	found, err := v.Named(ctx, store.KindService, names)
	if err != nil {
		return nil, err
	}
	var services []store.Resource
	for _, name := range names {
		if s, ok := found[name]; ok && !toCatalog(s) && (sees == nil || sees(s)) {
			services = append(services, s)
		}
	}
	effective, _, err := r.effective(ctx, v, services)
	if err != nil {
		return nil, err
	}
	for i, s := range services {
		used := usedOf(effective[i], of, entry)
		if len(used) == 0 {
			continue
		}
		cluster, err := clusterOf(s)
		if err != nil {
			return nil, err
		}
		out = append(out, User{Service: s.Name, Cluster: cluster, Entries: used})
	}
	return out, nil
}

// usedOf are the entries that come from a resource, or would if no other layer were over it.
func usedOf(list []Effective, of store.Ref, entry string) (out []Used) {
	for _, e := range list {
		if entry != "" && e.Name != entry {
			continue
		}
		layers := append([]string{e.Origin}, e.Overrides...)
		i := slices.IndexFunc(layers, func(origin string) bool { return isFrom(origin, of) })
		if i < 0 {
			continue
		}
		used := Used{Name: e.Name, Origin: layers[i]}
		if i > 0 {
			used.Over = e.Origin
		}
		out = append(out, used)
	}
	return out
}

// isFrom says whether an entry with this origin is written in a resource, or kept there.
func isFrom(origin string, of store.Ref) bool {
	layer, at, _ := strings.Cut(origin, " (")
	switch of.Kind {
	case store.KindSecret:
		return at == place{path: of.Name}.String()+")"
	case store.KindBackend:
		return strings.HasPrefix(at, place{backend: of.Name}.String())
	default:
		return layer == string(of.Kind)+"/"+of.Name
	}
}
