package cluster

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The plural of Gateway is not the one that English would guess: the API server says it.
func TestDeprecatedAPIsHaveTheNamesOfTheirResources(t *testing.T) {
	t.Parallel()
	gateway := schema.GroupVersionKind{Group: "net.example", Version: "v1alpha1", Kind: "Gateway"}
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/net.example/v1alpha1" {
			_, _ = io.WriteString(w,
				`{"kind":"APIResourceList","resources":[{"name":"gateways","namespaced":true,"kind":"Gateway"}]}`)
			return
		}
		w.Header().Add("Warning", `299 - "net.example/v1alpha1 Gateway is deprecated"`)
		_, _ = io.WriteString(w, `{}`)
	})
	use := func() {
		t.Helper()
		if _, err := c.raw.Get().AbsPath("/apis/net.example/v1alpha1/gateways").Do(t.Context()).Raw(); err != nil {
			t.Fatal(err)
		}
	}
	use() // before the agent has asked for the kind
	if _, err := c.Kind(t.Context(), gateway); err != nil {
		t.Fatal(err)
	}
	use()
	c.Refresh(gateway.Group)
	use()
	if used := c.UsedDeprecated(); len(used) != 1 ||
		used[0].GroupVersionResource != gateway.GroupVersion().WithResource("gateways") {
		t.Errorf("got %v", used)
	}
}

// A server without metrics may write a list of nothing as null.
func TestAListOfNoNodesMayBeNull(t *testing.T) {
	t.Parallel()
	for _, list := range []string{
		`{"items":null}`, `{"items":[],"kind":"NodeMetricsList"}`,
		`{"kind":"NodeMetricsList","items":null,"metadata":{}}`,
	} {
		if err := eachNode(strings.NewReader(list),
			func(nodeMetrics) { t.Errorf("%s: has a node", list) }); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
	if err := eachNode(strings.NewReader(`{"items":{}}`), func(nodeMetrics) {}); err == nil {
		t.Error("an object is taken for a list")
	}
}
