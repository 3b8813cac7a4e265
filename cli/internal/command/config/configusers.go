package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// configUsers lists the services that get values, or one entry, from a resource.
func configUsers(a *app.App, cmd *cobra.Command, from, entry, format string) error {
	kindName, name, _ := strings.Cut(from, "/")
	if name == "" {
		return fmt.Errorf("--from %q: write KIND/NAME, such as configset/base", from)
	}
	k, err := resource.FindKind(kindName)
	if err != nil {
		return err
	}
	if err := app.CheckOneOf(format, formats()); err != nil {
		return err
	}
	return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error {
		all := &consolev1.ListConfigUsersResponse{}
		for token := ""; ; {
			res, err := pageOfUsers(ctx, h, &consolev1.ListConfigUsersRequest{Kind: k.Number(), Name: name, Entry: entry, PageSize: resource.PageSize, PageToken: token})
			if err != nil {
				return err
			}
			all.Users = append(all.Users, res.GetUsers()...)
			if token = res.GetNextPageToken(); token == "" {
				return printConfigUsers(a, all, format)
			}
		}
	})(cmd, nil)
}

func pageOfUsers(
	ctx context.Context, h *hubclient.Hub, req *consolev1.ListConfigUsersRequest,
) (*consolev1.ListConfigUsersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	return h.Configs.ListConfigUsers(ctx, req)
}

func printConfigUsers(a *app.App, all *consolev1.ListConfigUsersResponse, format string) error {
	switch format {
	case app.FormatJSON, app.FormatYAML:
		return a.ShowPlain(format, all)
	case app.FormatName:
		for _, u := range all.GetUsers() {
			if err := a.Printf("service/%s\n", u.GetService()); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all.GetUsers()) == 0 {
		return a.Printf("no service that you may see gets a value from it\n")
	}
	t := table.New("SERVICE", "CLUSTER", "ENTRY", "FROM", "OVER")
	for _, u := range all.GetUsers() {
		for _, e := range u.GetEntries() {
			t.AddRow(u.GetService(), u.GetCluster(), e.GetName(), e.GetOrigin(), e.GetOverriddenBy())
		}
	}
	return a.WriteTable(t)
}
