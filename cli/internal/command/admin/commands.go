// Package admin has the commands for who runs a hub: login links, keys, backups, sinks, backends, and the images of a
// release.
package admin

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands of who runs a hub.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{adminCommand(a), sinkCommand(a), imagesOfReleases(a)}
}
