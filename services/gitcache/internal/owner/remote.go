package owner

import (
	"context"
	"errors"
	"net/url"

	"fairlead.dev/services/gitcache/internal/fetch"
)

// remote puts together whom to ask, and as whom.
func (t *tenure) remote(ctx context.Context, s Source) (fetch.Remote, error) {
	u, err := parseURL(s)
	if err != nil {
		return fetch.Remote{}, err
	}
	r := fetch.Remote{URL: u, Secret: s.Secret, Registry: s.Registry, Bucket: s.Bucket}
	if s.Proxy != "" {
		if r.Proxy, err = fetch.ParseProxy(s.Proxy); err != nil {
			return fetch.Remote{}, err
		}
	}
	if s.Secret == "" {
		return r, nil
	}
	if key := (credentialsKey{s.Secret, s.SecretRevision}); t.known != key {
		ctx, cancel := context.WithTimeout(ctx, consoleTime)
		defer cancel()
		c, err := t.o.deps.Console.Credentials(ctx, s.Secret)
		if err != nil {
			return r, &fetch.Error{Kind: fetch.KindCredentials, Message: err.Error()}
		}
		t.credentials, t.known = c, key
	}
	r.Credentials = t.credentials
	return r, nil
}

func parseURL(s Source) (*url.URL, error) {
	switch {
	case s.Charts:
		return fetch.ParseChartsURL(s.URL, s.Registry)
	case s.Artifacts:
		return fetch.ParseRegistryURL(s.URL, s.Registry)
	case s.Bucket.Is:
		return fetch.ParseBucketURL(s.URL)
	}
	return fetch.ParseURL(s.URL)
}

// forgetCredentials makes the next poll read the secret again when upstream did not like it.
func (t *tenure) forgetCredentials(err error) {
	var known *fetch.Error
	if errors.As(err, &known) && known.Kind == fetch.KindCredentials {
		t.known = credentialsKey{}
	}
}
