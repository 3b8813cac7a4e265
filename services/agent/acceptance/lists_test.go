package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

// sharedNames are objects with elements that share a name, as charts have them.
const sharedNames = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: pause
        ports: [{name: dns, containerPort: 53}, {name: dns-udp, containerPort: 53, protocol: UDP}]
        volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b, subPath: b}]
      volumes: [{name: v, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: dns}
spec: {selector: {app: web}, ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: both}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
- {kind: ServiceAccount, name: default, namespace: one}
- {kind: ServiceAccount, name: default, namespace: two}
`

// routes are custom resources with a list that is one value, as the Gateway API's parentRefs are, one with merge keys,
// of which one has a default, and a set.
const routes = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Route, plural: routes}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              parentRefs:
                type: array
                x-kubernetes-list-type: atomic
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    namespace: {type: string}
                    sectionName: {type: string}
                    kind: {type: string, default: Gateway}
              listeners:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port, transport]
                items:
                  type: object
                  required: [port]
                  properties:
                    name: {type: string}
                    port: {type: integer}
                    transport: {type: string, default: quic}
                    hosts: {type: array, items: {type: string}, x-kubernetes-list-type: set}
---
apiVersion: GROUP/v1
kind: Route
metadata: {name: web}
spec:
  parentRefs: [{name: gw, namespace: a, sectionName: http}, {name: gw, namespace: a, sectionName: https}, {name: gw, namespace: b}]
  listeners:
  - {name: same, port: 443, transport: tls, hosts: [b.example.com, a.example.com]}
  - {name: same, port: 443, hosts: [c.example.com]}
  - {name: same, port: 80, transport: tcp}
`

func TestListElementsThatShareANameBlameNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	files := map[string]string{
		"a.yaml": sharedNames,
		"b.yaml": strings.ReplaceAll(routes, "GROUP", w.namespace+".example.com"),
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	w.forget()
	files["README.md"] = "# Another revision of the same objects"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	for _, line := range w.api.since(0) {
		if ok, _ := path.Match("PUT /api/v1/namespaces/fairlead-system/configmaps/inventory.*", line); !ok {
			t.Errorf("the second pass sent %s", line)
		}
	}
}

// A field that is left to others in an element of a list is that element's, not that of another with the same name.
func TestAnIgnoredFieldOfAnElementIsThatOfItsMergeKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	files := map[string]string{"b.yaml": strings.ReplaceAll(routes, "GROUP", w.namespace+".example.com")}
	w.hub.push(t, name, w.namespace, files)
	rules := []*deliveryv1.IgnoreRule{
		{Kind: "Route", Pointers: []string{"/spec/listeners/*/name", "/spec/parentRefs/1/sectionName"}},
	}
	w.hub.awaitPhase(t, name, w.hub.sync(name, &deliveryv1.SyncSpec{Ignore: rules}), healthy)
	resource := "routes." + w.namespace + ".example.com"
	w.kubectl("patch", resource, "web", "--type=json", "--field-manager=somebody",
		`-p=[{"op":"replace","path":"/spec/listeners/1/name","value":"theirs"},{"op":"replace","path":"/spec/parentRefs/1/sectionName","value":"mine"}]`)
	files["b.yaml"] = strings.ReplaceAll(files["b.yaml"], "[c.example.com]", "[d.example.com]")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	obj, err := w.get(w.namespace+".example.com/v1", "Route", w.namespace, "web")
	if err != nil {
		t.Fatal(err)
	}
	listeners, _, _ := unstructured.NestedSlice(obj.Object, "spec", "listeners")
	parents, _, _ := unstructured.NestedSlice(obj.Object, "spec", "parentRefs")
	got, _ := json.Marshal([]any{listeners, parents})
	want := `[[{"hosts":["b.example.com","a.example.com"],"name":"same","port":443,"transport":"tls"},{"hosts":["d.example.com"],"name":"theirs","port":443,"transport":"quic"},{"name":"same","port":80,"transport":"tcp"}],` +
		`[{"kind":"Gateway","name":"gw","namespace":"a","sectionName":"http"},{"kind":"Gateway","name":"gw","namespace":"a","sectionName":"mine"},{"kind":"Gateway","name":"gw","namespace":"b"}]]`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// place is a list with merge keys somewhere in a kind.
type place struct {
	gvk   schema.GroupVersionKind
	steps []step
	list  *openapi.Schema
}

// step goes down to a field, or, without one, to an element of a list, or a value of a map.
type step struct {
	field string
	list  *openapi.Schema
}

func (p place) String() string {
	text := p.gvk.String()
	for _, step := range p.steps {
		text += "." + cmp.Or(step.field, "*")
	}
	return text
}

// TestEveryListWithMergeKeysIsMatchedByThem makes an object for every list of the built-in API that has merge keys. Its
// elements share all that is no key; the API server's own code says what is in the managed fields. An answer with the
// elements in another order, defaults filled in and an element of somebody else differs in nothing; one in which an
// element was changed differs in exactly that.
func TestEveryListWithMergeKeysIsMatchedByThem(t *testing.T) {
	t.Parallel()
	raw := func(path string) []byte {
		out, err := kube.Cluster(t).Kubectl(t.Context(), "", "get", "--raw", path)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(out)
	}
	var index struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(raw("/openapi/v3"), &index); err != nil {
		t.Fatal(err)
	}
	lists, defaults := 0, map[string]bool{}
	for group := range index.Paths {
		if strings.Contains(group, "example.com") { // of other tests
			continue
		}
		if !strings.HasPrefix(group, "api/") && !strings.HasPrefix(group, "apis/") {
			continue
		}
		var doc spec3.OpenAPI
		if err := json.Unmarshal(raw("/openapi/v3/"+group), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Components == nil {
			continue
		}
		converter, err := managedfields.NewTypeConverter(doc.Components.Schemas, false)
		if err != nil {
			t.Fatal(err)
		}
		walk := walker{schemas: doc.Components.Schemas}
		for _, one := range walk.places() {
			for _, sent := range walk.samples(one) {
				lists++
				for name, value := range sent.defaults {
					if value != "" && value != 0.0 { // defaults with Go's zero values are no valid keys
						defaults[fmt.Sprint(name, "=", value)] = true
					}
				}
				checkPlace(t, converter, walk, one, sent)
			}
		}
	}
	t.Logf("%d objects", lists)
	if lists < 100 {
		t.Errorf("only %d lists with merge keys were found", lists)
	}
	if len(defaults) != 1 || !defaults["protocol=TCP"] {
		t.Errorf("merge keys have these defaults: %v; see keyDefaults in package object", defaults)
	}
}

type walker struct{ schemas map[string]*openapi.Schema }

func (w walker) resolve(s *openapi.Schema) (*openapi.Schema, string) {
	for name := ""; ; {
		ref := s.Ref.String()
		if ref == "" && len(s.AllOf) == 1 {
			ref = s.AllOf[0].Ref.String()
		}
		if ref == "" {
			return s, name
		}
		name = strings.TrimPrefix(ref, "#/components/schemas/")
		s = w.schemas[name]
	}
}

func (w walker) places() []place {
	var places []place
	for _, s := range w.schemas {
		var kinds []schema.GroupVersionKind
		if s.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds) != nil || len(kinds) != 1 ||
			strings.HasSuffix(kinds[0].Kind, "List") {
			continue
		}
		if _, ok := s.Properties["metadata"]; ok {
			w.walk(place{gvk: kinds[0], list: s}, nil, &places)
		}
	}
	return places
}

func (w walker) walk(at place, within []string, places *[]place) {
	s, name := w.resolve(at.list)
	if name != "" {
		if slices.Contains(within, name) {
			return
		}
		within = append(slices.Clone(within), name)
	}
	down := func(to *openapi.Schema, by step) {
		w.walk(place{gvk: at.gvk, steps: append(slices.Clone(at.steps), by), list: to}, within, places)
	}
	for field, property := range s.Properties {
		if len(at.steps) > 0 || field != "metadata" && field != "status" {
			down(&property, step{field: field})
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		down(s.AdditionalProperties.Schema, step{})
	}
	if s.Items == nil || s.Items.Schema == nil {
		return
	}
	if len(keysOf(s)) > 0 {
		*places = append(*places, place{gvk: at.gvk, steps: at.steps, list: s})
	}
	if kind, _ := s.Extensions.GetString("x-kubernetes-list-type"); kind == "map" { // other lists are one value
		down(s.Items.Schema, step{list: s})
	}
}

func keysOf(list *openapi.Schema) []string {
	keys, _ := list.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	return keys
}

// value makes up a value of a scalar; nil for anything else.
func value(s *openapi.Schema, n int) any {
	switch {
	case len(s.Type) != 1:
	case s.Type[0] == "string" && s.Format == "":
		return fmt.Sprint("v", n)
	case s.Type[0] == "integer":
		return int64(n + 1)
	}
	return nil
}

// element makes an element of a list. A field that is no key is the same in all elements.
func (w walker) element(list *openapi.Schema, keys []int) map[string]any {
	element := map[string]any{}
	item, _ := w.resolve(list.Items.Schema)
	for name, property := range item.Properties {
		property, _ := w.resolve(&property)
		n := 0
		if at := slices.Index(keysOf(list), name); at >= 0 {
			n = keys[at]
		}
		if v := value(property, n); v != nil {
			element[name] = v
		}
	}
	return element
}

// sample is what is sent, and what comes back.
type sample struct {
	sent, answer []any
	// defaults of keys that an element leaves out.
	defaults map[string]any
}

// samples makes a list in which each two elements differ in one key only, and one for each key with a default that
// leaves it out.
func (w walker) samples(at place) []sample {
	keys := keysOf(at.list)
	none := make([]int, len(keys))
	all := []any{w.element(at.list, none)}
	for i := range keys {
		other := slices.Clone(none)
		other[i] = 1
		all = append(all, w.element(at.list, other))
	}
	samples := []sample{{sent: all, answer: all}}
	item, _ := w.resolve(at.list.Items.Schema)
	for i, key := range keys {
		property := item.Properties[key]
		if property.Default == nil {
			continue
		}
		without, with := w.element(at.list, none), w.element(at.list, none)
		delete(without, key)
		with[key] = property.Default
		other := all[i+1]
		samples = append(samples, sample{
			sent: []any{other, without}, answer: []any{other, with}, defaults: map[string]any{key: property.Default},
		})
	}
	return samples
}

// object puts elements into their place. The lists on the way there have one element.
func (w walker) object(at place, elements []any) *unstructured.Unstructured {
	inner := any(copied(elements))
	for i, step := range slices.Backward(at.steps) {
		switch {
		case step.list != nil:
			outer := w.element(step.list, make([]int, len(keysOf(step.list))))
			outer[at.steps[i+1].field] = inner.(map[string]any)[at.steps[i+1].field]
			inner = []any{outer}
		default:
			inner = map[string]any{cmp.Or(step.field, "key"): inner}
		}
	}
	obj := &unstructured.Unstructured{Object: inner.(map[string]any)}
	obj.SetGroupVersionKind(at.gvk)
	obj.SetName("a")
	return obj
}

func copied(elements []any) []any {
	return (&unstructured.Unstructured{Object: map[string]any{"x": elements}}).DeepCopy().Object["x"].([]any)
}

// elements finds the list in an object again.
func elements(at place, obj *unstructured.Unstructured) (list []any, pointer string) {
	inner := any(obj.Object)
	for _, step := range at.steps {
		switch {
		case step.list != nil:
			inner, pointer = inner.([]any)[0], pointer+"/0"
		default:
			name := cmp.Or(step.field, "key")
			inner, pointer = inner.(map[string]any)[name], pointer+"/"+name
		}
	}
	return inner.([]any), pointer
}

func checkPlace(t *testing.T, converter managedfields.TypeConverter, walk walker, at place, one sample) {
	t.Helper()
	sent := walk.object(at, one.sent)
	typed, err := converter.ObjectToTyped(sent)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	fields, err := typed.ToFieldSet()
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	text, err := fields.ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	manager := metav1.ManagedFieldsEntry{
		Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(text)),
	}
	foreign := walk.element(at.list, slices.Repeat([]int{7}, len(keysOf(at.list))))
	back := copied(one.answer)
	slices.Reverse(back)
	answer := walk.object(at, append([]any{foreign}, back...))
	answer.SetManagedFields([]metav1.ManagedFieldsEntry{manager})
	if got := object.Altered(sent.Object, answer.Object); len(got) > 0 {
		t.Errorf("%s: the same list differs in %v: sent %v, got %v", at, got, one.sent, back)
	}
	for i := range one.answer {
		payload := ""
		for name, v := range one.sent[i].(map[string]any) {
			if _, isText := v.(string); isText && !slices.Contains(keysOf(at.list), name) {
				payload = max(payload, name)
			}
		}
		if payload == "" {
			continue
		}
		changed := answer.DeepCopy()
		list, pointer := elements(at, changed)
		list[len(list)-1-i].(map[string]any)[payload] = "changed"
		if got, want := object.Altered(sent.Object,
			changed.Object), fmt.Sprintf("%s/%d/%s", pointer, i, payload); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: element %d was changed: got %v, want %s", at, i, got, want)
		}
	}
}
