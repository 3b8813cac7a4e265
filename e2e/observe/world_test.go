package observe

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

const (
	// patience is how long anything here may take on a machine that does much else.
	patience = 3 * time.Minute
	compose  = "../../deploy/compose"
)

// world is a running product with a real Prometheus that asks it, and a real Collector that it sends its traces to:
// both with the configurations of docker-compose.yml, but for addresses.
type world struct {
	*stack.Stack
	prometheus string // URL
	spans      string // file with what the Collector was sent
}

func newWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	bins, err := stack.FindBinaries(ctx, "../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	token := filepath.Join(dir, "metrics.token")
	if err := os.WriteFile(token, []byte(rand.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{spans: filepath.Join(dir, "spans.jsonl")}
	w.Stack = stack.Observed(ctx, t, bins, token, w.startCollector(ctx, t, dir))
	w.startPrometheus(ctx, t, dir, token)
	return w
}

// startCollector starts the Collector of tools/collector, and returns where it takes traces.
func (w *world) startCollector(ctx context.Context, t *testing.T, dir string) string {
	t.Helper()
	binary, err := process.Run(ctx, nil, "", "../../tools/collector/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := process.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	own := write(t, filepath.Join(dir, "collector.yaml"), map[string]any{
		"receivers": map[string]any{"otlp": map[string]any{"protocols": map[string]any{
			"grpc": map[string]any{"endpoint": addrs[0]}, "http": map[string]any{"endpoint": addrs[1]},
		}}},
		"exporters": map[string]any{"file": map[string]any{"path": w.spans}},
		"service": map[string]any{
			"pipelines": map[string]any{"traces": map[string]any{"exporters": []string{"file"}}},
		},
	})
	start(t, process.New(dir, "collector", strings.TrimSpace(binary), "--config",
		filepath.Join(compose, "otelcol.yaml"), "--config", own))
	return "http://" + addrs[1]
}

// startPrometheus starts the distribution's Prometheus with the jobs and rules of docker-compose.yml.
func (w *world) startPrometheus(ctx context.Context, t *testing.T, dir, token string) {
	t.Helper()
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(compose, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	alerts, err := filepath.Abs(filepath.Join(observability, "rules", "fairlead.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}
	config["rule_files"] = []string{alerts}
	for _, job := range config["scrape_configs"].([]any) {
		job := job.(map[string]any)
		job["authorization"] = map[string]any{"credentials_file": token}
		if job["scheme"] == "https" {
			job["tls_config"] = map[string]any{"ca_file": w.CAFile}
		}
		delete(job, "dns_sd_configs")
		job["static_configs"] = []any{map[string]any{"targets": w.targets(job["job_name"].(string))}}
	}
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	w.prometheus = "http://" + addrs[0]
	prometheus := process.New(dir, "prometheus", "prometheus", "--config.file",
		write(t, filepath.Join(dir, "prometheus.yml"), config),
		"--storage.tsdb.path", filepath.Join(dir, "prometheus"), "--web.listen-address", addrs[0], "--log.level",
		"warn", "--enable-feature", "exemplar-storage")
	start(t, prometheus)
	await(ctx, t, "Prometheus reaches all", func(ctx context.Context) error {
		if ended, err := prometheus.Ended(); ended {
			t.Fatalf("Prometheus ended: %v\n%s", err, prometheus.Tail())
		}
		up, err := w.query(ctx, "up == 1")
		if err == nil && len(up) != len(w.Hub)+1 {
			err = fmt.Errorf("%d are up: %v", len(up), up)
		}
		return err
	})
}

// targets are the replicas of a job's service.
func (w *world) targets(job string) (targets []string) {
	if job == "fairlead-agent" {
		return []string{w.AgentMetrics}
	}
	for name, url := range w.Hub {
		if strings.HasPrefix("fairlead-"+name, job) {
			targets = append(targets, strings.TrimPrefix(url, "https://"))
		}
	}
	return targets
}

// sample is a series and its value at a moment.
type sample struct {
	Metric map[string]string
	Value  [2]any // when, and the number as text
}

// query asks Prometheus as Grafana does.
func (w *world) query(ctx context.Context, expr string) ([]sample, error) {
	var answer struct{ Result []sample }
	err := w.ask(ctx, "query", url.Values{"query": {expr}}, &answer)
	return answer.Result, err
}

// ask reads the data of an answer of Prometheus' API.
func (w *world) ask(ctx context.Context, what string, about url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.prometheus+"/api/v1/"+what+"?"+about.Encode(),
		http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return json.Unmarshal(body, &struct{ Data any }{into})
}

func start(t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last words of %s:\n%s", p.Name, p.Tail())
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
}

func write(t *testing.T, file string, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func await(ctx context.Context, t *testing.T, what string, probe func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("gave up after %s", patience))
	defer cancel()
	if err := process.Await(ctx, what, probe); err != nil {
		t.Fatal(err)
	}
}
