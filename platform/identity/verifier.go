package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// leeway is how far the clocks of console and verifier may be apart.
	leeway = 60 * time.Second
	// maxTokenBytes bounds what is parsed at all: a token with 64 long groups still fits.
	maxTokenBytes = 24 << 10
	// maxVerified bounds the memory of good signatures, a few hundred bytes each: all agents of a
	// large fleet and their users.
	maxVerified = 20_000
	// sweepEvery is how long a good signature of an expired token may stay in memory when no request runs by it.
	sweepEvery = 10 * time.Minute
)

// Verifier turns a token into the identity it speaks for, without asking anybody. A Verifier is safe for concurrent use
// and cheap enough to be asked again and again about a running stream. Its errors are ErrInvalid, ErrExpired,
// ErrRevoked or ErrNotReady. A token that is both expired and revoked is ErrRevoked.
type Verifier interface {
	Verify(token string) (Identity, error)
}

// RemoteVerifier is a Verifier that has to ask somebody about some tokens, and counts for the address that a request
// comes from how many of these were wrong. Its errors are ErrThrottled and ErrUnread besides.
type RemoteVerifier interface {
	Verifier
	VerifyFrom(remote, token string) (Identity, error)
}

// Why a token is refused. Errors that are wrapped around them are for logs, not for callers.
var (
	ErrInvalid = errors.New("token is not valid")
	ErrExpired = errors.New("token is expired")
	ErrRevoked = errors.New("token is revoked")
	// ErrNotReady says nothing about the token: the verifier knows no keys yet.
	ErrNotReady = errors.New("no trust bundle yet")
	// ErrThrottled says nothing about the token, either: there were too many wrong ones from its address.
	ErrThrottled = errors.New("too many wrong tokens came from this address")
	// ErrUnread says nothing about the token, either: the console keeps it in the database, and could not read it.
	ErrUnread = errors.New("the console could not read the token from the catalog's database")

	errUnknownKey = fmt.Errorf("%w: its key is unknown", ErrInvalid)
)

// BundleVerifier verifies tokens from a trust bundle. The zero value is not ready.
type BundleVerifier struct {
	trust atomic.Pointer[trust]
}

// trust is a bundle, ready for use. Immutable.
type trust struct {
	bundle   Bundle
	keys     *keyring
	tokens   map[string]struct{}  // revoked ones, by id
	subjects map[string]time.Time // revoked up to a time
}

// NewBundleVerifier returns a verifier that trusts b.
func NewBundleVerifier(b Bundle) (*BundleVerifier, error) {
	v := new(BundleVerifier)
	if err := v.Update(b); err != nil {
		return nil, err
	}
	return v, nil
}

// Update replaces the bundle. One without a usable key is refused, and the one before stays.
func (v *BundleVerifier) Update(b Bundle) error {
	keys, err := newKeyring(b.Keys)
	if err != nil {
		return fmt.Errorf("read trust bundle: %w", err)
	}
	t := &trust{bundle: b, keys: keys, tokens: make(map[string]struct{}), subjects: make(map[string]time.Time)}
	for _, r := range b.Revocations {
		switch {
		case r.TokenID != "":
			t.tokens[r.TokenID] = struct{}{}
		case r.Subject != "":
			if r.At.After(t.subjects[r.Subject]) {
				t.subjects[r.Subject] = r.At
			}
		default:
			return errors.New("read trust bundle: a revocation names neither a token nor a subject")
		}
	}
	if old := v.trust.Load(); old != nil && string(old.bundle.Keys) == string(b.Keys) {
		t.keys = old.keys // with the signatures that it has verified
		t.keys.sweep(time.Now())
	}
	v.trust.Store(t)
	return nil
}

// Verify implements Verifier.
func (v *BundleVerifier) Verify(token string) (Identity, error) {
	t := v.trust.Load()
	if t == nil {
		return Identity{}, ErrNotReady
	}
	id, err := t.keys.verify(token)
	if err != nil {
		return Identity{}, err
	}
	// Each time: these change while the token stays the same.
	now := time.Now()
	if id.IssuedAt.After(now.Add(leeway)) {
		return Identity{}, fmt.Errorf("%w: issued in the future", ErrInvalid)
	}
	if _, revoked := t.tokens[id.TokenID]; revoked {
		return Identity{}, ErrRevoked
	}
	if _, revoked := t.tokens[id.Parent]; revoked { // no revoked token has an empty id
		return Identity{}, ErrRevoked
	}
	if len(t.subjects) > 0 {
		if until, ok := t.subjects[id.Subject()]; ok && !id.BeganAt.After(until) {
			return Identity{}, ErrRevoked
		}
	}
	// At last: requests may outlive their token, but no revocation.
	if id.expired(now) {
		return Identity{}, ErrExpired
	}
	id.Groups = slices.Clone(id.Groups) // callers own what they get
	return id, nil
}

// keyring checks signatures and remembers the good ones.
type keyring struct {
	keys map[string]ed25519.PublicKey // by id

	turns  chan struct{} // taken by who parses
	copies sync.Pool     // *[]byte, for hash

	mu       sync.RWMutex // guards what follows
	verified map[[sha256.Size]byte]Identity
	swept    time.Time
}

func newKeyring(jwks []byte) (*keyring, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(jwks, &set); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("keys: %d of them: must be 1 to %d", len(set.Keys), maxKeys)
	}
	r := &keyring{
		keys: make(map[string]ed25519.PublicKey), turns: make(chan struct{}, runtime.GOMAXPROCS(0)), verified: make(map[[sha256.Size]byte]Identity),
	}
	for i, k := range set.Keys {
		public, ok := k.Key.(ed25519.PublicKey)
		if !ok || !k.Valid() || k.KeyID == "" {
			return nil, fmt.Errorf("keys: number %d is not a public Ed25519 key with an id", i)
		}
		r.keys[k.KeyID] = public
	}
	return r, nil
}

