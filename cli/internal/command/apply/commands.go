// Package apply has the commands that change resources of the hub, and those that show beforehand what would change.
package apply

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that change resources of the hub.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{applyCommand(a), createCommand(a), editCommand(a), deleteCommand(a), undoCommand(a), exportCommand(a), diffCommand(a), schemaCommand(a)}
}
