package app

import (
	"bytes"
	"testing"

	"fairlead.dev/cli/internal/table"
)

func TestTemplatesAreFilled(t *testing.T) {
	t.Parallel()
	const whole = `{"kind":"List","items":[{"metadata":{"name":"web"},"status":{"count":12345678,"share":0.25}},{"metadata":{"name":"db"}}]}`
	rows := [][]byte{[]byte(`{"metadata":{"name":"web"},"status":{"count":12345678}}`), []byte(`{"metadata":{"name":"db"}}`)}
	for format, want := range map[string]string{
		"jsonpath={.items[*].metadata.name}":                   "web db",
		"jsonpath=kind":                                        "List",
		`jsonpath={.items[?(@.metadata.name=="web")].status}`:  `{"count":12345678,"share":0.25}`,
		"jsonpath={.items[0].status['count','share']}":         "12345678 0.25",
		"jsonpath={.items[?(@.status.count>7)].metadata.name}": "web",
		"jsonpath={.nothing}":                                  "",
		"custom-columns=NAME:.metadata.name,N:{.status.count}": "NAME  N\nweb   12345678\ndb    <none>\n",
		`custom-columns=NAME:metadata.name`:                    "NAME\nweb\ndb\n",
	} {
		var out bytes.Buffer
		a := &App{IO: IO{Stdout: &out, Getenv: func(string) string { return "" }}}
		if err := CheckOneOf(format, []string{FormatJSONPath, FormatColumns}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if err := a.FillTemplate(format, []byte(whole), rows); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", format, out.String(), err, want)
		}
	}
}

func TestStatesHaveColours(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		head, cell string
		want       table.Colour
	}{
		{"STATE", "Healthy", table.Green},
		{"STATE", "Healthy, held", table.Green},
		{"HEALTH", "Degraded 1/3 (5m)", table.Red},
		{"SYNC", "in sync", table.Green},
		{"SYNC", "3 behind", ""},
		{"STATE", "Pending", table.Yellow},
		{"NAME", "failed", ""},
		{"STATE", "-", ""},
	} {
		if got := cellColour(test.head, test.cell); got != test.want {
			t.Errorf("%s %q is %q, want %q", test.head, test.cell, got, test.want)
		}
	}
}
