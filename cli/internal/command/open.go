package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

func (a *app) open() *cobra.Command {
	var only bool
	cmd := &cobra.Command{
		Use:   "open [KIND NAME]",
		Short: "Open the hub's pages in a browser",
		Long: `Open the hub's pages in a browser: the fleet, or the page of one resource.

The browser is the one that the environment variable BROWSER names, or else the system's. A browser that is not logged in asks for a login
and then shows the page: for an administrator of a hub without an identity provider, with one click, by a link that works once and within a
minute. With --print the address has no such link.`,
		Example: "  fairlead open\n  fairlead open service shop\n  fairlead open cluster edge-1 --print",
	}
	cmd.Flags().BoolVar(&only, "print", false, "print the address instead of opening it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 0 && len(args) != 2 {
			return usage(cmd)
		}
		path := "/"
		if len(args) == 2 {
			k, err := findKind(args[0])
			if err != nil {
				return err
			}
			path = "/" + k.singular() + "/" + url.PathEscape(args[1])
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
			address := h.Context.URL + path
			if only {
				return a.printf("%s\n", address)
			}
			if err := a.browse(ctx, loggedIn(ctx, h, path)); err != nil {
				return fmt.Errorf("%w: open %s yourself", err, address)
			}
			return nil
		})(cmd, nil)
	}
	return cmd
}

// openTimeout bounds the wait for a login link: without one the page asks for a login.
const openTimeout = 5 * time.Second

// openLifetime is how long the link of an opened page is good: a browser starts in less.
const openLifetime = time.Minute

// loggedIn is the address of a page, by a login link of the caller if the hub gives one: administrators make them, and where there is an identity
// provider the browser logs in by itself.
func loggedIn(ctx context.Context, h *hub.Hub, path string) string {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	plain := h.Context.URL + path
	options, err := h.Logins.GetLoginOptions(ctx, &consolev1.GetLoginOptionsRequest{})
	if err != nil || options.GetOidc() != nil {
		return plain
	}
	caller, err := h.Access.GetCaller(ctx, &consolev1.GetCallerRequest{})
	user, isUser := strings.CutPrefix(caller.GetSubject(), "user:")
	if err != nil || !isUser || !caller.GetAdministrator() {
		return plain
	}
	made, err := h.Logins.CreateLoginLink(ctx, &consolev1.CreateLoginLinkRequest{User: user, Groups: caller.GetGroups(), Lifetime: durationpb.New(openLifetime)})
	if err != nil {
		return plain // of a token that was handed on
	}
	_, code, _ := strings.Cut(made.GetLink(), linkPath)
	return h.Context.URL + strings.TrimSuffix(linkPath, "#") + "?to=" + url.QueryEscape(path) + "#" + code
}

// browse opens an address in the person's browser.
func (a *app) browse(ctx context.Context, address string) error {
	program := []string{"xdg-open"}
	switch browser := a.Getenv("BROWSER"); {
	case browser != "":
		program = []string{browser}
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case runtime.GOOS == "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], address)...)
	cmd.Stdout, cmd.Stderr = a.Stdout, a.Stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("there is no browser here (%s)", program[0])
	}
	return err
}
