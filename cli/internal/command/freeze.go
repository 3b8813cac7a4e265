package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/manifest"
)

func (a *app) freezeCommand() *cobra.Command {
	var reason string
	var leave bool
	cmd := a.leverCommand("freeze project|cluster NAME --reason TEXT", "Keep what all services of a project or cluster have applied", `Keep what all services of a project or cluster have applied, whatever is pushed.

What others change is still undone, but for --leave-drift. It lasts until "fairlead unfreeze", or ends by itself with --for or --until: agents
judge that by their own clock, also with the hub away. No file and no "fairlead apply" ends it. It takes the right to edit the project or the
cluster, and so does "fairlead sync service NAME --override", which lets one service through once. Services stand still by "fairlead hold".

Several projects or clusters are frozen at once by --filter: which ones is shown, and asked on a terminal; scripts say --yes, and --dry-run
only shows it.`,
		`  fairlead freeze project shop --reason "the sale" --for 48h
  fairlead freeze cluster edge-1 --reason "moves to another rack" --until 2026-11-30T06:00:00Z --leave-drift
  fairlead freeze clusters --filter 'labels.env = prod' --reason "the sale" --for 48h`, wantArgs(1, 2))
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	cmd.Flags().BoolVar(&leave, "leave-drift", false, "don't undo what others change meanwhile")
	ends := a.endFlags(cmd)
	return a.freezeMany(cmd, "freeze", nil, func(ctx context.Context, h *hub.Hub, kind, name string) (string, error) {
		if reason == "" {
			return "", fmt.Errorf("--reason is missing: say to others why %s stands still", name)
		}
		until, err := ends.endTime()
		if err != nil {
			return "", err
		}
		req := &consolev1.FreezeRequest{Kind: kind, Name: name, Reason: reason, UntilTime: until}
		if leave {
			req.Drift = deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE
		}
		out, err := h.Levers.Freeze(ctx, req)
		return "is " + describeFreeze(out.GetFreeze()), err
	})
}

func (a *app) unfreezeCommand() *cobra.Command {
	cmd := a.leverCommand("unfreeze project|cluster NAME", "End a freeze: apply what waits", `End a freeze: apply what waits.

With --filter the freezes of several projects or clusters: of those that are frozen.`, `  fairlead unfreeze project shop
  fairlead unfreeze clusters --filter 'labels.env = prod'`, wantArgs(1, 2))
	open := func(m manifest.Message) bool { return freezeOf(m) == nil }
	return a.freezeMany(cmd, "unfreeze", open, func(ctx context.Context, h *hub.Hub, kind, name string) (string, error) {
		out, err := h.Levers.Unfreeze(ctx, &consolev1.UnfreezeRequest{Kind: kind, Name: name})
		if out.GetEnded() {
			return "is not frozen any more", err
		}
		return "was not frozen", err
	})
}

// freezing says in words what a project or cluster is like after a freeze began or ended.
type freezing func(ctx context.Context, h *hub.Hub, kind, name string) (string, error)

// frozenMany chooses the projects or clusters of a freeze.
type frozenMany struct {
	app         *app
	filter      string
	yes, dryRun bool
}

// freezeMany is a command about one project or cluster, or about those of a filter. skip leaves those out of which there is nothing to do.
func (a *app) freezeMany(cmd *cobra.Command, verb string, skip func(manifest.Message) bool, do freezing) *cobra.Command {
	m := &frozenMany{app: a}
	cmd.Flags().StringVar(&m.filter, "filter", "", "all projects or clusters that fit, such as 'labels.env = prod'; see docs/catalog.md")
	cmd.Flags().BoolVarP(&m.yes, "yes", "y", false, "with --filter: go on without asking")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "with --filter: only show which ones")
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		k, err := findFreezable(args[0])
		switch {
		case err != nil:
			return err
		case m.filter != "" && len(args) > 1:
			return fmt.Errorf("--filter chooses %s: leave %q out", k.plural(), args[1])
		case m.filter != "":
			return m.freezeAll(ctx, h, k, verb, skip, do)
		case len(args) == 1:
			return fmt.Errorf("name a %s, or choose several by --filter", k.singular())
		case m.yes || m.dryRun:
			return errors.New("--yes and --dry-run go with --filter")
		}
		return m.freezeOne(ctx, h, k, args[1], do)
	})
	return cmd
}

func (m *frozenMany) freezeOne(ctx context.Context, h *hub.Hub, k kind, name string, do freezing) error {
	words, err := do(ctx, h, k.singular(), name)
	if err != nil {
		return err
	}
	return m.app.printf("%s/%s %s\n", k.singular(), name, words)
}

// freezeAll shows which ones a filter chooses, asks, and goes on with each. A resource that fails does not keep the others
// from it.
func (m *frozenMany) freezeAll(ctx context.Context, h *hub.Hub, k kind, verb string, skip func(manifest.Message) bool, do freezing) error {
	found, err := k.readMatching(ctx, h, question{filter: m.filter})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(f manifest.Message) bool { return skip != nil && skip(f) })
	if len(found) == 0 {
		return fmt.Errorf("there is no %s to %s among those that are chosen", k.singular(), verb)
	}
	v := view{now: m.app.Now()}
	t := v.newTable([]string{"NAME", "FREEZE"})
	for _, f := range found {
		v.addRow(t, []string{f.GetMetadata().GetName(), cmp.Or(describeFreeze(freezeOf(f)), "none")})
	}
	if m.dryRun {
		return t.Write(m.app.Stdout)
	}
	if !m.yes {
		m.app.notef("%s these %s (%d), with all services of each:\n", verb, k.plural(), len(found))
		if err := t.Write(m.app.Stderr); err != nil {
			return err
		}
		if !m.app.askAgreement() {
			return errors.New("nothing was done: say --yes to go on")
		}
	}
	failed := 0
	for _, f := range found {
		name := f.GetMetadata().GetName()
		if err := m.freezeOne(ctx, h, k, name, do); err != nil {
			m.app.notef("%s/%s: %v\n", k.singular(), name, err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d %s failed, as said above", failed, len(found), k.plural())
	}
	return nil
}

// freezeOf is the freeze of a project or cluster; nil: there is none.
func freezeOf(m manifest.Message) *deliveryv1.Freeze {
	of, ok := m.(interface{ GetFreeze() *deliveryv1.Freeze })
	if !ok {
		return nil
	}
	return of.GetFreeze()
}

// findFreezable returns a kind whose services can be frozen together.
func findFreezable(name string) (kind, error) {
	k, err := findKind(name)
	if err != nil {
		return k, err
	}
	switch k.kind {
	case manifest.Project, manifest.Cluster:
		return k, nil
	case manifest.Service:
		return k, errors.New("one service is held, not frozen: see `fairlead hold --help`")
	}
	return k, fmt.Errorf("only projects and clusters can be frozen, not %q", name)
}

// describeFreeze returns a freeze in words; empty: there is none.
func describeFreeze(f *deliveryv1.Freeze) string {
	if f == nil {
		return ""
	}
	words := "frozen"
	if f.GetAuthor() != "" {
		words += " by " + f.GetAuthor()
	}
	words += formatReason(f.GetReason())
	if isSet(f.GetUntilTime()) {
		words += " until " + f.GetUntilTime().AsTime().Local().Format(time.RFC3339)
	}
	return words
}
