package catalogyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/platform/typo"
)

// Reader reads files that together may hold no more than one: aliases make much of little.
type Reader struct {
	nodes   int
	stopped bool
}

// Stopped says that a limit was met: nothing more is to be read.
func (r *Reader) Stopped() bool { return r.stopped }

// Decode reads all documents of one file.
func Decode(file string, data []byte) ([]*Object, error) { return new(Reader).Decode(file, data) }

// Decode reads all documents of a file. The error is Problems. An object that has no problem by itself is returned
// besides the error, for Validate to find problems there, too.
func (r *Reader) Decode(file string, data []byte) ([]*Object, error) {
	d := &decoder{reader: r, file: file}
	if len(data) > MaxFileBytes {
		d.report(1, "is larger than %d MiB: split the file", MaxFileBytes>>20)
		return nil, d.problems
	}
	if line := notUTF8(data); line > 0 {
		d.report(line, "not YAML: there are bytes that are no UTF-8: save the file in that encoding")
		return nil, d.problems
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := reader.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, message := splitYAMLError(err)
			line, message = clearer(line, message, data)
			d.subject, d.ref = "", ""
			d.report(line, "not YAML: %s", message)
			break
		}
		d.document(&doc)
		if d.reader.stopped {
			break
		}
	}
	if len(d.problems) > 0 {
		return d.objects, d.problems
	}
	return d.objects, nil
}

// splitYAMLError takes "yaml: line 3: mapping values are not allowed in this context" apart.
func splitYAMLError(err error) (int, string) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	rest, ok := strings.CutPrefix(text, "line ")
	if number, message, found := strings.Cut(rest, ": "); ok && found {
		if line, err := strconv.Atoi(number); err == nil {
			return line, message
		}
	}
	return 1, text
}

// notUTF8 is the first line with bytes that are no UTF-8; 0: there is none, or a mark says that it is UTF-16.
func notUTF8(data []byte) int {
	if utf8.Valid(data) || bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return 0
	}
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			break
		}
	}
	return line
}

// clearer says what to do about mistakes of which the library speaks in its own terms.
func clearer(line int, message string, data []byte) (int, string) {
	lines := strings.Split(string(data), "\n")
	name, isAnchor := strings.CutPrefix(message, "unknown anchor '")
	switch {
	case isAnchor:
		name, _, _ = strings.Cut(name, "'")
		for i, text := range lines {
			if strings.Contains(text, "*"+name) {
				line = i + 1
				break
			}
		}
		return line, fmt.Sprintf("*%s stands for what &%s names, and there is no &%s before it: write it in quotes if it is text", name, name, name)
	case message != "found character that cannot start any token":
	case line <= len(lines) && strings.HasPrefix(strings.TrimLeft(lines[line-1], " "), "\t"):
		return line, "a tab begins the line: indent with spaces"
	default:
		return line, message + ", such as @, ` or a tab: write the value in quotes"
	}
	return line, message
}

type decoder struct {
	reader   *Reader
	file     string
	objects  []*Object
	problems Problems

	// Of the document at hand:
	object  *Object
	subject string
	ref     string
}

func (d *decoder) report(line int, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Subject: d.subject, Ref: d.ref, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) document(doc *yaml.Node) {
	d.subject, d.ref = "", ""
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return
	}
	d.resource(resolve(doc.Content[0]), 0)
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// resource decodes one resource, or a list of them.
func (d *decoder) resource(root *yaml.Node, depth int) {
	d.subject, d.ref = "", ""
	if len(d.objects) >= maxObjects {
		d.report(root.Line, "more than %d resources: split the file", maxObjects)
		d.reader.stopped = true
		return
	}
	if root.Kind != yaml.MappingNode {
		d.report(root.Line, "a document must have fields: apiVersion, kind, metadata and spec")
		return
	}
	kind := Kind(scalar(find(root, "kind")))
	if !d.checkHead(root, kind) {
		return
	}
	if kind == list {
		d.list(root, depth)
		return
	}
	d.object = &Object{Message: kind.new(), File: d.file, Line: root.Line, lines: map[string]int{}}
	name := scalar(find(find(root, "metadata"), "name"))
	d.subject, d.ref = subject(kind, name), refTo(kind, name)
	before := len(d.problems)
	value := d.message(root, d.object.Message.ProtoReflect().Descriptor(), path{}, 0)
	if len(d.problems) > before {
		return
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = protojson.Unmarshal(text, d.object.Message)
	}
	if err != nil { // Checked above as far as we know how.
		d.report(root.Line, "%v", err)
		return
	}
	d.objects = append(d.objects, d.object)
}

