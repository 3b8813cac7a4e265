package kustomization

import (
	"iter"

	"go.yaml.in/yaml/v3"
)

// target is what an alias stands for.
func target(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}

// pairs are those of a mapping, and those that "<<" merges into it, one level deep; of other values there are none.
func pairs(node *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		node := target(node)
		if node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Tag != "!!merge" {
				if !yield(key.Value, value) {
					return
				}
				continue
			}
			for from := range items(value) {
				from = target(from)
				for i := 0; from.Kind == yaml.MappingNode && i+1 < len(from.Content); i += 2 {
					if !yield(from.Content[i].Value, from.Content[i+1]) {
						return
					}
				}
			}
		}
	}
}

// items are those of a list; any other value is its own only item.
func items(node *yaml.Node) iter.Seq[*yaml.Node] {
	return func(yield func(*yaml.Node) bool) {
		node := target(node)
		if node.Kind != yaml.SequenceNode {
			yield(node)
			return
		}
		for _, item := range node.Content {
			if !yield(item) {
				return
			}
		}
	}
}
