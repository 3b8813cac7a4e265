// Package depend keeps the services that others wait for: each exists, is for the same cluster, and waits for none of
// these.
package depend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Hook refuses services that wait for a service which is not in their cluster, or for themselves.
type Hook struct{}

// Wrote implements catalog.Hook.
func (Hook) Wrote(ctx context.Context, w *catalog.Write, _, after *store.Resource) error {
	if after == nil || after.Kind != store.KindService {
		return nil
	}
	var spec state.ServiceSpec
	if err := state.Decode(*after, &spec); err != nil {
		return err
	}
	names := spec.Wishes().DependsOn
	found, err := w.Tx.Named(ctx, store.KindService, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		r, ok := found[name]
		if !ok {
			return refusal.New(refusal.Precondition,
				"service %q: spec.sync.dependsOn: service %q does not exist: create it first", after.Name, name)
		}
		var of state.ServiceSpec
		if err := state.Decode(r, &of); err != nil {
			return err
		}
		if of.Cluster != spec.Cluster {
			return refusal.New(refusal.Precondition, "service %q: spec.sync.dependsOn: service %q is for cluster %q, and this one for %q: only services of one cluster can wait for each other",
				after.Name, name, of.Cluster, spec.Cluster)
		}
	}
	return nil
}

// WroteAll implements catalog.Batcher: it looks for circles, so that each service is walked over once however many are
// written together.
func (Hook) WroteAll(ctx context.Context, tx *store.Tx, written []catalog.Written) error {
	waits, from := map[string][]string{}, []string(nil)
	for _, w := range written {
		if w.Kind != store.KindService {
			return nil // all writes are of one kind
		}
		if err := waitsOf(waits, *w.After); err != nil {
			return err
		}
		from = append(from, w.Name)
	}
	for ahead := unknown(waits, from); len(ahead) > 0; {
		found, err := tx.Named(ctx, store.KindService, ahead)
		if err != nil {
			return err
		}
		for _, name := range ahead {
			waits[name] = nil // also of one that is gone since
			if r, ok := found[name]; ok {
				if err := waitsOf(waits, r); err != nil {
					return err
				}
			}
		}
		ahead = unknown(waits, ahead)
	}
	circle := circleIn(waits, from)
	if circle == nil {
		return nil
	}
	// There was none before, so one that was written is in it.
	begin := slices.IndexFunc(circle, func(name string) bool { return slices.Contains(from, name) })
	circle = append(slices.Clone(circle[begin:]), circle[:begin+1]...)
	name := circle[0]
	circular := &refusal.Error{Reason: refusal.Precondition, Message: fmt.Sprintf("service %q: spec.sync.dependsOn: it would wait for itself: %s. Take one of these out", name, strings.Join(circle, " -> "))}
	return refusal.Together([]refusal.Fault{{Index: slices.Index(from, name), Kind: string(store.KindService), Name: name, Err: circular}})
}

// waitsOf notes what a service waits for.
func waitsOf(waits map[string][]string, r store.Resource) error {
	var spec state.ServiceSpec
	err := state.Decode(r, &spec)
	waits[r.Name] = spec.Wishes().DependsOn
	return err
}

// unknown are the services that some wait for and of which nothing is noted.
func unknown(waits map[string][]string, of []string) []string {
	names := map[string]bool{}
	for _, name := range of {
		for _, next := range waits[name] {
			if _, ok := waits[next]; !ok {
				names[next] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// circleIn returns names that wait for each other in a circle, each once; nil: there are none.
func circleIn(waits map[string][]string, from []string) []string {
	var path []string
	walked := map[string]bool{} // true: all behind it
	var follow func(name string) []string
	follow = func(name string) []string {
		if done, begun := walked[name]; done {
			return nil
		} else if begun {
			return path[slices.Index(path, name):]
		}
		walked[name] = false
		path = append(path, name)
		for _, next := range waits[name] {
			if circle := follow(next); circle != nil {
				return circle
			}
		}
		walked[name] = true
		path = path[:len(path)-1]
		return nil
	}
	for _, name := range from {
		if circle := follow(name); circle != nil {
			return circle
		}
	}
	return nil
}