func (d *decoder) list(root *yaml.Node, depth int) {
	items := find(root, "items")
	if depth > 0 || items == nil || items.Kind != yaml.SequenceNode {
		d.report(root.Line, "a List must have items, which are no lists themselves")
		return
	}
	for _, item := range items.Content {
		if d.resource(resolve(item), depth+1); d.reader.stopped {
			return
		}
	}
}

// checkHead looks at apiVersion and kind.
func (d *decoder) checkHead(root *yaml.Node, kind Kind) bool {
	version := find(root, "apiVersion")
	switch {
	case kind != list && kind.new() == nil:
		line := root.Line
		if n := find(root, "kind"); n != nil {
			line = n.Line
		}
		d.report(line, "kind %q: must be %s%s", kind, orList(Kinds()), hint(string(kind), version))
		return false
	case version == nil:
		d.report(root.Line, "apiVersion is missing: write apiVersion: %s", APIVersion)
		return false
	case scalar(version) != APIVersion:
		d.report(version.Line, "apiVersion %q: must be %s%s", scalar(version), APIVersion, notOurs(version))
		return false
	}
	return true
}

// hint helps with what people mix up.
func hint(kind string, version *yaml.Node) string {
	if text := notOurs(version); text != "" {
		return text // a ConfigMap is no ConfigSet
	}
	if near := typo.Nearest(kind, kindNames()); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// notOurs helps who applies what is meant for a cluster: Service is a kind of both.
func notOurs(version *yaml.Node) string {
	if version != nil && !strings.HasPrefix(scalar(version), "fairlead.dev/") {
		return ". Kubernetes objects belong into the repository of a source, not here"
	}
	return ""
}

func kindNames() []string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return names
}

