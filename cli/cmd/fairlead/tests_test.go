package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// distributor is what a test says in the name of clusters.
type distributor struct {
	t       *testing.T
	status  consolev1connect.StatusServiceClient
	objects consolev1connect.ObjectServiceClient
}

func newDistributor(t *testing.T, url, secretFile string) *distributor {
	t.Helper()
	secret, err := os.ReadFile(secretFile)
	if err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	got, err := consolev1connect.NewIdentityServiceClient(hc, url, client.Options()...).ExchangeHubSecret(t.Context(),
		&consolev1.ExchangeHubSecretRequest{
			HubSecret: strings.TrimSpace(string(secret)),
			Subject:   &consolev1.ExchangeHubSecretRequest_Service{Service: identity.ServiceDistributor},
		})
	if err != nil {
		t.Fatal(err)
	}
	opts := append(client.Options(),
		client.WithToken(identitytest.SendTo(identity.ServiceConsole, got.GetToken().GetToken(), string(secret))))
	return &distributor{
		t, consolev1connect.NewStatusServiceClient(hc, url, opts...),
		consolev1connect.NewObjectServiceClient(hc, url, opts...),
	}
}

// run tells of a run whose one test has this outcome.
func (d *distributor) run(id string, outcome deliveryv1.TestOutcome) {
	d.t.Helper()
	result := &deliveryv1.TestResult{
		Kind: "Job", Namespace: "shop", Name: "smoke", Outcome: outcome, Attempts: 1, Log: "said something\n",
		StartTime: timestamppb.Now(),
	}
	run := &deliveryv1.TestRun{
		Id: id, Outcome: outcome, StartTime: timestamppb.Now(), Results: []*deliveryv1.TestResult{result},
	}
	if outcome != deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING {
		run.EndTime, result.EndTime = timestamppb.Now(), timestamppb.Now()
	}
	if outcome == deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED {
		run.Results = nil
	}
	_, err := d.objects.RecordDetails(d.t.Context(), &consolev1.RecordDetailsRequest{
		Cluster: "one", Detail: &deliveryv1.ServiceDetail{
			Service: "web", ObservedTime: timestamppb.Now(), Detail: &deliveryv1.ServiceDetail_TestRun{TestRun: run},
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

var askedFor = regexp.MustCompile(`run (asked-[0-9a-f]{16}) `)

// test --wait tells how the tests go, and its exit code says what came of them.
func TestTestsAreWaitedFor(t *testing.T) {
	t.Parallel()
	url, secret := startConsole(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	run := func(ctx context.Context, stdin string, out, errs *written, args ...string) error {
		return command.Run(ctx, args, app.IO{
			Getenv: func(name string) string {
				return map[string]string{"FAIRLEAD_CONFIG": config, "USER": "ada"}[name]
			},
			Stdin: strings.NewReader(stdin), Stdout: out, Stderr: errs, Now: time.Now,
		})
	}
	must := func(stdin string, args ...string) string {
		t.Helper()
		out := &written{}
		if err := run(t.Context(), stdin, out, out, args...); err != nil {
			t.Fatalf("fairlead %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out.String()
	}
	must("", "login", url, "--hub-secret-file", secret)
	const head = "apiVersion: fairlead.dev/v1\nkind: "
	must(head+"Cluster\nmetadata: {name: one}\n---\n"+head+
		"Source\nmetadata: {name: shop}\nspec: {git: {url: \"https://git.example.com/shop\"}}\n---\n"+
		head+"Service\nmetadata: {name: web}\nspec: {source: shop, cluster: one, tests: {path: tests, on: revision}}\n",
		"apply", "-f", "-")
	d := newDistributor(t, url, secret)
	_, err := d.status.RecordReports(t.Context(), &consolev1.RecordReportsRequest{
		Clusters: []*consolev1.ClusterReports{{Cluster: "one", Reports: []*deliveryv1.ServiceReport{{
			Service: "web", Sequence: 1, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: "d", AppliedDigest: "d",
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		outcome deliveryv1.TestOutcome
		code    int
		out     string
	}{
		{deliveryv1.TestOutcome_TEST_OUTCOME_PASSED, 0, "--- log of shop/smoke (Job)\nsaid something\n"},
		{deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, 2, " failed"},
		{deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED, 2, " aborted"},
		{deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED, 1, " skipped"},
	} {
		out, errs, ended := &written{}, &written{}, make(chan error, 1)
		go func() {
			ended <- run(t.Context(), "", out, errs, "test", "service", "web", "--wait", "--logs")
		}()
		errs.until(t, " is asked for\n")
		id := askedFor.FindStringSubmatch(errs.String())[1]
		d.run(id, deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING)
		errs.until(t, "shop/smoke (Job) running\n")
		d.run(id, c.outcome)
		err := <-ended
		code := 0
		if exit, ok := errors.AsType[flags.Exit](err); ok {
			code = int(exit)
		} else if err != nil {
			code = 1
		}
		if code != c.code || !strings.Contains(out.String(), c.out) {
			t.Errorf("%s: code %d, %v\n%s%s", c.outcome, code, err, out, errs)
		}
		if shown := must("", "test", "results", "service", "web", "--run", id); !strings.HasPrefix(shown, "run "+id) {
			t.Errorf("%s: shown as\n%s", c.outcome, shown)
		}
	}
	if shown := must("", "test", "results", "service", "web"); strings.Count(shown, "asked-") != 4 ||
		!strings.Contains(shown, "EARLIER") {
		t.Errorf("all runs:\n%s", shown)
	}

	// A run that takes too long goes on, and a run that was replaced before the agent heard of it is not waited for.
	out, errs := &written{}, &written{}
	if err := run(t.Context(), "", out, errs, "test", "service", "web", "--wait", "--timeout", "1ms"); err == nil ||
		!strings.Contains(err.Error(), "the agent has not told of it after 1ms; run asked-") {
		t.Errorf("after a moment: %v", err)
	}
	ended, errs := make(chan error, 1), &written{}
	go func() { ended <- run(t.Context(), "", &written{}, errs, "test", "service", "web", "--wait") }()
	errs.until(t, " is asked for\n")
	if said := must("", "test", "service", "web"); !strings.Contains(said, "service/web tests asked for: run asked-") {
		t.Errorf("said: %s", said)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "was replaced before its agent heard of it") {
		t.Errorf("replaced: %v", err)
	}
	if exported := must("", "export", "services"); !strings.Contains(exported, "path: tests") ||
		strings.Contains(exported, "testRequest") {
		t.Errorf("exported:\n%s", exported)
	}
}
