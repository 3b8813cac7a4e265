package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func text(value string) Entry { return Entry{Type: Text, Value: value} }

func byEntry(list []Effective) map[string]Effective {
	out := map[string]Effective{}
	for _, e := range list {
		out[e.Name] = e
	}
	return out
}

// Against a model: entry by entry the last layer that has it.
func TestLaterLayersWinEntryByEntry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		var layers []Layer
		want := map[string]string{}
		from := map[string][]string{}
		for i := range rapid.IntRange(0, 5).Draw(t, "layers") {
			layer := Layer{Origin: fmt.Sprint("layer/", i), Entries: map[string]Entry{}}
			for range rapid.IntRange(0, 4).Draw(t, "entries") {
				n := name.Draw(t, "name")
				if _, twice := layer.Entries[n]; twice {
					continue
				}
				layer.Entries[n] = text(fmt.Sprint(n, i))
				want[n], from[n] = fmt.Sprint(n, i), append([]string{layer.Origin}, from[n]...)
			}
			layers = append(layers, layer)
		}
		got := Merge(layers, nil)
		if !slices.IsSortedFunc(got, func(a, b Effective) int { return strings.Compare(a.Name, b.Name) }) ||
			len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for _, e := range got {
			if e.Value != want[e.Name] || e.Problem != "" ||
				!slices.Equal(append([]string{e.Origin}, e.Overrides...), from[e.Name]) {
				t.Fatalf("got %+v, want %q of %v", e, want[e.Name], from[e.Name])
			}
		}
	})
}

func TestReferencesAreResolved(t *testing.T) {
	t.Parallel()
	got := byEntry(Merge([]Layer{{Origin: "service/web", Entries: map[string]Entry{
		"host":     text("${service.name}.${cluster.name}.${domain}"),
		"domain":   text("example.com"),
		"pw":       {Type: Text, Value: "hunter2", Secret: true},
		"url":      text("postgres://app:${pw}@${host}/"),
		"plain":    text("$${pw} costs $5"),
		"replicas": {Type: Number, Value: "3"},
		"on":       {Type: Flag, Value: "true"},
		"list":     {Type: JSON, Value: `["${host}", 1, {"b": "<${domain}>", "a": 1.50}]`},
		"all": {
			Type:  JSON,
			Value: `{"n": "${replicas}", "on": "${on}", "list": "${list}", "text": "n=${replicas}", "big": 12345678901234567890}`,
		},
		"literal": {Type: Text, Value: "${pw}", Literal: true},
	}}}, map[string]string{"cluster.name": "edge-1", "service.name": "web"}))
	for name, want := range map[string]Effective{
		"host":  {Type: Text, Value: "web.edge-1.example.com"},
		"url":   {Type: Text, Value: "postgres://app:hunter2@web.edge-1.example.com/", Secret: true},
		"plain": {Type: Text, Value: "${pw} costs $5"},
		"list":  {Type: JSON, Value: `["web.edge-1.example.com",1,{"a":1.50,"b":"<example.com>"}]`},
		"all": {
			Type:  JSON,
			Value: `{"big":12345678901234567890,"list":["web.edge-1.example.com",1,{"a":1.50,"b":"<example.com>"}],"n":3,"on":true,"text":"n=3"}`,
		},
		"literal": {Type: Text, Value: "${pw}"},
	} {
		if e := got[name]; e.Type != want.Type || e.Value != want.Value || e.Secret != want.Secret || e.Problem != "" {
			t.Errorf("%s: got %+v", name, e)
		}
	}
}

func TestCyclesAreNamed(t *testing.T) {
	t.Parallel()
	got := byEntry(Merge([]Layer{{Origin: "o", Entries: map[string]Entry{
		"a": text("${b}"), "b": {Type: JSON, Value: `{"x": "${c}"}`}, "c": text("c ${a}"), "into": text("${a}"),
		"self": text("${self}"), "well": text("x"),
	}}}, nil))
	for name, want := range map[string]string{
		"a": "refers to itself: a -> b -> c -> a", "b": "refers to itself: a -> b -> c -> a",
		"c":    "refers to itself: a -> b -> c -> a",
		"into": "refers to itself: a -> b -> c -> a", "self": "refers to itself: self -> self", "well": "",
	} {
		if e := got[name]; e.Problem != want || want != "" && e.Value != "" {
			t.Errorf("%s: got %q, want %q", name, e.Problem, want)
		}
	}
}

