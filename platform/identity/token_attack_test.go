package identity_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fairlead.dev/platform/identity"
)

var b64 = base64.RawURLEncoding

// forge is a console gone bad: it signs any header and any claims with the real key.
type forge struct {
	keys    *identity.KeySet
	private ed25519.PrivateKey
	kid     string
}

func newForge(t *testing.T) forge {
	t.Helper()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	stored, err := keys.MarshalPrivate()
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		Keys []struct {
			JWK jose.JSONWebKey `json:"jwk"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(stored, &set); err != nil {
		t.Fatal(err)
	}
	return forge{keys, set.Keys[0].JWK.Key.(ed25519.PrivateKey), set.Keys[0].JWK.KeyID}
}

func (f forge) verifier(t *testing.T, revoked ...identity.Revocation) *identity.BundleVerifier {
	t.Helper()
	v, err := identity.NewBundleVerifier(identity.Bundle{Keys: f.keys.PublicJWKS(), Revocations: revoked})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (f forge) header() map[string]any {
	return map[string]any{"alg": "EdDSA", "kid": f.kid, "typ": "JWT"}
}

func goodClaims() map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": "fairlead", "aud": "fairlead", "sub": "agent:edge-1", "jti": "id-1",
		"iat": now.Unix(), "iat_us": now.UnixMicro(), "exp": now.Add(time.Hour).Unix(),
	}
}

func encode(t *testing.T, part any) string {
	t.Helper()
	if raw, ok := part.(string); ok {
		return b64.EncodeToString([]byte(raw))
	}
	data, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	return b64.EncodeToString(data)
}

// sign makes a token of any header and claims (maps, or JSON as a string).
func (f forge) sign(t *testing.T, header, claims any) string {
	t.Helper()
	input := encode(t, header) + "." + encode(t, claims)
	return input + "." + b64.EncodeToString(ed25519.Sign(f.private, []byte(input)))
}

func with(m map[string]any, changes map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range changes {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	return m
}

func refused(t *testing.T, v identity.Verifier, token string, want error) {
	t.Helper()
	id, err := v.Verify(token)
	if !errors.Is(err, want) {
		t.Errorf("got %+v, %v; want %v", id, err, want)
	}
	if id.Name != "" || id.Kind != "" {
		t.Errorf("a refused token gave %+v", id)
	}
}

// Everything below is about tokens that differ from this one.
func TestForgeMakesGoodTokens(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	id, err := f.verifier(t).Verify(f.sign(t, f.header(), goodClaims()))
	if err != nil || id.Subject() != "agent:edge-1" || id.TokenID != "id-1" {
		t.Fatalf("%+v, %v", id, err)
	}
}

func TestAttackAlgNone(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	for _, alg := range []string{"none", "None", "NONE", ""} {
		input := encode(t, with(f.header(), map[string]any{"alg": alg})) + "." + encode(t, goodClaims())
		refused(t, v, input+".", identity.ErrInvalid)
		refused(t, v, input, identity.ErrInvalid)
		refused(t, v, input+"."+b64.EncodeToString(ed25519.Sign(f.private, []byte(input))), identity.ErrInvalid)
	}
}

func TestAttackHS256WithPublicKey(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	public := f.private.Public().(ed25519.PublicKey)
	input := encode(t, with(f.header(), map[string]any{"alg": "HS256"})) + "." + encode(t, goodClaims())
	for _, secret := range [][]byte{public, []byte(b64.EncodeToString(public)), f.keys.PublicJWKS()} {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		refused(t, v, input+"."+b64.EncodeToString(mac.Sum(nil)), identity.ErrInvalid)
	}
}

func TestAttackWrongAudienceOrIssuer(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	for _, change := range []map[string]any{
		{"aud": "other"},
		{"aud": []string{"fairlead", "other"}},
		{"aud": []string{}},
		{"aud": nil},
		{"iss": "other"},
		{"iss": nil},
		{"iss": "Fairlead"},
	} {
		refused(t, v, f.sign(t, f.header(), with(goodClaims(), change)), identity.ErrInvalid)
	}
}

func TestAttackOddTimes(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	now := time.Now()
	for name, change := range map[string]map[string]any{
		"no expiry":           {"exp": nil},
		"no issue time":       {"iat": nil},
		"no precise time":     {"iat_us": nil},
		"times differ":        {"iat_us": now.Add(-time.Hour).UnixMicro()},
		"lives too long":      {"exp": now.Add(identity.MaxLifetime + time.Minute).Unix()},
		"expires before made": {"exp": now.Add(-time.Second).Unix()},
		"endless":             {"exp": int64(1) << 62},
		"text":                {"exp": "tomorrow"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, v, f.sign(t, f.header(), with(goodClaims(), change)), identity.ErrInvalid)
		})
	}
}

func TestAttackExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForge(t)
		v := f.verifier(t)
		token := f.sign(t, f.header(), goodClaims())
		<-time.After(time.Hour + 59*time.Second)
		if _, err := v.Verify(token); err != nil {
			t.Errorf("within the leeway: %v", err)
		}
		<-time.After(2 * time.Second)
		refused(t, v, token, identity.ErrExpired) // the signature is remembered, the verdict is not
		refused(t, f.verifier(t), token, identity.ErrExpired)
	})
}

func TestAttackIssuedInFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForge(t)
		v := f.verifier(t)
		at := time.Now().Add(2 * time.Minute)
		token := f.sign(t, f.header(), with(goodClaims(), map[string]any{
			"iat": at.Unix(), "iat_us": at.UnixMicro(), "exp": at.Add(time.Hour).Unix(),
		}))
		refused(t, v, token, identity.ErrInvalid)
		<-time.After(61 * time.Second) // its time is within the leeway
		if _, err := v.Verify(token); err != nil {
			t.Error(err)
		}
	})
}

func TestAttackRevokedTokenID(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t, identity.Revocation{TokenID: "id-1", At: time.Now()})
	refused(t, v, f.sign(t, f.header(), goodClaims()), identity.ErrRevoked)
	if _, err := v.Verify(f.sign(t, f.header(), with(goodClaims(), map[string]any{"jti": "id-2"}))); err != nil {
		t.Errorf("another token of the subject: %v", err)
	}
}

func TestAttackRevokedSubject(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	agent := identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}
	before, _, err := f.keys.Sign(agent, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	// An older revocation of the same subject must not win, whatever their order.
	v := f.verifier(t, identity.Revocation{Subject: "agent:edge-1", At: at},
		identity.Revocation{Subject: "agent:edge-1", At: at.Add(-time.Hour)})
	refused(t, v, before, identity.ErrRevoked)

	// A token that is issued right after, within the same second, is good.
	after, signed, err := f.keys.Sign(agent, time.Hour)
	for err == nil && !signed.IssuedAt.After(at) {
		after, signed, err = f.keys.Sign(agent, time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(after); err != nil {
		t.Errorf("token issued %s after the revocation: %v", signed.IssuedAt.Sub(at), err)
	}
	for _, other := range []identity.Identity{
		{Kind: identity.KindAgent, Name: "edge-10"}, {Kind: identity.KindUser, Name: "edge-1"},
	} {
		token, _, err := f.keys.Sign(other, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(token); err != nil {
			t.Errorf("%s: %v", other.Subject(), err)
		}
	}
}

// A thief of a token can renew it again and again, also in the moment in which it is revoked: what comes of it is
// revoked with it, whenever it was issued.
func TestAttackRenewalOutlivesNoRevocation(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	agent := identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}
	stolen, first, err := f.keys.Sign(agent, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	renewed := stolen
	for range 3 {
		id, err := f.verifier(t).Verify(renewed)
		if err != nil {
			t.Fatal(err)
		}
		if renewed, id, err = f.keys.Renew(id, time.Hour); err != nil {
			t.Fatal(err)
		}
		if id.TokenID != first.TokenID || !id.BeganAt.Equal(first.IssuedAt) || !id.IssuedAt.After(at) {
			t.Fatalf("renewed to %+v", id)
		}
		for _, r := range []identity.Revocation{{TokenID: first.TokenID, At: at}, {Subject: "agent:edge-1", At: at}} {
			refused(t, f.verifier(t, r), renewed, identity.ErrRevoked)
			if !r.Covers(id) {
				t.Errorf("%+v does not cover %+v", r, id)
			}
		}
	}
	if _, _, err := f.keys.Renew(agent, time.Hour); err == nil {
		t.Error("renewed what was no token")
	}
}

func TestAttackUnknownKey(t *testing.T) {
	t.Parallel()
	f, stranger := newForge(t), newForge(t)
	v := f.verifier(t)
	refused(t, v, stranger.sign(t, stranger.header(), goodClaims()), identity.ErrInvalid)
	// With our key's id, or none, over a stranger's signature.
	refused(t, v, stranger.sign(t, f.header(), goodClaims()), identity.ErrInvalid)
	refused(t, v, f.sign(t, with(f.header(), map[string]any{"kid": nil}), goodClaims()), identity.ErrInvalid)
	refused(t, v, f.sign(t, with(f.header(), map[string]any{"kid": "../" + f.kid}), goodClaims()), identity.ErrInvalid)
	// With the stranger's key in the header.
	jwk, err := json.Marshal(jose.JSONWebKey{Key: stranger.private.Public(), KeyID: f.kid})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, v, stranger.sign(t, with(f.header(), map[string]any{"jwk": json.RawMessage(jwk)}), goodClaims()),
		identity.ErrInvalid)
}

func TestAttackGarbageHeader(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	for name, header := range map[string]any{
		"not JSON":        "garbage",
		"null":            "null",
		"empty":           "",
		"array":           "[]",
		"duplicate alg":   `{"alg":"none","alg":"EdDSA","kid":"` + f.kid + `","typ":"JWT"}`,
		"duplicate kid":   `{"alg":"EdDSA","kid":"x","kid":"` + f.kid + `","typ":"JWT"}`,
		"other type":      with(f.header(), map[string]any{"typ": "dpop+jwt"}),
		"no type":         with(f.header(), map[string]any{"typ": nil}),
		"critical header": with(f.header(), map[string]any{"crit": []string{"x"}, "x": 1}),
		"number as kid":   with(f.header(), map[string]any{"kid": 7}),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, v, f.sign(t, header, goodClaims()), identity.ErrInvalid)
		})
	}
}

func TestAttackGarbageClaims(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	for name, claims := range map[string]any{
		"not JSON":        "garbage",
		"null":            "null",
		"duplicate":       `{"sub":"user:a","sub":"agent:edge-1"}`,
		"no id":           with(goodClaims(), map[string]any{"jti": nil}),
		"no subject":      with(goodClaims(), map[string]any{"sub": nil}),
		"no kind":         with(goodClaims(), map[string]any{"sub": "edge-1"}),
		"unknown kind":    with(goodClaims(), map[string]any{"sub": "root:edge-1"}),
		"no name":         with(goodClaims(), map[string]any{"sub": "agent:"}),
		"kubernetes name": with(goodClaims(), map[string]any{"sub": "user:system:admin"}),
		"kubernetes root": with(goodClaims(), map[string]any{"sub": "user:a", "groups": []string{"system:masters"}}),
		"control in name": with(goodClaims(), map[string]any{"sub": "user:a\r\nImpersonate-User: b"}),
		"agent in groups": with(goodClaims(), map[string]any{"groups": []string{identity.AdminsGroup}}),
		"group of number": with(goodClaims(), map[string]any{"sub": "user:a", "groups": []int{1}}),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, v, f.sign(t, f.header(), claims), identity.ErrInvalid)
		})
	}
}

func TestAttackOtherSpelling(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	token := f.sign(t, f.header(), goodClaims())
	head, rest, _ := strings.Cut(token, ".")
	signature := token[strings.LastIndexByte(token, '.')+1:]
	for name, spelled := range map[string]string{
		"newline": head[:4] + "\n" + head[4:] + "." + rest,
		"space":   token + " ",
		"padding": token + "==",
		"JSON": `{"protected":"` + head + `","payload":"` + strings.Split(token, ".")[1] + `","signature":"` +
			signature + `"}`,
		"four parts": token + ".x",
		"five parts": token + ".x.y",
		"empty":      "",
		"dots":       "..",
		"huge":       strings.Repeat("a", 1<<20),
	} {
		t.Run(name, func(t *testing.T) { refused(t, v, spelled, identity.ErrInvalid) })
	}
}

// The agent of one cluster is never taken for that of another, nor for anything but an agent.
func TestAttackOtherCluster(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	token := f.sign(t, f.header(), goodClaims())
	parts := strings.Split(token, ".")
	// Its own signature under other claims.
	for _, sub := range []string{"agent:edge-2", "user:edge-1", "service:console"} {
		parts[1] = encode(t, with(goodClaims(), map[string]any{"sub": sub}))
		refused(t, v, strings.Join(parts, "."), identity.ErrInvalid)
	}
	// A key of another installation that signs the same name.
	other := newForge(t)
	refused(t, v, other.sign(t, other.header(), goodClaims()), identity.ErrInvalid)
}

func TestVerifierWithoutBundleIsNotReady(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	refused(t, new(identity.BundleVerifier), f.sign(t, f.header(), goodClaims()), identity.ErrNotReady)
}

func TestUpdateRefusesBundlesThatTrustNobody(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	token := f.sign(t, f.header(), goodClaims())
	private, err := f.keys.MarshalPrivate()
	if err != nil {
		t.Fatal(err)
	}
	const symmetric = `{"keys":[{"kty":"oct","kid":"x","k":"c2VjcmV0"}]}`
	for name, b := range map[string]identity.Bundle{
		"nothing":          {},
		"no keys":          {Keys: []byte(`{"keys":[]}`)},
		"garbage":          {Keys: []byte(`garbage`)},
		"symmetric key":    {Keys: []byte(symmetric)},
		"private keys":     {Keys: private},
		"empty revocation": {Keys: f.keys.PublicJWKS(), Revocations: []identity.Revocation{{}}},
	} {
		if err := v.Update(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := v.Verify(token); err != nil {
		t.Errorf("the bundle before did not stay: %v", err)
	}
	// A key that leaves the bundle is not trusted for what it signed before.
	other := newForge(t)
	if err := v.Update(identity.Bundle{Keys: other.keys.PublicJWKS()}); err != nil {
		t.Fatal(err)
	}
	refused(t, v, token, identity.ErrInvalid)
}

func TestVerifiedGroupsBelongToTheCaller(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	v := f.verifier(t)
	token, _, err := f.keys.Sign(identity.Identity{Kind: identity.KindUser, Name: "a", Groups: []string{"devs"}},
		time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		id, err := v.Verify(token)
		if err != nil || id.Has(identity.RoleAdmin) {
			t.Fatalf("%+v, %v", id, err)
		}
		id.Groups[0] = identity.AdminsGroup
	}
}

func FuzzVerify(f *testing.F) {
	t := new(testing.T)
	forge := newForge(t)
	v, err := identity.NewBundleVerifier(identity.Bundle{Keys: forge.keys.PublicJWKS()})
	if err != nil {
		f.Fatal(err)
	}
	good := forge.sign(t, forge.header(), goodClaims())
	f.Add(good)
	f.Add(forge.sign(t, `{"alg":"EdDSA","alg":"none"}`, "null"))
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		id, err := v.Verify(token)
		if (err == nil) != (id.Kind != "") {
			t.Fatalf("%+v, %v", id, err)
		}
		// Another spelling of the good token's signature may pass, another identity never.
		if err == nil && id.Subject() != "agent:edge-1" {
			t.Fatalf("forged %+v: %q", id, token)
		}
	})
}

// A token that the forge signs is judged by its claims alone: no claims may crash it or pass as nobody.
func FuzzClaims(f *testing.F) {
	t := new(testing.T)
	forge := newForge(t)
	v, err := identity.NewBundleVerifier(identity.Bundle{Keys: forge.keys.PublicJWKS()})
	if err != nil {
		f.Fatal(err)
	}
	good, err := json.Marshal(goodClaims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Fuzz(func(t *testing.T, claims string) {
		id, err := v.Verify(forge.sign(t, forge.header(), claims))
		if err == nil && id.Validate() != nil {
			t.Fatalf("%+v", id)
		}
	})
}
