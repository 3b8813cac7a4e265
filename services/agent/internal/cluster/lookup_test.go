package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const plainKinds = `{"kind":"APIResourceList","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap"},{"name":"nodes","kind":"Node"}]}`

// stops serves ConfigMaps of 1 MiB, as many as a page is asked for, without an end.
func stops(t *testing.T) *Cluster {
	t.Helper()
	large := `{"metadata":{"name":"a"},"data":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1":
			_, _ = w.Write([]byte(plainKinds))
		case strings.HasSuffix(r.URL.Path, "/endless"):
			_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"endless"},"data":{"x":"`))
			for _, err := w.Write([]byte(large)); err == nil; _, err = w.Write([]byte(strings.Repeat("x", 1<<20))) {
			}
		default:
			var limit int
			_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
			_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"more","resourceVersion":"7"},"items":[`))
			for i := range limit {
				if _, err := w.Write([]byte(strings.Repeat(",", min(i, 1)) + large)); err != nil {
					return
				}
			}
			_, _ = w.Write([]byte("]}"))
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A page alone may have more than the agent's memory. Not parallel: it measures.
func TestLookupTakesLittleMemoryHoweverMuchThereIs(t *testing.T) { //nolint:paralleltest // it measures
	c := stops(t)
	for _, name := range []string{"", "endless"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Lookup(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "shop", name,
			func(*unstructured.Unstructured) {})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrLookupSize) {
			t.Errorf("%q: %v", name, err)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
			t.Errorf("%q: it took %d MiB", name, took)
		}
	}
}

func TestLookupGivesAListAsTheAPIServerHasIt(t *testing.T) {
	t.Parallel()
	c := edge(t, map[string]string{
		"/api/v1":                            plainKinds,
		"/api/v1/namespaces/shop/configmaps": `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"},"data":{"n":"1"}},{"metadata":{"name":"b"}}]}`,
		"/api/v1/nodes/one":                  `{"kind":"Node","apiVersion":"v1","metadata":{"name":"one"},"status":{"n":9007199254740993}}`,
	})
	look := func(kind, namespace, name string) string {
		found, err := c.Lookup(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: kind}, namespace, name,
			func(obj *unstructured.Unstructured) {
				if obj.GetName() == "b" {
					obj.SetAnnotations(map[string]string{"seen": "yes"})
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		if found != nil && !json.Valid(found) {
			t.Errorf("%s is no JSON", found)
		}
		return string(found)
	}
	const list = `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[{"apiVersion":"v1","data":{"n":"1"},"kind":"ConfigMap","metadata":{"name":"a"}},` +
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"seen":"yes"},"name":"b"}}]}`
	for _, test := range []struct{ kind, namespace, name, want string }{
		{"ConfigMap", "shop", "", list},
		{"ConfigMap", "shop", "none", ""},
		{
			"Node", "shop", "one",
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"one"},"status":{"n":9007199254740993}}`,
		},
		{"Boat", "shop", "", ""},
	} {
		if got := look(test.kind, test.namespace, test.name); got != test.want {
			t.Errorf("%s %s/%s: got %s", test.kind, test.namespace, test.name, got)
		}
	}
	for _, path := range []string{"../secrets/root", "a/b", "..", "%2e"} {
		if _, err := c.Lookup(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, path, "a",
			func(*unstructured.Unstructured) {}); err == nil {
			t.Errorf("namespace %q passes", path)
		}
	}
}
