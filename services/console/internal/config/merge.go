package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxValue bounds a value with all its references, in bytes.
	maxValue = 256 << 10
	// maxTotal bounds the values of a service, in bytes, and maxEntries their number: they go to the cluster in one
	// message.
	maxTotal   = 1 << 20
	maxEntries = 2048
	// maxChain bounds how many entries refer to each other in a row.
	maxChain = 32
)

// Type is what a value is.
type Type string

// The types.
const (
	Text   Type = "text"
	Number Type = "number"
	Flag   Type = "flag"
	JSON   Type = "json"
)

// Entry is a value as it stands in a layer.
type Entry struct {
	Type Type
	// Value as text. In one that is not Literal ${name} stands for another entry.
	Value   string
	Literal bool
	Secret  bool
	// Place is where it is kept, if that is elsewhere.
	Place string
	// Stale is why it can't be read now; the value is the one that was read last.
	Stale string
	// Problem is why it has no value.
	Problem string
	// Unread says that it has none because its place was not read yet.
	Unread bool
}

// Layer is entries of one origin: project/shop, configset/base, cluster/edge-1, service/web.
type Layer struct {
	Origin  string
	Entries map[string]Entry
}

// Effective is an entry as the cluster gets it.
type Effective struct {
	Name   string
	Type   Type
	Value  string
	Secret bool
	Origin string
	// Overrides are where it would come from otherwise, the nearest first.
	Overrides []string
	// Stale is why it, or something that it refers to, can't be read now; the value is as it was read last.
	Stale string
	// Problem is why it has no value; empty: it has one.
	Problem string
	// Unread says that it has none because a place was not read yet, its own or that of an entry that it refers to.
	Unread bool

	chain int // how many entries it refers through
}

// Merge puts layers together, of which a later one wins entry by entry, and resolves references to other entries and to
// facts. The entries are in the order of their names.
func Merge(layers []Layer, facts map[string]string) []Effective {
	m := merger{facts: facts, entries: map[string]Entry{}, done: map[string]*Effective{}}
	origins := map[string][]string{}
	for _, layer := range layers {
		for name, entry := range layer.Entries {
			m.unread = m.unread || entry.Unread && name == entry.Place
			origin := layer.Origin
			if entry.Place != "" {
				origin += " (" + entry.Place + ")"
			}
			m.entries[name], origins[name] = entry, append(origins[name], origin)
		}
	}
	names := slices.Sorted(maps.Keys(m.entries))
	out := make([]Effective, len(names))
	total := 0
	for i, name := range names {
		if i < maxEntries && total <= maxTotal {
			out[i] = *m.resolve(name)
			total += len(out[i].Value)
		} else {
			out[i] = Effective{Name: name, Type: m.entries[name].Type, Secret: m.entries[name].Secret}
		}
		from := slices.Clone(origins[name])
		slices.Reverse(from)
		out[i].Origin, out[i].Overrides = from[0], from[1:]
		if out[i].Problem == "" && (total > maxTotal || i >= maxEntries) {
			out[i].Value, out[i].Problem = "", fmt.Sprintf("is too much: a service gets at most %d values of %d KiB together", maxEntries, maxTotal>>10)
		}
	}
	return out
}

// merger resolves entries, each once.
type merger struct {
	facts   map[string]string
	entries map[string]Entry
	done    map[string]*Effective
	// unread says that a place that is imported was not read yet: any name may be among its entries.
	unread bool
	// path is of the entries that are being resolved.
	path []string
}

func (m *merger) resolve(name string) *Effective {
	if e := m.done[name]; e != nil {
		return e
	}
	entry := m.entries[name]
	out := &Effective{Name: name, Type: entry.Type, Secret: entry.Secret, Stale: entry.Stale, Problem: entry.Problem, Unread: entry.Unread}
	if out.Problem == "" {
		m.path = append(m.path, name)
		if err := m.value(entry, out); err != nil {
			out.Value, out.Problem = "", err.Error()
		}
		m.path = m.path[:len(m.path)-1]
	}
	if len(m.path) == 0 || out.Problem == "" {
		m.done[name] = out // else a cycle is told by each of its entries, from where it begins
	}
	return out
}

func (m *merger) value(entry Entry, out *Effective) (err error) {
	switch {
	case entry.Literal || entry.Type == Number || entry.Type == Flag:
		out.Value = entry.Value
	case entry.Type == JSON:
		out.Value, err = m.json(entry.Value, out)
	default:
		out.Value, err = m.text(entry.Value, out)
	}
	if err == nil && len(out.Value) > maxValue {
		err = fmt.Errorf("is longer than %d KiB", maxValue>>10)
	}
	return err
}

