// Package check has the commands that say whether a hub is well: check, canary and debug bundle.
package check

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that say whether a hub is well.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{checkCommand(a), canaryCommand(a), debugCommand(a)}
}
