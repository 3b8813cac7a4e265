// Package pods has the commands that reach into clusters through the tunnel: logs, exec, port-forward, restart and
// kubectl.
package pods

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that reach into clusters.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{execCommand(a), logsCommand(a), portForward(a), restartCommand(a), kubectlCommand(a), kubeconfigCommand(a), kubectlCredential(a)}
}
