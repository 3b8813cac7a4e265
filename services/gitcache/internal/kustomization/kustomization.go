// Package kustomization reads which files and folders a kustomization refers to, and which folders a chart takes
// dependencies from, without rendering anything. The package finds more than kustomize and Helm read rather than less:
// a reference that leads nowhere does no harm.
package kustomization

import (
	"bytes"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/platform/remotebase"
)

// Names of a kustomization's file, in the order in which kustomize looks for them.
func Names() []string { return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} }

// Reference is a path that a kustomization refers to, relative to its folder, or a folder of another repository.
type Reference struct {
	Path string // clean, but for ".." at its beginning; of a remote reference empty
	// Remote is the text of a reference that kustomize would fetch.
	Remote string
	Line   int // of the file, or of the text in it
	// Base: it may be a folder that is a kustomization of its own.
	Base bool
	// Plugin: it may be a file whose objects refer to files in turn, relative to the same folder.
	Plugin bool
}

// Max is how many references of one file are found at most: aliases make many of few bytes.
const Max = 10_000

// References are those of a kustomization's file.
func References(content []byte) []Reference {
	var c collector
	for _, root := range documents(content) {
		c.kustomization(root)
	}
	return c.found
}

// PluginReferences are those of a file that configures generators, transformers or validators.
func PluginReferences(content []byte) []Reference {
	var c collector
	for _, root := range documents(content) {
		c.plugin(root, 0)
	}
	return c.found
}

// documents parses YAML as far as it can be parsed: for what is wrong with the rest kustomize has the words.
func documents(content []byte) []*yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var roots []*yaml.Node
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if err != nil {
			return roots
		}
		roots = append(roots, document.Content...)
	}
}

// collector gathers references.
type collector struct {
	found []Reference
	// seen counts the values and pairs that were looked at.
	seen int
	// inline are the texts that were read as files of plugins: aliases may repeat them.
	inline map[*yaml.Node]bool
}

// full tells whether enough was seen.
func (c *collector) full() bool {
	c.seen++
	return c.seen > 10*Max || len(c.found) >= Max
}

// field is what a key of a kustomization holds.
type field struct {
	base, plugin bool
	keys         []string // of the mappings in it: these hold paths
}

// fields of a kustomization that refer to something. Those without keys are paths themselves, or lists of them.
func fields(key string) (field, bool) {
	switch key {
	case "resources", "bases", "components":
		return field{base: true}, true
	case "generators", "transformers", "validators":
		return field{base: true, plugin: true}, true
	case "crds", "configurations", "patchesStrategicMerge":
		return field{}, true
	case "patches", "patchesJson6902", "replacements", "openapi":
		return field{keys: []string{"path"}}, true
	case "configMapGenerator", "secretGenerator":
		return field{keys: []string{"files", "envs", "env"}}, true
	}
	return field{}, false
}

func (c *collector) kustomization(root *yaml.Node) {
	for key, value := range pairs(root) {
		if c.full() {
			return
		}
		is, ok := fields(key)
		if !ok {
			continue
		}
		for item := range items(value) {
			if c.full() {
				return
			}
			if len(is.keys) == 0 {
				c.remote(item, is)
				c.path(item, is)
				if item = target(item); is.plugin && item.Kind == yaml.ScalarNode && strings.Contains(item.Value, "\n") && !c.inline[item] {
					if c.inline == nil {
						c.inline = map[*yaml.Node]bool{}
					}
					c.inline[item] = true
					c.found = append(c.found, PluginReferences([]byte(item.Value))...) // written right there
				}
				continue
			}
			for key, value := range pairs(item) {
				if c.full() {
					return
				}
				for _, wanted := range is.keys {
					if key == wanted {
						c.paths(value, is)
					}
				}
			}
		}
	}
}

// maxDepth of the values in a plugin's file that are looked at.
const maxDepth = 32

// plugin looks for the keys that kustomize's own generators and transformers read files by.
func (c *collector) plugin(node *yaml.Node, depth int) {
	if depth > maxDepth || c.full() {
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			c.plugin(item, depth+1)
		}
	case yaml.MappingNode:
		for key, value := range pairs(node) {
			if c.full() {
				return
			}
			switch key {
			case "path", "paths", "files", "envs", "env", "targetFilePath", "argsFromFile":
				c.paths(value, field{})
			default:
				c.plugin(value, depth+1)
			}
		}
	}
}

// paths takes a path, or a list of them.
func (c *collector) paths(node *yaml.Node, is field) {
	for item := range items(node) {
		if c.full() {
			return
		}
		c.path(item, is)
	}
}

// path takes a text that may be one. A generator's file may have a key before it, and the name may have the sign, too.
func (c *collector) path(node *yaml.Node, is field) {
	node = target(node)
	if node.Kind != yaml.ScalarNode {
		return
	}
	c.add(node.Value, is, node.Line)
	if _, file, ok := strings.Cut(node.Value, "="); ok && !strings.Contains(node.Value, "://") {
		c.add(file, is, node.Line)
	}
}

// remote takes a text that kustomize would fetch. Of the plugins that may be such a text, none is followed.
func (c *collector) remote(node *yaml.Node, is field) {
	line := node.Line
	if node = target(node); node.Kind != yaml.ScalarNode || !is.base || is.plugin {
		return
	}
	if _, isRemote, _ := remotebase.Parse(node.Value); isRemote {
		c.found = append(c.found, Reference{Remote: node.Value, Line: line, Base: true})
	}
}

// maxPath is the longest path that an artifact has, in bytes, with the folder that it is relative to.
const maxPath = 2048

func (c *collector) add(text string, is field, line int) {
	if text == "" || len(text) > maxPath || strings.HasPrefix(text, "/") || strings.Contains(text, "\n") || strings.Contains(text, "://") {
		return
	}
	c.found = append(c.found, Reference{Path: path.Clean(text), Line: line, Base: is.base, Plugin: is.plugin})
}
