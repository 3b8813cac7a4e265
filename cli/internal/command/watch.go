package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	kindtable "fairlead.dev/platform/kind"
	"fairlead.dev/platform/manifest"
)

// watchResources shows resources of a kind, and what becomes of them until the person has seen enough.
func (a *app) watchResources(ctx context.Context, h *hub.Hub, k kind, filter, format string) error {
	if !slices.Contains([]string{formatTable, formatWide, formatName}, format) {
		return fmt.Errorf("--watch can't be shown as %s: use table, wide or name", format)
	}
	stream, err := h.Live.WatchResources(ctx, &consolev1.WatchResourcesRequest{Kinds: []consolev1.Kind{k.Number()}, Filter: filter})
	if err != nil {
		return h.ExplainError(err)
	}
	defer stream.Close()
	var first []manifest.Message // the resources that are there
	begun := false
	for stream.Receive() {
		changes := stream.Msg().GetChanges()
		found := messagesOf(changes.GetResources())
		switch {
		case stream.Msg().GetSnapshotEnd() != nil:
			err = a.showResources(k, first, format, false, view{now: a.Now(), wide: format == formatWide})
			begun, first = true, nil
		case !begun:
			first = append(first, found...)
		default:
			err = a.showChanged(k, found, changes.GetDeleted(), format)
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

const (
	// againPause is between two looks at what is no resource, such as a trace.
	againPause = 2 * time.Second
	// clearScreen has a terminal show what follows in place of what is there.
	clearScreen = "\x1b[H\x1b[2J"
)

// ages are those in a text, which change all the time.
var ages = regexp.MustCompile(`\b[0-9.]+(ms|s|m|h|d)\b`)

// repeatText prints a text whenever it says something new, until the person has seen enough: on a terminal in its place, else one after the other.
func (a *app) repeatText(ctx context.Context, format string, text func(context.Context) (string, error)) error {
	if format != formatTable {
		return fmt.Errorf("--watch can't be shown as %s: leave out -o", format)
	}
	pause := time.NewTicker(againPause)
	defer pause.Stop()
	for last := ""; ; {
		now, err := text(ctx)
		if ctx.Err() != nil {
			return nil // interrupted, as it is meant to end
		}
		if err != nil {
			return err
		}
		screen := isTerminal(a.Stdout)
		if plain := ages.ReplaceAllString(now, ""); screen || plain != last {
			if screen {
				now = clearScreen + now
			} else if last != "" {
				now = "\n" + now
			}
			if err := a.printf("%s", now); err != nil {
				return err
			}
			last = plain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// showChanged prints a line for each.
func (a *app) showChanged(k kind, found []manifest.Message, deleted []*consolev1.Deleted, format string) error {
	if len(found) > 0 {
		if format == formatName {
			if err := a.showResources(k, found, format, false, view{}); err != nil {
				return err
			}
		} else {
			t, _ := view{now: a.Now(), wide: format == formatWide}.buildTable(k, found)
			t.Headless = true // the head stands above
			if err := a.writeTable(t); err != nil {
				return err
			}
		}
	}
	for _, d := range deleted {
		if err := a.printf("%s gone\n", d.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// messagesOf takes resources out of their envelopes.
func messagesOf(list []*consolev1.Resource) []manifest.Message {
	var out []manifest.Message
	for _, r := range list {
		if _, m := kindtable.Unwrap(r); m != nil {
			out = append(out, m)
		}
	}
	return out
}
