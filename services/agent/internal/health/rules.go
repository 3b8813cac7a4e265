package health

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Rule reads the health of a kind from its fields.
type Rule struct {
	kind            schema.GroupKind
	healthy, failed []test
	message         *jsonpath.JSONPath
	// broken is why the rule can't be used.
	broken error

	mu sync.Mutex // held while the paths are used: they keep their place
}

type test struct {
	path   *jsonpath.JSONPath
	values []string
}

// Compile reads the rules of a service: the first of a kind counts. A rule with a mistake says so on the
// objects that it is for.
func Compile(specs []*deliveryv1.HealthRule) []*Rule {
	var rules []*Rule
	for _, spec := range specs {
		rule := &Rule{kind: schema.GroupKind{Group: spec.GetGroup(), Kind: spec.GetKind()}}
		if Find(rules, rule.kind) != nil {
			continue
		}
		rule.healthy, rule.broken = compile(spec.GetHealthy())
		if rule.broken == nil {
			rule.failed, rule.broken = compile(spec.GetFailed())
		}
		if rule.broken == nil && spec.GetMessage() != "" {
			rule.message, rule.broken = parse(spec.GetMessage())
		}
		rules = append(rules, rule)
	}
	return rules
}

// Find is the rule for a kind, nil if there is none.
func Find(rules []*Rule, kind schema.GroupKind) *Rule {
	if i := slices.IndexFunc(rules, func(r *Rule) bool { return r.kind == kind }); i >= 0 {
		return rules[i]
	}
	return nil
}

func compile(specs []*deliveryv1.FieldTest) ([]test, error) {
	tests := make([]test, 0, len(specs))
	for _, spec := range specs {
		path, err := parse(spec.GetPath())
		if err != nil {
			return nil, err
		}
		tests = append(tests, test{path: path, values: spec.GetValues()})
	}
	return tests, nil
}

func parse(text string) (*jsonpath.JSONPath, error) {
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	path := jsonpath.New("health").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, fmt.Errorf("%s is no JSONPath: %w", strings.Trim(text, "{}"), err)
	}
	return path, nil
}

// holds says whether any field that the path leads to has one of the values.
func (t test) holds(obj *unstructured.Unstructured) bool {
	results, err := t.path.FindResults(obj.Object)
	if err != nil {
		return false // as when a filter meets a value of another type
	}
	for _, result := range results {
		for _, field := range result {
			if !field.IsValid() || !field.CanInterface() || field.Interface() == nil {
				continue
			}
			if len(t.values) == 0 || slices.Contains(t.values, fmt.Sprint(field.Interface())) {
				return true
			}
		}
	}
	return false
}

func all(tests []test, obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(tests, func(t test) bool { return !t.holds(obj) })
}

// of applies the rule.
func (r *Rule) of(obj *unstructured.Unstructured) (State, string) {
	if r.broken != nil {
		return Progressing, fmt.Sprintf("the service's health rule for %s can't be used: %v", r.kind.Kind, r.broken)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var message bytes.Buffer
	if r.message == nil || r.message.Execute(&message, obj.Object) != nil {
		message.Reset()
	}
	switch {
	case len(r.failed) > 0 && all(r.failed, obj):
		return Degraded, orElse(message.String(), "it has failed, by the service's health rule")
	case all(r.healthy, obj):
		return Healthy, ""
	}
	return Progressing, orElse(message.String(), "it is not healthy yet, by the service's health rule")
}

// maxMessage bounds what an object may say of itself in a report.
const maxMessage = 1 << 10

func orElse(text, other string) string {
	if text = strings.TrimSpace(text); text == "" {
		return other
	}
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}
