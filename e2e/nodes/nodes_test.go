// Package nodes_test installs what is shipped as people do, on a real node: pods, volumes, Services and limits are
// real.
package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

const (
	// patience is for one step, on a machine that does much else.
	patience = 5 * time.Minute
	hubURL   = "https://fairlead-console.fairlead.svc:7400"
	// behindURL is of a hub behind a front.
	behindURL = "https://console.hub.svc"
	gitHost   = "10.88.0.1" // the lab itself
	gitURL    = "https://" + gitHost + ":7405/sample.git"
)

// Both charts come up on a real node behind an ingress, a push gets to running pods, people see them through the
// ingress and the tunnel, and all of it survives a power cut of the node.
func TestChartsShipToRealPodsAndSurviveAPowerCut(t *testing.T) {
	requireRoot(t)
	t.Parallel()
	traefik := buildTool(t, "ingresslocal")
	w := start(t, 1, filepath.Join(traefik, "traefik.tar"))
	w.hubURL = behindURL
	w.installBehind(t, fronts["ingress-h2"], traefik)
	w.logIn(t)
	w.installAgent(t)
	w.serveGit(t)

	w.push(t, "first")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")
	began := time.Now()
	w.push(t, "second")
	w.awaitRunning(t, "second")
	t.Logf("pushed to running pods in %.1f s", time.Since(began).Seconds())

	w.lookThroughTunnel(t, "second")
	w.recordShell(t)
	w.viewSaysWhatKubectlCounts(t)
	w.helmTest(t)

	began = time.Now()
	w.nodelocal(t, "cut", "--node", "node-1")
	if answer, err := w.get(t.Context()); err == nil {
		t.Errorf("a node without power answers %q", answer)
	}
	w.nodelocal(t, "boot", "--node", "node-1")
	w.awaitRunning(t, "second")
	w.await(t, "the hub is well again", func(ctx context.Context) error {
		_, err := w.tryFairlead(ctx, "", "check")
		return err
	})
	t.Logf("well again %.1f s after the power cut", time.Since(began).Seconds())
	w.push(t, "third")
	w.awaitRunning(t, "third")
	w.await(t, "the tunnel is back", func(ctx context.Context) error {
		_, err := w.tryFairlead(ctx, "", "kubectl", "edge", "--", "get", "namespaces")
		return err
	})
	w.lookThroughTunnel(t, "third")

	w.uninstall(t, "third")
}

const catalog = `apiVersion: fairlead.dev/v1
kind: Source
metadata: {name: sample}
spec: {git: {url: "` + gitURL + `", secret: git, interval: 5s}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: web}
spec: {source: sample, path: apps/web, cluster: edge, namespace: web}
`

// workload is what is pushed: pods that answer with a text.
const workload = `apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
        - name: web
          image: node.local/testpod:1
          args: [serve, %q]
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// canaryFolder is what the test of the hub's chart delivers.
const canaryFolder = `apiVersion: v1
kind: ConfigMap
metadata: {name: canary, labels: {is: canary}}
data: {a: b}
`

// databases are Redis and PostgreSQL as the users of the hub's chart bring them, with the passwords of "fairlead init".
const databases = `apiVersion: v1
kind: Service
metadata: {name: redis}
spec: {selector: {app: redis}, ports: [{port: 6379}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: redis}
spec:
  serviceName: redis
  selector: {matchLabels: {app: redis}}
  template:
    metadata: {labels: {app: redis}}
    spec:
      containers:
        - name: redis
          image: redis:7
          args: [redis-server, --requirepass, $(PASSWORD), --save, ""]
          env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: passwords, key: redis}}}]
          readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 1}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: postgres}
