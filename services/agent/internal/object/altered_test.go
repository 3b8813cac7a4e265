package object_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/object"
)

func TestAlteredNamesWhatSurelyDiffers(t *testing.T) {
	t.Parallel()
	const byName = `{"f:spec":{"f:c":{"k:{\"name\":\"a\"}":{"f:image":{}}}}}`
	tests := []struct {
		name, sent, answer string
		want               []string
		fields             string // that the API server says are ours
	}{
		{"the same, and defaults", `"spec":{"a":1}`, `"spec":{"a":1,"b":2},"status":{}`, nil, ""},
		{"another value", `"data":{"x":"1","y":"2"}`, `"data":{"x":"1","y":"3"}`, []string{"/data/y"}, ""},
		{"a label", `"spec":{}`, `"spec":{}`, []string{"/metadata/labels/a~1b"}, ""},
		{
			"a quantity in other words", `"spec":{"cpu":"0.5","memory":"1024Mi"}`,
			`"spec":{"cpu":"500m","memory":"1Gi"}`, nil, "",
		},
		{"a number for a quantity", `"spec":{"cpu":2}`, `"spec":{"cpu":"2"}`, nil, ""},
		{"another quantity", `"spec":{"cpu":"0.5"}`, `"spec":{"cpu":"1"}`, []string{"/spec/cpu"}, ""},
		{"a quantity of very many digits", `"spec":{"a":"1e999999999"}`, `"spec":{"a":"1"}`, []string{"/spec/a"}, ""},
		{"a duration in other words", `"spec":{"every":"60m"}`, `"spec":{"every":"1h0m0s"}`, nil, ""},
		{"an empty value that is left out", `"spec":{"host":false,"list":[]}`, `"spec":{}`, nil, ""},
		{
			"a container that was put first", `"spec":{"c":[{"name":"a","image":"i"}]}`,
			`"spec":{"c":[{"name":"proxy"},{"name":"a","image":"i"}]}`, nil, byName,
		},
		{
			"another image", `"spec":{"c":[{"name":"a","image":"i"}]}`,
			`"spec":{"c":[{"name":"proxy"},{"name":"a","image":"mirror/i"}]}`,
			[]string{"/spec/c/0/image"},
			byName,
		},
		{"a list that grew", `"spec":{"args":["a"]}`, `"spec":{"args":["x","a"]}`, nil, ""},
		{
			"elements of one name", `"spec":{"c":[{"name":"a","path":"/a"},{"name":"a","path":"/b"}]}`,
			`"spec":{"c":[{"name":"a","path":"/a"},{"name":"a","path":"/b","sub":""}]}`, nil, "",
		},
		{
			"elements of one name that moved", `"spec":{"c":[{"name":"a","path":"/a"},{"name":"a","path":"/b"}]}`,
			`"spec":{"c":[{"name":"a","path":"/b"},{"name":"a","path":"/a"}]}`, nil, "",
		},
		{
			"one of them was changed", `"spec":{"c":[{"name":"a","path":"/a"},{"name":"a","path":"/b"}]}`,
			`"spec":{"c":[{"name":"a","path":"/b"},{"name":"a","path":"/c"}]}`,
			[]string{"/spec/c/0/path"},
			"",
		},
	}
	for _, test := range tests {
		label := "1"
		if test.name == "a label" {
			label = "2"
		}
		sent := parse(t, `{"kind":"X","apiVersion":"v1","metadata":{"name":"a","labels":{"a/b":"1"}},`+test.sent+`}`)
		answer := parse(t, `{"kind":"X","apiVersion":"v1","metadata":{"name":"a","labels":{"a/b":"`+label+`"}},`+
			test.answer+`}`)
		if test.fields != "" {
			answer.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(test.fields),
			}})
		}
		if got := object.Altered(sent.Object, answer.Object); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// A Service may have a thousand ports. The work is counted in allocations, which depend on neither the machine nor its
// load.
func TestWorkOnListsGrowsWithTheirLength(t *testing.T) { //nolint:paralleltest // what it counts is of the whole process
	count := func(ports int) float64 {
		var list, fields []string
		for i := range ports {
			list = append(list, fmt.Sprintf(`{"port":%d,"targetPort":%d}`, i+1, i+2))
			fields = append(fields, fmt.Sprintf(`"k:{\"port\":%d,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:targetPort":{}}`, i+1))
		}
		text := `{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"},"spec":{"ports":[` +
			strings.Join(list, ",") + `]}}`
		sent, answer := parse(t, text), parse(t, text)
		answer.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(`{"f:spec":{"f:ports":{` + strings.Join(fields, ",") + `}}}`),
		}})
		return testing.AllocsPerRun(1, func() {
			if altered := object.Altered(sent.Object, answer.Object); len(altered) > 0 {
				t.Errorf("it names %v", altered)
			}
		})
	}
	if few, many := count(20), count(1000); many > 100*few {
		t.Errorf("50 times the ports take %.0f times the work", many/few)
	}
}
