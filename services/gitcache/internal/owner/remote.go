package owner

import (
	"context"
	"errors"

	"fairlead.dev/services/gitcache/internal/fetch"
)

// remote puts together whom to ask, and as whom.
func (t *tenure) remote(ctx context.Context, s Source) (fetch.Remote, error) {
	parse := fetch.ParseURL
	if s.Charts {
		parse = fetch.ParseChartsURL
	}
	u, err := parse(s.URL)
	if err != nil {
		return fetch.Remote{}, err
	}
	r := fetch.Remote{URL: u, Secret: s.Secret}
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

// forgetCredentials makes the next poll read the secret again when upstream did not like it.
func (t *tenure) forgetCredentials(err error) {
	var known *fetch.Error
	if errors.As(err, &known) && known.Kind == fetch.KindCredentials {
		t.known = credentialsKey{}
	}
}
