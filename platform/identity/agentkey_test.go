package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

func newKey(t testing.TB) *identity.AgentKey {
	t.Helper()
	key, err := identity.NewAgentKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// verifying is the verifier of a service of the hub.
func verifying(t testing.TB, keys *identity.KeySet, proofs *identity.Proofs) identity.Verifier {
	t.Helper()
	v, err := identity.NewBundleVerifier(identity.Bundle{Keys: keys.PublicJWKS()})
	if err != nil {
		t.Fatal(err)
	}
	return struct {
		*identity.BundleVerifier
		*identity.Proofs
	}{v, proofs}
}

// asks sends headers to a door for agents and returns the answer's code and text.
func asks(t *testing.T, v identity.Verifier, header http.Header) (int, string) {
	t.Helper()
	door := identity.Middleware(v, identity.RoleAgent,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header = header
	w := httptest.NewRecorder()
	door.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// headers are what a credential sends.
func headers(t *testing.T, src identity.HeaderSource) http.Header {
	t.Helper()
	token, err := src.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + token}}
	if err := src.SetHeader(t.Context(), token, header); err != nil {
		t.Fatal(err)
	}
	return header
}

func agentToken(t testing.TB, keys *identity.KeySet, key string) string {
	t.Helper()
	token, _, err := keys.Sign(identity.Identity{Kind: identity.KindAgent, Name: "edge-1", Key: key}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokenOfAnAgentOpensNothingWithoutItsKey(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	key, other := newKey(t), newKey(t)
	token := agentToken(t, keys, key.Public())
	v := verifying(t, keys, &identity.Proofs{Audience: identity.ServiceDistributor})
	good := headers(t, identitytest.Prover(token, key, identity.ServiceDistributor))
	proof := good.Get(identity.ProofHeader)
	for range 2 { // the second time by what is remembered
		if code, text := asks(t, v, good); code != http.StatusNoContent {
			t.Fatalf("the agent itself: %d %s", code, text)
		}
	}
	with := func(change func(h http.Header)) http.Header {
		h := good.Clone()
		change(h)
		return h
	}
	_, signature, _ := strings.Cut(proof, ".")
	moved := func(by time.Duration) string {
		return strconv.FormatInt(time.Now().Add(by).Unix(), 10) + "." + signature
	}
	for name, header := range map[string]http.Header{
		"no proof":            with(func(h http.Header) { h.Del(identity.ProofHeader) }),
		"two proofs":          with(func(h http.Header) { h.Add(identity.ProofHeader, proof) }),
		"an empty one":        with(func(h http.Header) { h.Set(identity.ProofHeader, "") }),
		"by another key":      headers(t, identitytest.Prover(token, other, identity.ServiceDistributor)),
		"for another service": headers(t, identitytest.Prover(token, key, identity.ServiceTunnel)),
		"for another token": with(func(h http.Header) {
			h.Set("Authorization", "Bearer "+agentToken(t, keys, key.Public()))
		}),
		"of another key's token": with(func(h http.Header) {
			h.Set("Authorization", "Bearer "+agentToken(t, keys, other.Public()))
		}),
		"with a later time": with(func(h http.Header) { h.Set(identity.ProofHeader, moved(time.Minute)) }),
		"with a sign":       with(func(h http.Header) { h.Set(identity.ProofHeader, "+"+proof) }),
		"with a longer end": with(func(h http.Header) { h.Set(identity.ProofHeader, proof+"A") }),
		"garbage":           with(func(h http.Header) { h.Set(identity.ProofHeader, strings.Repeat(".", 1<<16)) }),
	} {
		if code, text := asks(t, v, header); code != http.StatusUnauthorized || !strings.Contains(text, "join-token") {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

// A verifier that knows nothing of proofs lets no agent in, rather than any.
func TestVerifierWithoutProofsRefusesAgents(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	v, err := identity.NewBundleVerifier(identity.Bundle{Keys: keys.PublicJWKS()})
	if err != nil {
		t.Fatal(err)
	}
	if code, text := asks(t, v, http.Header{
		"Authorization": {"Bearer " + agentToken(t, keys, "")},
	}); code != http.StatusUnauthorized {
		t.Errorf("%d %s", code, text)
	}
}

func TestTokenWithoutAKeyIsAcceptedWhileTheSwitchIsOnAndNotAfter(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + agentToken(t, keys, "")}}
	if code, text := asks(t, verifying(t, keys, &identity.Proofs{AcceptUnbound: true}),
		header); code != http.StatusNoContent {
		t.Errorf("on: %d %s", code, text)
	}
	if code, text := asks(t, verifying(t, keys, &identity.Proofs{}), header); code != http.StatusUnauthorized ||
		!strings.Contains(text, "--unsigned-members=accept") {
		t.Errorf("off: %d %s", code, text)
	}
	// An agent that was put back to a version of before has a token with a key, and no proof. A wrong proof opens
	// nothing.
	bound := http.Header{"Authorization": {"Bearer " + agentToken(t, keys, newKey(t).Public())}}
	if code, text := asks(t, verifying(t, keys, &identity.Proofs{AcceptUnbound: true}),
		bound); code != http.StatusNoContent {
		t.Errorf("on, put back: %d %s", code, text)
	}
	if code, text := asks(t, verifying(t, keys, &identity.Proofs{}), bound); code != http.StatusUnauthorized {
		t.Errorf("off, put back: %d %s", code, text)
	}
	bound.Set(identity.ProofHeader, "1."+strings.Repeat("A", 86))
	if code, text := asks(t, verifying(t, keys, &identity.Proofs{AcceptUnbound: true}),
		bound); code != http.StatusUnauthorized {
		t.Errorf("on, a wrong proof: %d %s", code, text)
	}
}

// answering is a hub that answers at a time of its own.
type answering struct {
	code int
	at   time.Time
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.code, Header: http.Header{"Date": {a.at.UTC().Format(http.TimeFormat)}}, Body: http.NoBody,
	}, nil
}

// An agent whose clock is wrong is refused once. The agent goes by the hub's clock from then on.
func TestAgentWithAWrongClockProvesByTheHubsClock(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	source := identitytest.Prover("token", key, identity.ServiceTunnel)
	proved := func() time.Time {
		seconds, _, _ := strings.Cut(headers(t, source).Get(identity.ProofHeader), ".")
		at, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(at, 0)
	}
	hears := func(code int, ahead time.Duration) {
		resp, err := source.Clock.Heed(answering{
			code, time.Now().Add(ahead),
		}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	near := func(at time.Time, ahead time.Duration) bool { return time.Until(at.Add(-ahead)).Abs() < time.Minute }
	const years = 3 * 365 * 24 * time.Hour
	if at := proved(); !near(at, 0) {
		t.Fatalf("proved at %s", at)
	}
	hears(http.StatusOK, years) // the answer is good
	if at := proved(); !near(at, 0) {
		t.Errorf("after a good answer: %s", at)
	}
	hears(http.StatusUnauthorized, years)
	if at := proved(); !near(at, years) {
		t.Errorf("the hub is ahead, and the proof is of %s", at)
	}
	hears(http.StatusUnauthorized, -years)
	if at := proved(); !near(at, -years) {
		t.Errorf("the hub is behind, and the proof is of %s", at)
	}
	hears(http.StatusUnauthorized, 0)
	if at := proved(); !near(at, 0) {
		t.Errorf("the clock was put right, and the proof is of %s", at)
	}
}

func TestAgentKeyComesBackFromItsFile(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	text, err := key.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.ParseAgentKey(text)
	if err != nil || again.Public() != key.Public() {
		t.Errorf("got %v, %v", again, err)
	}
	for _, damaged := range []string{
		"", "key", string(text[:len(text)/2]), strings.Replace(string(text), "PRIVATE", "PUBLIC", 2),
	} {
		if _, err := identity.ParseAgentKey([]byte(damaged)); err == nil ||
			len(damaged) > 10 && strings.Contains(err.Error(), damaged[:10]) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// A signature that joins does not renew, and a signature that renews one token renews no other one.
func TestSignatureOfAKeyIsForOneUse(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	request := []byte("0123456789abcdef")
	join, renewal := key.ForJoin("credential"), key.ForRenewal("credential", request)
	if got, ok := identity.JoinKey(join, "credential"); !ok || got != key.Public() {
		t.Error("joins nothing")
	}
	if got, ok := identity.RenewalKey(renewal, "credential"); !ok || got != key.Public() {
		t.Error("renews nothing")
	}
	if _, ok := identity.JoinKey(join, "another"); ok {
		t.Error("joins by another join token")
	}
	if _, ok := identity.RenewalKey(join, "credential"); ok {
		t.Error("what joins renews")
	}
	if _, ok := identity.RenewalKey(renewal, "another"); ok {
		t.Error("renews another token")
	}
	renewal.Request = []byte("fedcba9876543210")
	if _, ok := identity.RenewalKey(renewal, "credential"); ok {
		t.Error("renews by another request")
	}
	if _, ok := identity.RenewalKey(nil, "credential"); ok {
		t.Error("no key renews")
	}
}

// BenchmarkProofAgain is what a proof costs the hub after its first time: no signature.
func BenchmarkProofAgain(b *testing.B) {
	key := newKey(b)
	proofs := &identity.Proofs{Audience: identity.ServiceDistributor}
	source := identitytest.Prover("token", key, identity.ServiceDistributor)
	header := http.Header{}
	if err := source.SetHeader(b.Context(), "token", header); err != nil {
		b.Fatal(err)
	}
	id := identity.Identity{
		Kind: identity.KindAgent, Name: "edge-1", Key: key.Public(), TokenID: "a", IssuedAt: time.Now(),
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := proofs.VerifyProof(id, "token", header.Get(identity.ProofHeader)); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzProof: no proof that somebody makes up passes.
func FuzzProof(f *testing.F) {
	key := newKey(f)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for _, text := range []string{
		"", ".", now + ".", now + "." + strings.Repeat("A", 86), "-1." + strings.Repeat("A", 86),
		"9223372036854775807." + strings.Repeat("A", 86),
	} {
		f.Add(text)
	}
	id := identity.Identity{
		Kind: identity.KindAgent, Name: "edge-1", Key: key.Public(), TokenID: "a", IssuedAt: time.Now(),
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := new(identity.Proofs).VerifyProof(id, "token", text); err == nil {
			t.Errorf("%q passes", text)
		}
	})
}
