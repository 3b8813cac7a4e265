package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"fairlead.dev/services/agent/internal/object"
)

const (
	crds     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	services = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// edge is an API server that answers by path. A path without an answer is not found; "503" is not available.
func edge(t *testing.T, answers map[string]string) *Cluster {
	t.Helper()
	return edgeSeen(t, answers, func(string) {})
}

// edgeSeen is edge, and tells which paths are asked for.
func edgeSeen(t *testing.T, answers map[string]string, seen func(path string)) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen(r.URL.Path)
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			answer = strings.Replace(status("NotFound", http.StatusNotFound), "{",
				`{"details":{"name":"gone","kind":"rafts"},`, 1)
			if !strings.Contains(r.URL.Path, "/namespaces/shop/rafts/") {
				answer = status("NotFound", http.StatusNotFound)
			}
		case answer == "503":
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = status("ServiceUnavailable", http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func status(reason string, code int) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

func metas(names ...string) string {
	var items []string
	for _, name := range names {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","uid":%q}}`, name, name))
	}
	return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` +
		strings.Join(items, ",") + `]}`
}

func definition(scope, established string, served bool) string {
	return fmt.Sprintf(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"rafts.sail.dev"},"spec":{"group":"sail.dev","scope":%q,"names":{"plural":"rafts","kind":"Raft"},"versions":[{"name":"v1","served":%t}]},"status":{"conditions":[{"type":"Established","status":%q}]}}`, scope, served, established)
}

// kinds is an aggregated answer about group sail.dev.
func discovery(freshness, resources string) string {
	return `{"items":[{"metadata":{"name":"sail.dev"},"versions":[{"version":"v1","freshness":"` + freshness +
		`","resources":[` + resources + `]}]}]}`
}

const (
	rafts    = `{"resource":"rafts","scope":"Namespaced","verbs":["list"],"responseKind":{"kind":"Raft"}}`
	resource = `{"kind":"APIResourceList","resources":[{"name":"rafts","namespaced":true,"kind":"Raft"}]}`
)

func TestInsideBelievesNoOldDiscovery(t *testing.T) {
	t.Parallel()
	const path = "/apis/sail.dev/v1/namespaces/shop/rafts"
	for name, one := range map[string]struct {
		answers map[string]string
		found   string
		doubt   bool
	}{
		"known": {
			map[string]string{"/apis": discovery("Current", rafts), path: metas("r")}, "Raft shop/r", false,
		},
		"known and empty": {
			map[string]string{"/apis": discovery("Current", rafts), path: metas()}, "", false,
		},
		"its server is down": {
			map[string]string{"/apis": discovery("Stale", ""), "/apis/sail.dev/v1": "503"}, "", true,
		},
		"its server was down": {
			map[string]string{"/apis": discovery("Stale", ""), "/apis/sail.dev/v1": resource, path: metas("r")},
			"Raft shop/r", false,
		},
		"its server goes down": {
			map[string]string{"/apis": discovery("Current", rafts), path: "503"}, "", true,
		},
		"defined a moment ago": {
			map[string]string{
				"/apis": `{}`, crds: metas("rafts.sail.dev"),
				crds + "/rafts.sail.dev": definition("Namespaced", "True", true), path: metas("r"),
			},
			"Raft shop/r", false,
		},
		"defined a moment ago, not served": {
			map[string]string{
				"/apis": `{}`, crds: metas("rafts.sail.dev"),
				crds + "/rafts.sail.dev": definition("Namespaced", "True", true),
			},
			"", true,
		},
		"not served any more": {
			map[string]string{
				"/apis": `{}`, crds: metas("rafts.sail.dev"),
				crds + "/rafts.sail.dev": definition("Namespaced", "True", false),
			},
			"", true,
		},
		"never served": {
			map[string]string{
				"/apis": `{}`, crds: metas("rafts.sail.dev"),
				crds + "/rafts.sail.dev": definition("Namespaced", "False", true),
			},
			"", false,
		},
		"of no namespace": {
			map[string]string{
				"/apis": `{}`, crds: metas("rafts.sail.dev"),
				crds + "/rafts.sail.dev": definition("Cluster", "True", true),
			},
			"", false,
		},
		"nobody can say what is defined": {map[string]string{"/apis": `{}`, crds: "503"}, "", true},
		"an event of a group of one's own": {
			map[string]string{
				"/apis": discovery("Current", strings.NewReplacer("rafts", "events", "Raft", "Event").Replace(rafts)),
				strings.ReplaceAll(path, "rafts", "events"): metas("e"),
			},
			"Event shop/e", false,
		},
		"metrics, which are no objects": {
			map[string]string{"/apis": strings.ReplaceAll(discovery("Stale", ""), "sail.dev", "metrics.k8s.io")},
			"",
			false,
		},
		"an endpoint of a group of its own": {
			map[string]string{
				"/apis": discovery("Current",
					strings.NewReplacer("rafts", "endpoints", "Raft", "Endpoints").Replace(rafts)),
				strings.ReplaceAll(path, "rafts", "endpoints"): metas("e"),
			},
			"Endpoints shop/e", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]string{"/api": `{}`, crds: metas()}
			maps.Copy(answers, one.answers)
			found, err := edge(t, answers).Inside(t.Context(), "shop", func(metav1.Object) bool { return false })
			if found != one.found || (err != nil) != one.doubt {
				t.Errorf("got %q, %v", found, err)
			}
		})
	}
}

