// Package source has the commands about sources, and about the gitcaches that fetch them.
package source

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands about sources, and the gitcaches that fetch them.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{sourcesCommand(a), shardsCommand(a)}
}
