// Package object finds what services have in clusters: the objects that agents reported, and, through the tunnel, what
// controllers made of them, down to the pods.
package object

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Title is an object as people name it.
func Title(kind, namespace, name string) string {
	if name == "" { // the caller may not read it
		return table.CleanLine(kind)
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return table.CleanLine(kind + " " + name)
}

// ServicesOf are the services that come of a global service.
func ServicesOf(ctx context.Context, h *hubclient.Hub, global string) ([]*consolev1.Service, error) {
	found, err := resource.ServiceKind().ReadMatching(ctx, h, resource.Question{Filter: resource.FilterGlobal(global)})
	if err != nil {
		return nil, err
	}
	out := make([]*consolev1.Service, len(found))
	for i, f := range found {
		out[i] = f.(*consolev1.Service)
	}
	return out, nil
}

// OfGlobal does something with each service of a global service.
func OfGlobal(ctx context.Context, a *app.App, h *hubclient.Hub, name string, do func(*consolev1.Service) error) error {
	if _, err := resource.GlobalServiceKind().ReadOne(ctx, h, name); err != nil {
		return err
	}
	services, err := ServicesOf(ctx, h, name)
	if err != nil {
		return err
	}
	if len(services) == 0 {
		a.Notef("global service %q has no services: no cluster is chosen\n", name)
	}
	for _, s := range services {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// Flags choose objects.
type Flags struct{ Service, Cluster, Namespace, Kind, Health string }

// AddFlags adds the flags that choose objects.
func (f *Flags) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.Service, "service", "s", "", "of objects and pods: only those of this service")
	cmd.Flags().StringVarP(&f.Cluster, "cluster", "c", "",
		"of objects, nodes, pods and warnings: only those in this cluster")
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "",
		"of objects, pods and warnings: only those in this namespace")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "of objects: only those of this kind, such as Deployment")
	cmd.Flags().StringVar(&f.Health, "health", "",
		"of objects: only those that are Healthy, Progressing, Degraded, Missing, Failed or Unknown")
}

// RefuseFlags returns an error if something was chosen that is for objects only.
func (f *Flags) RefuseFlags() error {
	for _, given := range []struct{ name, value string }{
		{"service", f.Service}, {"cluster", f.Cluster}, {"namespace", f.Namespace}, {"kind", f.Kind}, {"health", f.Health},
	} {
		if given.value != "" {
			return fmt.Errorf("--%s chooses among what clusters have, as in `fairlead get objects`: --filter chooses among "+
				"resources, such as --filter namespace=shop", given.name)
		}
	}
	return nil
}

// Find reads all pages.
func Find(ctx context.Context, h *hubclient.Hub, f Flags, name string) ([]*consolev1.ClusterObject, error) {
	const pageSize = 1000
	req := &consolev1.ListObjectsRequest{
		PageSize: pageSize, Service: f.Service, Cluster: f.Cluster,
		Namespace: f.Namespace, Kind: f.Kind, Health: f.Health, Object: name,
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
