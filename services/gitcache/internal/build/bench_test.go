package build

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// crd is YAML as custom resource definitions are: 100 KB that repeat themselves in small variations.
func crd(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	words := []string{
		"template", "spec", "container", "volume", "selector", "metadata", "policy", "strategy",
		"affinity", "resources",
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kind%d.example.com}\nspec:\n", n)
	for b.Len() < 95_000 {
		w := words[r.IntN(len(words))]
		fmt.Fprintf(&b, "%s%s:\n%sdescription: |\n%s%s of the %s, number %d, as in the documentation of the kind\n%stype: object\n",
			strings.Repeat(" ", 6+2*r.IntN(10)), w, strings.Repeat(" ", 20), strings.Repeat(" ", 22), w,
			words[r.IntN(len(words))], r.IntN(5000), strings.Repeat(" ", 20))
	}
	return b.String()
}

func BenchmarkBuild(b *testing.B) {
	w := newWorld(b, 0)
	files := gittest.Files{}
	for i := range 147 {
		files[fmt.Sprintf("crds/%03d.yaml", i)] = crd(i)
	}
	p := place(w.commit(files), "")
	f, err := w.builder.findPlace(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sum, err := w.store.Build(func(out *artifact.Writer) error { return w.builder.packContent(b.Context(), f.contentAt(p), out) })
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(sum.Size)
	}
	b.ReportMetric(float64(w.store.Stats().Bytes), "bytes_stored")
}

// BenchmarkReach is what a commit costs for a folder that refers to something beyond itself, be it changed or not.
func BenchmarkReach(b *testing.B) {
	w := newWorld(b, 0)
	p := place(w.commit(overlayFiles()), overlay)
	if _, err := w.builder.findPlace(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w.builder.places = newPlaces()
		if _, err := w.builder.findPlace(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}
