// Package config has the commands that show which configuration a service gets, and where it comes from.
package config

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that show configuration.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{configCommand(a)}
}
