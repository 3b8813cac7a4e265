package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/git"
)

// stable is a repository of charts.
const stable = "https://charts.example.com"

// dependencies are those of a chart, by "name version" or "name version repository".
func dependencies(items ...string) string {
	var b strings.Builder
	b.WriteString("dependencies:\n")
	for _, item := range items {
		f := append(strings.Fields(item), stable)
		fmt.Fprintf(&b, "- {name: %s, version: %s, repository: '%s'}\n", f[0], f[1], f[2])
	}
	return b.String()
}

// chart is the tree of a chart with these dependencies, and what else it has.
func (o objects) chart(dependencies string, more ...entry) git.Hash {
	return o.tree(append(more, entry{modeFile, "Chart.yaml", o.blob(dependencies)})...)
}

// wanted are the charts that those at the root depend on, with their problems.
func wanted(t *testing.T, o objects, root git.Hash) []string {
	t.Helper()
	all, err := Charts(t.Context(), o, root, "", Options{Limits: wide})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range all {
		got = append(got, strings.TrimSpace(w.Name+" "+w.Version+" "+w.Problem))
	}
	return got
}

// carried are the names in charts/ of what is carried, if every chart can be had.
func carried(t *testing.T, o objects, root git.Hash) ([]string, error) {
	t.Helper()
	options := Options{Limits: wide}
	options.Limits.Files = 1000
	options.Charts = func(c depend.Chart) (git.Hash, bool) {
		return o.tree(entry{modeFile, "Chart.yaml", o.blob("name: " + c.Name + "\nversion: " + c.Version + "\n")}), true
	}
	parts, _, err := Reach(t.Context(), o, root, "", options)
	var names []string
	for _, p := range parts {
		name, _ := strings.CutPrefix(p.Path, "charts/")
		names = append(names, strings.TrimSuffix(name, "/Chart.yaml"))
	}
	slices.Sort(names)
	return names, err
}

// refusesDependency checks that the owner and the builder both refuse a chart, in these words.
func refusesDependency(t *testing.T, o objects, root git.Hash, words ...string) {
	t.Helper()
	_, err := carried(t, o, root)
	told := strings.Join(wanted(t, o, root), "\n")
	if !errors.Is(err, artifact.ErrRefused) {
		t.Errorf("the builder says %v", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) ||
			!strings.HasPrefix(word, "Chart.yaml") && !strings.Contains(told, word) {
			t.Errorf("the builder says %q and the owner %q, without %q", err, told, word)
		}
	}
}

// charts/redis-cluster-9.0.0.tgz is no package of redis.
func TestOnlyThePackageOfTheNameIsTheChart(t *testing.T) {
	t.Parallel()
	for file, missing := range map[string]bool{
		"redis-cluster-9.0.0.tgz": true, "redis-7-1.0.0.tgz": true, "redis-.tgz": true, "redis.tgz": true,
		"redis-1.0.0.tgz": false, "redis-v1.1.0.tgz": false, "redis-1.0.0-rc.1+build.7.tgz": false,
		"redis-1.0.0_build.7.tgz": false,
	} {
		o := objects{}
		root := o.chart(dependencies("redis 1.0.0"),
			entry{modeFolder, "charts", o.tree(entry{modeFile, file, o.blob("x")})})
		if got := wanted(t, o, root); missing != (len(got) == 1) {
			t.Errorf("with %s %q is fetched", file, got)
		}
	}
	o := objects{}
	root := o.chart(dependencies("redis ^7"), entry{
		modeFolder, "charts",
		o.tree(entry{modeFile, "redis-^7.tgz", o.blob("x")}),
	})
	if got := wanted(t, o, root); len(got) != 0 {
		t.Errorf("with the very version %q is fetched", got)
	}
}

// As in Helm the dependencies of requirements.yaml, if it has any, take the place of those of Chart.yaml.
func TestRequirementsTakeThePlaceOfDependencies(t *testing.T) {
	t.Parallel()
	for requirements, want := range map[string][]string{
		dependencies("db 2.0.0", "cache 1.0.0"): {"db 2.0.0", "cache 1.0.0"},
		"dependencies: []\n":                    nil,
		"{}\n":                                  {"db 1.0.0"},
	} {
		o := objects{}
		root := o.chart(dependencies("db 1.0.0"), entry{modeFile, "requirements.yaml", o.blob(requirements)})
		if got := wanted(t, o, root); !slices.Equal(got, want) {
			t.Errorf("with %q: %q, want %q", requirements, got, want)
		}
		if names, err := carried(t, o, root); err != nil || len(names) != len(want) {
			t.Errorf("with %q: %q is carried, %v", requirements, names, err)
		}
	}
}

func TestDependenciesOfOneNameHaveFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	o := objects{}
	root := o.chart(dependencies("db 1.0.0", "db 1.1.0", "db 1.1.0", "db-1.1.0 3.0.0"))
	if names, err := carried(t, o, root); err != nil ||
		!slices.Equal(names, []string{"db", "db-1.1.0", "db-1.1.0-3.0.0"}) {
		t.Errorf("got %q, %v", names, err)
	}
}

// A dependency never mixes its files with those of another chart.
func TestADependencyWithoutAPlaceIsRefused(t *testing.T) {
	t.Parallel()
	o := objects{}
	vendored := entry{modeFolder, "charts", o.tree(entry{
		modeFolder, "db-1.1.0",
		o.tree(entry{modeFile, "x", o.blob("x")}),
	})}
	refusesDependency(t, o, o.chart(dependencies("db 1.0.0", "db 1.1.0"), vendored), "Chart.yaml line 3",
		`"charts/db-1.1.0"`)
	refusesDependency(t, o, o.chart(dependencies("db 1.0.0", "db-1.1.0 1.1.0", "db 1.1.0")), "Chart.yaml line 4",
		`"charts/db-1.1.0"`)
	refusesDependency(t, o, o.chart(dependencies("db 1.0.0", "db 1.0.0 https://a.example.com",
		"db 1.0.0 https://b.example.com")), "Chart.yaml line 4", `"charts/db-1.0.0"`)
	link := []entry{{modeLink, "charts", o.blob("lib")}, {modeFolder, "lib", o.tree(entry{modeFile, "x", o.blob("x")})}}
	refusesDependency(t, o, o.chart(dependencies("db 1.0.0"), link...), "Chart.yaml line 2", `"charts"`, "a link")
	refusesDependency(t, o, o.chart(dependencies("db 1.0.0"), entry{modeFile, "charts", o.blob("x")}),
		"Chart.yaml line 2", `"charts"`, "a file")
}

func TestDependenciesOfAFolderHaveALimit(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 3 * maxDependencies {
		all = append(all, fmt.Sprintf("db%d 1.0.0", i))
	}
	o := objects{}
	if _, err := carried(t, o, o.chart(dependencies(all[:maxDependencies]...))); err != nil {
		t.Error(err)
	}
	root := o.chart(dependencies(all...))
	refusesDependency(t, o, root, fmt.Sprintf("Chart.yaml line %d", maxDependencies+2),
		fmt.Sprintf("limit of %d", maxDependencies))
	if got := wanted(t, o, root); len(got) != maxDependencies+1 {
		t.Errorf("%d are wanted", len(got))
	}
}
