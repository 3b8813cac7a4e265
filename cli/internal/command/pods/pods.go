package pods

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

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/cli/internal/object"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

func execCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "exec CLUSTER [FLAGS OF KUBECTL] POD -- COMMAND... | exec service/NAME -- COMMAND...",
		Annotations: map[string]string{resource.ReadsReferences: "yes"},
		Short:       "Run a command in a pod of a service, or of a cluster",
		Long: `Run a command in a pod, as kubectl exec does: with a service in one of its ready pods, with a cluster in the named pod. All
arguments behind the service or the cluster are kubectl's.`,
		Example: "  fairlead exec -it service/web -- sh\n  fairlead exec edge-1 -n shop -it web-0 -- sh",
		Args:    app.WantArgs(1, app.Unlimited),
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolP("stdin", "i", false, "pass what is typed on")
	cmd.Flags().BoolP("tty", "t", false, "as on a terminal")
	cmd.Flags().StringP("container", "c", "", "in the container of this `name`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			ref, ok := resource.SplitReference(args[0])
			if !ok {
				return kubectl.Run(ctx, a, h, args[0],
					append(append([]string{"exec"}, changedFlags(cmd)...), args[1:]...))
			}
			at := slices.Index(args, "--")
			if at < 0 || at == len(args)-1 {
				return fmt.Errorf("write the command behind --: fairlead exec -it %s -- sh", args[0])
			}
			p, err := onePod(ctx, object.Workload{App: a, Hub: h}, ref)
			if err != nil {
				return err
			}
			a.Notef("in pod %s of cluster %s\n", p.Name, p.Cluster)
			words := slices.Concat([]string{"exec", "-n", p.Namespace, p.Name}, changedFlags(cmd), args[1:at], args[at:])
			return kubectl.Run(ctx, a, h, p.Cluster, words)
		})(cmd, args)
	}
	return cmd
}

// oneService is the service that a reference names; of a global service it has to be the only one.
func oneService(ctx context.Context, w object.Workload, ref resource.Reference) (*consolev1.Service, error) {
	services, err := w.ListServices(ctx, ref)
	if err != nil {
		return nil, err
	}
	if len(services) != 1 {
		var names []string
		for _, s := range services {
			names = append(names, "service/"+s.GetMetadata().GetName())
		}
		return nil, fmt.Errorf("%s %q has %s: name one of %s", ref.Kind, ref.Name, plural.Of(len(services), "service"), strings.Join(names, ", "))
	}
	return services[0], nil
}

// onePod is a pod of a service: one that is ready, if there is one.
func onePod(ctx context.Context, w object.Workload, ref resource.Reference) (object.Pod, error) {
	s, err := oneService(ctx, w, ref)
	if err != nil {
		return object.Pod{}, err
	}
	pods, err := w.ListPods(ctx, []*consolev1.Service{s})
	if err != nil {
		return object.Pod{}, err
	}
	if len(pods) == 0 {
		return object.Pod{}, fmt.Errorf("service %q has no pods now: `fairlead tree service %s` shows what it has", ref.Name, s.GetMetadata().GetName())
	}
	return pods[max(0, slices.IndexFunc(pods, func(p object.Pod) bool { return p.Ready }))], nil
}

func restartCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "restart service|globalservice NAME",
		Short: "Start the pods of a service anew, some after the other",
		Long: `Start the pods of a service anew, as kubectl rollout restart does: each Deployment, StatefulSet and DaemonSet of the service replaces its pods as its strategy
says. Git is not changed. "fairlead wait service NAME --healthy" waits for the new pods.`,
		Example: "  fairlead restart service/web\n  fairlead restart service web && fairlead wait service web --healthy",
		Args:    app.WantArgs(2, 2),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			w := object.Workload{App: a, Hub: h}
			services, err := w.ListServices(ctx, resource.Reference{Kind: args[0], Name: args[1]})
			if err != nil {
				return err
			}
			failed := 0
			for _, s := range services {
				err := restartPods(ctx, w, s)
				if err != nil && (len(services) == 1 || ctx.Err() != nil) {
					return err
				}
				if err != nil { // its cluster may be away: the others go on
					a.Notef("service/%s: %v\n", s.GetMetadata().GetName(), err)
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%s failed, as said above", plural.Part(failed, len(services), "service"))
			}
			return nil
		}),
	}
}

