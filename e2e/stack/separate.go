package stack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/e2e/balancer"
	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/postgrestest"
)

// Servers are what the hub stands on, for tests that take it away.
type Servers struct {
	Redis    *redistest.Server
	Postgres *postgrestest.Server
	Database string // URL of the console's
}

// plan says what a stack of separate processes has.
type plan struct {
	hub        []string // its services; a second one of a kind is called KIND-2
	clusters   []string
	flags      []string // of every part
	agentFlags []string // of agents besides
	env        []string // of the hub's parts
	// kindFlags are flags of the parts of a kind besides.
	kindFlags map[string][]string
	// programs is the folder of the programs that all parts run at first; empty: that of the binaries under test.
	programs string
	// hidden are parts of the hub that agents and people are not told of.
	hidden []string
	// balanced puts a balancer before the consoles.
	balanced bool
	// network is where parts run; nil: all of them on loopback.
	network Network
	// passwords has Redis and PostgreSQL want FirstPassword of the user DataUser, and parts read their URLs from files.
	passwords bool
}

// User of Redis and PostgreSQL in a stack made by Rotating, and the password at first.
const (
	DataUser      = "fairlead"
	FirstPassword = "first-password"
)

// Network gives each part of a stack a host with an address of its own.
type Network interface {
	// Here is the address of this process, and of the servers that it starts.
	Here() string
	// Host returns the address of a part's host, and makes that if need be.
	Host(part string) (string, error)
	// Inside is the command which runs another command on a part's host.
	Inside(part string, command ...string) []string
}

// Separate runs every deployable as a process of its own, over a real Redis and a real PostgreSQL,
// with two clusters. The stack ends with the test.
func Separate(ctx context.Context, t testing.TB, bins Binaries) (*Stack, Servers) {
	t.Helper()
	return run(ctx, t, bins, plan{
		hub: services(), clusters: []string{"a", "b"}, kindFlags: map[string][]string{"console": {"--allow-addresses", "127.0.0.0/8"}}, // backends are there
	})
}

// Observed is Separate with all that there is to observe: two gitcaches and two tunnels, of which agents know the first
// only, and one cluster, whose agent is ready for a second one. Metrics want the token, and traces go to the OTLP
// endpoint: the agent's through the hub.
func Observed(ctx context.Context, t testing.TB, bins Binaries, metricsTokenFile, otlpEndpoint string) *Stack {
	t.Helper()
	addrs, err := process.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := run(ctx, t, bins, plan{
		hub: append(services(), "gitcache-2", "tunnel-2"), hidden: []string{"tunnel-2"}, clusters: []string{"a"},
		flags:      []string{"--metrics-token-file", metricsTokenFile},
		agentFlags: []string{"--leader-elect", "--health-listen", addrs[0], "--traces-through-hub"},
		env:        []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlpEndpoint},
		kindFlags:  map[string][]string{"console": {"--audit-export", "file://" + filepath.Join(t.TempDir(), "audit.jsonl")}},
	})
	s.AgentMetrics = addrs[0]
	return s
}

// Apart is Separate for a program that is no test: Redis and the database are the caller's, and Stop ends the stack.
// The console and the agents get further flags.
func Apart(ctx context.Context, bins Binaries, dir, redisURL, databaseURL string, console, agents []string) (*Stack, error) {
	s := &Stack{Dir: dir, bins: bins, parts: map[string]*process.Process{}}
	p := plan{hub: services(), clusters: []string{"a", "b"}, agentFlags: agents, kindFlags: map[string][]string{"console": console}}
	if err := s.separate(ctx, p, redisURL, databaseURL); err != nil {
		errs := []error{err}
		for _, part := range s.order {
			errs = append(errs, fmt.Errorf("last words of %s:\n%s", part, s.Tail(part)))
		}
		return nil, errors.Join(append(errs, s.Stop())...)
	}
	return s, nil
}

