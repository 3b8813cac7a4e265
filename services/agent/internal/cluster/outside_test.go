package cluster

import (
	"io"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The plural of Gateway is not the one that English would guess: the API server says it.
func TestDeprecatedAPIsHaveTheNamesOfTheirResources(t *testing.T) {
	t.Parallel()
	gateway := schema.GroupVersionKind{Group: "net.example", Version: "v1alpha1", Kind: "Gateway"}
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/net.example/v1alpha1" {
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","resources":[{"name":"gateways","namespaced":true,"kind":"Gateway"}]}`)
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
	if used := c.UsedDeprecated(); len(used) != 1 || used[0].GroupVersionResource != gateway.GroupVersion().WithResource("gateways") {
		t.Errorf("got %v", used)
	}
}
