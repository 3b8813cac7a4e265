package signed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/keyless/keylesstest"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signature"
)

func statementOf(digest oci.Digest) []byte {
	return fmt.Appendf(nil, `{"subject":[{"digest":{"sha256":%q}}],"predicateType":%q}`,
		strings.TrimPrefix(string(digest), "sha256:"), signPredicate)
}

// TestSignaturesWithoutAKey count by the trusted root and the identities of the policy.
func TestSignaturesWithoutAKey(t *testing.T) {
	t.Parallel()
	s := keylesstest.New(t)
	digest := oci.Digest("sha256:" + strings.Repeat("a", 64))
	policy := Policy{Provider: Cosign, Root: s.Root(), Signers: []Signer{{
		Issuer:  `https://token\.ci\.example\.com`,
		Subject: `https://ci\.example\.com/acme/shop/.*`,
	}}}
	trust, err := New(policy)
	if err != nil {
		t.Fatal(err)
	}
	of := Subject{Digest: digest, Repository: "registry.example.com/team/shop"}
	good := s.Bundle(keylesstest.Signing{Payload: statementOf(digest)})
	by, no := trust.Signature(oci.Signature{Payload: good, IsBundle: true}, of, time.Now())
	if want := keylesstest.Subject + " (issuer " + keylesstest.Issuer + ")"; no != nil || by != want || !trust.Has(by) {
		t.Errorf("signed by %q, trusted today %t, refused: %v", by, trust.Has(by), no)
	}
	if trust.Has(strings.Replace(by, "/acme/", "/eve/", 1)) || trust.Has("sha256:x") {
		t.Error("others are trusted today")
	}
	for name, tc := range map[string]struct {
		is    oci.Signature
		kind  signature.Kind
		words string
	}{
		"another identity": {oci.Signature{IsBundle: true, Payload: s.Bundle(keylesstest.Signing{Payload: statementOf(digest), Subject: "https://ci.example.com/eve/shop/x"})}, signature.Unknown, "eve"},
		"another issuer":   {oci.Signature{IsBundle: true, Payload: s.Bundle(keylesstest.Signing{Payload: statementOf(digest), Issuer: "https://token.eve.example.com"})}, signature.Unknown, "none of the source's identities"},
		"another artifact": {oci.Signature{IsBundle: true, Payload: s.Bundle(keylesstest.Signing{Payload: statementOf("sha256:" + oci.Digest(strings.Repeat("b", 64)))})}, signature.Invalid, "for another artifact"},
		"another root":     {oci.Signature{IsBundle: true, Payload: keylesstest.New(t).Bundle(keylesstest.Signing{Payload: statementOf(digest)})}, signature.Invalid, "no entry of a transparency log"},
		"a key":            {oci.Signature{IsBundle: true, Payload: s.Bundle(keylesstest.Signing{Payload: statementOf(digest), Material: func(m map[string]any) { clear(m) }})}, signature.Unknown, "with a key"},
		"the form before":  {oci.Signature{Payload: []byte("{}"), Signature: "AAAA"}, signature.Unknown, "cosign 3"},
	} {
		by, no := trust.Signature(tc.is, of, time.Now())
		if no == nil || by != "" || no.Kind != tc.kind || !strings.Contains(no.Error(), tc.words) {
			t.Errorf("%s: signed by %q, refused: %v", name, by, no)
		}
	}
	for name, bad := range map[string]Policy{
		"no identity": {Provider: Cosign, Root: policy.Root}, "no root": {Provider: Cosign, Signers: policy.Signers},
		"keys, too": {Provider: Cosign, Root: policy.Root, Signers: policy.Signers, Keys: []string{"x"}},
		"notation":  {Provider: Provenance, Root: policy.Root, Signers: policy.Signers},
		"a pattern": {Provider: Cosign, Root: policy.Root, Signers: []Signer{{"(", "x"}}},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("a policy with %s is taken", name)
		}
	}
}
