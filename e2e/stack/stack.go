// Package stack runs the built product the way users run it, for the tests across services, the
// smoke test and the benches: as `fairlead up` (the hub in one process), or as separate processes
// over real Redis and real PostgreSQL. Everything lives in one folder and dies with its owner.
package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/kubetest"
)

// Binaries says where the programs under test are.
type Binaries struct {
	Dir       string // holds fairlead, agent, console, gitcache, distributor, tunnel
	Kubelocal string
}

// FindBinaries looks for the programs under test in bin at the top of the repository, and for
// kubelocal where kubetest does.
func FindBinaries(ctx context.Context, top string) (Binaries, error) {
	dir, err := filepath.Abs(filepath.Join(top, "bin"))
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{Dir: dir}
	if _, err := os.Stat(b.path("fairlead")); err != nil {
		return Binaries{}, fmt.Errorf("no binaries in %s: run `make build`", dir)
	}
	b.Kubelocal, err = kubetest.Binary(ctx)
	return b, err
}

func (b Binaries) path(name string) string { return filepath.Join(b.Dir, name) }

// Cluster is one of the stack's Kubernetes clusters.
type Cluster struct {
	Name       string
	Kubeconfig string // straight to its API server
}

// Stack is a running product with two clusters and one Git repository.
type Stack struct {
	Dir      string
	GitURL   string // of the repository to push to
	Clusters []Cluster
	Hub      map[string]string // URL of console, gitcache, distributor and tunnel
	URLs     map[string]string // of each process of the hub, in a stack of separate processes
	CAFile   string            // the authority of the hub's certificates
	// AgentMetrics is the address of the agent's metrics, in a stack made by Observed.
	AgentMetrics string

	bins     Binaries
	programs string // folder of the programs that parts run at first; empty: that of bins
	parts    map[string]*process.Process
	order    []string // parts in the order they were started
	close    []func() error
}

// Fairlead runs the CLI and returns its stdout.
func (s *Stack) Fairlead(ctx context.Context, args ...string) (string, error) {
	return s.FairleadConfig(ctx, s.ConfigFile(), args...)
}

// ConfigFile is the CLI's configuration file.
func (s *Stack) ConfigFile() string { return filepath.Join(s.Dir, "fairlead.yaml") }

// ConfigDir is the folder whose files backends give to services, in a stack made by Separate.
func (s *Stack) ConfigDir() string { return filepath.Join(s.Dir, "values") }

// Signal sends a signal to a part.
func (s *Stack) Signal(part string, sig syscall.Signal) error { return s.parts[part].Signal(sig) }

// Process is a part, for what else there is to know of it.
func (s *Stack) Process(part string) *process.Process { return s.parts[part] }

// AgentToken is the file with the credential of a cluster's agent, in a stack made by Up.
func (s *Stack) AgentToken(c Cluster) string {
	return filepath.Join(s.Dir, "data", "agents", c.Name, "token")
}

// Token returns the administrator's token that the CLI uses.
func (s *Stack) Token() (string, error) {
	text, err := os.ReadFile(s.ConfigFile())
	if err != nil {
		return "", err
	}
	var config struct{ Contexts []struct{ Token string } }
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Contexts) != 1 {
		return "", fmt.Errorf("read %s: %d contexts, want 1: %w", s.ConfigFile(), len(config.Contexts), err)
	}
	return config.Contexts[0].Token, nil
}

// FairleadConfig runs the CLI with another configuration file.
func (s *Stack) FairleadConfig(ctx context.Context, file string, args ...string) (string, error) {
	return process.Run(ctx, []string{"FAIRLEAD_CONFIG=" + file}, "", s.bins.path("fairlead"), args...)
}

// FairleadStdin is Fairlead with text on stdin.
func (s *Stack) FairleadStdin(ctx context.Context, stdin string, args ...string) (string, error) {
	return process.Run(ctx, []string{"FAIRLEAD_CONFIG=" + s.ConfigFile()}, stdin, s.bins.path("fairlead"), args...)
}

// Kubectl runs the real kubectl with a kubeconfig file.
func (s *Stack) Kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	return process.Run(ctx, nil, "", s.bins.Kubelocal, append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...)
}

// TunnelKubeconfig has the CLI write a kubeconfig that goes through the tunnel.
func (s *Stack) TunnelKubeconfig(ctx context.Context, cluster string) (string, error) {
	text, err := s.Fairlead(ctx, "kubeconfig", cluster)
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.Dir, "tunnel-"+cluster+".kubeconfig")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Parts names what Kill takes.
func (s *Stack) Parts() []string { return s.order }

// Kill ends a part as kill -9 does.
func (s *Stack) Kill(part string) error { return s.parts[part].Kill() }

// Start starts a part again after Kill.
func (s *Stack) Start(part string) error { return s.parts[part].Start() }

// Replace asks a part to end, and starts it with its data as the program of another folder and with other flags.
func (s *Stack) Replace(part, programs string, args ...string) error {
	p := s.parts[part]
	if err := p.Stop(grace); err != nil {
		return err
	}
	p.Replace(filepath.Join(programs, kind(part)), args...)
	return p.Start()
}

// Tail returns the last words of a part.
func (s *Stack) Tail(part string) string { return s.parts[part].Tail() }

// grace is more than any part's own drain deadline, on a busy machine too.
const grace = time.Minute

// Stop ends everything in the reverse order and says what did not end well.
func (s *Stack) Stop() error {
	var errs []error
	for _, name := range slices.Backward(s.order) {
		errs = append(errs, s.parts[name].Stop(grace))
	}
	for _, end := range slices.Backward(s.close) {
		errs = append(errs, end())
	}
	s.close = nil // the stack may be stopped twice
	return errors.Join(errs...)
}

// add starts a part and keeps it for Kill, Start and Stop.
func (s *Stack) add(p *process.Process) error {
	if err := p.Start(); err != nil {
		return err
	}
	s.parts[p.Name] = p
	s.order = append(s.order, p.Name)
	return nil
}

// Service is what a test reads of `fairlead get service NAME -o json`.
type Service struct {
	Status struct {
		State        string
		StateMessage string
		Git          struct {
			Revision struct{ Commit string }
			Problem  struct{ Message string }
		}
		Hub struct {
			Digest   string
			Revision struct{ Commit string }
			Problem  struct{ Message string }
		}
		Cluster struct {
			Report struct {
				Phase         string
				AppliedCommit string
				AppliedDigest string
				Message       string
				Objects       []struct{ Kind, Name, Health, Message string }
				ObjectsTotal  int
			}
		}
	}
}

// Service reads a service through the CLI.
func (s *Stack) Service(ctx context.Context, name string) (Service, error) {
	var svc Service
	out, err := s.Fairlead(ctx, "get", "services", name, "-o", "json")
	if err != nil {
		return svc, err
	}
	if err := json.Unmarshal([]byte(out), &svc); err != nil {
		return svc, fmt.Errorf("read service %q: %w in %s", name, err, out)
	}
	return svc, nil
}
