// Package audit has the commands that show what happened: the audit log, events, and recordings of shells.
package audit

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// Commands returns the commands that show what happened.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{auditCommand(a), eventsCommand(a), replayCommand(a)}
}
