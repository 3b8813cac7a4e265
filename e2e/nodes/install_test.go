package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

const (
	installPage = "../../docs/operate/install.md"
	backupPage  = "../../docs/operate/backup.md"
	proxyURL    = "http://" + gitHost + ":3128"
	// pageVersion is the version of the images on the page.
	pageVersion = "v1.0.0"
)

// The names of the page, as the lab can have them: Services of the namespaces hub and data.
var pageNames = strings.NewReplacer("hub.example.com", "hub.svc", "redis.example.com", "redis.data.svc",
	"postgres.example.com", "postgres.data.svc")

// The commands of docs/operate/install.md and of the page on backups are run as they are written, with PostgreSQL and
// Redis outside of the hub that speak TLS with certificates of the hub's authority, and names that a load balancer
// leads to the hub. An uninstalled part leaves what the page says.
func TestInstallPageWordByWord(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	w := start(t, 2, "haproxy")
	w.cluster = "edge-1"
	p := w.openPage(t)
	before := p.objects(t)

	// A hub, step by step.
	initialize := strings.Replace(p.block(t, "fairlead init"), "sslmode=verify-full",
		"sslmode=verify-full&sslrootcert=/run/fairlead/tls/ca.crt", 1)
	p.run(t, initialize)
	p.run(t, strings.TrimSpace(initialize)+" --redis-host redis.data.svc --database-host postgres.data.svc --git --host "+gitHost)
	w.kubectl(t, "", "create", "namespace", "data")
	for _, server := range []string{"redis", "postgres"} {
		args := []string{
			"create", "secret", "generic", server + "-tls", "--namespace=data",
			"--from-literal=password=" + w.read(t, server+"/password"),
		}
		for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
			args = append(args, "--from-file="+filepath.Join(w.secrets, server, name))
		}
		w.kubectl(t, "", args...)
	}
	w.kubectl(t, tlsDatabases, "apply", "--namespace=data", "-f", "-")
	p.run(t, p.block(t, "kubectl create namespace fairlead"))
	w.kubectl(t, "", "create", "secret", "docker-registry", "registry", "--namespace=fairlead",
		"--docker-server=registry.example.com", "--docker-username=u", "--docker-password=p")
	p.write(t, "values.yaml", p.block(t, "# values.yaml"))
	p.write(t, "mine.yaml", `
imagePullSecrets: [{name: registry}]
gitcache:
  allowAddresses: [10.88.0.0/24]
  args: [--redis-ca-file=/run/fairlead/tls/ca.crt]
  env: [{name: HTTPS_PROXY, value: "`+proxyURL+`"}, {name: NO_PROXY, value: .svc}]
distributor: {args: [--redis-ca-file=/run/fairlead/tls/ca.crt]}
tunnel: {args: [--redis-ca-file=/run/fairlead/tls/ca.crt]}
trustedProxies: [10.244.0.0/16]
test: {cluster: edge-1, source: sample, path: canary}
`+regexp.MustCompile(`(?m)^backup: .*$`).FindString(readPage(t, backupPage))+"\n")
	p.run(t, strings.Replace(p.block(t, "helm install fairlead deploy"),
		"--values values.yaml", "--values values.yaml --values mine.yaml", 1))
	w.kubectl(t, balancer, "apply", "-f", "-")
	w.kubectl(t, "", "rollout", "status", "--namespace=hub", "deployment/balancer", "--timeout=3m")
	p.logIn(t)

	// A cluster, a source behind a proxy, and a push.
	proxy := w.startProxy(t)
	seen := w.watchConnections(t)
	p.write(t, "agent.yaml", strings.ReplaceAll(p.block(t, "# agent.yaml"), "http://proxy.example.com:3128", proxyURL)+
		"\nimagePullSecrets: [{name: registry}]\n")
	join := strings.Replace(p.block(t, "cluster join edge-1 --context"),
		"--bind-admins", "--bind-admins --values agent.yaml", 1)
	if said := p.run(t, join); !strings.Contains(said, "ok    first sync") {
		t.Errorf("cluster join says %q", said)
	}
	w.serveGit(t)
	w.push(t, "first")
	w.fairlead(t, strings.Replace(catalog, "cluster: edge,", "cluster: edge-1,", 1), "apply",
		"-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")
	w.lookThroughTunnel(t, "first")
	p.run(t, p.block(t, "helm test"))
	log, err := proxy.Log()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		gitHost + ":7405", "console.hub.svc:443", "distributor.hub.svc:443",
		"tunnel.hub.svc:443",
	} {
		if !strings.Contains(log, "CONNECT "+host+"\n") {
			t.Errorf("nobody asked the proxy for %s", host)
		}
	}
	if strings.Contains(log, "fairlead.svc") || strings.Contains(log, "10.96.0.1") {
		t.Errorf("the proxy was asked for what NO_PROXY names:\n%s", log)
	}
	for _, pod := range []string{"--namespace=fairlead", "--namespace=fairlead-system"} {
		if without := w.kubectl(t, "", "get", "pods", pod, `--output=jsonpath={range .items[?(@.spec.imagePullSecrets[0].name!="registry")]}{.metadata.name} {end}`); without != "" {
			t.Errorf("without imagePullSecrets in %s: %s", pod, without)
		}
	}

	p.backUpAndRestore(t)
	w.push(t, "after the restore")
	w.awaitRunning(t, "after the restore")
	p.compareConnections(t, seen())

	// The agent leaves, comes back by the file that the second form of the command writes, then by kustomize, and
	// leaves for good.
	leave := strings.Replace(p.block(t, "fairlead cluster leave"), "leave edge-1", "leave edge-1 --yes", 1)
	p.run(t, leave)
	p.joinByFile(t)
	w.push(t, "by file")
	w.awaitRunning(t, "by file")
	p.run(t, leave)
	p.joinByKustomize(t)
	w.push(t, "by kustomize")
	w.awaitRunning(t, "by kustomize")
	p.run(t, leave)
	w.awaitRunning(t, "by kustomize") // applied objects stay
	w.kubectl(t, "", "delete", "namespace", "web")

	// The hub goes, and comes back by kustomize on the volumes and Secrets that stay.
	uninstall := p.block(t, "helm uninstall")
	p.run(t, uninstall)
	p.compareLeft(t, before)
	p.kustomize(t)
	p.run(t, "fairlead canary") // `check` would tell of the cluster that has left
	p.run(t, p.block(t, "kubectl delete namespace fairlead\n"))
	for _, namespace := range []string{"data", "hub"} {
		w.kubectl(t, "", "delete", "namespace", namespace)
	}
	w.await(t, "nothing is left", func(ctx context.Context) error { return nothingBut(p.objects(t), before) })
}

