package check

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/retry"
)

const (
	// canaryObjects of the service are read back at most: one shows that the way is open, a few that it stays so.
	canaryObjects = 10
	canaryPause   = 500 * time.Millisecond
	canaryTimeout = 3 * time.Minute
)

// canary is one `fairlead canary`.
type canary struct {
	app                                   *app.App
	source, ref, path, cluster, namespace string
	timeout                               time.Duration

	name string // of the service
}

func canaryCommand(a *app.App) *cobra.Command {
	c := canary{app: a}
	cmd := &cobra.Command{
		Use:   "canary",
		Short: "Prove that the hub works: reach every service, deliver a folder, read it back through the tunnel",
		Long: `Prove that the hub works. Every service of the hub is asked whether it is ready and takes the caller's token. With --cluster, a new service
delivers a folder of a source to the cluster, and its objects are read through the tunnel; then the service is deleted, and its objects have
to go. The folder should hold nothing that others depend on, such as one ConfigMap.

It is what "helm test" of the hub's chart runs. It ends with exit code 1 if something does not work, and leaves nothing behind in either case.`,
		Example: "  fairlead canary\n  fairlead canary --cluster edge-1 --source shop --path canary",
		Args:    app.WantArgs(0, 0),
	}
	f := cmd.Flags()
	f.StringVar(&c.cluster, "cluster", "", "cluster that the folder is delivered to; default: none")
	f.StringVar(&c.source, "source", "", "with --cluster: the source that has the folder")
	f.StringVar(&c.ref, "ref", "", "with --cluster: branch, tag or commit of the source; default: that of the source")
	f.StringVar(&c.path, "path", "canary", "with --cluster: the folder")
	f.StringVar(&c.namespace, "namespace", "default",
		"with --cluster: namespace of objects that name none; it has to be there")
	f.DurationVar(&c.timeout, "timeout", canaryTimeout, "how long all of it may take")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (c.cluster == "") != (c.source == "") {
			return errors.New("--cluster and --source go together: what is delivered is a folder of the source")
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errCanaryLate)
			defer cancel()
			return c.run(ctx, h)
		})(cmd, args)
	}
	return cmd
}

// errCanaryLate ends the wait.
var errCanaryLate = errors.New("the time to wait is over")

func (c *canary) run(ctx context.Context, h *hubclient.Hub) error {
	for _, f := range probe.CheckServices(ctx, h) {
		if f.Wrong {
			return fmt.Errorf("%s: %s", f.About, f.Text)
		}
		if err := c.app.Printf("ok    %s: %s\n", f.About, table.CleanLine(f.Text)); err != nil {
			return err
		}
	}
	if c.cluster == "" {
		return nil
	}
	c.name = "canary-" + strings.ToLower(rand.Text()[:8])
	err := c.deliverService(ctx, h)
	if err != nil { // objects that are there are removed all the same
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubclient.CallTimeout)
		defer cancel()
		return errors.Join(err, c.removeService(removing, h))
	}
	return nil
}

// deliverService makes the service, reads its objects, and deletes it.
func (c *canary) deliverService(ctx context.Context, h *hubclient.Hub) error {
	began := c.app.Now()
	_, err := h.Services.UpdateService(ctx, &consolev1.UpdateServiceRequest{AllowMissing: true, Service: &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: c.name},
		Spec: &consolev1.ServiceSpec{
			Source: c.source, Ref: c.ref, Path: c.path, Cluster: c.cluster, Namespace: c.namespace,
		},
	}})
	if err != nil {
		return err
	}
	if err := c.awaitSuccess(ctx, "service "+c.name+" is healthy", func() error { return c.awaitHealthy(ctx, h) }); err != nil {
		return err
	}
	if err := c.app.Printf("ok    delivery: %s of %s is healthy in cluster %s (after %s)\n", c.path, c.source, c.cluster, c.elapsedSince(began)); err != nil {
		return err
	}
	objects, err := object.Find(ctx, h, object.Flags{Service: c.name}, "")
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return fmt.Errorf("service %s has no objects: %q of source %s is empty", c.name, c.path, c.source)
	}
	objects = objects[:min(len(objects), canaryObjects)]
	if err := c.readBack(ctx, h, objects, http.StatusOK); err != nil {
		return err
	}
	if err := c.app.Printf("ok    tunnel: read back through it: %s\n", plural.Of(len(objects), "object")); err != nil {
		return err
	}
	began = c.app.Now()
	if err := c.removeService(ctx, h); err != nil {
		return err
	}
	if err := c.awaitSuccess(ctx, "the objects are gone", func() error { return c.readBack(ctx, h, objects, http.StatusNotFound) }); err != nil {
		return err
	}
	return c.app.Printf("ok    removal: the objects are gone (after %s)\n", c.elapsedSince(began))
}

