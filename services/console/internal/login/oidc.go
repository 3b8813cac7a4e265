// Package login knows people by an identity provider that speaks OpenID Connect.
//
// The provider is asked when somebody logs in, and for nothing else: with it away, who is logged in goes on.
package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/loopback"
	"fairlead.dev/platform/refusal"
	id "fairlead.dev/services/console/internal/identity"
)

const (
	// callTimeout bounds each call to the provider.
	callTimeout = 10 * time.Second
	// freshFor is how old an ID token may be that is handed in.
	freshFor = 10 * time.Minute
	// leeway is how far the provider's clock may be ahead.
	leeway = time.Minute
)

// ErrAway says that the provider can't be asked.
var ErrAway = errors.New("the identity provider does not answer: try again later")

// Config says who the provider is, and how it names people.
type Config struct {
	// Issuer is the provider's URL; empty: there is none.
	Issuer   string
	ClientID string
	// ClientSecretFile is of a confidential client; empty: it is a public one.
	ClientSecretFile string
	// CLIClientID is the public client of the command line; empty: ClientID.
	CLIClientID string
	// UserClaim holds the name, GroupsClaim the groups.
	UserClaim, GroupsClaim string
	// AdminGroup is the group there whose members are administrators here; empty: there is none.
	AdminGroup string
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	if c.Issuer == "" {
		if c.ClientID != "" || c.AdminGroup != "" || c.ClientSecretFile != "" || c.CLIClientID != "" {
			return errors.New("--oidc-issuer is missing: the other --oidc-* flags are about it")
		}
		return nil
	}
	if err := flags.CheckURL("--oidc-issuer", c.Issuer); err != nil {
		return err
	}
	u, err := url.Parse(c.Issuer)
	if err != nil {
		return err
	}
	if u.Scheme != "https" && !loopback.Host(u.Hostname()) {
		return fmt.Errorf("--oidc-issuer %s: must begin with https://", c.Issuer)
	}
	switch {
	case c.ClientID == "":
		return errors.New("--oidc-client-id is needed with --oidc-issuer")
	case c.UserClaim == "":
		return errors.New("--oidc-user-claim can't be empty with --oidc-issuer")
	case c.GroupsClaim == "":
		return errors.New("--oidc-groups-claim can't be empty with --oidc-issuer")
	}
	return nil
}

// Provider is one identity provider. The zero Config makes one that is not there.
type Provider struct {
	cfg  Config
	http *http.Client
	now  func() time.Time

	asking singleflight.Group // requests that wait for the provider share one answer
	found  atomic.Pointer[oidc.Provider]
}

// New returns a provider. New calls nobody.
func New(cfg Config) *Provider {
	return &Provider{cfg: cfg, http: &http.Client{Timeout: callTimeout}, now: time.Now}
}

// Exists tells whether one is set up.
func (p *Provider) Exists() bool { return p.cfg.Issuer != "" }

// Issuer and CLIClient are what the command line needs for the device flow.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// CLIClient is the client that the command line is.
func (p *Provider) CLIClient() string {
	if p.cfg.CLIClientID != "" {
		return p.cfg.CLIClientID
	}
	return p.cfg.ClientID
}

// Scopes are what to ask for: groups only of a provider that knows the word, for others refuse it.
func (p *Provider) Scopes(ctx context.Context) ([]string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	var claims struct {
		Scopes []string `json:"scopes_supported"`
	}
	if err := found.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrAway, err)
	}
	scopes := []string{oidc.ScopeOpenID, "profile", "email"}
	if slices.Contains(claims.Scopes, "groups") {
		scopes = append(scopes, "groups")
	}
	return scopes, nil
}

// discover asks the provider where its endpoints are, once.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	if found := p.found.Load(); found != nil {
		return found, nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		// The provider that is found fetches keys later on, with this client and beyond this request.
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.http), p.cfg.Issuer)
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrAway, err)
		}
		p.found.Store(found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-answer:
		found, _ := got.Val.(*oidc.Provider)
		return found, got.Err
	}
}

