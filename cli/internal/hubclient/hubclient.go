// Package hubclient is the CLI's side of a hub: clients for its services that use and renew the token of a
// context, and errors in words that say what to do.
package hubclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/contexts"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/loopback"
	"fairlead.dev/platform/version"
)

// Hub is a hub that the CLI is logged in to.
type Hub struct {
	Context contexts.Context
	// HTTP sends the token of the context with every request.
	HTTP *http.Client

	Identity consolev1connect.IdentityServiceClient
	Sources  consolev1connect.SourceServiceClient
	Clusters consolev1connect.ClusterServiceClient
	Services consolev1connect.ServiceServiceClient
	Secrets  consolev1connect.SecretServiceClient
	Grants   consolev1connect.GrantServiceClient
	Projects consolev1connect.ProjectServiceClient
	Globals  consolev1connect.GlobalServiceServiceClient
	Sets     consolev1connect.ConfigSetServiceClient
	Backends consolev1connect.BackendServiceClient
	Sinks    consolev1connect.SinkServiceClient
	Alerts   consolev1connect.AlertServiceClient
	ViewSets consolev1connect.ViewSetServiceClient
	Configs  consolev1connect.ConfigServiceClient
	Roles    consolev1connect.RoleServiceClient
	Accounts consolev1connect.ServiceAccountServiceClient
	Applies  consolev1connect.ApplyServiceClient
	Audit    consolev1connect.AuditServiceClient
	Events   consolev1connect.EventServiceClient
	Live     consolev1connect.LiveServiceClient
	Access   consolev1connect.AccessServiceClient
	Lending  consolev1connect.LendingServiceClient
	// Recordings are of shells.
	Recordings consolev1connect.RecordingServiceClient
	Tokens     consolev1connect.TokenServiceClient
	Logins     consolev1connect.LoginServiceClient
	Levers     consolev1connect.SyncServiceClient
	Objects    consolev1connect.ObjectServiceClient
	Views      consolev1connect.ClusterViewServiceClient
	History    consolev1connect.RevisionServiceClient
	Tests      consolev1connect.TestServiceClient
	Admin      consolev1connect.AdminServiceClient
}

// Connect makes the clients for a context. Connect makes no call, unless the token has to be renewed.
func Connect(ctx context.Context, store *contexts.Store, name string) (*Hub, error) {
	c, err := store.Get(name)
	if err != nil {
		return nil, err
	}
	h, err := newHub(c)
	if err != nil {
		return nil, err
	}
	if renewed, ok := h.renewToken(ctx, time.Now()); ok {
		// The token is good even if it can't be kept; the next command tries again.
		_ = store.Update(renewed)
		return newHub(renewed)
	}
	return h, nil
}

// lentFor is how long the other services of a hub take the token that is lent for a command with FAIRLEAD_TOKEN.
const lentFor = time.Hour

// ConnectToken makes the clients for a hub and a token that is in no context. The console takes the token as it is; the
// other services get one that is lent by it.
func ConnectToken(ctx context.Context, at, ca, token string) (*Hub, error) {
	base, err := checkURL(at)
	if err != nil {
		return nil, err
	}
	c := contexts.Context{Name: FromEnvironment, URL: base, CA: ca, Token: token}
	h, err := newHub(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, AsideTimeout)
	defer cancel()
	res, err := h.Identity.RenewToken(ctx, &consolev1.RenewTokenRequest{Lifetime: durationpb.New(lentFor), RequestsOutlive: true})
	if code := connect.CodeOf(err); err != nil && code == connect.CodeUnauthenticated {
		return nil, err
	} else if err != nil {
		return h, nil // a token that can't lend does for the console
	}
	lent := contextOf(c, res.GetToken(), res.GetEndpoints(), time.Now())
	h.Context.Endpoints = lent.Endpoints
	console := h.HTTP.Transport
	plain, err := newHTTPClient(ca)
	if err != nil {
		return nil, err
	}
	h.HTTP.Transport = byHost{
		base: base, console: console, RoundTripper: client.Authorize(plain.Transport, identity.StaticToken(lent.Token)),
	}
	return h, nil
}

