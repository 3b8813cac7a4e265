package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/kubectl"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	"fairlead.dev/deploy"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

const (
	// joinTimeout is shorter than a join token's life, so that who waits learns why before a new one is needed.
	joinTimeout = 10 * time.Minute
	// joinPause is between two looks at the hub.
	joinPause = 500 * time.Millisecond
	// undoTimeout bounds the deletion of an agent that did not get through, with its namespace.
	undoTimeout = 3 * time.Minute
)

// agentValues are the flags that say how the agent's chart is filled in.
type agentValues struct {
	image, file string
	bindAdmins  bool
	bind        []string // GROUP=ROLE
}

func (v *agentValues) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.image, "image", "",
		"image of the agent, such as registry.example.com/fairlead/agent:v1.0.0; default: fairlead/agent in the version of the console")
	cmd.Flags().StringVarP(&v.file, "values", "f", "",
		"YAML file with values of the agent's Helm chart (deploy/charts/agent/values.yaml)")
	cmd.Flags().BoolVar(&v.bindAdmins, "bind-admins", false,
		"let the hub's administrators (group fairlead:admins) do everything in the cluster, through the tunnel (value rbac.bindAdmins)")
	cmd.Flags().StringArrayVar(&v.bind, "bind", nil,
		"let a group of people do what a ClusterRole of the cluster says, through the tunnel, as `GROUP=ROLE` such as developers=view; the group as the cluster calls it; may be repeated (value rbac.bind)")
}

func (v *agentValues) readValues() (*structpb.Struct, error) {
	values := map[string]any{}
	if v.file != "" {
		text, err := os.ReadFile(v.file)
		if err != nil {
			return nil, fmt.Errorf("read values: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, &values); err != nil {
			return nil, fmt.Errorf("read values: %s: %w", v.file, err)
		}
	}
	if v.image != "" {
		image, isMap := values["image"].(map[string]any)
		if !isMap {
			image = map[string]any{}
		}
		image["repository"], image["tag"], image["digest"] = splitImage(v.image)
		values["image"] = image
	}
	if err := v.bindTo(values); err != nil {
		return nil, err
	}
	out, err := structpb.NewStruct(values)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	return out, nil
}

// bindTo puts who is bound over the values, besides those that the file binds.
func (v *agentValues) bindTo(values map[string]any) error {
	if !v.bindAdmins && len(v.bind) == 0 {
		return nil
	}
	rbac, isMap := values["rbac"].(map[string]any)
	if !isMap {
		rbac = map[string]any{}
	}
	values["rbac"] = rbac
	if v.bindAdmins {
		rbac["bindAdmins"] = true
	}
	bound, _ := rbac["bind"].([]any)
	for _, text := range v.bind {
		i := strings.LastIndexByte(text, '=') // names of ClusterRoles rarely have one, those of groups in LDAP do
		if i <= 0 || i == len(text)-1 {
			return fmt.Errorf("--bind %q: must be GROUP=ROLE, such as developers=view", text)
		}
		bound = append(bound, map[string]any{"group": text[:i], "role": text[i+1:]})
	}
	if len(bound) > 0 {
		rbac["bind"] = bound
	}
	return nil
}

// splitImage takes repository:tag@digest apart. A port in the registry is no tag.
func splitImage(text string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(text, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	return repository, tag, digest
}

func (v *agentValues) renderManifest(
	ctx context.Context, h *hubclient.Hub, cluster string,
) (*consolev1.RenderAgentManifestResponse, error) {
	values, err := v.readValues()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	res, err := h.Clusters.RenderAgentManifest(ctx, &consolev1.RenderAgentManifestRequest{Cluster: cluster, HubCa: h.Context.CA, Values: values})
	if err != nil {
		return nil, resource.ClusterKind().ExplainMissing(cluster, err)
	}
	return res, nil
}

func clusterManifest(a *app.App) *cobra.Command {
	var values agentValues
	cmd := &cobra.Command{
		Use:   "manifest CLUSTER",
		Short: "Print what brings an agent into a cluster, for kubectl apply",
		Long: `Print the manifest of a cluster's agent, with a fresh join token: a secret until the agent has joined, for 15 minutes.

The console makes it of the agent's Helm chart (deploy/charts/agent), with the hub's URL, its certificate authority and the
tokens. "fairlead cluster join NAME" does the same, and waits for the agent.`,
		Example: "  fairlead cluster manifest edge-1 | kubectl --context edge-1 apply --server-side -f -",
		Args:    app.WantArgs(1, 1),
	}
	values.addFlags(cmd)
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		res, err := values.renderManifest(ctx, h, args[0])
		if err != nil {
			return err
		}
		return a.Printf("%s", res.GetManifest())
	})
	return cmd
}

