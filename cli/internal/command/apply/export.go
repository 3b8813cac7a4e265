package apply

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
)

func exportCommand(a *app.App) *cobra.Command {
	var project, set string
	cmd := &cobra.Command{
		Use:   "export [KIND...]",
		Short: "Print resources as apply takes them",
		Long: `Print resources as YAML that "fairlead apply -f" takes: without what the hub fills in, in the order in
which they depend on each other. Applied to the same hub the output changes nothing. Services of a global
service, and what a folder declares, are left out: they come of these.

Values of secrets are never read back: they are empty, which leaves them as they are. For another
hub, write them in.`,
		Example: `  fairlead export > hub.yaml
  fairlead export services --project shop
  fairlead export --set fleet | fairlead apply -f - --set fleet --context other`,
		Args: app.WantArgs(0, app.Unlimited),
	}
	cmd.Flags().StringVar(&project, "project", "", "only the project with this `name` and what is of it")
	cmd.Flags().StringVar(&set, "set", "", "only what is of the set with this `name`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted := map[catalogyaml.Kind]resource.Kind{}
		for _, name := range args {
			k, err := resource.FindKind(name)
			if err != nil {
				return err
			}
			wanted[k.ID] = k
		}
		if len(args) == 0 {
			for _, k := range resource.ListKinds() {
				wanted[k.ID] = k
			}
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			var all []catalogyaml.Message
			for _, kind := range catalogyaml.Kinds() {
				k, ok := wanted[kind]
				if !ok {
					continue
				}
				found, err := k.ReadAll(ctx, h)
				if err != nil {
					return err
				}
				for _, m := range found {
					if m.GetMetadata().GetUid() == "" {
						continue // a role that is always there
					}
					if labels := m.GetMetadata().GetLabels(); labels[resource.GlobalLabel] != "" ||
						labels[resource.DeclaredLabel] != "" {
						continue // a global service makes it again, or a folder: apply takes it from nobody else
					}
					if set == "" || m.GetMetadata().GetLabels()[resource.SetLabel] == set {
						if project == "" || ofProject(m, project) {
							all = append(all, resource.AsWritten(m))
						}
					}
				}
			}
			text, err := catalogyaml.YAML(all...)
			if err != nil {
				return err
			}
			return a.Printf("%s", text)
		})(cmd, nil)
	}
	return cmd
}

// ofProject says whether a resource is the project, or names it.
func ofProject(m catalogyaml.Message, project string) bool {
	switch m := m.(type) {
	case *consolev1.Project:
		return m.GetMetadata().GetName() == project
	case *consolev1.Service:
		return m.GetSpec().GetProject() == project
	case *consolev1.ConfigSet:
		return m.GetSpec().GetProject() == project
	case *consolev1.GlobalService:
		return m.GetSpec().GetTemplate().GetProject() == project
	}
	return false
}