// FromEnvironment is the name of what takes the place of a context where the token is in the environment.
const FromEnvironment = "FAIRLEAD_TOKEN"

// byHost sends requests for the console its own way.
type byHost struct {
	base    string
	console http.RoundTripper
	http.RoundTripper
}

func (t byHost) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasPrefix(req.URL.String(), t.base+"/fairlead.console.") {
		return t.console.RoundTrip(req)
	}
	return t.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections implements what http.Client asks for.
func (t byHost) CloseIdleConnections() {
	for _, rt := range []http.RoundTripper{t.console, t.RoundTripper} {
		if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}

func newHub(c contexts.Context) (*Hub, error) {
	hc, err := newHTTPClient(c.CA)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", c.Name, err)
	}
	opts := append(client.Options(), connect.WithInterceptors(newExplainer(c)))
	hc.Transport = client.Authorize(hc.Transport, identity.StaticToken(c.Token))
	return &Hub{
		Context:    c,
		HTTP:       hc,
		Identity:   consolev1connect.NewIdentityServiceClient(hc, c.URL, opts...),
		Sources:    consolev1connect.NewSourceServiceClient(hc, c.URL, opts...),
		Clusters:   consolev1connect.NewClusterServiceClient(hc, c.URL, opts...),
		Services:   consolev1connect.NewServiceServiceClient(hc, c.URL, opts...),
		Secrets:    consolev1connect.NewSecretServiceClient(hc, c.URL, opts...),
		Grants:     consolev1connect.NewGrantServiceClient(hc, c.URL, opts...),
		Projects:   consolev1connect.NewProjectServiceClient(hc, c.URL, opts...),
		Globals:    consolev1connect.NewGlobalServiceServiceClient(hc, c.URL, opts...),
		Sets:       consolev1connect.NewConfigSetServiceClient(hc, c.URL, opts...),
		Backends:   consolev1connect.NewBackendServiceClient(hc, c.URL, opts...),
		Sinks:      consolev1connect.NewSinkServiceClient(hc, c.URL, opts...),
		Alerts:     consolev1connect.NewAlertServiceClient(hc, c.URL, opts...),
		ViewSets:   consolev1connect.NewViewSetServiceClient(hc, c.URL, opts...),
		Configs:    consolev1connect.NewConfigServiceClient(hc, c.URL, opts...),
		Roles:      consolev1connect.NewRoleServiceClient(hc, c.URL, opts...),
		Accounts:   consolev1connect.NewServiceAccountServiceClient(hc, c.URL, opts...),
		Applies:    consolev1connect.NewApplyServiceClient(hc, c.URL, opts...),
		Audit:      consolev1connect.NewAuditServiceClient(hc, c.URL, opts...),
		Events:     consolev1connect.NewEventServiceClient(hc, c.URL, opts...),
		Lending:    consolev1connect.NewLendingServiceClient(hc, c.URL, opts...),
		Recordings: consolev1connect.NewRecordingServiceClient(hc, c.URL, opts...),
		Live:       consolev1connect.NewLiveServiceClient(hc, c.URL, opts...),
		Access:     consolev1connect.NewAccessServiceClient(hc, c.URL, opts...),
		Tokens:     consolev1connect.NewTokenServiceClient(hc, c.URL, opts...),
		Logins:     consolev1connect.NewLoginServiceClient(hc, c.URL, opts...),
		Levers:     consolev1connect.NewSyncServiceClient(hc, c.URL, opts...),
		Objects:    consolev1connect.NewObjectServiceClient(hc, c.URL, opts...),
		Views:      consolev1connect.NewClusterViewServiceClient(hc, c.URL, opts...),
		History:    consolev1connect.NewRevisionServiceClient(hc, c.URL, opts...),
		Tests:      consolev1connect.NewTestServiceClient(hc, c.URL, opts...),
		Admin:      consolev1connect.NewAdminServiceClient(hc, c.URL, opts...),
	}, nil
}

