package diff_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/kubetest"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/diff"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

var kube kubetest.Shared

func TestMain(m *testing.M) { os.Exit(kube.Run(m)) }

// objects are those of a service, without a disk.
type objects []*unstructured.Unstructured

func parse(t testing.TB, documents string) objects {
	t.Helper()
	var out objects
	for text := range strings.SplitSeq(documents, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, obj)
	}
	return out
}

func (o objects) Items() ([]set.Item, error) {
	var items []set.Item
	for _, obj := range o {
		items = append(items, set.Item{Ref: object.RefOf(obj)})
	}
	return items, nil
}

func (o objects) Object(item set.Item) (*unstructured.Unstructured, kubeyaml.Position, error) {
	for _, obj := range o {
		if object.RefOf(obj) == item.Ref {
			return obj.DeepCopy(), kubeyaml.Position{}, nil
		}
	}
	return nil, kubeyaml.Position{}, errors.New("not in the set")
}

type world struct {
	t         *testing.T
	cluster   *cluster.Cluster
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, err := cluster.Load(kube.Cluster(t).Kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{t: t, cluster: c, namespace: "diff-" + strings.ToLower(rand.Text()[:8])}
	if err := c.EnsureNamespace(t.Context(), w.namespace); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) deps() diff.Deps {
	return diff.Deps{API: w.cluster, Recreates: apply.Recreates, Explain: func(ref object.Ref, err error) string {
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && ref.Kind != "Secret" {
			return status.Status().Message
		}
		return "refused"
	}}
}

func (w *world) parse(documents string) objects {
	return parse(w.t, strings.ReplaceAll(documents, "NS", w.namespace))
}

func (w *world) apply(documents string) {
	w.t.Helper()
	for _, obj := range w.parse(documents) {
		if _, err := w.cluster.Apply(w.t.Context(), obj, false); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) kubectl(args ...string) {
	w.t.Helper()
	if out, err := kube.Cluster(w.t).Kubectl(w.t.Context(), "", append(args, "-n", w.namespace)...); err != nil {
		w.t.Fatal(out, err)
	}
}

// shown is a diff in lines.
func shown(d *deliveryv1.Diff) string {
	var b strings.Builder
	for _, o := range d.GetObjects() {
		fmt.Fprintf(&b, "%s %s/%s %s\n", strings.TrimPrefix(o.GetChange().String(), "CHANGE_"), o.GetKind(),
			o.GetName(), o.GetMessage())
		for _, f := range o.GetFields() {
			fmt.Fprintf(&b, "  %s: %s -> %s (%s)\n", f.GetPointer(), f.GetLive(), f.GetWanted(), f.GetManager())
		}
	}
	fmt.Fprintf(&b, "created %d, changed %d, removed %d, unchanged %d\n", d.GetCreated(), d.GetChanged(),
		d.GetRemoved(), d.GetUnchanged())
	return b.String()
}

func TestDiffTellsWhatWouldChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const (
		same     = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same, namespace: NS}\ndata: {x: \"1\"}"
		settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: NS, labels: {tier: back}}\ndata: {x: \"%s\", gone: \"1\"}"
		web      = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: NS}\nspec: {replicas: %s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: one}]}}}"
	)
	leaves := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: NS, labels: {" + object.ServiceLabel +
		": %s}, annotations: {%s}}\n"
	w.apply(fmt.Sprintf(leaves, "left", "shop", "a: b") + "\n---\n" +
		fmt.Sprintf(leaves, "protected", "shop", "fairlead.dev/prune: never") + "\n---\n" +
		fmt.Sprintf(leaves, "others", "else", "a: b"))
	w.apply(same + "\n---\n" + fmt.Sprintf(settings, "1") + "\n---\n" + fmt.Sprintf(web, "1"))
	w.kubectl("patch", "deployment", "web", "--field-manager=someone", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"other"}]}}}}`)
	wanted := w.parse(same + "\n---\n" + strings.Replace(fmt.Sprintf(settings, "2"), `, gone: "1"`, "", 1) +
		"\n---\n" + fmt.Sprintf(web, "1") +
		"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: new, namespace: NS}" +
		"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: NS-new}" +
		"\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: NS-new}" +
		"\n---\napiVersion: NS.dev/v1\nkind: Raft\nmetadata: {name: raft, namespace: NS}" +
		"\n---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: rafts.NS.dev}\nspec: {group: NS.dev, scope: Namespaced, names: {kind: Raft, plural: rafts}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}" +
		"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad, namespace: NS, labels: {a b: c}}")
	record := inventory.Record{Service: "shop", Entries: []inventory.Entry{{Ref: object.RefOf(wanted[0])}}}
	for _, name := range []string{"gone", "left", "others", "protected"} {
		record.Entries = append(record.Entries, inventory.Entry{
			Ref: object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: w.namespace, Name: name}, Version: "v1"},
		})
	}
	got, err := diff.Of(t.Context(), w.deps(), wanted, record)
	if err != nil {
		t.Fatal(err)
	}
	want := `UPDATE ConfigMap/settings 
  /data/gone: "1" ->  (fairlead)
  /data/x: "1" -> "2" (fairlead)
