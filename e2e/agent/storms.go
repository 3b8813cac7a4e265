package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/retry"
)

// Storm is much that goes wrong at once. A Storm fails unless everything is right in the end, and unless the agent
// asked no more than it may, and says how much it asked.
type Storm func(ctx context.Context, w *World) (said string, err error)

// Storms are all storms at their full size, one after the other.
func Storms(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	b, err := open(ctx, bins, dir, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	var failed []error
	for _, one := range []struct {
		name  string
		storm Storm
	}{
		{"throttled", Throttled(500)},
		{"restart", Restarted(5)},
		{"expired", Expired(500)},
		{"drift", Drift(10_000)},
		{"kinds", Kinds(300)},
		{"webhook", SlowWebhook(200)},
		{"double edit", DoubleEdit(50)},
		{"stripped label", StrippedLabel(50)},
		{"fight", Fight()},
	} {
		begin := time.Now()
		said, err := one.storm(ctx, b.world)
		if err != nil {
			said += fmt.Sprintf(" failed: %v", err)
			failed = append(failed, fmt.Errorf("storm of %s: %w", one.name, err))
		}
		b.say("storm of %s: %s; %v", one.name, said, time.Since(begin).Round(time.Second))
	}
	b.say("BENCH agent.storms_weathered %d of 9", 9-len(failed))
	return errors.Join(failed...)
}

// asked sums up requests, and fails if there are more than allowed.
func asked(requests []Request, most int) (string, error) {
	said := fmt.Sprintf("%d requests of at most %d (%s)", len(requests), most, tally(requests))
	if len(requests) > most {
		return said, fmt.Errorf("too many requests: %s", said)
	}
	return said, nil
}

// allBack waits until every object has its value again.
func (w *World) allBack(ctx context.Context, objects []Object) error {
	want := map[string]any{}
	folders := map[string]bool{}
	for _, obj := range objects {
		path := pathOf(obj)
		want[path] = field(obj, valuePath(path)...)
		folders[path[:strings.LastIndexByte(path, '/')]] = true
	}
	return w.await(ctx, "all objects are as they should be", func(ctx context.Context) error {
		found := 0
		wrong := ""
		for folder := range folders {
			all, err := w.Kube.List(ctx, folder)
			if err != nil {
				return err
			}
			for _, obj := range all {
				path := folder + "/" + text(obj, "metadata", "name")
				value, ours := want[path]
				switch {
				case ours && field(obj, valuePath(path)...) == value && text(obj, "metadata", "labels", "fairlead.dev/service") != "":
					found++
				case ours:
					wrong = path
				}
			}
		}
		if found != len(want) {
			return fmt.Errorf("%d of %d are, %s is not", found, len(want), wrong)
		}
		return nil
	})
}

// Drift is somebody who edits n objects, each once.
func Drift(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name = "drift"
		objects := Light(name, n)
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		mark := w.Proxy.Mark()
		err := each(ctx, n, func(ctx context.Context, i int) error {
			path := pathOf(objects[i])
			_, err := w.Kube.Edit(ctx, path, patchOf("edited", valuePath(path)...))
			return err
		})
		if err := errors.Join(err, w.allBack(ctx, objects)); err != nil {
			return "", err
		}
		return asked(w.Proxy.Since(mark, in(name)), 2*n+20)
	}
}