func newHTTPClient(ca string) (*http.Client, error) {
	var cfg client.Config
	if ca != "" {
		cfg.CAPEM = []byte(ca)
	}
	hc, err := client.New(cfg)
	if err == nil {
		hc.Transport = named{hc.Transport, programName()}
	}
	return hc, err
}

// programName is what the command calls itself: a person sees it in the list of logins.
func programName() string { return fmt.Sprintf("fairlead/%s (%s)", version.String(), runtime.GOOS) }

// named says with each request which program asks.
type named struct {
	http.RoundTripper
	program string
}

func (t named) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", t.program)
	return t.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections implements what http.Client asks for.
func (t named) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Tunnel returns a client for one tunnel.
func (h *Hub) Tunnel(baseURL string) tunnelv1connect.TunnelServiceClient {
	at := h.Context
	at.URL = baseURL
	return tunnelv1connect.NewTunnelServiceClient(h.HTTP, baseURL,
		append(client.Options(), connect.WithInterceptors(newExplainer(at)))...)
}

// ExplainError puts an error of a stream into words: the others are so already.
func (h *Hub) ExplainError(err error) error { return newExplainer(h.Context).explainError(err) }

// Gitcache is one gitcache.
type Gitcache struct {
	Sources gitcachev1connect.SourceServiceClient
	Shards  gitcachev1connect.ShardServiceClient
}

// Gitcache returns clients for one gitcache.
func (h *Hub) Gitcache(baseURL string) Gitcache {
	at := h.Context
	at.URL = baseURL
	opts := append(client.Options(), connect.WithInterceptors(newExplainer(at)))
	return Gitcache{
		Sources: gitcachev1connect.NewSourceServiceClient(h.HTTP, baseURL, opts...),
		Shards:  gitcachev1connect.NewShardServiceClient(h.HTTP, baseURL, opts...),
	}
}

// renewToken returns the context with a fresh token if a third of the life of the old one is over and the
// hub gives one.
func (h *Hub) renewToken(ctx context.Context, now time.Time) (contexts.Context, bool) {
	c := h.Context
	if now.Before(c.Issued.Add(c.Expires.Sub(c.Issued)/3)) || now.After(c.Expires) {
		return c, false
	}
	ctx, cancel := context.WithTimeout(ctx, AsideTimeout)
	defer cancel()
	res, err := h.Identity.RenewToken(ctx, &consolev1.RenewTokenRequest{})
	if err != nil {
		return c, false
	}
	return contextOf(c, res.GetToken(), res.GetEndpoints(), now), true
}

// Login is what makes a context.
type Login struct {
	Context   string
	URL       string
	CA        string // PEM.
	HubSecret string
	User      string
	// Program says that a program logs in with the hub secret, and no person.
	Program bool
	// Token is used instead of the hub secret, if there is one, and Link before both.
	Token string
	Link  string
	// Tell is told where to log in at the identity provider, if neither is given.
	Tell func(url, code string)
}

// Do exchanges the hub secret for an administrator's token and returns the context to keep.
func (l Login) Do(ctx context.Context) (contexts.Context, error) {
	base, err := checkURL(l.URL)
	if err != nil {
		return contexts.Context{}, err
	}
	c := contexts.Context{Name: l.Context, URL: base, CA: l.CA, User: l.User}
	if c.Name == "" {
		u, _ := url.Parse(base)
		c.Name = u.Hostname()
	}
	hc, err := newHTTPClient(l.CA)
	if err != nil {
		return c, err
	}
	defer hc.CloseIdleConnections()
	at := newExplainer(c)
	at.loggingIn = true
	opts := append(client.Options(), connect.WithInterceptors(at))
	switch {
	case l.Link != "" || l.Token == "" && l.HubSecret == "":
		return l.loginPerson(ctx, c, consolev1connect.NewLoginServiceClient(hc, base, opts...))
	case l.Token != "":
		opts = append(opts, client.WithToken(identity.StaticToken(l.Token)))
		return l.takeToken(ctx, c, consolev1connect.NewIdentityServiceClient(hc, base, opts...),
			consolev1connect.NewAccessServiceClient(hc, base, opts...))
	}
	api := consolev1connect.NewIdentityServiceClient(hc, base, opts...)
	res, err := api.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
		HubSecret: l.HubSecret, Program: l.Program,
		Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: l.User},
	})
	if err != nil {
		return c, err
	}
	return contextOf(c, res.GetToken(), res.GetEndpoints(), time.Now()), nil
}

