// Package access has the commands about the caller: logging in and out, contexts, tokens, and what the caller may do.
package access

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands about who the caller is, and what they may do.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{loginCommand(a), logoutCommand(a), whoamiCommand(a), contextsCommand(a), openCommand(a), tokenCommand(a), canI(a)}
}
