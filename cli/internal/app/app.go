// Package app is what the commands share: what a command has of the world, the hub of its context, the forms of output,
// and questions to the person. It knows no command.
package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/platform/typo"
)

// IO is what a command has of the world.
type IO struct {
	Getenv func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time
}

// App is one run of the command: what it has of the world, and the flags that all commands share.
type App struct {
	IO
	Context, Server string
	// NoHeaders leaves the heads of tables out.
	NoHeaders bool
}

// OpenStore opens the contexts of this person.
func (a *App) OpenStore() (*contexts.Store, error) {
	path, err := contexts.DefaultPath(a.Getenv)
	if err != nil {
		return nil, err
	}
	return contexts.NewStore(path, contexts.NewDesktop(a.Getenv)), nil
}

// OnlyBelow is for a command that only has others below it: another word is none of them.
func OnlyBelow(cmd *cobra.Command, args []string) error {
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

// Unlimited arguments, for wantArgs.
const Unlimited = -1

// WantArgs accepts so many arguments, and says how the command is used if there are more or fewer.
func WantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (len(args) <= most || most == Unlimited) {
			return nil
		}
		return UsageError(cmd, args...)
	}
}

// UsageError says how the command is used. Where only the kind is missing before the name of a service, it proposes the
// whole command.
func UsageError(cmd *cobra.Command, args ...string) error {
	line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if len(args) == 1 && takesService.MatchString(cmd.Use) && resource.IsOnlyName(args[0]) {
		if commit.MatchString(args[0]) {
			return fmt.Errorf("use it as `%s service NAME`: `fairlead search %s` finds the services of a commit", cmd.CommandPath(), args[0])
		}
		line = cmd.CommandPath() + " service " + args[0]
	}
	return fmt.Errorf("use it as `%s`: see `%s --help`", line, cmd.CommandPath())
}

// commit is a commit's id, or the beginning of one.
var commit = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// takesService is the use line of commands that need a service and nothing else.
var takesService = regexp.MustCompile(`^\S+ service[a-z|]* NAME( \[|$)`)

// CheckLeast refuses the value of a flag below the least one, which would mean something else than it says.
func CheckLeast[N int | int64 | time.Duration](flag string, value, least N) error {
	if value < least {
		return fmt.Errorf("--%s %v: must be at least %v", flag, value, least)
	}
	return nil
}

// Printf writes to stdout: a result that can't be written is an error.
func (a *App) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Stdout, format, args...)
	return err
}

// Notef writes to stderr what a person may want to know: as text, for it may repeat what others wrote.
func (a *App) Notef(format string, args ...any) {
	_, _ = io.WriteString(a.Stderr, table.CleanText(fmt.Sprintf(format, args...)))
}

// HubCommand returns a function for cobra that runs do with the hub of the context.
func (a *App) HubCommand(
	do func(ctx context.Context, h *hubclient.Hub, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		h, err := a.ConnectHub(cmd.Context())
		if err != nil {
			return err
		}
		defer h.HTTP.CloseIdleConnections()
		return do(cmd.Context(), h, args)
	}
}

// CheckToken refuses a text that is no token, such as that of a file with a second line. where names its place.
func CheckToken(where, token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s holds more than a token: leave nothing else in it", where)
	}
	return nil
}

// DefaultUser is who logs in with the secret of a hub and gives no name.
func (a *App) DefaultUser() string {
	if user := a.Getenv("USER"); user != "" {
		return user
	}
	return "admin"
}

// EnvironmentToken is the token of the environment, which may be for another hub than a context that is named.
func (a *App) EnvironmentToken() string {
	if a.Context != "" {
		return ""
	}
	return a.Getenv(hubclient.FromEnvironment)
}

// ConnectHub connects to the hub of --context, --server, FAIRLEAD_SERVER or the current context, with the token of the
// environment if there is one and no context is named.
func (a *App) ConnectHub(ctx context.Context) (*hubclient.Hub, error) {
	at, token := a.Server, a.EnvironmentToken()
	if at == "" && token != "" {
		at = a.Getenv("FAIRLEAD_SERVER")
	}
	at = strings.TrimRight(at, "/")
	store, err := a.OpenStore()
	if err != nil && (at == "" || token == "") { // else nothing of the store is needed
		return nil, err
	}
	if at == "" && token == "" {
		return hubclient.Connect(ctx, store, a.Context)
	}
	var ca string
	if at == "" {
		of, err := store.Get("")
		if err != nil {
			return nil, fmt.Errorf("FAIRLEAD_TOKEN is set, and it is not known for which hub: give --server URL, or set FAIRLEAD_SERVER (%w)", err)
		}
		at, ca = of.URL, of.CA
	} else if store != nil {
		of, found, err := store.At(at)
		switch {
		case err != nil:
			return nil, err
		case token == "" && !found:
			return nil, fmt.Errorf("not logged in to %s: run `fairlead login %s`, or set FAIRLEAD_TOKEN", at, at)
		case token == "":
			return hubclient.Connect(ctx, store, of.Name)
		}
		ca = of.CA
	}
	if name := a.Getenv("FAIRLEAD_CA_FILE"); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("FAIRLEAD_CA_FILE: %w", err)
		}
		ca = string(pem)
	}
	token = strings.TrimSpace(token)
	if err := CheckToken("FAIRLEAD_TOKEN", token); err != nil {
		return nil, err
	}
	return hubclient.ConnectToken(ctx, at, ca, token)
}