// restartPods changes an annotation of each template of pods, so that their controllers replace the pods.
func restartPods(ctx context.Context, w object.Workload, s *consolev1.Service) error {
	name, cluster := s.GetMetadata().GetName(), s.GetSpec().GetCluster()
	objects, err := object.Find(ctx, w.Hub, object.Flags{Service: name}, "")
	if err != nil {
		return err
	}
	found := object.ListControllers(objects)
	if len(found) == 0 {
		return fmt.Errorf("service %q has no Deployment, StatefulSet or DaemonSet in cluster %q: there is nothing to restart", name, cluster)
	}
	at := w.App.Now().UTC().Format(time.RFC3339)
	patch := map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": at}}}}}
	for _, o := range found {
		path := fmt.Sprintf("apis/apps/v1/namespaces/%s/%ss/%s?fieldManager=fairlead-restart",
			url.PathEscape(o.GetNamespace()), strings.ToLower(o.GetKind()), url.PathEscape(o.GetName()))
		if err := w.AskCluster(ctx, http.MethodPatch, cluster, path, patch, nil); err != nil {
			return err
		}
		if err := w.App.Printf("%s restarted in cluster %s\n", object.Title(o.GetKind(), o.GetNamespace(), o.GetName()), cluster); err != nil {
			return err
		}
	}
	return nil
}

func portForward(a *app.App) *cobra.Command {
	var to, address string
	cmd := &cobra.Command{
		Use:         "port-forward service/NAME [LOCAL:]PORT...",
		Annotations: map[string]string{resource.ReadsReferences: "yes"},
		Short:       "Reach a port of a service from this machine",
		Long: `Reach a port of a service from this machine, as kubectl port-forward does: a port of its Kubernetes Service, if there is
one, or else of a pod. If there are several Services, --to chooses one.`,
		Example: "  fairlead port-forward service/web 8080:80\n  fairlead port-forward service/shop 5432 --to Service/db",
		Args:    app.WantArgs(2, app.Unlimited),
	}
	cmd.Flags().StringVar(&to, "to", "", "which object of the service, as `KIND/NAME`")
	cmd.Flags().StringVar(&address, "address", "", "where this machine listens; default: loopback")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		ref, ok := resource.SplitReference(args[0])
		if !ok {
			return errors.New("name the service as service/NAME: fairlead port-forward service/web 8080:80")
		}
		w := object.Workload{App: a, Hub: h}
		s, err := oneService(ctx, w, ref)
		if err != nil {
			return err
		}
		namespace, target, err := forwardTarget(ctx, w, s, to)
		if err != nil {
			return err
		}
		words := []string{"port-forward", "-n", namespace, target}
		if address != "" {
			words = append(words, "--address", address)
		}
		return kubectl.Run(ctx, a, h, s.GetSpec().GetCluster(), append(words, args[1:]...))
	})
	return cmd
}

// forwardTarget returns what ports are forwarded to: what the person named, the only Service of Kubernetes, or else a
// pod.
func forwardTarget(
	ctx context.Context, w object.Workload, s *consolev1.Service, to string,
) (namespace, target string, err error) {
	name := s.GetMetadata().GetName()
	objects, err := object.Find(ctx, w.Hub, object.Flags{Service: name}, "")
	if err != nil {
		return "", "", err
	}
	var fit []*consolev1.ClusterObject
	var titles []string
	for _, o := range objects {
		title := o.GetObject().GetKind() + "/" + o.GetObject().GetName()
		if to == "" && o.GetObject().GetKind() == "Service" && o.GetObject().GetGroup() == "" ||
			to != "" && strings.EqualFold(title, to) {
			fit, titles = append(fit, o), append(titles, title)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0].GetObject().GetNamespace(),
			strings.ToLower(titles[0][:strings.Index(titles[0], "/")]) + "/" + fit[0].GetObject().GetName(), nil
	case len(fit) > 1:
		return "", "", fmt.Errorf("service %q has several Services: choose one by --to: %s", name, strings.Join(titles, ", "))
	case to != "":
		return "", "", fmt.Errorf("service %q has no %s: `fairlead tree service %s` shows what it has", name, to, name)
	}
	p, err := onePod(ctx, w, resource.Reference{Kind: "service", Name: name})
	return cmp.Or(p.Namespace, "default"), "pod/" + p.Name, err
}
