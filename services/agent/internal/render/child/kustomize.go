package child

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/kubeyaml"
)

// renderKustomize builds the root. Its file system is the service's folder and nothing else, so that is how far a base
// may be away.
func (j *job) renderKustomize() error {
	contents, err := j.readContents()
	if err != nil {
		return err
	}
	files := &folder{FileSystem: filesys.MakeFsInMemory(), service: j.folder, contents: contents}
	// A kustomization that the root does not reach may refer to anything.
	var refused error
	files.reached = func(name, as string, content []byte) ([]byte, error) {
		if !isKustomization(as) || refused != nil {
			return content, refused
		}
		dir := path.Dir(as)
		content = files.withBases(dir, content)
		refused = j.checkLocal(name, dir, content, files)
		return content, refused
	}
	options := krusty.MakeDefaultOptions() // no plugins, no Helm
	options.LoadRestrictions = types.LoadRestrictionsNone
	root := j.folder.Root()
	built, err := krusty.MakeKustomizer(options).Run(files, path.Join(mount, root))
	at := path.Join(root, "kustomization.yaml")
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return j.mistakeAt(at, "kustomize build: "+unmountPaths(err, files.outside))
	}
	for i, resource := range built.Resources() {
		fields, err := resource.Map()
		if err != nil {
			return j.mistakeAt(at, fmt.Sprintf("%s: %v", resource.CurId(), err))
		}
		place := kubeyaml.Position{File: j.folder.Shown(at), Item: i + 1}
		if err := kubeyaml.Check(fields, place); err != nil {
			return err
		}
		if err := j.tellObject(&unstructured.Unstructured{Object: fields}, place); err != nil {
			return err
		}
	}
	return nil
}

// unmountPaths are the words of an error with paths in the service's folder.
func unmountPaths(err, outside error) string {
	text := strings.ReplaceAll(strings.ReplaceAll(err.Error(), mount+"/", "/"), mount, "/")
	if outside != nil && !strings.Contains(text, outside.Error()) {
		text += ": " + outside.Error() // kustomize tries other ways to read what can't be read, and tells of the last
	}
	return artifact.Printable(text)
}

func isKustomization(name string) bool {
	switch path.Base(name) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return true
	}
	return false
}

// checkLocal refuses what a kustomization would fetch or run.
func (j *job) checkLocal(name, dir string, content []byte, files *folder) error {
	var root yaml.Node
	if yaml.NewDecoder(bytes.NewReader(content)).Decode(&root) != nil || len(root.Content) == 0 {
		return nil //nolint:nilerr // Kustomize has the better words
	}
	for i := 0; i+1 < len(root.Content[0].Content); i += 2 {
		key, value := root.Content[0].Content[i], root.Content[0].Content[i+1]
		switch key.Value {
		case "helmCharts", "helmChartInflationGenerator", "helmGlobals":
			return j.mistakeLine(name, key.Line, key.Value+
				" would fetch a chart, and nothing is fetched. Put the chart into the folder, and set render.renderer to helm")
		case "resources", "bases", "components":
			if err := j.localValue(place{name, dir, true}, value, files); err != nil {
				return err
			}
		case "crds", "configurations", "generators", "transformers", "validators", "patches",
			"patchesStrategicMerge", "patchesJson6902", "configMapGenerator", "secretGenerator", "replacements", "openapi":
			if err := j.localValue(place{name, dir, false}, value, files); err != nil {
				return err
			}
		}
	}
	return nil
}

// place is where references are written.
type place struct {
	file string
	dir  string // that kustomize sees the file in
	// bases: the references may be to other repositories.
	bases bool
}

// localValue looks at the paths in a field: a text of one line in a list, or below a key that takes a path. Of aliases
// only texts and lists of texts are looked at: they may lead back.
func (j *job) localValue(at place, node *yaml.Node, files *folder) error {
	switch node.Kind {
	case yaml.ScalarNode:
		if namesRemote(node.Value) && !files.Exists(path.Join(mount, at.dir, node.Value)) {
			remedy := "Copy it into the folder"
			if at.bases {
				remedy = files.adviseRemedy(node.Value)
			}
			return j.mistakeLine(at.file, node.Line, fmt.Sprintf("%q is not in the service's folder, and nothing is fetched. %s", node.Value, remedy))
		}
	case yaml.AliasNode:
		for _, one := range append([]*yaml.Node{node.Alias}, node.Alias.Content...) {
			if one.Kind == yaml.ScalarNode {
				if err := j.localValue(at, one, files); err != nil {
					return err
				}
			}
		}
	case yaml.SequenceNode:
		for _, item := range node.Content {
			if err := j.localValue(at, item, files); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			switch node.Content[i].Value {
			case "path", "files", "envs", "env":
				if err := j.localValue(at, node.Content[i+1], files); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// namesRemote tells texts that Kustomize takes for something to fetch.
func namesRemote(text string) bool {
	if strings.Contains(text, "\n") { // an object, written right there
		return false
	}
	for _, mark := range []string{"://", "git@", "git::", "?ref=", "?version=", "github.com", "gitlab.com", "bitbucket.org"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return strings.Contains(text, "//") || strings.HasSuffix(text, ".git")
}

// mistakeLine is a mistake in a line.
func (j *job) mistakeLine(file string, line int, problem string) error {
	return &kubeyaml.Error{Position: kubeyaml.Position{File: j.folder.Shown(file)}, Line: line, Problem: problem}
}
