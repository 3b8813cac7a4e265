package get

import (
	"context"
	"fmt"
	"slices"

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
	stream, err := h.Live.WatchResources(ctx, &consolev1.WatchResourcesRequest{Kinds: []consolev1.Kind{k.Number()}, Filter: filter})
	if err != nil {
		return h.ExplainError(err)
	}
	defer stream.Close()
	var first []catalogyaml.Message // the resources that are there
	begun := false
	for stream.Receive() {
		changes := stream.Msg().GetChanges()
		found := messagesOf(changes.GetResources())
		switch {
		case stream.Msg().GetSnapshotEnd() != nil:
			err = showResources(a, k, first, format, false, view.View{Now: a.Now(), Wide: format == app.FormatWide})
			begun, first = true, nil
		case !begun:
			first = append(first, found...)
		default:
			err = showChanged(a, k, found, changes.GetDeleted(), format)
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil // interrupted, as it is meant to end
	}
	return h.ExplainError(stream.Err())
}

// showChanged prints a line for each.
func showChanged(a *app.App, k resource.Kind, found []catalogyaml.Message, deleted []*consolev1.Deleted, format string) error {
	if len(found) > 0 {
		if format == app.FormatName {
			if err := showResources(a, k, found, format, false, view.View{}); err != nil {
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
