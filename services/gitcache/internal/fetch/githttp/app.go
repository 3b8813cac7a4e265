package githttp

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/sync/singleflight"

	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// appUser goes with an installation's token.
	appUser = "x-access-token"
	// A token lives an hour. The token is renewed when less than tokenMargin is left: longer than a poll, and a fetch
	// presents it at its beginning only.
	tokenMargin = 5 * time.Minute
	// GitHub takes a proof of at most 10 minutes, and wants none from the future: clocks differ.
	proofLife, proofSkew = 8 * time.Minute, time.Minute
	// maxInstallations is of how many repositories tokens are kept; past that the one that was used least recently is
	// asked for again.
	maxInstallations = 10_000
	// maxTokenAnswer bounds an answer of the API: a token and the permissions that go with it.
	maxTokenAnswer = 1 << 20
)

// apps get tokens for installations of GitHub Apps, and keep them while they are good.
type apps struct {
	client *upstream.Client
	flight singleflight.Group
	// life ends with close, and with it requests that nobody waits for any more.
	life  context.Context
	close context.CancelFunc

	mu     sync.Mutex // guards what follows
	tokens map[installation]*list.Element
	recent *list.List // of installation and token; the most recently used first
}

// installation is what a token is for: one repository of an installation. A token is never used for another host than
// the one whose API gave it.
type installation struct {
	upstream.GitHubApp
	api        string
	repository string
}

func installationOf(r upstream.Remote) installation {
	return installation{r.Credentials.GitHubApp, apiOf(r.URL), repositoryOf(r.URL)}
}

// repositoryOf is the name of a repository without that of its owner, as the API takes it: an installation has one
// owner.
func repositoryOf(u *url.URL) string {
	return strings.TrimSuffix(path.Base(u.Path), ".git")
}

type kept struct {
	of    installation
	token string
	until time.Time
}

func newApps(c *upstream.Client) *apps {
	life, close := context.WithCancel(context.Background())
	return &apps{client: c, life: life, close: close, tokens: map[installation]*list.Element{}, recent: list.New()}
}

// withLogin does what has to be done with a login. With a GitHub App that is a token, and one that the
// host refuses is replaced at once: it may have been revoked.
func withLogin[T any](ctx context.Context, h *HTTP, r upstream.Remote, do func(upstream.Remote) (T, error)) (T, error) {
	var none T
	if err := r.CheckHTTP(); err != nil {
		return none, err
	}
	if r.Credentials.GitHubApp == (upstream.GitHubApp{}) {
		return do(r)
	}
	with, fresh, err := h.apps.loginApp(ctx, r)
	if err != nil {
		return none, err
	}
	v, err := do(with)
	if e, ok := errors.AsType[*upstream.Error](err); fresh || !ok || !e.Unauthorized {
		return v, err
	}
	h.apps.forgetToken(with)
	if with, _, err = h.apps.loginApp(ctx, r); err != nil {
		return none, err
	}
	return do(with)
}

// loginApp puts a token that is good for a while into the credentials. fresh tells that it was made for this call.
func (a *apps) loginApp(ctx context.Context, r upstream.Remote) (with upstream.Remote, fresh bool, err error) {
	of := installationOf(r)
	r.Credentials.Username = appUser
	if r.Credentials.Password = a.goodToken(of); r.Credentials.Password != "" {
		return r, false, nil
	}
	// All sources of a repository need the token at the same time; one request gets it. A caller that gives up ends no
	// other caller's wait.
	answer := a.flight.DoChan(fmt.Sprintf("%q %q %q %q %q", of.api, of.repository, of.ID, of.InstallationID, of.PrivateKey), func() (any, error) {
		detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(a.life, cancel)() //nolint:contextcheck // two that end it
		return a.requestToken(detached, r, of)
	})
	select {
	case <-ctx.Done():
		return r, false, ctx.Err()
	case got := <-answer:
		if got.Err != nil {
			return r, false, got.Err
		}
		r.Credentials.Password = got.Val.(string)
		return r, true, nil
	}
}

// goodToken is the token that is there; "" if none is good enough.
func (a *apps) goodToken(of installation) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.tokens[of]
	if !ok || time.Until(e.Value.(kept).until) < tokenMargin {
		return ""
	}
	a.recent.MoveToFront(e)
	return e.Value.(kept).token
}

func (a *apps) keepToken(k kept) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropToken(k.of)
	a.tokens[k.of] = a.recent.PushFront(k)
	if a.recent.Len() > maxInstallations {
		a.dropToken(a.recent.Back().Value.(kept).of)
	}
}

// forgetToken drops a token that was refused, unless there is a newer one already.
func (a *apps) forgetToken(r upstream.Remote) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := installationOf(r)
	if e, ok := a.tokens[of]; ok && e.Value.(kept).token == r.Credentials.Password {
		a.dropToken(of)
	}
}

