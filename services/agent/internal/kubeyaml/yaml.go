package kubeyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/services/agent/internal/object"
)

// chunks reads the documents of a file one by one, so that a mistake can name its document.
func (p *Reader) chunks(at Position, chunks iter.Seq2[chunk, error], as Dialect) error {
	for chunk, err := range chunks {
		if mistake, ok := errors.AsType[*Error](err); ok {
			mistake.Position.File, mistake.Position.Document = at.File, at.Document+1
			return err
		}
		if chunk.empty() {
			continue
		}
		at.Document++
		at.Line = chunk.line
		if err := p.chunk(at, chunk, as); err != nil {
			return err
		}
	}
	return nil
}

// recall asks the memo for a document.
func (p *Reader) recall(at *Position, chunk chunk) (bool, error) {
	at.Text = 0
	if p.memo == nil || bytes.Contains(chunk.data, []byte("\n...")) { // text after the mark is told each time
		return false, nil
	}
	at.Text = object.SumOf(chunk.data)
	known, err := p.memo(Position{File: at.File, Document: at.Document, Line: chunk.begin(), Text: at.Text})
	if known {
		p.documents++
	}
	return known, err
}

// chunk reads the text between two separators. The chunk is one document: kubectl and Helm ignore what follows a line
// "...".
func (p *Reader) chunk(at Position, chunk chunk, as Dialect) error {
	if known, err := p.recall(&at, chunk); known || err != nil {
		return err
	}
	value, err := p.decode(&at, chunk, as)
	if err == nil && as == HelmTemplate && isHelmHook(value) {
		// Helm sends a hook as it was written, and anything else with one more line break: a block scalar that keeps
		// its end shows that.
		chunk.data = endLine(bytes.TrimSuffix(chunk.data, []byte("\n")))
		value, err = p.decode(&at, chunk, as)
	}
	if err != nil || value == nil {
		return err
	}
	return p.take(at, value)
}

func isHelmHook(value any) bool {
	content, _ := value.(map[string]any)
	metadata, _ := content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	_, ok := annotations["helm.sh/hook"]
	return ok
}

// decode parses the document of a chunk, and notes the line where it begins.
func (p *Reader) decode(at *Position, chunk chunk, as Dialect) (any, error) {
	if chunk.marks() > maxMarks {
		return nil, &Error{Position: *at, Line: chunk.line, Problem: fmt.Sprintf("the document has more than %d values. Split it", maxMarks)}
	}
	data := chunk.data
	if bytes.Contains(data, []byte("\r\n")) {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(*at, chunk.line, err)
	}
	if len(root.Content) == 0 || isNull(root.Content[0]) {
		return nil, nil
	}
	at.Line = chunk.line + root.Content[0].Line - 1
	if bytes.Contains(data, []byte("\n...")) && !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		p.warn(*at, 0, `text after a line "..." is left out, as kubectl and Helm do. Begin it with a line "---"`)
	}
	c := &converter{parser: p, at: *at, offset: chunk.line - 1, lastWins: as != Plain}
	return c.value(root.Content[0], 0)
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// chunk is a piece of a file from one separator to the next.
type chunk struct {
	data []byte
	// line of the file where the piece begins, from 1.
	line int
}

// blanks are what YAML takes for space.
const blanks = " \t\r\n"

// empty tells pieces without content. A piece before the first separator may hold directives only.
func (c chunk) empty() bool {
	for line := range bytes.Lines(c.data) {
		if mark(line) {
			line = line[3:]
		}
		line = bytes.Trim(line, blanks)
		if len(line) > 0 && line[0] != '%' && (line[0] != '#' || bytes.ContainsAny(line, "\r\u0085\u2028\u2029")) { // these end a line, too
			return false
		}
	}
	return true
}

// begin is the line of the file where the content begins.
func (c chunk) begin() int {
	number := c.line
	for line := range bytes.Lines(c.data) {
		separated := mark(line)
		if line = bytes.Trim(line, blanks); len(line) > 0 && line[0] != '#' && line[0] != '%' && !separated {
			break
		}
		number++
	}
	return number
}

// mark tells the line that begins a document in YAML.
func mark(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || bytes.IndexByte([]byte(blanks), line[3]) >= 0)
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

// invalidYAML begins what is said of text that can't be parsed.
const invalidYAML = "is no valid YAML: "

// syntaxError moves the parser's line number from the piece to the file.
func syntaxError(at Position, first int, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	number := regexp.MustCompile(`^line (\d+): `)
	match := number.FindStringSubmatch(text)
	if match == nil {
		return &Error{Position: at, Line: first, Problem: invalidYAML + text}
	}
	line, _ := strconv.Atoi(match[1])
	return &Error{Position: at, Line: first + line - 1, Problem: invalidYAML + text[len(match[0]):]}
}

// converter turns parsed YAML into the types of JSON that client-go works on.
type converter struct {
	parser *Reader
	at     Position
	// offset is added to the parser's line numbers.
	offset int
	// lastWins: of a key that is there twice the last value counts.
	lastWins bool
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
	var merged map[string]bool // keys that a merge has set, and that may be written out after it
	for i := 0; i+1 < len(node.Content); i += 2 {
		keyNode, valueNode := node.Content[i], node.Content[i+1]
		if keyNode.Kind == yaml.ScalarNode && keyNode.ShortTag() == "!!merge" {
			if merged == nil {
				merged = map[string]bool{}
			}
			if err := c.merge(fields, merged, valueNode, depth); err != nil {
				return nil, err
			}
			continue
		}
		key, err := c.key(keyNode)
		if err != nil {
			return nil, err
		}
		if _, twice := fields[key]; twice && !merged[key] {
			if !c.lastWins {
				return nil, c.fail(keyNode, fmt.Sprintf("key %q is there twice", key))
			}
			c.parser.warn(c.at, c.offset+keyNode.Line, fmt.Sprintf("key %q is there twice, and Helm takes the last", key))
		}
		value, err := c.value(valueNode, depth+1)
		if err != nil {
			return nil, err
		}
		fields[key] = value
	}
	return fields, nil
}

// merge sets what "<<" brings. As for kubectl and Helm it wins over keys that are written before it, and the first of
// several maps wins over those after it.
func (c *converter) merge(fields map[string]any, merged map[string]bool, node *yaml.Node, depth int) error {
	value, err := c.value(node, depth+1)
	if err != nil {
		return err
	}
	sources, ok := value.([]any)
	if !ok {
		sources = []any{value}
	}
	for _, source := range slices.Backward(sources) {
		more, ok := source.(map[string]any)
		if !ok {
			return c.fail(node, "a merge (<<) needs a map")
		}
		for key, value := range more {
			fields[key], merged[key] = value, true
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
	case "!!bool":
		if value, ok := oldBool(node.Value); ok {
			return value, nil
		}
		fallthrough
	case "!!int", "!!float", "!!binary":
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
