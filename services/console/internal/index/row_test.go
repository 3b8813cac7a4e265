package index

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

func TestSourcesOfAnyKindAreFoundByTheirURL(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"git", "helm", "oci"} {
		r := structure(store.Resource{Kind: store.KindSource, Spec: []byte(`{"` + kind + `":{"url":"https://example.com/` + kind + `"}}`)})
		if url, ok := r.Field("url"); !ok || url.Text != "https://example.com/"+kind {
			t.Errorf("a source of %s has the url %q, %v", kind, url.Text, ok)
		}
	}
	r := structure(store.Resource{Kind: store.KindSource, Spec: []byte(`{"bucket":{"endpoint":"s3.example.com","bucketName":"shop","prefix":"deploy"}}`)})
	if url, _ := r.Field("url"); url.Text != "https://s3.example.com/shop/deploy" {
		t.Errorf("a bucket has the url %q", url.Text)
	}
}

// A filter by project finds global services, and so does a caller who sees that project only.
func TestAGlobalServiceIsOfTheProjectOfItsTemplate(t *testing.T) {
	t.Parallel()
	r := structure(store.Resource{Kind: store.KindGlobalService, Spec: []byte(`{"template":{"project":"shop","source":"logs"}}`)})
	for field, want := range map[string]string{"project": "shop", "source": "logs"} {
		if got, _ := r.Field(field); got.Text != want {
			t.Errorf("%s is %q", field, got.Text)
		}
	}
	if !r.seenBy(func(_ store.Kind, _, project, _ string) bool { return project == "shop" }) {
		t.Error("not seen by who sees its project")
	}
}

// docs/catalog.md lists the fields of each kind, and the states in their order.
func TestDocumentsNameAllFieldsOfLists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/catalog.md")
	if err != nil {
		t.Fatal(err)
	}
	common := Fields(store.KindSecret)
	for row, kind := range map[string]store.Kind{
		"all kinds": store.KindSecret, "services": store.KindService, "clusters": store.KindCluster, "sources": store.KindSource,
		"global services": store.KindGlobalService, "grants": store.KindGrant,
	} {
		fields := slices.Sorted(maps.Keys(Fields(kind)))
		if row != "all kinds" {
			fields = slices.DeleteFunc(fields, func(name string) bool { _, of := common[name]; return of })
		}
		line := regexp.MustCompile(`(?m)^\| ` + row + ` \| (.*) \|$`).FindSubmatch(text)
		if line == nil {
			t.Errorf("docs/catalog.md has no fields of %s", row)
			continue
		}
		said := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(string(line[1]), "") // values
		documented := strings.Split(strings.NewReplacer("`", "", " ", "", ".<key>", "").Replace(said), ",")
		if slices.Sort(documented); !slices.Equal(documented, fields) {
			t.Errorf("docs/catalog.md has for %s the fields %q, and there are %q", row, documented, fields)
		}
	}
	states := make([]string, 0, 9)
	for _, one := range []state.State{
		state.Healthy, state.Progressing, state.Pending, state.Held, state.Waiting, state.Differs, state.Unknown,
		state.Degraded, state.Failed,
	} {
		states = append(states, "`"+string(one)+"`")
	}
	if want := "States of services are ordered: " + strings.Join(states, ", ") + "."; !strings.Contains(string(text), want) {
		t.Errorf("docs/catalog.md does not say: %s", want)
	}
}
