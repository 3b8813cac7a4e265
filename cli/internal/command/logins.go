package command

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/plural"
)

// showLogins shows the caller's logins, those of some ids or all.
func (a *app) showLogins(ctx context.Context, h *hub.Hub, ids []string, format string) error {
	list, err := listLogins(ctx, h)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(l *consolev1.Login) bool { return len(ids) > 0 && !slices.Contains(ids, l.GetId()) })
	return a.showListing(format, listing{
		whole: &consolev1.ListLoginsResponse{Logins: list}, names: prefixNames("login/", list, (*consolev1.Login).GetId),
		none:  "no such login\n",
		table: func(v view) *table.Table { return a.loginTable(v, list) },
	})
}

func (a *app) loginTable(v view, list []*consolev1.Login) *table.Table {
	t := v.newTable([]string{"CURRENT", "ID", "CLIENT", "SINCE", "USED", "FROM", "PROGRAM"}, "BEGAN-BY", "BEGAN-FROM", "ENDS")
	for _, l := range list {
		mark := ""
		if l.GetOwn() {
			mark = "*"
		}
		v.addRow(t, []string{
			mark, l.GetId(), clientText(l.GetClient()), v.agoText(l.GetBeginTime()), v.agoText(l.GetLastUseTime()),
			cmp.Or(l.GetLastUseAddress(), l.GetBeginAddress(), "-"), cmp.Or(stripControls(l.GetProgram()), "-"),
		}, cmp.Or(l.GetAction(), "-"), cmp.Or(l.GetBeginAddress(), "-"), a.formatMoment(l.GetExpireTime()))
	}
	return t
}

func clientText(c consolev1.LoginClient) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "LOGIN_CLIENT_"))
}

func listLogins(ctx context.Context, h *hub.Hub) (list []*consolev1.Login, err error) {
	for token := ""; ; {
		call, cancel := context.WithTimeout(ctx, callTimeout)
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

// endLogins ends the caller's logins of some ids, or without any all but the one that is used here.
func (a *app) endLogins(ids []string) func(*cobra.Command, []string) error {
	return a.hubCommand(func(ctx context.Context, h *hub.Hub, _ []string) error {
		if len(ids) == 0 {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			res, err := h.Logins.EndOtherLogins(call, &consolev1.EndOtherLoginsRequest{})
			if err != nil {
				return err
			}
			return a.printf("%s ended\n", plural.Of(int(res.GetEnded()), "other login"))
		}
		for _, id := range ids {
			id = strings.TrimPrefix(id, "login/")
			call, cancel := context.WithTimeout(ctx, callTimeout)
			_, err := h.Logins.EndLogin(call, &consolev1.EndLoginRequest{Id: id})
			cancel()
			if err != nil {
				return err
			}
			if err := a.printf("login/%s ended\n", id); err != nil {
				return err
			}
		}
		return nil
	})
}
