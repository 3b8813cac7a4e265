// Package start has the commands that run a part of Fairlead on this machine.
package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that run a part of Fairlead here.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{upCommand(a), newInstallation(a), gitServer(a), frontCommand(a), pauseCommand()}
}
