package catalogyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// YAML writes resources as documents that can be applied again. Lines are not folded, so that
// messages can be searched for.
func YAML(messages ...Message) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for _, m := range messages {
		tree, err := document(m)
		if err != nil {
			return nil, err
		}
		if err := enc.Encode(tree); err != nil {
			return nil, fmt.Errorf("write %s as YAML: %w", KindOf(m), err)
		}
	}
	return out.Bytes(), nil
}

// JSON writes one resource.
func JSON(m Message) ([]byte, error) {
	tree, err := document(m)
	if err != nil {
		return nil, err
	}
	return indent(tree)
}

// JSONList writes resources as a List that can be applied again.
func JSONList(messages ...Message) ([]byte, error) {
	items := make([]any, 0, len(messages))
	for _, m := range messages {
		tree, err := document(m)
		if err != nil {
			return nil, err
		}
		items = append(items, tree)
	}
	return indent(map[string]any{"apiVersion": APIVersion, "kind": list, "items": items})
}

func indent(tree any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(tree)
	return out.Bytes(), err
}

// Plain writes the fields of messages that are no resources together, as JSON.
func Plain(ms ...proto.Message) ([]byte, error) {
	tree, err := together(ms)
	if err != nil {
		return nil, err
	}
	return indent(tree)
}

// PlainYAML writes them as YAML.
func PlainYAML(ms ...proto.Message) ([]byte, error) {
	tree, err := together(ms)
	if err != nil {
		return nil, err
	}
	return encodeYAML(tree)
}

// Tree writes messages and plain values under names of their own, as JSON.
func Tree(values map[string]any) ([]byte, error) {
	tree, err := treeOf(values)
	if err != nil {
		return nil, err
	}
	return indent(tree)
}

// TreeYAML writes them as YAML.
func TreeYAML(values map[string]any) ([]byte, error) {
	tree, err := treeOf(values)
	if err != nil {
		return nil, err
	}
	return encodeYAML(tree)
}

func encodeYAML(tree map[string]any) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(tree)
	return out.Bytes(), err
}

func treeOf(values map[string]any) (map[string]any, error) {
	tree := make(map[string]any, len(values))
	for name, value := range values {
		tree[name] = value
		if m, ok := value.(proto.Message); ok {
			fields, err := plain(m)
			if err != nil {
				return nil, err
			}
			tree[name] = fields
		}
	}
	return tree, nil
}

func together(ms []proto.Message) (map[string]any, error) {
	all := map[string]any{}
	for _, m := range ms {
		tree, err := plain(m)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, tree)
	}
	return all, nil
}

// document is a message as plain data with its head.
func document(m Message) (map[string]any, error) {
	tree, err := plain(m)
	if err != nil {
		return nil, err
	}
	tree["apiVersion"] = APIVersion
	tree["kind"] = string(KindOf(m))
	return tree, nil
}

// plain is a message as plain data, with short enums. protojson's own text can't be used: it varies its spacing on
// purpose.
func plain(m proto.Message) (map[string]any, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	data, err := ParseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	tree, _ := data.(map[string]any) // as a message is
	shorten(tree, m.ProtoReflect().Descriptor())
	return tree, nil
}

// ParseJSON reads JSON as plain data, in which whole numbers stay whole.
func ParseJSON(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var data any
	if err := dec.Decode(&data); err != nil {
		return nil, err
	}
	return numbers(data), nil
}

// numbers makes numbers of what encoding/json left as text, for YAML to write them as such. 64-bit ones are text in
// protojson anyway.
func numbers(tree any) any {
	switch node := tree.(type) {
	case map[string]any:
		for key, value := range node {
			node[key] = numbers(value)
		}
	case []any:
		for i, value := range node {
			node[i] = numbers(value)
		}
	case json.Number:
		if n, err := node.Int64(); err == nil {
			return n
		}
		if n, err := node.Float64(); err == nil {
			return n
		}
	}
	return tree
}
