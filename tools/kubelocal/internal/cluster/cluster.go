// Package cluster runs one small, real Kubernetes cluster as child processes of this one: etcd, an
// API server, a controller manager and a scheduler, and kwok, which plays the nodes and their pods.
//
// Everything that a cluster keeps is in one folder, held by one process at a time. The children are
// the same executable started under another name, with that folder as working directory; they are
// started again when they die and never outlive this process. This package only uses the standard
// library: the components themselves are linked by the main package.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// bringUpLimit bounds the way to READY. The cluster takes seconds; the rest is for a busy machine, where
// a cluster that gives up and begins anew never arrives. A component that dies is told at once.
const bringUpLimit = 10 * time.Minute

// maxNodes keeps a typing mistake from filling etcd; kwok itself would play many more.
const maxNodes = 500

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// Config says which cluster to run.
type Config struct {
	Dir        string // all state; created when missing
	Name       string // the kubeconfig's context; the base name of Dir when empty
	Nodes      int    // how many kwok plays; with 0 neither kwok nor its kubelet runs
	Bind       string // the IP address of the API server
	AuditLog   bool   // write Dir/logs/audit.log, one JSON line per request
	Exec       bool   // let kubectl exec run commands on this machine, as this user
	Kubernetes string // the version that the nodes report

	Stdout io.Writer // the one READY line
	Stderr io.Writer // progress
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("--dir is required: the folder that keeps the cluster's state")
	case !validName.MatchString(c.Name):
		return fmt.Errorf("name %q: use up to 63 lower-case letters, digits, dots and dashes (set it with --name)", c.Name)
	case c.Nodes < 0 || c.Nodes > maxNodes:
		return fmt.Errorf("--nodes %d: must be from 0 to %d", c.Nodes, maxNodes)
	case net.ParseIP(c.Bind) == nil || net.ParseIP(c.Bind).IsUnspecified():
		return fmt.Errorf("--bind %q: must be one IP address of this machine, such as 127.0.0.1", c.Bind)
	}
	return nil
}

// Run runs the cluster until ctx ends, then stops its components in order. Run returns nil when the end was asked for.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Name == "" && cfg.Dir != "" {
		cfg.Name = filepath.Base(cfg.Dir)
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return fmt.Errorf("find %s: %w", cfg.Dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close() // the lock goes with the descriptor

	c := &cluster{cfg: cfg, dir: dir, began: time.Now()}
	if err := c.prepare(ctx); err != nil {
		return err
	}

	var logs sync.WaitGroup
	defer logs.Wait()
	logs.Go(func() { writePodLog(ctx, filepath.Join(dir, podLogFile)) })

	c.children = newSupervisor(dir, c.progress)
	defer c.children.stop()
	if err := c.bringUp(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while starting
		}
		return err
	}
	c.progress("ready after %.1f s", time.Since(c.began).Seconds())
	fmt.Fprintf(cfg.Stdout, "READY name=%s server=%s kubeconfig=%s\n", cfg.Name, c.server(), filepath.Join(dir, kubeconfigFile))

	<-ctx.Done()
	c.progress("stopping")
	return nil
}

type cluster struct {
	cfg      Config
	dir      string // absolute
	began    time.Time
	ports    ports
	api      *client
	children *supervisor
}

func (c *cluster) progress(format string, args ...any) {
	fmt.Fprintf(c.cfg.Stderr, "kubelocal %s: %s\n", c.cfg.Name, fmt.Sprintf(format, args...))
}

// prepare writes everything that the components read.
func (c *cluster) prepare(ctx context.Context) error {
	var err error
	if c.ports, err = settlePorts(ctx, filepath.Join(c.dir, "ports.json")); err != nil {
		return err
	}
	pki, err := ensurePKI(filepath.Join(c.dir, pkiDir), c.cfg.Bind)
	if err != nil {
		return err
	}
	if err := writeConfigs(c.dir, c.cfg.Name, c.server(), pki); err != nil {
		return err
	}
	c.api, err = newClient(c.server(), c.ports, pki)
	return err
}

// bringUp starts the components and returns once the cluster can be used.
func (c *cluster) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bringUpLimit)
	defer cancel()

	c.progress("starting etcd and the API server on %s", c.server())
	c.children.keep(ctx, "etcd", etcdArgs())
	c.children.keep(ctx, "kube-apiserver", apiserverArgs(c.cfg, c.ports))
	if err := await(ctx, "the API server", c.api.ready); err != nil {
		return err
	}

	c.progress("starting the controller manager, the scheduler and %d nodes", c.cfg.Nodes)
	c.children.keep(ctx, "kube-controller-manager", controllerManagerArgs())
	c.children.keep(ctx, "kube-scheduler", schedulerArgs())
	if c.cfg.Nodes > 0 {
		if err := c.pretendNodes(ctx); err != nil {
			return err
		}
	}
	return await(ctx, "the default service account", c.api.defaultServiceAccount)
}

// server is the URL of the API server.
func (c *cluster) server() string {
	return "https://" + net.JoinHostPort(c.cfg.Bind, strconv.Itoa(c.ports.APIServer))
}

// pretendNodes starts kwok and its kubelet, and returns once the nodes that they play are ready.
func (c *cluster) pretendNodes(ctx context.Context) error {
	c.children.keep(ctx, "kwok", kwokArgs(c.ports))
	c.children.keep(ctx, "kubelet", kubeletArgs(c.ports, c.cfg.Exec))
	for i := range c.cfg.Nodes {
		if err := c.api.ensureNode(ctx, fmt.Sprintf("node-%d", i), c.ports.Kubelet, c.cfg.Kubernetes); err != nil {
			return err
		}
	}
	if err := await(ctx, "kwok and the kubelet", c.api.kubeletReady); err != nil {
		return err
	}
	return await(ctx, "the nodes", c.api.nodesReady)
}

// await calls probe until it returns nil or ctx ends.
func await(ctx context.Context, what string, probe func(context.Context) error) error {
	const interval = 50 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last seen: %w", what, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
