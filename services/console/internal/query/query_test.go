package query_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/services/console/internal/query"
)

var fields = query.Fields{
	"name": query.Text, "labels": query.Labels, "kind": query.OneOf("service.up", "cluster.gone"),
	"size": query.Number, "time": query.Time, "severity": query.Levels("INFO", "WARNING", "ERROR"),
}

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type row map[string]query.Value

func (r row) Field(name string) (query.Value, bool) {
	v, ok := r[name]
	return v, ok
}

func example() row {
	return row{
		"name": {Text: "shop-web"}, "kind": {Text: "service.up"}, "size": {Number: 7}, "severity": {Text: "WARNING"},
		"labels.env":              {Text: "prod"},
		"labels.fairlead.dev/set": {Text: "a"}, "time": {Number: now.Add(-30 * time.Minute).UnixMicro()},
	}
}

func TestFilterFitsWhatItSays(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]bool{
		"":                                      true,
		"name = shop-web":                       true,
		"kind = service.up":                     true,
		"kind : SERVICE.":                       true,
		"kind != cluster.gone AND kind > c":     true,
		"name=shop-web AND size>=7":             true,
		`name = "shop web"`:                     false,
		"name:SHOP":                             true,
		"name : api":                            false,
		"NOT name : api":                        true,
		"labels.env = prod":                     true,
		"labels:env":                            true,
		"labels : zone":                         false,
		"labels.zone != a":                      true,
		"labels.zone = a":                       false,
		"labels.fairlead.dev/set = a":           true,
		"severity >= WARNING":                   true,
		"severity = error":                      false,
		"time > 1h":                             true,
		"time < 1h":                             false,
		"time > 2026-11-20T11:29:00Z":           true,
		"time > 2026-11-21":                     false,
		"(size = 1 OR size = 7) AND name:shop":  true,
		"size = 1 OR (size = 7 AND name : api)": false,
		"NOT (size = 1 OR size = 7)":            false,
		"name > shop AND name < shop-x":         true,
	} {
		e, err := query.Parse(question, fields)
		if err != nil {
			t.Errorf("%s: %v", question, err)
			continue
		}
		if got := e.Match(example(), now); got != want {
			t.Errorf("%s: %v", question, got)
		}
	}
}

func TestFilterSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"nme = x":                     `character 1: there is no field "nme": there are kind, labels.<key>, name, severity, size, time`,
		`name = "köln" AND nme = x`:   `character 19: there is no field "nme"`,
		"name":                        "after \"name\" there must be one of = != < <= > >= :",
		"name =":                      "after = there must be a value",
		"name = a b = c":              "put AND or OR before it",
		"name = a AND size = 1 OR a":  "put parentheses around",
		"size = x":                    "size is a number",
		"kind = gold":                 `there is no kind "gold"; known are: service.up, cluster.gone`,
		"NOT kind != service.upp":     `there is no kind "service.upp"; did you mean "service.up"?`,
		"kind : servce":               `there is no kind "servce"; known are: service.up, cluster.gone`,
		"severity = bad":              "one of INFO, WARNING, ERROR",
		"time > yesterday":            "an age such as 90s",
		"(name = a":                   "a ) is missing",
		`name = "a`:                   "has no end",
		"size : 7":                    "no text that could contain",
		"labels = x":                  "write labels.<key> = x",
		"name = a AND":                "ends where a field should come",
		strings.Repeat("(", 50) + "a": "too many parentheses",
		strings.Repeat("NOT ", 50):    "too many NOTs",
		strings.Repeat("size=1 AND ", 120) + "size=1": "more than 100 comparisons",
	} {
		if _, err := query.Parse(question, fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", question, err, want)
		}
	}
}

func TestNeedsIsOnlyWhatAllFittingRowsHave(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"name = a":                             "a",
		"name = a AND size = 1":                "a",
		"size = 1 AND (name = a AND size = 2)": "a",
		"name = a OR size = 1":                 "",
		"NOT name = a":                         "",
		"(name = a OR name = b) AND size = 1":  "",
		"name != a":                            "",
	} {
		e, err := query.Parse(question, fields)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := e.Needs("name"); got != want {
			t.Errorf("%s: %q", question, got)
		}
	}
	e, _ := query.Parse("time > 1h AND size = 1", fields)
	if got := e.Since("time", now); !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("since %v", got)
	}
	e, _ = query.Parse("time > 1h OR size = 1", fields)
	if got := e.Since("time", now); !got.IsZero() {
		t.Errorf("since %v", got)
	}
}

