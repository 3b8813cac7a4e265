package identity

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newTrust(t *testing.T) (*KeySet, *BundleVerifier) {
	t.Helper()
	keys, err := NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewBundleVerifier(Bundle{Keys: keys.PublicJWKS()})
	if err != nil {
		t.Fatal(err)
	}
	return keys, v
}

func sign(t *testing.T, keys *KeySet, name string, ttl time.Duration) string {
	t.Helper()
	token, _, err := keys.Sign(Identity{Kind: KindAgent, Name: name}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (v *BundleVerifier) remembered() int {
	keys := v.trust.Load().keys
	keys.mu.RLock()
	defer keys.mu.RUnlock()
	return len(keys.verified)
}

func TestTokensThatAreRefusedTakeNoMemory(t *testing.T) {
	t.Parallel()
	keys, v := newTrust(t)
	foreign, _ := newTrust(t)
	good := sign(t, keys, "edge-1", time.Hour)
	if _, err := v.Verify(good); err != nil {
		t.Fatal(err)
	}
	head, signature := good[:strings.LastIndexByte(good, '.')+1], good[strings.LastIndexByte(good, '.')+1:]
	for i := range 200 {
		for _, token := range []string{
			sign(t, foreign, "edge-1", time.Hour), fmt.Sprint("x", i), head + fmt.Sprintf("%04d", i) + signature[4:],
		} {
			if _, err := v.Verify(token); err == nil {
				t.Fatal("a token that was made up is good")
			}
		}
	}
	if n := v.remembered(); n != 1 {
		t.Errorf("%d are remembered, and one was good", n)
	}
}

func TestExpiredTokensAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, v := newTrust(t)
		if err := v.Update(Bundle{Keys: keys.PublicJWKS()}); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := v.Verify(sign(t, keys, fmt.Sprint("edge-", i), time.Duration(i+1)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(5*time.Hour + 30*time.Minute)
		if err := v.Update(Bundle{Keys: keys.PublicJWKS()}); err != nil {
			t.Fatal(err)
		}
		if n := v.remembered(); n != 5 {
			t.Errorf("%d are remembered, and 5 live", n)
		}
		if err := v.Update(Bundle{Keys: append(keys.PublicJWKS(), ' ')}); err != nil {
			t.Fatal(err)
		}
		if n := v.remembered(); n != 0 {
			t.Errorf("%d are remembered, with other keys", n)
		}
	})
}
