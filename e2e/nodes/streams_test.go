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
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

var (
	copyMiB   = flag.Int("copy-mib", 64, "with -long: how much `kubectl cp` copies each way through the tunnel")
	streamFor = flag.Duration("stream-for", 75*time.Second, "with -long: how long streams stay open; more than the 60 s after which proxies like to cut")
)

const ingressPage = "../../deploy/kustomize/hub/values-ingress-http2.yaml"

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
    metadata: {labels: {app: balancer}, annotations: {speaks: "PROTOCOLS"}}
    spec:
      containers:
        - name: traefik
          image: IMAGE
          args:
            - --providers.kubernetesingress
            - --providers.kubernetescrd
            - --entryPoints.websecure.address=:8443
            - ARGUMENT
            - --accesslog
            - --ping
            - --ping.entrypoint=ping
            - --entryPoints.ping.address=:8082
          readinessProbe: {httpGet: {path: /ping, port: 8082}, periodSeconds: 1}
`

// Streams of real containers get through the tunnel and an ingress by Traefik, with the values that the docs have for it, by HTTP/2
// and where it speaks HTTP/1.1 only, on both sides: logs
// that are followed, a watch and a forwarded port stay open, and files are copied both ways.
func TestStreamsThroughAnIngress(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	t.Parallel()
	traefik := buildIngress(t)
	w := start(t, 1, filepath.Join(traefik, "traefik.tar"))
	w.hubURL = "https://console.hub.svc"
	w.kubectl(t, readPage(t, filepath.Join(traefik, "crds.yaml")), "apply", "--server-side", "-f", "-")
	w.kubectl(t, "", "create", "namespace", "hub")
	page := readPage(t, ingressPage)
	_, values, _ := strings.Cut(page, "\nurls:\n")
	values = strings.NewReplacer("fairlead.example.com", "hub.svc", "fairlead-ingress-tls", "fairlead-tls").Replace(values)
	w.installHub(t, hubValues+"trustedProxies: [10.244.0.0/16]\nurls:\n"+values)
	speak := func(protocol string) { w.speak(t, page, protocol) }
	speak("both")
	w.logIn(t)
	w.installAgent(t)
	w.serveGit(t)
	w.push(t, "first")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "first")
	for _, protocol := range []string{"h2", "http/1.1"} {
		before := w.webSockets(t)
		speak(protocol)
		w.await(t, "people get through by "+protocol, func(ctx context.Context) error {
			_, err := w.tryFairlead(ctx, "", "kubectl", "edge", "--", "get", "namespaces", "--request-timeout=10s")
			return err
		})
		began := time.Now()
		w.lookThroughTunnel(t, "first")
		w.streamThroughTunnel(t, strings.ReplaceAll(protocol, "/", "-"))
		w.copyThroughTunnel(t)
		t.Logf("%s: streams and copies took %.1f s", protocol, time.Since(began).Seconds())
		log := w.kubectl(t, "", "logs", "--namespace=hub", "deployment/balancer", "--tail=-1")
		if two := strings.Contains(log, "HTTP/2.0\""); two != (protocol == "h2") {
			t.Errorf("the ingress that speaks %s had requests by HTTP/2: %t", protocol, two)
		}
		if after := w.webSockets(t); after <= before {
			t.Errorf("the agent has no WebSocket through the ingress that speaks %s", protocol)
		}
	}
}

// webSockets counts the sessions that the agent has begun over a WebSocket.
func (w *world) webSockets(t *testing.T) int {
	t.Helper()
	return strings.Count(w.kubectl(t, "", "logs", "--namespace=fairlead", "fairlead-tunnel-0", "--tail=-1"), `"carrier":"websocket"`)
}

// buildIngress returns the folder of Traefik's image.
func buildIngress(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a first build
	defer cancel()
	command := exec.CommandContext(ctx, "../../tools/ingresslocal/build.sh")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// speak starts the ingress anew. A WebSocket is of HTTP/1.1, so that one that speaks h2 speaks that, too. What Traefik needs besides the values is in their comments.
func (w *world) speak(t *testing.T, page, protocol string) {
	t.Helper()
	var transport strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^ *#   (.*)$`).FindAllStringSubmatch(page, -1) {
		transport.WriteString(line[1] + "\n")
	}
	protocols, more := `"h2", "http/1.1"`, ""
	switch protocol {
	case "both":
		protocols = `"http/1.1", "h2"`
	case "http/1.1":
		protocols, more = `"http/1.1"`, "disableHTTP2: true, "
	}
	argument := regexp.MustCompile(`--entryPoints\S+readTimeout=0`).FindString(page)
	version := regexp.MustCompile(`github.com/traefik/traefik/v3 (v\S+)`).FindStringSubmatch(readPage(t, "../../tools/ingresslocal/go.mod"))[1]
	text := strings.NewReplacer(`"PROTOCOLS"`, "'"+protocols+"'", "PROTOCOLS", protocols, "IMAGE", "traefik:"+version, "ARGUMENT", argument).Replace(ingress)
	text += "---\n" + strings.Replace(transport.String(), "spec: {", "spec: {"+more, 1)
	services := strings.SplitAfter(balancer, "\n---\n")
	text += "---\n" + strings.Join(services[len(services)-4:], "")
	w.kubectl(t, text, "apply", "-f", "-")
	w.kubectl(t, "", "rollout", "status", "--namespace=hub", "deployment/balancer", "--timeout=3m")
	w.await(t, "one ingress is left", func(ctx context.Context) error {
		pods, err := w.tryKubectl(ctx, "", "get", "pods", "--namespace=hub", "--output=name")
		if err == nil && len(strings.Fields(pods)) != 1 {
			err = errors.New(pods)
		}
		return err
	})
}

// streamThroughTunnel has streams open at once, until the container has written a line a second for as long as the test wants.
func (w *world) streamThroughTunnel(t *testing.T, name string) {
	t.Helper()
	begin := func(what string, args ...string) *process.Process {
		p := process.New(w.dir, name+"-"+what, w.program, append([]string{
			"exec", "--dir", w.lab, "--", filepath.Join(w.bins.Dir, "fairlead"), "kubectl", "edge", "--",
		}, args...)...)
		p.Env = []string{"FAIRLEAD_CONFIG=" + filepath.Join(w.dir, "fairlead.yaml"), "PATH=" + w.path + ":" + os.Getenv("PATH")}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop(patience) }) // a stream that ends by itself fails the test below
		return p
	}
	port := "18080"
	streams := map[string]*process.Process{
		"logs":    begin("logs", "logs", "--namespace=web", "deployment/web", "--follow", "--tail=1"),
		"watch":   begin("watch", "get", "configmaps", "--namespace=web", "--watch", "--output=name"),
		"forward": begin("forward", "port-forward", "--namespace=web", "service/web", port+":80"),
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
	w.kubectl(t, "", "create", "configmap", "seen-"+name, "--namespace=web")
	w.await(t, "the watch tells of what is new", func(context.Context) error {
		log, err := streams["watch"].Log()
		if err == nil && !strings.Contains(log, "configmap/seen-"+name) {
			err = errors.New(log)
		}
		return err
	})
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
