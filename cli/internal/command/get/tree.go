package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

func isObjects(arg string) bool {
	return strings.EqualFold(arg, "object") || strings.EqualFold(arg, "objects")
}

// showManagedObjects prints the objects of services.
func showManagedObjects(
	ctx context.Context, a *app.App, h *hubclient.Hub, f object.Flags, names []string, format string,
) error {
	if len(names) > 1 {
		return errors.New("name one object, or none")
	}
	found, err := object.Find(ctx, h, f, strings.Join(names, ""))
	if err == nil && len(found) == 0 && f.Service != "" {
		_, err = h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: f.Service}) // a name that is wrong has none
	}
	if err == nil && len(found) == 0 && f.Cluster != "" {
		_, err = h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: f.Cluster})
	}
	if err != nil {
		return err
	}
	if app.IsTemplate(format) || format == app.FormatJSON || format == app.FormatYAML {
		return showObjects(a, format, found)
	}
	switch format {
	case app.FormatName:
		for _, o := range found {
			if err := a.Printf("%s\n", object.Title(o.GetObject().GetKind(), o.GetObject().GetNamespace(), o.GetObject().GetName())); err != nil {
				return err
			}
		}
		return nil
	case app.FormatTable, app.FormatWide:
	default:
		return fmt.Errorf("objects can be shown as table, wide, json, yaml, name, jsonpath or custom-columns, not as %s", format)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(a.Stderr, "no objects")
		return err
	}
	head := []string{"CLUSTER", "SERVICE", "KIND", "NAMESPACE", "NAME", "HEALTH", "MESSAGE"}
	if format == app.FormatWide {
		head = []string{
			"CLUSTER", "SERVICE", "GROUP", "KIND", "NAMESPACE", "NAME", "WAVE", "UID", "HEALTH", "SEEN", "MESSAGE",
		}
	}
	t := table.New(head...)
	v := view.View{Now: a.Now()}
	for _, o := range found {
		obj, report := o.GetObject(), o.GetReport()
		if format == app.FormatWide {
			t.AddRow(o.GetCluster(), o.GetService(), obj.GetGroup(), obj.GetKind(), obj.GetNamespace(), obj.GetName(),
				fmt.Sprint(obj.GetWave()),
				obj.GetUid(), report.GetHealth(), v.AgoText(o.GetObservedTime()), report.GetMessage())
			continue
		}
		t.AddRow(o.GetCluster(), o.GetService(), obj.GetKind(), obj.GetNamespace(), obj.GetName(), report.GetHealth(),
			report.GetMessage())
	}
	return a.WriteTable(t)
}

// showObjects prints objects for programs; with custom-columns each is a row.
func showObjects(a *app.App, format string, found []*consolev1.ClusterObject) error {
	list := &consolev1.ListObjectsResponse{Objects: found}
	if !app.IsTemplate(format) {
		return a.ShowPlain(format, list)
	}
	whole, err := catalogyaml.Plain(list)
	if err != nil {
		return err
	}
	rows := make([][]byte, len(found))
	for i, o := range found {
		if rows[i], err = catalogyaml.Plain(o); err != nil {
			return err
		}
	}
	return a.FillTemplate(format, whole, rows)
}

func treeCommand(a *app.App) *cobra.Command {
	var live, watch bool
	cmd := &cobra.Command{
		Use:   "tree service|globalservice NAME",
		Short: "Show the objects of a service, in the order in which they are applied",
		Long: `Show the objects of a service, wave by wave in the order in which they are applied, with what is wrong with each.

The tree is the agent's last report, so it is shown with the cluster away, too. With --live the cluster is asked for the
ReplicaSets, Jobs and Pods that its controllers made of them; you see those that you may read at the cluster.

Of a global service the tree of each of its services is shown, and of a service with catalog: true what its folder declares.`,
		Example: "  fairlead tree service shop\n  fairlead tree service shop --live\n  fairlead tree globalservice logs",
		Args:    app.WantArgs(2, 2),
	}
	cmd.Flags().BoolVar(&live, "live", false,
		"show what controllers made of the objects, too: the cluster is asked through the tunnel")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "of a service: go on with what changes, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := resource.FindKind(args[0])
		switch {
		case err == nil && k.ID == catalogyaml.Global:
			return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
				return object.OfGlobal(ctx, a, h, args[0],
					func(s *consolev1.Service) error { return treeOf(ctx, a, h, s, live) })
			})(cmd, args[1:])
		case err != nil || k.ID != catalogyaml.Service:
			return app.UsageError(cmd)
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			show := func(ctx context.Context) (string, error) { return treeNow(ctx, h, args[0], live) }
			if watch {
				return a.RepeatText(ctx, app.FormatTable, show)
			}
			text, err := show(ctx)
			if err != nil {
				return err
			}
			return a.Printf("%s", text)
		})(cmd, args[1:])
	}
	return cmd
}

