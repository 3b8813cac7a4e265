package gitcache

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
)

// api calls the hub: as an administrator, and as a distributor.
type api struct {
	http        *http.Client
	distributor identity.TokenSource
	secret      *hubsecret.File
	admin       identity.TokenSource

	sources  consolev1connect.SourceServiceClient
	services consolev1connect.ServiceServiceClient
	clusters consolev1connect.ClusterServiceClient
	catalog  consolev1connect.CatalogServiceClient
}

func newAPI(hc *http.Client, console, secretFile string) *api {
	exchange := consolev1connect.NewIdentityServiceClient(hc, console, client.Options()...)
	a := &api{
		http: hc, secret: hubsecret.Open(secretFile),
		distributor: &tokens{exchange: exchange, secret: secretFile, of: func(r *consolev1.ExchangeHubSecretRequest) {
			r.Subject = &consolev1.ExchangeHubSecretRequest_Service{Service: identity.ServiceDistributor}
		}},
		admin: &tokens{exchange: exchange, secret: secretFile, of: func(r *consolev1.ExchangeHubSecretRequest) {
			r.Subject = &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "e2e"}
		}},
	}
	options := append(client.Options(), client.WithToken(a.admin))
	a.sources = consolev1connect.NewSourceServiceClient(hc, console, options...)
	a.services = consolev1connect.NewServiceServiceClient(hc, console, options...)
	a.clusters = consolev1connect.NewClusterServiceClient(hc, console, options...)
	a.catalog = consolev1connect.NewCatalogServiceClient(hc, console,
		append(client.Options(), client.WithToken(a.sendTo(identity.ServiceConsole)), connect.WithHTTPGet())...)
	return a
}

// sendTo is the source of the distributor's tokens for one service.
func (a *api) sendTo(service string) identity.TokenSource {
	return identity.SendTo(service, a.distributor, a.secret)
}

func (a *api) artifacts(url string) artifactv1connect.ArtifactServiceClient {
	return artifactv1connect.NewArtifactServiceClient(a.http, url, append(client.Options(), client.WithToken(a.sendTo(identity.ServiceGitcache)))...)
}

func (a *api) live(url string) gitcachev1connect.SourceServiceClient {
	return gitcachev1connect.NewSourceServiceClient(a.http, url, append(client.Options(), client.WithToken(a.admin))...)
}

// bytes is the client for artifacts.
func (a *api) bytes() *http.Client {
	return &http.Client{Transport: client.Authorize(a.http.Transport, a.sendTo(identity.ServiceGitcache))}
}

// asAdmin is the client for other plain requests.
func (a *api) asAdmin() *http.Client {
	return &http.Client{Transport: client.Authorize(a.http.Transport, a.admin)}
}

// tokens exchanges the hub's secret whenever the last token gets old.
type tokens struct {
	exchange consolev1connect.IdentityServiceClient
	secret   string // file
	of       func(*consolev1.ExchangeHubSecretRequest)

	mu    sync.Mutex // guards what follows
	token string
	until time.Time
}

// Token implements identity.TokenSource.
func (t *tokens) Token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.until) {
		return t.token, nil
	}
	secret, err := os.ReadFile(t.secret)
	if err != nil {
		return "", err
	}
	req := &consolev1.ExchangeHubSecretRequest{HubSecret: strings.TrimSpace(string(secret))}
	t.of(req)
	resp, err := t.exchange.ExchangeHubSecret(ctx, req)
	if err != nil {
		return "", err
	}
	t.token = resp.GetToken().GetToken()
	t.until = time.Now().Add(time.Until(resp.GetToken().GetExpireTime().AsTime()) / 2)
	return t.token, nil
}

// AddRepos creates repositories with a first commit, and for each a source that is polled at the
// interval and a service.
func (f *Fleet) AddRepos(ctx context.Context, prefix string, n int, interval time.Duration) error {
	for i := range n {
		r, err := f.Host.Create(ctx, fmt.Sprintf("%s-%d", prefix, i))
		if err != nil {
			return err
		}
		if err := f.Follow(ctx, r.Name, interval); err != nil {
			return err
		}
		f.mu.Lock()
		f.repos = append(f.repos, r)
		f.mu.Unlock()
	}
	return nil
}

// Repos are those of AddRepos.
func (f *Fleet) Repos() []*Repo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clip(f.repos)
}

// clusterName is where all services should run; nobody is there.
const clusterName = "nowhere"

// Follow makes a source and a service of a repository on the Git host.
func (f *Fleet) Follow(ctx context.Context, repo string, interval time.Duration) error {
	spec := &consolev1.SourceSpec{Git: &consolev1.GitSource{Url: f.Host.URL(repo), Interval: durationpb.New(interval)}}
	return f.FollowAs(ctx, repo, spec, repo, &consolev1.ServiceSpec{Path: Folder})
}

// code of an error of the hub, for messages.
func code(err error) string { return connect.CodeOf(err).String() }