// DoubleEdit is somebody who edits n objects, and each once more as soon as it was repaired: times in managedFields
// have a resolution of a second.
func DoubleEdit(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name = "double"
		objects := Light(name, n)
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		mark := w.Proxy.Mark()
		err := each(ctx, n, func(ctx context.Context, i int) error {
			for range 2 {
				if _, err := w.repaired(ctx, pathOf(objects[i])); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(err, w.allBack(ctx, objects)); err != nil {
			return "", err
		}
		return asked(w.Proxy.Since(mark, in(name)), 2*2*n+20)
	}
}

// StrippedLabel is somebody who takes the mark off n objects, and deletes as many others.
func StrippedLabel(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name = "stripped"
		objects := Light(name, 2*n)
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		uids := make([]string, len(objects))
		mark := w.Proxy.Mark()
		err := each(ctx, len(objects), func(ctx context.Context, i int) error {
			path := pathOf(objects[i])
			if i >= n {
				return w.Kube.Delete(ctx, path)
			}
			obj, err := w.Kube.Edit(ctx, path, patchOf(nil, "metadata", "labels", "fairlead.dev/service"))
			uids[i] = text(obj, "metadata", "uid")
			return err
		})
		if err := errors.Join(err, w.allBack(ctx, objects)); err != nil {
			return "", err
		}
		for i := range n {
			obj, err := w.Kube.Get(ctx, pathOf(objects[i]))
			if err != nil {
				return "", err
			}
			if text(obj, "metadata", "uid") != uids[i] {
				return "", fmt.Errorf("%s was made anew because its label was gone", pathOf(objects[i]))
			}
		}
		return asked(w.Proxy.Since(mark, in(name)), 3*2*n+20)
	}
}

// fightPath is what the controller of a Fight changes.
const fightPath = "/apis/" + widgets + "/v1/namespaces/fight/widgets/fought"

// Fight is a controller that always knows better about one field.
func Fight() Storm {
	return func(ctx context.Context, w *World) (said string, err error) {
		const name = "fight"
		if err := w.Deploy(ctx, name, []Object{widget(name, "fought", "first"), configMap(name, "bystander", "first")}); err != nil {
			return "", err
		}
		rival, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.fight(rival) }()
		said, err = w.fought(ctx, name)
		stop()
		return said, errors.Join(err, <-ended)
	}
}

// fought is how a fight goes.
func (w *World) fought(ctx context.Context, name string) (said string, err error) {
	mark := w.Proxy.Mark()
	if err := w.fightIsTold(ctx, name); err != nil {
		return "", err
	}
	// Other objects are repaired as ever meanwhile.
	if _, err := w.repaired(ctx, pathOf(configMap(name, "bystander", "first"))); err != nil {
		return "", err
	}
	if !retry.Sleep(ctx, 15*time.Second) {
		return "", context.Cause(ctx)
	}
	if said, err = asked(w.Proxy.Since(mark, in(name)), 20); err != nil {
		return said, err
	}
	ignore := &deliveryv1.SyncSpec{Ignore: []*deliveryv1.IgnoreRule{{Kind: "Widget", Name: "fought", Pointers: []string{"/spec/value"}}}}
	if err := w.Serve(ctx, name, ignore); err != nil {
		return said, err
	}
	return said, w.await(ctx, "peace", func(ctx context.Context) error {
		svc, err := w.Service(ctx, name)
		if err != nil {
			return err
		}
		obj, err := w.Kube.Get(ctx, fightPath)
		if err != nil {
			return err
		}
		if svc.GetStatus().GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY || text(obj, "spec", "value") != "better" {
			return fmt.Errorf("%v: %s; the value is %q", svc.GetStatus().GetState(), svc.GetStatus().GetStateMessage(), text(obj, "spec", "value"))
		}
		return nil
	})
}

// fight is the controller.
func (w *World) fight(ctx context.Context) error {
	for ctx.Err() == nil {
		var failed error
		err := w.Kube.Watch(ctx, fightPath, func(obj Object) bool {
			if text(obj, "spec", "value") == "better" {
				return false
			}
			_, failed = w.Kube.Edit(ctx, fightPath, patchOf("better", "spec", "value"))
			return failed != nil
		})
		if ctx.Err() == nil && (failed != nil || !errors.Is(err, io.EOF)) {
			return errors.Join(err, failed)
		}
	}
	return nil
}

