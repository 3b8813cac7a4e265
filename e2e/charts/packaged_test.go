package charts_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"

	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/registrytest"
)

// all: without it only few charts are delivered as packages.
var all = flag.Bool("packages", false, "deliver each chart as a package, too")

// packages are the cases that are delivered as packages by default: a version with a plus, files that the package
// leaves out, charts below the chart, files of templates, and definitions.
var packages = []string{"c03-versions", "c04-helmignore", "c13-globals", "c28-files", "c31-crds"}

// packaged delivers the first version of a case's chart once more, as a package that Helm made of it: from a chart
// repository and from a registry. The objects have to be those of the folder.
func (h *harness) packaged(t *testing.T, c *Case, registry *registrytest.Registry) {
	t.Helper()
	if !*all && !slices.Contains(packages, c.Name) {
		return
	}
	chart, err := loader.LoadDir(filepath.Join(h.dir, "v1", c.Name))
	if why := c.unpackaged(); why == "" && err == nil && len(chart.Metadata.Dependencies) > len(chart.Dependencies()) {
		t.Log("it is delivered from Git only: its dependencies are elsewhere in the repository")
		return
	} else if why != "" {
		t.Log("it is delivered from Git only:", why)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := util.Save(chart, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tgz, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name, version := chart.Metadata.Name, chart.Metadata.Version
	repository := charttest.New(t)
	repository.PushPackage(name, version, tgz)
	registry.HelmPush(t, c.Name+"/"+name+":"+version, tgz)
	for kind, spec := range map[string]string{
		"repository": fmt.Sprintf("{url: %q}", repository.URL),
		"registry":   fmt.Sprintf("{url: %q, insecure: true}", "oci://"+registry.Host+"/"+c.Name),
	} {
		t.Run(kind, func(t *testing.T) { // one after the other: they have the same names in the cluster
			r := newRun(t, h, c)
			r.isPackage = true
			source := c.Name + "-" + kind
			head := "apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: " + source + "}\n"
			if err := h.world.Apply(r.Context(), head+"spec: {helm: "+spec+"}\n"); err != nil {
				t.Fatal(err)
			}
			r.deliverPackage(r.Context(), source, name, version)
		})
	}
}

// unpackaged says why a case is not delivered as a package; empty: it is.
func (c *Case) unpackaged() string {
	first := c.Versions["v1"]
	switch {
	case c.Name == "c49-tokens":
		return "a finalizer keeps it until its last version"
	case c.files["v1"]["Chart.yaml"] == "":
		return "it is no chart"
	case c.Path != "" || len(c.Links) > 0:
		return "it needs files beside the chart"
	case first.Fails != "":
		return "its first version fails"
	case len(first.Before)+len(first.During)+len(first.After)+len(c.Kept) > 0:
		return "it needs others to act in the cluster"
	}
	for _, field := range []string{"include", "ignore"} { // which are for folders
		if _, has := c.Spec[field]; has {
			return "it takes a part of the folder"
		}
	}
	return ""
}

// deliverPackage has a version of a chart applied, compares what is there with the reference of the folder, and
// removes it.
func (r *run) deliverPackage(ctx context.Context, source, chart, version string) {
	r.Helper()
	spec := r.spec("v1")
	render := spec.GetRender()
	spec.Source, spec.Path, spec.Ref, spec.Chart, spec.Version = source, "", "", chart, version
	if err := r.world.ServeFrom(ctx, r.c.Name, spec); err != nil {
		r.Fatal(err)
	}
	r.healthy(ctx, "v1", func(subject, _ string) bool {
		return strings.HasPrefix(subject+" ", chart+" "+version+" ")
	})
	r.revision++
	spec.Render = render
	r.check(ctx, "v1", spec)
	if err := r.within(ctx, func(ctx context.Context) error { return r.world.Remove(ctx, r.c.Name) }); err != nil {
		r.Fatal(err)
	}
	for name := range r.current {
		r.gone(ctx, "removal", name)
	}
}