// json replaces references in the texts of a value. A text that is nothing but a reference becomes what that is.
func (m *merger) json(text string, out *Effective) (string, error) {
	var tree any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return "", errors.New("is not JSON") // the decoder would quote it
	}
	size := 0
	tree, err := m.tree(tree, out, &size)
	if err != nil {
		return "", err
	}
	return encode(tree)
}

func encode(tree any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return "", errors.New("is not JSON")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func (m *merger) tree(node any, out *Effective, size *int) (any, error) {
	var err error
	switch n := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			if n[key], err = m.tree(n[key], out, size); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range n {
			if n[i], err = m.tree(n[i], out, size); err != nil {
				return nil, err
			}
		}
	case string:
		var value any
		var length int
		if name, whole := onlyReference(n); whole {
			value, length, err = m.typed(name, out)
		} else {
			var s string
			s, err = m.text(n, out)
			value, length = s, len(s)
		}
		if *size += length; err == nil && *size > maxValue {
			err = fmt.Errorf("is longer than %d KiB", maxValue>>10)
		}
		return value, err
	}
	return node, nil
}

// onlyReference says whether a text is one reference.
func onlyReference(text string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(text, "${")
	name, more, closed := strings.Cut(rest, "}")
	return name, ok && closed && more == ""
}

// typed is what a name stands for, as what it is.
func (m *merger) typed(name string, out *Effective) (value any, length int, err error) {
	of, err := m.lookup(name, out)
	if err != nil {
		return nil, 0, err
	}
	switch of.Type {
	case Number:
		return json.Number(of.Value), len(of.Value), nil
	case Flag:
		return of.Value == "true", len(of.Value), nil
	case JSON:
		return json.RawMessage(of.Value), len(of.Value), nil
	default:
		return of.Value, len(of.Value), nil
	}
}

// text replaces references.
func (m *merger) text(text string, out *Effective) (string, error) {
	var b strings.Builder
	for text != "" {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			break
		}
		if i > 0 && text[i-1] == '$' { // $${ is a plain ${
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		name, rest, ok := strings.Cut(text[i+2:], "}")
		if !ok {
			return "", errors.New("has ${ without }: write $${ for a plain ${")
		}
		of, err := m.lookup(name, out)
		if err != nil {
			return "", err
		}
		b.WriteString(of.Value)
		if text = rest; b.Len() > maxValue {
			return "", fmt.Errorf("is longer than %d KiB", maxValue>>10)
		}
	}
	return b.String(), nil
}

// errLong begins as all problems of references do.
var errLong = fmt.Errorf("refers through more than %d entries: refer to what these refer to", maxChain)

// lookup finds what a reference stands for. A value that holds a secret is a secret itself.
func (m *merger) lookup(name string, out *Effective) (*Effective, error) {
	if value, ok := m.facts[name]; ok {
		return &Effective{Name: name, Type: Text, Value: value}, nil
	}
	if _, ok := m.entries[name]; !ok {
		out.Unread = m.unread
		return nil, m.unknown(name, out)
	}
	if i := slices.Index(m.path, name); i >= 0 {
		return nil, fmt.Errorf("refers to itself: %s", strings.Join(append(slices.Clone(m.path[i:]), name), " -> "))
	}
	if len(m.path) > maxChain {
		return nil, errLong
	}
	of := m.resolve(name)
	if of.Problem != "" {
		out.Unread = of.Unread
		if strings.HasPrefix(of.Problem, "refers ") {
			return nil, errors.New(of.Problem) // from where it begins
		}
		return nil, fmt.Errorf("refers to %q, which has no value: %s", name, of.Problem)
	}
	if out.chain = max(out.chain, of.chain+1); out.chain > maxChain {
		return nil, errLong
	}
	out.Secret = out.Secret || of.Secret
	out.Stale = cmp.Or(out.Stale, of.Stale)
	return of, nil
}

// unknown says what is wrong with a reference. Within a secret the name may be a part of it: it is not repeated.
func (m *merger) unknown(name string, out *Effective) error {
	what := fmt.Sprintf("${%s}", name)
	if out.Secret {
		what = "a ${...} of it"
	}
	if strings.HasPrefix(name, "cluster.labels.") && !out.Secret {
		return fmt.Errorf("%s: the cluster has no such label", what)
	}
	return fmt.Errorf("%s is neither an entry nor known of cluster, service or project: write $${ for a plain ${", what)
}

// formatNumber is a number as text, as short as can be.
func formatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
