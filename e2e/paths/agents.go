package paths

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/process"
	"fairlead.dev/platform/subprocess"
	"fairlead.dev/platform/tunnelclient"
	"fairlead.dev/platform/tunnelclient/http1"
)

// fleet says what a process of agents is to do. A fleet comes as JSON on the stdin of the process.
type fleet struct {
	Tunnel  string
	Backend string            // the server that stands for the API server
	Tokens  map[string]string // of the agents, by cluster
}

// mallocsQuestion is a line to Agents, as a text in JSON.
const mallocsQuestion = "mallocs"

// Agents is the part of agents that holds the tunnel, without a cluster. Agents answers each further line on in with
// how many of them are connected, and mallocsQuestion with how many objects the process has allocated.
func Agents(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	var spec fleet
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(first, &spec); err != nil {
		return err
	}
	kube, err := url.Parse(spec.Backend)
	if err != nil {
		return err
	}
	var all []*tunnelclient.Client
	var group errgroup.Group
	if len(spec.Tokens) == 1 {
		group.Go(func() error { // as the agent's main has it
			process.CollectFrugally(ctx)
			return nil
		})
	}
	for _, token := range spec.Tokens {
		hc, err := client.New(client.Config{})
		if err != nil {
			return err
		}
		transport, err := toBackend(kube)
		if err != nil {
			return err
		}
		one, err := tunnelclient.New(tunnelclient.Config{
			Endpoints: func() []string { return []string{spec.Tunnel} }, HTTPClient: hc, Token: identitytest.Source(token, identity.ServiceTunnel),
			Kube: kube, Transport: transport, Version: "bench", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		all = append(all, one)
		group.Go(func() error { return one.Run(ctx) })
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			cancel()
			return group.Wait()
		}
		if strings.Contains(string(line), mallocsQuestion) {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			fmt.Fprintln(out, stats.Mallocs)
			continue
		}
		connected := 0
		for _, one := range all {
			for _, state := range one.States() {
				if state.Connected {
					connected++
				}
			}
		}
		fmt.Fprintln(out, connected)
	}
}

// toBackend is how an agent asks its API server, without TLS.
func toBackend(kube *url.URL) (http.RoundTripper, error) {
	t, err := tunnelclient.NewTransport(func(bool) (http.RoundTripper, error) {
		return &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}, nil
	})
	if err != nil {
		return nil, err
	}
	t.Reads = http1.New(kube, nil, (&net.Dialer{}).DialContext)
	return t, nil
}

// dialogue is a process that answers each line with a line. The process dies with this one.
type dialogue struct {
	process *subprocess.Process
	in      io.WriteCloser
	out     *bufio.Reader
	pipe    *os.File
}

func startDialogue(path, part string) (*dialogue, error) {
	cmd := exec.Command(path, part) //nolint:noctx // stop ends it
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	p, err := subprocess.Start(cmd)
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	return &dialogue{p, in, bufio.NewReader(out), out}, nil
}

// startAgents runs agents and waits until all have a session.
func startAgents(ctx context.Context, spec fleet) (*dialogue, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d, err := startDialogue(self, "tunnel-agents")
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(d.in).Encode(spec); err != nil {
		return d, err
	}
	return d, d.connected(ctx, len(spec.Tokens))
}

// connected waits until so many sessions are open.
func (d *dialogue) connected(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := d.ask(struct{}{}, &n); err != nil || n == want {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d sessions are open: %w", n, want, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (d *dialogue) ask(question, answer any) error {
	if err := json.NewEncoder(d.in).Encode(question); err != nil {
		return err
	}
	line, err := d.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

func (d *dialogue) stop() error {
	err := errors.Join(d.in.Close(), d.process.Stop(20*time.Second))
	return errors.Join(err, d.pipe.Close())
}
