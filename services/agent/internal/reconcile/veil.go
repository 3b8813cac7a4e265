package reconcile

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

// veil keeps secrets from a render of content that somebody chose for a look: a template can turn a value around, cut it or encode it in a way that no mask finds
// again. The render gets a placeholder for each value, and what it makes of a placeholder tells nothing of the value. Where a placeholder is whole in an
// object, the value takes its place after the render, so that the comparison is about the value.
type veil struct {
	mu sync.Mutex // guards the maps: a render asks for lookups while it gives objects
	// placeholders by value, and values by placeholder.
	placeholders, values map[string]string
	// revealed are the objects that values were put into, with the texts of all that stood in them before.
	revealed map[veiled]map[string]bool
}

// veiled names an object before it has its namespace.
type veiled struct{ group, kind, name string }

func newVeil() *veil {
	return &veil{placeholders: map[string]string{}, values: map[string]string{}, revealed: map[veiled]map[string]bool{}}
}

// cover returns the placeholder of a value. Nothing stays nothing: templates ask for that.
func (v *veil) cover(value string) string {
	if value == "" {
		return ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.placeholders[value]; ok {
		return known
	}
	placeholder := "veiled" + strings.ToLower(rand.Text())
	v.placeholders[value], v.values[placeholder] = placeholder, value
	return placeholder
}

// tree covers the texts of a value, and takes numbers out of it. What is true or false, and all names, stay.
func (v *veil) tree(value any) any {
	switch value := value.(type) {
	case string:
		return v.cover(value)
	case float64, int64, json.Number:
		return 0
	case []any:
		for i := range value {
			value[i] = v.tree(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = v.tree(value[key])
		}
	}
	return value
}

// configuration covers the secrets of a configuration.
func (v *veil) configuration(c *deliveryv1.Configuration) (*deliveryv1.Configuration, error) {
	c = proto.CloneOf(c)
	for _, e := range c.GetEntries() {
		if !e.GetSecret() {
			continue
		}
		switch value := e.GetValue().(type) {
		case *deliveryv1.ConfigurationEntry_Text:
			value.Text = v.cover(value.Text)
		case *deliveryv1.ConfigurationEntry_Number:
			value.Number = 0
		case *deliveryv1.ConfigurationEntry_Json:
			var tree any
			if json.Unmarshal([]byte(value.Json), &tree) != nil {
				return nil, fmt.Errorf("configuration %q is not JSON", e.GetName()) // the decoder would quote it
			}
			text, err := json.Marshal(v.tree(tree))
			if err != nil {
				return nil, fmt.Errorf("configuration %q is not JSON", e.GetName())
			}
			value.Json = string(text)
		}
	}
	return c, nil
}

// given covers values that a chart gets from a Secret: those of a values file, or one.
func (v *veil) given(from *deliveryv1.ValuesReference, text string) (string, error) {
	if from.GetTargetPath() != "" {
		return v.cover(text), nil
	}
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return "", fmt.Errorf("render.helm.valuesFrom: Secret %s, key %s: these are no values", from.GetName(), keyOf(from)) // the decoder may quote it
	}
	covered, err := yaml.Marshal(v.tree(tree))
	return string(covered), err
}

// object covers the values of an object that a template looked up.
func (v *veil) object(obj *unstructured.Unstructured) {
	if gvk := obj.GroupVersionKind(); !isSecret(gvk.Group, gvk.Kind) {
		return
	}
	annotations := obj.GetAnnotations()
	if delete(annotations, object.LastApplied); len(annotations) == 0 {
		annotations = nil
	}
	obj.SetAnnotations(annotations)
	data, _, _ := unstructured.NestedMap(obj.Object, "data")
	for key, text := range data {
		text, _ := text.(string)
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			value = []byte(text)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(v.cover(string(value))))
	}
	if data != nil {
		obj.Object["data"] = data
	}
}

// reveal puts values in the place of whole placeholders. Names, labels and annotations keep the placeholders: the API server quotes them in what it says, and
// they are in its log.
func (v *veil) reveal(obj *unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.values) == 0 {
		return
	}
	var pairs []string
	for placeholder, value := range v.values {
		pairs = append(pairs, placeholder, value,
			base64.StdEncoding.EncodeToString([]byte(placeholder)), base64.StdEncoding.EncodeToString([]byte(value)))
	}
	replace := strings.NewReplacer(pairs...).Replace
	texts := map[string]bool{}
	leavesOf(obj.Object, texts)
	gvk := obj.GroupVersionKind()
	isChanged := false
	for key, value := range obj.Object {
		if key == "metadata" || key == "apiVersion" || key == "kind" {
			continue
		}
		each := replace
		if key == "data" && isSecret(gvk.Group, gvk.Kind) {
			each = func(text string) string {
				plain, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					return text
				}
				return base64.StdEncoding.EncodeToString([]byte(replace(string(plain))))
			}
		}
		obj.Object[key] = changeTexts(value, each, &isChanged)
	}
	if isChanged {
		v.revealed[veiled{gvk.Group, gvk.Kind, obj.GetName()}] = texts
	}
}

// changeTexts changes all texts of a value.
func changeTexts(value any, change func(string) string, isChanged *bool) any {
	switch value := value.(type) {
	case string:
		changed := change(value)
		*isChanged = *isChanged || changed != value
		return changed
	case []any:
		for i := range value {
			value[i] = changeTexts(value[i], change, isChanged)
		}
	case map[string]any:
		for key := range value {
			value[key] = changeTexts(value[key], change, isChanged)
		}
	}
	return value
}

// leavesOf notes what stands in a value, each as JSON.
func leavesOf(value any, into map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for _, child := range value {
			leavesOf(child, into)
		}
	case []any:
		for _, child := range value {
			leavesOf(child, into)
		}
	default:
		if text, err := json.Marshal(value); err == nil {
			into[string(text)] = true
		}
	}
}

// conceal leaves out of a comparison what values may have become: of an object that values were put into, only what stood in it before is shown, and not
// what the API server says of it.
func (v *veil) conceal(out *deliveryv1.Diff) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range out.GetObjects() {
		texts, ok := v.revealed[veiled{o.GetGroup(), o.GetKind(), o.GetName()}]
		if !ok {
			continue
		}
		if o.GetMessage() != "" && !isSecret(o.GetGroup(), o.GetKind()) {
			o.Message = "There are secret values in it, and what the API server says of it is not shown."
		}
		for _, f := range o.GetFields() {
			if f.GetWanted() != "" && !texts[f.GetWanted()] {
				f.Live, f.Wanted = "", ""
			}
		}
	}
}

// mask takes placeholders, and values, out of texts. Next is what else is to be taken out; it may be nil.
func (v *veil) mask(next func(string) string) func(string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var pairs []string
	for placeholder := range v.values {
		pairs = append(pairs, placeholder, withheld, base64.StdEncoding.EncodeToString([]byte(placeholder)), withheld)
	}
	replace := strings.NewReplacer(pairs...).Replace
	return func(text string) string {
		if text = replace(text); next != nil {
			text = next(text)
		}
		return text
	}
}

// secrets are all values that are covered.
func (v *veil) secrets() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for value := range v.placeholders {
		all = append(all, value)
	}
	return all
}
