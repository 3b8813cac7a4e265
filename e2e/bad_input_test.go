package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// wantWords fails unless text holds all words: an error must name the thing, the cause and the next step.
func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(w)) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

func TestApplyRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for name, c := range map[string]struct {
		yaml  string
		words []string
	}{
		"unknown key": {
			"apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: odd}\nspec: {git: {url: https://example.com/x.git, brnch: main}}\n",
			[]string{"brnch"},
		},
		"unknown kind": {
			"apiVersion: fairlead.dev/v1\nkind: Sauce\nmetadata: {name: odd}\n",
			[]string{"Sauce", "Source"},
		},
		"name that is no DNS label": {
			"apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: Big_One}\n",
			[]string{"metadata.name", "lower-case"},
		},
		"scheme that is not allowed": {
			"apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: odd}\nspec: {git: {url: 'git://example.com/x.git'}}\n",
			[]string{"odd", "spec.git.url", "https"},
		},
		"URL that runs a program": {
			"apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: odd}\nspec: {git: {url: 'ext::sh -c id'}}\n",
			[]string{"odd", "spec.git.url"},
		},
		"service of an unknown source": {
			"apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: odd}\nspec: {source: nowhere, cluster: " +
				s.Clusters[0].Name + "}\n",
			[]string{"odd", "nowhere"},
		},
		"service of an unknown cluster": {
			"apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: odd}\nspec: {source: sample, cluster: elsewhere}\n",
			[]string{"odd", "elsewhere"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := s.FairleadStdin(t.Context(), c.yaml, "apply", "-f", "-")
			if err == nil {
				t.Fatalf("apply took it: %s", out)
			}
			wantWords(t, err.Error(), c.words...)
		})
	}
}

func TestUnreachableRepositoryIsSaidInTheSource(t *testing.T) {
	t.Parallel()
	s := shared(t)
	source := "apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: unreachable}\nspec: {git: {url: 'http://127.0.0.1:1/x.git'}}\n"
	waitSourceProblem(t, s, "unreachable", source, "127.0.0.1:1", "connection refused")
}

func TestWrongCredentialsAreSaidInTheSource(t *testing.T) {
	t.Parallel()
	s := shared(t)
	url := privateRepository(t, "right-password")
	source := "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: wrong}\ndata: {username: git, password: not-this-one}\n---\n" +
		"apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: private}\nspec: {git: {url: '" + url +
		"', secret: wrong}}\n"
	problem := waitSourceProblem(t, s, "private", source, `secret "wrong"`, "401")
	if strings.Contains(problem, "not-this-one") {
		t.Errorf("the password is in %q", problem)
	}
}

// waitSourceProblem applies resources and waits until the source's status says all words.
func waitSourceProblem(t *testing.T, s *stack.Stack, name, resources string, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.FairleadStdin(ctx, resources, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	var seen string
	err := process.Await(ctx, "source "+name+" has a problem", func(ctx context.Context) error {
		var err error
		if seen, err = s.Fairlead(ctx, "get", "sources", name, "-o", "yaml"); err != nil {
			return err
		}
		for _, word := range append(words, "problem:") {
			if !strings.Contains(seen, word) {
				return fmt.Errorf("no %q in:\n%s", word, seen)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestBadCommitKeepsWhatWasAppliedBefore(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	ship, err := s.NewShip(ctx, "bad", "bad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ship.Deliver(ctx, "good"); err != nil {
		t.Fatal(err)
	}

	// Not YAML that Kubernetes understands: the agent refuses the folder.
	if _, err := ship.PushFiles(ctx, "broken", map[string]string{
		"config.yaml": "kind: ConfigMap\ndata: [\n",
	}); err != nil {
		t.Fatal(err)
	}
	waitFailed(ctx, t, s, ship, "config.yaml")
	if err := ship.WaitApplied(ctx, "good"); err != nil {
		t.Errorf("the broken commit took away what was applied: %v", err)
	}

	// An empty folder is refused: it would delete everything. Git keeps no empty folders, so
	// this one holds a file that is no manifest.
	files := map[string]string{"config.yaml": "", "web.yaml": "", "namespace.yaml": "", "README.md": "empty\n"}
	if _, err := ship.PushFiles(ctx, "empty", files); err != nil {
		t.Fatal(err)
	}
	waitFailed(ctx, t, s, ship, "holds no manifests")
	if err := ship.WaitApplied(ctx, "good"); err != nil {
		t.Errorf("the empty commit took away what was applied: %v", err)
	}

	// The folder goes: the hub can't resolve it and the clusters keep what they have.
	if _, err := ship.PushFiles(ctx, "gone", map[string]string{"README.md": ""}); err != nil {
		t.Fatal(err)
	}
	waitFailed(ctx, t, s, ship, `folder "bad"`)
	if err := ship.WaitApplied(ctx, "good"); err != nil {
		t.Errorf("the removed folder took away what was applied: %v", err)
	}

	// And the commit that mends it arrives.
	if _, err := ship.Deliver(ctx, "mended"); err != nil {
		t.Fatal(err)
	}
}

// waitFailed waits until the services of a ship say in their status that they failed, and why.
func waitFailed(ctx context.Context, t *testing.T, s *stack.Stack, ship *stack.Ship, why string) {
	t.Helper()
	for _, c := range s.Clusters {
		err := process.Await(ctx, ship.Service(c)+" says "+why, func(ctx context.Context) error {
			svc, err := s.Service(ctx, ship.Service(c))
			if err == nil && (svc.Status.State != "failed" || !strings.Contains(svc.Status.StateMessage, why)) {
				err = fmt.Errorf("%s: %s", svc.Status.State, svc.Status.StateMessage)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestWrongTokenIsRefusedWithTheNextStep(t *testing.T) {
	t.Parallel()
	s := shared(t)
	config, err := os.ReadFile(s.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	var forged []string
	for line := range strings.Lines(string(config)) {
		if key, token, ok := strings.Cut(line, "token: "); ok {
			token = strings.TrimSpace(token)
			line = key + "token: " + token[:len(token)-8] + "AAAAAAAA\n"
		}
		forged = append(forged, line)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(forged, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.FairleadConfig(t.Context(), file, "get", "services")
	if err == nil {
		t.Fatal("a forged token was accepted")
	}
	wantWords(t, err.Error(), "token", "fairlead login")
}

func TestUnknownClusterHasNoKubeconfig(t *testing.T) {
	t.Parallel()
	s := shared(t)
	_, err := s.Fairlead(t.Context(), "kubeconfig", "elsewhere")
	if err == nil {
		t.Fatal("got a kubeconfig for a cluster that does not exist")
	}
	wantWords(t, err.Error(), "elsewhere", "fairlead get clusters")
}