// joining is one `fairlead cluster join`.
type joining struct {
	app                        *app.App
	values                     agentValues
	kubeconfig, context, write string
	timeout                    time.Duration

	cluster string
	began   time.Time
	id      string // of this run
	made    bool   // the catalog did not have the cluster
	again   bool   // an agent of it has joined before
	marked  bool   // the cluster's label joiningLabel has the id
	etag    string // of the cluster as it was made

	manifest []byte // the manifest that was applied or written; nil: none was
	clean    bool   // the cluster had nothing of it before
	file     string // the file that was written; empty: none was
	waits    bool   // the wait has begun: an interrupt ends that only
	halfway  bool   // the agent has a credential of its own, and goes on by itself
}

func clusterJoin(a *app.App) *cobra.Command {
	j := joining{app: a}
	cmd := &cobra.Command{
		Use:   "join CLUSTER",
		Short: "Bring an agent into a cluster, and wait until it works",
		Long: `Bring an agent into a cluster, and wait until the agent has reached the hub, people reach the cluster through the tunnel,
and the first sync is done. A cluster that the catalog does not have is made.

With --kubeconfig or --context (of the kubeconfig, not of this command) kubectl applies the agent's manifest. Without them
the manifest goes to a file, and the command prints the line that applies it: run that line where the cluster can be
reached, while this command waits.

A join that fails before the agent has reached the hub leaves nothing: the applied objects are deleted, unless the cluster
had an agent before, and so is the cluster's entry in the catalog if this command made it. Objects that another join of the
cluster has taken over meanwhile stay, and nothing is undone if the hub can't say whether the agent has reached it. Ctrl-C
before the wait is a failure, too; during the wait it ends the wait only.

People have the rights in the cluster that its RBAC gives their groups: --bind-admins and --bind give the first ones. A
later join without one of them deletes that binding.`,
		Example: "  fairlead cluster join edge-1 --context edge-1 --bind-admins --bind developers=view\n  fairlead cluster join edge-1",
		Args:    app.WantArgs(1, 1),
	}
	f := cmd.Flags()
	j.values.addFlags(cmd)
	f.StringVar(&j.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster; default with --context: as kubectl finds it")
	f.StringVar(&j.context, "context", "", "context of the kubeconfig; default with --kubeconfig: its current one")
	f.StringVarP(&j.write, "output-file", "o", "",
		"file for the manifest, without --kubeconfig and --context; default: fairlead-agent-NAME.yaml")
	f.DurationVar(&j.timeout, "timeout", joinTimeout, "how long to wait for the agent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if j.write != "" && j.appliesManifest() {
			return errors.New("--output-file goes with neither --kubeconfig nor --context: those apply the manifest at once")
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			j.cluster, j.began, j.id = args[0], a.Now(), strings.ToLower(rand.Text())
			return j.run(ctx, h)
		})(cmd, args)
	}
	return cmd
}

func (j *joining) appliesManifest() bool { return j.kubeconfig != "" || j.context != "" }

func (j *joining) run(ctx context.Context, h *hubclient.Hub) error {
	before, err := j.readStatus(ctx, h)
	if err != nil {
		return err
	}
	if before.GetConnected() && !view.IsSet(before.GetLeaveTime()) {
		return fmt.Errorf("cluster %s has an agent, and it is connected: see `fairlead get cluster %s`. If another is to take its place, first `fairlead cluster leave %s`", j.cluster, j.cluster, j.cluster)
	}
	j.again = view.IsSet(before.GetJoinTime())
	err = j.attemptJoin(ctx, h, before.GetJoinTime())
	after := context.WithoutCancel(ctx)
	if err == nil || j.halfway || j.waits && ctx.Err() != nil {
		return errors.Join(err, j.unmarkCluster(after, h))
	}
	if stays := j.mayHaveJoined(after, h, before.GetJoinTime()); stays != nil {
		return errors.Join(err, stays, j.unmarkCluster(after, h))
	}
	return errors.Join(err, j.undoJoin(after, h))
}

