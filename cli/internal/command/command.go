// Package command is the grammar of the fairlead command: verbs, their flags, and what they print. The packages below
// it have the commands by noun; none of them imports another. What they share is beside this package: app, resource,
// view, object, trail and others.
//
// Results go to stdout, so that they can be piped; progress and hints go to stderr. An error ends the command with
// exit code 1.
package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command/access"
	"fairlead.dev/cli/internal/command/admin"
	"fairlead.dev/cli/internal/command/apply"
	"fairlead.dev/cli/internal/command/audit"
	"fairlead.dev/cli/internal/command/check"
	"fairlead.dev/cli/internal/command/cluster"
	"fairlead.dev/cli/internal/command/config"
	"fairlead.dev/cli/internal/command/get"
	"fairlead.dev/cli/internal/command/lever"
	"fairlead.dev/cli/internal/command/pods"
	"fairlead.dev/cli/internal/command/source"
	"fairlead.dev/cli/internal/command/start"
	"fairlead.dev/cli/internal/command/trace"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/platform/version"
)

// Run executes a command line (without the program's name).
func Run(ctx context.Context, args []string, io app.IO) error {
	root := NewRoot(io) //nolint:contextcheck // Commands get theirs from ExecuteContext.
	root.SetArgs(args)
	root.SetIn(io.Stdin)
	root.SetOut(io.Stdout)
	root.SetErr(io.Stderr)
	ctx, end, err := startTrace(ctx, root, args)
	if err != nil {
		return err
	}
	cmd, err := root.ExecuteContextC(ctx)
	err = cleanError(explainFile(explainFlags(cmd, err)))
	end(err)
	return err
}

// NewRoot returns the command that all others are below.
func NewRoot(io app.IO) *cobra.Command { return rootCommand(&app.App{IO: io}) }

func rootCommand(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "fairlead",
		Short: "Git to Kubernetes clusters, and a safe way to look into them",
		Long: `Fairlead brings folders of Git repositories into Kubernetes clusters and keeps them applied.

  fairlead up             try everything on this machine
  fairlead login URL      or log in to a hub
  fairlead apply -f FILE  say which folders run on which clusters
  fairlead get services   see where every commit is`,
		Version:       version.String(),
		SilenceErrors: true, // main prints them once.
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("fairlead {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); len(args) > 0 && resource.KindElsewhere(args[0]) != "" && (cmd.Name() != "get" || !get.IsViewed(args[0])) { // get deployments -A
			if _, unknown := resource.FindKind(args[0]); unknown != nil {
				return unknown
			}
		}
		if args := cmd.Flags().Args(); len(args) > 0 && cmd.Name() == "get" && get.IsViewed(args[0]) {
			return fmt.Errorf("%w: see `%s --help`; `fairlead kubectl CLUSTER -- get %s` takes kubectl's flags", err,
				cmd.CommandPath(), args[0])
		}
		return fmt.Errorf("%w: see `%s --help`", explainDuration(err), cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.Context, "context", "", "context to use; default: the current one")
	root.PersistentFlags().StringVar(&a.Server, "server", "",
		"`URL` of the hub, in place of a context: with FAIRLEAD_TOKEN, or one that you are logged in to")
	root.MarkFlagsMutuallyExclusive("context", "server")
	for _, commands := range nouns() {
		root.AddCommand(commands(a)...)
	}
	root.AddCommand(versionCommand(a))
	answerOthers(root)
	resource.TakeReferences(root)
	addCompletion(a, root)
	groupHelp(root)
	return root
}

// nouns are the packages below this one, each with its commands.
func nouns() []func(*app.App) []*cobra.Command {
	return []func(*app.App) []*cobra.Command{
		start.Commands, access.Commands, apply.Commands, get.Commands, trace.Commands, lever.Commands,
		source.Commands, config.Commands, cluster.Commands,
		pods.Commands, audit.Commands, check.Commands, admin.Commands,
	}
}

func versionCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command",
		Args:  app.WantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.Printf("fairlead %s\n", version.String())
		},
	}
}