UPDATE Deployment/web 
  /spec/template/spec/containers/0/image: "other" -> "one" (someone)
CREATE ConfigMap/new 
CREATE ConfigMap/inside 
CREATE Namespace/NS-new 
CREATE Raft/raft 
CREATE CustomResourceDefinition/rafts.NS.dev 
REFUSED ConfigMap/bad `
	text := strings.ReplaceAll(shown(got), w.namespace, "NS")
	if !strings.HasPrefix(text, want) ||
		!strings.HasSuffix(text, "REMOVE ConfigMap/left \ncreated 5, changed 3, removed 1, unchanged 1\n") {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	again, err := diff.Of(t.Context(), w.deps(), wanted, record)
	if err != nil || again.GetFingerprint() != got.GetFingerprint() || got.GetFingerprint() == "" {
		t.Errorf("fingerprints %q and %q: %v", got.GetFingerprint(), again.GetFingerprint(), err)
	}
	if live, err := w.cluster.Live(t.Context(), object.RefOf(wanted[3])); live != nil || err != nil {
		t.Errorf("the diff made an object: %v %v", live, err)
	}
}

func TestDiffLeavesOutWhatIsIgnoredOrNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: NS}\ndata: {x: \"%s\", z: \"%s\"}"
	w.apply(fmt.Sprintf(cm, "a", "1", "1") + "\n---\n" + fmt.Sprintf(cm, "b", "1", "1"))
	deps := w.deps()
	deps.Ignored = func(set.Item, *unstructured.Unstructured) []string { return []string{"/*/x"} }
	deps.Sent = func(item set.Item) bool { return item.Name == "b" }
	got, err := diff.Of(t.Context(), deps,
		w.parse(fmt.Sprintf(cm, "a", "2", "2")+"\n---\n"+fmt.Sprintf(cm, "b", "2", "2")), inventory.Record{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "UPDATE ConfigMap/a \n  /data/z: \"1\" -> \"2\" (fairlead)\ncreated 0, changed 1, removed 0, unchanged 1\n"; shown(got) != want {
		t.Errorf("got\n%s", shown(got))
	}
}

func TestDiffHasNoValuesOfSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const live, wanted = "hunter2hunter", "correcthorsebattery"
	w.kubectl("create", "secret", "generic", "password", "--from-literal=p="+live)
	w.kubectl("create", "secret", "generic", "labelled", "--from-literal=p="+live)
	secret := func(name, label string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: NS, labels: {team: " + label +
			"}}\nstringData: {p: " + wanted + "}"
	}
	seen := ""
	deps := w.deps()
	deps.API = spy{w.cluster, &seen}
	got, err := diff.Of(t.Context(), deps, w.parse(secret("password", "a")+"\n---\n"+secret("labelled", "a")+
		"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: broken, namespace: NS}\ndata: {p: "+wanted+"!}"),
		inventory.Record{})
	if err != nil {
		t.Fatal(err)
	}
	text := got.String() + seen
	for _, value := range []string{live, wanted, "aHVudGVyMmh1bnRlcg", "Y29ycmVjdGhvcnNl"} {
		if strings.Contains(text, value) {
			t.Errorf("%q is told: %s", value, text)
		}
	}
	want := `UPDATE Secret/password 
  /metadata/labels:  -> {"team":"a"} ()
  /data:  ->  ()
UPDATE Secret/labelled 
  /metadata/labels:  -> {"team":"a"} ()
  /data:  ->  ()
REFUSED Secret/broken refused
created 0, changed 3, removed 0, unchanged 0
`
	if shown(got) != want {
		t.Errorf("got\n%s", shown(got))
	}
}

// The API server's times are in seconds: one of a write that comes within the second of the last apply says nothing.
func TestASecretThatChangesWithinTheSecondOfItsLastApplyDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kubectl("create", "secret", "generic", "taken", "--from-literal=p=one")
	secret := func(name, data string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: NS}\ndata: " + data
	}
	const one, two = "b25l", "dHdv"
	names := []string{"same", "value", "more", "less"}
	for _, name := range names {
		w.apply(secret(name, "{p: "+one+", q: "+one+"}"))
	}
	w.apply(secret("taken", "{p: "+one+"}"))
	w.apply(secret("theirs", "{p: "+one+"}"))
	w.kubectl("patch", "secret", "theirs", "--field-manager=ada", "-p", `{"data":{"p":"`+two+`"}}`)
	deps := w.deps()
	deps.API = sameSecond{w.cluster}
	got, err := diff.Of(t.Context(), deps, w.parse(strings.Join([]string{
		secret("same", "{p: "+one+", q: "+one+"}"), secret("value", "{p: "+two+", q: "+one+"}"),
		secret("more", "{p: "+one+", q: "+one+", r: "+one+"}"),
		secret("less", "{p: "+one+"}"), secret("taken", "{p: "+one+"}"), secret("theirs", "{p: "+one+"}"),
	}, "\n---\n")), inventory.Record{})
	if err != nil {
		t.Fatal(err)
	}
	want := `UPDATE Secret/value 
  /data:  ->  ()
