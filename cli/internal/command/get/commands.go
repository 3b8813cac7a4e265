// Package get has the commands that show what the hub knows: tables, descriptions, trees, searches and figures.
package get

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that show what the hub knows.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{getCommand(a), describeCommand(a), searchCommand(a), topCommand(a), treeCommand(a)}
}
