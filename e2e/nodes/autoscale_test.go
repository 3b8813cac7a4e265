package nodes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
)

// loadVariable makes this program dial an address over and over; its value is the address and a file of authorities.
const loadVariable = "FAIRLEAD_TEST_LOAD"

// dialers is how many connections the load makes at once.
const dialers = 8

// scaleValues has autoscalers for distributor and tunnel. The distributor's has a target that the load passes also on a
// busy machine, and scales down soon, so that a test sees it.
const scaleValues = `
image: {registry: fairlead, tag: dev}
secrets: {redis: fairlead-redis, database: fairlead-database, metrics: fairlead-metrics}
console: {replicas: 2}
gitcache: {allowAddresses: [10.88.0.0/24]}
tunnel: {autoscaling: {enabled: true}}
distributor:
  autoscaling:
    enabled: true
    max: 3
    cpu: 30
    behavior: {scaleDown: {stabilizationWindowSeconds: 15, policies: [{type: Pods, value: 1, periodSeconds: 15}]}}
`

// metrics-server reads the CPU of real pods from a kubelet whose certificate it verifies. By its figures the autoscaler
// of the chart brings distributors to the least number, adds one under load and takes it away afterwards; pushes get to
// pods throughout, and an upgrade leaves the number of replicas alone.
func TestAutoscalerFollowsLoad(t *testing.T) {
	if !*long {
		t.Skip("make nodes runs it")
	}
	requireRoot(t)
	t.Parallel()
	metrics := buildTool(t, "metricslocal")
	w := start(t, 1, filepath.Join(metrics, "metrics-server.tar"))
	w.installMetrics(t, metrics)
	w.installHub(t, scaleValues)
	w.logIn(t)
	w.installAgent(t)
	w.serveGit(t)
	w.push(t, "idle")
	w.fairlead(t, catalog, "apply", "-f", filepath.Join(w.secrets, "git/secret.yaml"), "-f", "-")
	w.awaitRunning(t, "idle")
	w.awaitReplicas(t, "statefulset/fairlead-tunnel", "2")
	w.awaitReplicas(t, "deployment/fairlead-distributor", "2")
	w.lookAtFigures(t)

	began := time.Now()
	load := w.startDialing(t)
	w.awaitReplicas(t, "deployment/fairlead-distributor", "3")
	t.Logf("scaled up %.1f s after the load began: %s", time.Since(began).Seconds(), w.autoscaler(t))
	w.push(t, "under load")
	w.awaitRunning(t, "under load")
	t.Logf("under load:\n%s", w.kubectl(t, "", "top", "pods", "--namespace=fairlead"))
	before := w.generation(t)
	if err := w.helm(t, "fairlead").upgrade(t.Context(), "fairlead", hubChart,
		strings.Replace(scaleValues, "stabilizationWindowSeconds: 15", "stabilizationWindowSeconds: 16", 1), patience); err != nil {
		t.Fatal(err)
	}
	if after := w.generation(t); after != before {
		t.Errorf("an upgrade that has changed the autoscaler alone made generation %s of the Deployment of %s", after, before)
	}

	if err := load.Stop(patience); err != nil && !strings.Contains(err.Error(), "signal") {
		t.Error(err)
	}
	began = time.Now()
	w.awaitReplicas(t, "deployment/fairlead-distributor", "2")
	t.Logf("scaled down %.1f s after the load ended: %s", time.Since(began).Seconds(), w.autoscaler(t))
	w.push(t, "after")
	w.awaitRunning(t, "after")
	w.fairlead(t, "", "check")
	if failed := w.failedSyncs(t); failed > 0 {
		t.Errorf("%d Syncs of the agent failed", failed)
	}
}

// installMetrics installs metrics-server by its own manifests. The authority of the lab, which a pod's ServiceAccount
// brings along, has signed the kubelets' certificates.
func (w *world) installMetrics(t *testing.T, folder string) {
	t.Helper()
	version := regexp.MustCompile(`sigs.k8s.io/metrics-server (v\S+)`).
		FindStringSubmatch(readPage(t, "../../tools/metricslocal/go.mod"))[1]
	text := w.kubectl(t, "", "kustomize", filepath.Join(folder, "manifests"))
	image := regexp.MustCompile(`image: \S+`)
	const argument = "- --metric-resolution=15s\n"
	if !image.MatchString(text) || !strings.Contains(text, argument) {
		t.Fatalf("the manifests of metrics-server are not as before:\n%s", text)
	}
	text = image.ReplaceAllString(text, "image: metrics-server:"+version)
	text = strings.Replace(text, argument, argument+"        - --kubelet-certificate-authority="+
		"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt\n", 1)
	w.kubectl(t, text, "apply", "-f", "-")
	w.kubectl(t, "", "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=4m")
}

