// Package veil keeps secrets out of a render of content that somebody chose for a look: a template can turn a value
// around, cut it or encode it in a way that no mask finds again. The render gets a placeholder for each value, and what
// it makes of a placeholder tells nothing of the value. Where a placeholder is whole in an object, the value takes its
// place after the render, so that a comparison with the cluster is about the value.
package veil

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/diff"
	"fairlead.dev/services/agent/internal/object"
)

// Veil knows the values and the placeholders of one render, whose goroutines may all use it.
type Veil struct {
	mu sync.Mutex // guards the maps: a render asks for lookups while it gives objects
	// values by placeholder.
	values map[string]string
	// looked are the placeholders of values that templates look up, which they may do twice.
	looked map[lookedValue]string
	// revealed are the objects that values were put into, with the leaves that came out of the render as they are, as
	// JSON, by their pointers. Of objects of one name in several namespaces, those that came out of all of them.
	revealed map[veiled]map[string]string
}

// lookedValue is a value of a Secret of the cluster.
type lookedValue struct{ namespace, name, key, value string }

// veiled names an object before it has its namespace.
type veiled struct{ group, kind, name string }

// New returns a Veil that covers nothing yet.
func New() *Veil {
	return &Veil{
		values: map[string]string{}, looked: map[lookedValue]string{}, revealed: map[veiled]map[string]string{},
	}
}

// coverValue returns a placeholder of a value, another one each time: equal ones would tell that values are equal, and
// the person may have made one of them. An empty value stays empty: templates ask for that.
func (v *Veil) coverValue(value string) string {
	if value == "" {
		return ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	placeholder := "veiled" + strings.ToLower(rand.Text())
	v.values[placeholder] = value
	return placeholder
}

// coverLooked is coverValue for a value that a template looks up: the same one when it does so again.
func (v *Veil) coverLooked(value lookedValue) string {
	v.mu.Lock()
	known, ok := v.looked[value]
	v.mu.Unlock()
	if ok {
		return known
	}
	placeholder := v.coverValue(value.value)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looked[value] = placeholder
	return placeholder
}

// coverTree covers the texts of a value, and takes numbers, and what is true, out of it. All names stay.
func (v *Veil) coverTree(value any) any {
	switch value := value.(type) {
	case string:
		return v.coverValue(value)
	case float64, int64, json.Number:
		return 0
	case bool:
		return false
	case []any:
		for i := range value {
			value[i] = v.coverTree(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = v.coverTree(value[key])
		}
	}
	return value
}

// CoverConfiguration covers the secrets of a configuration.
func (v *Veil) CoverConfiguration(c *deliveryv1.Configuration) (*deliveryv1.Configuration, error) {
	c = proto.CloneOf(c)
	for _, e := range c.GetEntries() {
		if !e.GetSecret() {
			continue
		}
		switch value := e.GetValue().(type) {
		case *deliveryv1.ConfigurationEntry_Text:
			value.Text = v.coverValue(value.Text)
		case *deliveryv1.ConfigurationEntry_Number:
			value.Number = 0
		case *deliveryv1.ConfigurationEntry_Flag:
			value.Flag = false
		case *deliveryv1.ConfigurationEntry_Json:
			var tree any
			if json.Unmarshal([]byte(value.Json), &tree) != nil {
				return nil, fmt.Errorf("configuration %q is not JSON", e.GetName()) // the decoder would quote it
			}
			text, err := json.Marshal(v.coverTree(tree))
			if err != nil {
				return nil, fmt.Errorf("configuration %q is not JSON", e.GetName())
			}
			value.Json = string(text)
		default:
			return nil, fmt.Errorf("configuration %q is of a kind that this agent does not know: upgrade it", e.GetName())
		}
	}
	return c, nil
}

// CoverGiven covers values that a chart gets from a Secret: those of a values file, or one.
func (v *Veil) CoverGiven(from *deliveryv1.ValuesReference, text string) (string, error) {
	if from.GetTargetPath() != "" {
		return v.coverValue(text), nil
	}
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return "", errors.New("these are no values") // the decoder may quote it
	}
	covered, err := yaml.Marshal(v.coverTree(tree))
	return string(covered), err
}

// CoverObject covers the values of an object that a template looked up.
func (v *Veil) CoverObject(obj *unstructured.Unstructured) {
	if !object.RefOf(obj).IsSecret() {
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
		placeholder := v.coverLooked(lookedValue{obj.GetNamespace(), obj.GetName(), key, string(value)})
		data[key] = base64.StdEncoding.EncodeToString([]byte(placeholder))
	}
	if data != nil {
		obj.Object["data"] = data
	}
}

// RevealValues puts values in the place of whole placeholders, and tells whether there were any. Names, labels and
// annotations keep the placeholders: the API server quotes them in what it says, and they are in its log.
func (v *Veil) RevealValues(obj *unstructured.Unstructured) (isRevealed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.values) == 0 {
		return false
	}
	var pairs []string
	for placeholder, value := range v.values {
		pairs = append(pairs, placeholder, value,
			base64.StdEncoding.EncodeToString([]byte(placeholder)), base64.StdEncoding.EncodeToString([]byte(value)))
	}
	replace := strings.NewReplacer(pairs...).Replace
	same := map[string]string{}
	ref := object.RefOf(obj)
	for key, value := range obj.Object {
		each := replace
		switch {
		case key == "metadata" || key == "apiVersion" || key == "kind":
			each = func(text string) string { return text }
		case key == "data" && ref.IsSecret():
			each = func(text string) string {
				plain, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					return text
				}
				return base64.StdEncoding.EncodeToString([]byte(replace(string(plain))))
			}
		}
		changed := false
		obj.Object[key], changed = changeTexts(diff.Pointer("", key), value, each, same)
		isRevealed = isRevealed || changed
	}
	if isRevealed {
		name := veiled{ref.Group, ref.Kind, ref.Name}
		if others, ok := v.revealed[name]; ok {
			// Of another namespace: what is a leaf in one of them may be a guess at the value in the other.
			maps.DeleteFunc(same, func(pointer, leaf string) bool { return others[pointer] != leaf })
		}
		v.revealed[name] = same
	}
	return isRevealed
}