// An object with owners holds a namespace if any of its owners does, however far up.
func TestInsideFollowsOwners(t *testing.T) {
	t.Parallel()
	list := func(objects map[string][]string) string {
		var items []string
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			var owners []string
			for _, owner := range objects[name] {
				owners = append(owners, fmt.Sprintf(`{"apiVersion":"sail.dev/v1","kind":"Raft","name":%q,"uid":%q}`,
					owner, owner))
			}
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","uid":%q,"ownerReferences":[%s]}}`, name, name, strings.Join(owners, ",")))
		}
		return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` +
			strings.Join(items, ",") + `]}`
	}
	for name, one := range map[string]struct {
		objects map[string][]string
		found   string
	}{
		"a child of what goes": {
			map[string][]string{"ours": nil, "child": {"ours"}, "grandchild": {"child"}}, "",
		},
		"a child of what is gone":      {map[string][]string{"child": {"gone"}, "grandchild": {"child"}}, ""},
		"a child of what was replaced": {map[string][]string{"child": {"replaced"}}, ""},
		"a child of two, one of which stays": {
			map[string][]string{"ours": nil, "child": {"ours", "elsewhere"}}, "Raft shop/child",
		},
		"a grandchild of what stays": {
			map[string][]string{"child": {"gone"}, "other": {"elsewhere"}, "z": {"other"}}, "Raft shop/other",
		},
		"two that own each other": {map[string][]string{"a": {"b"}, "b": {"a"}}, "Raft shop/a"},
		"somebody's, and a child of what goes": {
			map[string][]string{"ours": nil, "child": {"ours"}, "foreign": nil}, "Raft shop/foreign",
		},
		"a child of an owner that can't be had": {map[string][]string{"child": {"down"}}, "?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const path = "/apis/sail.dev/v1/namespaces/shop/rafts"
			c := edge(t, map[string]string{
				"/api": `{}`, "/apis": discovery("Current", rafts), crds: metas(), "/apis/sail.dev/v1": resource,
				path:                list(one.objects),
				path + "/elsewhere": `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"elsewhere","uid":"elsewhere"}}`, path + "/replaced": `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"replaced","uid":"another"}}`, path + "/down": "503",
			})
			found, err := c.Inside(t.Context(), "shop",
				func(meta metav1.Object) bool { return meta.GetName() == "ours" })
			if err != nil && one.found == "?" {
				return
			}
			if found != one.found || err != nil {
				t.Errorf("got %q, %v", found, err)
			}
		})
	}
}

func TestServedTellsWhatIsGoneFromWhatIsAway(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		answers map[string]string
		version string
		doubt   bool
	}{
		"served": {
			map[string]string{"/apis/sail.dev": `{"versions":[{"version":"v2"}]}`, "/apis/sail.dev/v2": resource},
			"v2", false,
		},
		"its server is down": {
			map[string]string{
				"/apis/sail.dev": `{"versions":[{"version":"v1"}]}`, "/apis/sail.dev/v1": "503",
			}, "", true,
		},
		"its server is not even named": {map[string]string{services: metas("v1.sail.dev")}, "", true},
		"its definition is there": {
			map[string]string{
				crds: metas("rafts.sail.dev"), crds + "/rafts.sail.dev": definition("Namespaced", "True", true),
			},
			"", true,
		},
		"its definition is gone": {
			map[string]string{crds: metas("boats.sea.dev"), services: metas("v1.sea.dev")}, "", false,
		},
		"one of its name is defined": {
			map[string]string{
				crds: metas("rafts.of.sail.dev"),
				crds + "/rafts.of.sail.dev": strings.ReplaceAll(definition("Namespaced", "True", true), "sail.dev",
					"of.sail.dev"),
			},
			"", false,
		},
		"nobody says what is defined": {map[string]string{crds: "503"}, "", true},
		"nobody says who serves":      {map[string]string{services: "503"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]string{crds: metas(), services: metas()}
			maps.Copy(answers, one.answers)
			version, err := edge(t, answers).Served(t.Context(), schema.GroupKind{Group: "sail.dev", Kind: "Raft"})
			if version != one.version || (err != nil) != one.doubt {
				t.Errorf("got %q, %v", version, err)
			}
		})
	}
}

// However many objects have owners, no more of them are kept in mind than the bound; what nobody owns is found behind
// them.
func TestInsideKeepsFewObjectsInMind(t *testing.T) {
	t.Parallel()
	const path = "/apis/sail.dev/v1/namespaces/shop/rafts"
	var items strings.Builder
	for i := range insideMost + 10 {
		fmt.Fprintf(&items, `{"metadata":{"name":"r%d","namespace":"shop","uid":"r%d","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"o"}]}},`, i, i)
	}
	list := func(last string) string {
		return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` +
			items.String() + last + `]}`
	}
	nobody := func(metav1.Object) bool { return false }
	answers := map[string]string{
		"/api": `{}`, crds: metas(), "/apis": discovery("Current", rafts),
		path: list(`{"metadata":{"name":"free","namespace":"shop","uid":"f"}}`),
	}
	if found, err := edge(t, answers).Inside(t.Context(), "shop", nobody); found != "Raft shop/free" || err != nil {
		t.Errorf("got %q, %v", found, err)
	}
	answers[path] = list(`{"metadata":{"name":"own","namespace":"shop","uid":"f","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"o"}]}}`)
	doubt := (*DoubtError)(nil)
	if found, err := edge(t, answers).Inside(t.Context(), "shop", nobody); found != "" || !errors.As(err, &doubt) {
		t.Errorf("got %q, %v", found, err)
	}
}

// The API server drops the namespace of such an object, by which a project's bounds had judged it.
func TestObjectInANamespaceIsNotAppliedAsOneOfTheCluster(t *testing.T) {
	t.Parallel()
	const group = "/apis/rbac.authorization.k8s.io/v1"
	var wrote []string
	c := edgeSeen(t, map[string]string{
		group:                     `{"kind":"APIResourceList","resources":[{"name":"clusterroles","kind":"ClusterRole"}]}`,
		group + "/clusterroles/a": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a"}}`,
	}, func(path string) { wrote = append(wrote, path) })
	obj := &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
			"metadata": map[string]any{"name": "a"},
		},
	}
	if _, err := c.Apply(t.Context(), obj, false); err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace("shop")
	ref := object.RefOf(obj)
	_, applied := c.Apply(t.Context(), obj, false)
	_, rehearsed := c.Rehearse(t.Context(), obj)
	for what, err := range map[string]error{
		"apply": applied, "rehearse": rehearsed, "delete": c.Delete(t.Context(), ref, "1"),
		"patch": c.Patch(t.Context(), ref, []byte("[]")),
	} {
		if unknown, ok := errors.AsType[*UnknownKindError](err); !ok || !unknown.Wide {
			t.Errorf("%s: %v", what, err)
		}
	}
	if want := []string{group, group + "/clusterroles/a"}; !slices.Equal(wrote, want) {
		t.Errorf("asked for %q, want %q", wrote, want)
	}
}
