package kustomization

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// RemoteDependency is one of a chart that Helm takes from a repository of charts.
type RemoteDependency struct {
	Name, Version, Repository string
	Line                      int // of the file
}

// RemoteDependencies are those of a Chart.yaml or requirements.yaml, or of its lock, whose repository is neither a
// folder nor empty.
func RemoteDependencies(content []byte) []RemoteDependency {
	var c collector
	var found []RemoteDependency
	for _, root := range documents(content) {
		for key, value := range pairs(root) {
			if key != "dependencies" {
				continue
			}
			for item := range items(value) {
				if c.full() || len(found) >= Max {
					return found
				}
				if one := remoteDependency(item, &c); one.Repository != "" && !strings.HasPrefix(one.Repository, "file://") {
					found = append(found, one)
				}
			}
		}
	}
	return found
}

// HasDependencies tells whether a Chart.yaml or requirements.yaml has a list of dependencies, be it empty.
func HasDependencies(content []byte) bool {
	for _, root := range documents(content) {
		for key := range pairs(root) {
			if key == "dependencies" {
				return true
			}
		}
	}
	return false
}

func remoteDependency(item *yaml.Node, c *collector) RemoteDependency {
	one := RemoteDependency{Line: item.Line}
	for key, value := range pairs(item) {
		if c.full() {
			return one
		}
		switch value := target(value).Value; key {
		case "name":
			one.Name = value
		case "version":
			one.Version = value
		case "repository":
			one.Repository = value
		}
	}
	return one
}