func orList(kinds []Kind) string {
	var b strings.Builder
	for i, k := range kinds {
		switch {
		case i > 0 && i == len(kinds)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}

// find returns the value of a key; nil if n has none.
func find(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// path names a field for people (as in YAML) and for protovalidate (as in proto).
type path struct{ yaml, proto string }

func (p path) field(fd protoreflect.FieldDescriptor) path {
	return path{join(p.yaml, fd.JSONName()), join(p.proto, string(fd.Name()))}
}

func (p path) key(key string) path {
	return path{p.yaml + "[" + strconv.Quote(key) + "]", p.proto + "[" + strconv.Quote(key) + "]"}
}

func (p path) index(i int) path {
	return path{fmt.Sprintf("%s[%d]", p.yaml, i), fmt.Sprintf("%s[%d]", p.proto, i)}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}

// bounded counts a node and reports when it is one too many or too deep.
func (d *decoder) bounded(n *yaml.Node, depth int) bool {
	d.reader.nodes += 1 + len(n.Value)/nodeBytes
	if d.reader.nodes > maxNodes || depth > maxDepth {
		if !d.reader.stopped {
			d.report(n.Line, "nested too deep, or too large with what aliases repeat: split it")
		}
		d.reader.stopped = true
	}
	return !d.reader.stopped
}

// message turns a mapping into what protojson reads as a message.
func (d *decoder) message(n *yaml.Node, md protoreflect.MessageDescriptor, at path, depth int) any {
	if n = resolve(n); !d.bounded(n, depth) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		fields := d.settable(md, at)
		if oneofs := md.Oneofs(); oneofs.Len() == 1 && oneofs.Get(0).Fields().Len() == md.Fields().Len() {
			d.report(n.Line, "%s: must have one of the fields %s: {%s: ...}", at.yaml, strings.Join(fields, ", "), fields[0])
		} else {
			d.report(n.Line, "%s: must have fields: %s", at.yaml, strings.Join(fields, ", "))
		}
		return nil
	}
	out := map[string]any{}
	chosen := map[protoreflect.Name]*yaml.Node{}
	d.eachKey(n, at, func(key, value *yaml.Node) {
		if at.yaml == "" && (key.Value == "apiVersion" || key.Value == "kind") {
			return
		}
		fd := md.Fields().ByJSONName(key.Value)
		if fd == nil {
			d.report(key.Line, "%s: unknown field%s", join(at.yaml, key.Value), typo.Suggest(key.Value, d.settable(md, at)))
			return
		}
		if OutputOnly(fd) || isNull(value) || !d.allowsAlternative(chosen, key, fd, at) {
			return
		}
		here := at.field(fd)
		d.object.lines[here.proto] = key.Line
		out[key.Value] = d.field(value, fd, here, depth+1)
	})
	return out
}

// allowsAlternative notes in chosen which field of a oneof a mapping has, and reports each further field of that oneof.
func (d *decoder) allowsAlternative(
	chosen map[protoreflect.Name]*yaml.Node, key *yaml.Node, fd protoreflect.FieldDescriptor, at path,
) bool {
	oneof := fd.ContainingOneof()
	if oneof == nil || oneof.IsSynthetic() {
		return true
	}
	first, ok := chosen[oneof.Name()]
	if !ok {
		chosen[oneof.Name()] = key
		return true
	}
	d.report(key.Line, "%s: excludes %s in line %d: keep one of the two",
		join(at.yaml, key.Value), join(at.yaml, first.Value), first.Line)
	return false
}

// settable are the fields that may be there: a global service has no cluster of its own.
func (d *decoder) settable(md protoreflect.MessageDescriptor, at path) []string {
	names := fieldNames(md)
	if d.object.Kind() == Global && at.yaml == "spec.template" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "cluster" })
	}
	return names
}

// eachKey calls f for every key of a mapping and reports those that are no strings or are there twice.
func (d *decoder) eachKey(n *yaml.Node, at path, f func(key, value *yaml.Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.reader.stopped; i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			d.report(key.Line, "%s: fields of another place are not merged: write them out", join(at.yaml, key.Value))
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			d.report(key.Line, "%s: a key must be text: write it in quotes", join(at.yaml, key.Value))
			continue
		}
		if line, ok := seen[key.Value]; ok {
			between := ""
			if at.yaml == "" && key.Value == "apiVersion" {
				between = ": put a line --- between two resources"
			}
			d.report(key.Line, "%s: is there twice, first in line %d%s", join(at.yaml, key.Value), line, between)
			continue
		}
		seen[key.Value] = key.Line
		if d.bounded(key, 0) {
			f(key, value)
		}
	}
}

func (d *decoder) field(n *yaml.Node, fd protoreflect.FieldDescriptor, at path, depth int) any {
	n = resolve(n)
	switch {
	case fd.IsMap():
		return d.mapField(n, fd, at, depth)
	case fd.IsList():
		return d.listField(n, fd, at, depth)
	default:
		return d.single(n, fd, at, depth)
	}
}

func (d *decoder) mapField(n *yaml.Node, fd protoreflect.FieldDescriptor, at path, depth int) any {
	if !d.bounded(n, depth) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.report(n.Line, "%s: must be keys and values", at.yaml)
		return nil
	}
	out := map[string]any{}
	d.eachKey(n, at, func(key, value *yaml.Node) {
		here := at.key(key.Value)
		d.object.lines[here.proto] = key.Line
		out[key.Value] = d.single(resolve(value), fd.MapValue(), here, depth+1)
	})
	return out
}

func (d *decoder) listField(n *yaml.Node, fd protoreflect.FieldDescriptor, at path, depth int) any {
	if !d.bounded(n, depth) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		d.report(n.Line, "%s: must be a list", at.yaml)
		return nil
	}
	out := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		if d.reader.stopped {
			break
		}
		here := at.index(i)
		d.object.lines[here.proto] = item.Line
		out = append(out, d.single(resolve(item), fd, here, depth+1))
	}
	return out
}

