// Package cluster has the commands by which clusters join and leave, and by which access to them is lent.
package cluster

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands by which clusters join, leave and lend access.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{clusterCommand(a)}
}
