package keyless_test

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/keyless"
	"fairlead.dev/platform/keyless/keylesstest"
)

// verify reads a bundle and verifies it for a payload.
func verify(t *testing.T, root string, bundle []byte, payload string) (keyless.Signer, error) {
	t.Helper()
	r, err := keyless.ParseRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	var is struct {
		keyless.Bundle
		Envelope struct {
			Signatures []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(bundle, &is); err != nil {
		t.Fatal(err)
	}
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(keylesstest.Statement), keylesstest.Statement,
		len(payload), payload)
	return r.Verify(is.Bundle, []byte(payload), message, is.Envelope.Signatures[0].Sig)
}

// inChain has the certificate where bundles before 0.3 have it.
func inChain(m map[string]any) {
	m["x509CertificateChain"] = map[string]any{"certificates": []any{m["certificate"]}}
	delete(m, "certificate")
}

func version(minor int) func(map[string]any) {
	return func(b map[string]any) {
		b["mediaType"] = fmt.Sprintf("application/vnd.dev.sigstore.bundle+json;version=0.%d", minor)
	}
}

func TestASignatureOfTheRootsAuthorityAndLogIsGood(t *testing.T) {
	t.Parallel()
	s := keylesstest.New(t)
	for name, how := range map[string]keylesstest.Signing{
		"certificate": {},
		"chain":       {Bundle: version(2), Material: inChain},
		"chain, and promise alone": {Bundle: version(1), Material: func(m map[string]any) {
			inChain(m)
			delete(m["tlogEntries"].([]any)[0].(map[string]any), "inclusionProof")
		}},
		"long after": {Time: time.Now().Add(-5 * time.Hour), Begin: time.Now().Add(-5*time.Hour - time.Minute)},
		"after an entry of another log": {Material: func(m map[string]any) {
			m["tlogEntries"] = append([]any{map[string]any{
				"logIndex": "1", "integratedTime": "1",
				"inclusionPromise": map[string]any{"signedEntryTimestamp": []byte("x")},
			}}, m["tlogEntries"].([]any)...)
		}},
	} {
		how.Payload = []byte("a statement")
		signer, err := verify(t, s.Root(), s.Bundle(how), "a statement")
		if err != nil || signer.Subject != keylesstest.Subject || signer.Issuer != keylesstest.Issuer {
			t.Errorf("%s: %v, %v", name, signer, err)
		}
		if again, ok := keyless.ParseSigner(signer.String()); !ok || again != signer {
			t.Errorf("%s is read as %v", signer, again)
		}
	}
}

func TestSignaturesThatDoNotCount(t *testing.T) {
	t.Parallel()
	s, other := keylesstest.New(t), keylesstest.New(t)
	spec := func(change func(spec map[string]any)) func(map[string]any) {
		return func(entry map[string]any) { change(entry["spec"].(map[string]any)) }
	}
	entryOf := func(change func(entry map[string]any)) func(map[string]any) {
		return func(m map[string]any) { change(m["tlogEntries"].([]any)[0].(map[string]any)) }
	}
	proof := func(change func(proof map[string]any)) func(map[string]any) {
		return entryOf(func(e map[string]any) { change(e["inclusionProof"].(map[string]any)) })
	}
	checkpoint := func(change func(text string) string) func(map[string]any) {
		return proof(func(p map[string]any) {
			c := p["checkpoint"].(map[string]any)
			c["envelope"] = change(c["envelope"].(string))
		})
	}
	of := func(spec map[string]any) map[string]any { return spec["signatures"].([]any)[0].(map[string]any) }
	for name, tc := range map[string]struct {
		how   keylesstest.Signing
		words string
	}{
		"another authority":                {keylesstest.Signing{Of: s}, "of no authority"},
		"another log":                      {keylesstest.Signing{Of: other}, "no entry"},
		"before the certificate":           {keylesstest.Signing{Begin: time.Now().Add(time.Minute)}, "was not good"},
		"after the certificate":            {keylesstest.Signing{Begin: time.Now().Add(-time.Hour)}, "was not good"},
		"before the root is trusted":       {keylesstest.Signing{Time: time.Now().Add(-48 * time.Hour), Begin: time.Now().Add(-48*time.Hour - time.Minute)}, "not signed so"},
		"a certificate for servers":        {keylesstest.Signing{Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, "of no authority"},
		"an entry for another payload":     {keylesstest.Signing{Body: spec(func(s map[string]any) { s["payloadHash"] = map[string]any{"algorithm": "sha256", "value": "00"} })}, "for something else"},
		"an entry for another signature":   {keylesstest.Signing{Body: spec(func(s map[string]any) { of(s)["signature"] = []byte("x") })}, "another signature"},
		"an entry for another certificate": {keylesstest.Signing{Body: spec(func(s map[string]any) { of(s)["verifier"] = []byte("x") })}, "another signature"},
		"an entry of another kind":         {keylesstest.Signing{Body: func(e map[string]any) { e["kind"] = "intoto" }}, "not of the kind"},
		"no entry":                         {keylesstest.Signing{Material: func(m map[string]any) { m["tlogEntries"] = nil }}, "no entry"},
		"no certificate":                   {keylesstest.Signing{Material: func(m map[string]any) { delete(m, "certificate") }}, "can't be read"},
		"another time than the log's":      {keylesstest.Signing{Material: entryOf(func(e map[string]any) { e["integratedTime"] = fmt.Sprint(time.Now().Unix() - 1) })}, "not signed so"},
		"another index than the log's":     {keylesstest.Signing{Material: entryOf(func(e map[string]any) { e["logIndex"] = "8" })}, "not signed so"},
		"another body than the log's":      {keylesstest.Signing{Material: entryOf(func(e map[string]any) { e["canonicalizedBody"] = []byte("{}") })}, "not signed so"},
		"no time and no timestamp": {keylesstest.Signing{Material: entryOf(func(e map[string]any) {
			delete(e, "integratedTime")
			delete(e, "inclusionPromise")
			e["logIndex"] = "1"
		})}, "Rekor 2"},
		"two indexes":                         {keylesstest.Signing{Material: entryOf(func(e map[string]any) { delete(e, "inclusionPromise") })}, "two indexes"},
		"no proof":                            {keylesstest.Signing{Material: entryOf(func(e map[string]any) { delete(e, "inclusionProof") })}, "inclusionProof"},
		"another root of the log":             {keylesstest.Signing{Material: proof(func(p map[string]any) { p["rootHash"] = make([]byte, 32) })}, "does not find"},
		"another place in the log":            {keylesstest.Signing{Material: proof(func(p map[string]any) { p["logIndex"] = "0" })}, "does not find"},
		"a place beyond the log":              {keylesstest.Signing{Material: proof(func(p map[string]any) { p["logIndex"] = "3" })}, "can't be read"},
		"a hash too many":                     {keylesstest.Signing{Material: proof(func(p map[string]any) { p["hashes"] = append(p["hashes"].([][]byte), make([]byte, 32)) })}, "does not find"},
		"another state of the log":            {keylesstest.Signing{Material: checkpoint(func(text string) string { return strings.Replace(text, "\n3\n", "\n4\n", 1) })}, "another state"},
		"a state that the log has not signed": {keylesstest.Signing{Material: checkpoint(func(text string) string { return "x" + text })}, "not signed so"},
		"a state of a witness only":           {keylesstest.Signing{Material: checkpoint(func(text string) string { return strings.Replace(text, "\u2014 log", "\u2014 witness", 1) })}, "not signed so"},
		"a version that is not known":         {keylesstest.Signing{Bundle: func(b map[string]any) { b["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.9+json" }}, "version"},
		"a chain in a bundle of 0.3":          {keylesstest.Signing{Material: inChain}, "can't be read"},
		"no promise in a bundle of 0.1": {keylesstest.Signing{Bundle: version(1), Material: func(m map[string]any) {
			inChain(m)
			entryOf(func(e map[string]any) { delete(e, "inclusionPromise") })(m)
		}}, "signedEntryTimestamp"},
		"too many entries":                   {keylesstest.Signing{Material: func(m map[string]any) { m["tlogEntries"] = make([]map[string]any, 9) }}, "more than 8"},
		"an issuer that can't be told apart": {keylesstest.Signing{Issuer: "x (issuer y"}, "by whom"},
	} {
		how := tc.how
		how.Payload = []byte("a statement")
		by, root := s, s.Root()
		if name == "another authority" {
			by = other
		}
		signer, err := verify(t, root, by.Bundle(how), "a statement")
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tc.words)) ||
			signer != (keyless.Signer{}) {
			t.Errorf("%s: %v, %v", name, signer, err)
		}
	}
	if _, err := verify(t, s.Root(), s.Bundle(keylesstest.Signing{Payload: []byte("a statement")}), "another statement"); err == nil {
		t.Error("a signature of one statement is one of another")
	}
}

// TestWhatTheRootNamesIsWanted: logs of certificates, and authorities of timestamps where there are some.
func TestWhatTheRootNamesIsWanted(t *testing.T) {
	t.Parallel()
	s := keylesstest.New(t)
	with := func(name, like string) string {
		var root map[string]any
		if err := json.Unmarshal([]byte(s.Root()), &root); err != nil {
			t.Fatal(err)
		}
		root[name] = root[like]
		text, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if _, err := verify(t, with("ctlogs", "tlogs"), s.Bundle(keylesstest.Signing{Payload: []byte("a statement")}), "a statement"); err == nil || !strings.Contains(err.Error(), "without a promise") {
		t.Errorf("a certificate that is in no log: %v", err)
	}
	stamped := keylesstest.Signing{Payload: []byte("a statement"), Material: func(m map[string]any) {
		m["timestampVerificationData"] = map[string]any{"rfc3161Timestamps": []any{map[string]any{"signedTimestamp": []byte("x")}}}
	}}
	if _, err := verify(t, with("timestampAuthorities", "certificateAuthorities"), s.Bundle(stamped), "a statement"); err == nil || !strings.Contains(err.Error(), "a timestamp that can't be read") {
		t.Errorf("a timestamp that is damaged: %v", err)
	}
	if _, err := verify(t, s.Root(), s.Bundle(stamped), "a statement"); err != nil {
		t.Errorf("a timestamp that the root can't judge: %v", err)
	}
}

func TestIdentitiesFitToAllOfTheText(t *testing.T) {
	t.Parallel()
	signer := keyless.Signer{Subject: keylesstest.Subject, Issuer: keylesstest.Issuer}
	for _, tc := range []struct {
		issuer, subject string
		is              bool
	}{
		{`https://token\.ci\.example\.com`, `https://ci\.example\.com/acme/.*`, true},
		{`^https://token\.ci\.example\.com$`, `^https://ci\.example\.com/acme/.*$`, true},
		{`token`, `.*`, false},
		{`.*`, `acme/shop`, false},
		{`https://token\.ci\.example\.com`, `https://ci\.example\.com/other/.*|x`, false},
	} {
		id, err := keyless.ParseIdentity(tc.issuer, tc.subject)
		if err != nil || id.IsOf(signer) != tc.is {
			t.Errorf("%s, %s: %t, %v", tc.issuer, tc.subject, !tc.is, err)
		}
	}
	for _, bad := range [][2]string{
		{"", "x"},
		{"x", ""},
		{"(", "x"},
		{"x", "x)|(?:y"},
		{"x", strings.Repeat("x", 2000)},
	} {
		if _, err := keyless.ParseIdentity(bad[0], bad[1]); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
}

func TestRootsThatAreNone(t *testing.T) {
	t.Parallel()
	good := keylesstest.New(t).Root()
	for words, text := range map[string]string{
		"not JSON": "{", "needs certificateAuthorities": "{}",
		"needs certificateAuthorities and tlogs": `{"tlogs": [{}]}`,
		"a log (1)":                              strings.Replace(good, `"keyId"`, `"other"`, 1),
		"since when":                             strings.ReplaceAll(good, `"start"`, `"begin"`),
		"an authority (1) with a certificate":    strings.Replace(good, `"certificates":[{"rawBytes":"`, `"certificates":[{"rawBytes":"AAAA`, 1),
	} {
		if _, err := keyless.ParseRoot(text); err == nil ||
			!strings.Contains(err.Error(), strings.Replace(words, "not JSON", "is not JSON", 1)) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	s := keylesstest.New(f)
	root, err := keyless.ParseRoot(s.Root())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"verificationMaterial":{"certificate":{"rawBytes":"AAAA"},"tlogEntries":[{"logIndex":"1","integratedTime":1}]}}`))
	f.Add(s.Bundle(keylesstest.Signing{Payload: []byte("a statement")}))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b keyless.Bundle
		if json.Unmarshal(text, &b) != nil {
			return
		}
		if signer, err := root.Verify(b, []byte("a"), []byte("a"), []byte("a")); err == nil {
			t.Errorf("signed by %s", signer)
		}
	})
}

func FuzzParseRoot(f *testing.F) {
	f.Add(keylesstest.New(f).Root())
	f.Fuzz(func(_ *testing.T, text string) { _, _ = keyless.ParseRoot(text) })
}
