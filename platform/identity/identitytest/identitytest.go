// Package identitytest gives tests real tokens and a verifier that trusts them.
package identitytest

import (
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
)

// Audience is the sort of service that an Authority verifies proofs for.
const Audience = identity.ServiceDistributor

// Authority signs tokens as a console does and verifies them as a hub service does.
// An Authority is an identity.Verifier.
type Authority struct {
	t    testing.TB
	keys *identity.KeySet
	*identity.BundleVerifier

	proofs identity.Proofs

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
	a := &Authority{t: t, keys: keys, proofs: identity.Proofs{Audience: Audience, AcceptUnbound: true}}
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

// Verified is who a token speaks for.
func (a *Authority) Verified(token string) identity.Identity {
	a.t.Helper()
	id, err := a.Verify(token)
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

// Lend returns a token that is lent from a verified one.
func (a *Authority) Lend(verified identity.Identity, ttl time.Duration) string {
	a.t.Helper()
	token, _, err := a.keys.Lend(verified, ttl)
	if err != nil {
		a.t.Fatal(err)
	}
	return token
}

// Session returns the token of a session in a browser that a verified token began.
func (a *Authority) Session(verified identity.Identity) string {
	a.t.Helper()
	token, _, err := a.keys.Session(verified)
	if err != nil {
		a.t.Fatal(err)
	}
	return token
}

// VerifyProof implements identity.ProofVerifier. Tokens of agents that are bound to no key are good here: tests of what
// agents may do have no use for keys.
func (a *Authority) VerifyProof(id identity.Identity, token, proof string) error {
	return a.proofs.VerifyProof(id, token, proof)
}

// AgentKey is the key of all agents that tests simulate: the same one in all processes, so that a token is all that one
// hands to another.
func AgentKey() *identity.AgentKey {
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		panic(err)
	}
	key, err := identity.ParseAgentKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		panic(err)
	}
	return key
}

// Bind binds the token that an agent's identity is signed into to AgentKey, and to a cluster by its uid. Other
// identities it returns as they are.
func Bind(id identity.Identity) identity.Identity {
	if id.Kind == identity.KindAgent {
		id.Key, id.ClusterUID = AgentKey().Public(), cmp.Or(id.ClusterUID, "uid of "+id.Name)
	}
	return id
}

// Source is a token as an agent or a person sends it to one sort of service of the hub: with proofs, if it is bound to
// AgentKey.
func Source(token, audience string) identity.TokenSource {
	if identity.BoundTo(token) != AgentKey().Public() {
		return identity.StaticToken(token)
	}
	return Prover(token, AgentKey(), audience)
}

// Prover is the credential of an agent with a token that is bound to a key.
func Prover(token string, key *identity.AgentKey, audience string) *identity.Prover {
	return &identity.Prover{
		TokenSource: identity.StaticToken(token), Key: func() *identity.AgentKey { return key }, Audience: audience, Clock: new(identity.HubClock),
	}
}

// Authorize sets the header of a request that is made by hand, as Source would.
func Authorize(t testing.TB, header http.Header, token, audience string) {
	t.Helper()
	header.Set("Authorization", "Bearer "+token)
	if more, ok := Source(token, audience).(identity.HeaderSource); ok {
		if err := more.SetHeader(t.Context(), token, header); err != nil {
			t.Fatal(err)
		}
	}
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

// SendTo is the source of a token as its owner sends it to a service of the hub: an agent, if it is bound to AgentKey,
// or another service.
func SendTo(service, token, hubSecret string) identity.HeaderSource {
	if identity.BoundTo(token) == AgentKey().Public() {
		return Prover(token, AgentKey(), service)
	}
	return identity.SendTo(service, identity.StaticToken(token), hubsecret.Text(hubSecret))
}

// Header is what goes with such a token, for requests that are made by hand.
func Header(t testing.TB, service, token, hubSecret string) http.Header {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + token}}
	if err := SendTo(service, token, hubSecret).SetHeader(t.Context(), token, header); err != nil {
		t.Fatal(err)
	}
	return header
}