// fightIsTold waits until the hub names the rival and the field.
func (w *World) fightIsTold(ctx context.Context, name string) error {
	return w.await(ctx, "the fight is told of", func(ctx context.Context) error {
		svc, err := w.Service(ctx, name)
		if err != nil {
			return err
		}
		report := svc.GetStatus().GetCluster().GetReport()
		if said := report.GetMessage(); report.GetPhase() != deliveryv1.Phase_PHASE_DEGRADED ||
			!strings.Contains(said, Rival) || !strings.Contains(said, "/spec/value") {
			return fmt.Errorf("%v: %s", report.GetPhase(), said)
		}
		return nil
	})
}

// SlowWebhook is an admission webhook that takes 2 s for each of n objects. Other services are none of its business.
func SlowWebhook(n int) Storm {
	return func(ctx context.Context, w *World) (_ string, err error) {
		const name, other = "slow", "quick"
		stop, err := w.admit(ctx, name, 2*time.Second)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, stop()) }()
		quick := configMap(other, "one", "first")
		if err := w.Deploy(ctx, other, []Object{quick}); err != nil {
			return "", err
		}
		if err := w.Kube.Namespace(ctx, name); err != nil {
			return "", err
		}
		objects := make([]Object, n)
		for i := range objects {
			objects[i] = configMap(name, fmt.Sprintf("load-%05d", i), "first")
		}
		mark := w.Proxy.Mark()
		commit, err := w.PushObjects(ctx, name, objects)
		if err != nil {
			return "", err
		}
		if err := w.Serve(ctx, name, nil); err != nil {
			return "", err
		}
		err = w.await(ctx, "the slow one is being applied", func(context.Context) error {
			if len(w.Proxy.Since(mark, in(name))) == 0 {
				return errors.New("it is not")
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		if _, err := w.repaired(ctx, pathOf(quick)); err != nil {
			return "", err
		}
		svc, err := w.Service(ctx, name)
		if err != nil {
			return "", err
		}
		if svc.GetStatus().GetCluster().GetReport().GetAppliedDigest() != "" {
			return "", errors.New("a repair elsewhere took as long as all objects behind the webhook")
		}
		if err := w.Settled(ctx, name, commit); err != nil {
			return "", err
		}
		return asked(w.Proxy.Since(mark, in(name)), 2*n+20)
	}
}

// admit puts a webhook before the ConfigMaps of a namespace that takes its time and says yes.
func (w *World) admit(ctx context.Context, namespace string, takes time.Duration) (stop func() error, err error) {
	files, err := localca.Ensure(filepath.Join(w.dir, "webhook"), "127.0.0.1")
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(files.CAFile)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var review Object
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || !retry.Sleep(r.Context(), takes) {
			return
		}
		_ = json.NewEncoder(out).Encode(Object{
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": Object{"uid": field(review, "request", "uid"), "allowed": true},
		})
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServeTLS(listener, files.CertFile, files.KeyFile) // until it is closed
	}()
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	stop = func() error {
		err := w.Kube.Delete(context.WithoutCancel(ctx), path+"/slow")
		_ = server.Close()
		<-ended
		return err
	}
	err = w.Kube.Create(ctx, path, Object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": Object{"name": "slow"},
		"webhooks": []any{Object{
			"name":                    "slow.load.fairlead.dev",
			"clientConfig":            Object{"url": "https://" + listener.Addr().String() + "/", "caBundle": base64.StdEncoding.EncodeToString(authority)},
			"rules":                   []any{Object{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}},
			"namespaceSelector":       Object{"matchLabels": Object{"kubernetes.io/metadata.name": namespace}},
			"sideEffects":             "None",
			"timeoutSeconds":          30,
			"admissionReviewVersions": []any{"v1"},
		}},
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// Kinds is a service of n kinds of its own, each in a group of its own and with one object.
func Kinds(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name = "kinds"
		var objects []Object
		for i := range n {
			group := fmt.Sprintf("kind%03d.storm.fairlead.dev", i)
			objects = append(objects, definition(group, "Gust", "gusts"), Object{
				"apiVersion": group + "/v1", "kind": "Gust", "metadata": Object{"name": "one", "namespace": name}, "spec": Object{"value": "first"},
			})
		}
		isOurs := func(r Request) bool {
			return r.In(name) || strings.HasSuffix(r.Group, ".storm.fairlead.dev") || strings.Contains(r.Name, ".storm.fairlead.dev")
		}
		mark := w.Proxy.Mark()
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		said, err := asked(w.Proxy.Since(mark, isOurs), 20*n+50)
		if err != nil {
			return said, err
		}
		mark = w.Proxy.Mark()
		if err := w.Sync(ctx, name); err != nil {
			return said, err
		}
		again := w.Proxy.Since(mark, isOurs, func(r Request) bool { return r.Verb != "watch" })
		if len(again) > 0 {
			return said, fmt.Errorf("nothing changed, and it asked: %s", tally(again))
		}
		mark = w.Proxy.Mark()
		if err := w.Remove(ctx, name); err != nil {
			return said, err
		}
		gone, err := asked(w.Proxy.Since(mark, isOurs), 20*n+50)
		return said + "; removed with " + gone, err
	}
}

// Restarted kills the API server, n times. The view has to have what happens before the agent watches again.
func Restarted(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name, pods = "restarted", 10
		objects := Light(name, 2*n)
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		mark := w.Proxy.Mark()
		for round := range n {
			if err := w.addPods(ctx, name, pods); err != nil {
				return "", err
			}
			if err := w.KillAPIServer(ctx); err != nil {
				return "", err
			}
			if err := errors.Join(w.dropPods(ctx, name, pods), w.viewConverges(ctx)); err != nil {
				return "", err
			}
			for _, obj := range objects[2*round:][:2] { // others each time: who edits one again and again is a rival
				if _, err := w.repaired(ctx, pathOf(obj)); err != nil {
					return "", err
				}
			}
		}
		// Watches of some ten kinds that start again a few times each, and 4 edits in each round.
		return asked(w.Proxy.Since(mark), n*150)
	}
}

