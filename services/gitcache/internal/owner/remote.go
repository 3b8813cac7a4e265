package owner

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"fairlead.dev/services/gitcache/internal/fetch/buckets"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// remoteOf puts together whom to ask, and as whom.
func (t *tenure) remoteOf(ctx context.Context, s source.Source) (upstream.Remote, error) {
	u, err := parseURL(s)
	if err != nil {
		return upstream.Remote{}, err
	}
	r := upstream.Remote{URL: u, Secret: s.Secret, Registry: s.Registry, Bucket: s.Bucket}
	if s.Proxy != "" {
		if r.Proxy, err = upstream.ParseProxy(s.Proxy); err != nil {
			return upstream.Remote{}, err
		}
	}
	if err := t.readSecret(ctx, s, &r); err != nil || s.Cloud == "" {
		return r, err
	}
	err = t.logIn(ctx, s, &r) // it changes r
	return r, err
}

// readSecret gives the credentials of the source's secret, if it names one.
func (t *tenure) readSecret(ctx context.Context, s source.Source, r *upstream.Remote) error {
	if s.Secret == "" {
		return nil
	}
	known, ok := t.credentials[s.Secret]
	if !ok || known.revision != s.SecretRevision {
		ctx, cancel := context.WithTimeout(ctx, consoleTime)
		defer cancel()
		c, err := t.loop.o.deps.Console.Credentials(ctx, s.Secret)
		if err != nil {
			return &upstream.Error{Kind: upstream.KindCredentials, Message: err.Error()}
		}
		known = credentials{c, s.SecretRevision}
		t.credentials[s.Secret] = known
	}
	r.Credentials = known.Credentials
	return nil
}

// logIn gives the credentials of the gitcache's own identity at a cloud. The secret may still have an authority and the
// proxy's.
func (t *tenure) logIn(ctx context.Context, s source.Source, r *upstream.Remote) error {
	c := &r.Credentials
	if c.Password != "" || c.DockerConfig != "" || c.AccessKey != "" {
		return &upstream.Error{
			Kind:    upstream.KindCredentials,
			Message: fmt.Sprintf("the source has auth: %s, and secret %q has credentials, too. Remove one of them", s.Cloud, s.Secret),
		}
	}
	ask := t.loop.o.deps.Clouds.Registry
	if s.Bucket.Is {
		ask = t.loop.o.deps.Clouds.Bucket
	}
	login, err := ask(ctx, s.Cloud, r.URL.Host)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &upstream.Error{Kind: upstream.KindCredentials, Message: err.Error()}
	}
	r.Cloud = string(s.Cloud)
	if s.Bucket.Is {
		c.AccessKey, c.SecretKey, c.SessionToken, c.Token = login.AccessKey, login.SecretKey, login.SessionToken, login.Token
		return nil
	}
	c.Username, c.Password = login.Username, login.Password
	return nil
}

func parseURL(s source.Source) (*url.URL, error) {
	switch {
	case s.Charts:
		return chartrepo.ParseURL(s.URL, s.Registry)
	case s.Artifacts:
		return registry.ParseURL(s.URL, s.Registry)
	case s.Bucket.Is:
		return buckets.ParseURL(s.URL)
	}
	return upstream.ParseURL(s.URL)
}

// forgetCredentials makes the next poll read the secret again when upstream did not like it.
func (t *tenure) forgetCredentials(err error) { t.forgetCredentialsOf(t.loop.currentSource(), err) }

func (t *tenure) forgetCredentialsOf(s source.Source, err error) {
	if known, ok := errors.AsType[*upstream.Error](err); !ok || known.Kind != upstream.KindCredentials {
		return
	}
	delete(t.credentials, s.Secret)
	if s.Cloud == "" {
		return
	}
	if u, err := parseURL(s); err == nil {
		t.loop.o.deps.Clouds.Forget(s.Cloud, u.Host)
	}
}
