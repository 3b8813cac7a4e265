package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
)

// showSessions shows the agents' connections to the tunnels, of some clusters or all.
func (a *app) showSessions(ctx context.Context, h *hub.Hub, clusters []string, format string) error {
	list, err := a.listSessions(ctx, h)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s *tunnelv1.Session) bool { return len(clusters) > 0 && !slices.Contains(clusters, s.GetCluster()) })
	slices.SortFunc(list, func(a, b *tunnelv1.Session) int {
		return cmp.Or(cmp.Compare(a.GetCluster(), b.GetCluster()), cmp.Compare(a.GetReplica(), b.GetReplica()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return a.showListing(format, listing{
		whole: &tunnelv1.ListSessionsResponse{Sessions: list}, names: prefixNames("session/", list, (*tunnelv1.Session).GetId),
		none:  "no sessions: `fairlead get clusters` says which agents are connected\n",
		table: func(v view) *table.Table { return sessionTable(v, list) },
	})
}

func sessionTable(v view, list []*tunnelv1.Session) *table.Table {
	t := v.newTable([]string{"CLUSTER", "REPLICA", "CONNECTED", "STREAMS", "RTT", "AGENT"}, "CARRIER", "SESSION")
	for _, s := range list {
		rtt := (time.Duration(s.GetRoundTripMicros()) * time.Microsecond).Round(100 * time.Microsecond)
		v.addRow(t, []string{s.GetCluster(), s.GetReplica(), v.agoText(s.GetConnectTime()), fmt.Sprint(s.GetStreams()), rtt.String(), s.GetAgentVersion()},
			s.GetCarrier(), s.GetId())
	}
	return t
}

// listSessions asks one tunnel after the other until one answers: it speaks for all of them.
func (a *app) listSessions(ctx context.Context, h *hub.Hub) ([]*tunnelv1.Session, error) {
	err := errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	for _, url := range h.Context.Endpoints.Tunnels {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		var res *tunnelv1.ListSessionsResponse
		res, err = h.Tunnel(url).ListSessions(call, &tunnelv1.ListSessionsRequest{})
		cancel()
		if err == nil {
			for _, silent := range res.GetSilentReplicas() {
				a.notef("tunnel %s does not answer: its sessions are missing\n", silent)
			}
			return res.GetSessions(), nil
		}
	}
	return nil, err
}
