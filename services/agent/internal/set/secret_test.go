package set

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSecretsAreSentAsData(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, secret, want string }{
		{
			"texts", `{"apiVersion":"v1","kind":"Secret","stringData":{"a":"b"}}`,
			`{"apiVersion":"v1","data":{"a":"Yg=="},"kind":"Secret"}`,
		},
		{
			"texts win", `{"apiVersion":"v1","kind":"Secret","data":{"a":"eA==","c":"eA=="},"stringData":{"a":"b"}}`,
			`{"apiVersion":"v1","data":{"a":"Yg==","c":"eA=="},"kind":"Secret"}`,
		},
		{"none", `{"apiVersion":"v1","kind":"Secret","stringData":{}}`, `{"apiVersion":"v1","kind":"Secret"}`},
		{
			"what is to be refused", `{"apiVersion":"v1","kind":"Secret","stringData":{"a":1}}`,
			`{"apiVersion":"v1","kind":"Secret","stringData":{"a":1}}`,
		},
		{
			"another kind", `{"apiVersion":"x/v1","kind":"Secret","stringData":{"a":"b"}}`,
			`{"apiVersion":"x/v1","kind":"Secret","stringData":{"a":"b"}}`,
		},
	}
	for _, test := range tests {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(test.secret)); err != nil {
			t.Fatal(err)
		}
		plainSecret(obj)
		got, err := obj.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if string(got[:len(got)-1]) != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}
