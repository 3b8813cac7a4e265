package paths

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// hub is a console, a tunnel and a Redis, each a process of its own. Connections are not encrypted: the peers that can
// do without are not either.
type hub struct {
	dir, secret  string
	console, url string // of the tunnel
	parts        []*process.Process
	tunnel       *process.Process
	redis        *gitcache.Alone
	http         *http.Client
	open         consolev1connect.IdentityServiceClient
	user         string // an administrator's token
}

func startHub(ctx context.Context, bins stack.Binaries, dir string) (h *hub, err error) {
	h = &hub{dir: dir, secret: rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.stop())
		}
	}()
	secretFile := filepath.Join(dir, "hub.secret")
	if err := os.WriteFile(secretFile, []byte(h.secret), 0o600); err != nil {
		return h, err
	}
	addrs, err := process.FreeAddresses(2)
	if err != nil {
		return h, err
	}
	h.console, h.url = "http://"+addrs[0], "http://"+addrs[1]
	if h.redis, err = gitcache.StartAlone(ctx, dir); err != nil {
		return h, err
	}
	if h.http, err = client.New(client.Config{}); err != nil {
		return h, err
	}
	part := func(i int, name string, args ...string) error {
		args = append(args, "--listen", addrs[i], "--data-dir", filepath.Join(dir, name), "--hub-secret-file", secretFile)
		p := process.New(dir, name, filepath.Join(bins.Dir, name), args...)
		h.parts = append(h.parts, p)
		if err := p.Start(); err != nil {
			return err
		}
		return h.ready(ctx, "http://"+addrs[i], p)
	}
	if err := part(0, "console", "--advertise-console", h.console, "--advertise-tunnels", h.url); err != nil {
		return h, err
	}
	if err := h.login(ctx); err != nil {
		return h, err
	}
	err = part(1, "tunnel", "--console-url", h.console, "--redis-url", h.redis.URL(), "--advertise-url", h.url)
	h.tunnel = h.parts[len(h.parts)-1]
	return h, err
}

func (h *hub) ready(ctx context.Context, url string, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return process.Await(ctx, p.Name+" is ready", func(ctx context.Context) error {
		if ended, err := p.Ended(); ended {
			cancel()
			return fmt.Errorf("%s ended: %w: %s", p.Name, err, p.Tail())
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := h.http.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

func (h *hub) login(ctx context.Context) error {
	h.open = consolev1connect.NewIdentityServiceClient(h.http, h.console, client.Options()...)
	resp, err := h.open.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
		HubSecret: h.secret, Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "bench"},
	})
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	h.user = resp.GetToken().GetToken()
	return nil
}

// join makes clusters, and has their agents join. join returns their tokens, by name.
func (h *hub) join(ctx context.Context, names []string) (map[string]string, error) {
	options := append(client.Options(), client.WithToken(identity.StaticToken(h.user)))
	clusters := consolev1connect.NewClusterServiceClient(h.http, h.console, options...)
	identities := consolev1connect.NewIdentityServiceClient(h.http, h.console, options...)
	for batch := range slices.Chunk(names, 500) {
		req := &consolev1.BatchUpdateClustersRequest{}
		for _, name := range batch {
			req.Requests = append(req.Requests, &consolev1.UpdateClusterRequest{
				AllowMissing: true, Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: name}},
			})
		}
		if _, err := clusters.BatchUpdateClusters(ctx, req); err != nil {
			return nil, err
		}
	}
	all := make([]string, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i, name := range names {
		group.Go(func() error {
			created, err := identities.CreateJoinToken(ctx, &consolev1.CreateJoinTokenRequest{Cluster: name})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			joined, err := h.open.JoinCluster(ctx, &consolev1.JoinClusterRequest{
				JoinToken: created.GetJoinToken(), Key: identitytest.AgentKey().ForJoin(created.GetJoinToken()),
			})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all[i] = joined.GetToken().GetToken()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	tokens := make(map[string]string, len(names))
	for i, name := range names {
		tokens[name] = strings.Clone(all[i])
	}
	return tokens, nil
}

func (h *hub) stop() error {
	var errs []error
	for _, p := range slices.Backward(h.parts) {
		errs = append(errs, p.Stop(40*time.Second))
	}
	if h.redis != nil {
		errs = append(errs, h.redis.Stop())
	}
	if h.http != nil {
		h.http.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
