package charts_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "fairlead.dev/e2e/agent"
	"fairlead.dev/e2e/process"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

// patience is for a busy machine.
var patience = flag.Duration("patience", 5*time.Minute, "how long a case waits for anything")

// run is one case under way.
type run struct {
	*testing.T
	*harness

	c        *Case
	revision int
	// known are the objects of all references so far; current are those of the last one.
	known   map[string]*unstructured.Unstructured
	hooks   map[string]*unstructured.Unstructured
	current map[string]bool
	uids    map[string]types.UID
	random  map[string]any // by "Kind/name /pointer"
	// failed: the version before could not be applied, and the agent goes on trying until it hears of the next.
	failed bool
	// isPackage: the chart does not come from its folder in Git.
	isPackage bool
}

func newRun(t *testing.T, h *harness, c *Case) *run {
	return &run{
		T: t, harness: h, c: c, known: map[string]*unstructured.Unstructured{},
		hooks: map[string]*unstructured.Unstructured{},
		uids:  map[string]types.UID{}, random: map[string]any{},
	}
}

func (r *run) all() {
	ctx := r.Context()
	if err := r.world.Kube.Namespace(ctx, r.c.Name); err != nil {
		r.Fatal(err)
	}
	for _, version := range r.c.versions {
		r.deliver(ctx, version)
	}
	r.removal(ctx)
}

// deliver has a version applied, and compares what is there with the reference.
func (r *run) deliver(ctx context.Context, version string) {
	r.Helper()
	want := r.c.Versions[version]
	r.kubectl(ctx, version, want.Before)
	spec := r.spec(version)
	mark := r.world.Proxy.Mark()
	if err := r.world.ServeSpec(ctx, r.c.Name, spec); err != nil {
		r.Fatalf("%s: %v", version, err)
	}
	r.kubectl(ctx, version, want.During)
	if want.Fails != "" {
		r.fails(ctx, version, want.Fails)
		r.failed = true
		return
	}
	r.settled(ctx, version, r.head(ctx, version))
	r.revision++
	r.check(ctx, version, spec)
	ran := r.ran(mark)
	if r.failed { // its hooks may have begun once more
		ran = ran[max(0, len(ran)-len(want.Hooks)):]
	}
	if r.failed = false; !slices.Equal(ran, want.Hooks) {
		r.Errorf("%s: hooks that ran: %v, want %v", version, ran, want.Hooks)
	}
	r.checkHooks(version, mark, want, ran)
	if len(want.After) > 0 {
		r.kubectl(ctx, version, want.After)
		r.settled(ctx, version, r.head(ctx, version))
		r.check(ctx, version, spec)
	}
	r.secondPass(ctx, version)
}

func (r *run) spec(version string) *consolev1.ServiceSpec {
	r.Helper()
	text, err := r.c.specOf(version)
	if err != nil {
		r.Fatal(err)
	}
	objects, err := catalogyaml.Decode("case.yaml", []byte(text))
	if err != nil {
		r.Fatal(err)
	}
	return objects[0].Message.(*consolev1.Service).GetSpec()
}

// head is the commit of a version.
func (r *run) head(ctx context.Context, version string) string {
	r.Helper()
	commit, err := process.Run(ctx, nil, "", "git", "-C", filepath.Join(r.dir, version), "rev-parse", "HEAD")
	if err != nil {
		r.Fatal(err)
	}
	return strings.TrimSpace(commit)
}

func (r *run) kubectl(ctx context.Context, version string, lines []string) {
	r.Helper()
	for _, line := range lines {
		line, file, _ := strings.Cut(line, " < ")
		args, stdin := strings.Fields(line), r.c.files["kubectl"][file]
		if args[0] == "apply" {
			stdin = r.c.files["kubectl"][args[1]]
			args = []string{"apply", "--server-side", "--field-manager=" + append(args, "somebody")[2], "-f", "-"}
		}
		if err := r.within(ctx, func(ctx context.Context) error {
			_, err := r.world.Kubectl(ctx, stdin, append([]string{"-n", r.c.Name}, args...)...)
			return err
		}); err != nil {
			r.Fatalf("%s: %v", version, err)
		}
		if args[0] == "delete" {
			maps.DeleteFunc(r.uids, func(name string, _ types.UID) bool { return strings.EqualFold(name, args[1]+"/"+args[2]) })
		}
	}
}

