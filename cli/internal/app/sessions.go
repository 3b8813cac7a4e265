package app

import (
	"context"
	"errors"

	"fairlead.dev/cli/internal/hubclient"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
)

// ListSessions asks one tunnel after the other until one answers: it speaks for all of them.
func (a *App) ListSessions(ctx context.Context, h *hubclient.Hub) ([]*tunnelv1.Session, error) {
	err := errors.New("the hub did not say where its tunnels are: set --advertise-tunnels at the console, then run `fairlead login` again")
	for _, url := range h.Context.Endpoints.Tunnels {
		call, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
		var res *tunnelv1.ListSessionsResponse
		res, err = h.Tunnel(url).ListSessions(call, &tunnelv1.ListSessionsRequest{})
		cancel()
		if err == nil {
			for _, silent := range res.GetSilentReplicas() {
				a.Notef("tunnel %s does not answer: its sessions are missing\n", silent)
			}
			return res.GetSessions(), nil
		}
	}
	return nil, err
}
