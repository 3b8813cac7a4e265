package get

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
)

// showSessions shows the agents' connections to the tunnels, of some clusters or all.
func showSessions(ctx context.Context, a *app.App, h *hubclient.Hub, clusters []string, format string) error {
	list, err := a.ListSessions(ctx, h)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s *tunnelv1.Session) bool { return len(clusters) > 0 && !slices.Contains(clusters, s.GetCluster()) })
	slices.SortFunc(list, func(a, b *tunnelv1.Session) int {
		return cmp.Or(cmp.Compare(a.GetCluster(), b.GetCluster()), cmp.Compare(a.GetReplica(), b.GetReplica()),
			cmp.Compare(a.GetId(), b.GetId()))
	})
	return a.ShowListing(format, app.Listing{
		Whole: &tunnelv1.ListSessionsResponse{Sessions: list},
		Names: app.PrefixNames("session/", list, (*tunnelv1.Session).GetId),
		None:  "no sessions: `fairlead get clusters` says which agents are connected\n",
		Table: func(v view.View) *table.Table { return sessionTable(v, list) },
	})
}

func sessionTable(v view.View, list []*tunnelv1.Session) *table.Table {
	t := v.NewTable([]string{"CLUSTER", "REPLICA", "CONNECTED", "STREAMS", "RTT", "AGENT"}, "CARRIER", "SESSION")
	for _, s := range list {
		rtt := (time.Duration(s.GetRoundTripMicros()) * time.Microsecond).Round(100 * time.Microsecond)
		v.AddRow(t, []string{s.GetCluster(), s.GetReplica(), v.AgoText(s.GetConnectTime()), fmt.Sprint(s.GetStreams()), rtt.String(), s.GetAgentVersion()},
			s.GetCarrier(), s.GetId())
	}
	return t
}
