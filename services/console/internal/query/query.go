// Package query is the one language in which lists, watches, events and sinks are asked for a part of what there is:
//
//	labels.env = prod AND NOT state = healthy AND update_time > 1h
//
// Comparisons are = != < <= > >= and ":", which means contains, or for a label that it is there. AND, OR, NOT and ( )
// put them together; AND and OR side by side need parentheses, so that nobody has to know which binds more. Times are
// written as 2026-11-20T08:00:00Z, or as an age: update_time > 1h is what changed within the last hour. A field that a
// row does not have fits no comparison but !=.
package query

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/platform/typo"
)

// Type is what a field holds.
type Type struct {
	kind   kind
	levels []string
	known  []string
}

type kind int

const (
	text kind = iota
	number
	moment
	level
	labels
)

// The types. Levels are words in an order; a labels field has keys behind a dot.
var (
	Text   = Type{kind: text}   //nolint:gochecknoglobals // a constant
	Number = Type{kind: number} //nolint:gochecknoglobals // a constant
	Time   = Type{kind: moment} //nolint:gochecknoglobals // a constant
	Labels = Type{kind: labels} //nolint:gochecknoglobals // a constant
)

// Levels is the type of words that have an order.
func Levels(words ...string) Type { return Type{kind: level, levels: words} }

// Level is the place of a word in the order of its type; -1: the type has no such word.
func (t Type) Level(word string) int { return slices.Index(t.levels, word) }

// OneOf is the type of texts that are all known: a comparison with another one is a mistake.
func OneOf(known ...string) Type { return Type{kind: text, known: known} }

// Fields are those of a kind of row.
type Fields map[string]Type

// Worded says why rows can't be counted by the values of a field; nil: it holds texts or words.
func (f Fields) Worded(name string) error {
	t, ok := f[name]
	if key, label := strings.CutPrefix(name, "labels."); label && key != "" && f["labels"].kind == labels {
		t, ok = Text, true
	}
	switch {
	case !ok:
		return errors.New(unknown(name, f))
	case t.kind != text && t.kind != level:
		return fmt.Errorf("%s: only fields with texts or words can be counted by", name)
	}
	return nil
}

// Value is what a row has in a field: a text or a level in Text, a number or the microseconds of a time in Number.
type Value struct {
	Text   string
	Number int64
}

// Row is what is asked. A label is asked for as labels.<key>. false: it has no such thing.
type Row interface {
	Field(name string) (Value, bool)
}

const (
	// maxDepth of parentheses and NOTs, and maxTerms of comparisons: more is nobody's honest question.
	maxDepth = 32
	maxTerms = 100
)

// Expr is a question. The zero Expr fits everything.
type Expr struct {
	root     node
	needs    map[string]string
	newest   *since
	namesAge bool
	fields   []string
}

// node answers for one row.
type node func(row Row, now time.Time) answer

type answer int8

// The answers, in an order: AND is the least of several, OR the greatest.
const (
	no answer = iota
	unsure
	yes
)

func answerOf(is bool) answer {
	if is {
		return yes
	}
	return no
}

// Doubtful is a row that may know that it does not know a field.
type Doubtful interface {
	Row
	Doubts(name string) bool
}

// since is the earliest time that fits, as it was written.
type since struct {
	field string
	at    func(now time.Time) time.Time
}

// Match says whether a row fits.
func (e *Expr) Match(row Row, now time.Time) bool {
	return e == nil || e.root == nil || e.root(row, now) == yes
}

// Ask says whether a row fits, if what it doubts does not decide that: NOT a, where a is doubted, is not sure, and a
// AND b, where b does not hold, is.
func (e *Expr) Ask(row Doubtful, now time.Time) (fits, sure bool) {
	if e == nil || e.root == nil {
		return true, true
	}
	is := e.root(row, now)
	return is == yes, is != unsure
}

// Needs is the text that a field has in all that fits, if the question says so on top.
func (e *Expr) Needs(field string) (string, bool) {
	if e == nil {
		return "", false
	}
	text, ok := e.needs[field]
	return text, ok
}

// Fields are the fields that the question names, in its order.
func (e *Expr) Fields() []string {
	if e == nil {
		return nil
	}
	return e.fields
}

