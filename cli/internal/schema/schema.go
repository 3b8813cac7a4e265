// Package schema describes the files of `fairlead apply` to editors, as a JSON Schema that is made from the table of
// the kinds: from the messages of proto/, their rules and their comments. A file that the schema accepts can still be
// refused by the hub, which knows what is there; a file that the schema rejects is refused by the hub, too, but for
// values that only YAML reads as something else, such as null.
package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/kind"
)

// Draft is the form of JSON Schema that editors know best.
const Draft = "http://json-schema.org/draft-07/schema#"

// duration fits what time.ParseDuration takes and is not negative.
const duration = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`

//go:embed comments.json
var comments []byte

// Comments are those of proto/, by the full names of messages, fields and values.
type Comments map[protoreflect.FullName]string

// known is decoded once: the file has some hundred comments.
var known = sync.OnceValues(func() (Comments, error) { //nolint:gochecknoglobals // a constant
	found := Comments{}
	if err := json.Unmarshal(comments, &found); err != nil {
		return nil, fmt.Errorf("decode the comments of the schema: %w", err)
	}
	return found, nil
})

// Marshal returns the schema of files with resources of some kinds, as indented JSON.
func Marshal(kinds []kind.Kind) ([]byte, error) {
	words, err := known()
	if err != nil {
		return nil, err
	}
	root, err := describeKinds(kinds, words)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// object is a part of a schema.
type object map[string]any

// describeKinds returns a schema that chooses by the field kind, so that an editor speaks of the fields of that kind
// only.
func describeKinds(kinds []kind.Kind, words Comments) (object, error) {
	w := writer{words: words, definitions: object{}}
	var names []string
	var choices []object
	for _, k := range kinds {
		md := k.New().ProtoReflect().Descriptor()
		reference, err := w.defineMessage(md)
		if err != nil {
			return nil, err
		}
		names = append(names, k.Name())
		choices = append(choices, object{
			"if":   object{"properties": object{"kind": object{"const": k.Name()}}, "required": []string{"kind"}},
			"then": reference,
		})
	}
	return object{
		"$schema":     Draft,
		"title":       "Resources of Fairlead",
		"type":        "object",
		"required":    []string{"apiVersion", "kind"},
		"properties":  object{"apiVersion": object{"const": catalogyaml.APIVersion}, "kind": object{"enum": names}},
		"allOf":       choices,
		"definitions": w.definitions,
	}, nil
}

// writer collects the definitions that the kinds need.
type writer struct {
	words       Comments
	definitions object
}

// defineMessage defines a message unless that is done, and returns a reference to it.
func (w writer) defineMessage(md protoreflect.MessageDescriptor) (object, error) {
	name := string(md.FullName())
	reference := object{"$ref": "#/definitions/" + name}
	if _, ok := w.definitions[name]; ok {
		return reference, nil
	}
	properties := object{}
	definition := object{"type": "object", "additionalProperties": false, "properties": properties}
	w.definitions[name] = definition // messages may hold themselves
	if text := w.words[md.FullName()]; text != "" {
		definition["description"] = text
	}
	if _, ok := kind.Named(string(md.Name())); ok && md.Fields().ByName("metadata") != nil {
		properties["apiVersion"], properties["kind"] = object{"const": catalogyaml.APIVersion},
			object{"const": string(md.Name())}
	}
	var required []string
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if catalogyaml.OutputOnly(fd) {
			properties[fd.JSONName()] = object{"description": "The hub fills it in; it is skipped when a file is applied."}
			continue
		}
		property, needed, err := w.describeField(fd)
		if err != nil {
			return nil, err
		}
		properties[fd.JSONName()] = property
		if needed {
			required = append(required, fd.JSONName())
		}
	}
	if len(required) > 0 {
		definition["required"] = required
	}
	return reference, w.requireOneofs(md, definition)
}

// requireOneofs asks for exactly one field of each oneof that must be set.
func (w writer) requireOneofs(md protoreflect.MessageDescriptor, definition object) error {
	var all []object
	for i := range md.Oneofs().Len() {
		of := md.Oneofs().Get(i)
		rules, err := protovalidate.ResolveOneofRules(of)
		if err != nil {
			return fmt.Errorf("rules of %s: %w", of.FullName(), err)
		}
		if of.IsSynthetic() || !rules.GetRequired() {
			continue
		}
		var choices []object
		for j := range of.Fields().Len() {
			choices = append(choices, object{"required": []string{of.Fields().Get(j).JSONName()}})
		}
		all = append(all, object{"oneOf": choices})
	}
	if len(all) > 0 {
		definition["allOf"] = all
	}
	return nil
}

// describeField describes the value of a field, and says whether it must be there.
func (w writer) describeField(fd protoreflect.FieldDescriptor) (property object, needed bool, err error) {
	rules, err := protovalidate.ResolveFieldRules(fd)
	if err != nil {
		return nil, false, fmt.Errorf("rules of %s: %w", fd.FullName(), err)
	}
	switch {
	case fd.IsMap():
		property, err = w.describeMap(fd, rules.GetMap())
	case fd.IsList():
		property, err = w.describeList(fd, rules.GetRepeated())
	default:
		property, err = w.describeValue(fd, rules)
	}
	if err != nil {
		return nil, false, err
	}
	if text := w.fieldComment(fd); text != "" {
		if _, isReference := property["$ref"]; isReference { // beside it nothing else counts
			property = object{"allOf": []object{property}}
		}
		property["description"] = text
	}
	return property, MustBeThere(fd, rules), nil
}

// fieldComment is what a person reads of a field: its comment, and those of the values that it may have.
func (w writer) fieldComment(fd protoreflect.FieldDescriptor) string {
	text := w.words[fd.FullName()]
	if fd.Kind() != protoreflect.EnumKind {
		return text
	}
	names, values := catalogyaml.EnumNames(fd.Enum()), fd.Enum().Values()
	for i, name := range names {
		if of := w.words[values.Get(i+1).FullName()]; of != "" {
			text += "\n\n" + name + ": " + of
		}
	}
	return strings.TrimSpace(text)
}

// MustBeThere tells fields that a file can't leave out: those that are required, and those whose empty value breaks a
// rule.
func MustBeThere(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) bool {
	if rules.GetRequired() {
		return true
	}
	if fd.HasPresence() || rules.GetIgnore() != validate.Ignore_IGNORE_UNSPECIFIED {
		return false
	}
	switch {
	case fd.IsMap():
		return rules.GetMap().GetMinPairs() > 0
	case fd.IsList():
		return rules.GetRepeated().GetMinItems() > 0
	case fd.Kind() == protoreflect.EnumKind:
		return slices.Contains(rules.GetEnum().GetNotIn(), 0)
	case fd.Kind() == protoreflect.StringKind:
		of := rules.GetString()
		pattern := patternOf(rules)
		return of.GetMinLen() > 0 || of.GetMinBytes() > 0 || pattern != "" && !matchesPattern(pattern, "")
	}
	return false
}

// matching fits a rule in CEL that asks for nothing but a pattern.
const matching = `^this\.matches\('([^'\\]*)'\)$`