func (r *run) await(ctx context.Context, what string, ok func(context.Context) error) {
	r.Helper()
	var last error
	err := r.within(ctx, func(ctx context.Context) error {
		return process.Await(ctx, what, func(ctx context.Context) error {
			err := ok(ctx)
			if ctx.Err() == nil {
				last = err // an error after the end says nothing but that
			}
			return last
		})
	})
	if err != nil {
		r.Fatal(err)
	}
}

// within does something with patience.
func (r *run) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, *patience, fmt.Errorf("gave up after %v", *patience))
	defer cancel()
	return do(ctx)
}

// settled waits until the hub knows that a commit is applied and healthy.
func (r *run) settled(ctx context.Context, version, commit string) {
	r.Helper()
	r.healthy(ctx, version, func(_, at string) bool { return at == commit })
}

// healthy waits until the hub knows that a revision, by its subject and its commit, is applied and healthy.
func (r *run) healthy(ctx context.Context, version string, isIt func(subject, commit string) bool) {
	r.Helper()
	r.await(ctx, version+" is healthy", func(ctx context.Context) error {
		svc, err := r.world.Service(ctx, r.c.Name)
		if err != nil {
			return err
		}
		status := svc.GetStatus()
		hub, report := status.GetHub(), status.GetCluster().GetReport()
		is, isApplied := hub.GetRevision(), report.GetAppliedDigest() == hub.GetDigest()
		if !isIt(is.GetSubject(), is.GetCommit()) || !isApplied ||
			status.GetState() != consolev1.ServiceState_SERVICE_STATE_HEALTHY {
			return fmt.Errorf("%v: %s", status.GetState(), words(svc))
		}
		warns := r.c.Versions[version].Warns
		if r.isPackage { // which has no folder
			warns = strings.TrimPrefix(warns, r.c.Name+"/")
		}
		if !strings.Contains(words(svc), warns) {
			return fmt.Errorf("it says %q, want %q", words(svc), warns)
		}
		return nil
	})
}

// words are all that a service's status says to people.
func words(svc *consolev1.Service) string {
	status := svc.GetStatus()
	said := []string{
		status.GetStateMessage(), status.GetHub().GetProblem().GetMessage(),
		status.GetCluster().GetReport().GetMessage(),
	}
	for _, obj := range status.GetCluster().GetReport().GetObjects() {
		said = append(said, obj.GetKind()+"/"+obj.GetName()+": "+obj.GetMessage())
	}
	said = slices.DeleteFunc(said, func(one string) bool { return one == "" })
	return strings.Join(slices.Compact(said), " · ")
}

// fails waits until a service says these words. Objects from before are as they were.
func (r *run) fails(ctx context.Context, version, want string) {
	r.Helper()
	r.await(ctx, fmt.Sprintf("%s fails with %q", version, want), func(ctx context.Context) error {
		svc, err := r.world.Service(ctx, r.c.Name)
		if err != nil {
			return err
		}
		if !strings.Contains(words(svc), want) {
			return fmt.Errorf("%v: %s", svc.GetStatus().GetState(), words(svc))
		}
		return nil
	})
	for name, uid := range r.uids {
		live, err := r.live(ctx, r.known[name])
		if err != nil || live.GetUID() != uid {
			r.Errorf("%s: %s is not what it was: %v", version, name, err)
		}
	}
}

// check compares the cluster with the reference.
func (r *run) check(ctx context.Context, version string, spec *consolev1.ServiceSpec) {
	r.Helper()
	ref, err := r.referenceOf(ctx, r.c, filepath.Join(r.dir, version, r.c.Name), spec, r.revision)
	if err != nil {
		r.Fatalf("%s: render the reference: %v", version, err)
	}
	want := r.c.Versions[version]
	r.current = map[string]bool{}
	for _, obj := range ref.objects {
		name := id(obj)
		r.current[name] = true
		if err := errors.Join(r.place(obj, r.c.Name), dataOf(obj)); err != nil {
			r.Fatalf("%s: %s: %v", version, name, err)
		}
		r.known[name] = obj
		if !slices.Contains(want.Uncompared, name) {
			r.checkObject(ctx, version, obj)
		}
	}
	for _, obj := range ref.hooks {
		if err := r.place(obj, r.c.Name); err != nil {
			r.Fatalf("%s: %s: %v", version, id(obj), err)
		}
		r.hooks[id(obj)] = obj
	}
	for _, name := range want.Extra {
		kind, called, _ := strings.Cut(name, "/")
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind,
			"metadata": map[string]any{"name": called, "namespace": r.c.Name},
		}}
		r.known[name] = obj
		if _, err := r.live(ctx, obj); err != nil {
			r.Errorf("%s: %s: %v", version, name, err)
		}
	}
	for name, part := range want.Live {
		obj := r.object(name)
		if obj == nil {
			r.Fatalf("%s: case.yaml: there is no %s", version, name)
		}
		live, err := r.live(ctx, obj)
		if err != nil {
			r.Errorf("%s: %s: %v", version, name, err)
			continue
		}
		for _, problem := range subset("", any(part), any(live.Object)) {
			r.Errorf("%s: %s: %s", version, name, problem)
		}
	}
	for _, pair := range want.Same {
		values := [2]any{}
		for i, one := range pair {
			name, pointer, _ := strings.Cut(one, " ")
			live, err := r.live(ctx, r.object(name))
			if err == nil {
				values[i], err = get(live, pointer)
			}
			if err != nil {
				r.Errorf("%s: same: %s: %v", version, one, err)
			}
		}
		if !reflect.DeepEqual(values[0], values[1]) {
			r.Errorf("%s: %s is %s, %s is %s", version, pair[0], short(values[0]), pair[1], short(values[1]))
		}
	}
	gone := slices.Clone(want.Gone)
	for name := range r.known {
		if !r.current[name] && !slices.Contains(want.Extra, name) && !slices.Contains(r.c.Kept, name) {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		r.gone(ctx, version, name)
		delete(r.uids, name)
	}
}

