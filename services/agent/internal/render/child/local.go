package child

import (
	"fmt"
	"path"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/util"
)

// addLocal adds the dependencies of a chart that are folders beside it (repository: file://../db) and not in its
// charts/, as `helm dependency build` does, and theirs. ways are the folders of the charts that lead to it, the last
// one its own.
func (j *job) addLocal(c *chart.Chart, ways []string, contents map[string][]byte) error {
	at := ways[len(ways)-1]
	for _, wanted := range c.Metadata.Dependencies {
		where, local := strings.CutPrefix(wanted.Repository, "file://")
		if !local || where == "" || path.IsAbs(where) || slices.ContainsFunc(c.Dependencies(), func(there *chart.Chart) bool {
			return there.Name() == wanted.Name && util.IsCompatibleRange(wanted.Version, there.Metadata.Version)
		}) {
			continue
		}
		folder, err := j.folder.Follow(path.Join(at, where))
		if is, _ := j.folder.Node(folder); err != nil || !is.Folder {
			continue // the folder is missing, as one that is nowhere
		}
		if slices.Contains(ways, folder) {
			return j.mistakeAt(path.Join(at, "Chart.yaml"),
				fmt.Sprintf("dependency %s (%s) leads back to a chart that it is a dependency of", wanted.Name, wanted.Repository))
		}
		files, err := j.chartFiles(folder, contents)
		if err != nil {
			return err
		}
		found, err := loadChart(files)
		if err != nil {
			return j.mistakeAt(folder, err.Error())
		}
		if found.Name() != wanted.Name || !util.IsCompatibleRange(wanted.Version, found.Metadata.Version) {
			return j.mistakeAt(path.Join(at, "Chart.yaml"), fmt.Sprintf("wants %s %s of %s, and there is %s %s",
				wanted.Name, wanted.Version, wanted.Repository, found.Name(), found.Metadata.Version))
		}
		if err := j.addLocal(found, append(slices.Clip(ways), folder), contents); err != nil {
			return err
		}
		if len(ways) == 1 {
			j.beside[path.Join("charts", found.Name())] = folder
		}
		c.AddDependency(found)
	}
	return nil
}
