// Package up is `fairlead up`: the whole product on one machine. The hub's four services run in this process,
// as they are deployed otherwise, but over in-memory coordination, SQLite and local disk; beside it run a
// Git server with a sample repository, two local Kubernetes clusters (or the user's own), and an agent
// for each, as processes of their own.
//
// Everything it keeps is in one folder, held by one process at a time. The processes that it starts end with it,
// however it ends (on other systems than Linux: unless it is killed). The command serves other machines only with a
// certificate that was made for that.
package up

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/platform/gitserver"
	"fairlead.dev/platform/telemetry"
)

const (
	loopback = "127.0.0.1"
	// contextName is that of the hub here. One that runs beside another has its port behind it.
	contextName = "local"
	// connectLimit bounds the wait for the agents. The agents go on by themselves after it.
	connectLimit = time.Minute
	// otherLimit bounds the question whether another hub runs, mostly one on this machine.
	otherLimit = 2 * time.Second
	// pushBacklog of repositories that were pushed to and not passed on yet; more are the same ones again.
	pushBacklog = 16
)

//go:embed all:sample
var sampleFiles embed.FS

// Sample is the repository that there is something to see in.
func Sample() (fs.FS, error) { return fs.Sub(sampleFiles, "sample") }

// Options is what a person may choose.
type Options struct {
	DataDir       string
	ListenHost    string
	AdvertiseHost string // Empty: ListenHost.
	CertFile      string
	KeyFile       string
	CAFile        string // Authority of CertFile; empty: one that the system trusts.
	PortBase      int
	Kubelocal     string // Path of the binary; empty: look for it.
	Prepare       string // Program that builds what clusters and agents need while the hub is up already; empty: all is there.
	Nodelocal     string // Path of the binary; empty, or not there: pods of the local clusters are pretended.
	Agent         string // Path of the binary; empty: look for it.
	NoClusters    bool   // Only the hub and the Git server.
	Kubeconfig    string // With Contexts: the user's own clusters.
	Contexts      []string
	BindAdmins    bool
	Exec          bool // kubectl exec into pods of the local clusters runs commands on this machine
	Empty         bool
	ReadyFile     string
	LogLevel      slog.Level
	// AllowAddresses are ranges that Git hosts, sinks and backends may have besides public addresses and this machine.
	AllowAddresses []string

	User   string          // Of the local context.
	Store  *contexts.Store // Of the CLI's contexts.
	Stdout io.Writer       // Gets the summary.
	Stderr io.Writer       // Gets the progress.
}

// up is one run.
type up struct {
	options Options
	began   time.Time
	data    *dataDir
	git     *gitserver.Server
	hub     *hub
	pushes  chan string
	context string // Name of the hub's context; set when the hub is ready.
	link    string // Link that logs a person in, once.

	pretended string // Why no local cluster has a real node; empty: one has.

	children *children // The clusters.
	agents   *children

	mu sync.Mutex // Guards the writing of progress.
}

// Run runs everything until ctx ends, and then ends everything.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.completeOptions(); err != nil {
		return err
	}
	clusters, err := o.planClusters()
	if err != nil {
		return err
	}
	if err := o.findPrograms(clusters); err != nil {
		return err
	}
	data, err := openDataDir(o.DataDir, o.Empty)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.releaseLock()) }()
	// A program that waits for the ready file must not find that of an earlier run, nor that of one that has ended.
	if err := clearReadyFile(o.ReadyFile); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	defer func() { err = errors.Join(err, removeFile(o.ReadyFile)) }()
	logs, err := data.openLog("hub")
	if err != nil {
		return err
	}
	defer logs.Close()
	u := &up{options: o, began: time.Now(), data: data, pushes: make(chan string, pushBacklog)}
	if err := u.run(ctx, clusters, logs); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // The end was asked for on the way up.
		}
		return err
	}
	return nil
}

// clearReadyFile removes the file of an earlier run, and makes its folder: at the end of the way up it is late to fail.
func clearReadyFile(name string) error {
	if name == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return removeFile(name)
}

