package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// maxAdmissions that are remembered: one for each repository and secret.
	maxAdmissions = 10_000
	// admissionTime is how long what nobody asks with is remembered: a login of a cloud is another one after some
	// hours.
	admissionTime = time.Hour
	// unusedPart of a token's life is not used: it may end on its way.
	unusedPart = 10 // percent
)

// admissions is what registries want requests to be authorized with, and the tokens that are good still. With it a poll
// is one request.
type admissions struct {
	mu    sync.Mutex // guards known
	known map[admissionKey]admission
}

// admissionKey: a token is for one repository, and for those credentials only.
type admissionKey struct {
	origin, repository string
	registry           upstream.Registry
	credentials        upstream.Credentials
}

type admission struct {
	challenge oci.Challenge
	token     string
	until     time.Time // of the token
	used      time.Time
}

func newAdmissions() *admissions { return &admissions{known: map[admissionKey]admission{}} }

func keyOf(r upstream.Remote, repository string) admissionKey {
	return admissionKey{upstream.OriginOf(r.URL), repository, r.Registry, r.Credentials}
}

func (l *admissions) admissionOf(r upstream.Remote, repository string) (admission, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := keyOf(r, repository)
	is, ok := l.known[key]
	if ok {
		is.used = time.Now()
		l.known[key] = is
	}
	return is, ok
}

func (l *admissions) rememberAdmission(r upstream.Remote, repository string, is admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for key, old := range l.known {
		if now.Sub(old.used) > admissionTime {
			delete(l.known, key)
			continue
		}
		if old.token != "" && !now.Before(old.until) {
			old.token = "" // what it was asked with is good still
			l.known[key] = old
		}
	}
	if len(l.known) >= maxAdmissions {
		clear(l.known)
	}
	is.used = now
	l.known[keyOf(r, repository)] = is
}

// authorizationFor is the header for the next request; "": none, as far as is known.
func (l *admissions) authorizationFor(
	ctx context.Context, g *Registries, r upstream.Remote, repository string,
) (string, error) {
	is, ok := l.admissionOf(r, repository)
	switch {
	case !ok:
		return "", nil
	case !is.challenge.Bearer:
		return "Basic " + upstream.BasicAuth(r.Credentials.Username, r.Credentials.Password), nil
	case time.Now().Before(is.until):
		return "Bearer " + is.token, nil
	}
	token, life, err := g.requestToken(ctx, r, repository, is.challenge)
	if err != nil {
		return "", err
	}
	is.token, is.until = token, time.Now().Add(life-life*unusedPart/100)
	l.rememberAdmission(r, repository, is)
	return "Bearer " + token, nil
}

// learnChallenge takes in that a request was refused which had this authorization. The error is that there is nothing
// better to try.
func (l *admissions) learnChallenge(r upstream.Remote, repository, authorization string, resp *http.Response) error {
	is, known := l.admissionOf(r, repository)
	challenge, ok := oci.ParseChallenges(resp.Header.Values("WWW-Authenticate"))
	switch {
	case ok && challenge.Bearer, ok && r.Credentials.Password != "" && !strings.HasPrefix(authorization, "Basic "):
		l.rememberAdmission(r, repository, admission{challenge: challenge})
		return nil
	case !ok && known && is.challenge.Bearer: // a token that has ended is a 403 at some
		l.rememberAdmission(r, repository, admission{challenge: is.challenge})
		return nil
	}
	return registryError(r, repository, resp)
}