// page is docs/operate/install.md, whose commands run in a folder like that of a clone.
type page struct {
	*world
	text, folder string
	env          []string
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// openPage gives the commands of the page what they need: kubectl, helm, a kubeconfig, and images of the name that the
// page has.
func (w *world) openPage(t *testing.T) *page {
	t.Helper()
	p := &page{world: w, text: pageNames.Replace(readPage(t, installPage)), folder: filepath.Join(w.dir, "page")}
	w.secrets = filepath.Join(p.folder, "secrets")
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(p.folder, 0o700), os.CopyFS(filepath.Join(p.folder, "deploy"), os.DirFS(deploy)),
		os.Symlink(filepath.Join(w.bins.Dir, "fairlead"), filepath.Join(w.path, "fairlead"))); err != nil {
		t.Fatal(err)
	}
	w.mustRun(t, nil, "go", "build", "-o", filepath.Join(w.path, "helm"), "helm.sh/helm/v4/cmd/helm")
	kubeconfig := filepath.Join(p.folder, "kubeconfig") // by the address that the lab sees
	content := readPage(t, filepath.Join(w.lab, "cluster/kubeconfig"))
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	w.mustRun(t, nil, w.bins.Kubelocal, "kubectl", "--kubeconfig", kubeconfig, "config", "rename-context",
		strings.TrimSpace(w.mustRun(t, nil, w.bins.Kubelocal, "kubectl", "--kubeconfig", kubeconfig, "config",
			"current-context")), "edge-1")
	p.env = []string{
		"KUBECONFIG=" + kubeconfig, "FAIRLEAD_CONFIG=" + filepath.Join(w.dir, "fairlead.yaml"),
		"PATH=" + w.path + ":" + os.Getenv("PATH"), "HOME=" + p.folder,
	}
	for _, node := range []string{"node-1", "node-2"} {
		for _, image := range []string{"console", "gitcache", "distributor", "tunnel", "agent", "cli"} {
			w.mustRun(t, nil, w.program, "exec", "--dir", w.lab, "--node", node, "--",
				"ctr", "--namespace=k8s.io", "images", "tag", "docker.io/fairlead/"+image+":dev",
				"registry.example.com/fairlead/"+image+":"+pageVersion)
		}
	}
	return p
}

var fenced = regexp.MustCompile("(?ms)^( *)```(?:sh|yaml)\n(.*?)^ *```$")

