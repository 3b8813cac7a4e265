package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/trail"
	"fairlead.dev/platform/catalogyaml"
)

func traceCommand(a *app.App) *cobra.Command {
	var format string
	var o tracedObject
	var watch bool
	cmd := &cobra.Command{
		Use:   "trace service|globalservice NAME",
		Short: "Follow a service from its commit in Git to its objects in the cluster",
		Long: `Follow a service from its commit in Git to its objects in the cluster.

Each step has a state (ok, wait, stale, held, FAIL, or ? if unknown) and its age: SOURCE, which gitcache polls the repository
and when; COMMIT, what the ref points to (CHART, the chosen version; ARTIFACT, of a registry; CONTENT, of a bucket); LEVERS,
if there are any: holds, pins and rollbacks with author, reason, begin and end; HUB, what is handed out; DELIVERY, whether
the cluster's agent asks; CLUSTER, what it applied and how healthy the objects are; TESTS, how their latest run went, if
there was one. The last line says where the service stands, and what to do next.

The command works with parts of the hub down, and says which did not answer. Only the console must be there.

Of a global service the command says where each of its services stands, and what to do next.

With a kind of Kubernetes the command goes the other way: from an object in a cluster back to its service, the commit and its
author. A Pod, ReplicaSet or Job is followed to the object that made it, through the tunnel. --cluster and --namespace choose
one of several objects with the name.`,
		Example: `  fairlead trace service shop
  fairlead trace deployment/web -n shop --cluster edge-1
  fairlead trace service shop --watch
  fairlead trace service shop -o json
  fairlead trace globalservice logs`,
		Args: app.WantArgs(1, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json or yaml")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "of a service: go on with what changes, until interrupted")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "of an object: the namespace that it is in")
	cmd.Flags().StringVarP(&o.cluster, "cluster", "c", "", "of an object: the cluster that it is in")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.takeName(args) {
			if watch {
				return errOneService
			}
			return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
				return traceObject(ctx, a, h, o, format)
			})(cmd, nil)
		}
		if len(args) < 2 {
			return app.UsageError(cmd, args...)
		}
		k, err := resource.FindKind(args[0])
		if err != nil || k.ID != catalogyaml.Service && k.ID != catalogyaml.Global {
			return fmt.Errorf("only services and global services can be traced, not %q: see `fairlead trace --help`", args[0])
		}
		if err := app.CheckPlainFormat(format); err != nil {
			return err
		}
		if k.ID == catalogyaml.Global {
			if watch {
				return errOneService
			}
			if format != app.FormatTable {
				return errors.New("of a global service the trace is for people: leave out -o, or trace its services one by one")
			}
			return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
				return traceGlobal(ctx, a, h, args[0])
			})(cmd, args[1:])
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			if watch {
				return a.RepeatText(ctx, format, func(ctx context.Context) (string, error) {
					t, err := trail.Follow(ctx, a, h, args[0])
					if err != nil {
						return "", err
					}
					return t.RenderText(t.ListSteps()), nil
				})
			}
			t, err := trail.Follow(ctx, a, h, args[0])
			if err != nil {
				return err
			}
			return showTrail(a, t, format)
		})(cmd, args[1:])
	}
	return cmd
}

// errOneService refuses to watch what is not one service.
var errOneService = errors.New("--watch follows one service: name that service")

func showTrail(a *app.App, t *trail.Trail, format string) error {
	steps := t.ListSteps()
	if format == app.FormatTable {
		return a.Printf("%s", t.RenderText(steps))
	}
	tree := map[string]any{"verdict": t.VerdictText(steps), "service": t.Service}
	if t.Source != nil {
		tree["source"] = t.Source
	}
	if t.Cluster != nil {
		tree["cluster"] = t.Cluster
	}
	if t.Live != nil {
		tree["live"] = t.Live
	}
	states := map[string]any{}
	for _, s := range steps {
		states[strings.ToLower(s.Name)] = strings.ToLower(string(s.Mark))
	}
	tree["steps"] = states
	if silent := t.ListSilent(); len(silent) > 0 {
		tree["noAnswer"] = silent
	}
	write := catalogyaml.Tree
	if format == app.FormatYAML {
		write = catalogyaml.TreeYAML
	}
	text, err := write(tree)
	if err != nil {
		return err
	}
	if app.IsTemplate(format) {
		return a.FillTemplate(format, text, [][]byte{text})
	}
	return a.Printf("%s", text)
}
