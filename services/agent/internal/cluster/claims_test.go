package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// A claim whose class binds with the first pod is as it should be until that pod comes. Where the class may not be read
// the events about the claim say it.
func TestAClaimWaitsForItsFirstPod(t *testing.T) {
	t.Parallel()
	const pending = `"spec":{"storageClassName":"c"},"status":{"phase":"Pending"}`
	const kinds = `{"kind":"APIResourceList","groupVersion":`
	const late, atOnce = `{"volumeBindingMode":"WaitForFirstConsumer"}`, `{"volumeBindingMode":"Immediate"}`
	const event = `{"metadata":{"name":"e"},"reason":"WaitForFirstConsumer"}`
	for name, test := range map[string]struct {
		claim, class, events string
		want                 bool
	}{
		"the class says so":       {pending, late, "", true},
		"the class says at once":  {pending, atOnce, event, false},
		"no such class":           {pending, "", event, false},
		"unreadable, events tell": {pending, "403", event, true},
		"unreadable, no events":   {pending, "403", "", false},
		"neither is readable":     {pending, "403", "403", false},
		"no class":                {`"spec":{},"status":{"phase":"Pending"}`, late, event, false},
		"a volume by name": {
			`"spec":{"storageClassName":"c","volumeName":"v"},"status":{"phase":"Pending"}`, late, event, false,
		},
		"lost": {`"spec":{"storageClassName":"c"},"status":{"phase":"Lost"}`, late, event, false},
		"its pod has come": {
			`"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n"}},` +
				pending, late, event, false,
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			answer := func(text string) {
				switch text {
				case "":
					w.WriteHeader(http.StatusNotFound)
				case "403":
					w.WriteHeader(http.StatusForbidden)
				default:
					_, _ = io.WriteString(w, text)
				}
			}
			switch {
			case r.URL.Path == "/api/v1":
				answer(kinds + `"v1","resources":[{"name":"events","kind":"Event","namespaced":true}]}`)
			case r.URL.Path == "/apis/storage.k8s.io/v1":
				answer(kinds + `"storage.k8s.io/v1","resources":[{"name":"storageclasses","kind":"StorageClass"}]}`)
			case r.URL.Path == "/apis/storage.k8s.io/v1/storageclasses/c":
				class := test.class
				if strings.HasPrefix(class, "{") {
					class = `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass",` +
						`"metadata":{"name":"c"},` + class[1:]
				}
				answer(class)
			case test.events == "403":
				answer("403")
			case r.URL.Path == "/api/v1/namespaces/shop/events" &&
				r.URL.Query().Get("fieldSelector") == "involvedObject.uid=u,reason=WaitForFirstConsumer":
				answer(`{"apiVersion":"v1","kind":"EventList","items":[` + test.events + `]}`)
			default:
				answer("")
			}
		}))
		t.Cleanup(server.Close)
		c, err := New(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		claim := &unstructured.Unstructured{}
		text := `{"apiVersion":"v1","kind":"PersistentVolumeClaim",` + test.claim + `}`
		if err := claim.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		claim.SetNamespace("shop")
		claim.SetName("data")
		claim.SetUID("u")
		if got := c.AwaitsPod(t.Context(), claim); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
