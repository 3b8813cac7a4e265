package lever

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/plural"
)

// many chooses the services of a lever that is pulled of several at once.
type many struct {
	app                     *app.App
	filter, cluster, global string
	yes, dryRun             bool
}

// manyFlags are those of a lever that several services can have.
func manyFlags(a *app.App, cmd *cobra.Command) *many {
	m := &many{app: a}
	cmd.Flags().StringVar(&m.filter, "filter", "",
		"of all services that fit, such as 'labels.env = prod'; see docs/catalog.md")
	cmd.Flags().StringVar(&m.cluster, "cluster", "", "of all services of this `cluster`")
	cmd.Flags().StringVar(&m.global, "global", "", "of all services that come of this `globalservice`")
	cmd.Flags().BoolVarP(&m.yes, "yes", "y", false, "of several services: go on without asking")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "of several services: only show which ones")
	return m
}

// isAsked says whether a command line is about several services; global service is one of its ways to name them.
func (m *many) isAsked(args []string) (bool, error) {
	chooses := m.filter != "" || m.cluster != "" || m.global != ""
	if k, err := resource.FindKind(args[0]); err == nil && k.ID == catalogyaml.Global && len(args) == 2 {
		if m.global != "" {
			return false, errors.New("name the global service once: as an argument, or by --global")
		}
		m.global = args[1]
		return true, nil
	}
	switch {
	case chooses && len(args) > 1:
		return false, fmt.Errorf("--filter, --cluster and --global choose services: leave %q out", args[1])
	case !chooses && len(args) == 1:
		return false, errors.New("name a service, or choose several by --filter, --cluster or --global")
	case !chooses && (m.yes || m.dryRun):
		return false, errors.New("--yes and --dry-run go with --filter, --cluster or --global")
	}
	return chooses, nil
}

// buildFilter returns the filter of the hub that chooses them.
func (m *many) buildFilter() string {
	var parts []string
	if m.filter != "" {
		parts = append(parts, "("+m.filter+")")
	}
	if m.cluster != "" {
		parts = append(parts, "cluster = "+strconv.Quote(m.cluster))
	}
	if m.global != "" {
		parts = append(parts, resource.FilterGlobal(m.global))
	}
	return strings.Join(parts, " AND ")
}

// pullLevers shows which services a lever is about, asks, and pulls it of each. A service that fails does not keep the
// others from it.
func (m *many) pullLevers(
	ctx context.Context, h *hubclient.Hub, verb string, skip func(*consolev1.Service) bool, wait *waiting, do puller,
) error {
	found, err := resource.ServiceKind().ReadMatching(ctx, h, resource.Question{Filter: m.buildFilter()})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(s catalogyaml.Message) bool { return skip != nil && skip(s.(*consolev1.Service)) })
	if len(found) == 0 {
		return fmt.Errorf("there is no service to %s among those that are chosen", verb)
	}
	v := view.View{Now: m.app.Now()}
	t := v.NewTable([]string{"NAME", "CLUSTER", "STATE"})
	for _, f := range found {
		s := f.(*consolev1.Service)
		v.AddRow(t, []string{s.GetMetadata().GetName(), view.DestinationText(s), view.StateOf(s)})
	}
	if m.dryRun {
		return m.app.WriteTable(t)
	}
	if !m.yes {
		m.app.Notef("%s these services (%d):\n", verb, len(found))
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
			return fmt.Errorf("interrupted before service/%s, number %d of %d", name, i+1, len(found))
		}
		if err := changeOne(ctx, m.app, h, wait, do, []string{name}); err != nil {
			m.app.Notef("service/%s: %v\n", name, err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s failed, as said above", plural.Part(failed, len(found), "service"))
	}
	return nil
}