// treeNow is a service with its objects, as it is now.
func treeNow(ctx context.Context, h *hubclient.Hub, name string, live bool) (string, error) {
	got, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return "", err
	}
	return treeTextOf(ctx, h, got.GetService(), live)
}

// treeOf prints a service with its objects.
func treeOf(ctx context.Context, a *app.App, h *hubclient.Hub, s *consolev1.Service, live bool) error {
	text, err := treeTextOf(ctx, h, s, live)
	if err != nil {
		return err
	}
	return a.Printf("%s", text)
}

func treeTextOf(ctx context.Context, h *hubclient.Hub, s *consolev1.Service, live bool) (string, error) {
	if s.GetSpec().GetCatalog() {
		return treeOfCatalog(ctx, h, s)
	}
	found, err := object.Find(ctx, h, object.Flags{Service: s.GetMetadata().GetName()}, "")
	if err != nil {
		return "", err
	}
	var below object.Children
	if live {
		if below, err = object.LiveChildren(ctx, h, s.GetSpec().GetCluster(), found); err != nil {
			return "", err
		}
	}
	return treeText(s, found, below), nil
}

// treeOfCatalog is a service with what its folder declares, kind by kind.
func treeOfCatalog(ctx context.Context, h *hubclient.Hub, s *consolev1.Service) (string, error) {
	declared, err := resource.ReadDeclared(ctx, h, s.GetMetadata().GetName())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "service %s to the catalog: %s\n", s.GetMetadata().GetName(),
		view.StateName(s.GetStatus().GetState()))
	for i, d := range declared {
		branch := "├──"
		if i == len(declared)-1 {
			branch = "└──"
		}
		fmt.Fprintf(&b, "%s %s\n", branch, declaredText(d))
	}
	if len(declared) == 0 {
		b.WriteString("└── nothing that you may view\n")
	}
	return b.String(), nil
}

// declaredText names a resource that a folder declares, with its state if its kind has one.
func declaredText(d resource.Declared) string {
	text := d.Kind.Singular() + " " + d.GetMetadata().GetName()
	if s, ok := d.Message.(*consolev1.Service); ok {
		text += fmt.Sprintf(" (%s)", cmp.Or(s.GetSpec().GetCluster(), "catalog"))
	}
	if state := view.StateText(d.Kind, d.Message); state != "" {
		text += ": " + state
	}
	return text
}

// treeText is a service with its objects for people.
func treeText(s *consolev1.Service, objects []*consolev1.ClusterObject, below object.Children) string {
	var b strings.Builder
	fmt.Fprintf(&b, "service %s on cluster %s: %s\n", s.GetMetadata().GetName(), s.GetSpec().GetCluster(),
		view.StateName(s.GetStatus().GetState()))
	if len(objects) == 0 {
		b.WriteString("└── no objects are known yet\n")
		return b.String()
	}
	waves := len(objects) > 0 && objects[0].GetObject().GetWave() != objects[len(objects)-1].GetObject().GetWave()
	var before int32
	for i, o := range objects {
		wave := o.GetObject().GetWave()
		if waves && (i == 0 || before != wave) {
			fmt.Fprintf(&b, "│   wave %d\n", wave)
		}
		before = wave
		branch, indent := "├── ", "│   "
		if i == len(objects)-1 {
			branch, indent = "└── ", "    "
		}
		fmt.Fprintf(&b, "%s%s  %s", branch, object.Title(o.GetObject().GetKind(), o.GetObject().GetNamespace(),
			o.GetObject().GetName()), o.GetReport().GetHealth())
		if m := o.GetReport().GetMessage(); m != "" {
			b.WriteString("  " + table.CleanLine(m))
		}
		b.WriteString("\n")
		below.WriteBranches(&b, indent, o.GetObject().GetUid())
	}
	for _, kind := range below[object.Unlisted] {
		fmt.Fprintf(&b, "There are more than %d objects of kind %s in a namespace: not all are shown.\n",
			object.MostChildren, kind.Kind)
	}
	return b.String()
}
