package get

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/event"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/trail"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// describedEvents is how many events describe shows.
const describedEvents = 10

func describeCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show all that is known of a resource: spec, state, objects, events",
		Long: `Show all that is known of a resource: its labels, its spec as files say it, its state, and the newest events about it; of a
service also where its commit stands, and its objects in the cluster.`,
		Example: "  fairlead describe service shop\n  fairlead describe cluster/edge-1",
		Args:    app.WantArgs(2, 2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := resource.FindKind(args[0])
		if err != nil {
			return err
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			return describeOne(ctx, a, h, k, args[0])
		})(cmd, args[1:])
	}
	return cmd
}

func describeOne(ctx context.Context, a *app.App, h *hubclient.Hub, k resource.Kind, name string) error {
	m, err := k.ReadOne(ctx, h, name)
	if err != nil {
		return err
	}
	v := view.View{Now: a.Now(), Wide: true}
	switch k.ID {
	case catalogyaml.Source:
		v.Live = a.ReadLiveSources(ctx, h)
	case catalogyaml.Cluster:
		v.Figures = figuresOfOne(ctx, a, h, name)
	}
	text, err := describeResource(v, k, m)
	if err != nil {
		return err
	}
	if err := a.Printf("%s", text); err != nil {
		return err
	}
	if s, ok := m.(*consolev1.Service); ok {
		if err := describeService(ctx, a, h, s); err != nil {
			return err
		}
	}
	return describeEvents(ctx, a, h, k, name)
}

// describeResource returns what is known of every resource: who it is, its spec, and how it is.
func describeResource(v view.View, k resource.Kind, m catalogyaml.Message) (string, error) {
	var b strings.Builder
	head := m.GetMetadata()
	fmt.Fprintf(&b, "%s %s\n", k.ID, head.GetName())
	for _, key := range slices.Sorted(maps.Keys(head.GetLabels())) {
		fmt.Fprintf(&b, "label    %s=%s\n", key, head.GetLabels()[key])
	}
	if view.IsSet(head.GetCreateTime()) {
		fmt.Fprintf(&b, "created  %s\nchanged  %s, revision %d\n", v.AgoText(head.GetCreateTime()),
			v.AgoText(head.GetUpdateTime()), head.GetRevision())
	}
	spec, err := specText(m)
	if err != nil {
		return "", err
	}
	b.WriteString("\nSPEC\n" + table.CleanText(spec))
	if k.ID == catalogyaml.Service {
		return b.String(), nil // its trace says more
	}
	t, notes := v.BuildTable(k, []catalogyaml.Message{m})
	b.WriteString("\nSTATE\n")
	_ = t.PrintList(view.Indent(&b)) // A strings.Builder takes everything.
	b.WriteString(v.NotesText(notes))
	return b.String(), nil
}

// specText is a resource's spec as files say it. A Secret has keys only.
func specText(m catalogyaml.Message) (string, error) {
	if s, ok := m.(*consolev1.Secret); ok {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(s.GetData())) {
			fmt.Fprintf(&b, "  %s: (not shown)\n", key)
		}
		return b.String(), nil
	}
	written, ok := proto.Clone(m).(catalogyaml.Message)
	if !ok {
		return "", fmt.Errorf("%T is no resource", m)
	}
	text, err := catalogyaml.YAML(resource.AsWritten(written))
	if err != nil {
		return "", err
	}
	_, spec, found := strings.Cut(string(text), "\nspec:")
	if !found || strings.TrimSpace(spec) == "{}" {
		return "  -\n", nil
	}
	return strings.TrimPrefix(spec, "\n"), nil
}

// describeService shows where a service's commit stands, and its objects.
func describeService(ctx context.Context, a *app.App, h *hubclient.Hub, s *consolev1.Service) error {
	trail, err := trail.Follow(ctx, a, h, s.GetMetadata().GetName())
	if err != nil {
		return err
	}
	if err := a.Printf("\nTRACE\n%s\nOBJECTS\n", trail.RenderText(trail.ListSteps())); err != nil {
		return err
	}
	return treeOf(ctx, a, h, s, false)
}

// describeEvents shows the newest events about a resource, where there are any of its kind.
func describeEvents(ctx context.Context, a *app.App, h *hubclient.Hub, k resource.Kind, name string) error {
	field, ok := event.EventField(k)
	if !ok {
		return nil
	}
	list, _, err := event.List(ctx, h, event.Query{Filter: field + " = " + name, Limit: describedEvents})
	if err != nil || len(list) == 0 {
		return err
	}
	if err := a.Printf("\nEVENTS\n"); err != nil {
		return err
	}
	return event.PrintHappened(a, list, app.FormatTable)
}
