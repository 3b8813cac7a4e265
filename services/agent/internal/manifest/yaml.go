package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/services/agent/internal/object"
)

// yamlFile reads the documents of a file one by one, so that a mistake can name its document.
func (p *Reader) yamlFile(at Position, data []byte) error {
	for chunk := range documents(data) {
		if chunk.empty() {
			continue
		}
		at.Document++
		at.Line = chunk.line
		if err := p.yamlChunk(&at, chunk); err != nil {
			return err
		}
	}
	return nil
}

// recall asks the memo for a piece that is a single document.
func (p *Reader) recall(at *Position, chunk chunk) (bool, error) {
	at.Text = 0
	if p.memo == nil || bytes.Contains(chunk.data, []byte("\n...")) {
		return false, nil
	}
	at.Text = object.SumOf(chunk.data)
	known, err := p.memo(Position{File: at.File, Document: at.Document, Line: chunk.begin(), Text: at.Text})
	if known {
		p.documents++
	}
	return known, err
}

// yamlChunk reads what stands between two separators: one document, or more where "..." ends one.
func (p *Reader) yamlChunk(at *Position, chunk chunk) error {
	if known, err := p.recall(at, chunk); known || err != nil {
		return err
	}
	if chunk.marks() > maxMarks {
		return &Error{Position: *at, Line: chunk.line, Problem: fmt.Sprintf("the document has more than %d values. Split it", maxMarks)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(chunk.data))
	for first := true; ; first = false {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if !first {
			at.Document++
		}
		if err != nil {
			return syntaxError(*at, chunk.line, err)
		}
		if len(root.Content) == 0 || isNull(root.Content[0]) {
			continue
		}
		at.Line = chunk.line + root.Content[0].Line - 1
		c := &converter{parser: p, at: *at, offset: chunk.line - 1}
		value, err := c.value(root.Content[0], 0)
		if err != nil {
			return err
		}
		if err := p.document(*at, value); err != nil {
			return err
		}
	}
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// chunk is a piece of a file from one separator to the next.
type chunk struct {
	data []byte
	// line of the file where the piece begins, from 1.
	line int
}

// empty tells pieces without content. A piece before the first separator may hold directives only.
func (c chunk) empty() bool {
	for line := range bytes.Lines(c.data) {
		line = bytes.TrimSpace(line)
		if separator(line) {
			line = bytes.TrimSpace(line[3:])
		}
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// begin is the line of the file where the content begins.
func (c chunk) begin() int {
	number := c.line
	for line := range bytes.Lines(c.data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' && !separator(line) {
			break
		}
		number++
	}
	return number
}

// marks counts the bytes that can make the parser build a node.
func (c chunk) marks() int {
	var count int
	for _, b := range c.data {
		switch b {
		case ':', ',', '[', '{', '-', '?', '*':
			count++
		}
	}
	return count
}

// documents splits at lines that begin with "---". YAML allows no such line inside a document.
func documents(data []byte) func(yield func(chunk) bool) {
	return func(yield func(chunk) bool) {
		var start, offset, line int
		first := 1
		for text := range bytes.Lines(data) {
			line++
			if separator(text) && offset > start {
				if !yield(chunk{data: data[start:offset], line: first}) {
					return
				}
				start, first = offset, line
			}
			offset += len(text)
		}
		if offset > start {
			yield(chunk{data: data[start:offset], line: first})
		}
	}
}

func separator(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3])))
}

// syntaxError moves the parser's line number from the piece to the file.
func syntaxError(at Position, first int, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	number := regexp.MustCompile(`^line (\d+): `)
	match := number.FindStringSubmatch(text)
	if match == nil {
		return &Error{Position: at, Line: first, Problem: "is no valid YAML: " + text}
	}
	line, _ := strconv.Atoi(match[1])
	return &Error{Position: at, Line: first + line - 1, Problem: "is no valid YAML: " + text[len(match[0]):]}
}

// converter turns parsed YAML into the types of JSON that client-go works on.
type converter struct {
	parser *Reader
	at     Position
	// offset is added to the parser's line numbers.
	offset int
	// aliased counts values made while inside an alias, copied their bytes; aliases is how deep we are in them.
	aliased, copied, aliases int
}

func (c *converter) fail(node *yaml.Node, problem string) error {
	return &Error{Position: c.at, Line: c.offset + node.Line, Problem: problem}
}

func (c *converter) value(node *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, c.fail(node, fmt.Sprintf("is nested more than %d levels deep", maxDepth))
	}
	if err := c.count(node); err != nil {
		return nil, err
	}
	switch node.Kind {
	case yaml.AliasNode:
		c.aliases++
		defer func() { c.aliases-- }()
		return c.value(node.Alias, depth+1)
	case yaml.MappingNode:
		return c.mapping(node, depth)
	case yaml.SequenceNode:
		return c.sequence(node, depth)
	case yaml.ScalarNode:
		return c.scalar(node)
	}
	return nil, c.fail(node, "is no valid YAML")
}

