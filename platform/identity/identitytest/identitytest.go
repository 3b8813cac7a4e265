// Package identitytest gives tests real tokens and a verifier that trusts them.
package identitytest

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
)

// Authority signs tokens as a console does and verifies them as a hub service does.
// It is an identity.Verifier.
type Authority struct {
	t    testing.TB
	keys *identity.KeySet
	*identity.BundleVerifier

	mu      sync.Mutex // guards what follows
	revoked []identity.Revocation
}

// New returns an authority with keys of its own.
func New(t testing.TB) *Authority {
	t.Helper()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	a := &Authority{t: t, keys: keys}
	if a.BundleVerifier, err = identity.NewBundleVerifier(a.bundle()); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *Authority) bundle() identity.Bundle {
	return identity.Bundle{Keys: a.keys.PublicJWKS(), Revocations: a.revoked, IssuedAt: time.Now()}
}

// Token returns an hour's token for anybody.
func (a *Authority) Token(id identity.Identity) string {
	a.t.Helper()
	token, _, err := a.keys.Sign(id, time.Hour)
	if err != nil {
		a.t.Fatal(err)
	}
	return token
}

// Agent returns an hour's token for the agent of a cluster.
func (a *Authority) Agent(cluster string) string {
	a.t.Helper()
	return a.Token(identity.Identity{Kind: identity.KindAgent, Name: cluster})
}

// Service returns an hour's token for a service of the hub.
func (a *Authority) Service(name string) string {
	a.t.Helper()
	return a.Token(identity.Identity{Kind: identity.KindService, Name: name})
}

// User returns an hour's token for a user.
func (a *Authority) User(name string, groups ...string) string {
	a.t.Helper()
	return a.Token(identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups})
}

// Admin returns an hour's token for an administrator.
func (a *Authority) Admin() string {
	a.t.Helper()
	return a.User("admin", identity.AdminsGroup)
}

// Revoke revokes at once what a subject ("agent:edge-1") got until now.
func (a *Authority) Revoke(subject string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked = append(a.revoked, identity.Revocation{Subject: subject, At: time.Now()})
	if err := a.Update(a.bundle()); err != nil {
		a.t.Fatal(err)
	}
}

// SendTo is the source of a token as a service of the hub sends it to another one.
func SendTo(service, token, hubSecret string) identity.TokenSource {
	return identity.SendTo(service, identity.StaticToken(token), hubsecret.Text(hubSecret))
}

// Header is what goes with such a token, for requests that are made by hand.
func Header(t testing.TB, service, token, hubSecret string) http.Header {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + token}}
	if err := identity.SendTo(service, identity.StaticToken(token), hubsecret.Text(hubSecret)).SetHeader(t.Context(), token, header); err != nil {
		t.Fatal(err)
	}
	return header
}