func TestWhatCanNotBeResolvedIsSaid(t *testing.T) {
	t.Parallel()
	got := byEntry(Merge([]Layer{{Origin: "o", Entries: map[string]Entry{
		"unknown": text("${nope}"), "open": text("${nope"), "label": text("${cluster.labels.env}"),
		"missing": {Type: Text, Problem: "is away"},
		"uses":    text("${missing}"), "secret": {Type: Text, Value: "hunter2-${hunter3", Secret: true},
		"unknownsecret": {Type: Text, Value: "${hunter4}", Secret: true},
	}}}, nil))
	for name, want := range map[string]string{
		"unknown": "${nope} is neither an entry", "open": "write $${", "label": "no such label", "missing": "is away",
		"uses":   `refers to "missing", which has no value: is away`,
		"secret": "write $${", "unknownsecret": "a ${...} of it is neither",
	} {
		if e := got[name]; !strings.Contains(e.Problem, want) || strings.Contains(e.Problem, "hunter") ||
			e.Value != "" {
			t.Errorf("%s: got %+v", name, e)
		}
	}
}

// A few entries must not become gigabytes.
func TestBombsAreBounded(t *testing.T) {
	t.Parallel()
	entries := map[string]Entry{"x0": text("0123456789")}
	for i := range 60 {
		n := fmt.Sprintf("${x%d}", i)
		entries[fmt.Sprint("x", i+1)] = text(strings.Repeat(n, 10))
		entries[fmt.Sprint("j", i+1)] = Entry{Type: JSON, Value: `["` + n + `", "` + n + `"]`}
	}
	var total int
	for _, e := range Merge([]Layer{{Entries: entries}}, nil) {
		total += len(e.Value)
	}
	if total > maxTotal+maxValue || total == 0 {
		t.Errorf("got %d bytes", total)
	}
}

// Long chains would take minutes, during which nobody writes to the catalog. Which entries are too far is the same in
// whichever order they are resolved.
func TestLongChainsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []func(int) string{
		func(i int) string { return fmt.Sprintf("x%04d", i) },
		func(i int) string { return fmt.Sprintf("x%04d", maxEntries-i) },
	} {
		for last, want := range map[string]int{"${nope}": 0, "${" + name(0) + "}": 0, "x": maxChain + 1} {
			entries := map[string]Entry{name(maxEntries - 1): text(last)}
			for i := range maxEntries - 1 {
				entries[name(i)] = text("${" + name(i+1) + "}")
			}
			got := byEntry(Merge([]Layer{{Entries: entries}}, nil))
			for i := range maxEntries {
				e := got[name(i)]
				if good := i >= maxEntries-want; good != (e.Problem == "") || len(e.Problem) > 1000 {
					t.Fatalf("%s of a chain that ends in %s: %d bytes of problem, %.200s", name(i), last,
						len(e.Problem), e.Problem)
				}
			}
		}
	}
}

// More entries than a service may have are refused one by one, whether or not one layer has all of them; secret ones
// stay secret.
func TestMoreEntriesThanAServiceMayHaveAreRefused(t *testing.T) {
	t.Parallel()
	const most, more = 2048, 3
	layers := []Layer{{Entries: map[string]Entry{}}, {Entries: map[string]Entry{}}}
	for i := range most + more {
		layers[i%2].Entries[fmt.Sprintf("x%04d", i)] = Entry{Type: Text, Value: "planted", Secret: true}
	}
	for i, e := range Merge(layers, nil) {
		switch refused := strings.Contains(e.Problem, "a service gets at most 2048 values"); {
		case !e.Secret:
			t.Fatalf("entry %d is no secret any more: %+v", i, e)
		case i < most && (e.Problem != "" || e.Value != "planted"), i >= most && (!refused || e.Value != ""):
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
}

func FuzzReferences(f *testing.F) {
	f.Add("${b}", `{"a": "${a}"}`, "hunter2")
	f.Add("$${", `["${b}", "$${a}", "${"]`, "${a}")
	f.Fuzz(func(t *testing.T, a, b, secret string) {
		layers := []Layer{{Origin: "o", Entries: map[string]Entry{
			"a": text(a), "b": {Type: JSON, Value: b}, "s": {Type: Text, Value: secret, Secret: true},
		}}}
		facts := map[string]string{"cluster.name": "edge"}
		first, again := Merge(layers, facts), Merge(layers, facts)
		if !slices.EqualFunc(first, again, func(a, b Effective) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Error("is not the same twice")
		}
		if got := slices.Sorted(maps.Keys(byEntry(first))); len(got) != 3 {
			t.Errorf("got %v", got)
		}
	})
}
