package command

import (
	"github.com/spf13/cobra"
)

// pauseCommand holds a container's network for others, which may then end and start again in it.
func (a *app) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "pause",
		Short:  "Do nothing until told to end",
		Hidden: true,
		Args:   wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