// patternOf returns the regular expression that a text must fit, or "".
func patternOf(rules *validate.FieldRules) string {
	if of := rules.GetString(); of.HasPattern() {
		return of.GetPattern()
	}
	for _, rule := range rules.GetCel() {
		if found := regexp.MustCompile(matching).FindStringSubmatch(rule.GetExpression()); found != nil {
			return found[1]
		}
	}
	return ""
}

func matchesPattern(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return ok || err != nil
}

func (w writer) describeMap(fd protoreflect.FieldDescriptor, rules *validate.MapRules) (object, error) {
	value, err := w.describeValue(fd.MapValue(), rules.GetValues())
	if err != nil {
		return nil, err
	}
	key, err := w.describeValue(fd.MapKey(), rules.GetKeys())
	if err != nil {
		return nil, err
	}
	property := object{"type": "object", "additionalProperties": value, "propertyNames": key}
	if rules.HasMinPairs() {
		property["minProperties"] = rules.GetMinPairs()
	}
	if rules.HasMaxPairs() {
		property["maxProperties"] = rules.GetMaxPairs()
	}
	return property, nil
}

func (w writer) describeList(fd protoreflect.FieldDescriptor, rules *validate.RepeatedRules) (object, error) {
	item, err := w.describeValue(fd, rules.GetItems())
	if err != nil {
		return nil, err
	}
	property := object{"type": "array", "items": item}
	if rules.HasMinItems() {
		property["minItems"] = rules.GetMinItems()
	}
	if rules.HasMaxItems() {
		property["maxItems"] = rules.GetMaxItems()
	}
	if rules.GetUnique() {
		property["uniqueItems"] = true
	}
	return property, nil
}

