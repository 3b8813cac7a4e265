package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

const (
	// ProofHeader carries an agent's proof that it has the key which its token is bound to.
	ProofHeader = "Fairlead-Proof"
	// proofLifetime is how long one proof counts. The lifetime bounds what a copy of a request's header is worth, and
	// how often a service of the hub has to check a signature: once per agent in half of it.
	proofLifetime = 5 * time.Minute
	// clockTolerance is how far an agent's clock may be from the hub's before the agent corrects for it.
	clockTolerance = 20 * time.Second

	// Signed bytes begin with what they are for, so that no signature counts as another.
	proofFormat   = "fairlead agent proof 1"
	joinFormat    = "fairlead agent join 1"
	renewalFormat = "fairlead agent renewal 1"
	pemPrivateKey = "PRIVATE KEY"
)

// AgentKey is the Ed25519 key pair that the tokens of one agent are bound to. An AgentKey is made where the agent's
// token is kept and never leaves that place.
type AgentKey struct{ private ed25519.PrivateKey }

// NewAgentKey makes a key pair.
func NewAgentKey() (*AgentKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the agent's key: %w", err)
	}
	return &AgentKey{private}, nil
}

// ParseAgentKey reads what Marshal wrote.
func ParseAgentKey(text []byte) (*AgentKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemPrivateKey {
		return nil, errors.New("not a private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("not an Ed25519 key") // the cause could quote it
	}
	return &AgentKey{private}, nil
}

// Marshal returns the key pair as PEM, for a file of mode 0600.
func (k *AgentKey) Marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("write the agent's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

// Public is the public key as it stands in Identity.Key.
func (k *AgentKey) Public() string { return encodeKey(k.public()) }

func (k *AgentKey) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) } //nolint:forcetypeassert // of an Ed25519 key it is one

func encodeKey(public []byte) string { return base64.RawURLEncoding.EncodeToString(public) }

// decodeKey reads a public key as it stands in Identity.Key.
func decodeKey(text string) (ed25519.PublicKey, bool) {
	public, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return public, err == nil && len(public) == ed25519.PublicKeySize
}

// ForJoin proves to the console that who uses a join token has the key.
func (k *AgentKey) ForJoin(joinToken string) *consolev1.AgentKey {
	return &consolev1.AgentKey{PublicKey: k.public(), Signature: ed25519.Sign(k.private, statement(joinFormat, joinToken, nil))}
}

// ForRenewal proves to the console that who renews a token has the key. The request is random: one renewal, however
// often it is repeated.
func (k *AgentKey) ForRenewal(token string, request []byte) *consolev1.AgentKey {
	return &consolev1.AgentKey{PublicKey: k.public(), Request: request, Signature: ed25519.Sign(k.private, statement(renewalFormat, token, request))}
}

// JoinKey returns the key of who uses a join token, as in Identity.Key; false: it is not proved.
func JoinKey(m *consolev1.AgentKey, joinToken string) (key string, ok bool) {
	return provedKey(m, statement(joinFormat, joinToken, nil))
}

// RenewalKey returns the key of who renews a token, as in Identity.Key; false: it is not proved.
func RenewalKey(m *consolev1.AgentKey, token string) (key string, ok bool) {
	return provedKey(m, statement(renewalFormat, token, m.GetRequest()))
}

func provedKey(m *consolev1.AgentKey, signed []byte) (key string, ok bool) {
	if len(m.GetPublicKey()) != ed25519.PublicKeySize || !ed25519.Verify(m.GetPublicKey(), signed, m.GetSignature()) {
		return "", false
	}
	return encodeKey(m.GetPublicKey()), true
}

// statement is what a key signs: what it is for, the hash of the credential and one more field.
func statement(format, credential string, field []byte) []byte {
	sum := sha256.Sum256([]byte(credential))
	return append(append(append([]byte(format), 0), sum[:]...), field...)
}

// proofStatement is what is signed of a proof: by whom it is taken, when it was made and for which token.
func proofStatement(audience string, at int64, token string) []byte {
	return statement(proofFormat, token, []byte(audience+"\x00"+strconv.FormatInt(at, 10)))
}

// prove returns the value of ProofHeader.
func (k *AgentKey) prove(audience string, at time.Time, token string) string {
	signature := ed25519.Sign(k.private, proofStatement(audience, at.Unix(), token))
	return strconv.FormatInt(at.Unix(), 10) + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// HubClock is the hub's clock, as an agent knows it: its own, corrected by what the hub answers, so that a machine
// whose clock is wrong gets its proofs accepted, too. The zero value is the machine's own. Safe for concurrent use.
type HubClock struct{ ahead atomic.Int64 } // in nanoseconds

func (c *HubClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Heed returns a transport that sets the clock by answers which refuse a credential.
func (c *HubClock) Heed(next http.RoundTripper) http.RoundTripper { return heeding{next, c} }

type heeding struct {
	http.RoundTripper

	clock *HubClock
}

func (h heeding) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		h.clock.set(resp.Header.Get("Date"))
	}
	return resp, err
}

