package nodes_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

var (
	copyMiB   = flag.Int("copy-mib", 64, "with -long: how much `kubectl cp` copies each way through the tunnel")
	streamFor = flag.Duration("stream-for", 75*time.Second, "with -long: how long streams stay open; more than the 60 s after which proxies like to cut")
)

// front is a way in to the hub: Traefik with values that the docs have for it.
type front struct {
	values    string // file of deploy/kustomize/hub
	gateway   bool   // HTTPRoutes of a Gateway, not an Ingress
	protocols string // spoken to clients; a WebSocket is of HTTP/1.1, so one that prefers h2 speaks that, too
	transport string // to the hub
	two       bool   // whether requests of HTTP/2 come
}

var fronts = map[string]front{
	"ingress-h2":     {values: "values-ingress-http2.yaml", protocols: "h2, http/1.1", two: true},
	"ingress-http-1": {values: "values-ingress-http2.yaml", protocols: "http/1.1", transport: "disableHTTP2: true, "},
	"gateway":        {values: "values-gateway.yaml", gateway: true, protocols: "h2, http/1.1", two: true},
}

// gateway leads to the hub by its HTTPRoutes, with the certificate of the hub.
const gateway = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: traefik}
spec: {controllerName: traefik.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: gateways}
spec:
  gatewayClassName: traefik
  listeners:
    - name: https
      port: 8443
      protocol: HTTPS
      tls: {certificateRefs: [{name: fairlead-tls}]}
      allowedRoutes: {namespaces: {from: All}}
---
`

// typing types a line now and then, and never ends by itself: typeEvery is the seconds between two lines.
const (
	typing    = `n=0; while sleep 5; do n=$((n+1)); echo "typed $n"; done`
	typeEvery = 5
)

// watchEnds is how long a watch lives at least until the API server itself ends it, without an error: kubectl ends
// then, too.
const watchEnds = 30 * time.Minute

// ingress is Traefik, at the names that the balancer has.
const ingress = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: traefik}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: hub}]
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: traefik}
spec: {controller: traefik.io/ingress-controller}
---
apiVersion: traefik.io/v1alpha1
kind: TLSOption
metadata: {name: default, namespace: hub}
spec: {alpnProtocols: [PROTOCOLS]}
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
        - name: traefik
          image: IMAGE
          args:
            - --providers.PROVIDER
            - --providers.kubernetescrd
            - --entryPoints.websecure.address=:8443
            - ARGUMENT
            - --accesslog
            - --ping
            - --ping.entrypoint=ping
            - --entryPoints.ping.address=:8082
          readinessProbe: {httpGet: {path: /ping, port: 8082}, periodSeconds: 1}
`

// Streams of real containers get through the tunnel and Traefik, with the values that the docs have for an ingress and
// for a Gateway, by HTTP/2 and where HTTP/1.1 only is spoken, on both sides: logs that are followed, a watch, a shell
// with a terminal and a forwarded port stay open, and files are copied both ways. The kubeconfig's token lives for 10
// minutes: streams that stay open for longer outlive it.
func TestStreamsThroughAnIngress(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	requireRoot(t)
	t.Parallel()
	traefik := buildTool(t, "ingresslocal")
	for name, f := range fronts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, 1, filepath.Join(traefik, "traefik.tar"))
			w.hubURL = behindURL
			w.installBehind(t, f, traefik)
			w.logIn(t)
			w.installAgent(t)
			w.serveGit(t)
			w.push(t, "first")
			w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
			w.awaitRunning(t, "first")
			w.await(t, "the tunnel is up", func(ctx context.Context) error {
				_, err := w.tryFairlead(ctx, "", "kubectl", "edge", "--", "get", "namespaces", "--request-timeout=10s")
				return err
			})
			began := time.Now()
			w.lookThroughTunnel(t, "first")
			w.streamThroughTunnel(t)
			w.copyThroughTunnel(t)
			t.Logf("streams and copies took %.1f s", time.Since(began).Seconds())
			log := w.kubectl(t, "", "logs", "--namespace=hub", "deployment/balancer", "--tail=-1")
			if two := strings.Contains(log, "HTTP/2.0\""); two != f.two {
				t.Errorf("the front had requests by HTTP/2: %t", two)
			}
			if w.webSockets(t) == 0 {
				t.Error("the agent has had no WebSocket through the front")
			}
		})
	}
}

