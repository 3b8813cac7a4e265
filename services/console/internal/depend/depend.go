// Package depend keeps the services that others wait for: each exists, is for the same cluster, and waits for none of
// these.
package depend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Hook refuses services that begin to wait for a service which is not in their cluster, or for themselves. A service that
// waits for such a one since before can be changed, and keeps its levers.
type Hook struct{}

// Wrote implements catalog.Hook: services that are new in a write are all there.
func (Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if after == nil || after.Kind != store.KindService {
		return nil
	}
	_, names, err := begun(before, after)
	if err != nil {
		return err
	}
	found, err := w.Tx.Named(ctx, store.KindService, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := found[name]; !ok {
			return refusal.New(refusal.Precondition,
				"service %q: spec.sync.dependsOn: service %q does not exist: create it first", after.Name, name)
		}
	}
	return nil
}

// begun returns a service as it is written, and the services that it did not wait for before in its cluster.
func begun(before, after *store.Resource) (is state.ServiceSpec, names []string, err error) {
	if err := state.Decode(*after, &is); err != nil {
		return is, nil, err
	}
	names = is.WaitsFor()
	if before == nil || len(names) == 0 {
		return is, names, nil
	}
	var was state.ServiceSpec
	if err := state.Decode(*before, &was); err != nil {
		return is, nil, err
	}
	if was.Cluster == is.Cluster {
		known := was.WaitsFor()
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(known, name) })
	}
	return is, names, nil
}

// WroteAll implements catalog.Batcher: services that move together are all in their new cluster. It looks for circles,
// too, so that each service is walked over once however many are written together.
func (Hook) WroteAll(ctx context.Context, tx *store.Tx, written []catalog.Written) error {
	waits, asked := map[string][]string{}, map[string]bool{}
	var from []string  // those that begin to wait
	var begins []began // the same, with what they begin to wait for
	for i, w := range written {
		if w.Kind != store.KindService {
			return nil // all writes are of one kind
		}
		is, names, err := begun(w.Before, w.After)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			continue
		}
		waits[w.Name], from = is.WaitsFor(), append(from, w.Name)
		begins = append(begins, began{index: i, service: w.Name, cluster: is.Cluster, names: names})
		for _, name := range names {
			asked[name] = true
		}
	}
	found, err := tx.Named(ctx, store.KindService, state.TrueKeys(asked))
	if err != nil {
		return err
	}
	var faults []refusal.Fault
	for _, b := range begins {
		if err := b.elsewhere(found); err != nil {
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok {
				return err
			}
			faults = append(faults, b.fault(refused))
		}
	}
	if len(faults) > 0 {
		return refusal.Together(faults)
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
	begin := slices.IndexFunc(circle, func(name string) bool { return slices.Contains(from, name) })
	circle = append(slices.Clone(circle[begin:]), circle[:begin+1]...)
	name := circle[0]
	circular := &refusal.Error{Reason: refusal.Precondition, Message: fmt.Sprintf("service %q: spec.sync.dependsOn: it would wait for itself: %s. Take one of these out", name, strings.Join(circle, " -> "))}
	return refusal.Together([]refusal.Fault{begins[slices.Index(from, name)].fault(circular)})
}

// began is a service that begins to wait for others, and its index among what is written.
type began struct {
	index            int
	service, cluster string
	names            []string
}

func (b *began) fault(why *refusal.Error) refusal.Fault {
	return refusal.Fault{Index: b.index, Kind: string(store.KindService), Name: b.service, Err: why}
}

// elsewhere refuses to wait for a service of another cluster.
func (b *began) elsewhere(found map[string]store.Resource) error {
	for _, name := range b.names {
		var of state.ServiceSpec
		if err := state.Decode(found[name], &of); err != nil {
			return err
		}
		if of.Cluster != b.cluster {
			return refusal.New(refusal.Precondition, "service %q: spec.sync.dependsOn: service %q is for cluster %q, and this one for %q: only services of one cluster can wait for each other",
				b.service, name, of.Cluster, b.cluster)
		}
	}
	return nil
}

// waitsOf notes what a service waits for.
func waitsOf(waits map[string][]string, r store.Resource) error {
	var spec state.ServiceSpec
	err := state.Decode(r, &spec)
	waits[r.Name] = spec.WaitsFor()
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

// circleIn returns names that wait for each other in a circle with some of from, each once; nil: there are none. A circle
// without them was there before: an earlier console did not count what files say behind a rollback.
func circleIn(waits map[string][]string, from []string) []string {
	var path []string
	walked := map[string]bool{} // true: all behind it
	var follow func(name string) []string
	follow = func(name string) []string {
		if done, begun := walked[name]; done {
			return nil
		} else if begun {
			circle := path[slices.Index(path, name):]
			if slices.ContainsFunc(circle, func(name string) bool { return slices.Contains(from, name) }) {
				return circle
			}
			return nil
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
