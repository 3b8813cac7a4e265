package viewset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	platform "fairlead.dev/platform/viewset"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

// shownClusters is how many clusters a note names.
const shownClusters = 5

// Hook bounds the sets of each cluster, and says of each write whose views it changes.
type Hook struct {
	// Sees tells what the caller sees; nil: everything.
	Sees func(ctx context.Context) (func(store.Resource) bool, error)
}

// Wrote implements catalog.Hook.
func (h Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	switch {
	case after != nil && after.Kind == store.KindCluster:
		if before != nil && maps.Equal(before.Labels, after.Labels) {
			return nil
		}
		sets, err := all(ctx, w)
		if err != nil {
			return err
		}
		return bounded(sets, *after)
	case after != nil && after.Kind == store.KindViewSet, before != nil && before.Kind == store.KindViewSet:
		return h.wroteSet(ctx, w, before, after)
	}
	return nil
}

func (h Hook) wroteSet(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	sets, err := all(ctx, w)
	if err != nil {
		return err
	}
	if before == nil && len(sets) > most {
		return refusal.New(refusal.Precondition,
			"viewset %q: there are %d already, the most that there may be: delete one that nobody looks at", after.Name, most)
	}
	clusters, err := catalog.AllRows(ctx, w.Tx.View, store.KindCluster)
	if err != nil {
		return err
	}
	if after != nil {
		for _, cluster := range clusters {
			if err := bounded(sets, cluster); err != nil {
				return err
			}
		}
	}
	if w.By.Self() {
		return nil // no person waits for the note
	}
	sees, err := h.Sees(ctx)
	if err != nil {
		return err
	}
	if sees != nil {
		clusters = slices.DeleteFunc(clusters, func(r store.Resource) bool { return !sees(r) })
	}
	was, err := decodeViewSet(before)
	if err != nil {
		return err
	}
	is, err := decodeViewSet(after)
	if err != nil {
		return err
	}
	w.Note(note(was, is, clusters))
	return nil
}

// all are the sets as they are with the write.
func all(ctx context.Context, w *catalog.Write) ([]*consolev1.ViewSet, error) {
	rows, err := catalog.AllRows(ctx, w.Tx.View, store.KindViewSet)
	if err != nil {
		return nil, err
	}
	out := make([]*consolev1.ViewSet, len(rows))
	for i, r := range rows {
		if out[i], err = decodeViewSet(&r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Messages are the sets of rows that the caller sees, as messages, by name; sees nil: the caller sees all.
func Messages(rows map[string]store.Resource, sees func(store.Resource) bool) (map[string]*consolev1.ViewSet, error) {
	out := make(map[string]*consolev1.ViewSet, len(rows))
	for name, r := range rows {
		if sees != nil && !sees(r) {
			continue
		}
		set, err := decodeViewSet(&r)
		if err != nil {
			return nil, err
		}
		out[name] = set
	}
	return out, nil
}

// decodeViewSet is a set as a message; nil: there is none.
func decodeViewSet(r *store.Resource) (*consolev1.ViewSet, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // nil is none
	}
	s, err := kindType().Decode(*r)
	if err != nil {
		return nil, err
	}
	return encode(s), nil
}

// bounded refuses more sets at a cluster than its view may have.
func bounded(sets []*consolev1.ViewSet, cluster store.Resource) error {
	var names []string
	for _, s := range sets {
		if platform.Chooses(s, cluster.Name, cluster.Labels) {
			names = append(names, s.GetMetadata().GetName())
		}
	}
	if len(names) <= platform.MaxAtCluster {
		return nil
	}
	slices.Sort(names)
	return refusal.New(refusal.Precondition, "cluster %q has %d ViewSets then, and its view takes %d: %s. Have one of them choose fewer clusters",
		cluster.Name, len(names), platform.MaxAtCluster, strings.Join(names, ", "))
}

// note says whose views a write changes.
func note(was, is *consolev1.ViewSet, clusters []store.Resource) string {
	same := proto.Equal(platform.Content(was.GetSpec()), platform.Content(is.GetSpec()))
	var added, changed, taken []string
	for _, c := range clusters {
		had, has := was != nil && platform.Chooses(was, c.Name, c.Labels), is != nil && platform.Chooses(is, c.Name, c.Labels)
		switch {
		case has && !had:
			added = append(added, c.Name)
		case had && !has:
			taken = append(taken, c.Name)
		case has && !same:
			changed = append(changed, c.Name)
		}
	}
	var parts []string
	for _, one := range []struct {
		does  string
		names []string
	}{{"adds to", added}, {"changes", changed}, {"takes from", taken}} {
		if len(one.names) > 0 {
			parts = append(parts, fmt.Sprintf("%s the views of %s: %s", one.does, plural.Of(len(one.names), "cluster"), few(one.names)))
		}
	}
	if len(parts) == 0 {
		return "changes the view of no cluster"
	}
	return strings.Join(parts, "; ")
}

// few names some clusters.
func few(names []string) string {
	slices.Sort(names)
	if more := len(names) - shownClusters; more > 0 {
		return strings.Join(names[:shownClusters], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
