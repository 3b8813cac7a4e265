package child

import (
	"bytes"
	"fmt"
	"path"
	"slices"

	"helm.sh/helm/v4/pkg/ignore"

	"fairlead.dev/platform/artifact"
)

// chartFiles are the files of a chart's folder by their names in the chart, with links to files and folders
// followed as Helm does. An entry that .helmignore leaves out is not followed: it may lead anywhere.
func (j *job) chartFiles(root string, contents map[string][]byte) (map[string][]byte, error) {
	rules := ignore.Empty()
	if at, err := j.folder.Follow(path.Join(root, ignore.HelmIgnore)); err == nil {
		if rules, err = ignore.Parse(bytes.NewReader(contents[at])); err != nil {
			return nil, j.mistakeAt(path.Join(root, ignore.HelmIgnore), err.Error())
		}
	}
	rules.AddDefaults()
	x := &expansion{job: j, rules: rules, contents: contents, names: map[string][]string{}, files: map[string][]byte{}}
	for name := range j.folder.Paths() {
		x.names[path.Dir(name)] = append(x.names[path.Dir(name)], path.Base(name))
	}
	return x.files, x.addFolder("", []string{root})
}

// expansion is a chart whose links are being followed.
type expansion struct {
	job      *job
	rules    *ignore.Rules
	contents map[string][]byte   // by path in the artifact
	names    map[string][]string // by folder of the artifact
	files    map[string][]byte   // by name in the chart
}

// addFolder takes in what the last of ways holds as a folder of the chart. The others are the folders that it was come
// by.
func (x *expansion) addFolder(name string, ways []string) error {
	folder := ways[len(ways)-1]
	for _, base := range slices.Sorted(slices.Values(x.names[folder])) {
		name, at := path.Join(name, base), path.Join(folder, base)
		is, _ := x.job.folder.Node(at)
		if is.Link != "" {
			if isIgnored(x.rules, name) || x.rules.Ignore(name, entry{name: name, folder: true}) {
				continue
			}
			target, err := x.job.folder.Follow(at)
			if err != nil {
				return x.job.folder.Unfollowed(at, err)
			}
			if slices.Contains(ways, target) {
				return x.job.mistakeAt(at, "is a link to a folder that it is in: the chart would have no end")
			}
			at = target
			is, _ = x.job.folder.Node(at)
		}
		if is.Folder {
			if err := x.addFolder(name, append(slices.Clip(ways), at)); err != nil {
				return err
			}
			continue
		}
		if len(x.files) == artifact.DefaultFiles {
			return x.job.mistakeAt(at, fmt.Sprintf("is one file more than the limit of %d, with links followed", artifact.DefaultFiles))
		}
		x.files[name] = x.contents[at]
	}
	return nil
}
