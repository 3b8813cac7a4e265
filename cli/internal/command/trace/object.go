package trace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/trail"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
)

// tracedObject is an object of a cluster that a person wants to follow back to Git.
type tracedObject struct{ cluster, namespace, kind, name string }

func (o tracedObject) String() string { return strings.ToLower(o.kind) + "/" + o.name }

// takeName tells whether arguments name an object of a cluster, and takes it from them.
func (o *tracedObject) takeName(args []string) bool {
	o.kind, o.name = args[0], ""
	if len(args) == 2 {
		o.name = args[1]
	} else if kind, name, ok := strings.Cut(args[0], "/"); ok {
		o.kind, o.name = kind, name
	}
	if o.name == "" {
		return false
	}
	if o.cluster != "" || o.namespace != "" {
		return true
	}
	_, err := resource.FindKind(o.kind)
	return err != nil && resource.KubernetesKind(o.kind) != ""
}

// traceObject prints what an object is of, and where the commit of that stands.
func traceObject(ctx context.Context, a *app.App, h *hubclient.Hub, o tracedObject, format string) error {
	if err := app.CheckPlainFormat(format); err != nil {
		return err
	}
	found, err := ownerOf(ctx, a, h, o)
	if err != nil {
		return err
	}
	t, err := trail.Follow(ctx, a, h, found.GetService())
	if err != nil || format != app.FormatTable {
		if err != nil {
			return err
		}
		return showTrail(a, t, format)
	}
	obj := found.GetObject()
	revision := t.Service.GetStatus().GetGit().GetRevision()
	err = a.Printf("%s in cluster %s is of service %s, folder %q of source %s, commit %s by %s\n\n",
		object.Title(obj.GetKind(), obj.GetNamespace(), obj.GetName()),
		found.GetCluster(), found.GetService(), t.Service.GetSpec().GetPath(), catalog.SourceOf(t.Service.GetSpec()),
		view.ShortHash(view.RunningCommit(t.Service.GetStatus())), table.CleanLine(revision.GetAuthor()))
	if err != nil {
		return err
	}
	return showTrail(a, t, format)
}

// ownerOf is the object of a service that an object is, or was made by.
func ownerOf(ctx context.Context, a *app.App, h *hubclient.Hub, o tracedObject) (*consolev1.ClusterObject, error) {
	const most = 5 // owners of owners: a Pod of a Job of a CronJob has two
	for range most {
		found, err := o.findReported(ctx, h)
		if err != nil || found != nil {
			return found, err
		}
		owner, err := o.findOwner(ctx, object.Workload{App: a, Hub: h})
		if err != nil {
			return nil, err
		}
		o = owner
	}
	return nil, fmt.Errorf("%s is not an object of a service", o)
}

// findReported returns the object as agents reported it; nil: they did not.
func (o tracedObject) findReported(ctx context.Context, h *hubclient.Hub) (*consolev1.ClusterObject, error) {
	listed, err := object.Find(ctx, h, object.Flags{Cluster: o.cluster, Namespace: o.namespace}, o.name)
	if err != nil {
		return nil, err
	}
	var fit []*consolev1.ClusterObject
	var places []string
	for _, one := range listed {
		kind := one.GetObject().GetKind()
		if strings.EqualFold(kind, o.kind) || strings.EqualFold(kind+"s", o.kind) ||
			kind == resource.KubernetesKind(o.kind) {
			fit = append(fit, one)
			places = append(places, fmt.Sprintf("-n %s --cluster %s", one.GetObject().GetNamespace(), one.GetCluster()))
		}
	}
	switch len(fit) {
	case 0:
		return nil, nil
	case 1:
		return fit[0], nil
	}
	return nil, fmt.Errorf("%s is in several places: name one of %s", o, strings.Join(places, ", "))
}

// findOwner asks the cluster what made an object.
func (o tracedObject) findOwner(ctx context.Context, w object.Workload) (tracedObject, error) {
	paths := map[string]string{
		"Pod":        "api/v1/namespaces/%s/pods/%s",
		"ReplicaSet": "apis/apps/v1/namespaces/%s/replicasets/%s", "Job": "apis/batch/v1/namespaces/%s/jobs/%s",
	}
	path, ok := paths[resource.KubernetesKind(o.kind)]
	if !ok {
		return o, fmt.Errorf("no service has %s%s: `fairlead get objects` lists those of services, and what nobody made through Fairlead is not among them", o, o.whereText())
	}
	if o.cluster == "" {
		return o, fmt.Errorf("no service has %s%s itself: name its cluster by --cluster, so that its owner can be found there", o, o.whereText())
	}
	if o.namespace == "" {
		o.namespace = "default"
	}
	var got struct {
		Metadata struct {
			OwnerReferences []struct {
				Kind, Name string
				Controller bool
			}
		}
	}
	if err := w.AskCluster(ctx, http.MethodGet, o.cluster, fmt.Sprintf(path, url.PathEscape(o.namespace), url.PathEscape(o.name)), nil, &got); err != nil {
		return o, err
	}
	for _, owner := range got.Metadata.OwnerReferences {
		if owner.Controller {
			return tracedObject{o.cluster, o.namespace, owner.Kind, owner.Name}, nil
		}
	}
	return o, errors.New(o.String() + o.whereText() + " has no owner, and no service has it: it was not made through Fairlead")
}

func (o tracedObject) whereText() string {
	var text string
	if o.namespace != "" {
		text += " in namespace " + o.namespace
	}
	if o.cluster != "" {
		text += " in cluster " + o.cluster
	}
	return text
}
