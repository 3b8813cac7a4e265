package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/input"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/plural"
)

func configCommand(a *app.App) *cobra.Command {
	var file, from, format string
	cmd := &cobra.Command{
		Use:   "config SERVICE | config -f FILE | config --from KIND/NAME [ENTRY]",
		Short: "Show what a service is configured with, and where each value comes from",
		Long: `Show the configuration of a service: the entries of its project, its configuration sets, its cluster and itself, of which a
later one wins, with references resolved. Secrets are shown as ***. Values of a backend that can't be read now are those
that were read last; a note below says so.

With -f the configuration is that of a service in a file; nothing is written. You need the right to write that service.
The exit code is 1 if an entry has no value: the service is held back then, or keeps what it has.

With --from the command lists the services that get values, or the value of one ENTRY, from a configuration set, a project,
a cluster, a Secret or a backend; OVER is the later layer from which a service gets the entry instead.`,
		Example: "  fairlead config web\n  fairlead config web -o wide\n  fairlead config -f web.yaml\n  fairlead config --from configset/base LOG_LEVEL\n  fairlead config --from secret/shop-db",
		Args:    app.WantArgs(0, 1),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with a service, or - for stdin")
	cmd.Flags().StringVar(&from, "from", "", "list the services that get values from `KIND/NAME`")
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable,
		"form of the output: table, wide, json, yaml or name")
	cmd.MarkFlagsMutuallyExclusive("filename", "from")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from != "" {
			return configUsers(a, cmd, from, strings.Join(args, ""), format)
		}
		if (file == "") == (len(args) == 0) {
			return app.UsageError(cmd)
		}
		if err := app.CheckOneOf(format, formats()); err != nil {
			return err
		}
		req := &consolev1.PreviewConfigRequest{}
		if file == "" {
			req.Of = &consolev1.PreviewConfigRequest_Service{Service: args[0]}
		} else {
			draft, err := readService(cmd.Context(), a, file)
			if err != nil {
				return err
			}
			req.Of = &consolev1.PreviewConfigRequest_Draft{Draft: draft}
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			res, err := h.Configs.PreviewConfig(ctx, req)
			if err != nil {
				return err
			}
			return printConfig(a, res, format)
		})(cmd, nil)
	}
	return cmd
}

// formats are the forms in which configuration is shown.
func formats() []string {
	return []string{app.FormatTable, app.FormatWide, app.FormatJSON, app.FormatYAML, app.FormatName}
}

// readService reads the one service that a file describes.
func readService(ctx context.Context, a *app.App, file string) (*consolev1.Service, error) {
	objects, err := input.ReadObjects(ctx, a, []string{file}, nil)
	if err != nil {
		return nil, err
	}
	var found []*consolev1.Service
	for _, o := range objects {
		if s, ok := o.Message.(*consolev1.Service); ok {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has %s: give a file with one", input.DisplayName(file), plural.Of(len(found), "service"))
	}
	return found[0], nil
}

func printConfig(a *app.App, res *consolev1.PreviewConfigResponse, format string) error {
	var err error
	switch format {
	case app.FormatJSON, app.FormatYAML:
		err = a.ShowPlain(format, res)
	case app.FormatName:
		for _, e := range res.GetEntries() {
			if err := a.Printf("%s\n", e.GetName()); err != nil {
				return err
			}
		}
	default:
		err = configTable(a, res, format == app.FormatWide)
	}
	if err != nil {
		return err
	}
	missing, stale := 0, map[string]bool{}
	for _, e := range res.GetEntries() {
		if why := e.GetStale(); why != "" && !stale[why] {
			stale[why] = true
			a.Notef("%s: as it was read last: %s\n", e.GetOrigin(), why)
		}
		if e.GetProblem() != "" {
			missing++
			a.Notef("%s: %s\n", e.GetName(), e.GetProblem())
		}
	}
	if missing > 0 {
		have := "have no value: until they have"
		if missing == 1 {
			have = "has no value: until it has"
		}
		return fmt.Errorf("%s %s one, the service keeps the configuration that it has, or is held back",
			plural.Part(missing, len(res.GetEntries()), "entry"), have)
	}
	return nil
}

func configTable(a *app.App, res *consolev1.PreviewConfigResponse, wide bool) error {
	head := []string{"NAME", "TYPE", "VALUE", "FROM"}
	if wide {
		head = append(head, "OVER")
	}
	t := table.New(head...)
	if !wide {
		t.MaxCell = view.MaxCell
	}
	for _, e := range res.GetEntries() {
		cells := []string{e.GetName(), catalogyaml.Short(e.GetType()), e.GetValue(), e.GetOrigin()}
		if wide {
			cells = append(cells, strings.Join(e.GetOverrides(), ", "))
		}
		t.AddRow(cells...)
	}
	if len(res.GetEntries()) == 0 {
		return a.Printf("no configuration\n")
	}
	return a.WriteTable(t)
}
