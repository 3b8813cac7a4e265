package keyless

import (
	"crypto/x509"
	"encoding/json"
	"testing"
	"time"

	"fairlead.dev/platform/keyless/keylesstest"
)

func rootForFuzz(f *testing.F) (*Root, *x509.Certificate) {
	f.Helper()
	s := keylesstest.New(f)
	root, err := ParseRoot(s.Root())
	if err != nil {
		f.Fatal(err)
	}
	root.timestamps = root.authorities
	var b Bundle
	if err := json.Unmarshal(s.Bundle(keylesstest.Signing{Payload: []byte("x")}), &b); err != nil {
		f.Fatal(err)
	}
	cert, err := b.Material.certificate(version3)
	if err != nil {
		f.Fatal(err)
	}
	return root, cert
}

func FuzzTimestamp(f *testing.F) {
	root, _ := rootForFuzz(f)
	f.Add([]byte{0x30, 0x03, 0x02, 0x01, 0x00})
	f.Fuzz(func(t *testing.T, der []byte) {
		if at, err := root.timestamp(der, []byte("a")); err == nil {
			t.Errorf("stamped at %s", at)
		}
	})
}

func FuzzPromise(f *testing.F) {
	_, cert := rootForFuzz(f)
	f.Add([]byte{0, 4, 0, 2, 1, 2})
	f.Fuzz(func(_ *testing.T, text []byte) {
		one, _, _ := cutPrefixed(text)
		if p, ok := readPromise(one); ok {
			p.signed(cert, cert.RawTBSCertificate)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	root, _ := rootForFuzz(f)
	f.Add("log.example.com\n1\nAAAA\n\n\u2014 log.example.com AAAAAAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		if root.logs[0].checkpoint(text, 1, []byte{0, 0, 0}) == nil {
			t.Error("signed")
		}
	})
}

func FuzzEntry(f *testing.F) {
	root, cert := rootForFuzz(f)
	f.Add([]byte(`{"logIndex":"1","kindVersion":{"kind":"dsse","version":"0.0.2"},"canonicalizedBody":"e30=","inclusionProof":{"logIndex":"1","treeSize":"2","hashes":["AAAA"]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e Entry
		if json.Unmarshal(text, &e) != nil {
			return
		}
		of := content{cert, []byte("a"), []byte("a"), []byte("a")}
		_ = e.isOf(of)
		if at, err := root.logs[0].timeOf(e, of, version2); err == nil {
			t.Errorf("logged at %s", at.Format(time.RFC3339))
		}
	})
}
