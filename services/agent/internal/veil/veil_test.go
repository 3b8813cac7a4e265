package veil

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

const hidden = "hunter2-hidden"

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// covered is a veil with the placeholder of a value.
func covered(t *testing.T) (v *Veil, placeholder string) {
	t.Helper()
	v = New()
	c, err := v.CoverConfiguration(&deliveryv1.Configuration{Entries: []*deliveryv1.ConfigurationEntry{
		{Name: "password", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: hidden}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v, c.GetEntries()[0].GetText()
}

func TestSecretsOfAConfigurationAreCovered(t *testing.T) {
	t.Parallel()
	given := &deliveryv1.Configuration{Entries: []*deliveryv1.ConfigurationEntry{
		{Name: "plain", Value: &deliveryv1.ConfigurationEntry_Text{Text: "shown"}},
		{Name: "text", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: hidden}},
		{Name: "again", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: hidden}},
		{Name: "number", Secret: true, Value: &deliveryv1.ConfigurationEntry_Number{Number: 7}},
		{Name: "flag", Secret: true, Value: &deliveryv1.ConfigurationEntry_Flag{Flag: true}},
		{Name: "tree", Secret: true, Value: &deliveryv1.ConfigurationEntry_Json{Json: `{"list":["` + hidden + `",7,true],"none":""}`}},
	}}
	c, err := New().CoverConfiguration(given)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(c.String(), hidden) || !strings.Contains(given.String(), hidden) {
		t.Errorf("the covered configuration is %v, and the given one %v", c, given)
	}
	e := c.GetEntries()
	if e[0].GetText() != "shown" || e[3].GetNumber() != 0 || e[4].GetFlag() {
		t.Errorf("entries are %v", e)
	}
	if e[1].GetText() == e[2].GetText() {
		t.Error("equal values have equal placeholders, which tells that they are equal")
	}
	if tree := e[5].GetJson(); !strings.Contains(tree, `,0,false]`) || !strings.Contains(tree, `"none":""`) {
		t.Errorf("the tree is %s", tree)
	}
	_, err = New().CoverConfiguration(&deliveryv1.Configuration{Entries: []*deliveryv1.ConfigurationEntry{
		{Name: "tree", Secret: true, Value: &deliveryv1.ConfigurationEntry_Json{Json: "{" + hidden}},
	}})
	if err == nil || strings.Contains(err.Error(), hidden) {
		t.Errorf("a value that is no JSON: %v", err)
	}
}

func TestValuesOfAChartAreCovered(t *testing.T) {
	t.Parallel()
	v := New()
	one, err := v.CoverGiven(&deliveryv1.ValuesReference{TargetPath: "db.password"}, hidden)
	if err != nil || one == "" || strings.Contains(one, hidden) {
		t.Errorf("one value is %q: %v", one, err)
	}
	file, err := v.CoverGiven(&deliveryv1.ValuesReference{}, "db: {password: "+hidden+", port: 5432}\n")
	if err != nil || strings.Contains(file, hidden) || strings.Contains(file, "5432") || !strings.Contains(file, "password: veiled") {
		t.Errorf("a file of values is %q: %v", file, err)
	}
	if _, err := v.CoverGiven(&deliveryv1.ValuesReference{}, "a: "+hidden+": b"); err == nil || strings.Contains(err.Error(), hidden) {
		t.Errorf("a file that is no YAML: %v", err)
	}
}

// A template that looks up a Secret twice sees the same text twice, and never the value.
func TestASecretOfTheClusterIsCovered(t *testing.T) {
	t.Parallel()
	v := New()
	look := func(kind string) (string, map[string]any) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind, "data": map[string]any{"password": encoded(hidden)},
			"metadata": map[string]any{"name": "db", "annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": hidden,
			}},
		}}
		v.CoverObject(o)
		text, _, _ := unstructured.NestedString(o.Object, "data", "password")
		return text, o.Object
	}
	first, object := look("Secret")
	second, _ := look("Secret")
	plain, err := base64.StdEncoding.DecodeString(first)
	if err != nil || first != second || strings.Contains(string(plain), hidden) {
		t.Errorf("looked up twice, a Secret has %q and %q: %v", first, second, err)
	}
	if annotations, _, _ := unstructured.NestedMap(object, "metadata", "annotations"); len(annotations) > 0 {
		t.Errorf("its annotations are %v", annotations)
	}
	if text, _ := look("ConfigMap"); text != encoded(hidden) {
		t.Errorf("a ConfigMap has %q", text)
	}
}

