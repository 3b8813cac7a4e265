package command

import (
	"bytes"
	"testing"

	"fairlead.dev/cli/internal/table"
)

func TestTemplatesAreFilled(t *testing.T) {
	t.Parallel()
	const whole = `{"kind":"List","items":[{"metadata":{"name":"web"},"status":{"count":2}},{"metadata":{"name":"db"}}]}`
	rows := [][]byte{[]byte(`{"metadata":{"name":"web"},"status":{"count":2}}`), []byte(`{"metadata":{"name":"db"}}`)}
	for format, want := range map[string]string{
		"jsonpath={.items[*].metadata.name}":                   "web db",
		"jsonpath=kind":                                        "List",
		`jsonpath={.items[?(@.metadata.name=="web")].status}`:  `{"count":2}`,
		"jsonpath={.nothing}":                                  "",
		"custom-columns=NAME:.metadata.name,N:{.status.count}": "NAME  N\nweb   2\ndb    <none>\n",
		`custom-columns=NAME:metadata.name`:                    "NAME\nweb\ndb\n",
	} {
		var out bytes.Buffer
		a := &app{IO: IO{Stdout: &out, Getenv: func(string) string { return "" }}}
		if err := checkOneOf(format, []string{formatJSONPath, formatColumns}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if err := a.fillTemplate(format, []byte(whole), rows); err != nil || out.String() != want {
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

func TestVerbsOfOtherToolsAreAnsweredWithTheNameThatWasTyped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verb string
		args []string
		want string
	}{
		{
			"app",
			[]string{"sync", "shop", "--prune"},
			"there is no `fairlead app sync`: `fairlead sync service shop --wait`; what is pushed is applied by itself, unless the service is in manual mode",
		},
		{
			"rollout",
			[]string{"undo", "service/shop"},
			"there is no `fairlead rollout undo`: `fairlead rollback service shop`",
		},
		{
			"rollout",
			[]string{"undo", "deployment/shop"},
			"there is no `fairlead rollout undo`: `fairlead rollback service NAME`",
		},
		{
			"suspend",
			[]string{"kustomization", "shop"},
			"there is no `fairlead suspend`: `fairlead hold service shop --mode suspend --reason TEXT` keeps all hands off; without --mode what others change is still undone",
		},
		{"cp", []string{"a", "b"}, "there is no `fairlead cp`: `fairlead kubectl CLUSTER -- cp ...`"},
	} {
		if err := adviceOn(test.verb, test.args); err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}