// Since is a time before which nothing fits, of a field; zero: there is none.
func (e *Expr) Since(field string, now time.Time) time.Time {
	if e == nil || e.newest == nil || e.newest.field != field {
		return time.Time{}
	}
	return e.newest.at(now)
}

// NamesAge says whether a row may begin or cease to fit without a change of it.
func (e *Expr) NamesAge() bool { return e != nil && e.namesAge }

// Parse reads a question; an empty one fits everything. Errors say at which character, and what to write.
func Parse(question string, fields Fields) (*Expr, error) {
	p := &parser{text: question, fields: fields, expr: &Expr{needs: map[string]string{}}}
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token.kind == end {
		return p.expr, nil
	}
	root, err := p.terms(0, true)
	if err != nil {
		return nil, err
	}
	if p.token.kind != end {
		return nil, p.fail("%q does not belong here: put AND or OR before it", p.token.text)
	}
	p.expr.root = root
	return p.expr, nil
}

type tokenKind int

const (
	end tokenKind = iota
	word
	quoted
	operator
	open
	closing
)

type token struct {
	kind tokenKind
	text string
	at   int
}

type parser struct {
	text   string
	fields Fields
	pos    int
	token  token
	count  int
	expr   *Expr
}

func (p *parser) fail(format string, args ...any) error {
	at := utf8.RuneCountInString(p.text[:p.token.at]) + 1
	return fmt.Errorf("character %d: "+format, append([]any{at}, args...)...)
}

const operators = "=!<>:"

// next reads a token.
func (p *parser) next() error {
	for p.pos < len(p.text) && strings.ContainsRune(" \t\n\r", rune(p.text[p.pos])) {
		p.pos++
	}
	p.token = token{at: p.pos}
	if p.pos == len(p.text) {
		return nil
	}
	switch c := p.text[p.pos]; {
	case c == '(':
		p.take(open, 1)
	case c == ')':
		p.take(closing, 1)
	case c == '"' || c == '\'':
		return p.quote(c)
	case strings.IndexByte(operators, c) >= 0:
		size := 1
		if c != ':' && c != '=' && strings.HasPrefix(p.text[p.pos+1:], "=") {
			size = 2
		}
		p.take(operator, size)
		if p.token.text == "!" {
			return p.fail("write != or NOT")
		}
	default:
		size := strings.IndexFunc(p.text[p.pos:], func(r rune) bool { return strings.ContainsRune(" \t\n\r()\"'=!<>", r) })
		if size < 0 {
			size = len(p.text) - p.pos
		}
		p.take(word, size)
	}
	return nil
}

func (p *parser) take(k tokenKind, size int) {
	p.token.kind, p.token.text = k, p.text[p.pos:p.pos+size]
	p.pos += size
}

// quote reads a text in quotes; a backslash takes the next character as it is.
func (p *parser) quote(by byte) error {
	var b strings.Builder
	for i := p.pos + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\\' && i+1 < len(p.text):
			i++
			b.WriteByte(p.text[i])
		case c == by:
			p.token.kind, p.token.text, p.pos = quoted, b.String(), i+1
			return nil
		default:
			b.WriteByte(c)
		}
	}
	return p.fail("this text in quotes has no end")
}

func (p *parser) is(keyword string) bool { return p.token.kind == word && p.token.text == keyword }

