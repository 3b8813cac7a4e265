package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "exec CLUSTER [FLAGS OF KUBECTL] POD -- COMMAND... | exec service/NAME -- COMMAND...",
		Annotations: map[string]string{readsReferences: "yes"},
		Short:       "Run a command in a pod of a service, or of a cluster",
		Long: `Run a command in a pod, as kubectl exec does: in one of a service that is ready, or with a cluster in the one that is named. What stands behind the
service or the cluster is kubectl's.`,
		Example: "  fairlead exec -it service/web -- sh\n  fairlead exec edge-1 -n shop -it web-0 -- sh",
		Args:    wantArgs(1, unlimited),
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolP("stdin", "i", false, "pass what is typed on")
	cmd.Flags().BoolP("tty", "t", false, "as on a terminal")
	cmd.Flags().StringP("container", "c", "", "in the container of this `name`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			ref, ok := splitReference(args[0])
			if !ok {
				return a.runKubectl(ctx, h, args[0], append(append([]string{"exec"}, changedFlags(cmd)...), args[1:]...))
			}
			at := slices.Index(args, "--")
			if at < 0 || at == len(args)-1 {
				return fmt.Errorf("write the command behind --: fairlead exec -it %s -- sh", args[0])
			}
			p, err := workload{a, h}.onePod(ctx, ref)
			if err != nil {
				return err
			}
			a.notef("in pod %s of cluster %s\n", p.name, p.cluster)
			words := slices.Concat([]string{"exec", "-n", p.namespace, p.name}, changedFlags(cmd), args[1:at], args[at:])
			return a.runKubectl(ctx, h, p.cluster, words)
		})(cmd, args)
	}
	return cmd
}

// oneService is the service that a reference names; of a global service it has to be the only one.
func (w workload) oneService(ctx context.Context, ref resource) (*consolev1.Service, error) {
	services, err := w.listServices(ctx, ref)
	if err != nil {
		return nil, err
	}
	if len(services) != 1 {
		var names []string
		for _, s := range services {
			names = append(names, "service/"+s.GetMetadata().GetName())
		}
		return nil, fmt.Errorf("%s %q has %s: name one of %s", ref.kind, ref.name, plural.Of(len(services), "service"), strings.Join(names, ", "))
	}
	return services[0], nil
}

// onePod is a pod of a service: one that is ready, if there is one.
func (w workload) onePod(ctx context.Context, ref resource) (pod, error) {
	s, err := w.oneService(ctx, ref)
	if err != nil {
		return pod{}, err
	}
	pods, err := w.listPods(ctx, []*consolev1.Service{s})
	if err != nil {
		return pod{}, err
	}
	if len(pods) == 0 {
		return pod{}, fmt.Errorf("service %q has no pods now: `fairlead tree service %s` shows what it has", ref.name, s.GetMetadata().GetName())
	}
	return pods[max(0, slices.IndexFunc(pods, func(p pod) bool { return p.ready }))], nil
}

