package command

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

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/manifest"
)

// pod is one of a service.
type pod struct {
	cluster, namespace, name string
	containers               []string
	ready                    bool
}

func (p pod) String() string { return p.cluster + " " + p.namespace + "/" + p.name }

// workload reaches what services run in their clusters, through the tunnel, as the person.
type workload struct {
	app *app
	hub *hub.Hub
}

// listServices returns those that a reference names: a service, or all services of a global service.
func (w workload) listServices(ctx context.Context, ref resource) ([]*consolev1.Service, error) {
	k, err := findKind(ref.kind)
	if err != nil {
		return nil, err
	}
	switch k.kind {
	case manifest.Service:
		m, err := k.readOne(ctx, w.hub, ref.name)
		if err != nil {
			return nil, err
		}
		s, _ := m.(*consolev1.Service)
		if s.GetSpec().GetCatalog() {
			return nil, fmt.Errorf("the folder of service %q goes to the catalog: it runs nothing in a cluster", ref.name)
		}
		return []*consolev1.Service{s}, nil
	case manifest.Global:
		if _, err := k.readOne(ctx, w.hub, ref.name); err != nil {
			return nil, err
		}
		found, err := serviceKind().readMatching(ctx, w.hub, question{filter: labelField(globalLabel) + ` = "` + ref.name + `"`})
		if err != nil {
			return nil, err
		}
		var all []*consolev1.Service
		for _, m := range found {
			if s, ok := m.(*consolev1.Service); ok {
				all = append(all, s)
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("only services and globalservices run something, not %q", ref.kind)
}

// listPods returns the pods of services, as their clusters have them now.
func (w workload) listPods(ctx context.Context, services []*consolev1.Service) ([]pod, error) {
	var all []pod
	for _, s := range services {
		objects, err := findObjects(ctx, w.hub, objectFlags{service: s.GetMetadata().GetName()}, "")
		if err != nil {
			return nil, err
		}
		below, err := liveChildren(ctx, w.hub, s.GetSpec().GetCluster(), objects)
		if err != nil {
			return nil, err
		}
		for _, one := range podsAmong(objects, below) {
			one.cluster = s.GetSpec().GetCluster()
			found, err := w.readPod(ctx, one)
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
func podsAmong(objects []*consolev1.ClusterObject, below children) (pods []pod) {
	for _, o := range objects {
		if obj := o.GetObject(); obj.GetGroup() == "" && obj.GetKind() == "Pod" {
			pods = append(pods, pod{namespace: obj.GetNamespace(), name: obj.GetName()})
		}
	}
	for _, o := range objects {
		pods = append(pods, below.podsBelow(o.GetObject().GetUid())...)
	}
	slices.SortFunc(pods, func(a, b pod) int { return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name)) })
	return slices.CompactFunc(pods, func(a, b pod) bool { return a.namespace == b.namespace && a.name == b.name })
}

// podsBelow are those below an owner.
func (c children) podsBelow(owner string) (pods []pod) {
	for _, one := range c[owner] {
		if one.kind == "Pod" {
			pods = append(pods, pod{namespace: one.namespace, name: one.name})
		}
		pods = append(pods, c.podsBelow(one.uid)...)
	}
	return pods
}

// errGone: the cluster does not have it any more.
var errGone = errors.New("it is gone")

// readPod reads what a pod runs, and whether it is ready.
func (w workload) readPod(ctx context.Context, p pod) (pod, error) {
	var got struct {
		Spec struct {
			Containers []struct {
				Name string `json:"name"`
			} `json:"containers"`
		} `json:"spec"`
		Status struct {
			Conditions []struct{ Type, Status string } `json:"conditions"`
		} `json:"status"`
	}
	if err := w.askCluster(ctx, http.MethodGet, p.cluster, podPath(p), nil, &got); err != nil {
		return pod{}, err
	}
	p.containers = nil
	for _, c := range got.Spec.Containers {
		p.containers = append(p.containers, c.Name)
	}
	for _, c := range got.Status.Conditions {
		p.ready = p.ready || c.Type == "Ready" && c.Status == "True"
	}
	return p, nil
}

func podPath(p pod) string {
	return "api/v1/namespaces/" + url.PathEscape(p.namespace) + "/pods/" + url.PathEscape(p.name)
}

// askBytes bounds what a cluster answers.
const askBytes = 8 << 20

// askCluster asks a cluster, and reads its answer into out, if that is not nil.
func (w workload) askCluster(ctx context.Context, method, cluster, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := w.sendRequest(ctx, method, cluster, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, askBytes)).Decode(out)
}

// sendRequest sends a request to a cluster. A refusal by the cluster is an error with the cluster's own words.
func (w workload) sendRequest(ctx context.Context, method, cluster, path string, body any) (*http.Response, error) {
	if len(w.hub.Context.Endpoints.Tunnels) == 0 {
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
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s/clusters/%s/%s", w.hub.Context.Endpoints.Tunnels[0], cluster, path), text)
	if err != nil {
		return nil, err
	}
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := w.hub.HTTP.Do(req)
	if err != nil {
		return nil, err
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
	return nil, fmt.Errorf("cluster %s: %s", cluster, cmp.Or(status.Message, resp.Status))
}

// listControllers returns the objects of a service that have a template of pods.
func listControllers(objects []*consolev1.ClusterObject) (found []*deliveryv1.ManagedObject) {
	for _, o := range objects {
		if obj := o.GetObject(); obj.GetGroup() == "apps" && slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, obj.GetKind()) {
			found = append(found, obj)
		}
	}
	return found
}

// splitReference reads KIND/NAME of what is about the pods of a service. false: it is something else, such as the name of a cluster.
func splitReference(arg string) (resource, bool) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" {
		return resource{}, false
	}
	_, err := findKind(kind)
	return resource{kind, name}, err == nil
}