// block returns the only example of the page that has a text, without what indents it.
func (p *page) block(t *testing.T, with string) string {
	t.Helper()
	return blockOf(t, p.text, with)
}

func blockOf(t *testing.T, text, with string) string {
	t.Helper()
	var found []string
	for _, match := range fenced.FindAllStringSubmatch(text, -1) {
		block := strings.ReplaceAll("\n"+match[2], "\n"+match[1], "\n")[1:]
		if strings.Contains(block, with) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the page has %d examples with %q, want 1", len(found), with)
	}
	return found[0]
}

// run runs an example beside the nodes, and returns what it says.
func (p *page) run(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	said, err := p.inLab(ctx, p.env, "", "bash", "-euc", `cd "$0" && eval "$1"`, p.folder, script)
	if err != nil {
		t.Fatalf("%s\n%s\n%v", script, said, err)
	}
	return said
}

func (p *page) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// logIn uses the link that the consoles wrote, which is one though several started.
func (p *page) logIn(t *testing.T) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.block(t, "Log in once")), "\n")
	if len(lines) != 3 {
		t.Fatalf("the page logs in with %q", lines)
	}
	links := map[string]bool{}
	for line := range strings.Lines(p.run(t, lines[0])) {
		_, link, _ := strings.Cut(line, "Log in once, within 10 minutes: ")
		links[strings.TrimSpace(link)] = true
	}
	if len(links) != 1 {
		t.Fatalf("consoles that started at once wrote %d links", len(links))
	}
	for link := range links {
		p.run(t, strings.Replace(lines[1], "LINK", "'"+link+"'", 1)+"\n"+lines[2])
	}
}

// joinByFile runs the command that writes a file, and what it says to run.
func (p *page) joinByFile(t *testing.T) {
	t.Helper()
	command, _, _ := strings.Cut(p.block(t, "writes a file"), "#")
	joining := process.New(p.dir, "join", p.program, append([]string{"exec", "--dir", p.lab, "--", "env"},
		append(slices.Clone(p.env), "bash", "-euc", `cd "$0" && eval "$1"`, p.folder, command)...)...)
	if err := joining.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = joining.Stop(patience) }) // the command has ended, or the test has failed
	var apply string
	p.await(t, "the command says what to run", func(context.Context) error {
		said, err := joining.Log()
		if apply = regexp.MustCompile(`(?m)^kubectl apply .*$`).FindString(said); apply == "" {
			err = errors.Join(err, errors.New(said))
		}
		return err
	})
	p.run(t, apply)
	p.await(t, "the cluster has joined", func(context.Context) error {
		ended, err := joining.Ended()
		if err != nil {
			t.Fatalf("%v: %s", err, joining.Tail())
		}
		if !ended {
			return errors.New(joining.Tail())
		}
		return nil
	})
}

// joinByKustomize has the agent join by the overlay of the page, with the URL that the hub has in the lab.
func (p *page) joinByKustomize(t *testing.T) {
	t.Helper()
	overlay := filepath.Join(p.folder, "deploy/kustomize/agent/example/kustomization.yaml")
	if err := os.WriteFile(overlay, []byte(pageNames.Replace(readPage(t, overlay))), 0o600); err != nil {
		t.Fatal(err)
	}
	p.run(t, p.block(t, "apply --server-side -k deploy/kustomize/agent"))
	p.kubectl(t, "", "rollout", "status", "--namespace=fairlead-system", "statefulset/fairlead-agent", "--timeout=5m")
}

