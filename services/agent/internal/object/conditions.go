package object

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Condition is a condition of an object's status. A field that is missing, or no text, is empty.
type Condition struct {
	Type, Status, Reason, Message string
}

// IsTrue tells a condition that holds. The zero value, of a condition that the object does not have, does not.
func (c Condition) IsTrue() bool { return c.Status == "True" }

// Conditions are the conditions of an object's status. What is no condition is left out.
func Conditions(obj *unstructured.Unstructured) []Condition {
	field, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	all, _ := field.([]any)
	conditions := make([]Condition, 0, len(all))
	for _, one := range all {
		fields, ok := one.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string {
			value, _ := fields[name].(string)
			return value
		}
		conditions = append(conditions, Condition{text("type"), text("status"), text("reason"), text("message")})
	}
	return conditions
}

// ConditionOf is the first condition of a type.
func ConditionOf(obj *unstructured.Unstructured, name string) Condition {
	for _, condition := range Conditions(obj) {
		if condition.Type == name {
			return condition
		}
	}
	return Condition{}
}