// loginPerson logs in by a link, or else at the identity provider.
func (l Login) loginPerson(
	ctx context.Context, c contexts.Context, api consolev1connect.LoginServiceClient,
) (contexts.Context, error) {
	if l.Link != "" {
		res, err := api.ExchangeLoginLink(ctx, &consolev1.ExchangeLoginLinkRequest{Link: l.Link})
		if err != nil {
			return c, err
		}
		c.User = res.GetUser()
		return contextOf(c, res.GetToken(), res.GetEndpoints(), time.Now()), nil
	}
	asking, cancel := context.WithTimeout(ctx, CallTimeout) // ctx waits for a person
	defer cancel()
	options, err := api.GetLoginOptions(asking, &consolev1.GetLoginOptionsRequest{})
	if err != nil {
		return c, err
	}
	if options.GetOidc() == nil {
		return c, fmt.Errorf("%s has no identity provider: log in with a link, --hub-secret-file or --token-file", c.URL)
	}
	token, err := deviceFlow(ctx, options.GetOidc(), l.Tell)
	if err != nil {
		return c, err
	}
	res, err := api.ExchangeIDToken(ctx, &consolev1.ExchangeIDTokenRequest{IdToken: token})
	if err != nil {
		return c, err
	}
	c.User = res.GetUser()
	return contextOf(c, res.GetToken(), res.GetEndpoints(), time.Now()), nil
}

// takeToken makes a context of a token that somebody else got. The hub says whose it is.
func (l Login) takeToken(ctx context.Context, c contexts.Context, api consolev1connect.IdentityServiceClient,
	access consolev1connect.AccessServiceClient,
) (contexts.Context, error) {
	caller, err := access.GetCaller(ctx, &consolev1.GetCallerRequest{})
	if err != nil {
		return c, err
	}
	_, name, _ := strings.Cut(caller.GetSubject(), ":")
	if l.User != "" && l.User != name && l.User != caller.GetSubject() {
		return c, fmt.Errorf("the token is of %s, and not of %s: leave --user out, or take another token", caller.GetSubject(), l.User)
	}
	c.User = strings.TrimPrefix(caller.GetSubject(), "user:")
	res, err := api.RenewToken(ctx, &consolev1.RenewTokenRequest{Lifetime: durationpb.New(identity.UserLifetime)})
	if err != nil {
		return c, err
	}
	return contextOf(c, res.GetToken(), res.GetEndpoints(), time.Now()), nil
}

func contextOf(
	c contexts.Context, token *consolev1.Token, endpoints *consolev1.Endpoints, now time.Time,
) contexts.Context {
	c.Token, c.Issued, c.Expires = token.GetToken(), now.UTC(), token.GetExpireTime().AsTime()
	c.Endpoints = contexts.Endpoints{
		Gitcaches: endpoints.GetGitcaches(), Distributors: endpoints.GetDistributors(), Tunnels: endpoints.GetTunnels(),
	}
	return c
}

// checkURL returns the base URL of a hub that may get a secret.
func checkURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("the hub's URL must be like https://fairlead.example.com")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the hub's URL must have no user, query or fragment")
	}
	if u.Scheme == "http" && !loopback.Host(u.Hostname()) {
		return "", fmt.Errorf("http://%s: a secret is only sent over https (or http to this machine)", u.Host)
	}
	return strings.TrimRight(u.String(), "/"), nil
}
