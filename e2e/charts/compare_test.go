package charts_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	// judge is the field manager of the applies that the agent's are compared with. Its applies are dry runs.
	judge = "judge"
	ours  = "fairlead"
)

// id names an object in a case, as people do.
func id(obj *unstructured.Unstructured) string { return obj.GetKind() + "/" + obj.GetName() }

// resource is where an object is in the API.
func (h *harness) resource(obj *unstructured.Unstructured) (dynamic.ResourceInterface, *meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := h.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		h.mapper.Reset() // the kind has come since
		mapping, err = h.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return h.dynamic.Resource(mapping.Resource), mapping, nil
	}
	return h.dynamic.Resource(mapping.Resource).Namespace(obj.GetNamespace()), mapping, nil
}

// place gives an object of a reference its namespace, as kubectl and Helm do when they send it.
func (h *harness) place(obj *unstructured.Unstructured, namespace string) error {
	_, mapping, err := h.resource(obj)
	if err != nil {
		return err
	}
	switch {
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(namespace)
	}
	return nil
}

// compare applies an object of the reference as another manager, as a dry run. The object in the cluster has to be the
// same after that as before, and the fields that would be that manager's have to be those that are the agent's.
func (h *harness) compare(ctx context.Context, want, live *unstructured.Unstructured) ([]string, error) {
	client, _, err := h.resource(want)
	if err != nil {
		return nil, err
	}
	applied, err := client.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{
		FieldManager: judge, Force: true, DryRun: []string{metav1.DryRunAll},
	})
	if err != nil {
		return nil, err
	}
	problems := differences("", content(applied), content(live))
	theirs, err := fields(applied, judge)
	if err != nil {
		return nil, err
	}
	sent, err := fields(live, ours)
	if err != nil {
		return nil, err
	}
	if missing := theirs.Difference(sent); !missing.Empty() {
		problems = append(problems, "fields that were not sent: "+oneLine(missing))
	}
	own := fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "labels", "fairlead.dev/service"),
		fieldpath.MakePathOrDie("metadata", "annotations", "fairlead.dev/hook-run"))
	if extra := sent.Difference(theirs).Difference(own); !extra.Empty() {
		problems = append(problems, "fields that were sent without being asked for: "+oneLine(extra))
	}
	return problems, nil
}

func oneLine(set *fieldpath.Set) string {
	return strings.Join(strings.Fields(set.Leaves().String()), " ")
}

// content is an object without what the server writes.
func content(obj *unstructured.Unstructured) map[string]any {
	all := maps.Clone(obj.Object)
	delete(all, "status")
	metadata := maps.Clone(all["metadata"].(map[string]any))
	for _, name := range []string{"managedFields", "resourceVersion", "generation"} {
		delete(metadata, name)
	}
	all["metadata"] = metadata
	return all
}

// fields are those that a manager applied.
func fields(obj *unstructured.Unstructured, manager string) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == "" {
			return set, set.FromJSON(entry.FieldsV1.GetRawReader())
		}
	}
	return set, nil // the object has no field of its own
}

// differences says where two values differ.
func differences(at string, want, got any) []string {
	wantMap, isMap := want.(map[string]any)
	gotMap, alsoMap := got.(map[string]any)
	if isMap && alsoMap {
		var all []string
		keys := slices.AppendSeq(slices.Collect(maps.Keys(wantMap)), maps.Keys(gotMap))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			all = append(all, differences(at+"/"+key, wantMap[key], gotMap[key])...)
		}
		return all
	}
	wantList, isList := want.([]any)
	gotList, alsoList := got.([]any)
	if isList && alsoList && len(wantList) == len(gotList) {
		var all []string
		for i := range wantList {
			all = append(all, differences(at+"/"+strconv.Itoa(i), wantList[i], gotList[i])...)
		}
		return all
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", at, short(want), short(got))}
}

func short(value any) string {
	text, _ := json.Marshal(value) // the value was read from JSON
	const most = 300
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

// subset says what of a part an object lacks. Lists have to be equal.
func subset(at string, part, got any) []string {
	partMap, isMap := part.(map[string]any)
	gotMap, alsoMap := got.(map[string]any)
	if !isMap || !alsoMap {
		// Numbers of YAML and of the API have other types.
		if short(part) == short(got) {
			return nil
		}
		return []string{fmt.Sprintf("%s: want %s, got %s", at, short(part), short(got))}
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(partMap)) {
		all = append(all, subset(at+"/"+key, partMap[key], gotMap[key])...)
	}
	return all
}

// dataOf sends the stringData of a Secret as data, as the API server would.
func dataOf(obj *unstructured.Unstructured) error {
	texts, found, err := unstructured.NestedStringMap(obj.Object, "stringData")
	if err != nil || !found || obj.GetKind() != "Secret" {
		return err
	}
	unstructured.RemoveNestedField(obj.Object, "stringData")
	for key, text := range texts {
		if err := unstructured.SetNestedField(obj.Object, base64.StdEncoding.EncodeToString([]byte(text)), "data",
			key); err != nil {
			return err
		}
	}
	return nil
}

var errNoField = errors.New("there is no such field")

// pointed finds what holds a JSON pointer's last step.
func pointed(obj map[string]any, pointer string) (holder any, last string, err error) {
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	holder = obj
	for i, step := range steps {
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	for _, step := range steps[:len(steps)-1] {
		if holder, err = child(holder, step); err != nil {
			return nil, "", err
		}
	}
	return holder, steps[len(steps)-1], nil
}

func child(holder any, step string) (any, error) {
	switch holder := holder.(type) {
	case map[string]any:
		if value, ok := holder[step]; ok {
			return value, nil
		}
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(holder) {
			return holder[i], nil
		}
	}
	return nil, errNoField
}

func get(obj *unstructured.Unstructured, pointer string) (any, error) {
	holder, last, err := pointed(obj.Object, pointer)
	if err != nil {
		return nil, err
	}
	return child(holder, last)
}

func set(obj *unstructured.Unstructured, pointer string, value any) error {
	holder, last, err := pointed(obj.Object, pointer)
	if err != nil {
		return err
	}
	switch holder := holder.(type) {
	case map[string]any:
		holder[last] = value
	case []any:
		i, err := strconv.Atoi(last)
		if err != nil || i >= len(holder) {
			return errNoField
		}
		holder[i] = value
	}
	return nil
}

func remove(obj *unstructured.Unstructured, pointer string) error {
	if _, err := get(obj, pointer); err != nil {
		return err
	}
	holder, last, err := pointed(obj.Object, pointer)
	if fields, ok := holder.(map[string]any); ok {
		delete(fields, last)
	}
	return err
}
