package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestTransportsAreSharedAndBounded(t *testing.T) {
	t.Parallel()
	ts := newTransports(nil, nil)
	defer ts.closeIdle()
	get := func(r Remote) *http.Transport {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, "https://git.example.com/x", nil)
		r.URL = req.URL
		got, err := ts.transportFor(r, req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	usual := get(Remote{})
	for i := range 1000 {
		if get(Remote{Credentials: Credentials{Username: "ada", Password: fmt.Sprint(i)}}) != usual {
			t.Fatal("sources that differ only in their passwords have transports of their own")
		}
		get(Remote{Proxy: &url.URL{Scheme: "http", Host: fmt.Sprintf("proxy%d.example.com", i)}})
	}
	if n := len(ts.byWay); n > maxTransports {
		t.Errorf("%d transports are kept", n)
	}
	proxy := &url.URL{Scheme: "http", Host: "proxy.example.com"}
	one := get(Remote{Proxy: proxy, Credentials: Credentials{ProxyUsername: "ada", ProxyPassword: "1"}})
	two := get(Remote{Proxy: proxy, Credentials: Credentials{ProxyUsername: "ada", ProxyPassword: "2"}})
	if one == two || one == usual || two == usual {
		t.Error("sources with other credentials for the proxy share its connections")
	}
}

// newAuthority makes a certificate of an authority.
func newAuthority(t *testing.T) (*x509.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	is, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return is, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestTrustOfASourceIsForItsOwnHost: token services and redirects lead to others, which are verified, and by the
// system's authorities, too.
func TestTrustOfASourceIsForItsOwnHost(t *testing.T) {
	t.Parallel()
	system, _ := newAuthority(t)
	own, text := newAuthority(t)
	pool := func(certs ...*x509.Certificate) *x509.CertPool {
		p := x509.NewCertPool()
		for _, c := range certs {
			p.AddCert(c)
		}
		return p
	}
	ts := newTransports(pool(system), nil)
	defer ts.closeIdle()
	r := Remote{
		URL:      &url.URL{Scheme: "https", Host: "registry.example.com:5000"},
		Registry: Registry{Is: true, Unverified: true}, Credentials: Credentials{CA: text},
	}
	for at, want := range map[string]struct {
		unverified bool
		roots      *x509.CertPool
	}{
		"https://registry.example.com:5000/v2/": {true, pool(own)},
		"https://registry.example.com/v2/":      {false, pool(system, own)},
		"https://auth.example.com/token":        {false, pool(system, own)},
	} {
		got, err := ts.transportFor(r, httptest.NewRequest(http.MethodGet, at, nil))
		if err != nil {
			t.Fatal(err)
		}
		if is := got.TLSClientConfig; is.InsecureSkipVerify != want.unverified || !is.RootCAs.Equal(want.roots) {
			t.Errorf("%s: unverified %t, and authorities that are wrong: %t", at, is.InsecureSkipVerify,
				!is.RootCAs.Equal(want.roots))
		}
	}
}