// single decodes one value of a field.
func (d *decoder) single(n *yaml.Node, fd protoreflect.FieldDescriptor, at path, depth int) any {
	if fd.Kind() == protoreflect.MessageKind && !wellKnownType(fd.Message()) {
		return d.message(n, fd.Message(), at, depth)
	}
	if !d.bounded(n, depth) {
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		d.report(n.Line, "%s: must be a single value", at.yaml)
		return nil
	}
	value, wrong := scalarValue(n, fd)
	if wrong != "" {
		d.report(n.Line, "%s: %s", at.yaml, wrong)
	}
	return value
}

// scalarValue returns what protojson wants, or what is wrong with the value.
func scalarValue(n *yaml.Node, fd protoreflect.FieldDescriptor) (value any, wrong string) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if n.ShortTag() != "!!str" {
			return nil, "must be text: write it in quotes"
		}
		return n.Value, ""
	case protoreflect.BoolKind:
		isTrue := strings.EqualFold(n.Value, "true")
		if n.ShortTag() != "!!bool" || !isTrue && !strings.EqualFold(n.Value, "false") { // a tag makes any text a bool
			return nil, "must be true or false"
		}
		return isTrue, ""
	case protoreflect.EnumKind:
		name := long(fd.Enum(), n.Value)
		if name == "" {
			return nil, fmt.Sprintf("%q is not one of the values%s", n.Value, typo.Suggest(n.Value, EnumNames(fd.Enum())))
		}
		return name, ""
	case protoreflect.MessageKind:
		return wellKnown(n, fd.Message().FullName())
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return wholeNumber(n.Value, fd.Kind())
	case protoreflect.DoubleKind:
		number, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
			return nil, "must be a number"
		}
		return number, ""
	default:
		return nil, "can't be set"
	}
}

// wholeNumber checks the text of a number.
func wholeNumber(text string, kind protoreflect.Kind) (value any, wrong string) {
	least, most, bits := int64(math.MinInt64), int64(math.MaxInt64), 64
	if kind == protoreflect.Int32Kind {
		least, most, bits = math.MinInt32, math.MaxInt32, 32
	}
	number, err := strconv.ParseInt(text, 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, fmt.Sprintf("must be a whole number between %d and %d", least, most)
	case err != nil:
		return nil, "must be a whole number"
	case strconv.FormatInt(number, 10) != text: // YAML has other meanings for some of these
		return nil, "must be a whole number, in digits alone: without + or zeros before it"
	}
	return text, ""
}

// wellKnown decodes google.protobuf.Duration, also as people write it (2m30s), and Timestamp.
func wellKnown(n *yaml.Node, name protoreflect.FullName) (value any, wrong string) {
	switch name {
	case "google.protobuf.Duration":
		duration, err := time.ParseDuration(n.Value)
		if err != nil {
			return nil, fmt.Sprintf("%q is no duration: write it like 90s, 5m or 1h", n.Value)
		}
		return strconv.FormatFloat(duration.Seconds(), 'f', -1, 64) + "s", ""
	case "google.protobuf.Timestamp":
		if _, err := time.Parse(time.RFC3339Nano, n.Value); err != nil {
			return nil, fmt.Sprintf("%q is no time: write it like 2026-01-31T12:00:00Z", n.Value)
		}
		return n.Value, ""
	default:
		return nil, "can't be set"
	}
}

// OutputOnly tells fields that the hub fills in. Files may have them, and nothing reads them there.
func OutputOnly(fd protoreflect.FieldDescriptor) bool {
	if fd.ContainingMessage().Name() == "Metadata" {
		return fd.Number() >= 10 && fd.Name() != "etag" // "Output only, from here on."
	}
	return (fd.Name() == "status" || fd.Name() == "levers") && Kind(fd.ContainingMessage().Name()).new() != nil
}