// attemptJoin brings the agent in and waits for it.
func (j *joining) attemptJoin(ctx context.Context, h *hubclient.Hub, before *timestamppb.Timestamp) error {
	res, err := j.values.renderManifest(ctx, h, j.cluster)
	if err != nil {
		return err
	}
	if err := j.bringManifest(ctx, []byte(res.GetManifest()), res.GetExpireTime().AsTime()); err != nil {
		return err
	}
	return j.awaitMilestones(ctx, h, before)
}

// bringManifest gets the manifest into the cluster, or says how.
func (j *joining) bringManifest(ctx context.Context, manifest []byte, expire time.Time) error {
	if j.appliesManifest() {
		before, err := j.runKubectl(ctx, manifest, kubectl.Timeout, "get", "--ignore-not-found", "-o", "name", "-f", "-")
		if err != nil {
			return fmt.Errorf("look for an agent in the cluster: %w", err)
		}
		j.clean, j.manifest = strings.TrimSpace(before) == "", manifest
		out, err := j.runKubectl(ctx, manifest, kubectl.Timeout, "apply", "--server-side", "--field-manager=fairlead-join", "--force-conflicts", "-f", "-")
		if err != nil {
			return fmt.Errorf("apply the agent's manifest: %w", err)
		}
		gone, err := j.deleteBindings(ctx)
		if err != nil {
			return fmt.Errorf("delete bindings that were given before: %w", err)
		}
		return j.app.Printf("%s%s", out, gone)
	}
	if j.write == "" {
		j.write = "fairlead-agent-" + j.cluster + ".yaml"
	}
	if err := durable.WriteFile(j.write, manifest, 0o600); err != nil {
		return fmt.Errorf("write the agent's manifest: %w", err)
	}
	j.file, j.manifest = j.write, manifest
	left := expire.Sub(j.app.Now()).Round(time.Minute)
	j.app.Notef("Run this where cluster %s can be reached, within %.0f minutes:\n\n", j.cluster, left.Minutes())
	if err := j.app.Printf("kubectl apply --server-side -f %s\n", j.write); err != nil {
		return err
	}
	if j.again { // with bindings that this manifest may lack
		if err := j.app.Printf("%s\n", strings.Join(unbindLines(manifest), "\n")); err != nil {
			return err
		}
	}
	j.app.Notef("\nThe file holds a join token: remove it afterwards. Waiting for the agent; Ctrl-C ends the wait only.\n")
	return nil
}

// runKubectl runs kubectl at the cluster that joins.
func (j *joining) runKubectl(ctx context.Context, stdin []byte, limit time.Duration, args ...string) (string, error) {
	program, err := kubectl.Find()
	if err != nil {
		return "", err
	}
	if j.kubeconfig != "" {
		args = append(args, "--kubeconfig", j.kubeconfig)
	}
	if j.context != "" {
		args = append(args, "--context", j.context)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", args[0], err, bytes.TrimSpace(append(out.Bytes(), said.Bytes()...)))
	}
	j.app.Notef("%s", said.String()) // warnings
	return out.String(), nil
}

// progress is what is known of the agent's way in.
type progress struct {
	status *consolev1.ClusterStatus
	// tunnel is a session of the cluster; problem is why they are not known.
	tunnel  *tunnelv1.Session
	problem error
}

// milestone is a step on the way in.
type milestone struct {
	name string
	// reached says it in words, or "" while it is not reached.
	reached func(progress) string
	// stuck is why it may not be.
	stuck string
}