func (c *converter) count(node *yaml.Node) error {
	if c.parser.nodes++; c.parser.nodes > maxNodes {
		c.parser.exhausted = true
		return c.fail(node, fmt.Sprintf("the folder has more than %d values. Split the service", maxNodes))
	}
	if c.aliases > 0 {
		if c.aliased++; c.aliased > maxAliased {
			return c.fail(node, fmt.Sprintf("aliases repeat more than %d values. Write them out", maxAliased))
		}
		if c.copied += len(node.Value); c.copied > maxAliasedBytes {
			return c.fail(node, fmt.Sprintf("aliases repeat more than %d bytes. Write them out", maxAliasedBytes))
		}
	}
	return nil
}

func (c *converter) sequence(node *yaml.Node, depth int) (any, error) {
	if tag := node.ShortTag(); tag != "!!seq" {
		return nil, c.fail(node, "tag "+tag+" is not supported")
	}
	list := make([]any, 0, len(node.Content))
	for _, item := range node.Content {
		value, err := c.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func (c *converter) mapping(node *yaml.Node, depth int) (any, error) {
	if tag := node.ShortTag(); tag != "!!map" {
		return nil, c.fail(node, "tag "+tag+" is not supported")
	}
	fields := make(map[string]any, len(node.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		keyNode, valueNode := node.Content[i], node.Content[i+1]
		if keyNode.Kind == yaml.ScalarNode && keyNode.ShortTag() == "!!merge" {
			merges = append(merges, valueNode)
			continue
		}
		key, err := c.key(keyNode)
		if err != nil {
			return nil, err
		}
		if _, twice := fields[key]; twice {
			return nil, c.fail(keyNode, fmt.Sprintf("key %q is there twice", key))
		}
		value, err := c.value(valueNode, depth+1)
		if err != nil {
			return nil, err
		}
		fields[key] = value
	}
	for _, merge := range merges {
		if err := c.merge(fields, merge, depth); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// merge adds what "<<" brings. A key that is written out wins, and so does an earlier merge.
func (c *converter) merge(fields map[string]any, node *yaml.Node, depth int) error {
	value, err := c.value(node, depth+1)
	if err != nil {
		return err
	}
	sources, ok := value.([]any)
	if !ok {
		sources = []any{value}
	}
	for _, source := range sources {
		more, ok := source.(map[string]any)
		if !ok {
			return c.fail(node, "a merge (<<) needs a map")
		}
		for key, value := range more {
			if _, ok := fields[key]; !ok {
				fields[key] = value
			}
		}
	}
	return nil
}

func (c *converter) key(node *yaml.Node) (string, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
		c.aliases++
		defer func() { c.aliases-- }()
	}
	if err := c.count(node); err != nil {
		return "", err
	}
	if node.Kind != yaml.ScalarNode {
		return "", c.fail(node, "a key must be a string")
	}
	value, err := c.scalar(node)
	if err != nil {
		return "", err
	}
	switch value := value.(type) {
	case string:
		return value, nil
	case nil:
		return "null", nil
	case bool, int64:
		return fmt.Sprint(value), nil
	}
	return "", c.fail(node, "a key must be a string: put it in quotes")
}

func (c *converter) scalar(node *yaml.Node) (any, error) {
	switch tag := node.ShortTag(); tag {
	case "!!str", "!!timestamp":
		if node.Style == 0 {
			if value, ok := oldBool(node.Value); ok {
				return value, nil
			}
		}
		return node.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float", "!!binary":
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, c.fail(node, "is no valid value of type "+strings.TrimPrefix(tag, "!!"))
		}
		return c.number(node, value)
	default:
		return nil, c.fail(node, "tag "+tag+" is not supported")
	}
}

// oldBool reads the words that YAML 1.1, and so kubectl, takes for booleans.
func oldBool(text string) (value, ok bool) {
	switch text {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

// number brings a scalar to the types that client-go can copy: bool, int64, float64, string.
func (c *converter) number(node *yaml.Node, value any) (any, error) {
	switch value := value.(type) {
	case int:
		return int64(value), nil
	case uint64:
		return float64(value), nil
	case float64:
		if math.IsInf(value, 0) || math.IsNaN(value) {
			return nil, c.fail(node, "infinity and NaN are no values in Kubernetes")
		}
		// JSON knows one number type: 1.0 and 1 are the same there, and fields of type integer take both.
		if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
			return int64(value), nil
		}
		return value, nil
	case int64, bool, string:
		return value, nil
	}
	return nil, c.fail(node, "is a value of no known type")
}
