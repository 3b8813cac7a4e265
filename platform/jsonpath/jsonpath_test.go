package jsonpath_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/jsonpath"
)

const certificate = `{
	"metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "shop"}},
	"spec": {"issuerRef": {"name": "letsencrypt"}, "dnsNames": ["a.example", "b.example"]},
	"status": {"renewals": 3, "conditions": [
		{"type": "Issuing", "status": "False"}, {"type": "Ready", "status": "True", "observed": true, "at": {"step": 2}}
	]}
}`

func TestPathsLeadToOneValue(t *testing.T) {
	t.Parallel()
	var object any
	if err := json.Unmarshal([]byte(certificate), &object); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		".spec.issuerRef.name":                              `"letsencrypt"`,
		"{.spec.issuerRef.name}":                            `"letsencrypt"`,
		"$.metadata.name":                                   `"web"`,
		".metadata.labels['app.kubernetes.io/name']":        `"shop"`,
		`.metadata["labels"]["app.kubernetes.io/name"]`:     `"shop"`,
		".spec.dnsNames[0]":                                 `"a.example"`,
		".spec.dnsNames[-1]":                                `"b.example"`,
		".spec.dnsNames[2]":                                 "",
		".spec.dnsNames.name":                               "",
		".spec[0]":                                          "",
		".status.renewals":                                  "3",
		`.status.conditions[?(@.type=="Ready")].status`:     `"True"`,
		`{.status.conditions[?(@.type == 'Ready')].status}`: `"True"`,
		`.status.conditions[?(@.observed==true)].type`:      `"Ready"`,
		`.status.conditions[?(@.at.step==2)].type`:          `"Ready"`,
		`.status.conditions[?(@.type=="Approved")].status`:  "",
		`.status.conditions[?(@.at=="Ready")].status`:       "",
		".absent.field":                                     "",
	} {
		p, err := jsonpath.Parse(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		value, ok := p.Find(object)
		got, _ := json.Marshal(value)
		if ok != (want != "") || ok && string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", path, got, ok, want)
		}
		if p.String() != path {
			t.Errorf("%s is written %s", path, p)
		}
	}
}

func TestWrongPathsAreRefusedWithTheColumn(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"":                             "column 1: leads nowhere",
		"{}":                           "leads nowhere",
		"spec":                         "column 1: a step begins with",
		"{.spec":                       "{ without }",
		".spec..name":                  "column 6: ..: a path has to say each field",
		".spec.":                       "column 7: a field is missing",
		".spec.*":                      "column 7: *: a path leads to one value",
		".spec[*]":                     "column 7: must be a place",
		".spec[0:2]":                   "column 8: ] is missing",
		".spec['a'":                    "column 10: ] is missing",
		".spec['a":                     "quote at the end",
		".spec['']":                    "an empty text",
		".spec[a]":                     "column 7: must be a place",
		`.a[?(@.b!="c")]`:              "column 9: must be ==",
		`.a[?(@.b==c)]`:                "column 11: a text has to stand in quotes",
		`.a[?(@=="c")]`:                "a condition is written",
		`.a[?(@.b=="c"]`:               "column 14: ) is missing",
		".grüße":                       "column 4: a step begins with",
		strings.Repeat(".a", 17):       "more than 16 steps",
		"." + strings.Repeat("a", 256): "a path of 257 bytes",
		".a\xff":                       "not UTF-8",
	} {
		if _, err := jsonpath.Parse(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestAPathSaysWhereItBegins(t *testing.T) {
	t.Parallel()
	p, err := jsonpath.Parse("['metadata']['annotations'].a[0].b")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Fields(); !slices.Equal(got, []string{"metadata", "annotations", "a"}) {
		t.Errorf("got %q", got)
	}
	if !p.Under("metadata", "annotations") || p.Under("metadata", "labels") ||
		p.Under("metadata", "annotations", "a", "b") {
		t.Error("Under")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(".spec.issuerRef.name", certificate)
	f.Add(`{.status.conditions[?(@.type=="Ready")].status}`, certificate)
	f.Add(".metadata.labels['app.kubernetes.io/name']", certificate)
	f.Fuzz(func(t *testing.T, path, object string) {
		p, err := jsonpath.Parse(path)
		if err != nil {
			return
		}
		var is any
		if json.Unmarshal([]byte(object), &is) != nil {
			return
		}
		p.Find(is)
	})
}
