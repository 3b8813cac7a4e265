package separate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/e2e/traces"
)

// A commit is one trace over all services, and so is a request that two tunnels carry. Not parallel: programs are told by the environment where
// their spans go.
func TestEverySpanOfACommitAndOfARequestArrives(t *testing.T) {
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	receiver := traces.NewReceiver()
	t.Cleanup(receiver.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	s, _ := stack.Separate(ctx, t, bins)
	ship, err := s.NewShip(ctx, "traced", "traced")
	if err != nil {
		t.Fatal(err)
	}
	if err := ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	commit, err := ship.Push(ctx, "second")
	if err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "the commit's trace is whole in both clusters", func(context.Context) error {
		trace, err := traceOf(receiver.Spans(), commit)
		if err != nil {
			return err
		}
		if err := traces.Check(trace, traces.Commit()); err != nil {
			return err
		}
		for _, c := range s.Clusters {
			if err := healthy(trace, ship.Service(c)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	other, err := s.Again("tunnel", "tunnel-2")
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Token()
	if err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "a request through two tunnels is one trace", func(ctx context.Context) error {
		if err := s.Get(ctx, other+"/clusters/a/version", token); err != nil {
			return err
		}
		all := receiver.Spans()
		err := errors.New("nothing was relayed")
		for _, span := range all {
			if span.Name != "/relay/" {
				continue
			}
			if err = traces.Check(traces.Trace(all, span.Trace), traces.Request()); err == nil {
				return nil
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// traceOf finds the trace in which the commit was applied.
func traceOf(all []traces.Received, commit string) ([]traces.Received, error) {
	for _, span := range all {
		if span.Name == "agent.apply" && span.Attributes["revision"] == commit {
			return traces.Trace(all, span.Trace), nil
		}
	}
	return nil, fmt.Errorf("commit %.8s is applied in none of %d spans", commit, len(all))
}

func healthy(trace []traces.Received, service string) error {
	for _, span := range trace {
		if span.Name == "agent.healthy" && span.Attributes["service"] == service {
			return nil
		}
	}
	return fmt.Errorf("%s is not healthy in the trace", service)
}