func (h heeding) CloseIdleConnections() {
	if c, ok := h.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (c *HubClock) set(date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ahead := time.Until(at)
	if ahead.Abs() < clockTolerance {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

// Prover is the credential of an agent for one sort of service of the hub: its token, with proofs that the agent has
// the key. Safe for concurrent use.
type Prover struct {
	TokenSource

	// Key gives the key; nil: the agent has none yet.
	Key func() *AgentKey
	// Audience is the sort of service, such as ServiceDistributor: a proof counts for no other.
	Audience string
	Clock    *HubClock

	mu    sync.Mutex // guards what follows
	token string     // that the proof is for
	proof string
	again time.Time // when the next proof is due
}

// proofFor returns a proof for a token. proofFor makes a new one for half of a proof's life only: the same one again
// costs the hub no signature.
func (p *Prover) proofFor(key *AgentKey, token string) string {
	now := p.Clock.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.again.Sub(now); p.token != token || left <= 0 || left > proofLifetime/2 {
		p.token, p.proof, p.again = token, key.prove(p.Audience, now, token), now.Add(proofLifetime/2)
	}
	return p.proof
}

// SetHeader implements HeaderSource.
func (p *Prover) SetHeader(_ context.Context, token string, header http.Header) error {
	if key := p.Key(); key != nil {
		header.Set(ProofHeader, p.proofFor(key, token))
	}
	return nil
}

// ProofVerifier is a Verifier that takes tokens of agents. A verifier that is none refuses them all.
type ProofVerifier interface {
	Verifier
	// VerifyProof says why a request with an agent's token, whose identity is verified, may not pass: ErrUnproved or
	// ErrUnbound.
	VerifyProof(id Identity, token, proof string) error
}

var (
	// ErrUnproved is of a token that is bound to a key, in a request without a good proof.
	ErrUnproved = errors.New("token is bound to a key, and the request does not prove that its sender has it")
	// ErrUnbound is of an agent's token that is bound to no key.
	ErrUnbound = errors.New("the agent's token is bound to no key")
)

// Proofs checks for one service of the hub that who sends an agent's token has the key that the token is bound to. A
// proof is checked once and remembered while it counts, so that an agent's next calls cost no signature. Safe for
// concurrent use.
type Proofs struct {
	// Audience is the service, as agents name it.
	Audience string
	// AcceptUnbound accepts requests without a proof: those of agents of before there were keys, and of such as were
	// put back to that. A wrong proof is never accepted.
	AcceptUnbound bool

	mu sync.RWMutex // guards what follows
	// good has the last good proof of each token, by the token's id.
	good  map[string]goodProof
	swept time.Time
}

// goodProof is a proof that was checked. Beside its id the time tells a token from all others.
type goodProof struct {
	proof  string
	issued int64 // of the token, in Unix microseconds
	until  int64 // of the proof, in Unix seconds
}

// VerifyProof implements ProofVerifier.
func (p *Proofs) VerifyProof(id Identity, token, proof string) error {
	switch {
	case p.AcceptUnbound && (proof == "" || id.Key == ""):
		return nil
	case id.Key == "":
		return ErrUnbound
	}
	now := time.Now()
	p.mu.RLock()
	good := p.good[id.TokenID]
	p.mu.RUnlock()
	if proof != "" && good.proof == proof && good.issued == id.IssuedAt.UnixMicro() && now.Unix() < good.until {
		return nil
	}
	until, err := p.check(id, token, proof, now)
	if err != nil {
		return err
	}
	p.remember(id.TokenID, goodProof{strings.Clone(proof), id.IssuedAt.UnixMicro(), until}, now)
	return nil
}

func (p *Proofs) check(id Identity, token, proof string, now time.Time) (until int64, err error) {
	at, signature, ok := parseProof(proof)
	if !ok {
		return 0, ErrUnproved
	}
	until = at + int64((proofLifetime+leeway)/time.Second)
	if at > now.Add(leeway).Unix() || now.Unix() >= until {
		return 0, fmt.Errorf("%w: the proof is not of now", ErrUnproved)
	}
	public, ok := decodeKey(id.Key)
	if !ok || !ed25519.Verify(public, proofStatement(p.Audience, at, token), signature) {
		return 0, ErrUnproved
	}
	return until, nil
}

func parseProof(proof string) (at int64, signature []byte, ok bool) {
	const most = 16 + ed25519.SignatureSize*2
	seconds, text, ok := strings.Cut(proof, ".")
	if !ok || len(proof) > most {
		return 0, nil, false
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || at < 0 || strconv.FormatInt(at, 10) != seconds {
		return 0, nil, false
	}
	signature, err = base64.RawURLEncoding.Strict().DecodeString(text)
	return at, signature, err == nil && len(signature) == ed25519.SignatureSize
}

func (p *Proofs) remember(tokenID string, good goodProof, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.good == nil {
		p.good = map[string]goodProof{}
	}
	if now.Sub(p.swept) >= time.Minute {
		p.swept = now
		maps.DeleteFunc(p.good, func(_ string, g goodProof) bool { return now.Unix() >= g.until })
	}
	if len(p.good) >= maxVerified {
		for other := range p.good { // any one
			delete(p.good, other)
			break
		}
	}
	p.good[tokenID] = good
}