// Mixed runs two of each deployable, all of another build at first, and a third tunnel that agents are not told of, so
// that what it is asked goes through another tunnel. Replace brings one part after the other to another build.
func Mixed(ctx context.Context, t testing.TB, bins Binaries, programs string) (*Stack, Servers) {
	t.Helper()
	return run(ctx, t, bins, plan{
		hub:      []string{"console", "console-2", "gitcache", "gitcache-2", "distributor", "distributor-2", "tunnel", "tunnel-2", HiddenTunnel},
		clusters: []string{"a", "b"}, hidden: []string{HiddenTunnel}, balanced: true, programs: programs,
		kindFlags: map[string][]string{"distributor": {"--next-poll", "1s"}},
	})
}

// Networked runs two of each deployable of the hub, of which the second console is known to nobody, and one cluster,
// each on a host of its own.
func Networked(ctx context.Context, t testing.TB, bins Binaries, network Network) (*Stack, Servers) {
	t.Helper()
	return run(ctx, t, bins, plan{
		hub:      []string{"console", "console-2", "gitcache", "gitcache-2", "distributor", "distributor-2", "tunnel", "tunnel-2"},
		clusters: []string{"a"}, network: network, kindFlags: map[string][]string{"distributor": {"--next-poll", "1s"}},
	})
}

// Rotating runs each deployable of the hub, with a second gitcache, and one cluster, over a Redis and a PostgreSQL that
// want passwords. Their URLs are in RedisURLFile and DatabaseURLFile.
func Rotating(ctx context.Context, t testing.TB, bins Binaries) (*Stack, Servers) {
	t.Helper()
	return run(ctx, t, bins, plan{
		hub: append(services(), "gitcache-2"), clusters: []string{"a"}, kindFlags: map[string][]string{"distributor": {"--next-poll", "1s"}}, passwords: true,
	})
}

// HiddenTunnel is the tunnel of Mixed to which no agent has a session.
const HiddenTunnel = "tunnel-3"

func services() []string { return []string{"console", "gitcache", "distributor", "tunnel"} }

func run(ctx context.Context, t testing.TB, bins Binaries, p plan) (*Stack, Servers) {
	t.Helper()
	dir := t.TempDir()
	s := &Stack{Dir: dir, bins: bins, programs: p.programs, parts: map[string]*process.Process{}}
	servers := Servers{Postgres: &postgrestest.Server{}}
	var redisURL string
	if p.network == nil {
		servers.Redis = redistest.Start(t)
		redisURL = servers.Redis.URL()
	} else {
		here := p.network.Here()
		servers.Postgres.Listen = here
		servers.Redis = redistest.Start(t, "--bind", here, "--port", "6379", "--protected-mode", "no")
		redisURL = "redis://" + net.JoinHostPort(here, "6379")
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, part := range s.order {
				t.Logf("last words of %s:\n%s", part, s.Tail(part))
			}
		}
		if err := servers.Postgres.Stop(); err != nil {
			t.Error(err)
		}
	})
	servers.Database = servers.Postgres.Database(t)
	if p.passwords {
		servers.Redis.Do("ACL", "SETUSER", DataUser, "on", ">"+FirstPassword, "~fairlead:*", "&fairlead:*", "+@all", "-@dangerous")
		redisURL = strings.Replace(redisURL, "://", "://"+DataUser+":"+FirstPassword+"@", 1)
		servers.Database = servers.Postgres.Login(t, servers.Database, DataUser, FirstPassword)
	}
	if err := s.separate(ctx, p, redisURL, servers.Database); err != nil {
		t.Fatal(err)
	}
	return s, servers
}

