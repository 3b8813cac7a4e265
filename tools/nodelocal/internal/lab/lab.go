package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"fairlead.dev/tools/nodelocal/internal/dns"
	"fairlead.dev/tools/nodelocal/internal/layout"
	"fairlead.dev/tools/nodelocal/internal/process"
	"fairlead.dev/tools/nodelocal/internal/volumes"
)

// bringUpLimit bounds the way to READY but for the import of images, which has a limit of its own.
const bringUpLimit = 5 * time.Minute

// lab is the second process inside: it runs the control plane, the name server, the volumes' provisioner and the nodes.
type lab struct {
	settings
	stderr  io.Writer
	began   time.Time
	server  string // host and port of the API server
	api     kubernetes.Interface
	nodes   []*node
	running sync.WaitGroup // goroutines that end with ctx
}

// RunLab runs the lab until ctx ends.
func RunLab(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := decode(args)
	if err != nil {
		return err
	}
	l := &lab{settings: s, stderr: stderr, began: time.Now()}
	for number := range s.Nodes {
		l.nodes = append(l.nodes, &node{number: number + 1, groups: s.Groups, stderr: stderr})
	}
	defer l.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := makeBridge(); err != nil {
		return fmt.Errorf("make the lab's network: %w", err)
	}
	control, err := l.startControlPlane(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while starting
		}
		return err
	}
	const grace = 30 * time.Second // kubelocal has five components, and a limit for each
	defer control.Stop(grace)
	defer l.stopNodes()
	if err := l.bringUp(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while starting
		}
		return err
	}
	l.progress("ready after %.1f s", time.Since(l.began).Seconds())
	fmt.Fprintln(stdout, "READY")
	select {
	case <-ctx.Done():
		l.progress("stopping")
		return nil
	case <-control.Ended():
		return fmt.Errorf("the control plane ended: %w", control.Err())
	}
}

func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(l.stderr, "nodelocal %s: %s\n", l.Name, fmt.Sprintf(format, args...))
}

// startControlPlane returns once kubelocal says that it is ready.
func (l *lab) startControlPlane(ctx context.Context) (*process.Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := exec.Command(layout.KubelocalDir+"/kubelocal", "start", "--dir", layout.InLab(layout.Cluster), //nolint:noctx // stopped in order
		"--name", l.Name, "--nodes", "0", "--bind", layout.Gateway)
	cmd.Stdout, cmd.Stderr = write, l.stderr
	control, err := process.Start(cmd)
	if closed := write.Close(); err != nil || closed != nil {
		return nil, errors.Join(err, closed)
	}
	stop := context.AfterFunc(ctx, func() { control.Stop(bringUpLimit) })
	line, err := bufio.NewReader(read).ReadString('\n')
	if !stop() || err != nil {
		control.Kill()
		return nil, fmt.Errorf("the control plane did not start: %w", control.Err())
	}
	var name, server, kubeconfig string
	if _, err := fmt.Sscanf(line, "READY name=%s server=%s kubeconfig=%s", &name, &server, &kubeconfig); err != nil {
		control.Kill()
		return nil, fmt.Errorf("kubelocal said %q: %w", line, err)
	}
	if err := l.useControlPlane(server, kubeconfig); err != nil {
		control.Kill()
		return nil, err
	}
	return control, nil
}

// useControlPlane makes the client of the lab, and the kubeconfig of this machine.
func (l *lab) useControlPlane(server, kubeconfig string) error {
	at, err := url.Parse(server)
	if err != nil {
		return err
	}
	l.server = at.Host
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return err
	}
	const manyNodes = 100 // requests a second: nobody else is held up
	config.QPS, config.Burst = manyNodes, manyNodes
	config.ContentConfig = rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf",
		AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}
	if l.api, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	outside := bytes.ReplaceAll(text, []byte(server), fmt.Appendf(nil, "https://127.0.0.1:%d", l.Port))
	return os.WriteFile(layout.InLab(layout.Kubeconfig), outside, 0o600)
}

// bringUp starts what ends with ctx, and returns once all nodes are ready.
func (l *lab) bringUp(ctx context.Context) error {
	if err := l.serve(ctx); err != nil {
		return fmt.Errorf("listen on the lab's socket: %w", err)
	}
	records := informers.NewSharedInformerFactory(l.api, 0)
	server, err := dns.New(records, layout.Gateway)
	if err != nil {
		return err
	}
	provisioner, err := volumes.New(l.api, records, l.stderr)
	if err != nil {
		return err
	}
	l.running.Go(func() { server.Run(ctx) })
	l.running.Go(func() { provisioner.Run(ctx) })
	records.Start(ctx.Done())
	l.running.Go(func() { <-ctx.Done(); records.Shutdown() })

	return l.bringUpNodes(ctx)
}

func (l *lab) bringUpNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bringUpLimit)
	defer cancel()
	if err := errors.Join(dns.Announce(ctx, l.api), volumes.Announce(ctx, l.api)); err != nil {
		return err
	}
	for _, n := range l.nodes {
		if err := errors.Join(n.prepare(l.server), n.boot()); err != nil {
			return fmt.Errorf("start %s: %w", n.name(), err)
		}
	}
	if err := l.routeServices(); err != nil {
		return err
	}
	return l.awaitNodes(ctx)
}

// awaitNodes waits until every node is ready and takes pods.
func (l *lab) awaitNodes(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := l.nodesReady(ctx)
		if err == nil {
			return nil
		}
		for _, n := range l.nodes {
			if dead := n.dead(); dead != nil {
				return fmt.Errorf("%s ended: %w; its logs are in its folder", n.name(), dead)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the nodes: %w; last seen: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (l *lab) nodesReady(ctx context.Context) error {
	list, err := l.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			// A status that an earlier run of the lab left says nothing.
			fresh := !c.LastHeartbeatTime.Time.Before(l.began.Truncate(time.Second))
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && fresh && len(n.Spec.Taints) == 0 {
				ready++
			}
		}
	}
	if ready < len(l.nodes) {
		return fmt.Errorf("%d of %d are ready", ready, len(l.nodes))
	}
	return nil
}

// stopNodes ends all nodes at once.
func (l *lab) stopNodes() {
	var all sync.WaitGroup
	for _, n := range l.nodes {
		all.Go(n.stop)
	}
	all.Wait()
}

// node with a name, or nil.
func (l *lab) node(name string) *node {
	for _, n := range l.nodes {
		if n.name() == name {
			return n
		}
	}
	return nil
}

// routeServices leads Services' addresses to the nodes that run: the kube-proxy of any will do.
func (l *lab) routeServices() error {
	var running []int
	for _, n := range l.nodes {
		if n.runs() {
			running = append(running, n.number)
		}
	}
	return routeServices(running)
}
