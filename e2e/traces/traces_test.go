package traces_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"fairlead.dev/e2e/traces"
)

func TestPeopleAreToldTheSame(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(traces.Commit(), traces.Request()...) {
		parent := "-"
		if s.Parent != "" {
			parent = "`" + s.Parent + "`"
		}
		if row := fmt.Sprintf("\n| `%s` | %s | %s |", s.Name, strings.TrimPrefix(s.Service, "fairlead-"),
			parent); !strings.Contains(string(page), row) {
			t.Errorf("docs/operate/tracing.md has no %q", strings.TrimSpace(row))
		}
	}
}