// installBehind installs the hub and the front.
func (w *world) installBehind(t *testing.T, f front, traefik string) {
	t.Helper()
	w.kubectl(t, readPage(t, filepath.Join(traefik, "crds.yaml")), "apply", "--server-side", "-f", "-")
	w.kubectl(t, "", "create", "namespace", "hub")
	if f.gateway {
		w.kubectl(t, "", "apply", "--server-side", "-f", filepath.Join(traefik, "gateway-crds"))
		w.kubectl(t, "", "create", "namespace", "gateways")
	}
	page := readPage(t, filepath.Join("../../deploy/kustomize/hub", f.values))
	_, values, _ := strings.Cut(page, "\nurls:\n")
	values = strings.NewReplacer("fairlead.example.com", "hub.svc", "fairlead-ingress-tls", "fairlead-tls").Replace(values)
	w.installHub(t, hubValues+"trustedProxies: [10.244.0.0/16]\nurls:\n"+values)
	w.startFront(t, f)
}

// webSockets counts the sessions that the agent has begun over a WebSocket.
func (w *world) webSockets(t *testing.T) int {
	t.Helper()
	return strings.Count(w.kubectl(t, "", "logs", "--namespace=fairlead", "fairlead-tunnel-0", "--tail=-1"), `"carrier":"websocket"`)
}

// buildTool returns the folder that a tool builds: an image for the nodes, and what belongs to it.
func buildTool(t *testing.T, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a first build
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join("../../tools", name, "build.sh"))
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// startFront starts Traefik. What Traefik needs besides the values is in the comments of the ingress' values.
func (w *world) startFront(t *testing.T, f front) {
	t.Helper()
	page := readPage(t, "../../deploy/kustomize/hub/values-ingress-http2.yaml")
	argument := regexp.MustCompile(`--entryPoints\S+readTimeout=0`).FindString(page)
	version := regexp.MustCompile(`github.com/traefik/traefik/v3 (v\S+)`).FindStringSubmatch(readPage(t, "../../tools/ingresslocal/go.mod"))[1]
	provider := "kubernetesingress"
	if f.gateway {
		provider = "kubernetesgateway"
	}
	text := strings.NewReplacer("PROTOCOLS", f.protocols, "IMAGE", "traefik:"+version, "ARGUMENT", argument, "PROVIDER", provider).Replace(ingress)
	if f.gateway {
		w.kubectl(t, "", "create", "secret", "tls", "fairlead-tls", "--namespace=gateways",
			"--cert="+filepath.Join(w.secrets, "tls/tls.crt"), "--key="+filepath.Join(w.secrets, "tls/tls.key"))
		w.kubectl(t, "", "create", "configmap", "fairlead-ca", "--namespace=fairlead", "--from-file=ca.crt="+filepath.Join(w.secrets, "tls/ca.crt"))
		text += "---\n" + gateway
	} else {
		text += "---\n"
		for _, line := range regexp.MustCompile(`(?m)^ *#   (.*)$`).FindAllStringSubmatch(page, -1) {
			text += strings.Replace(line[1], "spec: {", "spec: {"+f.transport, 1) + "\n"
		}
		text += "---\n"
	}
	services := strings.SplitAfter(balancer, "\n---\n")
	text += strings.Join(services[len(services)-4:], "")
	w.kubectl(t, text, "apply", "-f", "-")
	w.kubectl(t, "", "rollout", "status", "--namespace=hub", "deployment/balancer", "--timeout=3m")
	trusted := []string{"SSL_CERT_FILE=" + filepath.Join(w.secrets, "tls/ca.crt")}
	w.await(t, "the front leads to the hub", func(ctx context.Context) error {
		answer, err := w.inLab(ctx, trusted, "", filepath.Join(filepath.Dir(w.program), "testpod"), "get", w.hubURL+"/readyz")
		if err == nil && !strings.HasPrefix(answer, "ok") {
			err = fmt.Errorf("it answers %q", answer)
		}
		return err
	})
}