// Expired keeps the agent from watching until what it saw last is too old to go on from; n objects are edited and as
// many deleted meanwhile.
func Expired(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name, pods = "expired", 10
		objects := Light(name, 3*n)
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		if err := w.addPods(ctx, name, pods); err != nil {
			return "", err
		}
		mark, before := w.Proxy.Mark(), w.Proxy.Expired()
		heal := w.Proxy.Inject(func(r Request) Answer {
			if r.Verb == "watch" {
				return Answer{Status: http.StatusServiceUnavailable, RetryAfter: 1}
			}
			return Answer{}
		})
		defer heal()
		w.Proxy.CutWatches()
		err := each(ctx, 2*n, func(ctx context.Context, i int) error {
			path := pathOf(objects[i])
			if i%4 < 2 { // both kinds
				return w.Kube.Delete(ctx, path)
			}
			_, err := w.Kube.Edit(ctx, path, patchOf("edited", valuePath(path)...))
			return err
		})
		if err := errors.Join(err, w.dropPods(ctx, name, pods)); err != nil {
			return "", err
		}
		// The API server remembers what happened of late, too: both have to forget.
		if err := errors.Join(w.compact(ctx), w.KillAPIServer(ctx)); err != nil {
			return "", err
		}
		heal()
		if err := w.allBack(ctx, objects); err != nil {
			return "", err
		}
		if w.Proxy.Expired() == before {
			return "", errors.New("the agent was never told that it is too late: this storm shows nothing")
		}
		if err := w.viewConverges(ctx); err != nil {
			return "", err
		}
		return asked(w.Proxy.Since(mark, func(r Request) bool { return r.In(name) }), 3*2*n+20)
	}
}

