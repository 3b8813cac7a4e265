package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/gitserver"
)

// loginLink logs an administrator in, once.
func loginLink(ctx context.Context, t *testing.T, s *stack.Stack, name string) string {
	t.Helper()
	link, err := s.Fairlead(ctx, "admin", "login-link", name, "--group", "fairlead:admins")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(link)
}

// A person on call goes from the fleet to the failing pod's events and log with the keyboard only. The local clusters
// have no pod that fails by itself: its status is written as a kubelet would.
func TestPersonFindsACauseByKeyboardInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cluster := s.Clusters[0]
	repository, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = repository.Push(ctx, "migrate", map[string]string{
		"causes/namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: causes}\n",
		"causes/pod.yaml":       "apiVersion: v1\nkind: Pod\nmetadata: {name: migrate}\nspec: {restartPolicy: Never, containers: [{name: main, image: example.com/migrate}]}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	const rule = "{kind: Pod, healthy: [{path: .status.phase, values: [Running, Succeeded]}], failed: [{path: .status.phase, values: [Failed]}]}"
	service := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: causes}\nspec: {source: sample, path: causes, cluster: %s, namespace: causes, sync: {health: [%s]}}\n", cluster.Name, rule)
	if _, err := s.FairleadStdin(ctx, service, "apply", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "the pod runs", func(ctx context.Context) error {
		phase, err := s.Kubectl(ctx, cluster.Kubeconfig, "--namespace=causes", "get", "pod", "migrate",
			"--output=jsonpath={.status.phase}")
		if err == nil && phase != "Running" {
			err = fmt.Errorf("it is %q", phase)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	event := filepath.Join(t.TempDir(), "event.yaml")
	text := "apiVersion: v1\nkind: Event\nmetadata: {name: migrate, namespace: causes}\ninvolvedObject: {apiVersion: v1, kind: Pod, name: migrate, namespace: causes}\n" +
		"reason: BackOff\ntype: Warning\nmessage: the container <b>does not start</b>\nlastTimestamp: \"2026-01-01T00:00:00Z\"\nsource: {component: test}\n"
	if err := os.WriteFile(event, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status := `{"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [{"name": "main", "image": "example.com/migrate", "imageID": "",
		"ready": false, "restartCount": 0, "started": false, "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}}`
	for _, args := range [][]string{
		{"apply", "--filename", event},
		{"--namespace=causes", "patch", "pod", "migrate", "--subresource=status", "--type=merge", "--patch", status},
	} {
		if _, err := s.Kubectl(ctx, cluster.Kubeconfig, args...); err != nil {
			t.Fatal(err)
		}
	}
	inChromium(ctx, t, "why.mjs", func(event string) error { return fmt.Errorf("the script says %q", event) },
		loginLink(ctx, t, s, "kai"), "causes", "migrate", os.Getenv("SHOTS"))
}

// A person changes a global service on one cluster first, sees a bad version stop there, and goes back.
func TestPersonChangesTheFleetWithCareInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	repository, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	version := func(name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: version}\ndata: {version: %s}\n", name)
	}
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: careful}\n"
	_, err = repository.Push(ctx, "three versions", map[string]string{
		"careful/v1/namespace.yaml": namespace, "careful/v1/version.yaml": version("v1"),
		"careful/v2/namespace.yaml": namespace, "careful/v2/version.yaml": version("v2"),
		"careful/broken/namespace.yaml": namespace, "careful/broken/broken.yaml": "kind: [\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	inChromium(ctx, t, "fleet.mjs", func(event string) error {
		words := strings.Fields(event)
		if len(words) != 1+len(s.Clusters) || words[0] != "runs" {
			return fmt.Errorf("the script says %q", event)
		}
		return process.Await(ctx, "the clusters have "+event, func(ctx context.Context) error {
			var wrong error
			for i, c := range s.Clusters {
				got, err := s.Kubectl(ctx, c.Kubeconfig, "--namespace=careful", "get", "configmap", "version",
					"--output=jsonpath={.data.version}")
				if err == nil && got != words[i+1] {
					err = fmt.Errorf("cluster %s has %q", c.Name, got)
				}
				wrong = errors.Join(wrong, err)
			}
			return wrong
		})
	}, loginLink(ctx, t, s, "cora"), "careful", s.Clusters[0].Name, s.Clusters[1].Name, os.Getenv("SHOTS"))
}

// A Git host goes away: the pages say so, what was fetched is delivered and repaired all the same, and the source
// recovers.
func TestPersonSeesAGitHostGoAwayInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cluster := s.Clusters[0]
	git, err := gitserver.New(gitserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	const marker = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: marker}\ndata: {marker: kept while Git is away}\n"
	err = git.Create(ctx, "offline", fstest.MapFS{
		"namespace.yaml": {Data: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: offline}\n")},
		"marker.yaml":    {Data: []byte(marker)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "the host is away", http.StatusServiceUnavailable)
			return
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	resources := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: offline}\nspec: {git: {url: %q}}\n---\n"+
		"apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: offline}\nspec: {source: offline, cluster: %s, namespace: offline}\n", server.URL+"/offline.git", cluster.Name)
	if _, err := s.FairleadStdin(ctx, resources, "apply", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
	kept := func() error {
		return process.Await(ctx, "the marker is there", func(ctx context.Context) error {
			got, err := s.Kubectl(ctx, cluster.Kubeconfig, "--namespace=offline", "get", "configmap", "marker",
				"--output=jsonpath={.data.marker}")
			if err == nil && got != "kept while Git is away" {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	if err := kept(); err != nil {
		t.Fatal(err)
	}
	inChromium(ctx, t, "offline.mjs", func(event string) error {
		switch event {
		case "away":
			away.Store(true)
		case "back":
			away.Store(false)
		case "drift":
			_, err := s.Kubectl(ctx, cluster.Kubeconfig, "--namespace=offline", "patch", "configmap", "marker",
				"--type=merge", "--patch", `{"data": {"marker": "by hand"}}`)
			return err
		case "repaired":
			return kept()
		default:
			return fmt.Errorf("the script says %q", event)
		}
		return nil
	}, loginLink(ctx, t, s, "gita"), "offline", os.Getenv("SHOTS"))
}

// A cluster joins by what a page has a person download, and the page turns green by itself.
func TestPersonJoinsAClusterInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), joinPatience)
	defer cancel()
	j := newJoiner(ctx, t)
	const name = "walked"
	file := filepath.Join(j.dir, "agent.yaml")
	inChromium(ctx, t, "join.mjs", func(event string) error {
		switch event {
		case "join":
			if _, err := j.Kubectl(ctx, j.kube.Kubeconfig, "apply", "--server-side", "-f", file); err != nil {
				return err
			}
			kubeconfig, token := j.account(ctx, t)
			agent := process.New(j.dir, "agent", filepath.Join(j.bins.Dir, "agent"),
				"--hub-url", j.Hub["console"], "--hub-ca-file", j.CAFile, "--join-token-file", token, "--data-dir",
				filepath.Join(j.dir, "data"), "--kubeconfig", kubeconfig)
			t.Cleanup(func() {
				if err := agent.Stop(time.Minute); err != nil {
					t.Error(err)
				}
			})
			return agent.Start()
		case "ship":
			repository, err := j.Clone(ctx)
			if err != nil {
				return err
			}
			_, err = repository.Push(ctx, "for the cluster that joined", map[string]string{
				name + "/objects.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: walked}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata: {text: hello}\n",
			})
			if err != nil {
				return err
			}
			service := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {source: sample, path: %[1]s, cluster: %[1]s, namespace: walked}\n", name)
			_, err = j.FairleadStdin(ctx, service, "apply", "-f", "-")
			return err
		default:
			return fmt.Errorf("the script says %q", event)
		}
	}, loginLink(ctx, t, j.Stack, "jo"), name, file, os.Getenv("SHOTS"))
}

// A person's session ends in another browser while a page is open, other hosts get nothing of it, and hostile sizes
// break no page.
func TestSessionAndHostileSizesInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var links []string
	for range 3 {
		links = append(links, loginLink(ctx, t, s, "sessa"))
	}
	inChromium(ctx, t, "session.mjs", func(event string) error { return fmt.Errorf("the script says %q", event) },
		append(links, os.Getenv("SHOTS"))...)
}
