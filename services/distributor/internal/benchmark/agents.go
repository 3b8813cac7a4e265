package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// connections is how many agents ask, each over one of its own, with one call at a time.
const connections = 50

// agent is one cluster's, with a connection of its own.
type agent struct {
	rpc    deliveryv1connect.DeliveryServiceClient
	http   *http.Client
	digest string
}

func newAgent(i int, keys *identity.KeySet, url string, ca string) (*agent, error) {
	token, _, err := keys.Sign(identitytest.Bind(identity.Identity{Kind: identity.KindAgent, Name: clusterName(i)}), time.Hour)
	if err != nil {
		return nil, err
	}
	hc, err := client.New(client.Config{CAFile: ca})
	if err != nil {
		return nil, err
	}
	opts := append(client.Options(), client.WithToken(identitytest.Source(token, identity.ServiceDistributor)))
	return &agent{rpc: deliveryv1connect.NewDeliveryServiceClient(hc, url, opts...), http: hc}, nil
}

func (a *agent) sync(ctx context.Context) (*deliveryv1.SyncResponse, error) {
	return a.rpc.Sync(ctx, &deliveryv1.SyncRequest{
		Digest: a.digest, Agent: &deliveryv1.AgentInfo{Version: "v1.0.0", KubernetesVersion: "v1.36.1"},
	})
}

// syncs compares an unchanged Sync with a call that does nothing, in turn, so that both meet the same noise.
func syncs(ctx context.Context, rounds int, round time.Duration, stdout io.Writer) error {
	keys, err := identity.NewKeySet()
	if err != nil {
		return err
	}
	var cost [2]usage
	servers, fleets := [2]*started{}, [2][]*agent{}
	for i, what := range []string{"empty", "delivery"} {
		if servers[i], err = start(ctx, what, envKeys+"="+string(keys.PublicJWKS())); err != nil {
			return err
		}
		defer servers[i].stop()
		for j := range connections {
			a, err := newAgent(j, keys, servers[i].url, "")
			if err != nil {
				return err
			}
			defer a.http.CloseIdleConnections()
			a.digest = setDigest(j)
			fleets[i] = append(fleets[i], a)
		}
	}
	for _, a := range fleets[1] { // check that the agents measure what is meant
		if answer, err := a.sync(ctx); err != nil || answer.GetNotModified() == nil {
			return fmt.Errorf("got %v: %w", answer, err)
		}
	}
	for n := range rounds + 1 {
		for i := range servers {
			u, err := ask(ctx, servers[i], fleets[i], round)
			if err != nil {
				return err
			}
			if n > 0 { // the first warms up
				cost[i].calls += u.calls
				cost[i].cpu += u.cpu
			}
		}
	}
	fmt.Fprintf(stdout, "empty_per_core_second %.0f\n", cost[0].rate())
	fmt.Fprintf(stdout, "sync_per_core_second %.0f\n", cost[1].rate())
	return nil
}

// usage is what calls cost the server.
type usage struct {
	calls int64
	cpu   time.Duration
}

func (u usage) rate() float64 { return float64(u.calls) / u.cpu.Seconds() }

// ask has every agent call for a while, one call after the other.
func ask(ctx context.Context, s *started, fleet []*agent, during time.Duration) (usage, error) {
	before, err := s.cpu()
	if err != nil {
		return usage{}, err
	}
	end := time.Now().Add(during)
	counts, errs := make([]int64, len(fleet)), make([]error, len(fleet))
	var all sync.WaitGroup
	for i, a := range fleet {
		all.Go(func() {
			for time.Now().Before(end) {
				if _, errs[i] = a.sync(ctx); errs[i] != nil {
					return
				}
				counts[i]++
			}
		})
	}
	all.Wait()
	after, err := s.cpu()
	u := usage{cpu: after - before}
	for _, n := range counts {
		u.calls += n
	}
	return u, errors.Join(append(errs, err)...)
}
