package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

// describedEvents is how many events describe shows.
const describedEvents = 10

func (a *app) describeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show all that is known of a resource: spec, state, objects, events",
		Long: `Show all that is known of a resource: its labels, its spec as files say it, how it is, and the newest events about it. Of a service also
where its commit stands, and its objects in the cluster.`,
		Example: "  fairlead describe service shop\n  fairlead describe cluster/edge-1",
		Args:    wantArgs(2, 2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := findKind(args[0])
		if err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			return a.describeOne(ctx, h, k, args[0])
		})(cmd, args[1:])
	}
	return cmd
}

func (a *app) describeOne(ctx context.Context, h *hub.Hub, k kind, name string) error {
	m, err := k.readOne(ctx, h, name)
	if err != nil {
		return err
	}
	v := view{now: a.Now(), wide: true}
	switch k.kind {
	case manifest.Source:
		v.live = a.readLiveSources(ctx, h)
	case manifest.Cluster:
		v.figures = a.figuresOfOne(ctx, h, name)
	}
	text, err := v.describeResource(k, m)
	if err != nil {
		return err
	}
	if err := a.printf("%s", text); err != nil {
		return err
	}
	if s, ok := m.(*consolev1.Service); ok {
		if err := a.describeService(ctx, h, s); err != nil {
			return err
		}
	}
	return a.describeEvents(ctx, h, k, name)
}

// describeResource returns what is known of every resource: who it is, its spec, and how it is.
func (v view) describeResource(k kind, m manifest.Message) (string, error) {
	var b strings.Builder
	head := m.GetMetadata()
	fmt.Fprintf(&b, "%s %s\n", k.kind, head.GetName())
	for _, key := range slices.Sorted(maps.Keys(head.GetLabels())) {
		fmt.Fprintf(&b, "label    %s=%s\n", key, head.GetLabels()[key])
	}
	if isSet(head.GetCreateTime()) {
		fmt.Fprintf(&b, "created  %s\nchanged  %s, revision %d\n", v.agoText(head.GetCreateTime()), v.agoText(head.GetUpdateTime()), head.GetRevision())
	}
	spec, err := specText(m)
	if err != nil {
		return "", err
	}
	b.WriteString("\nSPEC\n" + spec)
	if k.kind == manifest.Service {
		return b.String(), nil // its trace says more
	}
	t, notes := v.buildTable(k, []manifest.Message{m})
	b.WriteString("\nSTATE\n")
	_ = t.PrintList(indented{&b}) // A strings.Builder takes everything.
	b.WriteString(v.notesText(notes))
	return b.String(), nil
}

// specText is a resource's spec as files say it. A Secret has keys only.
func specText(m manifest.Message) (string, error) {
	if s, ok := m.(*consolev1.Secret); ok {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(s.GetData())) {
			fmt.Fprintf(&b, "  %s: (not shown)\n", key)
		}
		return b.String(), nil
	}
	written, ok := proto.Clone(m).(manifest.Message)
	if !ok {
		return "", fmt.Errorf("%T is no resource", m)
	}
	text, err := manifest.YAML(asWritten(written))
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
func (a *app) describeService(ctx context.Context, h *hub.Hub, s *consolev1.Service) error {
	trail, err := a.followService(ctx, h, s.GetMetadata().GetName())
	if err != nil {
		return err
	}
	if err := a.printf("\nTRACE\n%s\nOBJECTS\n", trail.renderText(trail.listSteps())); err != nil {
		return err
	}
	return a.treeOf(ctx, h, s, false)
}

// describeEvents shows the newest events about a resource, where there are any of its kind.
func (a *app) describeEvents(ctx context.Context, h *hub.Hub, k kind, name string) error {
	field, ok := eventField(k)
	if !ok {
		return nil
	}
	list, _, err := listEvents(ctx, h, eventQuery{filter: field + " = " + name, limit: describedEvents})
	if err != nil || len(list) == 0 {
		return err
	}
	if err := a.printf("\nEVENTS\n"); err != nil {
		return err
	}
	return a.printHappened(list, formatTable)
}

// eventField is the field of events that names a resource of a kind.
func eventField(k kind) (string, bool) {
	fields := map[manifest.Kind]string{
		manifest.Service: "service", manifest.Cluster: "cluster", manifest.Source: "source", manifest.Sink: "sink",
		manifest.Global: "globalservice", manifest.Project: "project",
		manifest.Alert: "alert",
	}
	field, ok := fields[k.kind]
	return field, ok
}

// eventsAbout is a filter for events about any of some resources.
func eventsAbout(refs []resource) (string, error) {
	var terms []string
	for _, r := range refs {
		k, err := findKind(r.kind)
		if err != nil {
			return "", err
		}
		field, ok := eventField(k)
		switch {
		case !ok:
			return "", fmt.Errorf("there are no events about %s: there are about services, clusters, sources, sinks, globalservices, alerts and projects", k.plural())
		case r.name == "":
			return "", fmt.Errorf("name the %s whose events are wanted, as %s/NAME", k.singular(), k.singular())
		}
		terms = append(terms, field+" = "+table.CleanLine(r.name))
	}
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), " OR "), nil
}