// changeTexts changes all texts of a value, and notes the leaves that it does not change.
func changeTexts(
	pointer string, value any, change func(string) string, same map[string]string,
) (_ any, isChanged bool) {
	switch value := value.(type) {
	case string:
		if changed := change(value); changed != value {
			return changed, true
		}
	case []any:
		for i := range value {
			changed := false
			value[i], changed = changeTexts(diff.Pointer(pointer, strconv.Itoa(i)), value[i], change, same)
			isChanged = isChanged || changed
		}
		return value, isChanged
	case map[string]any:
		for key := range value {
			changed := false
			value[key], changed = changeTexts(diff.Pointer(pointer, key), value[key], change, same)
			isChanged = isChanged || changed
		}
		return value, isChanged
	}
	if text, err := json.Marshal(value); err == nil {
		same[pointer] = string(text)
	}
	return value, false
}

// ConcealDiff leaves out of a comparison what values may have become: of an object that values were put into, only
// leaves are shown that come out of the API server as they came out of the render, and not what the API server says of
// it. No sum over values is told: guesses could be tried against it.
func (v *Veil) ConcealDiff(out *deliveryv1.Diff) {
	v.mu.Lock()
	defer v.mu.Unlock()
	out.Fingerprint = ""
	for _, o := range out.GetObjects() {
		same, ok := v.revealed[veiled{o.GetGroup(), o.GetKind(), o.GetName()}]
		if !ok {
			continue
		}
		if o.GetMessage() != "" {
			o.Message = unsaid
		}
		for _, f := range o.GetFields() {
			if leaf, ok := same[f.GetPointer()]; f.GetWanted() != "" && (!ok || leaf != f.GetWanted()) {
				f.Live, f.Wanted = "", ""
			}
		}
	}
}

// unsaid takes the place of what is said about an object with values in it. To look for values in it would confirm
// guesses that the person wrote beside them.
const unsaid = "There are secret values in it, and what the API server says of it is not shown."

// DescribeFailure is what keeps a comparison from being made.
func (v *Veil) DescribeFailure(text string) string {
	text = v.MaskText(text)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.revealed) > 0 {
		return "the cluster can't be asked about the objects of the folder now. " +
			"There are secret values in them, and what the API server says is not shown. Ask again"
	}
	return text
}

// MaskText takes placeholders out of a text. Values are not looked for: none was in the render, and one that is found
// in a text of the person's would be a guess that is confirmed.
func (v *Veil) MaskText(text string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var pairs []string
	for placeholder := range v.values {
		pairs = append(pairs, placeholder, desired.Masked,
			base64.StdEncoding.EncodeToString([]byte(placeholder)), desired.Masked)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
