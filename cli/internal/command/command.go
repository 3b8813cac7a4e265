// Package command is the grammar of the fairlead command: verbs, their flags, and what they print.
//
// Results go to stdout, so that they can be piped; progress and hints go to stderr. An error ends the command with
// exit code 1.
package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/platform/typo"
	"fairlead.dev/platform/version"
)

// IO is what a command has of the world.
type IO struct {
	Getenv func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time
}

// Run executes a command line (without the program's name).
func Run(ctx context.Context, args []string, io IO) error {
	root := NewRoot(io) //nolint:contextcheck // Commands get theirs from ExecuteContext.
	root.SetArgs(args)
	root.SetIn(io.Stdin)
	root.SetOut(io.Stdout)
	root.SetErr(io.Stderr)
	ctx, end, err := startTrace(ctx, root, args)
	if err != nil {
		return err
	}
	err = root.ExecuteContext(ctx)
	end(err)
	return err
}

// NewRoot returns the command that all others are below.
func NewRoot(io IO) *cobra.Command { return (&app{IO: io}).rootCommand() }

// callTimeout bounds one call to the hub, so that a command never hangs without a word.
const callTimeout = 30 * time.Second

type app struct {
	IO
	context, server string
	// noHeaders leaves the heads of tables out.
	noHeaders bool
}

func (a *app) rootCommand() *cobra.Command {
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
		if args := cmd.Flags().Args(); len(args) > 0 && kindElsewhere(args[0]) != "" && !(cmd.Name() == "get" && isViewed(args[0])) { // get deployments -A
			if _, unknown := findKind(args[0]); unknown != nil {
				return unknown
			}
		}
		if args := cmd.Flags().Args(); len(args) > 0 && cmd.Name() == "get" && isViewed(args[0]) {
			return fmt.Errorf("%w: see `%s --help`; `fairlead kubectl CLUSTER -- get %s` takes kubectl's flags", err, cmd.CommandPath(), args[0])
		}
		return fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.context, "context", "", "context to use; default: the current one")
	root.PersistentFlags().StringVar(&a.server, "server", "", "`URL` of the hub, in place of a context: with FAIRLEAD_TOKEN, or one that you are logged in to")
	root.MarkFlagsMutuallyExclusive("context", "server")
	root.AddCommand(a.upCommand(), a.newInstallation(), a.gitServer(), a.frontCommand(), a.pauseCommand(), a.applyCommand(), a.exportCommand(), a.getCommand(),
		a.deleteCommand(), a.undoCommand(), a.checkCommand(), a.kubeconfigCommand(), a.kubectlCredential(), a.kubectlCommand(), a.execCommand(), a.logsCommand(),
		a.auditCommand(), a.eventsCommand(), a.adminCommand(), a.tokenCommand(), a.canI(), a.clusterCommand(), a.traceCommand(), a.sourcesCommand(), a.shardsCommand(),
		a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.contextsCommand(), a.openCommand(), a.versionCommand())
	root.AddCommand(a.diffCommand(), a.treeCommand(), a.searchCommand(), a.configCommand(), a.canaryCommand(), a.debugCommand(), a.replayCommand())
	root.AddCommand(a.describeCommand(), a.editCommand(), a.createCommand(), a.restartCommand(), a.portForward(), a.waitCommand(), a.sinkCommand(), a.imagesOfReleases(), a.topCommand(), a.schemaCommand())
	root.AddCommand(a.leverCommands()...)
	answerOthers(root)
	takeReferences(root)
	a.addCompletion(root)
	groupHelp(root)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command",
		Args:  wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.printf("fairlead %s\n", version.String())
		},
	}
}

func (a *app) openStore() (*contexts.Store, error) {
	path, err := contexts.DefaultPath(a.Getenv)
	if err != nil {
		return nil, err
	}
	return contexts.NewStore(path, contexts.NewDesktop(a.Getenv)), nil
}

func (a *app) connectHub(ctx context.Context) (*hub.Hub, error) {
	return a.connectServer(ctx)
}

// onlyBelow is for a command that only has others below it: another word is none of them.
func onlyBelow(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			known = append(known, below.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), typo.Suggest(args[0], known))
}

// unlimited arguments, for wantArgs.
const unlimited = -1

// wantArgs accepts so many arguments, and says how the command is used if there are more or fewer.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (len(args) <= most || most == unlimited) {
			return nil
		}
		return usageError(cmd)
	}
}

func usageError(cmd *cobra.Command) error {
	return fmt.Errorf("use it as `%s`: see `%s --help`", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
}

// printf writes to stdout: a result that can't be written is an error.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Stdout, format, args...)
	return err
}

// notef writes to stderr what a person may want to know.
func (a *app) notef(format string, args ...any) {
	fmt.Fprintf(a.Stderr, format, args...)
}

// hubCommand returns a function for cobra that runs do with the hub of the context.
func (a *app) hubCommand(do func(ctx context.Context, h *hub.Hub, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		h, err := a.connectHub(cmd.Context())
		if err != nil {
			return err
		}
		defer h.HTTP.CloseIdleConnections()
		return do(cmd.Context(), h, args)
	}
}