// Pending is a login in a browser that goes on. A Pending is kept in a sealed cookie.
type Pending struct {
	State, Nonce, Verifier string
	// Return is where the browser goes then.
	Return string
	Expire time.Time
}

func (p *Provider) oauth(ctx context.Context, redirect string) (*oidc.Provider, *oauth2.Config, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	scopes, err := p.Scopes(ctx)
	if err != nil {
		return nil, nil, err
	}
	secret := ""
	if p.cfg.ClientSecretFile != "" {
		text, err := os.ReadFile(p.cfg.ClientSecretFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read OIDC client secret: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	return found, &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: secret, Endpoint: found.Endpoint(), RedirectURL: redirect, Scopes: scopes}, nil
}

// Begin is where a browser goes to log in.
func (p *Provider) Begin(ctx context.Context, redirect string, pending Pending) (string, error) {
	_, o, err := p.oauth(ctx, redirect)
	if err != nil {
		return "", err
	}
	return o.AuthCodeURL(pending.State, oidc.Nonce(pending.Nonce), oauth2.S256ChallengeOption(pending.Verifier)), nil
}

// Finish turns the code that a browser came back with into a person.
func (p *Provider) Finish(ctx context.Context, redirect, code string, pending Pending) (id.Foreign, error) {
	found, o, err := p.oauth(ctx, redirect)
	if err != nil {
		return id.Foreign{}, err
	}
	tokens, err := o.Exchange(oidc.ClientContext(ctx, p.http), code, oauth2.VerifierOption(pending.Verifier))
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if ok && refused.Response.StatusCode < http.StatusInternalServerError {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider refused the login (%s): try again", refused.ErrorCode)
	}
	if err != nil {
		return id.Foreign{}, fmt.Errorf("%w (%w)", ErrAway, err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := p.verify(ctx, found, raw, []string{p.cfg.ClientID})
	if err != nil {
		return id.Foreign{}, err
	}
	if pending.Nonce == "" || token.Nonce != pending.Nonce {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider's answer is not about this login: try again")
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(tokens.AccessToken); err != nil {
			return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider's answer does not fit together: try again")
		}
	}
	claims := map[string]any{}
	// Some providers tell names and groups at this endpoint only.
	info, err := found.UserInfo(oidc.ClientContext(ctx, p.http), oauth2.StaticTokenSource(tokens))
	switch {
	case err == nil && info.Subject == token.Subject:
		if err := info.Claims(&claims); err != nil {
			return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider's answer is not valid")
		}
	case err != nil && found.UserInfoEndpoint() != "" && !refuses(err) && !p.isWhole(token):
		// A login without the groups would last for hours.
		return id.Foreign{}, fmt.Errorf("%w (%w)", ErrAway, err)
	}
	return p.person(token, raw, claims)
}

// refuses tells an endpoint that does not answer this token from one that is not well: its error begins with the status.
func refuses(err error) bool {
	return strings.HasPrefix(err.Error(), "4") && !strings.HasPrefix(err.Error(), strconv.Itoa(http.StatusTooManyRequests))
}

// isWhole tells whether an ID token says by itself what its person is called and is in.
func (p *Provider) isWhole(token *oidc.IDToken) bool {
	claims := map[string]any{}
	err := token.Claims(&claims)
	return err == nil && claims[p.cfg.UserClaim] != nil && claims[p.cfg.GroupsClaim] != nil
}

// Check turns an ID token that the command line got by the device flow into a person.
func (p *Provider) Check(ctx context.Context, raw string) (id.Foreign, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return id.Foreign{}, err
	}
	token, err := p.verify(ctx, found, raw, []string{p.CLIClient()})
	if err != nil {
		return id.Foreign{}, err
	}
	if p.now().Sub(token.IssuedAt) > freshFor {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the ID token is older than %s: log in again", freshFor)
	}
	return p.person(token, raw, map[string]any{})
}

// algorithms are those with public keys: neither none nor HMAC is one.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

func (p *Provider) verify(ctx context.Context, found *oidc.Provider, raw string, clients []string) (*oidc.IDToken, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), callTimeout)
	defer cancel()
	token, err := found.Verifier(&oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: algorithms(), Now: p.now}).Verify(ctx, raw)
	if err != nil {
		if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
			return nil, refusal.New(refusal.Unauthenticated, "the ID token is expired: log in again")
		}
		if network(err) {
			return nil, fmt.Errorf("%w (%w)", ErrAway, err)
		}
		return nil, refusal.New(refusal.Unauthenticated, "the ID token is not valid")
	}
	var claims struct {
		AuthorizedParty string `json:"azp"`
	}
	if err := token.Claims(&claims); err != nil {
		return nil, refusal.New(refusal.Unauthenticated, "the ID token is not valid")
	}
	forUs := slices.ContainsFunc(token.Audience, func(a string) bool { return slices.Contains(clients, a) })
	if !forUs || claims.AuthorizedParty != "" && !slices.Contains(clients, claims.AuthorizedParty) || len(token.Audience) > 1 && claims.AuthorizedParty == "" {
		return nil, refusal.New(refusal.Unauthenticated, "the ID token is for another client")
	}
	if token.Subject == "" {
		return nil, refusal.New(refusal.Unauthenticated, "the ID token names nobody: the claim \"sub\" is missing")
	}
	if token.IssuedAt.After(p.now().Add(leeway)) {
		return nil, refusal.New(refusal.Unauthenticated, "the ID token is of the future: compare the clocks")
	}
	return token, nil
}