// addPods makes pods that nobody takes, and waits until the view has them. dropPods deletes them.
func (w *World) addPods(ctx context.Context, namespace string, n int) error {
	if err := w.takesPods(ctx, namespace); err != nil {
		return err
	}
	err := each(ctx, n, func(ctx context.Context, i int) error {
		return w.Kube.Create(ctx, "/api/v1/namespaces/"+namespace+"/pods", waitingPod(namespace, i))
	})
	if err != nil {
		return err
	}
	return w.viewConverges(ctx)
}

func (w *World) dropPods(ctx context.Context, namespace string, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		return w.Kube.Delete(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+podName(i))
	})
}

// viewConverges waits until the hub's view of the cluster is whole, and says what a direct count says.
func (w *World) viewConverges(ctx context.Context) error {
	return w.await(ctx, "the view is what a direct count says", func(ctx context.Context) error {
		got, err := w.views.GetClusterView(ctx, &consolev1.GetClusterViewRequest{Cluster: cluster})
		if err != nil {
			return err
		}
		for figure, path := range map[string]string{
			"nodes.total": "/api/v1/nodes", "pods.total": "/api/v1/pods", "claims.total": "/api/v1/persistentvolumeclaims",
			"workloads.deployments": "/apis/apps/v1/deployments", "workloads.cronjobs": "/apis/batch/v1/cronjobs",
		} {
			all, err := w.Kube.List(ctx, path)
			if err != nil {
				return err
			}
			if n, known := got.GetView().GetFigures()[figure]; !known || n != int64(len(all)) {
				return fmt.Errorf("%s is %d (known: %t), counted %d", figure, n, known, len(all))
			}
		}
		for _, s := range got.GetView().GetSections() {
			if s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE {
				return fmt.Errorf("section %s is %v: %s", s.GetName(), s.GetState(), s.GetReason())
			}
		}
		return nil
	})
}

// compact makes etcd forget all but the newest version of everything.
func (w *World) compact(ctx context.Context) error {
	socket := filepath.Join(w.local.Dir, "etcd.sock:0")
	etcd := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer etcd.CloseIdleConnections()
	call := func(path, body string) (answer Object, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd"+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		resp, err := etcd.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if err = json.NewDecoder(resp.Body).Decode(&answer); err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("etcd %s: %s: %v", path, resp.Status, answer)
		}
		return answer, err
	}
	now, err := call("/v3/kv/range", `{"key": "AA==", "limit": "1"}`)
	if err != nil {
		return err
	}
	_, err = call("/v3/kv/compaction", fmt.Sprintf(`{"revision": %q, "physical": true}`, text(now, "header", "revision")))
	return err
}

// Throttled is an API server that takes ten requests a second about a service, while n of its objects change.
func Throttled(n int) Storm {
	return func(ctx context.Context, w *World) (string, error) {
		const name, perSecond = "throttled", 10
		objects := Light(name, n)
		if err := w.Deploy(ctx, name, objects); err != nil {
			return "", err
		}
		left, since := perSecond, time.Now()
		heal := w.Proxy.Inject(func(r Request) Answer { // under the proxy's lock
			if !r.In(name) || r.Verb == "watch" {
				return Answer{}
			}
			if time.Since(since) > time.Second {
				left, since = perSecond, time.Now()
			}
			if left == 0 {
				return Answer{Status: http.StatusTooManyRequests, RetryAfter: 1}
			}
			left--
			return Answer{}
		})
		defer heal()
		mark := w.Proxy.Mark()
		for _, obj := range objects {
			at := valuePath(pathOf(obj))
			field(obj, at[:len(at)-1]...).(Object)[at[len(at)-1]] = "second"
		}
		commit, err := w.PushObjects(ctx, name, objects)
		if err != nil {
			return "", err
		}
		if err := errors.Join(w.Settled(ctx, name, commit), w.allBack(ctx, objects)); err != nil {
			return "", err
		}
		// A rehearsal and an apply for each; and it may ask in vain as often again.
		return asked(w.Proxy.Since(mark, in(name)), 2*2*n+50)
	}
}
