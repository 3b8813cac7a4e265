package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

// objectFlags choose objects.
type objectFlags struct{ service, cluster, namespace, kind, health string }

func (f *objectFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.service, "service", "s", "", "of objects and pods: only those of this service")
	cmd.Flags().StringVarP(&f.cluster, "cluster", "c", "", "of objects, nodes, pods and warnings: only those in this cluster")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "of objects, pods and warnings: only those in this namespace")
	cmd.Flags().StringVar(&f.kind, "kind", "", "of objects: only those of this kind, such as Deployment")
	cmd.Flags().StringVar(&f.health, "health", "", "of objects: only those that are Healthy, Progressing, Degraded, Missing, Failed or Unknown")
}

// refuseFlags returns an error if something was chosen that is for objects only.
func (f *objectFlags) refuseFlags() error {
	if *f != (objectFlags{}) {
		return errors.New("--service, --cluster, --namespace, --kind and --health are for `fairlead get objects`, and but for the last two for nodes, pods and warnings")
	}
	return nil
}

func isObjects(arg string) bool {
	return strings.EqualFold(arg, "object") || strings.EqualFold(arg, "objects")
}

// findObjects reads all pages.
func findObjects(ctx context.Context, h *hub.Hub, f objectFlags, name string) ([]*consolev1.ClusterObject, error) {
	const pageSize = 1000
	req := &consolev1.ListObjectsRequest{
		PageSize: pageSize, Service: f.service, Cluster: f.cluster, Namespace: f.namespace, Kind: f.kind, Health: f.health, Object: name,
	}
	var out []*consolev1.ClusterObject
	for {
		page, err := h.Objects.ListObjects(ctx, req)
		if err != nil {
			return nil, err
		}
		out = append(out, page.GetObjects()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return out, nil
		}
	}
}

// showManagedObjects prints the objects of services.
func (a *app) showManagedObjects(ctx context.Context, h *hub.Hub, f objectFlags, names []string, format string) error {
	if len(names) > 1 {
		return errors.New("name one object, or none")
	}
	found, err := findObjects(ctx, h, f, strings.Join(names, ""))
	if err == nil && len(found) == 0 && f.service != "" {
		_, err = h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: f.service}) // a name that is wrong has none
	}
	if err == nil && len(found) == 0 && f.cluster != "" {
		_, err = h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: f.cluster})
	}
	if err != nil {
		return err
	}
	if isTemplate(format) || format == formatJSON || format == formatYAML {
		return a.showObjects(format, found)
	}
	switch format {
	case formatName:
		for _, o := range found {
			if err := a.printf("%s\n", objectTitle(o.GetObject().GetKind(), o.GetObject().GetNamespace(), o.GetObject().GetName())); err != nil {
				return err
			}
		}
		return nil
	case formatTable, formatWide:
	default:
		return fmt.Errorf("objects can be shown as table, wide, json, yaml, name, jsonpath or custom-columns, not as %s", format)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(a.Stderr, "no objects")
		return err
	}
	head := []string{"CLUSTER", "SERVICE", "KIND", "NAMESPACE", "NAME", "HEALTH", "MESSAGE"}
	if format == formatWide {
		head = []string{"CLUSTER", "SERVICE", "GROUP", "KIND", "NAMESPACE", "NAME", "WAVE", "UID", "HEALTH", "SEEN", "MESSAGE"}
	}
	t := table.New(head...)
	v := view{now: a.Now()}
	for _, o := range found {
		obj, report := o.GetObject(), o.GetReport()
		if format == formatWide {
			t.AddRow(o.GetCluster(), o.GetService(), obj.GetGroup(), obj.GetKind(), obj.GetNamespace(), obj.GetName(), fmt.Sprint(obj.GetWave()),
				obj.GetUid(), report.GetHealth(), v.agoText(o.GetObservedTime()), report.GetMessage())
			continue
		}
		t.AddRow(o.GetCluster(), o.GetService(), obj.GetKind(), obj.GetNamespace(), obj.GetName(), report.GetHealth(), report.GetMessage())
	}
	return a.writeTable(t)
}

// showObjects prints objects for programs; with custom-columns each is a row.
func (a *app) showObjects(format string, found []*consolev1.ClusterObject) error {
	list := &consolev1.ListObjectsResponse{Objects: found}
	if !isTemplate(format) {
		return a.showPlain(format, list)
	}
	whole, err := manifest.Plain(list)
	if err != nil {
		return err
	}
	rows := make([][]byte, len(found))
	for i, o := range found {
		if rows[i], err = manifest.Plain(o); err != nil {
			return err
		}
	}
	return a.fillTemplate(format, whole, rows)
}