func (c *canary) elapsedSince(began time.Time) time.Duration {
	return c.app.Now().Sub(began).Round(100 * time.Millisecond)
}

func (c *canary) awaitHealthy(ctx context.Context, h *hubclient.Hub) error {
	call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	res, err := h.Services.GetService(call, &consolev1.GetServiceRequest{Name: c.name})
	if err != nil {
		return err
	}
	status := res.GetService().GetStatus()
	if status.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY {
		return fmt.Errorf("%s: %s", strings.ToLower(view.StateName(status.GetState())), status.GetStateMessage())
	}
	return nil
}

// readBack asks the cluster for objects through the tunnel, and wants one status for all.
func (c *canary) readBack(ctx context.Context, h *hubclient.Hub, objects []*consolev1.ClusterObject, want int) error {
	if len(h.Context.Endpoints.Tunnels) == 0 {
		return errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console")
	}
	base := h.Context.Endpoints.Tunnels[0] + "/clusters/" + url.PathEscape(c.cluster)
	for _, o := range objects {
		path, err := objectPath(ctx, h.HTTP, base, o.GetObject())
		if err != nil {
			return err
		}
		status, text, _, err := probe.FetchURL(ctx, h.HTTP, base+path)
		if err != nil {
			return fmt.Errorf("read %s through the tunnel: %s", path, hubclient.ExplainUnreachable(base, err))
		}
		if status != want {
			return fmt.Errorf("read %s through the tunnel: %d, want %d: %s", path, status, want,
				strings.TrimSpace(text))
		}
	}
	return nil
}

// objectPath is where the API server has an object. The API server is asked what the kind is called there.
func objectPath(ctx context.Context, hc *http.Client, base string, o *deliveryv1.ManagedObject) (string, error) {
	group := "/api/" + o.GetVersion()
	if o.GetGroup() != "" {
		group = "/apis/" + o.GetGroup() + "/" + o.GetVersion()
	}
	status, text, err := readAll(ctx, hc, base+group, hubclient.CallTimeout)
	if err != nil {
		return "", fmt.Errorf("ask the cluster through the tunnel what it has: %s", hubclient.ExplainUnreachable(base, err))
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("ask the cluster through the tunnel what it has in %s: %d: %s", group, status,
			strings.TrimSpace(string(text[:min(len(text), probe.MaxAnswerBytes)])))
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", fmt.Errorf("read what the cluster has in %s: %w", group, err)
	}
	for _, r := range list.Resources {
		if r.Kind != o.GetKind() || strings.Contains(r.Name, "/") {
			continue
		}
		path := group
		if r.Namespaced {
			path += "/namespaces/" + url.PathEscape(o.GetNamespace())
		}
		return path + "/" + r.Name + "/" + url.PathEscape(o.GetName()), nil
	}
	return "", fmt.Errorf("the cluster has no %s in %s", o.GetKind(), group)
}

// removeService deletes the service, with what its deletion asks to have confirmed: the folder was named for this.
func (c *canary) removeService(ctx context.Context, h *hubclient.Hub) error {
	err := c.app.ConfirmAndDo(ctx, true, func(ctx context.Context, confirmation string) error {
		return resource.ServiceKind().RemoveResource(ctx, h, c.name, confirmation)
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	return err
}

// awaitSuccess repeats try until it returns nil, and says at the end what was seen last.
func (c *canary) awaitSuccess(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if !retry.Sleep(ctx, canaryPause) {
			return fmt.Errorf("wait until %s: %w; last seen: %w", what, context.Cause(ctx), err)
		}
	}
}