// streamThroughTunnel has streams open at once, until the container has written a line a second for as long as the test
// wants.
func (w *world) streamThroughTunnel(t *testing.T) {
	t.Helper()
	kubectl := []string{filepath.Join(w.bins.Dir, "fairlead"), "kubectl", "edge", "--"}
	begin := func(what string, command ...string) *process.Process {
		p := process.New(w.dir, what, w.program, append([]string{"exec", "--dir", w.lab, "--"}, command...)...)
		p.Env = []string{"FAIRLEAD_CONFIG=" + filepath.Join(w.dir, "fairlead.yaml"), "PATH=" + w.path + ":" + os.Getenv("PATH")}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop(patience) }) // a stream that ends by itself fails the test below
		return p
	}
	port := "18080"
	streams := map[string]*process.Process{
		"logs": begin("logs", append(kubectl, "logs", "--namespace=web", "deployment/web", "--follow", "--tail=1")...),
		"watch": begin("watch", "sh", "-c", "while echo begun; $*; do :; done", "sh",
			strings.Join(append(kubectl, "get", "configmaps", "--namespace=web", "--watch", "--output=name"), " ")),
		"forward": begin("forward", append(kubectl, "port-forward", "--namespace=web", "service/web", port+":80")...),
		"shell": begin("shell", "sh", "-c", typing+` | script --quiet --return --command "$*" /dev/null`, "sh",
			strings.Join(append(kubectl, "exec", "--namespace=web", "-it", "deployment/web", "--", "/testpod", "echo"), " ")),
	}
	w.await(t, "the port is forwarded", func(ctx context.Context) error { return w.getForwarded(ctx, port) })
	lines := int(streamFor.Seconds())
	deadline := time.Now().Add(*streamFor + patience)
	w.awaitLong(t, deadline, "the logs are followed", func(context.Context) error {
		log, err := streams["logs"].Log()
		if have := strings.Count(log, " line "); err == nil && have < lines {
			err = fmt.Errorf("%d of %d lines", have, lines)
		}
		return err
	})
	w.awaitLong(t, deadline, "the shell answers what is typed", func(context.Context) error {
		log, err := streams["shell"].Log()
		// The terminal shows each word as it is typed, and the program writes it again.
		if last := "typed " + strconv.Itoa(lines/typeEvery) + "\r\n"; err == nil && strings.Count(log, last) < 2 {
			err = errors.New(log[max(0, len(log)-200):])
		}
		return err
	})
	w.kubectl(t, "", "create", "configmap", "seen", "--namespace=web")
	w.await(t, "the watch tells of what is new", func(context.Context) error {
		log, err := streams["watch"].Log()
		if err == nil && !strings.Contains(log, "configmap/seen") {
			err = errors.New(log)
		}
		return err
	})
	log, err := streams["watch"].Log()
	if begun := strings.Count(log, "begun\n"); err != nil || begun > 1+int(*streamFor/watchEnds) {
		t.Errorf("the watch was begun %d times in %s: %v", begun, *streamFor, err)
	}
	if err := w.getForwarded(t.Context(), port); err != nil {
		t.Errorf("the forwarded port after %s: %v", *streamFor, err)
	}
	for what, p := range streams {
		if ended, err := p.Ended(); ended {
			t.Errorf("%s ended by itself: %v: %s", what, err, p.Tail())
		}
		if err := p.Stop(patience); err != nil && !strings.Contains(err.Error(), "signal") && !strings.Contains(err.Error(), "exit status") {
			t.Error(err)
		}
	}
}

// awaitLong is await with a deadline of its own.
func (w *world) awaitLong(t *testing.T, deadline time.Time, what string, ok func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	if err := process.Await(ctx, what, ok); err != nil {
		t.Fatal(err)
	}
}

func (w *world) getForwarded(ctx context.Context, port string) error {
	answer, err := w.inLab(ctx, nil, "", filepath.Join(filepath.Dir(w.program), "testpod"), "get", "http://127.0.0.1:"+port)
	if err == nil && !strings.HasSuffix(strings.TrimSpace(answer), " first") {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// copyThroughTunnel copies a file into a container and back, and compares.
func (w *world) copyThroughTunnel(t *testing.T) {
	t.Helper()
	there, back := filepath.Join(w.dir, "there"), filepath.Join(w.dir, "back")
	file, err := os.Create(there)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.CopyN(file, rand.Reader, int64(*copyMiB)<<20)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	limit := patience + time.Duration(*copyMiB)*time.Second/4
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for _, args := range [][]string{{there, "data/redis-0:/data/copied"}, {"data/redis-0:/data/copied", back}} {
		began := time.Now()
		if _, err := w.tryFairlead(ctx, "", append([]string{"kubectl", "edge", "--", "cp"}, args...)...); err != nil {
			t.Fatal(err)
		}
		t.Logf("copied %d MiB in %.1f s", *copyMiB, time.Since(began).Seconds())
	}
	w.mustRun(t, nil, "cmp", there, back)
	w.kubectl(t, "", "exec", "--namespace=data", "redis-0", "--", "rm", "/data/copied")
	if err := errors.Join(os.Remove(there), os.Remove(back)); err != nil {
		t.Fatal(err)
	}
}