func (a *app) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart service|globalservice NAME",
		Short: "Start the pods of a service anew, some after the other",
		Long: `Start the pods of a service anew, as kubectl rollout restart does: each Deployment, StatefulSet and DaemonSet of the service replaces its pods as its strategy
says. What is in Git stays as it is. "fairlead wait service NAME --healthy" waits for the new pods.`,
		Example: "  fairlead restart service/web\n  fairlead restart service web && fairlead wait service web --healthy",
		Args:    wantArgs(2, 2),
		RunE: a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			w := workload{a, h}
			services, err := w.listServices(ctx, resource{args[0], args[1]})
			if err != nil {
				return err
			}
			for _, s := range services {
				if err := w.restartPods(ctx, s); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// restartPods changes an annotation of each template of pods, so that their controllers replace the pods.
func (w workload) restartPods(ctx context.Context, s *consolev1.Service) error {
	name, cluster := s.GetMetadata().GetName(), s.GetSpec().GetCluster()
	objects, err := findObjects(ctx, w.hub, objectFlags{service: name}, "")
	if err != nil {
		return err
	}
	found := listControllers(objects)
	if len(found) == 0 {
		return fmt.Errorf("service %q has no Deployment, StatefulSet or DaemonSet in cluster %q: there is nothing to restart", name, cluster)
	}
	at := w.app.Now().UTC().Format(time.RFC3339)
	patch := map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": at}}}}}
	for _, o := range found {
		path := fmt.Sprintf("apis/apps/v1/namespaces/%s/%ss/%s?fieldManager=fairlead-restart",
			url.PathEscape(o.GetNamespace()), strings.ToLower(o.GetKind()), url.PathEscape(o.GetName()))
		if err := w.askCluster(ctx, http.MethodPatch, cluster, path, patch, nil); err != nil {
			return err
		}
		if err := w.app.printf("%s restarted in cluster %s\n", objectTitle(o.GetKind(), o.GetNamespace(), o.GetName()), cluster); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) portForward() *cobra.Command {
	var to, address string
	cmd := &cobra.Command{
		Use:         "port-forward service/NAME [LOCAL:]PORT...",
		Annotations: map[string]string{readsReferences: "yes"},
		Short:       "Reach a port of a service from this machine",
		Long: `Reach a port of a service from this machine, as kubectl port-forward does: that of its Service of Kubernetes, if it has one, or else of a pod. With
several Services --to says which one.`,
		Example: "  fairlead port-forward service/web 8080:80\n  fairlead port-forward service/shop 5432 --to Service/db",
		Args:    wantArgs(2, unlimited),
	}
	cmd.Flags().StringVar(&to, "to", "", "which object of the service, as `KIND/NAME`")
	cmd.Flags().StringVar(&address, "address", "", "where this machine listens; default: loopback")
	cmd.RunE = a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
		ref, ok := splitReference(args[0])
		if !ok {
			return errors.New("name the service as service/NAME: fairlead port-forward service/web 8080:80")
		}
		w := workload{a, h}
		s, err := w.oneService(ctx, ref)
		if err != nil {
			return err
		}
		namespace, target, err := w.forwardTarget(ctx, s, to)
		if err != nil {
			return err
		}
		words := []string{"port-forward", "-n", namespace, target}
		if address != "" {
			words = append(words, "--address", address)
		}
		return a.runKubectl(ctx, h, s.GetSpec().GetCluster(), append(words, args[1:]...))
	})
	return cmd
}

// forwardTarget returns what ports are forwarded to: what the person named, the only Service of Kubernetes, or else a pod.
func (w workload) forwardTarget(ctx context.Context, s *consolev1.Service, to string) (namespace, target string, err error) {
	name := s.GetMetadata().GetName()
	objects, err := findObjects(ctx, w.hub, objectFlags{service: name}, "")
	if err != nil {
		return "", "", err
	}
	var fit []*consolev1.ClusterObject
	var titles []string
	for _, o := range objects {
		title := o.GetObject().GetKind() + "/" + o.GetObject().GetName()
		if to == "" && o.GetObject().GetKind() == "Service" && o.GetObject().GetGroup() == "" || to != "" && strings.EqualFold(title, to) {
			fit, titles = append(fit, o), append(titles, title)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0].GetObject().GetNamespace(), strings.ToLower(titles[0][:strings.Index(titles[0], "/")]) + "/" + fit[0].GetObject().GetName(), nil
	case len(fit) > 1:
		return "", "", fmt.Errorf("service %q has several Services: choose one by --to: %s", name, strings.Join(titles, ", "))
	case to != "":
		return "", "", fmt.Errorf("service %q has no %s: `fairlead tree service %s` shows what it has", name, to, name)
	}
	p, err := w.onePod(ctx, resource{"service", name})
	return cmp.Or(p.namespace, "default"), "pod/" + p.name, err
}
