package access

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/flags"
)

func canI(a *app.App) *cobra.Command {
	var in consolev1.CheckAccessRequest
	cmd := &cobra.Command{
		Use:   "can-i VERB [KIND[/NAME]]",
		Short: "Say whether you may do something, and by which rule",
		Long: `Say whether you may do something, and by which rule. The exit code is 1 if not.

With a KIND the verb is view, deploy, edit or delete. Without a KIND the verb is one at the Kubernetes API of --cluster:
read, write, exec or secrets. Administrators may ask for others with --as.`,
		Example: "  fairlead can-i edit Service/web\n  fairlead can-i edit Service --project shop --cluster edge-1\n  fairlead can-i exec --cluster edge-1 --as user:bob --group dev",
		Args:    app.WantArgs(1, 2),
	}
	cmd.Flags().StringVar(&in.Project, "project", "", "project that it would be in")
	cmd.Flags().StringVar(&in.Cluster, "cluster", "", "cluster that it is about")
	cmd.Flags().StringVar(&in.Subject, "as", "", "somebody else: user:NAME or serviceaccount:NAME")
	cmd.Flags().StringArrayVar(&in.Groups, "group", nil, "group that --as is in; may be repeated")
	cmd.RunE = a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
		in.Verb = args[0]
		if len(args) > 1 {
			in.Kind, in.Name, _ = strings.Cut(args[1], "/")
			if k, err := resource.FindKind(in.Kind); err == nil {
				in.Kind = string(k.ID) // other kinds are for the hub to know
			}
		}
		ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		defer cancel()
		res, err := h.Access.CheckAccess(ctx, &in)
		if err != nil {
			return err
		}
		if !res.GetAllowed() {
			if err := a.Printf("no: %s\n", table.CleanLine(res.GetReason())); err != nil {
				return err
			}
			return flags.Exit(1)
		}
		return a.Printf("yes, by %s\n", table.CleanLine(res.GetReason()))
	})
	return cmd
}
