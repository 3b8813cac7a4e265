// Package jsonpath reads the paths that printer columns of custom resources have: fields, places in lists, and the
// first item of a list that has a value. It has no `..`, no wildcards, no unions and no scripts: a path leads to one
// value, or to none.
package jsonpath

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a path.
const maxBytes, maxSteps = 256, 16

// Path leads from an object to a value within it.
type Path struct {
	text  string
	steps []step
}

// step is one of a path: a field, a place in a list, or the first item of a list whose field has a value.
type step struct {
	field  string
	place  int
	where  []string // fields of an item
	equals string   // as it is written in JSON, without quotes
	kind   stepKind
}

type stepKind int

const (
	byField stepKind = iota
	byPlace
	byValue
)

// Error says what is wrong with a path, and where.
type Error struct {
	Text   string
	Column int // from 1
	Wrong  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: column %d: %s", e.Text, e.Column, e.Wrong) }

// Parse reads a path such as .spec.issuerRef.name, .metadata.labels['app.kubernetes.io/name'],
// .status.loadBalancer.ingress[0].ip or .status.conditions[?(@.type=="Ready")].status. It may stand in braces, and
// begin with $.
func Parse(text string) (Path, error) {
	p := parser{text: text, rest: text}
	if len(text) > maxBytes {
		return Path{}, p.wrong("a path of %d bytes: the most is %d", len(text), maxBytes)
	}
	if !utf8.ValidString(text) {
		return Path{}, p.wrong("not UTF-8")
	}
	if strings.HasPrefix(text, "{") {
		if !strings.HasSuffix(text, "}") {
			return Path{}, p.wrong("{ without } at the end")
		}
		p.rest = text[1:]
		p.end = 1
	}
	p.take("$")
	var steps []step
	for len(p.rest) > p.end {
		if len(steps) == maxSteps {
			return Path{}, p.wrong("more than %d steps", maxSteps)
		}
		next, err := p.step()
		if err != nil {
			return Path{}, err
		}
		steps = append(steps, next)
	}
	if len(steps) == 0 {
		return Path{}, p.wrong("leads nowhere: name a field, such as .status.phase")
	}
	return Path{text, steps}, nil
}

// String is the path as it was read.
func (p Path) String() string { return p.text }

// Fields are the fields that the path begins with.
func (p Path) Fields() (fields []string) {
	for _, s := range p.steps {
		if s.kind != byField {
			break
		}
		fields = append(fields, s.field)
	}
	return fields
}

// Under tells whether the path begins with fields.
func (p Path) Under(fields ...string) bool {
	has := p.Fields()
	return len(has) >= len(fields) && slices.Equal(has[:len(fields)], fields)
}

// Find returns the value that the path leads to in an object as encoding/json reads it. ok is false if there is none.
func (p Path) Find(object any) (value any, ok bool) {
	value = object
	for _, s := range p.steps {
		if value, ok = s.find(value); !ok {
			return nil, false
		}
	}
	return value, len(p.steps) > 0
}

func (s step) find(in any) (any, bool) {
	if s.kind == byField {
		fields, _ := in.(map[string]any)
		value, ok := fields[s.field]
		return value, ok
	}
	list, _ := in.([]any)
	if s.kind == byPlace {
		place := s.place
		if place < 0 {
			place += len(list)
		}
		if place < 0 || place >= len(list) {
			return nil, false
		}
		return list[place], true
	}
	for _, item := range list {
		value := item
		ok := true
		for _, field := range s.where {
			fields, _ := value.(map[string]any)
			if value, ok = fields[field]; !ok {
				break
			}
		}
		if ok && written(value) == s.equals {
			return item, true
		}
	}
	return nil, false
}

// written is a plain value as a path writes it.
func written(value any) string {
	switch is := value.(type) {
	case string:
		return is
	case bool, json.Number, int64:
		return fmt.Sprint(is)
	case float64:
		return strconv.FormatFloat(is, 'f', -1, 64)
	}
	return "\x00" // which no path has
}

// parser reads a path from its beginning.
type parser struct {
	text, rest string
	end        int // bytes behind the path
}

func (p *parser) wrong(format string, args ...any) error {
	return &Error{Text: p.text, Column: utf8.RuneCountInString(p.text[:len(p.text)-len(p.rest)]) + 1, Wrong: fmt.Sprintf(format, args...)}
}

func (p *parser) take(prefix string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, prefix)
	return ok
}

