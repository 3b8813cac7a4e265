package stack

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/postgrestest"
)

// Servers are what the hub stands on, for tests that take it away.
type Servers struct {
	Redis    *redistest.Server
	Postgres *postgrestest.Server
}

// Separate runs every deployable as a process of its own, over a real Redis and a real PostgreSQL,
// with two clusters. It ends with the test.
func Separate(ctx context.Context, t testing.TB, bins Binaries) (*Stack, Servers) {
	t.Helper()
	dir := t.TempDir()
	s := &Stack{Dir: dir, bins: bins, parts: map[string]*process.Process{}}
	servers := Servers{Redis: redistest.Start(t), Postgres: &postgrestest.Server{}}
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
	if err := s.separate(ctx, servers.Redis.URL(), servers.Postgres.Database(t)); err != nil {
		t.Fatal(err)
	}
	return s, servers
}

func (s *Stack) separate(ctx context.Context, redisURL, databaseURL string) error {
	secret := filepath.Join(s.Dir, "hub.secret")
	if err := os.WriteFile(secret, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	ca, err := localca.Ensure(filepath.Join(s.Dir, "tls"), "127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	addrs, err := process.FreeAddresses(5)
	if err != nil {
		return err
	}
	url := func(i int) string { return "https://" + addrs[i] }
	s.CAFile = ca.CAFile
	s.Hub = map[string]string{"console": url(0), "gitcache": url(1), "distributor": url(2), "tunnel": url(3)}
	common := func(name string, i int) []string {
		return []string{
			"--listen", addrs[i], "--tls-cert", ca.CertFile, "--tls-key", ca.KeyFile,
			"--data-dir", filepath.Join(s.Dir, name), "--hub-secret-file", secret, "--log-level", "debug",
		}
	}
	console := append(common("console", 0), "--database-url", databaseURL,
		"--advertise-console", url(0), "--advertise-gitcaches", url(1), "--advertise-distributors", url(2), "--advertise-tunnels", url(3))
	if err := s.add(process.New(s.Dir, "console", s.bins.path("console"), console...)); err != nil {
		return err
	}
	for i, name := range []string{"gitcache", "distributor", "tunnel"} {
		args := append(common(name, i+1), "--console-url", url(0), "--hub-ca-file", ca.CAFile, "--redis-url", redisURL, "--advertise-url", url(i+1))
		if name == "gitcache" {
			args = append(args, "--allow-addresses", "127.0.0.0/8,::1/128") // the Git server is there
		}
		if err := s.add(process.New(s.Dir, name, s.bins.path(name), args...)); err != nil {
			return err
		}
	}
	err = process.Await(ctx, "the console takes a login", func(ctx context.Context) error {
		_, err := s.Fairlead(ctx, "login", url(0), "--hub-secret-file", secret, "--ca-file", ca.CAFile)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.serveGit(ctx, addrs[4]); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if err := s.joinLocal(ctx, name, url(0), ca.CAFile); err != nil {
			return err
		}
	}
	_, err = s.FairleadStdin(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: sample}\nspec: {git: {url: %q, interval: 5s}}\n", s.GitURL), "apply", "-f", "-")
	return err
}

// joinLocal starts a local cluster and an agent in it.
func (s *Stack) joinLocal(ctx context.Context, name, consoleURL, caFile string) error {
	dir := filepath.Join(s.Dir, "cluster-"+name)
	c := Cluster{Name: name, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := s.add(process.New(s.Dir, "kubernetes-"+name, s.bins.Kubelocal, "start", "--dir", dir, "--name", name)); err != nil {
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
	return s.add(process.New(s.Dir, "agent-"+name, s.bins.path("agent"),
		"--hub-url", consoleURL, "--hub-ca-file", caFile, "--join-token-file", file, "--data-dir", filepath.Join(s.Dir, "agent-"+name+".data"),
		"--kubeconfig", c.Kubeconfig, "--log-level", "debug"))
}
