package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

func TestTraceFollowsACommitIntoTheCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	ship, err := s.NewShip(ctx, "trace", "trace")
	if err != nil {
		t.Fatal(err)
	}
	service := ship.Service(s.Clusters[0])
	var trace struct {
		Verdict string
		Steps   map[string]string
		Live    struct{ Owner string }
		Service struct {
			Status struct {
				Git, Hub struct{ Revision struct{ Commit string } }
			}
		}
	}
	err = process.Await(ctx, "every step is ok", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "trace", "service", service, "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &trace)
		}
		if err == nil && !strings.HasSuffix(trace.Verdict, "is healthy: nothing to do.") {
			err = fmt.Errorf("%s %v", trace.Verdict, trace.Steps)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Steps) != 5 || trace.Live.Owner == "" || trace.Service.Status.Git.Revision.Commit == "" {
		t.Errorf("got %+v", trace)
	}

	// An object that the cluster refuses is where it stands, and named.
	if _, err := ship.PushFiles(ctx, "bad", map[string]string{
		"bad.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 0}]}\n",
	}); err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "it stands at the cluster", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "trace", "service", service)
		if err == nil && (!strings.Contains(out, "\nCLUSTER   FAIL ") ||
			!strings.Contains(out, "\nit stands at CLUSTER for ") || !strings.Contains(out, "Service/bad")) {
			err = fmt.Errorf("got %s", out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