UPDATE Secret/more 
  /data:  ->  ()
UPDATE Secret/less 
  /data:  ->  ()
UPDATE Secret/theirs 
  /data:  ->  ()
created 0, changed 4, removed 0, unchanged 2
`
	if shown(got) != want {
		t.Errorf("got\n%s", shown(got))
	}
}

// sameSecond is an API server to which each apply comes within the second of the last write.
type sameSecond struct{ *cluster.Cluster }

func (s sameSecond) Live(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	return inOneSecond(s.Cluster.Live(ctx, ref))
}

func (s sameSecond) Rehearse(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return inOneSecond(s.Cluster.Rehearse(ctx, obj))
}

func inOneSecond(obj *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if obj == nil || err != nil {
		return obj, err
	}
	entries := obj.GetManagedFields()
	for i := range entries {
		entries[i].Time = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	}
	obj.SetManagedFields(entries)
	return obj, nil
}

// The manifest that kubectl kept of a Secret, exported and put into Git, is no reason to tell its values.
func TestDiffDoesNotTellWhatKubectlKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const wanted = "correcthorsebattery"
	w.kubectl("create", "secret", "generic", "exported", "--from-literal=p=x")
	got, err := diff.Of(t.Context(), w.deps(),
		w.parse("apiVersion: v1\nkind: Secret\nmetadata: {name: exported, namespace: NS, labels: {team: a},"+
			" annotations: {kubectl.kubernetes.io/last-applied-configuration: '{\"stringData\":{\"p\":\""+wanted+
			"\"}}'}}"), inventory.Record{})
	if err != nil {
		t.Fatal(err)
	}
	want := `UPDATE Secret/exported 
  /metadata/labels:  -> {"team":"a"} ()
  /data:  ->  ()
created 0, changed 1, removed 0, unchanged 0
`
	if shown(got) != want || strings.Contains(got.String(), wanted) {
		t.Errorf("got\n%s", shown(got))
	}
}

// spy notes what the API server lets the agent know.
type spy struct {
	*cluster.Cluster

	seen *string
}

func (s spy) Live(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	obj, err := s.Cluster.Live(ctx, ref)
	if obj != nil {
		*s.seen += fmt.Sprint(obj.Object)
	}
	return obj, err
}

func (s spy) Rehearse(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	next, err := s.Cluster.Rehearse(ctx, obj)
	if next != nil {
		*s.seen += fmt.Sprint(next.Object)
	}
	return next, err
}

func TestLongDiffIsCutAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("é", 2000)
	var wanted []string
	for i := range 3 {
		w.apply(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: NS}\ndata: {x: \"%s\"}",
			i, long))
		var data strings.Builder
		for j := range 150 {
			fmt.Fprintf(&data, "k%d: \"%d\", ", j, j)
		}
		wanted = append(wanted, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: NS}\ndata: {%s x: \"%s\"}", i, data.String(), long+"!"))
	}
	record := inventory.Record{}
	for i := range 600 {
		record.Entries = append(record.Entries, inventory.Entry{
			Ref: object.Ref{Key: object.Key{Kind: "ConfigMap", Name: fmt.Sprint(i)}, Version: "v1"},
		})
	}
	got, err := diff.Of(t.Context(), w.deps(), w.parse(strings.Join(wanted, "\n---\n")), record)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetObjects()) != 500 || got.GetRemoved() != 600 || got.GetChanged() != 3 ||
		len(got.GetObjects()[0].GetFields()) != 100 {
		t.Errorf("%d objects, %d fields, %d removed", len(got.GetObjects()), len(got.GetObjects()[0].GetFields()),
			got.GetRemoved())
	}
	for _, f := range got.GetObjects()[0].GetFields() {
		if len(f.GetLive()) > 1024 || len(f.GetWanted()) > 1024 || strings.ContainsRune(f.GetLive(), '\uFFFD') {
			t.Errorf("a value of %d bytes", len(f.GetLive()))
		}
	}
}
