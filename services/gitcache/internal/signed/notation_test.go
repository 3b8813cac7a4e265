package signed_test

import (
	"crypto/x509"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signature"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/signed/signedtest"
)

const buildTeam = "x509.subject: C=US, ST=WA, O=Build"

func notationTrust(t testing.TB, identity string, of ...*signedtest.Notary) *signed.Trust {
	t.Helper()
	policy := signed.Policy{Provider: signed.Notation, Identities: []string{identity}}
	for _, n := range of {
		policy.Certificates = append(policy.Certificates, n.PEM())
	}
	trust, err := signed.New(policy)
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func judge(trust *signed.Trust, envelope []byte) (string, *signature.Refusal) {
	return trust.Signature(oci.Signature{Payload: envelope}, signed.Subject{Digest: digest, Repository: "r/x"},
		time.Now())
}

func TestSignaturesOfNotationAreGoodByAuthorityAndIdentity(t *testing.T) {
	t.Parallel()
	root := signedtest.Authority(t, "root")
	team := root.Authority(t, "teams")
	for _, kind := range []string{"P-256", "P-384", "P-521", "RSA-2048", "RSA-3072"} {
		ada := team.Signer(t, kind, "Build", "ada", nil)
		for name, trust := range map[string]*signed.Trust{
			"by the root":              notationTrust(t, buildTeam, root),
			"by the authority between": notationTrust(t, buildTeam+", CN=ada", team),
			"anyone":                   notationTrust(t, "*", root),
		} {
			for form, envelope := range map[string][]byte{"JWS": ada.Envelope(t, digest), "COSE": ada.COSE(t, digest)} {
				by, no := judge(trust, envelope)
				if no != nil || !strings.HasPrefix(by, "C=US, ST=WA, O=Build, CN=ada (authority sha256:") ||
					!trust.Has(by) {
					t.Errorf("%s, %s, %s: by %q, refused: %v", kind, name, form, by, no)
				}
			}
		}
	}
	alone := signedtest.Alone(t, "Build", "eve")
	trust := notationTrust(t, buildTeam, alone)
	by, no := judge(trust, alone.Envelope(t, digest))
	if no != nil || !trust.Has(by) {
		t.Errorf("a certificate that is its own authority: by %q, refused: %v", by, no)
	}
	if inCOSE, no := judge(trust, alone.COSE(t, digest)); no != nil || inCOSE != by {
		t.Errorf("a certificate that is its own authority, in COSE: by %q, refused: %v", inCOSE, no)
	}
	// Who signed counts by the policy of today.
	others := notationTrust(t, "x509.subject: C=US, ST=WA, O=Other", alone)
	if notationTrust(t, buildTeam, root).Has(by) || others.Has(by) || trust.Has("sha256:x") {
		t.Error("a signer is trusted by another policy")
	}
}

func TestSignaturesOfNotationThatDoNotCount(t *testing.T) {
	t.Parallel()
	root, other := signedtest.Authority(t, "root"), signedtest.Authority(t, "other")
	team := root.Authority(t, "teams")
	ada := team.Signer(t, "P-256", "Build", "ada", nil)
	with := func(change func(*x509.Certificate)) []byte {
		return root.Signer(t, "P-256", "Build", "ada", change).Envelope(t, digest)
	}
	saying := func(pairs ...any) []byte {
		protected := maps.Clone(ada.Protected())
		for i := 0; i < len(pairs); i += 2 {
			protected[pairs[i].(string)] = pairs[i+1]
		}
		return ada.Sign(t, protected, signedtest.Payload(digest))
	}
	altered := func(change func(e map[string]any)) []byte {
		var e map[string]any
		if err := json.Unmarshal(ada.Envelope(t, digest), &e); err != nil {
			t.Fatal(err)
		}
		change(e)
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	chain := func(of ...*x509.Certificate) []byte {
		return (&signedtest.Notary{Key: ada.Key, Chain: of}).Envelope(t, digest)
	}
	const scheme, expiry = "io.cncf.notary.signingScheme", "io.cncf.notary.expiry"
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	yesterday, tomorrow := in(-24*time.Hour), in(24*time.Hour)
	const invalid, unknown, expired = signature.Invalid, signature.Unknown, signature.Expired
	foreign, sales := other.Signer(t, "P-256", "Build", "ada", nil), root.Signer(t, "P-256", "Sales", "ada", nil)
	eve := root.Signer(t, "P-256", "Build", "eve", nil)
	for name, is := range map[string]struct {
		envelope []byte
		kind     signature.Kind
		want     string
	}{
		"nothing":                  {[]byte("{"), invalid, "no JWS envelope"},
		"no certificates":          {[]byte("{}"), invalid, "with 0 certificates"},
		"another authority":        {foreign.Envelope(t, digest), unknown, "none of the source's certificates"},
		"another identity":         {sales.Envelope(t, digest), unknown, "none of the source's trusted identities"},
		"another artifact":         {ada.Envelope(t, strings.Replace(digest, "a", "b", 1)), invalid, "another artifact"},
		"another payload":          {ada.Sign(t, ada.Protected(), []byte("[]")), invalid, "can't be read"},
		"another signature":        {altered(func(e map[string]any) { e["payload"] = "e30" }), invalid, "does not fit"},
		"a short signature":        {altered(func(e map[string]any) { e["signature"] = "AAAA" }), invalid, "does not fit"},
		"somebody else's chain":    {chain(eve.Chain...), invalid, "does not fit"},
		"a chain without its root": {chain(ada.Chain[0], ada.Chain[1]), unknown, "none of the source's certificates"},
		"a chain out of order":     {chain(ada.Chain[0], ada.Chain[2], ada.Chain[1]), invalid, "not issued by the next one"},
		"a foreign leaf":           {chain(foreign.Chain[0], root.Chain[0]), invalid, "not issued by the next one"},
		"an authority that signs":  {team.Envelope(t, digest), invalid, "is of an authority, and may not sign"},
		"a server's certificate": {with(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), invalid, "other things than signing content"},
		"a certificate that enciphers": {with(func(c *x509.Certificate) {
			c.KeyUsage |= x509.KeyUsageKeyEncipherment
		}), invalid, "other things than signing"},
		"a certificate without usage": {with(func(c *x509.Certificate) { c.KeyUsage = 0 }), invalid, "may not sign"},
		"a certificate that is over": {with(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
		}), expired, "good from"},
		"issued by a signer":     {ada.Signer(t, "P-256", "Build", "eve", nil).Envelope(t, digest), invalid, "not of an authority"},
		"another algorithm":      {saying("alg", "PS256"), invalid, `made by "PS256"`},
		"no algorithm":           {saying("alg", "none"), invalid, `made by "none"`},
		"another content":        {saying("cty", "text/plain"), invalid, "no artifact"},
		"another scheme":         {saying(scheme, "notary.x509.signingAuthority"), invalid, "scheme"},
		"nothing critical":       {saying("crit", []string{}), invalid, "what is critical"},
		"something unknown":      {saying("crit", []string{scheme, "x"}, "x", "y"), invalid, `critical header "x"`},
		"a plugin":               {saying("io.cncf.notary.verificationPlugin", "p"), invalid, "plugin"},
		"no time":                {saying("io.cncf.notary.signingTime", "now"), invalid, "when it was made"},
		"an end that has passed": {saying("crit", []string{scheme, expiry}, expiry, yesterday), expired, "is expired"},
		"an end for nobody":      {saying(expiry, tomorrow), invalid, "an end that can't be read"},
	} {
		by, no := judge(notationTrust(t, buildTeam, root), is.envelope)
		if no == nil || by != "" || no.Kind != is.kind || !strings.Contains(no.Error(), is.want) {
			t.Errorf("%s: by %q, refused: %v; want %s %q", name, by, no, is.kind, is.want)
		}
	}
	if by, no := judge(notationTrust(t, buildTeam, root), saying("crit", []string{scheme, expiry}, expiry, tomorrow)); no != nil {
		t.Errorf("an end that comes: by %q, refused: %v", by, no)
	}
}

func TestEnvelopesOfCOSEThatDoNotCount(t *testing.T) {
	t.Parallel()
	root, other := signedtest.Authority(t, "root"), signedtest.Authority(t, "other")
	ada, eve := root.Signer(t, "P-256", "Build", "ada", nil), root.Signer(t, "P-256", "Build", "eve", nil)
	const scheme, expiry, made = "io.cncf.notary.signingScheme", "io.cncf.notary.expiry", "io.cncf.notary.signingTime"
	payload := signedtest.Payload(digest)
	saying := func(pairs ...any) []byte {
		protected := ada.ProtectedCOSE()
		for i := 0; i < len(pairs); i += 2 {
			protected[pairs[i]] = pairs[i+1]
		}
		return ada.SignCOSE(t, signedtest.CBOR(protected), payload)
	}
	at := func(d time.Duration) signedtest.Tag {
		return signedtest.Tag{Number: 1, Value: int(time.Now().Add(d).Unix())}
	}
	good := ada.COSE(t, digest)
	plain := signedtest.CBOR(ada.ProtectedCOSE())
	const invalid, unknown, expired = signature.Invalid, signature.Unknown, signature.Expired
	for name, is := range map[string]struct {
		envelope []byte
		kind     signature.Kind
		want     string
	}{
		"nothing":                   {nil, invalid, "no JWS and no COSE"},
		"without its tag":           {good[1:], invalid, "no JWS and no COSE"},
		"with another tag":          {append([]byte{0xd3}, good[1:]...), invalid, "no JWS and no COSE"},
		"with more after it":        {append(slices.Clone(good), 0), invalid, "no JWS and no COSE"},
		"of three parts":            {signedtest.CBOR(signedtest.Tag{Number: 18, Value: []any{plain, map[any]any{}, payload}}), invalid, "no JWS and no COSE"},
		"detached":                  {signedtest.CBOR(signedtest.Tag{Number: 18, Value: []any{plain, map[any]any{}, "", []byte("x")}}), invalid, "no JWS and no COSE"},
		"no certificates":           {signedtest.CBOR(signedtest.Tag{Number: 18, Value: []any{plain, map[any]any{}, payload, []byte("x")}}), invalid, "with 0 certificates"},
		"certificates of text":      {signedtest.CBOR(signedtest.Tag{Number: 18, Value: []any{plain, map[any]any{33: []any{"x"}}, payload, []byte("x")}}), invalid, "no JWS and no COSE"},
		"an open length":            {[]byte{0xd2, 0x9f, 0xff}, invalid, "no JWS and no COSE"},
		"another authority":         {other.Signer(t, "P-256", "Build", "ada", nil).COSE(t, digest), unknown, "none of the source's certificates"},
		"another identity":          {root.Signer(t, "P-256", "Sales", "ada", nil).COSE(t, digest), unknown, "none of the source's trusted identities"},
		"another artifact":          {ada.COSE(t, strings.Replace(digest, "a", "b", 1)), invalid, "another artifact"},
		"somebody else's chain":     {(&signedtest.Notary{Key: ada.Key, Chain: eve.Chain}).COSE(t, digest), invalid, "does not fit"},
		"a header that is no map":   {ada.SignCOSE(t, []byte{0x80}, payload), invalid, "can't be read"},
		"a header with a key twice": {ada.SignCOSE(t, append([]byte{0xa2}, "\x01\x26\x01\x26"...), payload), invalid, "can't be read"},
		"another algorithm":         {saying(1, -37), invalid, `made by "PS256"`},
		"an algorithm that is none": {saying(1, -999), invalid, `made by "-999"`},
		"another content":           {saying(3, "text/plain"), invalid, "no artifact"},
		"another scheme":            {saying(scheme, "notary.x509.signingAuthority"), invalid, "scheme"},
		"nothing critical":          {saying(2, []any{}), invalid, "what is critical"},
		"something unknown":         {saying(2, []any{scheme, "x"}, "x", "y"), invalid, `critical header "x"`},
		"an unknown label":          {saying(2, []any{scheme, 7}, 7, "y"), invalid, "critical header"},
		"a plugin":                  {saying("io.cncf.notary.verificationPlugin", "p"), invalid, "plugin"},
		"a time without its tag":    {saying(made, int(time.Now().Unix())), invalid, "when it was made"},
		"an end that has passed":    {saying(2, []any{scheme, expiry}, expiry, at(-time.Hour)), expired, "is expired"},
		"an end for nobody":         {saying(expiry, at(time.Hour)), invalid, "an end that can't be read"},
		"an end that is text":       {saying(2, []any{scheme, expiry}, expiry, "2030-01-01T00:00:00Z"), invalid, "an end that can't be read"},
	} {
		by, no := judge(notationTrust(t, buildTeam, root), is.envelope)
		if no == nil || by != "" || no.Kind != is.kind || !strings.Contains(no.Error(), is.want) {
			t.Errorf("%s: by %q, refused: %v; want %s %q", name, by, no, is.kind, is.want)
		}
	}
	if by, no := judge(notationTrust(t, buildTeam, root), saying(2, []any{scheme, expiry}, expiry, at(time.Hour))); no != nil {
		t.Errorf("an end that comes: by %q, refused: %v", by, no)
	}
}

// FuzzEnvelope: nothing is signed by an authority whose key is gone, but what it has signed.
func FuzzEnvelope(f *testing.F) {
	root := signedtest.Authority(f, "root")
	ada := root.Signer(f, "P-256", "Build", "ada", nil)
	f.Add(ada.Envelope(f, strings.Replace(digest, "a", "b", 1)))
	f.Add(ada.COSE(f, strings.Replace(digest, "a", "b", 1)))
	f.Add([]byte(`{"payload":"e30","protected":"e30","signature":"","header":{"x5c":["AAAA"]}}`))
	trust := notationTrust(f, "*", root)
	f.Fuzz(func(t *testing.T, envelope []byte) {
		if by, no := judge(trust, envelope); by != "" || no == nil {
			t.Errorf("signed by %q", by)
		}
	})
}
