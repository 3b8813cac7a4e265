package child

import (
	"fmt"
	"path"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// warnOutdated warns of dependencies in charts/ that Chart.lock has in another version. Helm renders them without a
// word.
func (j *job) warnOutdated(loaded *chart.Chart) {
	if loaded.Lock == nil {
		return
	}
	locked := map[string][]string{} // versions by name: a chart may be there twice
	for _, one := range loaded.Lock.Dependencies {
		if one != nil {
			locked[one.Name] = append(locked[one.Name], one.Version)
		}
	}
	for _, there := range loaded.Dependencies() {
		versions := locked[there.Name()]
		if len(versions) == 0 || slices.ContainsFunc(versions, func(version string) bool { return sameVersion(version, there.Metadata.Version) }) {
			continue
		}
		j.noteWarning(fmt.Sprintf("%s says %s %s, and charts/ has %s, which is rendered. Run `helm dependency build`, and push charts/.",
			j.folder.Shown(path.Join(j.folder.Root(), "Chart.lock")), there.Name(), strings.Join(slices.Compact(versions), " and "), there.Metadata.Version))
	}
}

func sameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }
