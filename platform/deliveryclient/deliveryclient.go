// Package deliveryclient is the agents' side of the hub, for the agent and for the simulator of a fleet: it finds a
// distributor that answers and keeps to it while it works, asks what should be in a cluster (one
// conditional call per poll), and asks at once when it is nudged.
package deliveryclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/compression"
	"fairlead.dev/platform/smallframes"
)

// ErrNone: the agent was told of no distributor.
var ErrNone = errors.New("the hub has named no distributor: check the console's --advertise-distributors")

// Distributor is one to talk to. HTTP carries the agent's credential.
type Distributor struct {
	URL string
	RPC deliveryv1connect.DeliveryServiceClient
	// Details is for what is too much for reports.
	Details deliveryv1connect.DetailServiceClient
	// Views takes in the view of the cluster.
	Views deliveryv1connect.ViewServiceClient
	HTTP  *http.Client
}

// Distributors is the list of them. Distributors is safe for concurrent use.
type Distributors struct {
	client  *http.Client
	rpc     *http.Client // the same, for calls
	options []connect.ClientOption
	refused func()

	mu   sync.Mutex // guards what follows
	list []Distributor
	at   int // the one that is used
}

// New returns an empty list; client sends the agent's token with every request. Refused is called when
// a token is not accepted.
func New(client *http.Client, refused func(), options ...connect.ClientOption) *Distributors {
	rpc := *client
	rpc.Transport = smallframes.Transport(client.Transport)
	return &Distributors{client: client, rpc: &rpc, options: append(options, compression.Client()), refused: refused}
}

// Set replaces the list. The distributor in use stays in use if it is still there; a new agent begins
// anywhere, so that agents spread.
func (d *Distributors) Set(urls []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var using string
	if len(d.list) > 0 {
		using = d.list[d.at].URL
	}
	d.list, d.at = nil, 0
	for _, url := range urls {
		d.list = append(d.list, Distributor{
			URL: url, HTTP: d.client, RPC: deliveryv1connect.NewDeliveryServiceClient(d.rpc, url, d.options...),
			Details: deliveryv1connect.NewDetailServiceClient(d.client, url, d.options...),
			Views:   deliveryv1connect.NewViewServiceClient(d.client, url, d.options...),
		})
	}
	if at := slices.Index(urls, using); at >= 0 {
		d.at = at
	} else if len(urls) > 0 {
		d.at = rand.IntN(len(urls)) //nolint:gosec // spread, not secrecy
	}
}

// Current is the distributor in use.
func (d *Distributors) Current() (Distributor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) == 0 {
		return Distributor{}, ErrNone
	}
	return d.list[d.at], nil
}

// Failed goes on to the next distributor if this one is still in use.
func (d *Distributors) Failed(url string, err error) {
	if connect.CodeOf(err) == connect.CodeUnauthenticated && d.refused != nil {
		d.refused()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) > 0 && d.list[d.at].URL == url {
		d.at = (d.at + 1) % len(d.list)
	}
}

// Try calls do with one distributor after the other until one does not fail. The error is the last one.
func (d *Distributors) Try(ctx context.Context, do func(context.Context, Distributor) error) error {
	d.mu.Lock()
	count := len(d.list)
	d.mu.Unlock()
	err := ErrNone
	for range count {
		var one Distributor
		if one, err = d.Current(); err != nil {
			return err
		}
		if err = do(ctx, one); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = fmt.Errorf("%s: %w", one.URL, err)
		d.Failed(one.URL, err)
		if !elsewhere(err) {
			return err
		}
	}
	return err
}

// elsewhere says whether another distributor could answer differently.
func elsewhere(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeInvalidArgument:
		return false
	}
	return true
}