// A value takes the place of a whole placeholder alone, and never in what the API server quotes.
func TestValuesTakeThePlaceOfWholePlaceholders(t *testing.T) {
	t.Parallel()
	v, placeholder := covered(t)
	cut := placeholder[:len(placeholder)-1]
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "db", "labels": map[string]any{"password": placeholder}},
		"data": map[string]any{
			"url": "postgres://web:" + placeholder + "@db", "cut": cut, "encoded": encoded(placeholder), "other": "1",
		},
	}}
	if !v.RevealValues(o) {
		t.Fatal("no value was put into the object")
	}
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	if data["url"] != "postgres://web:"+hidden+"@db" || data["encoded"] != encoded(hidden) || data["cut"] != cut {
		t.Errorf("data is %v", data)
	}
	if o.GetLabels()["password"] != placeholder {
		t.Errorf("labels are %v", o.GetLabels())
	}

	shown := &deliveryv1.Diff{Fingerprint: "sum", Objects: []*deliveryv1.ObjectDiff{{
		Kind: "ConfigMap", Name: "db", Message: "invalid: " + hidden,
		Fields: []*deliveryv1.FieldDiff{
			{Pointer: "/data/url", Live: `"old"`, Wanted: `"postgres://web:` + hidden + `@db"`},
			{Pointer: "/data/other", Live: `"0"`, Wanted: `"1"`},
		},
	}, {Kind: "ConfigMap", Name: "settings", Message: "kept", Fields: []*deliveryv1.FieldDiff{{Pointer: "/data/a", Wanted: `"b"`}}}}}
	v.ConcealDiff(shown)
	if text := shown.String(); strings.Contains(text, hidden) || strings.Contains(text, `"old"`) || shown.GetFingerprint() != "" {
		t.Errorf("the comparison shows %s", text)
	}
	fields := shown.GetObjects()[0].GetFields()
	if fields[1].GetWanted() != `"1"` || shown.GetObjects()[1].GetMessage() != "kept" {
		t.Errorf("what no value was put into is left out: %v", shown)
	}
	if text := v.DescribeFailure("refused: " + hidden); strings.Contains(text, hidden) || !strings.Contains(text, "Ask again") {
		t.Errorf("a failure says %q", text)
	}
}

// A person who wrote a guess beside a value, into an object of the same name in another namespace, is told nothing of
// whether it is right.
func TestAGuessInAnotherNamespaceIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for name, guessIsLast := range map[string]bool{"the guess comes last": true, "the guess comes first": false} {
		v, placeholder := covered(t)
		configMap := func(namespace, password, other string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": "db"},
				"data": map[string]any{"password": password, "other": other, "size": "1"},
			}}
		}
		objects := []*unstructured.Unstructured{configMap("a", placeholder, "x"), configMap("b", hidden, placeholder)}
		if !guessIsLast {
			objects[0], objects[1] = objects[1], objects[0]
		}
		for _, o := range objects {
			v.RevealValues(o)
		}
		shown := &deliveryv1.Diff{Objects: []*deliveryv1.ObjectDiff{{
			Kind: "ConfigMap", Namespace: "a", Name: "db", Fields: []*deliveryv1.FieldDiff{
				{Pointer: "/data/password", Wanted: `"` + hidden + `"`}, {Pointer: "/data/size", Wanted: `"1"`},
			},
		}}}
		v.ConcealDiff(shown)
		if fields := shown.GetObjects()[0].GetFields(); fields[0].GetWanted() != "" || fields[1].GetWanted() != `"1"` {
			t.Errorf("%s: the comparison shows %v", name, fields)
		}
	}
}

func TestAnObjectWithoutAPlaceholderStaysAsItIs(t *testing.T) {
	t.Parallel()
	v, placeholder := covered(t)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": hidden}}}
	if New().RevealValues(o.DeepCopy()) || v.RevealValues(o) {
		t.Error("a value was put into an object without a placeholder")
	}
	if text := v.MaskText("failed at " + placeholder + " and " + encoded(placeholder) + " of " + hidden); text != "failed at *** and *** of "+hidden {
		t.Errorf("a text without placeholders is %q", text)
	}
	if text := v.DescribeFailure("no such namespace"); text != "no such namespace" {
		t.Errorf("a failure says %q", text)
	}
}
