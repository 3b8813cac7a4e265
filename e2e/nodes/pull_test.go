package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

// registry is one in the lab that wants a password.
type registry struct {
	Host, Username, Password, Control string

	folder string
}

// A hub and an agent whose images are in a registry that wants a password come up by imagePullSecrets alone, and so do
// the pods of `helm test`. Without the password nothing can be pulled.
func TestPullsWithAPassword(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	w := start(t, 1)
	r := w.startRegistry(t)
	for _, image := range []string{"console", "gitcache", "distributor", "tunnel", "agent", "cli"} {
		r.move(t, w, image)
	}
	w.makeSecrets(t)
	w.kubectl(t, databases, "apply", "--namespace=data", "-f", "-")
	w.restrict(t, "fairlead")
	w.giveSecrets(t)
	w.restrict(t, "fairlead-system")
	for _, namespace := range []string{"fairlead", "fairlead-system"} {
		r.giveSecret(t, w, namespace, "registry", r.Password)
	}
	r.refuses(t, w)

	values := strings.Replace(hubValues, "registry: fairlead,", "registry: "+r.Host+"/fairlead,", 1) + "imagePullSecrets: [{name: registry}]\n"
	if err := w.helm(t, "fairlead").install(t.Context(), "fairlead", hubChart, values, patience); err != nil {
		t.Fatal(err)
	}
	w.logIn(t)
	w.fairlead(t, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge}\n", "apply", "-f", "-")
	agent, err := json.Marshal(map[string]any{
		"image":            map[string]any{"repository": r.Host + "/fairlead/agent", "tag": "dev"},
		"imagePullSecrets": []any{map[string]any{"name": "registry"}},
		"hub":              map[string]any{"url": w.hubURL, "ca": w.read(t, "tls/ca.crt")},
		"join":             map[string]any{"tokens": []string{strings.TrimSpace(w.fairlead(t, "", "cluster", "join-token", "edge"))}},
		"rbac":             map[string]any{"bindAdmins": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.helm(t, "fairlead-system").install(t.Context(), "fairlead-agent", agentChart, string(agent), patience); err != nil {
		t.Fatal(err)
	}
	w.serveGit(t)
	w.push(t, "first")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")
	w.helmTest(t)
	log := r.log(t, w)
	for _, image := range []string{"console", "gitcache", "distributor", "tunnel", "agent", "cli"} {
		if want := "/v2/fairlead/" + image + "/manifests/"; !pulled(log, want) {
			t.Errorf("the registry did not answer GET %s with a password", want)
		}
	}
}

// pulled tells whether the log has an answer to a request that had a password.
func pulled(log, path string) bool {
	for line := range strings.Lines(log) {
		fields := strings.Fields(line) // method, path, status, how it was authorized
		if len(fields) == 4 && (fields[0] == http.MethodGet || fields[0] == http.MethodHead) && strings.HasPrefix(fields[1], path) && fields[2] == "200" {
			return true
		}
	}
	return false
}

// startRegistry runs a registry beside the nodes, and tells containerd of its authority.
func (w *world) startRegistry(t *testing.T) *registry {
	t.Helper()
	program := strings.TrimSpace(os.Getenv("REGISTRYLOCAL"))
	if program == "" {
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // a first build takes minutes
		defer cancel()
		out, err := exec.CommandContext(ctx, "../../tools/registrylocal/build.sh").Output()
		if err != nil {
			t.Fatal(err)
		}
		program = strings.TrimSpace(string(out))
	}
	r := &registry{folder: filepath.Join(w.dir, "registry")}
	if err := os.Mkdir(r.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	server := process.New(w.dir, "registry", w.program, "exec", "--dir", w.lab, "--", program, "serve", r.folder, "-auth", "basic", "-listen", gitHost)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	w.await(t, "the registry serves", func(context.Context) error {
		if ended, _ := server.Ended(); ended {
			return fmt.Errorf("it has ended: %s", server.Tail())
		}
		data, err := os.ReadFile(filepath.Join(r.folder, "ready.json"))
		if err != nil {
			return err
		}
		return json.Unmarshal(data, r)
	})
	ca, err := os.ReadFile(filepath.Join(r.folder, "cert.pem"))
	hosts := filepath.Join(w.lab, "registries", r.Host)
	if err = errors.Join(err, os.MkdirAll(hosts, 0o755), os.WriteFile(filepath.Join(hosts, "ca.crt"), ca, 0o600)); err == nil {
		err = os.WriteFile(filepath.Join(hosts, "hosts.toml"), fmt.Appendf(nil, "server = %q\n[host.%q]\n  ca = %q\n", "https://"+r.Host, "https://"+r.Host, "/mnt/lab/registries/"+r.Host+"/ca.crt"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// move pushes an image that the node has to the registry, and takes it off the node.
func (r *registry) move(t *testing.T, w *world, image string) {
	t.Helper()
	ctr := func(args ...string) {
		w.mustRun(t, nil, w.program, append([]string{"exec", "--dir", w.lab, "--node", "node-1", "--", "ctr", "--namespace=k8s.io", "images"}, args...)...)
	}
	local, remote := "docker.io/fairlead/"+image+":dev", r.Host+"/fairlead/"+image+":dev"
	ctr("tag", local, remote)
	ctr("push", "--hosts-dir", "/mnt/lab/registries", "--user", r.Username+":"+r.Password, remote)
	ctr("remove", "--sync", local, remote)
}

func (r *registry) giveSecret(t *testing.T, w *world, namespace, name, password string) {
	t.Helper()
	w.kubectl(t, "", "create", "secret", "docker-registry", name, "--namespace="+namespace,
		"--docker-server="+r.Host, "--docker-username="+r.Username, "--docker-password="+password)
}

// refuses makes sure that pods without the password, and with a wrong one, get no image.
func (r *registry) refuses(t *testing.T, w *world) {
	t.Helper()
	r.giveSecret(t, w, "data", "wrong", "guessed")
	for pod, secrets := range map[string]string{"without": "[]", "wrong": "[{name: wrong}]"} {
		w.kubectl(t, "{apiVersion: v1, kind: Pod, metadata: {name: "+pod+"}, spec: {imagePullSecrets: "+secrets+
			", containers: [{name: c, image: '"+r.Host+"/fairlead/cli:dev'}]}}", "apply", "--namespace=data", "-f", "-")
		w.await(t, "the pull "+pod+" the password is refused", func(ctx context.Context) error {
			said, err := w.tryKubectl(ctx, "", "get", "pod/"+pod, "--namespace=data", "--output=jsonpath={.status.containerStatuses[0].state.waiting}")
			if err == nil && (!strings.Contains(said, "Pull") || !strings.Contains(said, "401") && !strings.Contains(said, "authorization failed")) {
				err = errors.New(said)
			}
			return err
		})
		w.kubectl(t, "", "delete", "pod", pod, "--namespace=data", "--now")
	}
}

// log is what the registry was asked.
func (r *registry) log(t *testing.T, w *world) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := w.inLab(ctx, nil, "", filepath.Join(filepath.Dir(w.program), "testpod"), "get", r.Control)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return text
}
