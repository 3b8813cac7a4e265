package keyless_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/keyless/keylesstest"
)

// rootWith is a trusted root that names more.
func rootWith(t *testing.T, root, name string, is func(root map[string]any) any) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(root), &all); err != nil {
		t.Fatal(err)
	}
	all[name] = is(all)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTimestampsOfTheRootsAuthority: each must be good, for this signature and at a time when the certificate was.
func TestTimestampsOfTheRootsAuthority(t *testing.T) {
	t.Parallel()
	s, clock, other := keylesstest.New(t), keylesstest.NewStamper(t), keylesstest.NewStamper(t)
	root := rootWith(t, s.Root(), "timestampAuthorities", func(map[string]any) any { return []any{clock.Authority()} })
	now := time.Now()
	good := func(signature []byte) []byte { return clock.Stamp(signature, now) }
	bad := func([]byte) []byte { return []byte("x") }
	withoutTime := func(m map[string]any) {
		e := m["tlogEntries"].([]any)[0].(map[string]any)
		delete(e, "integratedTime")
		delete(e, "inclusionPromise")
		e["logIndex"] = "1"
	}
	type stamp = func(signature []byte) []byte
	for name, tc := range map[string]struct {
		stamps   []stamp
		material func(map[string]any)
		words    string // none: it is good
	}{
		"none":                                {},
		"good":                                {stamps: []stamp{good}},
		"good, and the log names no time":     {stamps: []stamp{good}, material: withoutTime},
		"none, and the log names no time":     {material: withoutTime, words: "Rekor 2"},
		"eight":                               {stamps: []stamp{good, good, good, good, good, good, good, good}},
		"nine":                                {stamps: []stamp{good, good, good, good, good, good, good, good, good}, words: "more than 8"},
		"good and damaged":                    {stamps: []stamp{good, bad}, words: "can't be read"},
		"another authority's":                 {stamps: []stamp{func(b []byte) []byte { return other.Stamp(b, now) }}, words: "of no authority"},
		"of another signature":                {stamps: []stamp{func([]byte) []byte { return clock.Stamp([]byte("x"), now) }}, words: "another signature"},
		"before the signer's certificate":     {stamps: []stamp{func(b []byte) []byte { return clock.Stamp(b, now.Add(-time.Hour)) }}, words: "was not good"},
		"good, and after the certificate too": {stamps: []stamp{good, func(b []byte) []byte { return clock.Stamp(b, now.Add(time.Hour)) }}, words: "was not good"},
	} {
		bundle := s.Bundle(keylesstest.Signing{Payload: []byte("a statement"), Material: tc.material, Bundle: func(b map[string]any) {
			signature := b["dsseEnvelope"].(map[string]any)["signatures"].([]any)[0].(map[string]any)["sig"].([]byte)
			var all []any
			for _, of := range tc.stamps {
				all = append(all, map[string]any{"signedTimestamp": of(signature)})
			}
			b["verificationMaterial"].(map[string]any)["timestampVerificationData"] = map[string]any{"rfc3161Timestamps": all}
		}})
		_, err := verify(t, root, bundle, "a statement")
		if (err == nil) != (tc.words == "") || err != nil && !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACertificateIsInALogOfTheRoot if the root names logs of certificates.
func TestACertificateIsInALogOfTheRoot(t *testing.T) {
	t.Parallel()
	s, other := keylesstest.New(t), keylesstest.New(t)
	root := rootWith(t, s.Root(), "ctlogs", func(root map[string]any) any { return root["tlogs"] })
	if _, err := verify(t, root, s.Bundle(keylesstest.Signing{Payload: []byte("a statement"), Taken: s}), "a statement"); err != nil {
		t.Errorf("a log of the root has it: %v", err)
	}
	_, err := verify(t, root, s.Bundle(keylesstest.Signing{Payload: []byte("a statement"), Taken: other}),
		"a statement")
	if err == nil || !strings.Contains(err.Error(), "no log of certificates") {
		t.Errorf("another log has it: %v", err)
	}
	if _, err := verify(t, s.Root(), s.Bundle(keylesstest.Signing{Payload: []byte("a statement"), Taken: other}), "a statement"); err != nil {
		t.Errorf("the root names no such log: %v", err)
	}
}