// awaitReplicas waits until a workload has a number of replicas, and all of them are ready.
func (w *world) awaitReplicas(t *testing.T, workload, count string) {
	t.Helper()
	w.await(t, workload+" has "+count+" replicas", func(ctx context.Context) error {
		have, err := w.tryKubectl(ctx, "", "get", workload, "--namespace=fairlead",
			"--output=jsonpath={.spec.replicas} {.status.replicas} {.status.readyReplicas}")
		if want := strings.Join([]string{count, count, count}, " "); err == nil && have != want {
			err = fmt.Errorf("wanted, there and ready: %s; %s", have, w.autoscaler(t))
		}
		return err
	})
}

// autoscaler returns what the distributor's autoscaler reads.
func (w *world) autoscaler(t *testing.T) string {
	t.Helper()
	return w.kubectl(t, "", "get", "hpa", "fairlead-distributor", "--namespace=fairlead", "--no-headers")
}

func (w *world) generation(t *testing.T) string {
	t.Helper()
	return w.kubectl(t, "", "get", "deployment", "fairlead-distributor", "--namespace=fairlead",
		"--output=jsonpath={.metadata.generation}")
}

// lookAtFigures waits until both autoscalers and `kubectl top`, also through the tunnel, have figures of all pods.
func (w *world) lookAtFigures(t *testing.T) {
	t.Helper()
	w.await(t, "the autoscalers read the CPU", func(ctx context.Context) error {
		have, err := w.tryKubectl(ctx, "", "get", "hpa", "--namespace=fairlead", "--output=jsonpath={range .items[*]}"+
			`{.metadata.name}={.status.currentMetrics[0].resource.current.averageUtilization} {end}`)
		if err == nil && !regexp.MustCompile(`^fairlead-distributor=\d+ fairlead-tunnel=\d+ $`).MatchString(have) {
			err = errors.New(have)
		}
		return err
	})
	pods := strings.Fields(w.kubectl(t, "", "get", "pods", "--namespace=fairlead",
		"--output=jsonpath={.items[*].metadata.name}"))
	tops := map[string]func(context.Context) (string, error){
		"kubectl top": func(ctx context.Context) (string, error) {
			return w.tryKubectl(ctx, "", "top", "pods", "--namespace=fairlead")
		},
		"kubectl top through the tunnel": func(ctx context.Context) (string, error) {
			return w.tryFairlead(ctx, "", "kubectl", "edge", "--", "top", "pods", "--namespace=fairlead")
		},
	}
	for name, top := range tops {
		w.await(t, name+" has figures of all pods", func(ctx context.Context) error {
			said, err := top(ctx)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				if !regexp.MustCompile(`(?m)^` + pod + ` +\d+m +\d+Mi`).MatchString(said) {
					return fmt.Errorf("none of %s in:\n%s", pod, said)
				}
			}
			t.Logf("%s:\n%s", name, said)
			return nil
		})
	}
}

// startDialing runs the load beside the node.
func (w *world) startDialing(t *testing.T) *process.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	load := process.New(w.dir, "load", w.program, "exec", "--dir", w.lab, "--", self)
	load.Env = []string{
		loadVariable + "=https://fairlead-distributor.fairlead.svc:7402/healthz " + filepath.Join(w.secrets, "tls/ca.crt"),
	}
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = load.Stop(patience) }) // the test has ended it, or has failed
	return load
}

// dial makes connections to an address for as long as the program runs, each with a TLS handshake and a request: what a
// distributor has to do when many agents dial. A replica that is stopped fails some of them.
func dial(arguments string) error {
	address, file, _ := strings.Cut(arguments, " ")
	authority, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
	}}
	var all sync.WaitGroup
	for range dialers {
		all.Go(func() {
			for {
				answer, err := client.Get(address)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					time.Sleep(100 * time.Millisecond) // a hub that is away is no reason to fill a disk
					continue
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
	all.Wait()
	return nil
}