func (p *parser) step() (step, error) {
	switch {
	case strings.HasPrefix(p.rest, ".."):
		return step{}, p.wrong("..: a path has to say each field on its way")
	case strings.HasPrefix(p.rest, ".["): // as kubectl takes it
		p.take(".")
		return p.brackets()
	case p.take("."):
		name, err := p.name()
		return step{field: name}, err
	case strings.HasPrefix(p.rest, "["):
		return p.brackets()
	}
	return step{}, p.wrong("a step begins with . or [")
}

// name reads a field as it stands behind a dot.
func (p *parser) name() (string, error) {
	end := len(p.rest) - p.end
	if at := strings.IndexFunc(p.rest[:end], func(r rune) bool { return !isNamed(r) }); at >= 0 {
		end = at
	}
	name := p.rest[:end]
	if name == "" {
		if strings.HasPrefix(p.rest, "*") {
			return "", p.wrong("*: a path leads to one value: name the field")
		}
		return "", p.wrong("a field is missing: one with other characters than letters, digits, - and _ is written ['a.b/c']")
	}
	p.rest = p.rest[end:]
	return name, nil
}

func isNamed(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// brackets reads ['field'], [0] or [?(@.field=="value")].
func (p *parser) brackets() (s step, err error) {
	p.take("[")
	switch {
	case p.take("?(@"):
		s, err = p.condition()
	case strings.HasPrefix(p.rest, "'"), strings.HasPrefix(p.rest, `"`):
		s.field, err = p.quoted()
	default:
		s, err = p.number()
	}
	if err != nil {
		return s, err
	}
	if !p.take("]") {
		return s, p.wrong("] is missing")
	}
	return s, nil
}

func (p *parser) number() (step, error) {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r != '-' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(p.rest)
	}
	place, err := strconv.Atoi(p.rest[:end])
	if err != nil {
		return step{}, p.wrong(`must be a place such as [0], a field such as ['a.b/c'], or a condition such as [?(@.type=="Ready")]`)
	}
	p.rest = p.rest[end:]
	return step{kind: byPlace, place: place}, nil
}

// quoted reads a text in quotes. A backslash takes the character behind it as it is.
func (p *parser) quoted() (string, error) {
	quote := p.rest[0]
	var out strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			if out.Len() == 0 {
				return "", p.wrong("an empty text")
			}
			return out.String(), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			out.WriteByte(p.rest[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", p.wrong("the quote at the end is missing")
}

// condition reads what stands between ?(@ and ).
func (p *parser) condition() (step, error) {
	s := step{kind: byValue}
	for p.take(".") {
		name, err := p.name()
		if err != nil {
			return s, err
		}
		s.where = append(s.where, name)
	}
	if len(s.where) == 0 || len(s.where) > maxSteps {
		return s, p.wrong(`a condition is written [?(@.type=="Ready")]`)
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	if !p.take("==") {
		return s, p.wrong("must be ==: conditions compare nothing else")
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	var err error
	if s.equals, err = p.value(); err != nil {
		return s, err
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	if !p.take(")") {
		return s, p.wrong(") is missing")
	}
	return s, nil
}

func (p *parser) value() (string, error) {
	if strings.HasPrefix(p.rest, "'") || strings.HasPrefix(p.rest, `"`) {
		return p.quoted()
	}
	end := strings.IndexFunc(p.rest, func(r rune) bool { return !isNamed(r) && r != '.' })
	if end <= 0 {
		return "", p.wrong("a value is missing, such as \"Ready\"")
	}
	word := p.rest[:end]
	if _, err := strconv.ParseFloat(word, 64); err != nil && word != "true" && word != "false" {
		return "", p.wrong("a text has to stand in quotes")
	}
	p.rest = p.rest[end:]
	return word, nil
}