func removeFile(name string) error {
	if name == "" {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// completeOptions checks the options and fills in what was left out.
func (o *Options) completeOptions() error {
	var err error
	if o.DataDir, err = filepath.Abs(o.DataDir); err != nil {
		return err
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("--tls-cert and --tls-key are needed together")
	}
	ip := net.ParseIP(o.ListenHost)
	if ip == nil {
		return fmt.Errorf("--listen-host %q: must be an IP address", o.ListenHost)
	}
	if !ip.IsLoopback() && o.CertFile == "" {
		return fmt.Errorf("--listen-host %s can be reached from other machines: give --tls-cert and --tls-key of a certificate for --advertise-host, so that they can tell this hub from another; or leave it at %s", o.ListenHost, loopback)
	}
	if o.AdvertiseHost == "" {
		if ip.IsUnspecified() {
			return fmt.Errorf("--listen-host %s is no address to reach: give --advertise-host, the name in the certificate", o.ListenHost)
		}
		o.AdvertiseHost = o.ListenHost
	}
	return nil
}

// findPrograms finds what is run beside the hub, before anything is started.
func (o *Options) findPrograms(clusters []cluster) (err error) {
	if len(clusters) == 0 || o.preparesClusters(clusters) {
		return nil
	}
	if o.Agent, err = findProgram("agent", o.Agent, "--agent"); err != nil {
		return err
	}
	o.Kubelocal, err = findProgram("kubelocal", o.Kubelocal, "--kubelocal")
	if err != nil && clusters[0].local {
		return fmt.Errorf("%w. `make up` builds it; or use clusters of your own with --kubeconfig and --context", err)
	}
	if err != nil {
		o.Kubelocal = "" // The user's kubectl does.
	}
	return nil
}

// preparesClusters tells whether the clusters wait for a program that builds what they need.
func (o *Options) preparesClusters(clusters []cluster) bool {
	return o.Prepare != "" && len(clusters) > 0
}

// findProgram looks where the person says, beside this program, and in PATH.
func findProgram(name, given, flag string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", flag, given, err)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %q is neither beside this one nor in PATH: give its path in %s", name, flag)
	}
	return filepath.Abs(path)
}

func (u *up) sayf(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.options.Stderr, "%6.1fs  %s\n", time.Since(u.began).Seconds(), fmt.Sprintf(format, args...))
}

// run starts everything, waits, and ends everything in order: agents, hub, Git server, clusters.
func (u *up) run(ctx context.Context, clusters []cluster, logs io.Writer) (err error) {
	if err := u.settlePorts(ctx); err != nil {
		return err
	}
	u.sayf("data in %s", u.data.path)
	if !u.options.preparesClusters(clusters) {
		u.planNodes(ctx, clusters)
	}
	u.children, u.agents = newChildren(u.data, u.sayf), newChildren(u.data, u.sayf)
	defer u.children.stopAll()
	if err := u.startGit(ctx, logs); err != nil {
		return errors.Join(err, ctx.Err())
	}
	if u.hub, err = newHub(ctx, u.options, u.data, logs); err != nil {
		return errors.Join(err, u.git.Close())
	}
	// From here on the services run; they end when inner does.
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	running, failed := errgroup.WithContext(inner)
	running.Go(func() error { return u.git.Run(inner) })
	running.Go(func() error { return u.hub.run(inner) })

	err = u.serveClusters(ctx, failed, clusters)
	u.sayf("stopping")
	u.agents.stopAll()
	end()
	return errors.Join(err, running.Wait())
}

// settlePorts chooses the ports. Agents that know the hub by other ports have to join again, also if this run ends
// before it starts them.
func (u *up) settlePorts(ctx context.Context) error {
	last := u.data.state.Ports
	chosen, err := choosePorts(ctx, u.options.PortBase, u.options.ListenHost, last)
	if err != nil {
		return err
	}
	if last != chosen {
		if err := u.data.forgetMemberships(); err != nil {
			return err
		}
	}
	u.data.state.Ports = chosen
	return u.data.saveState()
}

func (u *up) startGit(ctx context.Context, logs io.Writer) (err error) {
	u.git, err = gitserver.New(gitserver.Config{
		Dir: u.data.joinPath("git"), Listen: hostPort(loopback, u.data.state.Ports.Git),
		Log:          telemetry.NewLogger(logs, u.options.LogLevel, telemetry.FormatText, "git"),
		CreateOnPush: true,
		AfterPush: func(name string) {
			select {
			case u.pushes <- name:
			default: // As many are waiting already as there are repositories.
			}
		},
	})
	if err != nil {
		return err
	}
	files, err := Sample()
	if err != nil {
		return err
	}
	if err := u.git.Create(ctx, sampleName, files); err != nil {
		return err
	}
	return u.git.Listen()
}
