package get

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// showLogins shows the caller's logins, those of some ids or all.
func showLogins(ctx context.Context, a *app.App, h *hubclient.Hub, ids []string, format string) error {
	list, err := listLogins(ctx, h)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(l *consolev1.Login) bool { return len(ids) > 0 && !slices.Contains(ids, l.GetId()) })
	return a.ShowListing(format, app.Listing{
		Whole: &consolev1.ListLoginsResponse{Logins: list},
		Names: app.PrefixNames("login/", list, (*consolev1.Login).GetId),
		None:  "no such login\n",
		Table: func(v view.View) *table.Table { return loginTable(a, v, list) },
	})
}

func loginTable(a *app.App, v view.View, list []*consolev1.Login) *table.Table {
	t := v.NewTable([]string{"CURRENT", "ID", "CLIENT", "SINCE", "USED", "FROM", "PROGRAM"}, "BEGAN-BY", "BEGAN-FROM", "ENDS")
	for _, l := range list {
		mark := ""
		if l.GetOwn() {
			mark = "*"
		}
		v.AddRow(t, []string{
			mark, l.GetId(), clientText(l.GetClient()), v.AgoText(l.GetBeginTime()), v.AgoText(l.GetLastUseTime()),
			cmp.Or(l.GetLastUseAddress(), l.GetBeginAddress(), "-"), cmp.Or(table.CleanText(l.GetProgram()), "-"),
		}, cmp.Or(l.GetAction(), "-"), cmp.Or(l.GetBeginAddress(), "-"), a.FormatMoment(l.GetExpireTime()))
	}
	return t
}

func clientText(c consolev1.LoginClient) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "LOGIN_CLIENT_"))
}

func listLogins(ctx context.Context, h *hubclient.Hub) (list []*consolev1.Login, err error) {
	for token := ""; ; {
		call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		res, err := h.Logins.ListLogins(call, &consolev1.ListLoginsRequest{PageSize: 1000, PageToken: token})
		cancel()
		if err != nil {
			return nil, err
		}
		list = append(list, res.GetLogins()...)
		if token = res.GetNextPageToken(); token == "" {
			return list, nil
		}
	}
}
