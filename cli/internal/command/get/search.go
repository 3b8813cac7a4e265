package get

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	kindtable "fairlead.dev/platform/kind"
)

// mostFound is as many as the hub returns.
const mostFound = 200

func searchCommand(a *app.App) *cobra.Command {
	var only []string
	var limit int32
	var format string
	cmd := &cobra.Command{
		Use:   "search WORD...",
		Short: "Find resources of all kinds by name, label, place or commit",
		Long: `Find resources of all kinds that you may see: by name, label, project, cluster, namespace or source, and services by the commit that the hub
hands out (at least 7 characters of it). Of several words each has to fit. Resources with the word as their name come first;
among equals those in the worse state.

The exit code is 1 if nothing is found.`,
		Example: "  fairlead search web\n  fairlead search web edge-1\n  fairlead search env=prod --kind service -o name\n  fairlead search 9a1b2c3",
		Args:    app.WantArgs(1, 20),
	}
	cmd.Flags().StringSliceVar(&only, "kind", nil, "only of these `kinds`, with commas between them")
	cmd.Flags().Int32Var(&limit, "limit", 50, fmt.Sprintf("show so many at most, up to %d", mostFound))
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json, yaml or name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > mostFound {
			return fmt.Errorf("--limit %d: must be between 1 and %d", limit, mostFound)
		}
		req := &consolev1.SearchRequest{Text: strings.Join(args, " "), Limit: limit}
		if strings.TrimSpace(req.GetText()) == "" {
			return errors.New("the word to search for is empty: give a name, a label, a place or a commit, " +
				"or list all by `fairlead get KIND`")
		}
		for _, name := range only {
			k, err := resource.FindKind(name)
			if err != nil {
				return err
			}
			req.Kinds = append(req.Kinds, k.Number())
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
			defer cancel()
			res, err := h.Live.Search(ctx, req)
			if err != nil {
				return err
			}
			return printFound(a, res, format, req.GetText())
		})(cmd, nil)
	}
	return cmd
}

func printFound(a *app.App, res *consolev1.SearchResponse, format, text string) error {
	switch format {
	case app.FormatJSON, app.FormatYAML:
		return a.ShowPlain(format, res)
	case app.FormatTable, app.FormatName:
	default:
		return fmt.Errorf("what a search finds can be shown as table, json, yaml or name, not as %s", format)
	}
	t := table.New("KIND", "NAME", "STATE", "CLUSTER", "PROJECT", "BY")
	for _, r := range res.GetResults() {
		singular := "?" // of a hub that is newer
		if k, ok := kindtable.Numbered(r.GetKind()); ok {
			singular = k.Singular()
		}
		if format == app.FormatTable {
			t.AddRow(singular, r.GetName(), r.GetState(), r.GetCluster(), r.GetProject(), r.GetField())
		} else if err := a.Printf("%s/%s\n", singular, r.GetName()); err != nil {
			return err
		}
	}
	if len(res.GetResults()) == 0 {
		return fmt.Errorf("nothing that you may see has %q in its name, labels, project, cluster, namespace or source", text)
	}
	if more := int(res.GetTotalSize()) - len(res.GetResults()); more > 0 {
		defer a.Notef("%d more: give another word, --kind or --limit\n", more)
	}
	if format == app.FormatName {
		return nil
	}
	return a.WriteTable(t)
}
