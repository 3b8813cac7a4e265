package signin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"connectrpc.com/connect"
	"golang.org/x/oauth2"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	rules "fairlead.dev/platform/access"
	"fairlead.dev/platform/dialpolicy"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/login"
)

const (
	// loginPath is where browsers log in at the identity provider, callbackPath where they come back, and oncePath
	// where links lead.
	loginPath    = "/v1/login"
	callbackPath = "/v1/login/callback"
	oncePath     = "/v1/login/once"
	// pendingFor is how long a person may take at the provider.
	pendingFor = 10 * time.Minute
	// pendingPurpose binds what is sealed to its use.
	pendingPurpose = "login"
	// maxOnce bounds what comes with a link.
	maxOnce = 4096
)

// LoginLink is what a code is told as.
func LoginLink(pages, code string) string { return pages + oncePath + "#" + code }

type logins struct{ Deps }

func (s *logins) GetLoginOptions(ctx context.Context, _ *consolev1.GetLoginOptionsRequest) (*consolev1.GetLoginOptionsResponse, error) {
	if !s.Provider.Exists() {
		return &consolev1.GetLoginOptionsResponse{PagesUrl: s.Endpoints.Pages()}, nil
	}
	scopes, err := s.Provider.Scopes(ctx)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.GetLoginOptionsResponse{PagesUrl: s.Endpoints.Pages(), Oidc: &consolev1.OIDCOptions{Issuer: s.Provider.Issuer(), ClientId: s.Provider.CLIClient(), Scopes: scopes}}, nil
}

func (s *logins) ExchangeLoginLink(ctx context.Context, req *consolev1.ExchangeLoginLinkRequest) (*consolev1.ExchangeLoginLinkResponse, error) {
	token, err := s.Authority.UseLoginLink(ctx, call.Who(ctx), identity.Command, call.Peer(ctx), req.GetLink())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ExchangeLoginLinkResponse{Token: encodeToken(token), Endpoints: s.endpoints(), User: token.Identity.Name}, nil
}

func (s *logins) CreateLoginLink(ctx context.Context, req *consolev1.CreateLoginLinkRequest) (*consolev1.CreateLoginLinkResponse, error) {
	code, err := s.Authority.CreateLoginLink(ctx, call.Who(ctx), req.GetUser(), req.GetGroups(), req.GetLifetime().AsDuration())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.CreateLoginLinkResponse{Link: LoginLink(s.Endpoints.Pages(), code)}, nil
}

func (s *logins) Logout(ctx context.Context, _ *consolev1.LogoutRequest) (*consolev1.LogoutResponse, error) {
	caller, _ := platform.FromContext(ctx) // the policy has seen to it
	if _, err := s.Authority.Revoke(ctx, call.Who(ctx), caller.TokenID, ""); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.LogoutResponse{}, nil
}

func (s *logins) ExchangeIDToken(ctx context.Context, req *consolev1.ExchangeIDTokenRequest) (*consolev1.ExchangeIDTokenResponse, error) {
	if !s.Provider.Exists() {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("no identity provider is set up: see --oidc-issuer of the console"))
	}
	if err := s.Authority.Admit(call.Peer(ctx)); err != nil {
		return nil, s.Fail(ctx, err)
	}
	person, err := s.Provider.Check(ctx, req.GetIdToken())
	if err != nil {
		if !errors.Is(err, login.ErrAway) {
			s.Authority.Reject(ctx, call.Peer(ctx), "ID token")
		}
		return nil, s.Fail(ctx, err)
	}
	token, err := s.logIn(ctx, identity.Command, person)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ExchangeIDTokenResponse{Token: encodeToken(token), Endpoints: s.endpoints(), User: token.Identity.Name}, nil
}

// logIn logs a person in whom the provider vouches for. A person in more groups than a token holds keeps the groups
// that count here.
func (d Deps) logIn(ctx context.Context, client identity.Client, person identity.Foreign) (identity.Token, error) {
	if len(person.Groups) > platform.MaxGroups {
		named, err := d.Rights.Named(ctx)
		if err != nil {
			return identity.Token{}, err
		}
		person.Groups = slices.DeleteFunc(person.Groups, func(g string) bool { return g != platform.AdminsGroup && !named[g] })
	}
	return d.Authority.LogIn(ctx, call.Who(ctx), client, person)
}

