package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/bundle"
	"fairlead.dev/cli/internal/event"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/deploy"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/version"
)

const (
	// bundleEvents of the newest, and bundleLines of the end of each container's log, are in a bundle.
	bundleEvents, bundleLines = 2000, 20_000
	// bundleClusters bounds how many clusters are looked into, unless they are named.
	bundleClusters = 5
	// profileRetry is between two tries for a profile while another one is made; one caller at a time gets one.
	profileRetry, profileTries = time.Second, 40
)

func debugCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "debug", Short: "Gather what helps to find a fault"}
	cmd.AddCommand(debugBundle(a))
	return cmd
}

// bundling is one `fairlead debug bundle`.
type bundling struct {
	app                                     *app.App
	out, kubeconfig, kubeContext, namespace string
	clusters, logs                          []string
	cpu                                     time.Duration

	bundle *bundle.Bundle
}

func debugBundle(a *app.App) *cobra.Command {
	b := bundling{app: a}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write an archive with versions, states, logs, metrics and profiles of all parts",
		Long: `Write an archive that another person can look into without access to the installation: what "fairlead check" finds, the
resources with their states, events, and of each service of the hub its version, readiness, the end of its log, metrics and profiles.
Of connected clusters the agent's pods, logs, metrics and profiles are read through the tunnel, the last two by kubectl exec. With --kubeconfig or --kube-context, also the pods, events and logs
of all replicas of the hub, as kubectl sees them.

Secrets are masked: the tokens of this command, values by the name that they have (password, token, ...), and what is known by its form,
such as private keys, passwords in URLs, and tokens of Fairlead, Git hosts and Vault. Kubernetes Secrets are not read. Look into the archive
before you hand it on: names of clusters, repositories and people are in it.

Logs and profiles are for administrators. The file missing.txt names what could not be gathered; the command goes on without it.`,
		Example: `  fairlead debug bundle
  fairlead debug bundle --kube-context hub --namespace fairlead --cluster edge-1
  fairlead debug bundle --log ~/.local/share/fairlead/logs/agent-local-a.log`,
		Args: app.WantArgs(0, 0),
	}
	f := cmd.Flags()
	f.StringVarP(&b.out, "output-file", "o", "", "the archive; default: fairlead-debug-TIME.tar.gz in this folder")
	f.StringVar(&b.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster that the hub runs in; default with --kube-context: as kubectl finds it")
	f.StringVar(&b.kubeContext, "kube-context", "",
		"context of that kubeconfig; default with --kubeconfig: its current one")
	f.StringVarP(&b.namespace, "namespace", "n", "fairlead", "namespace of the hub in that cluster")
	f.StringArrayVar(&b.clusters, "cluster", nil,
		fmt.Sprintf("look into this cluster through the tunnel; may be repeated; default: the first %d that are connected", bundleClusters))
	f.StringArrayVar(&b.logs, "log", nil,
		"add this log file, such as that of an agent outside of Kubernetes; may be repeated")
	f.DurationVar(&b.cpu, "cpu", 3*time.Second, "profile each service's processor for so long; 0: not at all")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error { return b.run(ctx, h) })
	return cmd
}