// requestToken gets one from the token service that the registry names: to pull from one repository.
func (g *Registries) requestToken(
	ctx context.Context, r upstream.Remote, repository string, c oci.Challenge,
) (token string, life time.Duration, err error) {
	u, err := realmURL(r, c.Realm)
	if err != nil {
		return "", 0, err
	}
	if r.Credentials.Password != "" && !sendsTo(r, u) {
		return "", 0, &upstream.Error{Kind: upstream.KindCredentials, Message: fmt.Sprintf(
			"%s wants a token of %s, which is another host, so the credentials were not sent there. If it is the registry's, add %s to tokenHosts of the source", r.URL.Host, u.Host, u.Host)}
	}
	query := u.Query()
	query.Set("scope", "repository:"+repository+":pull")
	if c.Service != "" {
		query.Set("service", c.Service)
	}
	u.RawQuery = query.Encode()
	err = g.client.GetURL(ctx, r, u, upstream.Lists, func(req *http.Request) {
		req.Header.Del("Authorization")
		if r.Credentials.Password != "" {
			req.SetBasicAuth(r.Credentials.Username, r.Credentials.Password)
		}
	}, func(resp *http.Response, body io.Reader) error {
		switch code := resp.StatusCode; {
		case code == http.StatusUnauthorized || code == http.StatusForbidden && !upstream.IsThrottled(resp):
			return &upstream.Error{Kind: upstream.KindCredentials, Status: code, Message: fmt.Sprintf("%d from the token service %s. %s", code, u.Host, tokenHint(r, repository))}
		case code != http.StatusOK:
			e := upstream.StatusError(r, resp.Request.URL, resp)
			if e.Kind == upstream.KindNotFound {
				e.Message = fmt.Sprintf("%d from the token service %s, which %s names. Tell the registry's owner", code, u.Host, r.URL.Host)
			}
			return e
		}
		text, err := io.ReadAll(upstream.CapReader(body, oci.MaxTokenBytes, "token"))
		if err != nil {
			return err
		}
		if token, life, err = oci.DecodeToken(text); err != nil {
			return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("%s: %s", u.Host, err)}
		}
		return nil
	})
	return token, life, err
}

func tokenHint(r upstream.Remote, repository string) string {
	if r.Cloud != "" {
		return r.CloudHint(fmt.Sprintf("repository %q", repository))
	}
	if r.Credentials.Password == "" {
		return fmt.Sprintf("Repository %q needs credentials, or does not exist. Name a secret with a username and password, or a token, in the source", repository)
	}
	return fmt.Sprintf("Check the username and password, or the token, in secret %q, and that they may pull from %q", r.Secret, repository)
}

// realmURL reads where a token service is: a place that a source could name, and never the hub itself. Without TLS it
// must be the registry's own host.
func realmURL(r upstream.Remote, realm string) (*url.URL, error) {
	bad := func(why string) error {
		return upstream.Refusal("%s names a token service that can't be used: its address %s", r.URL.Host, why)
	}
	u, err := url.Parse(realm)
	if err != nil || len(realm) > giturl.MaxBytes {
		return nil, bad("can't be read")
	}
	plain := *u
	plain.RawQuery, plain.ForceQuery = "", false
	_, err = giturl.ParseFolder(plain.String())
	switch {
	case u.Scheme == "http" && r.Registry.Insecure && u.Hostname() == r.URL.Hostname() && u.User == nil:
	case err != nil:
		return nil, bad(err.Error())
	case u.Scheme != "https" && r.URL.Scheme == "https":
		return nil, bad("begins with http://, and the registry is asked by https")
	case !upstream.IsLoopback(r.URL.Hostname()) && upstream.IsLoopback(u.Hostname()):
		return nil, bad("leads to the hub itself")
	}
	return u, nil
}

// sendsTo tells whether a token service gets the credentials: at the registry's own place, or where the source says so.
func sendsTo(r upstream.Remote, u *url.URL) bool {
	if upstream.HostPort(u) == upstream.HostPort(r.URL) {
		return true
	}
	if u.Scheme != "https" {
		return false
	}
	known := strings.Fields(r.Registry.TokenHosts)
	switch r.URL.Hostname() { // whose token services are documented
	case oci.DockerHub:
		known = append(known, oci.DockerHubTokens)
	case "registry.gitlab.com":
		known = append(known, "gitlab.com")
	}
	return slices.ContainsFunc(known, func(host string) bool {
		return upstream.HostPort(&url.URL{Scheme: "https", Host: host}) == upstream.HostPort(u)
	})
}