// network tells errors of fetching keys from those of the token.
func network(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok || strings.Contains(err.Error(), "fetching keys")
}

// person reads who it is; what the token says comes before what else is claimed. Groups that mean something here by
// themselves come from nowhere else.
func (p *Provider) person(token *oidc.IDToken, raw string, claims map[string]any) (id.Foreign, error) {
	if err := token.Claims(&claims); err != nil {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the ID token is not valid")
	}
	name, _ := claims[p.cfg.UserClaim].(string)
	if name == "" {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider does not say who you are: the claim %q is missing. An administrator can choose another one with --oidc-user-claim", p.cfg.UserClaim)
	}
	// Silence is no yes: some providers let people write any address.
	if verified := claims["email_verified"]; p.cfg.UserClaim == "email" && verified != true && verified != "true" {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider does not say that your email address %q is verified. An administrator can choose another claim with --oidc-user-claim", name)
	}
	if p.cfg.UserClaim == "email" && strings.Count(name, "@") != 1 {
		return id.Foreign{}, refusal.New(refusal.Unauthenticated, "the identity provider names you %q, which is no email address", name)
	}
	sum := sha256.Sum256([]byte(raw[:strings.LastIndexByte(raw, '.')])) // there may be several good signatures of the same
	return id.Foreign{
		Name: name, Groups: p.groups(claims[p.cfg.GroupsClaim]), Issuer: token.Issuer,
		Unique: token.Issuer + " " + hex.EncodeToString(sum[:]), Expire: token.Expiry.Add(freshFor),
	}, nil
}

func (p *Provider) groups(claim any) []string {
	var list []string
	switch v := claim.(type) {
	case string:
		list = []string{v}
	case []any:
		for _, g := range v {
			if text, ok := g.(string); ok {
				list = append(list, text)
			}
		}
	}
	admin := p.cfg.AdminGroup != "" && slices.Contains(list, p.cfg.AdminGroup)
	list = slices.DeleteFunc(list, func(g string) bool {
		return strings.HasPrefix(g, "fairlead:") || (identity.Identity{Kind: identity.KindUser, Name: "x", Groups: []string{g}}).Validate() != nil
	})
	slices.Sort(list)
	list = slices.Compact(list)
	if admin {
		list = append([]string{identity.AdminsGroup}, list...)
	}
	return list
}
