package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
)

func (a *app) open() *cobra.Command {
	var only bool
	cmd := &cobra.Command{
		Use:   "open [KIND NAME]",
		Short: "Open the hub's pages in a browser",
		Long: `Open the hub's pages in a browser: the fleet, or the page of one resource.

The browser is the one that the environment variable BROWSER names, or else the system's. A browser that is not logged in asks for a login
and then shows the page.`,
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
			if err := a.browse(ctx, address); err != nil {
				return fmt.Errorf("%w: open %s yourself", err, address)
			}
			return nil
		})(cmd, nil)
	}
	return cmd
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
