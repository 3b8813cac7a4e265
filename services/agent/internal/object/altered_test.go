package object_test

import (
	"slices"
	"testing"

	"fairlead.dev/services/agent/internal/object"
)

func TestAlteredNamesWhatSurelyDiffers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, sent, answer string
		want               []string
	}{
		{"the same, and defaults", `"spec":{"a":1}`, `"spec":{"a":1,"b":2},"status":{}`, nil},
		{"another value", `"data":{"x":"1","y":"2"}`, `"data":{"x":"1","y":"3"}`, []string{"/data/y"}},
		{"a label", `"spec":{}`, `"spec":{}`, []string{"/metadata/labels/a~1b"}},
		{"a quantity in other words", `"spec":{"cpu":"0.5","memory":"1024Mi"}`, `"spec":{"cpu":"500m","memory":"1Gi"}`, nil},
		{"a number for a quantity", `"spec":{"cpu":2}`, `"spec":{"cpu":"2"}`, nil},
		{"another quantity", `"spec":{"cpu":"0.5"}`, `"spec":{"cpu":"1"}`, []string{"/spec/cpu"}},
		{"a duration in other words", `"spec":{"every":"60m"}`, `"spec":{"every":"1h0m0s"}`, nil},
		{"an empty value that is left out", `"spec":{"host":false,"list":[]}`, `"spec":{}`, nil},
		{"a container that was put first", `"spec":{"c":[{"name":"a","image":"i"}]}`, `"spec":{"c":[{"name":"proxy"},{"name":"a","image":"i"}]}`, nil},
		{"another image", `"spec":{"c":[{"name":"a","image":"i"}]}`, `"spec":{"c":[{"name":"proxy"},{"name":"a","image":"mirror/i"}]}`, []string{"/spec/c/0/image"}},
		{"a list that grew", `"spec":{"args":["a"]}`, `"spec":{"args":["x","a"]}`, nil},
	}
	for _, test := range tests {
		label := "1"
		if test.name == "a label" {
			label = "2"
		}
		sent := parse(t, `{"kind":"X","apiVersion":"v1","metadata":{"name":"a","labels":{"a/b":"1"}},`+test.sent+`}`)
		answer := parse(t, `{"kind":"X","apiVersion":"v1","metadata":{"name":"a","labels":{"a/b":"`+label+`"}},`+test.answer+`}`)
		if got := object.Altered(sent.Object, answer.Object); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