// terms reads what is joined by AND, or by OR. top: all of it must hold for a row to fit.
func (p *parser) terms(depth int, top bool) (node, error) {
	if depth > maxDepth {
		return nil, p.fail("too many parentheses within each other: at most %d", maxDepth)
	}
	// Whether it is OR is known only behind the first term: what that needs is dropped then.
	needs, newest := p.expr.needs, p.expr.newest
	if top {
		p.expr.needs = maps.Clone(needs)
	}
	first, err := p.term(depth, top)
	if err != nil {
		return nil, err
	}
	list, joint := []node{first}, ""
	for p.is("AND") || p.is("OR") {
		if joint != "" && p.token.text != joint {
			return nil, p.fail("AND and OR side by side: put parentheses around what belongs together")
		}
		if joint = p.token.text; joint == "OR" && top {
			p.expr.needs, p.expr.newest, top = needs, newest, false
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		more, err := p.term(depth, top)
		if err != nil {
			return nil, err
		}
		list = append(list, more)
	}
	if len(list) == 1 {
		return first, nil
	}
	if joint == "OR" {
		return func(row Row, now time.Time) answer {
			most := no
			for i := 0; i < len(list) && most != yes; i++ {
				most = max(most, list[i](row, now))
			}
			return most
		}, nil
	}
	return func(row Row, now time.Time) answer {
		least := yes
		for i := 0; i < len(list) && least != no; i++ {
			least = min(least, list[i](row, now))
		}
		return least
	}, nil
}

func (p *parser) term(depth int, top bool) (node, error) {
	switch {
	case p.is("NOT"):
		if depth >= maxDepth {
			return nil, p.fail("too many NOTs within each other: at most %d", maxDepth)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.term(depth+1, false)
		if err != nil {
			return nil, err
		}
		return func(row Row, now time.Time) answer { return yes - inner(row, now) }, nil
	case p.token.kind == open:
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.terms(depth+1, top)
		if err != nil {
			return nil, err
		}
		if p.token.kind != closing {
			return nil, p.fail("a ) is missing")
		}
		return inner, p.next()
	case p.token.kind == word:
		return p.comparison(top)
	case p.token.kind == end:
		return nil, p.fail("the filter ends where a field should come")
	}
	return nil, p.fail("%q is no field: write it like name = web", p.token.text)
}

// comparison says whether a row fits one comparison.
type comparison func(row Row, now time.Time) bool

// comparison reads a field, an operator and a value.
func (p *parser) comparison(top bool) (node, error) {
	if p.count++; p.count > maxTerms {
		return nil, p.fail("more than %d comparisons", maxTerms)
	}
	name := p.token.text
	// a:b is one word, as labels may hold colons nowhere and times do everywhere.
	if before, after, ok := strings.Cut(name, ":"); ok {
		p.pos -= len(after) + 1
		name, p.token.text = before, before
	}
	t, err := p.field(name)
	if err != nil {
		return nil, err
	}
	p.expr.fields = append(p.expr.fields, name)
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token.kind != operator {
		return nil, p.fail("after %q there must be one of = != < <= > >= :", name)
	}
	op := p.token.text
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token.kind != word && p.token.kind != quoted {
		return nil, p.fail("after %s there must be a value", op)
	}
	value := p.token
	fits, err := p.compare(name, t, op, value, top)
	if err != nil {
		return nil, err
	}
	return func(row Row, now time.Time) answer {
		if d, ok := row.(Doubtful); ok && d.Doubts(name) {
			return unsure
		}
		return answerOf(fits(row, now))
	}, p.next()
}

func (p *parser) field(name string) (Type, error) {
	if t, ok := p.fields[name]; ok {
		return t, nil
	}
	if key, ok := strings.CutPrefix(name, "labels."); ok && key != "" {
		if t, ok := p.fields["labels"]; ok && t.kind == labels {
			return Text, nil
		}
	}
	return Type{}, p.fail("%s", unknown(name, p.fields))
}

// unknown says which fields there are.
func unknown(name string, fields Fields) string {
	known := make([]string, 0, len(fields))
	for f, t := range fields {
		if t.kind == labels {
			f += ".<key>"
		}
		known = append(known, f)
	}
	slices.Sort(known)
	return fmt.Sprintf("there is no field %q: there are %s", name, strings.Join(known, ", "))
}

func (p *parser) compare(name string, t Type, op string, v token, top bool) (comparison, error) {
	switch t.kind {
	case labels:
		if op != ":" {
			return nil, p.fail("write labels.<key> %s %s, or labels:<key>", op, v.text)
		}
		field := name + "." + v.text
		return func(row Row, _ time.Time) bool { _, ok := row.Field(field); return ok }, nil
	case text:
		if err := p.checkKnown(name, t.known, op, v.text); err != nil {
			return nil, err
		}
		if top && op == "=" {
			p.expr.needs[name] = v.text
		}
		return p.texts(name, op, v.text)
	case number:
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return nil, p.fail("%s is a number, and %q is none", name, v.text)
		}
		return p.ordered(name, op, func(time.Time) int64 { return n }, func(v Value) int64 { return v.Number })
	case level:
		want := slices.IndexFunc(t.levels, func(l string) bool { return strings.EqualFold(l, v.text) })
		if want < 0 {
			return nil, p.fail("%s is one of %s", name, strings.Join(t.levels, ", "))
		}
		if top && op == "=" {
			p.expr.needs[name] = t.levels[want]
		}
		return p.ordered(name, op, func(time.Time) int64 { return int64(want) }, func(v Value) int64 { return int64(slices.Index(t.levels, v.Text)) })
	}
	at, err := p.moment(name, v.text)
	if err != nil {
		return nil, err
	}
	if top && (op == ">" || op == ">=") {
		p.expr.newest = &since{field: name, at: at}
	}
	return p.ordered(name, op, func(now time.Time) int64 { return at(now).UnixMicro() }, func(v Value) int64 { return v.Number })
}

// checkKnown refuses a text that no row can have, if all texts of the field are known.
func (p *parser) checkKnown(name string, known []string, op, want string) error {
	fits := func(is string) bool { return is == want }
	switch {
	case known == nil || op != "=" && op != "!=" && op != ":":
		return nil
	case op == ":":
		fits = func(is string) bool { return strings.Contains(is, strings.ToLower(want)) }
	}
	if slices.ContainsFunc(known, fits) {
		return nil
	}
	return p.fail("there is no %s %q%s", name, want, typo.Suggest(want, known))
}

func (p *parser) texts(name, op, want string) (comparison, error) {
	get := func(row Row, fits func(string) bool) bool {
		v, ok := row.Field(name)
		return ok && fits(v.Text)
	}
	switch op {
	case "=":
		return func(row Row, _ time.Time) bool { return get(row, func(is string) bool { return is == want }) }, nil
	case "!=":
		return func(row Row, _ time.Time) bool { return !get(row, func(is string) bool { return is == want }) }, nil
	case ":":
		want = strings.ToLower(want)
		return func(row Row, _ time.Time) bool {
			return get(row, func(is string) bool { return strings.Contains(strings.ToLower(is), want) })
		}, nil
	}
	fits := byOrder(op)
	return func(row Row, _ time.Time) bool {
		return get(row, func(is string) bool { return fits(cmp.Compare(is, want)) })
	}, nil
}

func (p *parser) ordered(name, op string, want func(time.Time) int64, is func(Value) int64) (comparison, error) {
	if op == ":" {
		return nil, p.fail("%s is no text that could contain something: use = or <", name)
	}
	fits := byOrder(op)
	return func(row Row, now time.Time) bool {
		v, ok := row.Field(name)
		if !ok {
			return op == "!="
		}
		return fits(cmp.Compare(is(v), want(now)))
	}, nil
}

func byOrder(op string) func(int) bool {
	switch op {
	case "=":
		return func(c int) bool { return c == 0 }
	case "!=":
		return func(c int) bool { return c != 0 }
	case "<":
		return func(c int) bool { return c < 0 }
	case "<=":
		return func(c int) bool { return c <= 0 }
	case ">":
		return func(c int) bool { return c > 0 }
	}
	return func(c int) bool { return c >= 0 }
}

// maxAge in hours: more is no age of anything here.
const maxAge = 100 * 365 * 24

// moment reads a time, or an age before now.
func (p *parser) moment(name, text string) (func(now time.Time) time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return func(time.Time) time.Time { return at }, nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return func(time.Time) time.Time { return at }, nil
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	if len(text) > 1 {
		unit, known := units[text[len(text)-1]]
		n, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
		if known && err == nil && n >= 0 && n <= int64(maxAge*time.Hour/unit) {
			age := time.Duration(n) * unit
			p.expr.namesAge = true
			return func(now time.Time) time.Time { return now.Add(-age) }, nil
		}
	}
	return nil, p.fail("%s is a time: write it as 2026-11-20T08:00:00Z, or as an age such as 90s, 15m, 1h or 7d", name)
}
