// Package trace has the command that follows a service, or an object of one, on its way from Git to a cluster.
package trace

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that follow a commit on its way.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{traceCommand(a)}
}
