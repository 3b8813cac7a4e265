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
		if row := fmt.Sprintf("\n| `%s` | %s | %s |", s.Name, strings.TrimPrefix(s.Service, "fairlead-"), parent); !strings.Contains(string(page), row) {
			t.Errorf("docs/operate/tracing.md has no %q", strings.TrimSpace(row))
		}
	}
}

func TestMissingSpanIsNamed(t *testing.T) {
	t.Parallel()
	received := []traces.Received{
		{Span: traces.Span{Name: "/clusters/", Service: traces.Tunnel}, Trace: "1", ID: "a"},
		{Span: traces.Span{Name: "/relay/", Service: traces.Tunnel}, Trace: "1", ID: "b", ParentID: "a"},
		{Span: traces.Span{Name: "agent.request", Service: traces.Agent}, Trace: "2", ID: "c", ParentID: "b"},
	}
	err := traces.Check(traces.Trace(received, "1"), traces.Request())
	if err == nil || !strings.Contains(err.Error(), `lacks agent.request of fairlead-agent below "/relay/"; it has`) {
		t.Errorf("got %v", err)
	}
	received[2].Trace = "1"
	if err := traces.Check(traces.Trace(received, "1"), traces.Request()); err != nil {
		t.Error(err)
	}
	received[1].ParentID = ""
	if traces.Check(traces.Trace(received, "1"), traces.Request()) == nil {
		t.Error("a span with another parent counts")
	}
}