// object is one that any reference had.
func (r *run) object(name string) *unstructured.Unstructured {
	if obj, ok := r.known[name]; ok {
		return obj
	}
	return r.hooks[name]
}

func (r *run) live(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, _, err := r.resource(obj)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, obj.GetName(), metav1.GetOptions{})
}

func (r *run) gone(ctx context.Context, version, name string) {
	r.Helper()
	obj := r.object(name)
	if obj == nil {
		r.Fatalf("%s: case.yaml: there is no %s", version, name)
	}
	r.await(ctx, version+": "+name+" is gone", func(ctx context.Context) error {
		_, err := r.live(ctx, obj)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

func (r *run) checkObject(ctx context.Context, version string, obj *unstructured.Unstructured) {
	r.Helper()
	name := id(obj)
	var live *unstructured.Unstructured
	r.await(ctx, version+": "+name+" is there", func(ctx context.Context) (err error) {
		live, err = r.live(ctx, obj) // an object that kubectl deleted is on its way
		return err
	})
	want := r.c.Versions[version]
	for _, one := range want.Left {
		if of, pointer, _ := strings.Cut(one, " "); of == name {
			if err := remove(obj, pointer); err != nil {
				r.Errorf("%s: case.yaml: left: %s: %v", version, one, err)
			}
		}
	}
	for _, one := range want.Random {
		if of, pointer, _ := strings.Cut(one, " "); of == name {
			r.shape(version, one, pointer, obj, live)
		}
	}
	problems, err := r.compare(ctx, obj, live)
	if err != nil {
		r.Errorf("%s: %s: apply the reference: %v", version, name, err)
	}
	for _, problem := range problems {
		r.Errorf("%s: %s: %s", version, name, problem)
	}
	if before, ok := r.uids[name]; ok {
		if anew := before != live.GetUID(); anew != slices.Contains(want.Recreated, name) {
			r.Errorf("%s: %s was made anew: %v, want %v", version, name, anew, !anew)
		}
	}
	r.uids[name] = live.GetUID()
}

// shape compares the kind of a value that is another with each render, and takes it over from the cluster.
func (r *run) shape(version, one, pointer string, obj, live *unstructured.Unstructured) {
	r.Helper()
	wanted, err := get(obj, pointer)
	got, liveErr := get(live, pointer)
	if err := errors.Join(err, liveErr); err != nil {
		r.Errorf("%s: %s: %v", version, one, err)
		return
	}
	if reflect.TypeOf(wanted) != reflect.TypeOf(got) || got == "" {
		r.Errorf("%s: %s: want a value such as %s, got %s", version, one, short(wanted), short(got))
	}
	if before, ok := r.random[one]; ok && reflect.DeepEqual(before, got) == slices.Contains(r.c.Versions[version].Changed, one) {
		r.Errorf("%s: %s: was %s, is %s", version, one, short(before), short(got))
	}
	r.random[one] = got
	if err := set(obj, pointer, got); err != nil {
		r.Errorf("%s: %s: %v", version, one, err)
	}
}

// ran lists the hooks that were made since a mark.
func (r *run) ran(mark int) []string {
	var ran []string
	for _, request := range r.requests(mark) {
		if request.Verb != "create" && request.Verb != "apply" || request.Status >= 300 {
			continue
		}
		for name, hook := range r.hooks {
			if _, mapping, err := r.resource(hook); err == nil && mapping.Resource.Resource == request.Resource &&
				(request.Name == hook.GetName() || request.Name == "" && hook.GetName() == "") &&
				(len(ran) == 0 || ran[len(ran)-1] != name) {
				ran = append(ran, name)
			}
		}
	}
	return ran
}

// hookRun is the annotation that the agent gives to the objects of hooks.
const hookRun = "fairlead.dev/hook-run"

// checkHooks compares what was sent for hooks with the reference: many are gone when they have run.
func (r *run) checkHooks(version string, mark int, want Version, ran []string) {
	r.Helper()
	for _, name := range ran {
		hook := r.hooks[name].DeepCopy()
		_, mapping, err := r.resource(hook)
		if err != nil {
			r.Errorf("%s: %s: %v", version, name, err)
			continue
		}
		var sent *unstructured.Unstructured // by the last run
		for _, body := range r.world.Proxy.Applied(mark, func(one fleet.Request) bool {
			return one.Group == mapping.Resource.Group &&
				one.Resource == mapping.Resource.Resource && one.Namespace == hook.GetNamespace() &&
				(one.Name == hook.GetName() || hook.GetName() == "" &&
					strings.HasPrefix(one.Name, hook.GetGenerateName()))
		}) {
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON(body); err != nil {
				r.Fatalf("%s: %s: read what was sent: %v", version, name, err)
			}
			if _, ok := obj.GetAnnotations()[hookRun]; ok {
				sent = obj
			}
		}
		if sent == nil && r.current[name] {
			continue // the object was the ordinary one of that name
		}
		if sent == nil {
			r.Errorf("%s: %s: nothing was sent", version, name)
			continue
		}
		for _, one := range want.Random {
			if of, pointer, _ := strings.Cut(one, " "); of == name {
				r.shape(version, one, pointer, hook, sent)
			}
		}
		hook.SetName(sent.GetName()) // of generateName
		for _, mark := range []string{
			"/metadata/annotations/" + strings.ReplaceAll(hookRun, "/", "~1"),
			"/metadata/labels/fairlead.dev~1service",
		} {
			if err := remove(sent, mark); err != nil && !errors.Is(err, errNoField) {
				r.Fatal(err)
			}
		}
		if err := dataOf(hook); err != nil {
			r.Fatal(err)
		}
		for _, problem := range differences("", withoutEmpty(hook.Object), withoutEmpty(sent.Object)) {
			r.Errorf("%s: %s: %s", version, name, problem)
		}
	}
}

// withoutEmpty leaves out maps of metadata that have nothing in them.
func withoutEmpty(obj map[string]any) map[string]any {
	metadata, _ := obj["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(_ string, value any) bool {
		in, isMap := value.(map[string]any)
		return isMap && len(in) == 0 || value == nil
	})
	return obj
}

// ofHook tells whether a request is about an object that a hook makes, and nothing else does.
func (r *run) ofHook(request fleet.Request) bool {
	if len(r.hooks) > 0 && request.Verb == "list" && (request.Resource == "pods" || request.Resource == "events") {
		return true // the agent asks why a hook has not ended yet
	}
	for name, hook := range r.hooks {
		if _, mapping, err := r.resource(hook); err == nil && !r.current[name] &&
			mapping.Resource.Resource == request.Resource && request.Name == hook.GetName() {
			return true
		}
	}
	return false
}

// requests are those about what the case has, but for watches.
func (r *run) requests(mark int) []fleet.Request {
	outside := map[fleet.Request]bool{}
	for _, objects := range []map[string]*unstructured.Unstructured{r.known, r.hooks} {
		for _, obj := range objects {
			if _, mapping, err := r.resource(obj); err == nil {
				outside[fleet.Request{
					Group: mapping.Resource.Group, Resource: mapping.Resource.Resource,
					Namespace: obj.GetNamespace(), Name: obj.GetName(),
				}] = true
			}
		}
	}
	return r.world.Proxy.Since(mark, func(one fleet.Request) bool {
		of := fleet.Request{Group: one.Group, Resource: one.Resource, Namespace: one.Namespace, Name: one.Name}
		return one.Verb != "watch" && (one.In(r.c.Name) || outside[of])
	})
}

// secondPass has all rendered and compared once more: there is nothing to send. Every few minutes the agent compares
// one of all its objects by a dry run; a pass in which that came between is followed by another one.
func (r *run) secondPass(ctx context.Context, version string) {
	r.Helper()
	want := slices.DeleteFunc(slices.Clone(r.c.Versions[version].Requests),
		func(one string) bool { return strings.HasPrefix(one, "?") })
	sent := r.pass(ctx, version)
	more := slices.DeleteFunc(slices.Clone(sent), func(one string) bool { return slices.Contains(want, one) })
	if len(more) == 1 && strings.HasPrefix(more[0], "dryrun ") {
		sent = r.pass(ctx, version)
	}
	if !slices.Equal(sent, want) {
		r.Errorf("%s: second pass: requests %v, want %v", version, sent, want)
	}
	for _, one := range r.c.Versions[version].Random {
		name, pointer, _ := strings.Cut(one, " ")
		live, err := r.live(ctx, r.object(name))
		if err != nil {
			r.Errorf("%s: second pass: %s: %v", version, name, err)
			continue
		}
		if now, err := get(live, pointer); err != nil || !reflect.DeepEqual(now, r.random[one]) {
			r.Errorf("%s: second pass: %s: was %s, is %s %v", version, one, short(r.random[one]), short(now), err)
		}
	}
}

// pass has all rendered and compared once, and returns what was asked of the API server for that, but for requests that
// may be or not.
func (r *run) pass(ctx context.Context, version string) []string {
	r.Helper()
	mark := r.world.Proxy.Mark()
	if err := r.within(ctx, func(ctx context.Context) error { return r.world.Sync(ctx, r.c.Name) }); err != nil {
		r.Fatalf("%s: second pass: %v", version, err)
	}
	r.settled(ctx, version, r.head(ctx, version))
	var sent []string
	for _, request := range r.requests(mark) {
		if r.ofHook(request) {
			continue // a sync that was asked for runs hooks again
		}
		sent = append(sent, strings.TrimSuffix(request.Verb+" "+request.Resource+"/"+request.Name, "/"))
	}
	slices.Sort(sent)
	sent = slices.Compact(sent)
	sent = slices.DeleteFunc(sent, func(one string) bool { return slices.Contains(r.c.Versions[version].Requests, "?"+one) })
	return sent
}

// removal deletes the service: nothing stays but what says keep.
func (r *run) removal(ctx context.Context) {
	r.Helper()
	mark := r.world.Proxy.Mark()
	if err := r.within(ctx, func(ctx context.Context) error { return r.world.Remove(ctx, r.c.Name) }); err != nil {
		r.Fatal(err)
	}
	ran := r.ran(mark)
	if !slices.Equal(ran, r.c.Removal) {
		r.Errorf("removal: hooks that ran: %v, want %v", ran, r.c.Removal)
	}
	r.checkHooks("removal", mark, r.c.Versions[r.c.versions[len(r.c.versions)-1]], ran)
	for _, objects := range []map[string]*unstructured.Unstructured{r.known, r.hooks} {
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			if !slices.Contains(r.c.Kept, name) {
				r.gone(ctx, "removal", name)
				continue
			}
			live, err := r.live(ctx, objects[name])
			if err != nil {
				r.Errorf("removal: %s is to stay: %v", name, err)
			} else if label, ok := live.GetLabels()["fairlead.dev/service"]; ok {
				r.Errorf("removal: %s stays with the mark of service %s", name, label)
			}
		}
	}
	r.await(ctx, "the namespace is empty", func(ctx context.Context) error {
		left, err := r.inNamespace(ctx)
		if left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(r.c.Kept, name) }); len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("there are %v", left))
		}
		return err
	})
}

// inNamespace lists what is in the case's namespace, but for what each namespace has.
func (r *run) inNamespace(ctx context.Context) ([]string, error) {
	lists, err := r.discovery.ServerPreferredNamespacedResources()
	if err != nil && len(lists) == 0 {
		return nil, err
	}
	var found []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") || kind.Kind == "Event" {
				continue
			}
			objects, err := r.dynamic.Resource(group.WithResource(kind.Name)).Namespace(r.c.Name).List(ctx,
				metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // another case has just removed the kind
			}
			if err != nil {
				return nil, err
			}
			for _, obj := range objects.Items {
				ofKept := slices.ContainsFunc(obj.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
					return slices.Contains(r.c.Kept, owner.Kind+"/"+owner.Name)
				})
				if name := id(&obj); !ofKept && name != "ConfigMap/kube-root-ca.crt" &&
					name != "ServiceAccount/default" {
					found = append(found, name)
				}
			}
		}
	}
	return found, nil
}
