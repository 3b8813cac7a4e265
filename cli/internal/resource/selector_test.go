package resource

import (
	"testing"
)

func TestSelectorsBecomeFilters(t *testing.T) {
	t.Parallel()
	for selector, want := range map[string]string{
		"env=prod":                   `labels.env = "prod"`,
		"env==prod,tier!=db":         `labels.env = "prod" AND labels.tier != "db"`,
		"fairlead.dev/set":           `labels : "fairlead.dev/set"`,
		"!env":                       `NOT labels : "env"`,
		"env in (prod, test),tier":   `(labels.env = "prod" OR labels.env = "test") AND labels : "tier"`,
		"env notin (prod,test)":      `(labels.env != "prod" AND labels.env != "test")`,
		" env = prod ":               `labels.env = "prod"`,
		"app.kubernetes.io/name=web": `labels.app.kubernetes.io/name = "web"`,
	} {
		got, err := SelectorFilter(selector)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", selector, got, err, want)
		}
	}
	for _, wrong := range []string{"", "a=b=c", "a b", "env in prod", "a=b,", "(a)", `a="b"`} {
		if got, err := SelectorFilter(wrong); err == nil && wrong != `a="b"` {
			t.Errorf("%q became %q", wrong, got)
		}
	}
}
