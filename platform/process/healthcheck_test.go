package process

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
)

type listening struct{ server server.Config }

func (c *listening) RegisterFlags(fs *flag.FlagSet) { c.server.RegisterFlags(fs, "127.0.0.1:0") }

// checkHealth is what the program does with these arguments.
func checkHealth(t *testing.T, cfg Config, args ...string) (string, error) {
	t.Helper()
	var stdout bytes.Buffer
	err := Command("demo", cfg, func(*slog.Logger, *telemetry.Telemetry) (Service, error) {
		t.Error("it was started")
		return nil, errors.New("started")
	})(t.Context(), append([]string{"healthcheck"}, args...), none, &stdout)
	return strings.TrimSpace(stdout.String()), err
}

// serve runs a listener and returns its address.
func serve(t *testing.T, cfg server.Config, ready func() error) string {
	t.Helper()
	s, err := server.New(cfg, server.Deps{
		Name: "demo", Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(),
		Verifier: identitytest.New(t), Ready: ready,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	_, address, _ := strings.Cut(s.URL(), "://")
	return address
}

func TestHealthcheckAsksTheServiceThatRuns(t *testing.T) {
	t.Parallel()
	address := serve(t, server.Config{Listen: "127.0.0.1:0"}, nil)
	if said, err := checkHealth(t, &listening{}, "--listen", address); err != nil || said != "ok" {
		t.Errorf("ready: %q, %v", said, err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := checkHealth(t, &listening{}, "--listen", ":"+port, "--plaintext"); err != nil || said != "ok" {
		t.Errorf("at every address of the machine: %q, %v", said, err)
	}
}

func TestHealthcheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "metrics.token")
	if err := os.WriteFile(token, []byte("what Prometheus was given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serve(t, server.Config{Listen: "127.0.0.1:0", MetricsTokenFile: token},
		func() error { return errors.New("the database is away") })
	if said, err := checkHealth(t, &listening{}, "--listen", address); err == nil || err.Error() != "not ready" {
		t.Errorf("not ready: %q, %v", said, err)
	}
	if said, err := checkHealth(t, &listening{}, "--listen", address, "--metrics-token-file", token); err == nil ||
		!strings.Contains(err.Error(), "the database is away") {
		t.Errorf("not ready, with the metrics token: %q, %v", said, err)
	}
	if said, err := checkHealth(t, &listening{}, "--listen", address, "--live"); err != nil || said != "ok" {
		t.Errorf("alive, though not ready: %q, %v", said, err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		args []string
		want string
	}{
		"nobody listens": {&listening{}, []string{"--listen", "127.0.0.1:1"}, "refused"},
		"no port":        {&listening{}, nil, "--listen"},
		"no listener":    {&config{}, nil, "nothing to ask"},
		"wrong flag":     {&listening{}, []string{"--lively"}, "lively"},
		"no certificate": {&listening{}, []string{"--listen", address, "--tls-cert", "/nowhere"}, "/nowhere"},
	} {
		if said, err := checkHealth(t, c.cfg, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", name, said, err)
		}
	}
}

// healthListening is an agent's way to listen.
type healthListening struct{ listen string }

func (c *healthListening) RegisterFlags(fs *flag.FlagSet) {
	fs.StringVar(&c.listen, "health-listen", "", "")
}

func TestHealthcheckOfAnAgentAsksWhetherItReachesTheHub(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/hubz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is no session to a tunnel", http.StatusServiceUnavailable)
	})
	agent := httptest.NewServer(mux)
	defer agent.Close()
	address := strings.TrimPrefix(agent.URL, "http://")
	if said, err := checkHealth(t, &healthListening{}, "--health-listen", address); err != nil || said != "ok" {
		t.Errorf("ready: %q, %v", said, err)
	}
	if said, err := checkHealth(t, &healthListening{}, "--health-listen", address, "--hub"); err == nil ||
		err.Error() != "there is no session to a tunnel" {
		t.Errorf("without a hub: %q, %v", said, err)
	}
	if _, err := checkHealth(t, &listening{}, "--listen", address, "--hub"); err == nil ||
		!strings.Contains(err.Error(), "hub") {
		t.Errorf("a service of the hub has none to reach: %v", err)
	}
}

func TestHealthcheckTrustsTheServicesOwnCertificateOnly(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"console", "*.console.example.com", "10.1.2.3"} {
		files, err := localca.Ensure(t.TempDir(), host)
		if err != nil {
			t.Fatal(err)
		}
		cfg := server.Config{Listen: "127.0.0.1:0", CertFile: files.CertFile, KeyFile: files.KeyFile}
		address := serve(t, cfg, nil)
		if said, err := checkHealth(t, &listening{}, "--listen", address, "--tls-cert", files.CertFile, "--tls-key",
			files.KeyFile); err != nil || said != "ok" {
			t.Errorf("%s: %q, %v", host, said, err)
		}
		others, err := localca.Ensure(t.TempDir(), host)
		if err != nil {
			t.Fatal(err)
		}
		if said, err := checkHealth(t, &listening{}, "--listen", address, "--tls-cert", others.CertFile); err == nil ||
			!strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s, somebody else's certificate: %q, %v", host, said, err)
		}
	}
}

func TestHelpTellsOfTheHealthcheck(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"--live", "--help"}} {
		said, err := checkHealth(t, &listening{}, args...)
		if !errors.Is(err, flags.ErrDone) || !strings.Contains(said, "demo healthcheck asks") ||
			!strings.Contains(said, "-live") {
			t.Errorf("%v: %v, %q", args, err, said)
		}
	}
}
