package identity

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	issuer   = "fairlead"
	audience = "fairlead"
	// tokenType stands in each token's header, so that nothing else signed by these keys is a token.
	tokenType = "JWT"

	// ActivationDelay is how long a new key is only published before it signs: by then every
	// verifier has polled it, so that no fresh token is refused.
	ActivationDelay = 30 * time.Second
	// maxKeys bounds a key set. Keys pile up only if they are rotated several times a day.
	maxKeys = 64
)

// KeySet holds the console's signing keys: one signs, all verify. A KeySet is immutable; Rotate returns a new one,
// which the console stores before it uses it.
type KeySet struct {
	keys   []signingKey // oldest first, at least one
	public []byte
}

type signingKey struct {
	JWK       jose.JSONWebKey `json:"jwk"`
	SignsFrom time.Time       `json:"signs_from"`
}

// NewKeySet makes a set with one fresh key that signs at once.
func NewKeySet() (*KeySet, error) {
	key, err := newSigningKey(time.Now())
	if err != nil {
		return nil, err
	}
	return newKeySet([]signingKey{key})
}

func newKeySet(keys []signingKey) (*KeySet, error) {
	var set jose.JSONWebKeySet
	for _, key := range keys {
		set.Keys = append(set.Keys, key.JWK.Public())
	}
	public, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("write public keys: %w", err)
	}
	return &KeySet{keys: keys, public: public}, nil
}

func newSigningKey(signsFrom time.Time) (signingKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return signingKey{}, fmt.Errorf("make signing key: %w", err)
	}
	jwk := jose.JSONWebKey{Key: private, Algorithm: string(jose.EdDSA), Use: "sig"}
	// RFC 7638: nobody can make another key with this id.
	id, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return signingKey{}, fmt.Errorf("make signing key: %w", err)
	}
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(id)
	return signingKey{JWK: jwk, SignsFrom: signsFrom.UTC().Round(0)}, nil
}

type storedKeys struct {
	Keys []signingKey `json:"keys"`
}

// ParseKeySet reads what MarshalPrivate wrote.
func ParseKeySet(private []byte) (*KeySet, error) {
	var stored storedKeys
	if err := json.Unmarshal(private, &stored); err != nil {
		// Not wrapped: the cause could quote a private key.
		return nil, errors.New("parse signing keys: not the JSON that was stored")
	}
	if len(stored.Keys) == 0 || len(stored.Keys) > maxKeys {
		return nil, fmt.Errorf("parse signing keys: %d keys: must be 1 to %d", len(stored.Keys), maxKeys)
	}
	for i, k := range stored.Keys {
		if _, ok := k.JWK.Key.(ed25519.PrivateKey); !ok || !k.JWK.Valid() || k.JWK.KeyID == "" {
			return nil, fmt.Errorf("parse signing keys: key %d is not a private Ed25519 key with an id", i)
		}
	}
	return newKeySet(stored.Keys)
}

// MarshalPrivate returns the whole set with its private keys. Seal it before storing it.
func (k *KeySet) MarshalPrivate() ([]byte, error) {
	data, err := json.Marshal(storedKeys{Keys: k.keys})
	if err != nil {
		return nil, fmt.Errorf("write signing keys: %w", err)
	}
	return data, nil
}

// PublicJWKS returns the public keys for a Bundle.
func (k *KeySet) PublicJWKS() []byte { return slices.Clone(k.public) }

// Rotate returns a set with a new key besides those of k whose tokens can still be valid, and the
// new key's id. The new key verifies at once and signs after ActivationDelay, when every verifier
// has polled the bundle with it.
func (k *KeySet) Rotate() (*KeySet, string, error) {
	now := time.Now()
	var kept []signingKey
	for i, key := range k.keys {
		// A key signs until its successor does.
		if last := i == len(k.keys)-1; last || now.Before(k.keys[i+1].SignsFrom.Add(MaxLifetime+leeway)) {
			kept = append(kept, key)
		}
	}
	if len(kept) >= maxKeys {
		return nil, "", fmt.Errorf("rotate signing key: %d keys have tokens that are still valid: wait until the oldest is %s old", len(kept), MaxLifetime)
	}
	key, err := newSigningKey(now.Add(ActivationDelay))
	if err != nil {
		return nil, "", err
	}
	rotated, err := newKeySet(append(kept, key))
	if err != nil {
		return nil, "", err
	}
	return rotated, key.JWK.KeyID, nil
}