// verify answers for signature and form, which never change; the caller checks the rest.
func (r *keyring) verify(token string) (Identity, error) {
	if len(token) > maxTokenBytes {
		return Identity{}, fmt.Errorf("%w: too long", ErrInvalid)
	}
	sum := r.hash(token)
	r.mu.RLock()
	id, ok := r.verified[sum]
	r.mu.RUnlock()
	if ok {
		return id, nil
	}
	id, err := r.parseApart(token)
	if err != nil {
		return Identity{}, err // and forgotten: made-up tokens take no memory
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.verified) >= maxVerified {
		for other := range r.verified { // any one
			delete(r.verified, other)
			break
		}
	}
	r.verified[sum] = id
	return id, nil
}

// hash uses a buffer again and again: it is asked for every request and every ten seconds for each stream, and a copy
// of the token each time would be a third of the garbage of a service that has little to do.
func (r *keyring) hash(token string) [sha256.Size]byte {
	b, _ := r.copies.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	defer r.copies.Put(b)
	*b = append((*b)[:0], token...)
	return sha256.Sum256(*b)
}

// sweep drops what is expired, once in a while.
func (r *keyring) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) < sweepEvery {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.verified, func(_ [sha256.Size]byte, id Identity) bool { return !now.Before(id.RequestsEnd().Add(leeway)) })
}

func (id Identity) expired(now time.Time) bool { return !now.Before(id.ExpiresAt.Add(leeway)) }

// notInToken refuses what base64 decoders skip, so that a token has one spelling for the parser.
func notInToken(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
}

// parseApart parses in a goroutine of its own, few at a time: a flood of tokens that nobody knows leaves time for
// those who are known, and the large stack that it takes is not kept by a stream that begins with it.
func (r *keyring) parseApart(token string) (id Identity, err error) {
	r.turns <- struct{}{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if panicked := recover(); panicked != nil { // Foreign bytes must not end the process.
				err = fmt.Errorf("%w: %v", ErrInvalid, panicked)
			}
			<-r.turns
		}()
		id, err = r.parse(token)
	}()
	<-done
	return id, err
}

func (r *keyring) parse(token string) (Identity, error) {
	if strings.ContainsFunc(token, notInToken) {
		return Identity{}, fmt.Errorf("%w: not in compact form", ErrInvalid)
	}
	// The algorithm is pinned here: neither "none" nor HMAC with our public key gets further.
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(parsed.Headers) != 1 {
		return Identity{}, fmt.Errorf("%w: %d signatures", ErrInvalid, len(parsed.Headers))
	}
	header := parsed.Headers[0]
	if header.JSONWebKey != nil || header.ExtraHeaders[jose.HeaderType] != tokenType {
		return Identity{}, fmt.Errorf("%w: not one of our headers", ErrInvalid)
	}
	key, ok := r.keys[header.KeyID]
	if !ok {
		return Identity{}, errUnknownKey
	}
	var c claims
	if err := parsed.Claims(key, &c); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c.identity()
}

// identity takes the claims of a token whose signature is good. The claims are judged all the same: the console that
// signed them may be of another version.
func (c claims) identity() (Identity, error) {
	if c.Issuer != issuer || len(c.Audience) != 1 || c.Audience[0] != audience {
		return Identity{}, fmt.Errorf("%w: wrong issuer or audience", ErrInvalid)
	}
	if c.ID == "" || c.IssuedAt == nil || c.Expiry == nil {
		return Identity{}, fmt.Errorf("%w: without id or times", ErrInvalid)
	}
	kind, name, _ := strings.Cut(c.Subject, ":")
	id := Identity{
		Kind: Kind(kind), Name: name, Groups: c.Groups, TokenID: c.ID, Final: c.Final, Parent: c.Parent, Limits: c.Limits,
		IssuedAt: time.UnixMicro(c.IssuedMicros).UTC(), ExpiresAt: c.Expiry.Time().UTC(),
		// Consoles of before this claim lent tokens, too.
		Lent:       c.Lent || c.Final && c.UntilSeconds == 0,
		ClusterUID: c.ClusterUID,
	}
	if c.Confirmation != nil {
		if id.Key = c.Confirmation.Ed25519; id.Key == "" {
			return Identity{}, fmt.Errorf("%w: bound to a key of another kind", ErrInvalid) // and not to none
		}
	}
	if id.IssuedAt.Unix() != c.IssuedAt.Time().Unix() {
		return Identity{}, fmt.Errorf("%w: its times differ", ErrInvalid)
	}
	id.BeganAt = id.IssuedAt
	if c.BeganMicros != 0 {
		id.BeganAt = time.UnixMicro(c.BeganMicros).UTC()
	}
	if c.UntilSeconds != 0 {
		id.Until = time.Unix(c.UntilSeconds, 0).UTC()
	}
	if c.RequestsUntilSeconds != 0 {
		id.RequestsUntil = time.Unix(c.RequestsUntilSeconds, 0).UTC()
		if !id.Lent || id.RequestsUntil.Sub(id.IssuedAt) > MaxLifetime {
			return Identity{}, fmt.Errorf("%w: its requests outlive it for too long", ErrInvalid)
		}
	}
	if life := id.ExpiresAt.Sub(id.IssuedAt); life <= 0 || life > MaxLifetime {
		return Identity{}, fmt.Errorf("%w: lifetime %s", ErrInvalid, life)
	}
	if err := id.Validate(); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return id, nil
}