func (b *bundling) run(ctx context.Context, h *hubclient.Hub) error {
	if b.out == "" {
		b.out = "fairlead-debug-" + b.app.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	made, err := bundle.Create(b.out, bundle.NewMasker(h.Context.Token, b.app.Getenv("FAIRLEAD_TOKEN")), b.app.Now())
	if err != nil {
		return err
	}
	b.bundle = made
	if err := b.gatherAll(ctx, h); err != nil {
		made.Abandon()
		return err
	}
	if err := made.Close(); err != nil {
		made.Abandon()
		return err
	}
	for _, p := range made.Problems {
		b.app.Notef("missing: %s\n", p)
	}
	b.app.Notef("Secrets are masked, names are not: look into it before you hand it on.\n")
	return b.app.Printf("%s\n", b.out)
}

// gatherAll returns errors of writing and of ctx only: what can't be had is noted as missing.
func (b *bundling) gatherAll(ctx context.Context, h *hubclient.Hub) error {
	for _, step := range []func(context.Context, *hubclient.Hub) error{
		b.addVersions, b.addResources, b.addEvents, b.addServices, b.addInstallation, b.addAgents, b.addFiles,
	} {
		if err := errors.Join(step(ctx, h), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// addText adds a text, or notes why it is missing.
func (b *bundling) addText(name string, text []byte, err error) error {
	if err != nil {
		b.bundle.NoteMissing(name, err)
	}
	if len(text) == 0 {
		return nil
	}
	return b.bundle.AddText(name, text)
}

func (b *bundling) addVersions(ctx context.Context, h *hubclient.Hub) error {
	text := fmt.Sprintf("fairlead debug bundle of %s\nhub %s, as %s\ncommand %s\n",
		b.app.Now().UTC().Format(time.RFC3339), h.Context.URL, h.Context.User, version.String())
	if err := b.addText("about.txt", []byte(text), nil); err != nil {
		return err
	}
	var said bytes.Buffer
	checking := app.App{IO: b.app.IO}
	checking.Stdout = &said
	if err := runChecks(ctx, &checking, h); err != nil {
		fmt.Fprintln(&said, err)
	}
	return b.addText("check.txt", said.Bytes(), nil)
}

// addResources adds all but Secrets, of which only names would be there.
func (b *bundling) addResources(ctx context.Context, h *hubclient.Hub) error {
	for _, k := range resource.ListKinds() {
		if k.ID == catalogyaml.Secret {
			continue
		}
		found, err := k.ReadAll(ctx, h)
		var text []byte
		if err == nil {
			for _, m := range found {
				if s, ok := m.(*consolev1.Service); ok {
					resource.OfFiles(s)
				}
			}
			text, err = catalogyaml.YAML(found...)
		}
		if err := b.addText("resources/"+k.Plural()+".yaml", text, err); err != nil {
			return err
		}
	}
	sessions, err := b.app.ListSessions(ctx, h)
	var text []byte
	for _, s := range sessions {
		line, failed := app.JSONLine(s)
		err = errors.Join(err, failed)
		text = append(text, line+"\n"...)
	}
	return b.addText("resources/sessions.jsonl", text, err)
}

func (b *bundling) addEvents(ctx context.Context, h *hubclient.Hub) error {
	list, _, err := event.List(ctx, h, event.Query{Limit: bundleEvents})
	var text []byte
	for _, e := range list {
		text = append(text, event.HappenedLine(e)+"\n"...)
	}
	return b.addText("events.txt", text, err)
}

// addServices asks services one after the other: they may share a process, which makes one profile at a time.
func (b *bundling) addServices(ctx context.Context, h *hubclient.Hub) error {
	for _, group := range []struct {
		name string
		urls []string
	}{
		{"console", []string{h.Context.URL}},
		{"gitcache", h.Context.Endpoints.Gitcaches},
		{"distributor", h.Context.Endpoints.Distributors},
		{"tunnel", h.Context.Endpoints.Tunnels},
	} {
		for i, url := range group.urls {
			folder := "hub/" + group.name
			if i > 0 {
				folder += "-" + strconv.Itoa(i+1)
			}
			if err := b.addService(ctx, h, folder, url); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is what a program tells of itself.
type part struct {
	name, path string
	profile    bool
	limit      time.Duration // how long making it takes
}

// profiles are metrics and profiles, which all programs have.
func (b *bundling) profiles() []part {
	list := []part{
		{"metrics.txt", "/metrics", false, 0},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=1", false, 0},
		{"heap.pb.gz", "/debug/pprof/heap", true, 0},
		{"allocs.pb.gz", "/debug/pprof/allocs", true, 0},
		{"mutex.pb.gz", "/debug/pprof/mutex", true, 0},
	}
	if b.cpu >= time.Second {
		list = append(list, part{
			"cpu.pb.gz", fmt.Sprintf("/debug/pprof/cpu?seconds=%.0f", b.cpu.Seconds()), true, b.cpu,
		})
	}
	return list
}

func (b *bundling) addService(ctx context.Context, h *hubclient.Hub, folder, url string) error {
	for _, p := range append([]part{
		{"version.json", "/version", false, 0},
		{"ready.txt", "/readyz", false, 0},
		{"log.txt", "/debug/log", false, 0},
	}, b.profiles()...) {
		content, err := b.readURL(ctx, h, url+p.path, hubclient.CallTimeout+p.limit)
		if err := b.addPart(folder+"/"+p.name, p, content, err); err != nil {
			return err
		}
	}
	return nil
}

func (b *bundling) addPart(name string, p part, content []byte, err error) error {
	if err == nil && p.profile {
		return b.bundle.AddProfile(name, content)
	}
	return b.addText(name, content, err)
}

// readURL asks a service for something, again while it is busy with another profile.
func (b *bundling) readURL(ctx context.Context, h *hubclient.Hub, url string, limit time.Duration) ([]byte, error) {
	for try := 1; ; try++ {
		status, content, err := readAll(ctx, h.HTTP, url, limit)
		switch {
		case err != nil:
			return nil, errors.New(hubclient.ExplainUnreachable(url, err))
		case status == http.StatusTooManyRequests && try < profileTries:
			if !retry.Sleep(ctx, profileRetry) {
				return nil, ctx.Err()
			}
			continue
		case status != http.StatusOK && !strings.HasSuffix(url, "/readyz"):
			return nil, fmt.Errorf("%d %s", status, bytes.TrimSpace(content[:min(len(content), probe.MaxAnswerBytes)]))
		}
		return content, nil
	}
}

func readAll(
	ctx context.Context, hc *http.Client, url string, limit time.Duration,
) (status int, content []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	content, err = io.ReadAll(io.LimitReader(resp.Body, 2*bundle.MaxFile))
	return resp.StatusCode, content, err
}

// addInstallation adds what kubectl sees of the hub's own pods.
func (b *bundling) addInstallation(ctx context.Context, _ *hubclient.Hub) error {
	if b.kubeconfig == "" && b.kubeContext == "" {
		return nil
	}
	var at []string
	if b.kubeconfig != "" {
		at = append(at, "--kubeconfig="+b.kubeconfig)
	}
	if b.kubeContext != "" {
		at = append(at, "--context="+b.kubeContext)
	}
	return b.addPods(ctx, "installation", b.namespace, at)
}

// addAgents asks agents through the tunnel, with the caller's rights.
func (b *bundling) addAgents(ctx context.Context, h *hubclient.Hub) error {
	clusters := b.clusters
	if len(clusters) == 0 {
		all, err := resource.ClusterKind().ReadAll(ctx, h)
		if err != nil {
			b.bundle.NoteMissing("clusters", err)
		}
		for _, m := range all {
			if c := m.(*consolev1.Cluster); c.GetStatus().GetConnected() && len(clusters) < bundleClusters {
				clusters = append(clusters, c.GetMetadata().GetName())
			}
		}
	}
	for _, cluster := range clusters {
		file, err := b.temporaryKubeconfig(ctx, h, cluster)
		if err != nil {
			b.bundle.NoteMissing("clusters/"+cluster, err)
			continue
		}
		err = b.addPods(ctx, "clusters/"+cluster, deploy.Namespace, []string{"--kubeconfig=" + file})
		if err := errors.Join(err, os.RemoveAll(filepath.Dir(file))); err != nil {
			return err
		}
	}
	return nil
}

func (b *bundling) temporaryKubeconfig(ctx context.Context, h *hubclient.Hub, cluster string) (string, error) {
	dir, err := os.MkdirTemp("", "fairlead-debug-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := kubectl.WriteKubeconfig(ctx, b.app, h, cluster, file); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return file, nil
}

// addPods gathers what a namespace has of ours: states, events, and the logs of containers, also of those that ended
// before.
func (b *bundling) addPods(ctx context.Context, folder, namespace string, at []string) error {
	kubectl := func(args ...string) ([]byte, error) {
		return runKubectlAt(ctx, at, append([]string{"--namespace=" + namespace}, args...)...)
	}
	for _, part := range []struct {
		name string
		args []string
	}{
		{"pods.txt", []string{"get", "pods,services,statefulsets,deployments,daemonsets,persistentvolumeclaims,horizontalpodautoscalers,networkpolicies", "--output=wide"}},
		{"describe.txt", []string{"describe", "pods,persistentvolumeclaims"}},
		{"events.txt", []string{"get", "events", "--sort-by=.lastTimestamp"}},
	} {
		text, err := kubectl(part.args...)
		if err := b.addText(folder+"/"+part.name, text, err); err != nil {
			return err
		}
	}
	list, err := kubectl("get", "pods", "--output=json")
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				ContainerStatuses []struct {
					Name         string
					RestartCount int
				}
			}
			Spec struct {
				Containers []struct {
					Name string
					Args []string
				}
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(list, &pods)
	}
	if err == nil && len(pods.Items) == 0 {
		err = fmt.Errorf("there are no pods in namespace %s", namespace)
	}
	if err != nil {
		b.bundle.NoteMissing(folder+"/logs", err)
		return nil
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Spec.Containers {
			if err := b.addAgent(folder+"/"+pod.Metadata.Name, pod.Metadata.Name, c.Name, c.Args, kubectl); err != nil {
				return err
			}
		}
		for _, c := range pod.Status.ContainerStatuses {
			for _, run := range []string{"", "previous"} {
				if run == "previous" && c.RestartCount == 0 {
					continue
				}
				args := []string{"logs", pod.Metadata.Name, "--container=" + c.Name, "--timestamps", "--tail=" +
					strconv.Itoa(bundleLines), "--limit-bytes=" + strconv.Itoa(bundle.MaxFile)}
				name := folder + "/logs/" + pod.Metadata.Name + "." + c.Name
				if run != "" {
					args, name = append(args, "--previous"), name+".previous"
				}
				text, err := kubectl(args...)
				if err := b.addText(name+".log", text, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// addAgent adds metrics and profiles of an agent, which the agent's own program asks for in its container.
func (b *bundling) addAgent(
	folder, pod, container string, args []string, kubectl func(...string) ([]byte, error),
) error {
	at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--data-dir=") })
	if container != "agent" || at < 0 {
		return nil
	}
	for _, part := range b.profiles() {
		content, err := kubectl("exec", pod, "--container="+container, "--", "/agent", "debug", args[at], part.path)
		if err := b.addPart(folder+"/"+part.name, part, content, err); err != nil {
			return err
		}
	}
	return nil
}

func runKubectlAt(ctx context.Context, at []string, args ...string) ([]byte, error) {
	program, err := kubectl.Find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, kubectl.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, slices.Concat(at, args)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// addFiles adds logs that the person names.
func (b *bundling) addFiles(context.Context, *hubclient.Hub) error {
	for i, name := range b.logs {
		text, err := os.ReadFile(name)
		if err := b.addText(fmt.Sprintf("logs/%d-%s", i+1, filepath.Base(name)), text, err); err != nil {
			return err
		}
	}
	return nil
}
