package object

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

// Pod is one of a service.
type Pod struct {
	Cluster, Namespace, Name string
	Containers               []string
	// Usual is the container that clients take where none is named.
	Usual string
	Ready bool
}

func (p Pod) String() string { return p.Cluster + " " + p.Namespace + "/" + p.Name }

// Workload reaches what services run in their clusters, through the tunnel, as the person.
type Workload struct {
	App *app.App
	Hub *hubclient.Hub
}

// ListServices returns those that a reference names: a service, or all services of a global service.
func (w Workload) ListServices(ctx context.Context, ref resource.Reference) ([]*consolev1.Service, error) {
	k, err := resource.FindKind(ref.Kind)
	if err != nil {
		return nil, err
	}
	switch k.ID {
	case catalogyaml.Service:
		m, err := k.ReadOne(ctx, w.Hub, ref.Name)
		if err != nil {
			return nil, err
		}
		s, _ := m.(*consolev1.Service)
		if s.GetSpec().GetCatalog() {
			return nil, fmt.Errorf("the folder of service %q goes to the catalog: it runs nothing in a cluster", ref.Name)
		}
		return []*consolev1.Service{s}, nil
	case catalogyaml.Global:
		if _, err := k.ReadOne(ctx, w.Hub, ref.Name); err != nil {
			return nil, err
		}
		return ServicesOf(ctx, w.Hub, ref.Name)
	}
	return nil, fmt.Errorf("only services and globalservices run something, not %q", ref.Kind)
}

// ListPods returns the pods of services, as their clusters have them now.
func (w Workload) ListPods(ctx context.Context, services []*consolev1.Service) ([]Pod, error) {
	var all []Pod
	for _, s := range services {
		objects, err := Find(ctx, w.Hub, Flags{Service: s.GetMetadata().GetName()}, "")
		if err != nil {
			return nil, err
		}
		below, err := LiveChildren(ctx, w.Hub, s.GetSpec().GetCluster(), objects)
		if err != nil {
			return nil, err
		}
		for _, one := range podsAmong(objects, below) {
			one.Cluster = s.GetSpec().GetCluster()
			found, err := w.ReadPod(ctx, one)
			if errors.Is(err, errGone) {
				continue // since the list was read
			}
			if err != nil {
				return nil, err
			}
			all = append(all, found)
		}
	}
	return all, nil
}

// podsAmong are the pods of a service: objects of its own, and what its controllers made.
func podsAmong(objects []*consolev1.ClusterObject, below Children) (pods []Pod) {
	for _, o := range objects {
		if obj := o.GetObject(); obj.GetGroup() == "" && obj.GetKind() == "Pod" {
			pods = append(pods, Pod{Namespace: obj.GetNamespace(), Name: obj.GetName()})
		}
	}
	for _, o := range objects {
		pods = append(pods, below.podsBelow(o.GetObject().GetUid())...)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	return slices.CompactFunc(pods, func(a, b Pod) bool { return a.Namespace == b.Namespace && a.Name == b.Name })
}

// podsBelow are those below an owner.
func (c Children) podsBelow(owner string) (pods []Pod) {
	for _, one := range c[owner] {
		if one.Kind == "Pod" {
			pods = append(pods, Pod{Namespace: one.namespace, Name: one.name})
		}
		pods = append(pods, c.podsBelow(one.uid)...)
	}
	return pods
}

// errGone: the cluster does not have it, or not any more.
var errGone = errors.New("it is not there")

// usualContainer is the annotation by which a pod names its usual container.
const usualContainer = "kubectl.kubernetes.io/default-container"

// ReadPod reads what a pod runs, and whether it is ready.
func (w Workload) ReadPod(ctx context.Context, p Pod) (Pod, error) {
	var got struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Containers []struct {
				Name string `json:"name"`
			} `json:"containers"`
		} `json:"spec"`
		Status struct {
			Conditions []struct{ Type, Status string } `json:"conditions"`
		} `json:"status"`
	}
	if err := w.AskCluster(ctx, http.MethodGet, p.Cluster, PodPath(p), nil, &got); err != nil {
		return Pod{}, err
	}
	p.Containers = nil
	for _, c := range got.Spec.Containers {
		p.Containers = append(p.Containers, c.Name)
	}
	if usual := got.Metadata.Annotations[usualContainer]; slices.Contains(p.Containers, usual) {
		p.Usual = usual
	}
	for _, c := range got.Status.Conditions {
		p.Ready = p.Ready || c.Type == "Ready" && c.Status == "True"
	}
	return p, nil
}

// PodPath is where the API of a cluster has a pod.
func PodPath(p Pod) string {
	return "api/v1/namespaces/" + url.PathEscape(p.Namespace) + "/pods/" + url.PathEscape(p.Name)
}

// askBytes bounds what a cluster answers.
const askBytes = 8 << 20

// AskCluster asks a cluster, and reads its answer into out, if that is not nil.
func (w Workload) AskCluster(ctx context.Context, method, cluster, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	resp, err := w.SendRequest(ctx, method, cluster, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, askBytes)).Decode(out)
}

// SendRequest sends a request to a cluster. A refusal by the cluster is an error with the cluster's own words.
func (w Workload) SendRequest(ctx context.Context, method, cluster, path string, body any) (*http.Response, error) {
	if len(w.Hub.Context.Endpoints.Tunnels) == 0 {
		return nil, errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	}
	var text io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = strings.NewReader(string(raw))
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s/clusters/%s/%s", w.Hub.Context.Endpoints.Tunnels[0], cluster, path), text)
	if err != nil {
		return nil, err
	}
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := w.Hub.HTTP.Do(req)
	if err != nil {
		return nil, w.Hub.ExplainTunnel(err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var status struct{ Message string }
	_ = json.NewDecoder(io.LimitReader(resp.Body, askBytes)).Decode(&status) // an answer that is no Status has no message
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("cluster %s: %w: %s", cluster, errGone, cmp.Or(status.Message, resp.Status))
	}
	return nil, hubclient.TunnelRefusal(resp.StatusCode, "cluster "+cluster+": "+cmp.Or(status.Message, resp.Status))
}

// ListControllers returns the objects of a service that have a template of pods.
func ListControllers(objects []*consolev1.ClusterObject) (found []*deliveryv1.ManagedObject) {
	for _, o := range objects {
		if obj := o.GetObject(); obj.GetGroup() == "apps" &&
			slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, obj.GetKind()) {
			found = append(found, obj)
		}
	}
	return found
}
