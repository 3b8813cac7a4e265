package get

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	kindtable "fairlead.dev/platform/kind"
)

// watchResources shows resources of a kind, and what becomes of them until the person has seen enough.
func watchResources(ctx context.Context, a *app.App, h *hubclient.Hub, k resource.Kind, filter, format string) error {
	if !slices.Contains([]string{app.FormatTable, app.FormatWide, app.FormatName}, format) {
		return fmt.Errorf("--watch can't be shown as %s: use table, wide or name", format)
	}
	req := &consolev1.WatchResourcesRequest{Kinds: []consolev1.Kind{k.Number()}, Filter: filter}
	w := watching{app: a, kind: k, format: format, inSnapshot: true}
	return app.FollowStream(ctx, a, h, h.Live.WatchResources, req, func(m *consolev1.WatchResourcesResponse) error {
		req.ResumeToken = m.GetResumeToken() // empty inside a snapshot: one that breaks begins anew
		return w.takeMessage(m)
	})
}

// watching is what a person has seen of the resources of a kind.
type watching struct {
	app    *app.App
	kind   resource.Kind
	format string
	// known are the resources as they were shown, by name; nil: nothing was shown.
	known map[string]catalogyaml.Message
	// snapshot is the part of a whole state that has come so far, while it is under way.
	snapshot   []catalogyaml.Message
	inSnapshot bool
}

// takeMessage shows what a message of the stream changes. Of a snapshot after the first, as after a restart of the hub,
// it is what differs from what was shown.
func (w *watching) takeMessage(m *consolev1.WatchResourcesResponse) error {
	found, deleted := messagesOf(m.GetChanges().GetResources()), m.GetChanges().GetDeleted()
	switch {
	case m.GetSnapshotBegin() != nil:
		w.snapshot, w.inSnapshot = nil, true
		return nil
	case m.GetSnapshotEnd() != nil:
		whole := w.snapshot
		w.snapshot, w.inSnapshot = nil, false
		if w.known == nil {
			w.keepShown(whole, nil)
			look := view.View{Now: w.app.Now(), Wide: w.format == app.FormatWide}
			return showResources(w.app, w.kind, whole, w.format, 0, look)
		}
		found, deleted = w.findDifferences(whole)
	case w.inSnapshot:
		w.snapshot = append(w.snapshot, found...)
		return nil
	}
	w.keepShown(found, deleted)
	return showChanged(w.app, w.kind, found, deleted, w.format)
}

// findDifferences returns the resources of a snapshot that are new or other than they were shown, and those that are
// gone.
func (w *watching) findDifferences(
	snapshot []catalogyaml.Message,
) (changed []catalogyaml.Message, gone []*consolev1.Deleted) {
	there := map[string]bool{}
	for _, m := range snapshot {
		name := m.GetMetadata().GetName()
		there[name] = true
		if was, ok := w.known[name]; !ok || !proto.Equal(was, m) {
			changed = append(changed, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		if !there[name] {
			gone = append(gone, &consolev1.Deleted{Name: name})
		}
	}
	return changed, gone
}

// keepShown keeps the resources that are shown.
func (w *watching) keepShown(found []catalogyaml.Message, deleted []*consolev1.Deleted) {
	if w.known == nil {
		w.known = map[string]catalogyaml.Message{}
	}
	for _, m := range found {
		w.known[m.GetMetadata().GetName()] = m
	}
	for _, d := range deleted {
		delete(w.known, d.GetName())
	}
}

// showChanged prints a line for each.
func showChanged(
	a *app.App, k resource.Kind, found []catalogyaml.Message, deleted []*consolev1.Deleted, format string,
) error {
	if len(found) > 0 {
		if format == app.FormatName {
			if err := showResources(a, k, found, format, 0, view.View{}); err != nil {
				return err
			}
		} else {
			t, _ := view.View{Now: a.Now(), Wide: format == app.FormatWide}.BuildTable(k, found)
			t.Headless = true // the head stands above
			if err := a.WriteTable(t); err != nil {
				return err
			}
		}
	}
	for _, d := range deleted {
		if err := a.Printf("%s gone\n", d.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// messagesOf takes resources out of their envelopes.
func messagesOf(list []*consolev1.Resource) []catalogyaml.Message {
	var out []catalogyaml.Message
	for _, r := range list {
		if _, m := kindtable.Unwrap(r); m != nil {
			out = append(out, m)
		}
	}
	return out
}
