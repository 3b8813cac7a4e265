package compose

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// highAvailability kills one of everything at once, and then the others, while agents ask all the time: no unchanged
// Sync fails, and commits arrive.
func highAvailability(t *testing.T, e *engine) {
	s := e.up(t, "ha")
	s.awaitApplied(t, s.push(t))
	// each agent asks five times a second: together as often as 12,000 agents with their polls of 2 min
	load := s.startAgents(t, 20)
	t.Run("the first of each die", func(t *testing.T) {
		load.goesOn(t, func() {
			s.without(t, func() { s.awaitApplied(t, s.push(t)) },
				"console-1", "gitcache-1", "distributor-1", "tunnel-1", "sentinel-1")
		})
	})
	t.Run("the second of each die, and the master", func(t *testing.T) {
		load.goesOn(t, func() {
			master := s.master(t)
			s.without(t, func() {
				s.await(t, "another Redis is the master", func(context.Context) error {
					if s.master(t) == master {
						return errors.New("it is not yet")
					}
					return nil
				})
				s.awaitApplied(t, s.push(t))
			}, "console-2", "gitcache-2", "distributor-2", "tunnel-2", master)
		})
	})
	t.Logf("%d Syncs were answered", load.stop(t))
	checkRights(t, s)
	s.downToNothing(t)
}

// master is the Redis that the sentinels name.
func (s *composed) master(t *testing.T) string {
	t.Helper()
	said := s.compose(t, "exec", "--no-TTY", "sentinel-2", "sh", "-c",
		"REDISCLI_AUTH=$(cat /run/fairlead/redis/password) redis-cli -h localhost -p 26379 --tls --cacert /run/fairlead/redis/ca.crt sentinel get-master-addr-by-name fairlead")
	return strings.Fields(said)[0]
}

// agents ask whether there is anything new, and there never is.
type agents struct {
	cancel   context.CancelFunc
	running  sync.WaitGroup
	answered atomic.Int64

	mu     sync.Mutex // guards failed
	failed []error
}

func (s *composed) startAgents(t *testing.T, n int) *agents {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	a := &agents{cancel: cancel}
	t.Cleanup(func() { cancel(); a.running.Wait() })
	tokens := s.joinAgents(t, n)
	for _, token := range tokens {
		hc := s.named(t)
		hc.Transport = client.Authorize(hc.Transport, identitytest.Source(token, identity.ServiceDistributor))
		distributors := deliveryclient.New(hc, nil, client.Options()...)
		distributors.Set([]string{"https://distributor-1:7402", "https://distributor-2:7402"})
		s.await(t, "the cluster is known", func(ctx context.Context) error { return syncOnce(ctx, distributors) })
		a.running.Go(func() { a.run(ctx, distributors) })
	}
	return a
}

// run asks until ctx ends.
func (a *agents) run(ctx context.Context, distributors *deliveryclient.Distributors) {
	const pause = 200 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		switch err := syncOnce(ctx, distributors); {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.mu.Lock()
			a.failed = append(a.failed, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
			a.mu.Unlock()
		default:
			a.answered.Add(1)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// goesOn does something, and wants Syncs to be answered meanwhile.
func (a *agents) goesOn(t *testing.T, do func()) {
	t.Helper()
	before := a.answered.Load()
	do()
	if a.answered.Load() == before {
		t.Error("no Sync was answered meanwhile")
	}
}

// stop ends the load; it returns how many Syncs were answered, and none may have failed.
func (a *agents) stop(t *testing.T) int64 {
	t.Helper()
	a.cancel()
	a.running.Wait()
	if len(a.failed) > 0 {
		t.Errorf("%d Syncs failed; the first: %v", len(a.failed), a.failed[0])
	}
	return a.answered.Load()
}

// syncOnce is a poll of an agent that has nothing and shall have nothing.
func syncOnce(ctx context.Context, distributors *deliveryclient.Distributors) error {
	return distributors.Try(ctx, func(ctx context.Context, one deliveryclient.Distributor) error {
		answer, err := one.RPC.Sync(ctx, &deliveryv1.SyncRequest{
			Digest: delivery.SetDigest(nil), Agent: &deliveryv1.AgentInfo{Version: "simulated"},
		})
		if err == nil && answer.GetNotModified() == nil {
			err = errors.New("something is new")
		}
		return err
	})
}

// joinAgents makes clusters and has an agent join each. joinAgents returns their tokens.
func (s *composed) joinAgents(t *testing.T, n int) []string {
	t.Helper()
	const console = "https://console:7400"
	hc := s.named(t)
	open := consolev1connect.NewIdentityServiceClient(hc, console, client.Options()...)
	var admin string
	s.await(t, "an administrator has a token", func(ctx context.Context) error {
		exchanged, err := open.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
			HubSecret: s.secret(t, "hub", "hub.secret"),
			Subject:   &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "test"},
		})
		admin = exchanged.GetToken().GetToken()
		return err
	})
	options := append([]connect.ClientOption{client.WithToken(identity.StaticToken(admin))}, client.Options()...)
	clusters := consolev1connect.NewClusterServiceClient(hc, console, options...)
	identities := consolev1connect.NewIdentityServiceClient(hc, console, options...)
	tokens := make([]string, n)
	for i := range tokens {
		name := fmt.Sprintf("load-%d", i)
		s.await(t, name+" has joined", func(ctx context.Context) error {
			if _, err := clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{
				AllowMissing: true, Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: name}},
			}); err != nil {
				return err
			}
			created, err := identities.CreateJoinToken(ctx, &consolev1.CreateJoinTokenRequest{Cluster: name})
			if err != nil {
				return err
			}
			joined, err := open.JoinCluster(ctx, &consolev1.JoinClusterRequest{
				JoinToken: created.GetJoinToken(), Key: identitytest.AgentKey().ForJoin(created.GetJoinToken()),
			})
			tokens[i] = joined.GetToken().GetToken()
			return err
		})
	}
	return tokens
}

// named is a client that finds services by their names, as containers do.
func (s *composed) named(t *testing.T) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.secret(t, "tls", "ca.crt"))) {
		t.Fatal("no authority")
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			service, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			if service == "console" {
				service = "balancer" // which has that name, too
			}
			ip, err := s.docker(ctx, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
				"fairlead-"+service+"-1")
			if err == nil && ip == "" {
				err = fmt.Errorf("%s is dead", service)
			}
			if err != nil {
				return nil, err
			}
			return s.dial(ctx, network, net.JoinHostPort(ip, port))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