func (s *Stack) separate(ctx context.Context, p plan, redisURL, databaseURL string) error {
	addrs, err := p.addresses()
	if err != nil {
		return err
	}
	hosts := []string{"127.0.0.1", "localhost"}
	if p.network != nil {
		hosts = append(hosts, p.network.Here())
	}
	for _, addr := range addrs {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	ca, err := localca.Ensure(filepath.Join(s.Dir, "tls"), slices.Compact(hosts)...)
	if err != nil {
		return err
	}
	s.CAFile = ca.CAFile
	if err := os.WriteFile(s.HubSecret(), []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	if err := s.startHub(ctx, p, ca, addrs, redisURL, databaseURL); err != nil {
		return err
	}
	err = process.Await(ctx, "the console takes a login", func(ctx context.Context) error {
		_, err := s.Fairlead(ctx, "login", s.Hub["console"], "--hub-secret-file", s.HubSecret(), "--ca-file", s.CAFile)
		return err
	})
	if err != nil {
		return err
	}
	git, err := process.FreeAddresses(1)
	if err != nil {
		return err
	}
	if err := s.serveGit(ctx, git[0]); err != nil {
		return err
	}
	url, secret := s.GitURL, ""
	if p.network != nil {
		if url, err = s.proxyGit(ctx, net.JoinHostPort(p.network.Here(), "3000"), ca); err != nil {
			return err
		}
		authority, err := os.ReadFile(ca.CAFile)
		if err != nil {
			return err
		}
		secret = "git"
		text := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: %s}\ndata: {ca.crt: %q}\n", secret, authority)
		if _, err := s.FairleadStdin(ctx, text, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	for _, name := range p.clusters {
		if err := s.joinLocal(ctx, p, name); err != nil {
			return err
		}
	}
	_, err = s.FairleadStdin(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: sample}\nspec: {git: {url: %q, secret: %q, interval: 5s}}\n", url, secret), "apply", "-f", "-")
	return err
}

// addresses of the parts of the hub, in their order.
func (p plan) addresses() ([]string, error) {
	if p.network == nil {
		return process.FreeAddresses(len(p.hub))
	}
	var addrs []string
	for _, name := range p.hub {
		host, err := p.network.Host(name)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, net.JoinHostPort(host, "7400"))
	}
	return addrs, nil
}

// HubSecret is the file with the hub's secret, in a stack of separate processes.
func (s *Stack) HubSecret() string { return filepath.Join(s.Dir, "hub.secret") }

// RedisURLFile is the file with the URL of Redis, in a stack made by Rotating.
func (s *Stack) RedisURLFile() string { return filepath.Join(s.Dir, "redis.url") }

// DatabaseURLFile is the file with the URLs of PostgreSQL, in a stack made by Rotating.
func (s *Stack) DatabaseURLFile() string { return filepath.Join(s.Dir, "database.url") }

func (s *Stack) startHub(ctx context.Context, p plan, ca localca.Files, addrs []string, redisURL, databaseURL string) error {
	if err := os.Mkdir(s.ConfigDir(), 0o700); err != nil {
		return err
	}
	s.Hub, s.URLs = map[string]string{}, map[string]string{}
	urls := map[string][]string{} // by kind, of those that others are told of
	var consoles []string
	for i, name := range p.hub {
		url := "https://" + addrs[i]
		s.Hub[name], s.URLs[name] = url, url
		if !slices.Contains(p.hidden, name) {
			urls[kind(name)] = append(urls[kind(name)], url)
		}
		if kind(name) == "console" {
			consoles = append(consoles, addrs[i])
		}
	}
	if p.balanced {
		front, err := balancer.Start(ctx, "127.0.0.1:0", consoles)
		if err != nil {
			return err
		}
		s.close = append(s.close, front.Close)
		s.Hub["console"] = "https://" + front.Addr()
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	keyFile := filepath.Join(s.Dir, "master.key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		return err
	}
	redis, database := []string{"--redis-url", redisURL}, []string{"--database-url", databaseURL}
	if p.passwords {
		redis, database = []string{"--redis-url-file", s.RedisURLFile()}, []string{"--database-url-file", s.DatabaseURLFile()}
		err := errors.Join(os.WriteFile(s.RedisURLFile(), []byte(redisURL), 0o600), os.WriteFile(s.DatabaseURLFile(), []byte(databaseURL), 0o600))
		if err != nil {
			return err
		}
	}
	for i, name := range p.hub {
		args := append([]string{
			"--listen", addrs[i], "--tls-cert", ca.CertFile, "--tls-key", ca.KeyFile,
			"--data-dir", filepath.Join(s.Dir, name), "--hub-secret-file", s.HubSecret(), "--log-level", "debug",
		}, p.flags...)
		if kind(name) == "console" {
			args = append(append(args, database...), "--master-key-file", keyFile, "--config-dir", s.ConfigDir(), "--advertise-console", s.Hub["console"],
				"--advertise-gitcaches", strings.Join(urls["gitcache"], ","), "--advertise-distributors", strings.Join(urls["distributor"], ","),
				"--advertise-tunnels", strings.Join(urls["tunnel"], ","))
		} else {
			args = append(append(args, redis...), "--console-url", s.Hub["console"], "--hub-ca-file", s.CAFile, "--advertise-url", s.Hub[name])
		}
		if kind(name) == "gitcache" {
			args = append(args, "--allow-addresses", "127.0.0.0/8,::1/128,10.0.0.0/8") // the Git server is there
		}
		if err := s.start(p, name, kind(name), append(args, p.kindFlags[kind(name)]...), p.env); err != nil {
			return err
		}
	}
	return nil
}

func kind(name string) string {
	kind, _, _ := strings.Cut(name, "-")
	return kind
}

func (s *Stack) start(p plan, name, program string, args, env []string) error {
	path := s.bins.path(program)
	if s.programs != "" {
		path = filepath.Join(s.programs, program)
	}
	command := append([]string{path}, args...)
	if p.network != nil {
		command = p.network.Inside(name, command...)
	}
	part := process.New(s.Dir, name, command[0], command[1:]...)
	part.Env = env
	return s.add(part)
}

// joinLocal starts a local cluster and an agent in it.
func (s *Stack) joinLocal(ctx context.Context, p plan, name string) error {
	dir := filepath.Join(s.Dir, "cluster-"+name)
	c := Cluster{Name: name, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	local := []string{"start", "--dir", dir, "--name", name}
	if p.network != nil {
		local = append(local, "--bind", p.network.Here())
		if _, err := p.network.Host("agent-" + name); err != nil {
			return err
		}
	}
	if err := s.add(process.New(s.Dir, "kubernetes-"+name, s.bins.Kubelocal, local...)); err != nil {
		return err
	}
	// People in the hub's group of administrators are administrators of this cluster.
	bind := []string{"create", "clusterrolebinding", "fairlead-admins", "--clusterrole=cluster-admin", "--group=fairlead:admins"}
	err := process.Await(ctx, "cluster "+name+" answers", func(ctx context.Context) error {
		_, err := s.Kubectl(ctx, c.Kubeconfig, bind...)
		return err
	})
	if err != nil {
		return err
	}
	cluster := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: %s}\n", name)
	if _, err := s.FairleadStdin(ctx, cluster, "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := s.Fairlead(ctx, "cluster", "join-token", name)
	if err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "join-"+name)
	if err := os.WriteFile(file, []byte(strings.TrimSpace(token)), 0o600); err != nil {
		return err
	}
	s.Clusters = append(s.Clusters, c)
	args := append(append([]string{
		"--hub-url", s.Hub["console"], "--hub-ca-file", s.CAFile, "--join-token-file", file, "--data-dir", filepath.Join(s.Dir, "agent-"+name+".data"),
		"--kubeconfig", c.Kubeconfig, "--log-level", "debug",
	}, p.flags...), p.agentFlags...)
	return s.start(p, "agent-"+name, "agent", args, nil)
}
