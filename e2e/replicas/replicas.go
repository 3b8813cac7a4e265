// Package replicas runs two built consoles over one real PostgreSQL, kills them while clients write, and judges them
// against a model of what the clients were told: each write that was acknowledged is there, each that was not is there
// wholly or not at all, and who follows from replica to replica by resume tokens learns of each change once, in order.
package replicas

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fairlead.dev/e2e/process"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
)

// Pair is two consoles over one database.
type Pair struct {
	Replicas [2]*Replica
	http     *http.Client
}

// Replica is a console and its API: as an administrator sees it, but for the catalog's Watch.
type Replica struct {
	*process.Process
	url      string
	clusters consolev1connect.ClusterServiceClient
	services consolev1connect.ServiceServiceClient
	sources  consolev1connect.SourceServiceClient
	levers   consolev1connect.SyncServiceClient
	applies  consolev1connect.ApplyServiceClient
	history  consolev1connect.RevisionServiceClient
	events   consolev1connect.EventServiceClient
	live     consolev1connect.LiveServiceClient
	catalog  consolev1connect.CatalogServiceClient
}

// Start starts two consoles with the same keys.
func Start(ctx context.Context, binary, dir, databaseURL string) (*Pair, error) {
	hubSecret, key := rand.Text(), make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	secretFile, keyFile := filepath.Join(dir, "hub.secret"), filepath.Join(dir, "master.key")
	for file, text := range map[string]string{secretFile: hubSecret, keyFile: base64.StdEncoding.EncodeToString(key)} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	addrs, err := process.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	p := &Pair{}
	if p.http, err = client.New(client.Config{}); err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		name := fmt.Sprintf("console-%d", i)
		run := process.New(dir, name, binary, "--listen", addr, "--data-dir", filepath.Join(dir, name),
			"--database-url", databaseURL, "--hub-secret-file", secretFile, "--master-key-file", keyFile)
		if err := run.Start(); err != nil {
			return p, err
		}
		p.Replicas[i] = &Replica{Process: run, url: "http://" + addr}
	}
	for _, r := range p.Replicas {
		if err := p.Ready(ctx, r); err != nil {
			return p, err
		}
	}
	for _, r := range p.Replicas {
		r.connect(p.http, p.Replicas[0].exchange(p.http, hubSecret))
	}
	return p, nil
}

// Ready waits until a replica answers.
func (p *Pair) Ready(ctx context.Context, r *Replica) error {
	return process.Await(ctx, r.Name+" is ready", func(ctx context.Context) error { return p.ready(ctx, r) })
}

func (p *Pair) ready(ctx context.Context, r *Replica) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	return nil
}

// rest waits until one of them answers, as clients do that lost theirs.
func (p *Pair) rest(ctx context.Context) {
	i := 0
	_ = process.Await(ctx, "a console is there", func(ctx context.Context) error { // or ctx ends, which the caller sees
		i++
		return p.ready(ctx, p.Replicas[i%len(p.Replicas)])
	})
}

// Stop ends both.
func (p *Pair) Stop() (err error) {
	for _, r := range p.Replicas {
		if r == nil {
			continue
		}
		if stopped := r.Stop(time.Minute); stopped != nil {
			err = stopped
		}
	}
	p.http.CloseIdleConnections()
	return err
}

// exchange returns tokens of a subject, each asked for once: they last for longer than the test, at both replicas.
func (r *Replica) exchange(hc *http.Client, secret string) func(*consolev1.ExchangeHubSecretRequest) identity.TokenSource {
	exchange := consolev1connect.NewIdentityServiceClient(hc, r.url, client.Options()...)
	return func(req *consolev1.ExchangeHubSecretRequest) identity.TokenSource {
		req.HubSecret = secret
		return identity.SendTo(identity.ServiceConsole, &onceToken{exchange: exchange, req: req}, hubsecret.Text(secret))
	}
}

type onceToken struct {
	exchange consolev1connect.IdentityServiceClient
	req      *consolev1.ExchangeHubSecretRequest

	mu    sync.Mutex
	token string // guarded by mu
}

// Token implements identity.TokenSource.
func (o *onceToken) Token(ctx context.Context) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.token == "" {
		resp, err := o.exchange.ExchangeHubSecret(ctx, o.req)
		if err != nil {
			return "", err
		}
		o.token = strings.TrimSpace(resp.GetToken().GetToken())
	}
	return o.token, nil
}

func (r *Replica) connect(hc *http.Client, exchange func(*consolev1.ExchangeHubSecretRequest) identity.TokenSource) {
	admin := append(client.Options(), client.WithToken(exchange(&consolev1.ExchangeHubSecretRequest{
		Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "e2e"},
	})))
	distributor := append(client.Options(), client.WithToken(exchange(&consolev1.ExchangeHubSecretRequest{
		Subject: &consolev1.ExchangeHubSecretRequest_Service{Service: identity.ServiceDistributor},
	})))
	r.clusters = consolev1connect.NewClusterServiceClient(hc, r.url, admin...)
	r.services = consolev1connect.NewServiceServiceClient(hc, r.url, admin...)
	r.sources = consolev1connect.NewSourceServiceClient(hc, r.url, admin...)
	r.levers = consolev1connect.NewSyncServiceClient(hc, r.url, admin...)
	r.applies = consolev1connect.NewApplyServiceClient(hc, r.url, admin...)
	r.history = consolev1connect.NewRevisionServiceClient(hc, r.url, admin...)
	r.events = consolev1connect.NewEventServiceClient(hc, r.url, admin...)
	r.live = consolev1connect.NewLiveServiceClient(hc, r.url, admin...)
	r.catalog = consolev1connect.NewCatalogServiceClient(hc, r.url, distributor...)
}
