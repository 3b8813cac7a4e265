package separate

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// tested is a service with a Job and a Pod that test it. The Job passes by itself; the Pod runs until the test says how
// it ended.
type tested struct {
	*stack.Stack
	t    *testing.T
	repo *stack.Repository
}

const testedFolder = `apiVersion: batch/v1
kind: Job
metadata: {name: unit}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: unit, image: example.com/unit:1}]
---
apiVersion: v1
kind: Pod
metadata: {name: smoke}
spec:
  restartPolicy: Never
  containers: [{name: smoke, image: example.com/smoke:1}]
`

func (s *tested) push(ctx context.Context, marker string) {
	s.t.Helper()
	_, err := s.repo.Push(ctx, marker, map[string]string{
		"tested/namespace.yaml":  "apiVersion: v1\nkind: Namespace\nmetadata: {name: tested}\n",
		"tested/marker.yaml":     fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: marker}\ndata: {marker: %q}\n", marker),
		"tested/checks/all.yaml": testedFolder,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.await(ctx, "marker "+marker+" is applied", func(ctx context.Context) error {
		out, err := s.kubectl(ctx, "get", "configmap", "marker", "-o", "jsonpath={.data.marker}")
		if err == nil && out != marker {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
	s.await(ctx, "the service is healthy", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "get", "service", "tested")
		if err == nil && !strings.Contains(out, "Healthy") {
			err = errors.New(out)
		}
		return err
	})
}

func (s *tested) kubectl(ctx context.Context, args ...string) (string, error) {
	return s.Kubectl(ctx, s.Clusters[0].Kubeconfig, append([]string{"-n", "tested"}, args...)...)
}

func (s *tested) await(ctx context.Context, what string, ok func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("gave up after %s", patience))
	defer cancel()
	if err := process.Await(ctx, what, ok); err != nil {
		s.t.Fatal(err)
	}
}

// smoke waits for the Pod to run, and returns its name and uid.
func (s *tested) smoke(ctx context.Context) (name, uid string) {
	s.t.Helper()
	s.await(ctx, "the Pod of the tests runs", func(ctx context.Context) error {
		out, err := s.kubectl(ctx, "get", "pods", "--field-selector=status.phase=Running", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if n, u, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(n, "smoke") {
				name, uid = n, u
				return nil
			}
		}
		return fmt.Errorf("there is %q", out)
	})
	return name, uid
}

// end has the Pod end.
func (s *tested) end(ctx context.Context, pod, phase string, code int) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"smoke","image":"example.com/smoke:1","imageID":"","restartCount":0,"ready":false,"state":{"terminated":{"exitCode":%d,"reason":"Ended","startedAt":%q,"finishedAt":%q}}}]}}`,
		phase, code, time.Now().UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	if _, err := s.kubectl(ctx, "patch", "pod", pod, "--subresource=status", "--type=merge", "-p", patch); err != nil {
		s.t.Fatal(err)
	}
}

var runID = regexp.MustCompile(`run (asked-[0-9a-f]+)\.`)

// ask asks for a run, and returns its id.
func (s *tested) ask(ctx context.Context) string {
	s.t.Helper()
	out, err := s.Fairlead(ctx, "test", "service", "tested")
	found := runID.FindStringSubmatch(out)
	if err != nil || found == nil {
		s.t.Fatalf("%q, %v", out, err)
	}
	return found[1]
}

// over waits for the end of a run, and returns what its Pod came to with the run's own outcome.
func (s *tested) over(ctx context.Context, id string) (outcome, smoke string) {
	s.t.Helper()
	s.await(ctx, "run "+id+" is over", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "test", "results", "service", "tested", "--run", id, "-o", "json")
		if err != nil {
			return err
		}
		var run struct {
			Outcome, EndTime string
			Results          []struct{ Name, Outcome string }
		}
		if err := json.Unmarshal([]byte(out), &run); err != nil || run.EndTime == "" {
			return fmt.Errorf("%w: %s", err, out)
		}
		outcome = run.Outcome
		for _, r := range run.Results {
			if strings.HasPrefix(r.Name, "smoke") {
				smoke = r.Outcome
			}
		}
		return nil
	})
	return outcome, smoke
}

// nothing waits until nothing of the tests is left in the cluster.
func (s *tested) nothing(ctx context.Context) {
	s.t.Helper()
	s.await(ctx, "the tests are cleaned up", func(ctx context.Context) error {
		out, err := s.kubectl(ctx, "get", "jobs,pods", "-o", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("left are %q", out)
		}
		return err
	})
}

func (s *tested) says(ctx context.Context, want string, args ...string) {
	s.t.Helper()
	s.await(ctx, strings.Join(args, " ")+" says "+want, func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, args...)
		if err == nil && !strings.Contains(out, want) {
			err = errors.New(out)
		}
		return err
	})
}

// TestTestsOfAServiceRunOncePerAsking goes the whole way: asked for at the hub, run by the agent, waited for and read
// back; with an agent that is killed in between, and with a commit that comes in between.
func TestTestsOfAServiceRunOncePerAsking(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	up, _ := stack.Separate(ctx, t, bins)
	s := &tested{Stack: up, t: t}
	if s.repo, err = up.Clone(ctx); err != nil {
		t.Fatal(err)
	}
	cluster := s.Clusters[0].Name
	service := "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: tested}\nspec: {source: sample, path: tested, cluster: " + cluster + ", namespace: tested, tests: {path: checks, timeout: 600s}}\n"
	if _, err := s.FairleadStdin(ctx, service, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	s.push(ctx, "first")
	s.nothing(ctx) // no sync applies tests

	// A run that passes, waited for.
	type answer struct {
		out string
		err error
	}
	waited := func() <-chan answer {
		done := make(chan answer, 1)
		go func() {
			out, err := s.Fairlead(ctx, "test", "service", "tested", "--wait")
			done <- answer{out, err}
		}()
		return done
	}
	first := waited()
	pod, _ := s.smoke(ctx)
	s.end(ctx, pod, "Succeeded", 0)
	if got := <-first; got.err != nil || !strings.Contains(got.out, " passed") ||
		!strings.Contains(got.out, "tested/unit (Job)") || !strings.Contains(got.out, "tested/smoke (Pod)") {
		t.Fatalf("passed: %q, %v", got.out, got.err)
	}
	s.nothing(ctx)
	out, err := s.Fairlead(ctx, "test", "results", "service", "tested", "-o", "junit")
	var report struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	if err = errors.Join(err, xml.Unmarshal([]byte(out), &report)); err != nil || report.Tests != 2 ||
		report.Failures+report.Errors > 0 {
		t.Errorf("JUnit: %+v, %v\n%s", report, err, out)
	}
	s.says(ctx, "passed 2/2", "history", "service", "tested")
	s.says(ctx, "passed 2/2", "get", "services", "-o", "wide")
	s.says(ctx, "TESTS     ok", "trace", "service", "tested")
	s.says(ctx, "All 2 tests passed.", "events", "--filter", "type = service.tests_passed")

	// A run that fails.
	second := waited()
	pod, _ = s.smoke(ctx)
	s.end(ctx, pod, "Failed", 3)
	got := <-second
	if exit, ok := errors.AsType[*exec.ExitError](got.err); !ok || exit.ExitCode() != 2 ||
		!strings.Contains(got.out, " failed") {
		t.Fatalf("failed: %q, %v", got.out, got.err)
	}
	s.says(ctx, "1 of its 2 tests failed: see `fairlead test results service tested`", "get", "service", "tested")
	s.says(ctx, "tested/smoke", "events", "--filter", "type = service.tests_failed")

	// An agent that is killed goes on with what it began.
	id := s.ask(ctx)
	pod, uid := s.smoke(ctx)
	if err := errors.Join(s.Kill("agent-"+cluster), s.Start("agent-"+cluster)); err != nil {
		t.Fatal(err)
	}
	killed := time.Now().UTC()
	s.await(ctx, "the agent is back", func(ctx context.Context) error {
		out, err := s.Fairlead(ctx, "get", "cluster", cluster, "-o", "json")
		if err != nil {
			return err
		}
		var is struct {
			Status struct{ LastSeenTime time.Time }
		}
		if err := json.Unmarshal([]byte(out), &is); err != nil || !is.Status.LastSeenTime.After(killed) {
			return fmt.Errorf("%w: last seen %s, killed %s", err, is.Status.LastSeenTime, killed)
		}
		return nil
	})
	if again, sameUID := s.smoke(ctx); again != pod || sameUID != uid {
		t.Errorf("the Pod %s is another one after the agent was killed: %s", pod, again)
	}
	s.end(ctx, pod, "Succeeded", 0)
	if outcome, _ := s.over(ctx, id); outcome != "passed" {
		t.Errorf("the run whose agent was killed: %s", outcome)
	}
	s.nothing(ctx)

	// A newer revision ends the tests of the one before.
	id = s.ask(ctx)
	s.smoke(ctx)
	s.push(ctx, "second")
	if outcome, smoke := s.over(ctx, id); outcome != "aborted" || smoke != "aborted" {
		t.Errorf("a newer revision came: %s, %s", outcome, smoke)
	}
	s.nothing(ctx)
	out, err = s.Fairlead(ctx, "history", "service", "tested")
	if err != nil || strings.Count(out, "\n") != 3 {
		t.Errorf("an asking began a deployment: %v\n%s", err, out)
	}
}