// describeValue describes one value, of a field or of a list or map.
func (w writer) describeValue(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) (object, error) {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Duration":
			return object{"type": "string", "pattern": duration}, nil
		case "google.protobuf.Timestamp":
			return object{"type": "string", "format": "date-time"}, nil
		}
		return w.defineMessage(fd.Message())
	case protoreflect.StringKind:
		return describeString(rules), nil
	case protoreflect.BoolKind:
		return object{"type": "boolean"}, nil
	case protoreflect.EnumKind:
		// The short names come first, for completion; files may have the long ones of the API, too.
		long := strings.TrimSuffix(string(fd.Enum().Values().Get(0).Name()), "UNSPECIFIED")
		return object{"anyOf": []object{
			{"enum": catalogyaml.EnumNames(fd.Enum())}, {"type": "string", "pattern": "^" + long},
		}}, nil
	case protoreflect.DoubleKind:
		return object{"type": "number"}, nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		property := object{"type": "integer"}
		copyBounds(property, rules)
		return property, nil
	default:
		return nil, fmt.Errorf("the schema does not know how files have %s, which is a %s", fd.FullName(), fd.Kind())
	}
}

// describeString describes a string. Its lengths are characters in both languages; a length in bytes is at most that in
// characters.
func describeString(of *validate.FieldRules) object {
	property, rules := object{"type": "string"}, of.GetString()
	if rules.HasMinLen() {
		property["minLength"] = rules.GetMinLen()
	}
	switch {
	case rules.HasMaxLen():
		property["maxLength"] = rules.GetMaxLen()
	case rules.HasMaxBytes():
		property["maxLength"] = rules.GetMaxBytes()
	}
	if pattern := patternOf(of); pattern != "" {
		property["pattern"] = pattern
	}
	if values := rules.GetIn(); len(values) > 0 {
		property["enum"] = values
	}
	return property
}

// copyBounds copies the bounds of a number, of whatever type the number is.
func copyBounds(property object, rules *validate.FieldRules) {
	words := map[protoreflect.Name]string{
		"gte": "minimum", "lte": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum",
	}
	rules.ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, of protoreflect.Value) bool {
		message, ok := of.Interface().(protoreflect.Message)
		if !ok {
			return true
		}
		message.Range(func(rule protoreflect.FieldDescriptor, limit protoreflect.Value) bool {
			if word := words[rule.Name()]; word != "" {
				property[word] = limit.Interface()
			}
			return true
		})
		return true
	})
}

// Messages are those that files of a kind are made of, each once, in the order in which a reader meets them.
func Messages(of proto.Message) []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	seen := map[protoreflect.FullName]bool{}
	var visit func(md protoreflect.MessageDescriptor)
	visit = func(md protoreflect.MessageDescriptor) {
		if seen[md.FullName()] || md.ParentFile().Package() == "google.protobuf" {
			return
		}
		seen[md.FullName()] = true
		all = append(all, md)
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if catalogyaml.OutputOnly(fd) {
				continue
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if fd.Kind() == protoreflect.MessageKind {
				visit(fd.Message())
			}
		}
	}
	visit(of.ProtoReflect().Descriptor())
	return all
}
