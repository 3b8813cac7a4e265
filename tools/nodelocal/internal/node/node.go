package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"fairlead.dev/tools/nodelocal/internal/layout"
	"fairlead.dev/tools/nodelocal/internal/process"
)

// pauseImage holds the namespaces of each pod; it is built with this tool.
const pauseImage = "node.local/pause:1"

// bringUpLimit bounds what takes a second on a machine that does nothing else.
const bringUpLimit = 2 * time.Minute

// Run is the second process of a node: it keeps containerd, kubelet and kube-proxy running until ctx ends.
func Run(ctx context.Context, number int, stderr io.Writer) error {
	name := layout.NodeName(number)
	dir := layout.InLab(name)
	n := &node{number: number, dir: dir}
	if err := n.connect(); err != nil {
		return fmt.Errorf("%s: connect to the network: %w", name, err)
	}
	if err := writeConfigs(number, dir); err != nil {
		return fmt.Errorf("%s: write configurations: %w", name, err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	keep := func(program string, args ...string) {
		log := filepath.Join(dir, filepath.Base(program)+".log")
		running.Go(func() { process.Keep(ctx, stderr, log, func() *exec.Cmd { return command(program, args...) }) })
	}
	keep("containerd", "--config", filepath.Join(dir, "containerd.toml"))
	if err := n.importImages(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	keep(layout.Program("kubelet"),
		"--config="+filepath.Join(dir, "kubelet.yaml"), "--kubeconfig="+filepath.Join(dir, "kubelet.kubeconfig"),
		"--hostname-override="+name, "--node-ip="+layout.NodeAddress(number).String(), "--root-dir=/var/lib/kubelet")
	keep(layout.Program("kube-proxy"), "--config="+filepath.Join(dir, "proxy.yaml"), "--hostname-override="+name)
	<-ctx.Done()
	return nil
}

type node struct {
	number int
	dir    string
}

// environment of a node's programs.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/var/tmp", "TMPDIR=/var/tmp"}
}

func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...) //nolint:noctx // process.Keep stops it
	cmd.Env = environment()
	return cmd
}

// connect gives the link that the lab has put here its address.
func (n *node) connect() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	eth, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", layout.NodeAddress(n.number), layout.PrefixLength))
	if err != nil {
		return err
	}
	gateway, err := netlink.ParseAddr(layout.Gateway + "/32")
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(eth, address), netlink.LinkSetUp(eth)); err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: gateway.IP}); err != nil {
		return fmt.Errorf("add the default route: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// importImages waits for containerd, and gives it those archives that it does not have.
func (n *node) importImages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bringUpLimit)
	defer cancel()
	for n.ctr(ctx, "version") != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd does not answer: see %s", filepath.Join(n.dir, "containerd.log"))
		case <-time.After(50 * time.Millisecond):
		}
	}
	archives := []string{layout.Program("pause.tar")}
	list, err := os.Open(layout.InLab(layout.Images))
	if err != nil {
		return fmt.Errorf("read which images are wanted: %w", err)
	}
	defer list.Close()
	for lines := bufio.NewScanner(list); lines.Scan(); {
		archives = append(archives, lines.Text())
	}
	for _, archive := range archives {
		if err := n.importOnce(ctx, archive); err != nil {
			return fmt.Errorf("import the image %s: %w", archive, err)
		}
	}
	return nil
}

// importOnce leaves a mark, by which a node that is switched on again knows what it has.
func (n *node) importOnce(ctx context.Context, archive string) error {
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("/var/lib/imported-%x", sha256.Sum256(fmt.Appendf(nil, "%s %d %s", archive, info.Size(), info.ModTime())))
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	if err := n.ctr(ctx, "--namespace=k8s.io", "images", "import", archive); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o600)
}

func (n *node) ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address=" + containerdSocket}, args...)...)
	cmd.Env = environment()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
