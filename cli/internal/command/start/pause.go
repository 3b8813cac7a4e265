package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
)

// pauseCommand holds a container's network for others, which may then end and start again in it.
func pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "pause",
		Short:  "Do nothing until told to end",
		Hidden: true,
		Args:   app.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
