package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/manifest"
)

// differs is the exit code of a diff that is not empty.
const differs = 2

func (a *app) diff() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "diff service NAME",
		Short: "Show what a sync of a service would change in its cluster",
		Long: `Show what a sync of a service would change in its cluster.

The agent finds out by dry runs of the API server whenever something waits: for a service that is held, in dry run,
or waits for another one. Values of Secrets are left out. + is made, ~ is changed, - is removed, -/+ is deleted and
made anew, ! is refused by the API server. The exit code is 2 if there is a difference.`,
		Example: `  fairlead hold service shop --mode dry-run --reason "a look first" --wait
  fairlead diff service shop`,
		Args: wants(2, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "form of the output: table, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := findKind(args[0]); err != nil || k.kind != manifest.Service {
			return usage(cmd)
		}
		if err := checkPlainFormat(format); err != nil {
			return err
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			return a.showDiff(ctx, h, args[0], format)
		})(cmd, args[1:])
	}
	return cmd
}

func (a *app) showDiff(ctx context.Context, h *hub.Hub, name, format string) error {
	got, err := h.Objects.GetServiceDiff(ctx, &consolev1.GetServiceDiffRequest{Name: name})
	if err != nil {
		return err
	}
	if format != formatTable {
		err = a.showPlain(format, got)
	} else {
		err = a.printf("%s", diffText(got.GetDiff()))
	}
	if err != nil {
		return err
	}
	service, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "found out %s ago\n", table.Age(a.Now(), got.GetObservedTime().AsTime()))
	if service.GetService().GetStatus().GetHub().GetDigest() != got.GetDigest() {
		fmt.Fprintln(a.Stderr, "something else is handed out by now: this is about what was before")
	}
	if d := got.GetDiff(); d.GetCreated()+d.GetChanged()+d.GetRemoved() > 0 {
		return flags.Exit(differs)
	}
	return nil
}

// diffText is a diff for people.
func diffText(d *deliveryv1.Diff) string {
	signs := map[deliveryv1.Change]string{
		deliveryv1.Change_CHANGE_CREATE: "+", deliveryv1.Change_CHANGE_UPDATE: "~", deliveryv1.Change_CHANGE_REMOVE: "-",
		deliveryv1.Change_CHANGE_RECREATE: "-/+", deliveryv1.Change_CHANGE_REFUSED: "!",
	}
	var b strings.Builder
	for _, o := range d.GetObjects() {
		fmt.Fprintf(&b, "%s %s", signs[o.GetChange()], objectTitle(o.GetKind(), o.GetNamespace(), o.GetName()))
		if o.GetMessage() != "" {
			b.WriteString(": " + table.Clean(o.GetMessage()))
		}
		b.WriteString("\n")
		for _, f := range o.GetFields() {
			fmt.Fprintf(&b, "    %s: %s", table.Clean(f.GetPointer()), values(f))
			if f.GetManager() != "" && f.GetManager() != "fairlead" {
				fmt.Fprintf(&b, "  (set by %s)", table.Clean(f.GetManager()))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "%d created, %d changed, %d removed, %d unchanged\n", d.GetCreated(), d.GetChanged(), d.GetRemoved(), d.GetUnchanged())
	return b.String()
}

func values(f *deliveryv1.FieldDiff) string {
	live, wanted := table.Clean(f.GetLive()), table.Clean(f.GetWanted())
	switch {
	case live == "" && wanted == "":
		return "changes (not shown)"
	case live == "":
		return "-> " + wanted
	case wanted == "":
		return live + " -> (gone)"
	}
	return live + " -> " + wanted
}

func objectTitle(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return table.Clean(kind + " " + name)
}