func listMilestones(before *timestamppb.Timestamp) []milestone {
	joined := func(p progress) bool {
		at := p.status.GetJoinTime()
		return view.IsSet(at) && !at.AsTime().Equal(before.AsTime())
	}
	return []milestone{
		{"reached the hub", func(p progress) string {
			if !joined(p) {
				return ""
			}
			return "it has a credential of its own"
		}, "the agent does not run, or does not reach the console"},
		{"tunnel up", func(p progress) string {
			if !joined(p) || p.tunnel == nil {
				return ""
			}
			return strings.TrimSpace("by " + p.tunnel.GetCarrier())
		}, "the agent does not reach the tunnels (--advertise-tunnels of the console)"},
		{"first sync", func(p progress) string {
			if !joined(p) || !p.status.GetConnected() || p.status.GetAgentVersion() == "" {
				return ""
			}
			text := "agent " + p.status.GetAgentVersion()
			if v := p.status.GetKubernetesVersion(); v != "" {
				text += ", Kubernetes " + v
			}
			return text
		}, "the agent does not reach the distributors (--advertise-distributors of the console), or can't read the cluster"},
	}
}

// awaitMilestones prints what works as soon as it does.
func (j *joining) awaitMilestones(ctx context.Context, h *hubclient.Hub, before *timestamppb.Timestamp) error {
	j.waits = true
	ctx, cancel := context.WithTimeoutCause(ctx, j.timeout, errLate)
	defer cancel()
	left := listMilestones(before)
	var last progress
	for {
		if p, err := j.readProgress(ctx, h); err == nil {
			last = p
		} else if ctx.Err() == nil {
			last.problem = err
		}
		var err error
		left = slices.DeleteFunc(left, func(m milestone) bool {
			text := m.reached(last)
			if text == "" || err != nil {
				return false
			}
			j.halfway = true
			after := j.app.Now().Sub(j.began).Round(100 * time.Millisecond)
			err = j.app.Printf("ok    %s: %s (after %s)\n", m.name, table.CleanLine(text), after)
			return true
		})
		if err != nil {
			return err
		}
		if len(left) == 0 {
			j.app.Notef("Cluster %s has joined. Next: fairlead kubectl %s -- get nodes\n", j.cluster, j.cluster)
			return nil
		}
		if !retry.Sleep(ctx, joinPause) {
			return j.gaveUp(ctx, left[0], last)
		}
	}
}

// errLate ends the wait.
var errLate = errors.New("the time to wait is over")

func (j *joining) readProgress(ctx context.Context, h *hubclient.Hub) (progress, error) {
	call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	got, err := h.Clusters.GetCluster(call, &consolev1.GetClusterRequest{Name: j.cluster})
	if err != nil {
		return progress{}, err
	}
	p := progress{status: got.GetCluster().GetStatus()}
	sessions, err := j.app.ListSessions(ctx, h)
	p.problem = err
	if i := slices.IndexFunc(sessions, func(s *tunnelv1.Session) bool { return s.GetCluster() == j.cluster }); i >= 0 {
		p.tunnel = sessions[i]
	}
	return p, nil
}

// gaveUp says what the agent did not get to, and what is known of it.
func (j *joining) gaveUp(ctx context.Context, m milestone, last progress) error {
	if !errors.Is(context.Cause(ctx), errLate) {
		return fmt.Errorf("interrupted; the agent joins all the same: see `fairlead get cluster %s`", j.cluster)
	}
	text := fmt.Sprintf("cluster %s after %s: no %q: %s", j.cluster, j.timeout, m.name, m.stuck)
	if last.problem != nil {
		text += fmt.Sprintf(" (and the hub can't say: %v)", last.problem)
	}
	if !j.appliesManifest() {
		return fmt.Errorf("%s. Look at it with `kubectl -n %s get pods` and `kubectl -n %s logs statefulset/fairlead-agent`", text, deploy.Namespace, deploy.Namespace)
	}
	about := context.WithoutCancel(ctx)
	for _, args := range [][]string{
		{"get", "pods", "-n", deploy.Namespace, "-l", "app.kubernetes.io/component=agent"},
		{"logs", "-n", deploy.Namespace, "statefulset/fairlead-agent", "--tail=5"},
	} {
		out, err := j.runKubectl(about, nil, kubectl.Timeout, args...)
		if err != nil {
			out = err.Error()
		}
		text += "\n\n" + "kubectl " + strings.Join(args, " ") + "\n" + strings.TrimSpace(out)
	}
	return errors.New(text)
}
