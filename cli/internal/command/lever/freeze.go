package lever

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

func freezeCommand(a *app.App) *cobra.Command {
	var reason string
	var leave bool
	cmd := leverCommand("freeze project|cluster NAME --reason TEXT", "Keep what all services of a project or cluster have applied", `Let no service of a project or cluster apply anything new, whatever is pushed.

Changes of others in the cluster are still undone, unless --leave-drift is given. A freeze lasts until "fairlead unfreeze",
or until its end (--for, --until): agents judge that by their own clock, also with the hub away. No file and no "fairlead
apply" ends it. To freeze takes the right to edit the project or the cluster, and so does "fairlead sync service NAME
--override", which lets one service through once. "fairlead hold" does the same for single services.

With --filter several projects or clusters are frozen at once: the command shows them, and asks on a terminal; scripts say
--yes, and --dry-run only shows them.`,
		`  fairlead freeze project shop --reason "the sale" --for 48h
  fairlead freeze cluster edge-1 --reason "new rack" --until 2026-11-30T06:00:00Z --leave-drift
  fairlead freeze clusters --filter 'labels.env = prod' --reason "the sale" --for 48h`, app.WantArgs(1, 2))
	cmd.Flags().StringVar(&reason, "reason", "", "why, for everybody to see")
	cmd.Flags().BoolVar(&leave, "leave-drift", false, "don't undo what others change meanwhile")
	ends := endFlags(a, cmd)
	return freezeMany(a, cmd, "freeze", nil, func(ctx context.Context, h *hubclient.Hub, kind, name string) (string, error) {
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
		return "is " + view.DescribeFreeze(out.GetFreeze()), err
	})
}

func unfreezeCommand(a *app.App) *cobra.Command {
	cmd := leverCommand("unfreeze project|cluster NAME", "End a freeze: apply what waits", `End a freeze: apply what waits.

With --filter the freezes of several projects or clusters: of those that are frozen.`, `  fairlead unfreeze project shop
  fairlead unfreeze clusters --filter 'labels.env = prod'`, app.WantArgs(1, 2))
	open := func(m catalogyaml.Message) bool { return view.FreezeOf(m) == nil }
	return freezeMany(a, cmd, "unfreeze", open, func(ctx context.Context, h *hubclient.Hub, kind, name string) (string, error) {
		out, err := h.Levers.Unfreeze(ctx, &consolev1.UnfreezeRequest{Kind: kind, Name: name})
		if out.GetEnded() {
			return "is not frozen any more", err
		}
		return "was not frozen", err
	})
}

// freezing says in words what a project or cluster is like after a freeze began or ended.
type freezing func(ctx context.Context, h *hubclient.Hub, kind, name string) (string, error)

// frozenMany chooses the projects or clusters of a freeze.
type frozenMany struct {
	app         *app.App
	filter      string
	yes, dryRun bool
}

// freezeMany is a command about one project or cluster, or about those of a filter. skip leaves those out of which
// there is nothing to do.
func freezeMany(
	a *app.App, cmd *cobra.Command, verb string, skip func(catalogyaml.Message) bool, do freezing,
) *cobra.Command {
	m := &frozenMany{app: a}
	cmd.Flags().StringVar(&m.filter, "filter", "",
		"all projects or clusters that fit, such as 'labels.env = prod'; see docs/catalog.md")
	cmd.Flags().BoolVarP(&m.yes, "yes", "y", false, "with --filter: go on without asking")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "with --filter: only show which ones")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		k, err := findFreezable(args[0])
		switch {
		case err != nil:
			return err
		case m.filter != "" && len(args) > 1:
			return fmt.Errorf("--filter chooses %s: leave %q out", k.Plural(), args[1])
		case m.filter != "":
			return m.freezeAll(ctx, h, k, verb, skip, do)
		case len(args) == 1:
			return fmt.Errorf("name a %s, or choose several by --filter", k.Singular())
		case m.yes || m.dryRun:
			return errors.New("--yes and --dry-run go with --filter")
		}
		return m.freezeOne(ctx, h, k, args[1], do)
	})
	return cmd
}

func (m *frozenMany) freezeOne(ctx context.Context, h *hubclient.Hub, k resource.Kind, name string, do freezing) error {
	words, err := do(ctx, h, k.Singular(), name)
	if err != nil {
		return err
	}
	return m.app.Printf("%s/%s %s\n", k.Singular(), name, words)
}

// freezeAll shows which ones a filter chooses, asks, and goes on with each. A resource that fails does not keep the
// others from it.
func (m *frozenMany) freezeAll(ctx context.Context, h *hubclient.Hub, k resource.Kind, verb string, skip func(catalogyaml.Message) bool, do freezing) error {
	found, err := k.ReadMatching(ctx, h, resource.Question{Filter: m.filter})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(f catalogyaml.Message) bool { return skip != nil && skip(f) })
	if len(found) == 0 {
		return fmt.Errorf("there is no %s to %s among those that are chosen", k.Singular(), verb)
	}
	v := view.View{Now: m.app.Now()}
	t := v.NewTable([]string{"NAME", "FREEZE"})
	for _, f := range found {
		v.AddRow(t, []string{f.GetMetadata().GetName(), cmp.Or(view.DescribeFreeze(view.FreezeOf(f)), "none")})
	}
	if m.dryRun {
		return t.Write(m.app.Stdout)
	}
	if !m.yes {
		m.app.Notef("%s these %s (%d), with all services of each:\n", verb, k.Plural(), len(found))
		if err := t.Write(m.app.Stderr); err != nil {
			return err
		}
		if !m.app.AskAgreement(ctx) {
			return errors.New("nothing was done: say --yes to go on")
		}
	}
	failed := 0
	for i, f := range found {
		name := f.GetMetadata().GetName()
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before %s/%s, number %d of %d", k.Singular(), name, i+1, len(found))
		}
		if err := m.freezeOne(ctx, h, k, name, do); err != nil {
			m.app.Notef("%s/%s: %v\n", k.Singular(), name, err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d %s failed, as said above", failed, len(found), k.Plural())
	}
	return nil
}

// findFreezable returns a kind whose services can be frozen together.
func findFreezable(name string) (resource.Kind, error) {
	k, err := resource.FindKind(name)
	if err != nil {
		return k, err
	}
	switch k.ID {
	case catalogyaml.Project, catalogyaml.Cluster:
		return k, nil
	case catalogyaml.Service:
		return k, errors.New("one service is held, not frozen: see `fairlead hold --help`")
	}
	return k, fmt.Errorf("only projects and clusters can be frozen, not %q", name)
}
