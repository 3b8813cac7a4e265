package up

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// nodeCluster is the local cluster that gets a real node: one shows what pods do, and a second one would only cost
	// memory.
	nodeCluster = "local-a"
	// helloImage is in the archive beside nodelocal; pretended pods take any name.
	helloImage, helloArchive = "node.local/hello:1", "hello.tar"
	// checkLimit bounds the look at the machine, which takes milliseconds.
	checkLimit = 10 * time.Second
	// nodeGrace is how long a cluster with a node may take to end by itself: its node, and then five programs in turn.
	nodeGrace = 40 * time.Second
)

// planNodes gives a local cluster a real node where this machine can run it, and says why not otherwise.
func (u *up) planNodes(ctx context.Context, clusters []cluster) {
	for i := range clusters {
		c := &clusters[i]
		if !c.local || c.Name != nodeCluster {
			continue
		}
		if err := u.checkNode(ctx, c.Name); err != nil {
			u.pretended = err.Error()
			u.sayf("pods are pretended: %s", u.pretended)
			continue
		}
		c.RealPods = true
	}
}

// checkNode returns why a cluster can't have a real node, or nil.
func (u *up) checkNode(ctx context.Context, name string) error {
	program := u.options.Nodelocal
	if program == "" {
		return errors.New("--nodelocal names no program for real ones")
	}
	if u.data.state.Seeded["service/"+sampleService(name)] && !u.data.state.Seeded[imageKey(name)] {
		return fmt.Errorf("the sample in %s is of an earlier version, whose image a real node would have to pull: --empty starts clean", u.data.path)
	}
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		if os.Geteuid() != 0 {
			return errors.New("real nodes need root")
		}
		return errors.New("the programs of real nodes are not built: `make nodelocal` builds them, in about 2 minutes")
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "check", "--dir", u.nodeDir(name))
	cmd.Env = childEnvironment(os.Environ())
	out, err := cmd.CombinedOutput()
	if said := strings.TrimPrefix(string(bytes.TrimSpace(out)), "nodelocal: "); err != nil && said != "" {
		return errors.New(said)
	}
	return err
}

// nodeDir keeps a cluster with a real node, apart from the same cluster with pretended ones: they have nothing in
// common.
func (u *up) nodeDir(name string) string { return u.data.joinPath("nodes", name) }

// nodelocalChild is the program that runs a cluster with one real node.
func (u *up) nodelocalChild(name string) (*child, error) {
	dir, err := u.data.makeDir("nodes", name)
	if err != nil {
		return nil, err
	}
	return &child{
		name: "cluster " + name, path: u.options.Nodelocal, grace: nodeGrace,
		args: []string{
			"start", "--dir", dir, "--name", name, "--kubelocal", u.options.Kubelocal,
			"--image", filepath.Join(filepath.Dir(u.options.Nodelocal), helloArchive),
		},
	}, nil
}

// forgetAgent removes what an agent keeps of its cluster when the cluster is another one than in the last run: its pods
// are real now, or are not any more. The agent joins again.
func (u *up) forgetAgent(c cluster) error {
	if !c.local || u.data.state.RealPods[c.Name] == c.RealPods {
		return nil
	}
	if err := os.RemoveAll(u.data.joinPath("agents", c.Name)); err != nil {
		return fmt.Errorf("forget the agent of cluster %s: %w", c.Name, err)
	}
	if u.data.state.RealPods == nil {
		u.data.state.RealPods = map[string]bool{}
	}
	u.data.state.RealPods[c.Name] = c.RealPods
	return u.data.saveState()
}
