package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/stack"
	"fairlead.dev/e2e/traces"
)

// span is what is of interest of one that the Collector was sent.
type span struct {
	traces.Span
	id, parent string
	attributes map[string]string
}

// attributes as OTLP writes them in JSON; only texts are of interest.
type attributes []struct {
	Key   string
	Value struct{ StringValue string }
}

func (a attributes) byKey() map[string]string {
	all := make(map[string]string, len(a))
	for _, one := range a {
		all[one.Key] = one.Value.StringValue
	}
	return all
}

// traced reads what the Collector was sent, by trace, with the names of the spans' parents.
func (w *world) traced() (map[string][]span, error) {
	text, err := os.ReadFile(w.spans)
	if err != nil {
		return nil, err
	}
	all := map[string][]span{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the line is being written
		}
		if err := addSpans(all, line); err != nil {
			return nil, err
		}
	}
	for _, spans := range all {
		names := map[string]string{}
		for _, s := range spans {
			names[s.id] = s.Name
		}
		for i, s := range spans {
			if spans[i].Parent = names[s.parent]; spans[i].Parent == "" {
				spans[i].Parent = s.parent // empty, or one that is not there
			}
		}
	}
	return all, nil
}

func addSpans(to map[string][]span, line []byte) error {
	var sent struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes attributes }
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Attributes                          attributes
				}
			}
		}
	}
	if err := json.Unmarshal(line, &sent); err != nil {
		return fmt.Errorf("read spans: %w", err)
	}
	for _, resource := range sent.ResourceSpans {
		service := resource.Resource.Attributes.byKey()["service.name"]
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				to[s.TraceID] = append(to[s.TraceID], span{
					Span: traces.Span{Name: s.Name, Service: service}, id: s.SpanID, parent: s.ParentSpanID,
					attributes: s.Attributes.byKey(),
				})
			}
		}
	}
	return nil
}

// missing are the spans of want that a trace does not have, or that have another parent there.
func missing(spans []span, want []traces.Span) (gone []traces.Span) {
	for _, one := range want {
		if !slices.ContainsFunc(spans, func(s span) bool { return s.Span == one }) {
			gone = append(gone, one)
		}
	}
	return gone
}

func TestMissingSpansAreSeen(t *testing.T) {
	t.Parallel()
	for _, want := range [][]traces.Span{traces.Commit(), traces.Request()} {
		var whole []span
		for _, s := range want {
			whole = append(whole, span{Span: s})
		}
		if gone := missing(whole, want); len(gone) > 0 {
			t.Errorf("%v are missed", gone)
		}
		for i := range whole {
			without := slices.Delete(slices.Clone(whole), i, i+1)
			if gone := missing(without, want); len(gone) != 1 || gone[0] != want[i] {
				t.Errorf("without %v: %v are missed", want[i], gone)
			}
			elsewhere := slices.Clone(whole)
			elsewhere[i].Parent = "another"
			if gone := missing(elsewhere, want); len(gone) != 1 || gone[0] != want[i] {
				t.Errorf("with %v under another: %v are missed", want[i], gone)
			}
		}
	}
}

// aCommitIsOneTrace follows a commit from the poll that found it until it is healthy.
func aCommitIsOneTrace(t *testing.T, w *world, ship *stack.Ship) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	commit, err := ship.Push(ctx, "traced")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitHealthy(ctx, commit); err != nil {
		t.Fatal(err)
	}
	await(t.Context(), t, "there is one trace of the commit", func(context.Context) error {
		all, err := w.traced()
		if err != nil {
			return err
		}
		trace, err := oneHas(all, traces.Commit(), func(s span) bool { return s.attributes["revision"] == commit })
		if err != nil {
			return err
		}
		for _, c := range w.Clusters {
			service := ship.Service(c)
			if !slices.ContainsFunc(trace,
				func(s span) bool { return s.Name == "agent.healthy" && s.attributes["service"] == service }) {
				return fmt.Errorf("%s is not healthy in it", service)
			}
		}
		return nil
	})
}

// aRequestIsOneTrace follows a kubectl call to the replica that has no session of the cluster.
func aRequestIsOneTrace(t *testing.T, w *world) {
	kubeconfig, err := w.TunnelKubeconfig(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(other, bytes.ReplaceAll(text, []byte(w.Hub["tunnel"]), []byte(w.Hub["tunnel-2"])),
		0o600); err != nil {
		t.Fatal(err)
	}
	before, err := w.traced()
	if err != nil {
		t.Fatal(err)
	}
	if said, err := w.Kubectl(t.Context(), other, "get", "--raw", "/version"); err != nil ||
		!strings.Contains(said, "gitVersion") {
		t.Fatalf("%s, %v", said, err)
	}
	await(t.Context(), t, "there is one trace of the request", func(context.Context) error {
		all, err := w.traced()
		if err != nil {
			return err
		}
		for id := range before {
			delete(all, id)
		}
		_, err = oneHas(all, traces.Request(), func(s span) bool { return s.Name == "/relay/" })
		return err
	})
}

// oneHas finds the one trace that has a certain span, if it has all that are wanted.
func oneHas(all map[string][]span, want []traces.Span, with func(span) bool) ([]span, error) {
	var found [][]span
	for _, spans := range all {
		if slices.ContainsFunc(spans, with) {
			found = append(found, spans)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d of %d traces are of it", len(found), len(all))
	}
	if gone := missing(found[0], want); len(gone) > 0 {
		var has []traces.Span
		for _, s := range found[0] {
			has = append(has, s.Span)
		}
		return nil, fmt.Errorf("these spans are missing: %v; there are %v", gone, has)
	}
	return found[0], nil
}
