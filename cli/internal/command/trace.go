package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/manifest"
)

func (a *app) traceCommand() *cobra.Command {
	var format string
	var o tracedObject
	var watch bool
	cmd := &cobra.Command{
		Use:   "trace service|globalservice NAME",
		Short: "Follow a service from its commit in Git to its objects in the cluster",
		Long: `Follow a service from its commit in Git to its objects in the cluster.

Each step says how it is (ok, wait, stale, held, FAIL, or ? where nobody knows) and how old that is: SOURCE, who polls the
repository and when; COMMIT, what the ref points to (CHART, which version was chosen; ARTIFACT, what a registry has; CONTENT, of a bucket); LEVERS, where there are any: who holds, pins or rolled back, why, since when and until
when; HUB, what is handed out; DELIVERY, whether the cluster's
agent asks; CLUSTER, what it applied and how the objects are; TESTS, how their latest run went, if there was one. The last line says where the service stands, and
what to do next.

It works with parts of the hub down, and says which did not answer. Only the console must be there.

Of a global service it says where each of its services stands, and what to do next.

With a kind of Kubernetes it goes the other way: from an object in a cluster back to its service, the commit and its author. A Pod, ReplicaSet or Job
is followed to what made it, through the tunnel. --cluster and --namespace say which object, where several have the name.`,
		Example: `  fairlead trace service shop
  fairlead trace deployment/web -n shop --cluster edge-1
  fairlead trace service shop --watch
  fairlead trace service shop -o json
  fairlead trace globalservice logs`,
		Args: wantArgs(1, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "form of the output: table, json or yaml")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes, until interrupted")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "of an object: the namespace that it is in")
	cmd.Flags().StringVarP(&o.cluster, "cluster", "c", "", "of an object: the cluster that it is in")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.takeName(args) {
			return a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error { return a.traceObject(ctx, h, o, format) })(cmd, nil)
		}
		if len(args) < 2 {
			return usageError(cmd)
		}
		k, err := findKind(args[0])
		if err != nil || k.kind != manifest.Service && k.kind != manifest.Global {
			return fmt.Errorf("only services and global services can be traced, not %q: see `fairlead trace --help`", args[0])
		}
		if err := checkPlainFormat(format); err != nil {
			return err
		}
		if k.kind == manifest.Global {
			if format != formatTable {
				return errors.New("of a global service the trace is for people: leave out -o, or trace its services one by one")
			}
			return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error { return a.traceGlobal(ctx, h, args[0]) })(cmd, args[1:])
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			if watch {
				return a.repeatText(ctx, format, func(ctx context.Context) (string, error) {
					t, err := a.followService(ctx, h, args[0])
					if err != nil {
						return "", err
					}
					return t.renderText(t.listSteps()), nil
				})
			}
			t, err := a.followService(ctx, h, args[0])
			if err != nil {
				return err
			}
			return a.showTrail(t, format)
		})(cmd, args[1:])
	}
	return cmd
}

// trail is what is known of a service. Fields that no part of the hub reported are nil.
type trail struct {
	view
	service *consolev1.Service
	source  *consolev1.Source
	cluster *consolev1.Cluster
	live    *gitcachev1.LiveSource // of the source, from the gitcaches
	// Why there is no answer; empty: there is one.
	noSource, noCluster, noLive string
	// The faults of distributors, each with its name; and whether none is ready.
	distributors   []string
	noDistributors bool
}

// followService asks the console for the service, and then everybody at once for the rest.
func (a *app) followService(ctx context.Context, h *hub.Hub, name string) (*trail, error) {
	m, err := serviceKind().readOne(ctx, h, name)
	if err != nil {
		return nil, err
	}
	t := &trail{view: view{now: a.Now()}, service: m.(*consolev1.Service)}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	spec := t.service.GetSpec()
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := h.Sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: catalog.SourceOf(spec)})
		t.source, t.noSource = res.GetSource(), reasonLine(err)
	})
	wg.Go(func() {
		if spec.GetCatalog() {
			return
		}
		res, err := h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: spec.GetCluster()})
		t.cluster, t.noCluster = res.GetCluster(), reasonLine(err)
	})
	wg.Go(func() {
		res, err := atGitcache(ctx, h, checkTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.GetSourceResponse, error) {
			return g.Sources.GetSource(ctx, &gitcachev1.GetSourceRequest{Name: catalog.SourceOf(spec)})
		})
		t.live, t.noLive = res.GetSource(), reasonLine(err)
	})
	wg.Go(func() { t.distributors, t.noDistributors = sickDistributors(ctx, h) })
	wg.Wait()
	return t, nil
}

// sickDistributors says what is wrong with distributors, and whether none of them is ready.
func sickDistributors(ctx context.Context, h *hub.Hub) (texts []string, none bool) {
	found := make([]finding, len(h.Context.Endpoints.Distributors))
	var wg sync.WaitGroup
	for i, url := range h.Context.Endpoints.Distributors {
		wg.Go(func() { found[i] = checkService(ctx, h, "distributor", url) })
	}
	wg.Wait()
	none = len(found) > 0
	for _, f := range found {
		none = none && f.version == ""
		if f.wrong || f.warns {
			texts = append(texts, f.about+": "+f.text)
		}
	}
	return texts, none
}

// reasonLine is an error in one line.
func reasonLine(err error) string {
	if err == nil {
		return ""
	}
	return table.CleanLine(err.Error())
}

func (a *app) showTrail(t *trail, format string) error {
	steps := t.listSteps()
	if format == formatTable {
		return a.printf("%s", t.renderText(steps))
	}
	tree := map[string]any{"verdict": t.verdictText(steps), "service": t.service}
	if t.source != nil {
		tree["source"] = t.source
	}
	if t.cluster != nil {
		tree["cluster"] = t.cluster
	}
	if t.live != nil {
		tree["live"] = t.live
	}
	states := map[string]any{}
	for _, s := range steps {
		states[strings.ToLower(s.name)] = strings.ToLower(string(s.mark))
	}
	tree["steps"] = states
	if silent := t.listSilent(); len(silent) > 0 {
		tree["noAnswer"] = silent
	}
	write := manifest.Tree
	if format == formatYAML {
		write = manifest.TreeYAML
	}
	text, err := write(tree)
	if err != nil {
		return err
	}
	if isTemplate(format) {
		return a.fillTemplate(format, text, [][]byte{text})
	}
	return a.printf("%s", text)
}

// listSilent names the parts that did not answer, and why.
func (t *trail) listSilent() []any {
	var all []any
	for _, text := range append([]string{t.noSource, t.noCluster, t.noLive}, t.distributors...) {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// renderText renders the trail for people.
func (t *trail) renderText(steps []step) string {
	var b strings.Builder
	status := t.service.GetStatus()
	fmt.Fprintf(&b, "%s: %s", t.service.GetMetadata().GetName(), stateOf(t.service))
	if isSet(status.GetStateSince()) {
		fmt.Fprintf(&b, " for %s", table.FormatAge(t.now, status.GetStateSince().AsTime()))
	}
	b.WriteString("\n\n")
	for _, s := range steps {
		head := fmt.Sprintf("%-10s%-7s", s.name, s.mark)
		for _, line := range s.lines {
			fmt.Fprintf(&b, "%s%s\n", head, table.CleanLine(line))
			head = strings.Repeat(" ", len(head))
		}
		view{now: t.now}.objectTable(&b, s.objects)
	}
	fmt.Fprintf(&b, "\n%s\n", table.CleanLine(t.verdictText(steps)))
	return b.String()
}