// model is a question that is also known as a function.
type model struct {
	text string
	fits func(row) bool
}

func questions(depth int) *rapid.Generator[model] {
	return rapid.Custom(func(t *rapid.T) model {
		shape := rapid.IntRange(0, 4).Draw(t, "shape")
		if depth == 0 || shape < 2 {
			n := rapid.Int64Range(0, 3).Draw(t, "n")
			if shape == 0 {
				return model{fmt.Sprintf("size >= %d", n), func(r row) bool { return r["size"].Number >= n }}
			}
			return model{
				fmt.Sprintf("name != x%d", n), func(r row) bool { return r["name"].Text != fmt.Sprint("x", n) },
			}
		}
		a, b := questions(depth-1).Draw(t, "a"), questions(depth-1).Draw(t, "b")
		switch shape {
		case 2:
			return model{"(" + a.text + ") AND (" + b.text + ")", func(r row) bool { return a.fits(r) && b.fits(r) }}
		case 3:
			return model{"(" + a.text + ") OR (" + b.text + ")", func(r row) bool { return a.fits(r) || b.fits(r) }}
		}
		return model{"NOT (" + a.text + ")", func(r row) bool { return !a.fits(r) }}
	})
}

func TestFilterAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := questions(4).Draw(t, "question")
		e, err := query.Parse(m.text, fields)
		if err != nil {
			t.Fatal(m.text, err)
		}
		r := row{
			"size": {Number: rapid.Int64Range(0, 3).Draw(t, "size")},
			"name": {Text: fmt.Sprint("x", rapid.IntRange(0, 3).Draw(t, "name"))},
		}
		if e.Match(r, now) != m.fits(r) {
			t.Fatalf("%s on %v: %v", m.text, r, !m.fits(r))
		}
	})
}

func TestOrder(t *testing.T) {
	t.Parallel()
	o, err := query.ParseOrder("severity desc, name", fields)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := row{
		"name": {Text: "a"}, "severity": {Text: "INFO"},
	}, row{"name": {Text: "b"}, "severity": {Text: "ERROR"}}, row{"name": {Text: "c"}, "severity": {Text: "ERROR"}}
	values := func(r row) query.Place { return query.Place{Values: o.Values(nil, r)} }
	if o.Compare(values(a), values(b)) <= 0 || o.Compare(values(b), values(c)) >= 0 ||
		o.Compare(values(c), values(c)) != 0 {
		t.Error("not in order")
	}
	for _, bad := range []string{"nope", "name up", "labels", "name,", "name,name,name,name,name,name"} {
		if _, err := query.ParseOrder(bad, fields); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		"name = a AND (labels.x : y OR NOT time < 3d)", `name='\''`, "labels:a", "a:b:c", "size!=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, question string) {
		if e, err := query.Parse(question, fields); err == nil {
			e.Match(example(), now)
		}
	})
}

// doubts is a row that does not know some fields.
type doubts struct {
	row
	of string
}

func (d doubts) Doubts(name string) bool { return name == d.of }

func TestWhatIsDoubtedIsNotSureUnlessTheRestDecides(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"":                              "true true",
		"size > 3":                      "false false",
		"NOT size > 3":                  "false false",
		"NOT (NOT size > 3)":            "false false",
		"size != 3":                     "false false",
		"name = none AND size > 3":      "false true",
		"size > 3 AND name = none":      "false true",
		"name = shop-web AND size > 3":  "false false",
		"size > 3 OR name = shop-web":   "true true",
		"size > 3 OR name = none":       "false false",
		"NOT (size > 3 OR name = none)": "false false",
		"NOT (size > 3 OR name : shop)": "false true",
	} {
		expr, err := query.Parse(question, fields)
		if err != nil {
			t.Fatal(err)
		}
		fits, sure := expr.Ask(doubts{example(), "size"}, now)
		if got := fmt.Sprint(fits, " ", sure); got != want {
			t.Errorf("%s: fits, sure = %s, want %s", question, got, want)
		}
		if fits, sure = expr.Ask(doubts{example(), "nothing"}, now); !sure || fits != expr.Match(example(), now) {
			t.Errorf("%s: without a doubt %v, sure %v", question, fits, sure)
		}
	}
}