// backUpAndRestore makes a backup by the chart's CronJob, loses a resource, and has it back.
func (p *page) backUpAndRestore(t *testing.T) {
	t.Helper()
	text := strings.ReplaceAll(readPage(t, backupPage), "fairlead-20261120T030000.000Z.backup", "NAME")
	p.kubectl(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: fairlead-backups}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, "apply", "--namespace=fairlead", "-f", "-")
	p.fairlead(t, configSet("kept"), "apply", "-f", "-")
	p.run(t, regexp.MustCompile("`(kubectl -n fairlead create job [^`]*)`").FindStringSubmatch(text)[1])
	p.kubectl(t, "", "wait", "--namespace=fairlead", "--for=condition=complete", "job/first-backup", "--timeout=3m")
	file := regexp.MustCompile(`fairlead-\S+\.backup`).FindString(p.kubectl(t, "", "logs", "--namespace=fairlead",
		"job/first-backup", "--container=backup"))
	p.fairlead(t, configSet("lost"), "apply", "-f", "-")

	p.run(t, regexp.MustCompile("`(kubectl -n fairlead scale [^`]*)`").FindStringSubmatch(text)[1])
	p.kubectl(t, "", "wait", "--namespace=fairlead", "--for=delete", "pod",
		"--selector=app.kubernetes.io/component=console", "--timeout=3m")
	p.kubectl(t, strings.ReplaceAll(blockOf(t, text, "kind: Job"), "NAME", file), "apply", "-f", "-")
	p.kubectl(t, "", "wait", "--namespace=fairlead", "--for=condition=complete", "job/fairlead-restore", "--timeout=3m")
	p.run(t, "kubectl -n fairlead scale statefulset fairlead-console --replicas=2\nkubectl -n fairlead rollout status statefulset fairlead-console --timeout=5m")
	p.await(t, "the hub is well after the restore", func(ctx context.Context) error {
		_, confirmed := p.tryFairlead(ctx, "", "confirm", "removals", "--yes")
		_, err := p.tryFairlead(ctx, "", "check")
		return errors.Join(err, confirmed)
	})
	if have := p.fairlead(t, "", "get", "configsets", "-o", "name"); have != "configset/kept\n" {
		t.Errorf("after the restore there are %q", have)
	}
	p.kubectl(t, "", "delete", "--namespace=fairlead", "job/fairlead-restore", "job/first-backup")
	p.kubectl(t, "", "delete", "--namespace=fairlead", "persistentvolumeclaim/fairlead-backups")
}

func configSet(name string) string {
	return "apiVersion: fairlead.dev/v1\nkind: ConfigSet\nmetadata: {name: " + name +
		"}\nspec: {entries: {a: {text: b}}}\n"
}

// kustomize installs the overlay of the page.
func (p *page) kustomize(t *testing.T) {
	t.Helper()
	command := p.block(t, "apply -k deploy/kustomize/hub")
	p.writeOverlay(t)
	p.run(t, strings.Replace(command, "kustomize/hub/example", "kustomize/hub/mine", 1))
	for _, workload := range []string{
		"statefulset/fairlead-console", "statefulset/fairlead-gitcache",
		"deployment/fairlead-distributor", "statefulset/fairlead-tunnel",
	} {
		p.kubectl(t, "", "rollout", "status", "--namespace=fairlead", workload, "--timeout=5m")
	}
}