func (a *apps) dropToken(of installation) {
	if e, ok := a.tokens[of]; ok {
		a.recent.Remove(e)
		delete(a.tokens, of)
	}
}

// apiOf is where GitHub's API is for a repository: GitHub's own, that of its enterprise cloud, or that of
// an enterprise server.
func apiOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if host == "github.com" || host == "github.com:443" || strings.HasSuffix(host, ".ghe.com") {
		return u.Scheme + "://api." + strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host + "/api/v3"
}

// requestToken gets a new token. The App's key stays here: what goes out is a proof that is good for minutes.
func (a *apps) requestToken(ctx context.Context, r upstream.Remote, of installation) (string, error) {
	u, proof, err := prepareProof(r, of)
	if err != nil {
		return "", err
	}
	x := a.client.NewExchange(r, u)
	leave, err := x.Enter(ctx, upstream.Lists)
	if err != nil {
		return "", err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, a.client.Limits().ListTime, upstream.ErrDeadline)
	defer cancel()
	// No more than Git needs of this repository, whatever else the App may do, and wherever.
	body, err := json.Marshal(map[string]any{"repositories": []string{of.repository}, "permissions": map[string]string{"contents": "read"}})
	if err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Authorization", "Bearer "+proof)
	req.Header.Set("User-Agent", "fairlead")
	resp, err := x.StayingClient().Do(req)
	if err != nil {
		return "", upstream.TransportError(ctx, u.Host, a.client.Limits().ListTime, err)
	}
	defer resp.Body.Close()
	defer upstream.DrainBody(resp.Body, cancel)
	if resp.StatusCode != http.StatusCreated {
		return "", appError(r, u.Host, resp)
	}
	var answer struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxTokenAnswer)).Decode(&answer); err != nil || answer.Token == "" {
		return "", &upstream.Error{Kind: upstream.KindNotGit, Message: fmt.Sprintf("%s does not answer as GitHub's API does. Check the source's url", u.Host)}
	}
	a.keepToken(kept{of, answer.Token, answer.Expires})
	return answer.Token, nil
}

// prepareProof checks what the secret says of the App, and makes the proof.
func prepareProof(r upstream.Remote, of installation) (*url.URL, string, error) {
	if !regexp.MustCompile(`^[0-9]{1,20}$`).MatchString(of.InstallationID) {
		return nil, "", r.MisfitError("its githubAppInstallationID is no number")
	}
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(of.ID) {
		return nil, "", r.MisfitError("its githubAppID is neither a number nor a client id")
	}
	key, err := rsaKey(of.PrivateKey)
	if err != nil {
		return nil, "", r.MisfitError("its githubAppPrivateKey can't be used: %v. Put the key there that GitHub gave for the App", err)
	}
	u, err := url.Parse(of.api)
	if err != nil {
		return nil, "", fmt.Errorf("make the API's URL: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, "", r.MisfitError("its githubAppPrivateKey can't sign")
	}
	now := time.Now()
	proof, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: of.ID, IssuedAt: jwt.NewNumericDate(now.Add(-proofSkew)), Expiry: jwt.NewNumericDate(now.Add(proofLife)),
	}).Serialize()
	if err != nil {
		return nil, "", r.MisfitError("its githubAppPrivateKey can't sign")
	}
	return u.JoinPath("app", "installations", of.InstallationID, "access_tokens"), proof, nil
}

func rsaKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	// The parsers' own errors say nothing to people.
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := any.(*rsa.PrivateKey); ok && err == nil {
		return key, nil
	}
	return nil, errors.New("it is no private RSA key")
}

// appError says why the API gave no token.
func appError(r upstream.Remote, host string, resp *http.Response) *upstream.Error {
	e := upstream.StatusError(r, resp.Request.URL, resp)
	e.Unauthorized = false
	switch {
	case e.Kind == upstream.KindThrottled:
	case resp.StatusCode == http.StatusUnauthorized:
		e.Kind, e.Message = upstream.KindCredentials, fmt.Sprintf("401 from %s for the GitHub App. Check githubAppID and githubAppPrivateKey in secret %q, and the clock of the gitcache", host, r.Secret)
	case resp.StatusCode == http.StatusNotFound:
		e.Kind, e.Message = upstream.KindCredentials, fmt.Sprintf("404 from %s: the GitHub App has no such installation. Check githubAppInstallationID in secret %q", host, r.Secret)
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusUnprocessableEntity:
		e.Kind, e.Message = upstream.KindCredentials, fmt.Sprintf("%d from %s for the GitHub App. Check that its installation is not suspended, has the repository %s and may read contents", resp.StatusCode, host, repositoryOf(r.URL))
	}
	return e
}
