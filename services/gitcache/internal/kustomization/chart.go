package kustomization

import (
	"path"
	"strings"
)

// Dependency is one of a chart that Helm takes from a folder.
type Dependency struct {
	Name string
	Path string // relative to the folder of the chart; clean, but for ".." at its beginning
}

// LocalDependencies are those of a Chart.yaml or requirements.yaml whose repository is a relative file:// URL.
func LocalDependencies(content []byte) []Dependency {
	var c collector
	var found []Dependency
	for _, root := range documents(content) {
		for key, value := range pairs(root) {
			if key != "dependencies" {
				continue
			}
			for item := range items(value) {
				var one Dependency
				for key, value := range pairs(item) {
					if c.full() {
						return found
					}
					switch value = target(value); key {
					case "name":
						one.Name = value.Value
					case "repository":
						one.Path, _ = strings.CutPrefix(value.Value, "file://")
						if one.Path == value.Value || path.IsAbs(one.Path) {
							one.Path = ""
						}
					}
				}
				if one.Path == "" || len(found) >= Max {
					continue
				}
				one.Path = path.Clean(one.Path)
				found = append(found, one)
			}
		}
	}
	return found
}