// writeOverlay writes the one of the example, with what is different in the lab.
func (p *page) writeOverlay(t *testing.T) {
	t.Helper()
	folder := filepath.Join(p.folder, "deploy/kustomize/hub/mine")
	var patches strings.Builder
	for name, kind := range map[string]string{
		"gitcache": "StatefulSet", "distributor": "Deployment",
		"tunnel": "StatefulSet",
	} {
		fmt.Fprintf(&patches, "  - target: {kind: %s, name: fairlead-%s}\n    patch: '[{\"op\": \"add\", \"path\": \"/spec/template/spec/containers/0/args/-\", \"value\": \"--redis-ca-file=/run/fairlead/tls/ca.crt\"}]'\n", kind, name)
	}
	for _, name := range []string{"distributor", "tunnel"} { // fewer: two nodes of this machine's size
		fmt.Fprintf(&patches, "  - target: {kind: HorizontalPodAutoscaler, name: fairlead-%s}\n    patch: '[{\"op\": \"replace\", \"path\": \"/spec/minReplicas\", \"value\": 2}]'\n", name)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../example]\npatches:\n" +
		patches.String()
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// passing are kinds whose objects come and go by themselves.
var passing = []string{
	"events", "events.events.k8s.io", "leases.coordination.k8s.io",
	"endpointslices.discovery.k8s.io", "endpoints", "componentstatuses", "ipaddresses.networking.k8s.io",
}

// objects are all that the API server has, as kind, namespace and name.
func (p *page) objects(t *testing.T) map[string]bool {
	t.Helper()
	kinds := strings.Fields(p.kubectl(t, "", "api-resources", "--verbs=list", "--output=name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(passing, kind) })
	all := map[string]bool{}
	listed := p.kubectl(t, "", "get", strings.Join(kinds, ","), "--all-namespaces", "--ignore-not-found",
		`--output=jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(listed) {
		all[strings.TrimSpace(line)] = true
	}
	return all
}

// compareLeft says what a hub that was uninstalled has left besides what the page says, and the namespaces of the test.
func (p *page) compareLeft(t *testing.T, before map[string]bool) {
	t.Helper()
	said := regexp.MustCompile(`^(Namespace//(fairlead|data|hub)|[A-Za-z]+/(data|hub)/.*|Secret/fairlead/(fairlead-[a-z-]+|registry)|PersistentVolumeClaim/fairlead/data-fairlead-(console|gitcache)-[0-9]|PersistentVolume//.*|(ServiceAccount|ConfigMap)/fairlead/(default|kube-root-ca.crt))$`)
	p.await(t, "nothing is left but what the page says", func(context.Context) error {
		left := p.objects(t)
		maps.DeleteFunc(left, func(object string, _ bool) bool { return said.MatchString(object) })
		return nothingBut(left, before)
	})
}

func nothingBut(left, before map[string]bool) error {
	var more []string
	for object := range left {
		if !before[object] {
			more = append(more, object)
		}
	}
	slices.Sort(more)
	if len(more) > 0 {
		return fmt.Errorf("there are %q", more)
	}
	return nil
}

func (w *world) startProxy(t *testing.T) *process.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	proxy := process.New(w.dir, "proxy", w.program, "exec", "--dir", w.lab, "--", self)
	proxy.Env = []string{proxyVariable + "=" + strings.TrimPrefix(proxyURL, "http://")}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	return proxy
}

// balancer passes TLS on to the hub by the name that a client asks for, as load balancers do.
const balancer = `apiVersion: v1
kind: Namespace
metadata: {name: hub}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: balancer, namespace: hub}
data:
  haproxy.cfg: |
    global
      maxconn 2000
    defaults
      mode tcp
      timeout connect 5s
      timeout client 1h
      timeout server 1h
    resolvers cluster
      nameserver dns 10.96.0.10:53
      hold valid 5s
    frontend tls
      bind :8443
      tcp-request inspect-delay 5s
      tcp-request content accept if { req.ssl_hello_type 1 }
      use_backend %[req.ssl_sni,field(1,.)]
    backend console
      server console fairlead-console.fairlead.svc.cluster.local:7400 resolvers cluster init-addr none
    backend gitcache
      server gitcache fairlead-gitcache.fairlead.svc.cluster.local:7401 resolvers cluster init-addr none
    backend distributor
      server distributor fairlead-distributor.fairlead.svc.cluster.local:7402 resolvers cluster init-addr none
    backend tunnel
      server tunnel fairlead-tunnel.fairlead.svc.cluster.local:7403 resolvers cluster init-addr none
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: balancer, namespace: hub}
spec:
  selector: {matchLabels: {app: balancer}}
  template:
    metadata: {labels: {app: balancer}}
    spec:
      containers:
        - name: haproxy
          image: haproxy:3.2
          args: [haproxy, -W, -db, -f, /etc/balancer/haproxy.cfg]
          readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}
          volumeMounts: [{name: config, mountPath: /etc/balancer}]
      volumes: [{name: config, configMap: {name: balancer}}]
---
{apiVersion: v1, kind: Service, metadata: {name: console, namespace: hub}, spec: {selector: {app: balancer}, ports: [{port: 443, targetPort: 8443}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: gitcache, namespace: hub}, spec: {selector: {app: balancer}, ports: [{port: 443, targetPort: 8443}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: distributor, namespace: hub}, spec: {selector: {app: balancer}, ports: [{port: 443, targetPort: 8443}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: tunnel, namespace: hub}, spec: {selector: {app: balancer}, ports: [{port: 443, targetPort: 8443}]}}
`

// tlsDatabases are the databases of before, with the certificates that "fairlead init" made for them.
var tlsDatabases = strings.NewReplacer(
	"{name: passwords, key: redis}", "{name: redis-tls, key: password}",
	`args: [redis-server, `, `args: [redis-server, --port, "0", --tls-port, "6379", --tls-cert-file, /run/tls/tls.crt, --tls-key-file, /run/tls/tls.key, --tls-ca-cert-file, /run/tls/ca.crt, --tls-auth-clients, "no", `,
	"[{name: data, mountPath: /data}]", "[{name: data, mountPath: /data}, {name: tls, mountPath: /run/tls}]",
	"[{name: data, emptyDir: {}}]", "[{name: data, emptyDir: {}}, {name: tls, secret: {secretName: redis-tls}}]",
	"args: [postgres]", `args: [postgres, -c, ssl=on, -c, ssl_cert_file=/run/passwords/tls.crt, -c, ssl_key_file=/run/passwords/tls.key]`,
	"/run/passwords/postgres", "/run/passwords/password",
	"{name: passwords, secret: {secretName: passwords}}",
	"{name: passwords, secret: {secretName: postgres-tls, defaultMode: 0440}}",
).Replace(databases)
