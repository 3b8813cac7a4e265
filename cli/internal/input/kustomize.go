package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/cli/internal/kubectl"
)

// buildKustomization builds a folder with kubectl, which has Kustomize in it: linked in, that would make this program
// half as large again. kubectl fetches nothing and runs no plugin: the files on the disk are applied.
func buildKustomization(ctx context.Context, folder string) ([]byte, error) {
	if strings.Contains(folder, "://") {
		return nil, fmt.Errorf("-k %s: must be a folder on this machine: nothing is fetched", folder)
	}
	if findKustomization(folder) == "" {
		return nil, fmt.Errorf("-k %s: must be a folder with a kustomization.yaml", folder)
	}
	if err := requireLocal(folder, map[string]bool{}); err != nil {
		return nil, err
	}
	program, err := kubectl.Find()
	if err != nil {
		return nil, fmt.Errorf("-k %s: Kustomize is in kubectl: %w", folder, err)
	}
	var failure bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "kustomize", "--", folder)
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return nil, fmt.Errorf("-k %s: %s", folder, strings.TrimPrefix(strings.TrimSpace(failure.String()), "error: "))
	}
	if err != nil {
		return nil, fmt.Errorf("-k %s: %w", folder, err)
	}
	return out, nil
}

// findKustomization returns the file that makes a folder one of Kustomize's, or "".
func findKustomization(folder string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil && !info.IsDir() {
			return filepath.Join(folder, name)
		}
	}
	return ""
}

// requireLocal refuses kustomizations, of a folder and those that it is made of, that name what is not there: Kustomize
// would fetch that.
func requireLocal(folder string, seen map[string]bool) error {
	name := findKustomization(folder)
	if name == "" || seen[name] {
		return nil // no folder of Kustomize's, or one that is looked at: it has the better words
	}
	seen[name] = true
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var root yaml.Node
	if yaml.NewDecoder(bytes.NewReader(data)).Decode(&root) != nil || len(root.Content) == 0 ||
		root.Content[0].Kind != yaml.MappingNode {
		return nil //nolint:nilerr // Kustomize has the better words
	}
	fields := root.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		if strings.HasPrefix(fields[i].Value, "helm") {
			return fmt.Errorf("%s:%d: %s would fetch a chart, and nothing is fetched", name, fields[i].Line,
				fields[i].Value)
		}
		if !slices.Contains([]string{
			"resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators",
		}, fields[i].Value) {
			if found := findRemote(fields[i+1]); found != nil {
				return refuseElsewhere(name, found)
			}
			continue
		}
		for _, item := range fields[i+1].Content {
			if strings.Contains(item.Value, "\n") {
				continue // an object, written right there
			}
			path := filepath.Join(folder, item.Value)
			if _, err := os.Stat(path); err != nil {
				return refuseElsewhere(name, item)
			}
			if err := requireLocal(path, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// findRemote finds a path that is an address.
func findRemote(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && (strings.HasPrefix(n.Value, "http://") || strings.HasPrefix(n.Value, "https://")) {
		return n
	}
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && (i%2 == 0 || item.Kind == yaml.ScalarNode && n.Content[i-1].Value != "path") {
			continue // a key, or a value that is no path
		}
		if n.Kind == yaml.MappingNode && n.Content[i-1].Value == "literals" {
			continue
		}
		if found := findRemote(item); found != nil {
			return found
		}
	}
	return nil
}

func refuseElsewhere(name string, n *yaml.Node) error {
	return fmt.Errorf("%s:%d: %q is not on this machine, and nothing is fetched: copy it into the folder", name, n.Line, n.Value)
}