func (s *logins) LeaveCluster(ctx context.Context, req *consolev1.LeaveClusterRequest) (*consolev1.LeaveClusterResponse, error) {
	cluster := req.GetCluster()
	if own, ok := platform.Cluster(ctx); ok {
		if cluster != "" && cluster != own {
			return nil, connect.NewError(connect.CodePermissionDenied, errors.New("an agent leaves for its own cluster only"))
		}
		cluster = own
	} else if cluster == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("cluster: name one"))
	} else if err := s.Rights.May(ctx, rules.Edit, rules.Target{Kind: rules.Cluster, Name: cluster, Cluster: cluster}); err != nil {
		return nil, s.Fail(ctx, err)
	}
	if err := s.Authority.Leave(ctx, call.Who(ctx), cluster); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.LeaveClusterResponse{}, nil
}

// redirect sends a browser to the identity provider.
func (b *browsers) redirect(w http.ResponseWriter, r *http.Request) {
	if !b.Provider.Exists() || !b.Cookies {
		b.refuse(w, r, connect.NewError(connect.CodeFailedPrecondition, errors.New("no identity provider is set up here, or there is no TLS: log in with a link, or with `fairlead login`")))
		return
	}
	back := r.URL.Query().Get("return")
	if !isOwnPath(back) {
		back = ""
	}
	pending := login.Pending{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: back, Expire: time.Now().Add(pendingFor)}
	to, err := b.Provider.Begin(r.Context(), b.Endpoints.Pages()+callbackPath, pending)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	text, err := json.Marshal(pending)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	http.SetCookie(w, pendingCookie(base64.RawURLEncoding.EncodeToString(b.Seal.Seal(pendingPurpose, text)), int(pendingFor.Seconds())))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// isOwnPath holds for a path of this host. Browsers take \ for /, and leave tabs and line ends out: of /<tab>/host they
// make //host.
func isOwnPath(to string) bool {
	return strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.ContainsFunc(to, func(c rune) bool { return c == '\\' || unicode.IsControl(c) })
}

// pendingCookie comes back when the provider sends the browser here, which is another site: so it can't be strict.
func pendingCookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: platform.LoginCookie, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// pending opens the cookie.
func (b *browsers) pending(r *http.Request) (p login.Pending, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(platform.FromLoginCookie(r.Context()))
	if err != nil {
		return p, false
	}
	text, err := b.Seal.Open(pendingPurpose, sealed)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return p, false
	}
	return p, time.Now().Before(p.Expire)
}

// callback takes a browser in that comes back from the identity provider.
func (b *browsers) callback(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, pendingCookie("", -1))
	pending, ok := b.pending(r)
	query := r.URL.Query()
	if !b.Provider.Exists() || !ok || query.Get("state") != pending.State || query.Get("code") == "" {
		b.refuse(w, r, connect.NewError(connect.CodeUnauthenticated, errors.New("this login was not begun here, took too long, or was given up: begin again at "+loginPath)))
		return
	}
	if err := b.Authority.BeginCallback(r.Context(), dialpolicy.Network(r.RemoteAddr), pending.State, pending.Expire); err != nil {
		b.refuse(w, r, err)
		return
	}
	person, err := b.Provider.Finish(r.Context(), b.Endpoints.Pages()+callbackPath, query.Get("code"), pending)
	if err != nil {
		if !errors.Is(err, login.ErrAway) {
			b.Authority.Reject(r.Context(), dialpolicy.Network(r.RemoteAddr), "identity provider's answer")
		}
		b.refuse(w, r, err)
		return
	}
	token, err := b.logIn(call.WithOrigin(r.Context(), r), identity.Browser, person)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	id, ok := b.give(w, r, token.Identity, identity.ActionProvider)
	if !ok {
		return
	}
	if pending.Return != "" {
		http.Redirect(w, r, pending.Return, http.StatusSeeOther)
		return
	}
	donePage(w, id.Name)
}

// once uses a login link up for a browser.
func (b *browsers) once(w http.ResponseWriter, r *http.Request) {
	var in struct{ Code string }
	// No other site can send this type without asking first, so nobody is logged in behind their back.
	if r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOnce)).Decode(&in) != nil {
		b.refuse(w, r, connect.NewError(connect.CodeInvalidArgument, errors.New(`send {"code": "..."} as application/json`)))
		return
	}
	if !b.Cookies {
		b.give(w, r, platform.Identity{}, "") // says why not, before the link is used up
		return
	}
	token, err := b.Authority.UseLoginLink(r.Context(), call.Who(call.WithOrigin(r.Context(), r)), identity.Browser, dialpolicy.Network(r.RemoteAddr), in.Code)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	if id, ok := b.give(w, r, token.Identity, identity.ActionLink); ok {
		answer(w, id)
	}
}