spec: {selector: {app: postgres}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: postgres}
spec:
  serviceName: postgres
  selector: {matchLabels: {app: postgres}}
  template:
    metadata: {labels: {app: postgres}}
    spec:
      securityContext: {fsGroup: 65532, fsGroupChangePolicy: OnRootMismatch} # else its folder is open to the group after a restart
      containers:
        - name: postgres
          image: postgres:17
          args: [postgres]
          env:
            - {name: PGDATA, value: /var/lib/postgresql/data/inner}
            - {name: POSTGRES_USER, value: fairlead}
            - {name: POSTGRES_DB, value: fairlead}
            - {name: POSTGRES_PASSWORD_FILE, value: /run/passwords/postgres}
          readinessProbe: {tcpSocket: {port: 5432}, periodSeconds: 1}
          volumeMounts:
            - {name: data, mountPath: /var/lib/postgresql/data}
            - {name: passwords, mountPath: /run/passwords}
            - {name: sockets, mountPath: /var/run/postgresql}
      volumes:
        - {name: passwords, secret: {secretName: passwords}}
        - {name: sockets, emptyDir: {}}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

const hubValues = `
image: {registry: fairlead, tag: dev}
secrets: {redis: fairlead-redis, database: fairlead-database, metrics: fairlead-metrics}
console: {replicas: 2}
gitcache: {allowAddresses: [10.88.0.0/24]}
test: {cluster: edge, source: sample, path: canary}
`

// installHub returns how long it took from `helm install` until all was ready.
func (w *world) installHub(t *testing.T, values string) time.Duration {
	t.Helper()
	return w.installHubBy(t, hubChart, values)
}

func (w *world) installHubBy(t *testing.T, chart, values string) time.Duration {
	t.Helper()
	w.makeSecrets(t)
	w.kubectl(t, databases, "apply", "--namespace=data", "-f", "-")
	w.restrict(t, "fairlead")
	w.giveSecrets(t)
	began := time.Now()
	if err := w.helm(t, "fairlead").install(t.Context(), "fairlead", chart, values, patience); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("hub installed and ready in %.1f s", took.Seconds())
	return took
}

// makeSecrets makes what "fairlead init" makes, and the namespace of the databases with their passwords.
func (w *world) makeSecrets(t *testing.T) {
	t.Helper()
	w.mustRun(t, nil, filepath.Join(w.bins.Dir, "fairlead"), "init", "--git", "--dir", w.secrets,
		"--host", "fairlead-console.fairlead.svc", "--host", "fairlead-distributor.fairlead.svc",
		"--host", "fairlead-gitcache.fairlead.svc", "--host", "*.fairlead-gitcache-pods.fairlead.svc",
		"--host", "fairlead-tunnel.fairlead.svc", "--host", "*.fairlead-tunnel-pods.fairlead.svc", "--host", gitHost,
		"--host", "*.hub.svc",
		"--redis-url", "redis://:{password}@redis.data.svc:6379/0",
		"--database-url", "postgres://fairlead:{password}@postgres.data.svc:5432/fairlead?sslmode=disable")
	w.kubectl(t, "", "create", "namespace", "data")
	w.kubectl(t, "", "create", "secret", "generic", "passwords", "--namespace=data",
		"--from-literal=redis="+w.read(t, "redis/password"), "--from-literal=postgres="+w.read(t, "postgres/password"))
}

// giveSecrets gives them to the hub's namespace, as docs/operate/install.md says.
func (w *world) giveSecrets(t *testing.T) {
	t.Helper()
	for name, from := range map[string]string{
		"fairlead-tls": "tls", "fairlead-hub": "hub/hub.secret", "fairlead-master-key": "console/master.key",
		"fairlead-redis": "redis/url", "fairlead-database": "postgres/url", "fairlead-metrics": "metrics/metrics.token",
	} {
		w.kubectl(t, "", "create", "secret", "generic", name, "--namespace=fairlead",
			"--from-file="+filepath.Join(w.secrets, from))
	}
}

// restrict makes a namespace whose pods have to meet the Pod Security Standard "restricted".
func (w *world) restrict(t *testing.T, namespace string) {
	t.Helper()
	w.kubectl(t, "", "create", "namespace", namespace)
	w.kubectl(t, "", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	if _, err := w.tryKubectl(t.Context(), "", "run", "unrestricted", "--image=node.local/testpod:1", "--namespace="+namespace); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a pod that is not restricted in namespace %s: %v", namespace, err)
	}
}

