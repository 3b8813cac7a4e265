package apply

import (
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/schema"
	kindtable "fairlead.dev/platform/kind"
)

func schemaCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [KIND...]",
		Short: "Print a JSON Schema of the files that apply takes, for editors",
		Long: `Print a JSON Schema of the YAML that "fairlead apply -f" takes: an editor completes fields with it, shows
what they mean, and marks mistakes. The schema is that of this version of the command; no hub is
asked.`,
		Example: `  fairlead schema > fairlead.schema.json
  # and in the first line of a file, for editors with the YAML language server:
  # yaml-language-server: $schema=fairlead.schema.json`,
		Args: app.WantArgs(0, app.Unlimited),
		RunE: func(_ *cobra.Command, args []string) error {
			wanted := kindtable.All()
			if len(args) > 0 {
				wanted = nil
			}
			for _, name := range args {
				k, err := resource.FindKind(name)
				if err != nil {
					return err
				}
				wanted = append(wanted, k.Kind)
			}
			text, err := schema.Marshal(wanted)
			if err != nil {
				return err
			}
			return a.Printf("%s", text)
		},
	}
}
