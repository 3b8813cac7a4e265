package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/manifest"
)

func (a *app) freeze() *cobra.Command {
	var reason string
	var leave bool
	cmd := a.lever("freeze project|cluster NAME --reason TEXT", "Keep what all services of a project or cluster have applied", `Keep what all services of a project or cluster have applied, whatever is pushed.

What others change is still undone, but for --leave-drift. It lasts until "fairlead unfreeze", or ends by itself with --for or --until: agents
judge that by their own clock, also with the hub away. No file and no "fairlead apply" ends it. It takes the right to edit the project or the
cluster, and so does "fairlead sync service NAME --override", which lets one service through once. Services stand still by "fairlead hold".`,
		`  fairlead freeze project shop --reason "the sale" --for 48h
  fairlead freeze cluster edge-1 --reason "moves to another rack" --until 2026-11-30T06:00:00Z --leave-drift`, wants(2, 2))
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	cmd.Flags().BoolVar(&leave, "leave-drift", false, "don't undo what others change meanwhile")
	ends := a.endFlags(cmd)
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		kind, err := freezable(args[0])
		if err != nil {
			return err
		}
		if reason == "" {
			return fmt.Errorf("--reason is missing: say to others why %s stands still", args[1])
		}
		until, err := ends.time()
		if err != nil {
			return err
		}
		req := &consolev1.FreezeRequest{Kind: kind, Name: args[1], Reason: reason, UntilTime: until}
		if leave {
			req.Drift = deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE
		}
		out, err := h.Levers.Freeze(ctx, req)
		if err != nil {
			return err
		}
		return a.printf("%s/%s is %s\n", kind, args[1], frozen(out.GetFreeze()))
	})
	return cmd
}

func (a *app) unfreeze() *cobra.Command {
	cmd := a.lever("unfreeze project|cluster NAME", "End a freeze: apply what waits", `End a freeze: apply what waits.`, `  fairlead unfreeze project shop`, wants(2, 2))
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		kind, err := freezable(args[0])
		if err != nil {
			return err
		}
		out, err := h.Levers.Unfreeze(ctx, &consolev1.UnfreezeRequest{Kind: kind, Name: args[1]})
		if err != nil {
			return err
		}
		words := "is not frozen any more"
		if !out.GetEnded() {
			words = "was not frozen"
		}
		return a.printf("%s/%s %s\n", kind, args[1], words)
	})
	return cmd
}

// freezable is a kind whose services can be frozen together.
func freezable(name string) (string, error) {
	k, err := findKind(name)
	if err != nil {
		return "", err
	}
	switch k.kind {
	case manifest.Project, manifest.Cluster:
		return k.singular(), nil
	case manifest.Service:
		return "", fmt.Errorf("one service is held, not frozen: see `fairlead hold --help`")
	}
	return "", fmt.Errorf("only projects and clusters can be frozen, not %q", name)
}

// frozen is a freeze in words; empty: there is none.
func frozen(f *deliveryv1.Freeze) string {
	if f == nil {
		return ""
	}
	words := "frozen"
	if f.GetAuthor() != "" {
		words += " by " + f.GetAuthor()
	}
	words += because(f.GetReason())
	if isSet(f.GetUntilTime()) {
		words += " until " + f.GetUntilTime().AsTime().Local().Format(time.RFC3339)
	}
	return words
}