func (k *KeySet) signer(now time.Time) signingKey {
	for i := len(k.keys) - 1; i > 0; i-- {
		if !now.Before(k.keys[i].SignsFrom) {
			return k.keys[i]
		}
	}
	return k.keys[0]
}

// claims is what a token says.
type claims struct {
	jwt.Claims
	// IssuedMicros is iat with the precision that a revocation by subject needs: without it, a
	// token issued within the second of a revocation would be revoked, too.
	IssuedMicros int64 `json:"iat_us"`
	// BeganMicros is of a renewed token: when the first of its line was issued.
	BeganMicros int64    `json:"began_us,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	Final       bool     `json:"final,omitempty"`
	Lent        bool     `json:"lent,omitempty"`
	// Parent and UntilSeconds are of a session in a browser.
	Parent       string `json:"parent,omitempty"`
	UntilSeconds int64  `json:"until,omitempty"`
	// RequestsUntilSeconds is of a token that was lent to its own owner.
	RequestsUntilSeconds int64 `json:"requests_until,omitempty"`
	// Limits bound an API token and what it was exchanged for.
	Limits *Limits `json:"lim,omitempty"`
	// ClusterUID and Confirmation are of agents.
	ClusterUID   string        `json:"uid,omitempty"`
	Confirmation *confirmation `json:"cnf,omitempty"`
}

// confirmation names the key that a token is bound to.
type confirmation struct {
	Ed25519 string `json:"ed25519"`
}

// Sign issues the first token of a line for id, to live for ttl (at most MaxLifetime). The token's id
// and times are made here and returned in the signed identity.
func (k *KeySet) Sign(id Identity, ttl time.Duration) (token string, signed Identity, err error) {
	id.TokenID, id.BeganAt = rand.Text(), time.Time{}
	return k.sign(id, ttl)
}

// ErrFinal: a token that was made to be handed on is not renewed.
var ErrFinal = errors.New("this token can't be renewed: get one as you got it, with `fairlead login` or from an administrator")

// Lend issues a token for the identity of a verified one that lives for ttl, but no longer than that one, and can't be
// renewed. A revocation reaches both. Requests that begin with it end at verified.RequestsUntil: the caller decides on
// it.
func (k *KeySet) Lend(verified Identity, ttl time.Duration) (token string, signed Identity, err error) {
	ttl = min(ttl, time.Until(verified.ExpiresAt))
	if verified.TokenID == "" || verified.BeganAt.IsZero() || ttl < time.Second {
		return "", Identity{}, errors.New("lend token: there is no token, or it is about to expire")
	}
	verified.Final, verified.Lent = true, true
	return k.sign(verified, ttl)
}

// Renew issues a token for the identity of a verified one. The new token has the same token id and knows when its line
// began, so that a revocation reaches it however often, and whenever, it was renewed.
func (k *KeySet) Renew(verified Identity, ttl time.Duration) (token string, signed Identity, err error) {
	if verified.TokenID == "" || verified.BeganAt.IsZero() {
		return "", Identity{}, errors.New("renew token: there is no token to renew")
	}
	if verified.Final {
		return "", Identity{}, ErrFinal
	}
	return k.sign(verified, ttl)
}

// RenewAgent issues the token of a generation of an agent's line, bound to the identity's key: the first that is bound,
// or the one after. Its id is that of the first token of the line and the generation, so that whoever revokes any of a
// line revokes all. See Family.
func (k *KeySet) RenewAgent(verified Identity, generation int64, ttl time.Duration) (token string, signed Identity, err error) {
	if verified.Kind != KindAgent || verified.TokenID == "" || verified.Key == "" || verified.BeganAt.IsZero() {
		return "", Identity{}, errors.New("renew the agent's token: there is none that is bound to a key")
	}
	family := Family(verified.TokenID)
	verified.Parent, verified.TokenID = family, family+"."+strconv.FormatInt(generation, 10)
	return k.sign(verified, ttl)
}

// Family is the id of the first token of a token's line.
func Family(tokenID string) string {
	family, _, _ := strings.Cut(tokenID, ".") // ids of first tokens have no dot
	return family
}

// Generation counts the renewals up to a token of an agent's line: 0 for the first one, and for tokens that are bound
// to no key.
func Generation(tokenID string) int64 {
	_, text, _ := strings.Cut(tokenID, ".")
	generation, _ := strconv.ParseInt(text, 10, 64) // of our own making, or 0
	return max(0, generation)
}

func confirmationOf(key string) *confirmation {
	if key == "" {
		return nil
	}
	return &confirmation{key}
}

// Session issues the token of a session in a browser: a new one, begun with a verified token, or the next one of a
// verified session. The token is worth no more and lives no longer than the token that the session was begun with.
func (k *KeySet) Session(verified Identity) (token string, signed Identity, err error) {
	if verified.TokenID == "" || verified.BeganAt.IsZero() {
		return "", Identity{}, errors.New("begin session: there is no token to begin it with")
	}
	if verified.Until.IsZero() {
		verified.Parent = cmp.Or(verified.Parent, verified.TokenID) // of what an API token was exchanged for: the API token
		verified.Until, verified.TokenID = verified.ExpiresAt, rand.Text()
	}
	ttl := min(SessionLifetime, time.Until(verified.Until))
	if ttl < time.Second {
		return "", Identity{}, ErrExpired
	}
	verified.Final, verified.RequestsUntil = true, time.Time{} // final by anything but this
	return k.sign(verified, ttl)
}

func (k *KeySet) sign(id Identity, ttl time.Duration) (token string, signed Identity, err error) {
	if err := id.Validate(); err != nil {
		return "", Identity{}, fmt.Errorf("sign token: %w", err)
	}
	if ttl < time.Second || ttl > MaxLifetime {
		return "", Identity{}, fmt.Errorf("sign token: lifetime %s: must be from 1s to %s", ttl, MaxLifetime)
	}
	now := time.Now()
	id.IssuedAt = now.UTC().Truncate(time.Microsecond)
	id.ExpiresAt = now.Add(ttl).UTC().Truncate(time.Second)
	var began int64
	if id.BeganAt.IsZero() {
		id.BeganAt = id.IssuedAt
	} else {
		began = id.BeganAt.UnixMicro()
	}
	var until int64
	if !id.Until.IsZero() {
		until = id.Until.Unix()
	}

	var requestsUntil int64
	if !id.RequestsUntil.IsZero() {
		requestsUntil = id.RequestsUntil.Unix()
	}

	key := k.signer(now)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key.JWK}, new(jose.SignerOptions).WithType(tokenType))
	if err != nil {
		return "", Identity{}, fmt.Errorf("sign token: %w", err)
	}
	token, err = jwt.Signed(signer).Claims(claims{
		Claims: jwt.Claims{
			Issuer:   issuer,
			Audience: jwt.Audience{audience},
			Subject:  id.Subject(),
			ID:       id.TokenID,
			IssuedAt: jwt.NewNumericDate(id.IssuedAt),
			Expiry:   jwt.NewNumericDate(id.ExpiresAt),
		},
		IssuedMicros: id.IssuedAt.UnixMicro(),
		BeganMicros:  began,
		Groups:       id.Groups,
		Final:        id.Final,
		Lent:         id.Lent,
		Parent:       id.Parent,
		UntilSeconds: until,

		RequestsUntilSeconds: requestsUntil,

		Limits:       id.Limits,
		ClusterUID:   id.ClusterUID,
		Confirmation: confirmationOf(id.Key),
	}).Serialize()
	if err != nil {
		return "", Identity{}, fmt.Errorf("sign token: %w", err)
	}
	if len(token) > maxTokenBytes {
		return "", Identity{}, fmt.Errorf("sign token: %s has so many groups that its token has %d bytes: at most %d are possible", id.Subject(), len(token), maxTokenBytes)
	}
	return token, id, nil
}