// logIn uses the link that the consoles wrote: those that start at once write the same one.
func (w *world) logIn(t *testing.T) {
	t.Helper()
	var links []string
	for line := range strings.Lines(w.kubectl(t, "", "logs", "--namespace=fairlead", "--selector=app.kubernetes.io/component=console", "--tail=-1")) {
		if _, link, found := strings.Cut(line, "Log in once, within 10 minutes: "); found {
			links = append(links, strings.TrimSpace(link))
		}
	}
	if slices.Sort(links); len(slices.Compact(links)) != 1 {
		t.Fatalf("the consoles wrote these links to log in with, want one: %q", links)
	}
	w.fairlead(t, "", "login", links[0], "--ca-file", filepath.Join(w.secrets, "tls/ca.crt"))
	w.fairlead(t, "", "check")
}

func (w *world) installAgent(t *testing.T) {
	t.Helper()
	w.installAgentBy(t, agentChart, w.agentValues(t, "fairlead/agent"))
}

// agentValues are those of the agent's chart, with a token to join with.
func (w *world) agentValues(t *testing.T, image string) string {
	t.Helper()
	w.fairlead(t, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: edge}\n", "apply", "-f", "-")
	values, err := json.Marshal(map[string]any{
		"image": map[string]any{"repository": image, "tag": "dev"},
		"hub":   map[string]any{"url": w.hubURL, "ca": w.read(t, "tls/ca.crt")},
		"join":  map[string]any{"tokens": []string{strings.TrimSpace(w.fairlead(t, "", "cluster", "join-token", "edge"))}},
		"rbac":  map[string]any{"bindAdmins": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(values)
}

func (w *world) installAgentBy(t *testing.T, chart, values string) {
	t.Helper()
	w.restrict(t, "fairlead-system")
	began := time.Now()
	if err := w.helm(t, "fairlead-system").install(t.Context(), "fairlead-agent", chart, values, patience); err != nil {
		t.Fatal(err)
	}
	t.Logf("agent installed and ready in %.1f s", time.Since(began).Seconds())
}

// serveGit runs a Git server beside the node, with a folder that is told relative to where it runs.
func (w *world) serveGit(t *testing.T) {
	t.Helper()
	secret := func(name string) string { return filepath.Join(w.secrets, name) }
	server := process.New(w.dir, "git-server", w.program, "exec", "--dir", w.lab, "--", "sh", "-c", `cd "$0" && exec "$@"`, w.dir,
		filepath.Join(w.bins.Dir, "fairlead"), "git-server", "--data-dir", "git", "--listen", gitHost+":7405",
		"--tls-cert", secret("tls/tls.crt"), "--tls-key", secret("tls/tls.key"),
		"--password-file", secret("git/password"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	clone := strings.Replace(gitURL, "https://", "https://git:"+w.read(t, "git/password")+"@", 1)
	w.await(t, "the Git server answers", func(ctx context.Context) error {
		if ended, _ := server.Ended(); ended {
			return fmt.Errorf("it has ended: %s", server.Tail())
		}
		return errors.Join(os.RemoveAll(w.clone), w.git(ctx, "clone", "--quiet", clone, w.clone))
	})
}

// write changes a file of the repository, which the next push takes along.
func (w *world) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(w.clone, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// push commits and pushes the workload with a text.
func (w *world) push(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.tryPush(ctx, text); err != nil {
		t.Fatal(err)
	}
}

func (w *world) tryPush(ctx context.Context, text string) error {
	for name, content := range map[string]string{
		"apps/web/web.yaml":  fmt.Sprintf(workload, text),
		"canary/canary.yaml": canaryFolder,
	} {
		file := filepath.Join(w.clone, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message=" + text}, {"push", "--quiet"}} {
		if err := w.git(ctx, append([]string{"-C", w.clone}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// awaitRunning waits until both pods of the workload answer with a text, and no other.
func (w *world) awaitRunning(t *testing.T, text string) {
	t.Helper()
	w.await(t, "pods answer "+text, func(ctx context.Context) error {
		ready, err := w.tryKubectl(ctx, "", "get", "deployment/web", "--namespace=web",
			"--output=jsonpath={.status.updatedReplicas} {.status.readyReplicas} {.status.replicas} {.spec.template.spec.containers[0].args[1]}")
		if err == nil && ready != "2 2 2 "+text {
			err = fmt.Errorf("updated, ready, all and their text: %s", ready)
		}
		if err != nil {
			services, said := w.tryFairlead(ctx, "", "get", "services")
			return errors.Join(err, errors.New(services), said)
		}
		answer, err := w.get(ctx)
		if err == nil && !strings.HasSuffix(strings.TrimSpace(answer), " "+text) {
			err = fmt.Errorf("a pod answers %q", answer)
		}
		return err
	})
}

// get asks the workload's Service, from beside the node.
func (w *world) get(ctx context.Context) (string, error) {
	return w.inLab(ctx, nil, "", filepath.Join(filepath.Dir(w.program), "testpod"), "get", "http://web.web.svc")
}

func (w *world) lookThroughTunnel(t *testing.T, text string) {
	t.Helper()
	w.await(t, "pods of before are gone", func(ctx context.Context) error { // else kubectl may choose one of them
		pods, err := w.tryKubectl(ctx, "", "get", "pods", "--namespace=web", "--selector=app=web", "--output=name")
		if err == nil && len(strings.Fields(pods)) != 2 {
			err = fmt.Errorf("there are %q", pods)
		}
		return err
	})
	if logs := w.fairlead(t, "", "logs", w.cluster, "-n", "web", "deployment/web"); !strings.Contains(logs, "line 1 "+text) {
		t.Errorf("logs through the tunnel: %q", logs)
	}
	if said := w.fairlead(t, "one\ntwo\n", "exec", w.cluster, "-n", "web", "-i", "deployment/web", "--", "/testpod", "echo"); said != "one\ntwo\n" {
		t.Errorf("exec through the tunnel echoes %q", said)
	}
	_, err := w.tryFairlead(t.Context(), "", "exec", w.cluster, "-n", "web", "deployment/web", "--", "/testpod",
		"exit", "7")
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec of what exits with 7: %v", err)
	}
}

// recordShell has a shell in a pod of a real kubelet recorded, and plays the recording.
func (w *world) recordShell(t *testing.T) {
	t.Helper()
	w.fairlead(t, "apiVersion: fairlead.dev/v1\nkind: Project\nmetadata: {name: recorded}\nspec: {clusters: {names: ["+
		w.cluster+"]}, namespaces: [web], recording: required}\n", "apply", "-f", "-")
	var id string
	w.await(t, "a shell is recorded", func(ctx context.Context) error { // from when the tunnels know the project
		if _, err := w.tryFairlead(ctx, "what was shown\n", "exec", w.cluster, "-n", "web", "-i", "deployment/web", "--", "/testpod", "echo"); err != nil {
			return err
		}
		text, err := w.tryFairlead(ctx, "", "replay", "-o", "json")
		if err != nil {
			return err
		}
		var list struct {
			Recordings []struct{ ID, Namespace, Verb, EndTime, Incomplete string }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return err
		}
		for _, r := range list.Recordings {
			if r.Namespace == "web" && r.Verb == "exec" && r.EndTime != "" && r.Incomplete == "" {
				id = r.ID
				return nil
			}
		}
		return fmt.Errorf("recordings: %s", text)
	})
	if shown := w.fairlead(t, "", "replay", id); shown != "what was shown\n" {
		t.Errorf("the recording shows %q", shown)
	}
	w.fairlead(t, "", "delete", "project", "recorded", "--yes")
}

// helmTest runs the tests of both charts. The tests leave nothing behind.
func (w *world) helmTest(t *testing.T) {
	t.Helper()
	before := w.fairlead(t, "", "get", "services", "-o", "name")
	began := time.Now()
	for namespace, release := range map[string]string{"fairlead-system": "fairlead-agent", "fairlead": "fairlead"} {
		if err := w.helm(t, namespace).test(release, patience); err != nil {
			t.Error(err)
		}
	}
	t.Logf("tested both charts in %.1f s", time.Since(began).Seconds())
	if services := w.fairlead(t, "", "get", "services", "-o", "name"); services != before {
		t.Errorf("services after the test: %q, want %q", services, before)
	}
	if left := w.kubectl(t, "", "get", "configmaps", "--namespace=default", "--selector=is=canary", "--output=name"); left != "" {
		t.Errorf("objects after the test: %q", left)
	}
}

// uninstall takes both charts away; what is the user's stays, and answers with a text.
func (w *world) uninstall(t *testing.T, text string) {
	t.Helper()
	for namespace, release := range map[string]string{"fairlead-system": "fairlead-agent", "fairlead": "fairlead"} {
		if err := w.helm(t, namespace).uninstall(release, patience); err != nil {
			t.Fatal(err)
		}
		w.await(t, "nothing of "+release+" is left", func(ctx context.Context) error { // pods take their time
			left, err := w.tryKubectl(ctx, "", "get", "pods,services,statefulsets,deployments,configmaps,roles,rolebindings,networkpolicies,serviceaccounts",
				"--namespace="+namespace, "--selector=app.kubernetes.io/managed-by=Helm", "--output=name")
			if err == nil && left != "" {
				err = errors.New(left)
			}
			return err
		})
	}
	w.awaitRunning(t, text)
}

// world is a lab whose nodes have all images, and where things are.
type world struct {
	bins                           stack.Binaries
	program                        string // nodelocal
	dir, lab, secrets, clone, path string
	cluster                        string // its name in the hub
	hubURL                         string // as the agent of the chart is told
	kubeconfig                     string
	startTook                      time.Duration          // until all nodes were ready, with their images
	command                        atomic.Pointer[string] // the `fairlead` that tests run; another one may come while others run it
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("real nodes need root: the charts are installed on none")
	}
}

// start runs a lab whose nodes have the product's images, those of the databases, and further stand-ins or archives
// (.tar).
func start(t *testing.T, nodes int, more ...string) *world {
	t.Helper()
	requireRoot(t)
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{bins: bins, dir: t.TempDir(), program: findNodelocal(t), cluster: "edge", hubURL: hubURL}
	w.run(bins.Dir)
	w.lab, w.secrets = filepath.Join(w.dir, "lab"), filepath.Join(w.dir, "secrets")
	w.clone, w.path = filepath.Join(w.dir, "clone"), filepath.Join(w.dir, "path")
	w.kubeconfig = filepath.Join(w.lab, "kubeconfig")
	if err := errors.Join(os.Mkdir(w.path, 0o700), os.Symlink(bins.Kubelocal, filepath.Join(w.path, "kubectl"))); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"start", "--dir", w.lab, "--nodes", strconv.Itoa(nodes), "--kubelocal", bins.Kubelocal,
		"--image", filepath.Join(filepath.Dir(w.program), "testpod.tar"),
	}
	var standIns []string
	for _, one := range more {
		if filepath.Ext(one) == ".tar" {
			args = append(args, "--image", one)
		} else {
			standIns = append(standIns, one)
		}
	}
	for _, image := range w.makeImages(t, standIns) {
		args = append(args, "--image", image)
	}
	lab := process.New(w.dir, "nodelocal", w.program, args...)
	if err := lab.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.tell(t)
		}
		if err := lab.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	w.await(t, "the nodes are ready", func(context.Context) error {
		if ended, err := lab.Ended(); ended {
			t.Fatalf("nodelocal ended: %v: %s", err, lab.Tail())
		}
		if said := lab.Tail(); !strings.Contains(said, "READY name=") {
			return errors.New(said)
		}
		return nil
	})
	w.startTook = time.Since(began)
	t.Logf("nodes with all images are ready after %.1f s", w.startTook.Seconds())
	return w
}

// makeImages makes the product's images, and Redis and PostgreSQL of the distribution's packages.
func (w *world) makeImages(t *testing.T, more []string) []string {
	t.Helper()
	return makeImages(t, "../..", filepath.Join(w.dir, "images"), "fairlead", append([]string{
		"console", "gitcache", "distributor", "tunnel", "agent", "cli", "redis", "postgres",
	}, more...))
}

// makeImages returns the archives of images of a checkout, which are called registry/NAME:dev, and of stand-ins.
func makeImages(t *testing.T, root, out, registry string, names []string) []string {
	t.Helper()
	began := time.Now()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := filepath.Abs("../../tools/images")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience) // programs are compiled
	defer cancel()
	if _, err := process.Run(ctx, []string{"GOWORK=off"}, "", "go", "-C", tool, "run", ".", "-root", root, "-out", out, "-registry", registry,
		"-stand-ins", "-only", strings.Join(names, ",")); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(out, "*.tar"))
	if err != nil || len(found) != len(names) {
		t.Fatalf("%d images, want %d: %v", len(found), len(names), err)
	}
	t.Logf("made images in %.1f s", time.Since(began).Seconds())
	return found
}

// tell logs what pods say when a test has failed.
func (w *world) tell(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "pods,pvc,nodes", "-A", "-o", "wide"},
		{"get", "events", "-A", "--field-selector=type=Warning"},
		{"logs", "-n", "fairlead", "--selector=app.kubernetes.io/part-of=fairlead", "--prefix", "--tail=10"},
		{"logs", "-n", "fairlead-system", "--selector=app.kubernetes.io/managed-by=Helm", "--prefix", "--tail=20"},
		{"logs", "-n", "data", "redis-0"},
		{"logs", "-n", "data", "postgres-0"},
	} {
		said, err := w.tryKubectl(ctx, "", args...)
		t.Logf("kubectl %q: %v\n%s", args, err, said)
	}
}

// read returns what "fairlead init" has made, without the end of its last line.
func (w *world) read(t *testing.T, secret string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.secrets, secret))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (w *world) helm(t *testing.T, namespace string) *helm {
	t.Helper()
	h, err := newHelm(w.kubeconfig, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (w *world) await(t *testing.T, what string, ok func(context.Context) error) {
	t.Helper()
	await(t, what, ok)
}

func (w *world) mustRun(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := process.Run(ctx, env, "", program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) nodelocal(t *testing.T, command string, args ...string) {
	t.Helper()
	w.mustRun(t, nil, w.program, append([]string{command, "--dir", w.lab}, args...)...)
}

// inLab runs a program beside the node, where the cluster's names are known.
func (w *world) inLab(ctx context.Context, env []string, stdin string, command ...string) (string, error) {
	return process.Run(ctx, env, stdin, w.program, append([]string{"exec", "--dir", w.lab, "--"}, command...)...)
}

func (w *world) git(ctx context.Context, args ...string) error {
	env := []string{
		"GIT_SSL_CAINFO=" + filepath.Join(w.secrets, "tls/ca.crt"), "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	}
	_, err := w.inLab(ctx, env, "", append([]string{"git", "-c", "user.name=t", "-c", "user.email=t@example.com"},
		args...)...)
	return err
}

// run has the test run the `fairlead` of a folder from now on.
func (w *world) run(folder string) {
	program := filepath.Join(folder, "fairlead")
	w.command.Store(&program)
}

func (w *world) tryFairlead(ctx context.Context, stdin string, args ...string) (string, error) {
	env := []string{
		"FAIRLEAD_CONFIG=" + filepath.Join(w.dir, "fairlead.yaml"),
		"PATH=" + w.path + ":" + os.Getenv("PATH"),
	}
	return w.inLab(ctx, env, stdin, append([]string{*w.command.Load()}, args...)...)
}

func (w *world) fairlead(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := w.tryFairlead(ctx, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) tryKubectlAs(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	return process.Run(ctx, nil, "", w.bins.Kubelocal,
		append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...)
}

func (w *world) tryKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return process.Run(ctx, nil, stdin, w.bins.Kubelocal,
		append([]string{"kubectl", "--kubeconfig", w.kubeconfig}, args...)...)
}

func (w *world) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := w.tryKubectl(ctx, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
