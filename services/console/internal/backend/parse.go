package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds how deep a file is nested, and maxNodes how much is in it with what its aliases repeat.
	maxDepth = 64
	maxNodes = 100_000
)

// entry is a member of a map. The order is that of the file: the checksum of SOPS goes along it.
type entry struct {
	key   string
	value any // nil, scalar, []any or []entry
}

// scalar is a value as it is written, and its tag in YAML.
type scalar struct{ tag, text string }

// parse reads a file. Values that SOPS has encrypted are opened.
func parse(format string, data []byte, identities []age.Identity) (Values, error) {
	var tree []entry
	var err error
	if format == ".env" {
		tree, err = parseEnv(data)
	} else {
		tree, err = parseYAML(data) // JSON, too: it is a part of it
	}
	if err != nil {
		return nil, err
	}
	if tree, err = unseal(format, tree, identities); err != nil {
		return nil, err
	}
	values := flat{values: Values{}}
	if err := values.walk("", tree); err != nil {
		return nil, err
	}
	return values.values, nil
}

func (f *flat) walk(prefix string, tree []entry) error {
	for _, e := range tree {
		name := prefix + e.key
		var err error
		switch n := e.value.(type) {
		case []entry:
			err = f.walk(name+".", n)
		case []any:
			var text []byte
			if text, err = json.Marshal(plain(n)); err == nil {
				err = f.put(name, string(text))
			}
		case scalar:
			err = f.put(name, n.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain is a node as encoding/json knows it.
func plain(node any) any {
	switch n := node.(type) {
	case []any:
		out := make([]any, len(n))
		for i := range n {
			out[i] = plain(n[i])
		}
		return out
	case []entry:
		out := make(map[string]any, len(n))
		for _, e := range n {
			out[e.key] = plain(e.value)
		}
		return out
	case scalar:
		switch n.tag {
		case "!!bool":
			return strings.EqualFold(n.text, "true")
		case "!!int", "!!float":
			if json.Valid([]byte(n.text)) {
				return json.Number(n.text)
			}
		}
		return n.text
	}
	return nil
}

func parseYAML(data []byte) ([]entry, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, errors.New("is neither YAML nor JSON") // the decoder may quote it
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	t := tree{}
	node, err := t.take(document.Content[0], 0)
	if err != nil {
		return nil, err
	}
	top, ok := node.([]entry)
	if !ok {
		return nil, errors.New("must be a map of values")
	}
	return top, nil
}

// tree counts what is taken of a document.
type tree struct{ nodes int }

func (t *tree) take(n *yaml.Node, depth int) (any, error) {
	if t.nodes++; t.nodes > maxNodes || depth > maxDepth {
		return nil, fmt.Errorf("%w, or is nested too deep", ErrTooLarge)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return t.take(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			var err error
			if out[i], err = t.take(c, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case yaml.MappingNode:
		return t.members(n, depth)
	default:
		if n.Tag == "!!null" {
			return nil, nil //nolint:nilnil // null is a value
		}
		return scalar{n.Tag, n.Value}, nil
	}
}

func (t *tree) members(n *yaml.Node, depth int) ([]entry, error) {
	out := make([]entry, 0, len(n.Content)/2)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, fmt.Errorf("line %d: keys must be texts", key.Line)
		}
		if seen[key.Value] {
			return nil, fmt.Errorf("line %d: has the key %q twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		value, err := t.take(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{key.Value, value})
	}
	return out, nil
}

// parseEnv reads lines of NAME=value. A value may be in quotes; \n in it is a line break, as SOPS writes it.
func parseEnv(data []byte) ([]entry, error) {
	var out []entry
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if text := strings.TrimSpace(line); text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("line %d: must be NAME=value", number)
		}
		if seen[name] {
			return nil, fmt.Errorf("line %d: has the key %q twice", number, name)
		}
		seen[name] = true
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		out = append(out, entry{name, scalar{"!!str", strings.ReplaceAll(value, `\n`, "\n")}})
	}
	return out, nil
}