func (a *app) treeCommand() *cobra.Command {
	var live, watch bool
	cmd := &cobra.Command{
		Use:   "tree service|globalservice NAME",
		Short: "Show the objects of a service, in the order in which they are applied",
		Long: `Show the objects of a service, wave by wave in the order in which they are applied, with what is wrong with each.

It is what the agent told last, so it can be seen with the cluster away, too. With --live the cluster is asked for what its
controllers made of them (ReplicaSets, Jobs, Pods) and how that is; you see of it what you may read at the cluster.

Of a global service it is the tree of each of its services.`,
		Example: "  fairlead tree service shop\n  fairlead tree service shop --live\n  fairlead tree globalservice logs",
		Args:    wantArgs(2, 2),
	}
	cmd.Flags().BoolVar(&live, "live", false, "show what controllers made of the objects, too: the cluster is asked through the tunnel")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "of a service: go on with what changes, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := findKind(args[0])
		switch {
		case err == nil && k.kind == manifest.Global:
			return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
				return a.ofGlobal(ctx, h, args[0], func(s *consolev1.Service) error { return a.treeOf(ctx, h, s, live) })
			})(cmd, args[1:])
		case err != nil || k.kind != manifest.Service:
			return usageError(cmd)
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			show := func(ctx context.Context) (string, error) { return a.treeNow(ctx, h, args[0], live) }
			if watch {
				return a.repeatText(ctx, formatTable, show)
			}
			text, err := show(ctx)
			if err != nil {
				return err
			}
			return a.printf("%s", text)
		})(cmd, args[1:])
	}
	return cmd
}

// treeNow is a service with its objects, as it is now.
func (a *app) treeNow(ctx context.Context, h *hub.Hub, name string, live bool) (string, error) {
	got, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return "", err
	}
	return a.treeTextOf(ctx, h, got.GetService(), live)
}

// treeOf prints a service with its objects.
func (a *app) treeOf(ctx context.Context, h *hub.Hub, s *consolev1.Service, live bool) error {
	text, err := a.treeTextOf(ctx, h, s, live)
	if err != nil {
		return err
	}
	return a.printf("%s", text)
}

func (a *app) treeTextOf(ctx context.Context, h *hub.Hub, s *consolev1.Service, live bool) (string, error) {
	if s.GetSpec().GetCatalog() {
		return a.treeOfCatalog(ctx, h, s)
	}
	found, err := findObjects(ctx, h, objectFlags{service: s.GetMetadata().GetName()}, "")
	if err != nil {
		return "", err
	}
	var below children
	if live {
		if below, err = liveChildren(ctx, h, s.GetSpec().GetCluster(), found); err != nil {
			return "", err
		}
	}
	return treeText(s, found, below), nil
}

// treeOfCatalog is a service with those that its folder declares.
func (a *app) treeOfCatalog(ctx context.Context, h *hub.Hub, s *consolev1.Service) (string, error) {
	list, err := readResources(ctx, h, serviceKind(), question{filter: "labels." + declaredLabel + " = " + s.GetMetadata().GetName()}, nil)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "service %s to the catalog: %s\n", s.GetMetadata().GetName(), stateName(s.GetStatus().GetState()))
	for i, m := range list {
		branch := "├──"
		if i == len(list)-1 {
			branch = "└──"
		}
		of := m.(*consolev1.Service)
		fmt.Fprintf(&b, "%s service %s (%s): %s\n", branch, of.GetMetadata().GetName(),
			cmp.Or(of.GetSpec().GetCluster(), "catalog"), stateName(of.GetStatus().GetState()))
	}
	if len(list) == 0 {
		b.WriteString("└── declares no services\n")
	}
	return b.String(), nil
}

// treeText is a service with its objects for people.
func treeText(s *consolev1.Service, objects []*consolev1.ClusterObject, below children) string {
	var b strings.Builder
	fmt.Fprintf(&b, "service %s on cluster %s: %s\n", s.GetMetadata().GetName(), s.GetSpec().GetCluster(), stateName(s.GetStatus().GetState()))
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
		fmt.Fprintf(&b, "%s%s  %s", branch, objectTitle(o.GetObject().GetKind(), o.GetObject().GetNamespace(),
			o.GetObject().GetName()), o.GetReport().GetHealth())
		if m := o.GetReport().GetMessage(); m != "" {
			b.WriteString("  " + table.CleanLine(m))
		}
		b.WriteString("\n")
		below.writeBranches(&b, indent, o.GetObject().GetUid())
	}
	for _, kind := range below[unlisted] {
		fmt.Fprintf(&b, "There are more than %d objects of kind %s in a namespace: not all are shown.\n", mostChildren, kind.kind)
	}
	return b.String()
}
