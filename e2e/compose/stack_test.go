package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

// composed is the stack of docker-compose.yml in an engine.
type composed struct {
	*engine
	profiles []string
	tree     string // where the sample is cloned to
	pushes   int
}

// up starts the stack with profiles, or with those of .env, and waits until all of it is healthy.
func (e *engine) up(t *testing.T, profiles ...string) *composed {
	t.Helper()
	s := &composed{engine: e, tree: filepath.Join(t.TempDir(), "sample")}
	for _, profile := range profiles {
		s.profiles = append(s.profiles, "--profile", profile)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.tell(t)
			if _, err := e.docker(context.WithoutCancel(t.Context()), "compose", "--profile", "*", "down", "--volumes",
				"--timeout", "1"); err != nil {
				t.Log(err)
			}
		}
	})
	s.compose(t, "up", "--detach", "--wait", "--pull", "never")
	return s
}

func (s *composed) args(args ...string) []string {
	return append(append([]string{"compose"}, s.profiles...), args...)
}

func (s *composed) compose(t *testing.T, args ...string) string {
	t.Helper()
	return s.must(t, s.args(args...)...)
}

// fairlead has the command read something, as people are told to. It is tried again: a small machine that is busy may
// keep a hub from answering.
func (s *composed) fairlead(t *testing.T, args ...string) (said string) {
	t.Helper()
	s.await(t, "fairlead "+strings.Join(args, " "), func(ctx context.Context) (err error) {
		said, err = s.docker(ctx, s.args(append([]string{"run", "--rm", "--no-TTY", "cli"}, args...)...)...)
		return err
	})
	return said
}

// secret reads a file of a volume.
func (s *composed) secret(t *testing.T, volume, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "data/volumes/fairlead_"+volume+"/_data", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// push commits a greeting that was never there, and returns it.
func (s *composed) push(t *testing.T) string {
	t.Helper()
	env := []string{
		"GIT_SSL_CAINFO=" + filepath.Join(s.dir, "data/volumes/fairlead_tls/_data/ca.crt"),
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	}
	git := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.inside(ctx, env,
			append([]string{"git", "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	if s.pushes == 0 {
		git("clone", "--quiet", "https://git:"+s.secret(t, "git-password", "password")+
			"@localhost:7405/sample.git", s.tree)
	}
	s.pushes++
	greeting := fmt.Sprintf("greeting-%d", s.pushes)
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\ndata: {greeting: " + greeting + "}\n"
	if err := os.WriteFile(filepath.Join(s.tree, "apps/hello/config.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	git("-C", s.tree, "commit", "--quiet", "--all", "--message="+greeting)
	git("-C", s.tree, "push", "--quiet")
	return greeting
}

// awaitApplied waits until the cluster has what was pushed.
func (s *composed) awaitApplied(t *testing.T, greeting string) {
	t.Helper()
	// The command watches: commands that ask again and again take all of a small machine.
	s.await(t, "the cluster has "+greeting, func(ctx context.Context) error {
		_, err := s.docker(ctx, s.args("exec", "--no-TTY", "kubernetes", "/kubelocal", "kubectl", "--kubeconfig=/data/kubeconfig",
			"wait", "configmap", "hello", "--for=jsonpath={.data.greeting}="+greeting, "--timeout=1m")...)
		return err
	})
}

func (s *composed) await(t *testing.T, what string, probe func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := process.Await(ctx, what, probe); err != nil {
		s.tell(t)
		t.Fatal(err)
	}
}

// tell shows what the containers said last, and how they are: later there is nothing left of them.
func (s *composed) tell(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for _, args := range [][]string{{"ps", "--all"}, {"logs", "--tail", "15"}} {
		said, err := s.docker(ctx, s.args(args...)...)
		t.Logf("%v\n%s", err, said)
	}
}

// container is what is of interest of `docker inspect`.
type container struct {
	ID           string `json:"Id"`
	Name         string
	RestartCount int
	State        struct {
		Status   string
		ExitCode int
		Running  bool
		Health   *struct{ Status string }
	}
	Config     struct{ User string }
	HostConfig struct {
		ReadonlyRootfs       bool
		CapAdd, CapDrop      []string
		SecurityOpt          []string
		Memory, PidsLimit    int64
		Privileged           bool
		NetworkMode, PidMode string
	}
}

func (s *composed) containers(ctx context.Context, of ...string) ([]container, error) {
	ids, err := s.docker(ctx, s.args(append([]string{"ps", "--all", "--quiet"}, of...)...)...)
	if err != nil {
		return nil, err
	}
	said, err := s.docker(ctx, append([]string{"inspect"}, strings.Fields(ids)...)...)
	if err != nil {
		return nil, err
	}
	var found []container
	return found, json.Unmarshal([]byte(said), &found)
}

// one is the container of a service.
func (s *composed) one(t *testing.T, service string) container {
	t.Helper()
	found, err := s.containers(t.Context(), service)
	if err != nil || len(found) != 1 {
		t.Fatalf("containers of %s: %d, %v", service, len(found), err)
	}
	return found[0]
}

// die kills the containers of services at once and waits until they are there again, healthy.
func (s *composed) die(t *testing.T, services ...string) {
	t.Helper()
	before := make([]container, len(services))
	for i, service := range services {
		before[i] = s.one(t, service)
	}
	for _, c := range before {
		s.kill(t, c.ID)
	}
	for i, service := range services {
		s.awaitHealthy(t, service, before[i].RestartCount+1)
	}
}

// awaitHealthy waits until a service is healthy that was started again so often.
func (s *composed) awaitHealthy(t *testing.T, service string, restarts int) {
	t.Helper()
	s.await(t, service+" is healthy again", func(ctx context.Context) error {
		now, err := s.containers(ctx, service)
		switch {
		case err != nil:
			return err
		case now[0].RestartCount < restarts:
			return errors.New("it was not started again")
		case now[0].State.Health == nil || now[0].State.Health.Status != "healthy":
			return errors.New("it is not healthy")
		}
		return nil
	})
}

// without does something while services are dead, and has them come back.
func (s *composed) without(t *testing.T, do func(), services ...string) {
	t.Helper()
	ids := make([]string, len(services))
	for i, service := range services {
		ids[i] = s.one(t, service).ID
	}
	s.must(t, append([]string{"kill"}, ids...)...) // the engine does not start them again
	do()
	s.must(t, append([]string{"start"}, ids...)...)
	for _, service := range services {
		s.awaitHealthy(t, service, 0)
	}
}

// throughTunnel reads what was pushed as a person does: at the tunnel's port, with a token of the command.
func (s *composed) throughTunnel(t *testing.T) string {
	t.Helper()
	var credential struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(s.fairlead(t, "kubectl-credential")), &credential); err != nil {
		t.Fatal(err)
	}
	client := s.client(t, s.secret(t, "tls", "ca.crt"), "tunnel")
	var greeting string
	s.await(t, "the tunnel answers", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"https://127.0.0.1:7403/clusters/local/api/v1/namespaces/default/configmaps/hello", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+credential.Status.Token)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s, %w", resp.Status, body, err)
		}
		var config struct{ Data map[string]string }
		err = json.Unmarshal(body, &config)
		greeting = config.Data["greeting"]
		return err
	})
	return greeting
}
