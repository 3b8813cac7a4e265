package identity_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
)

// Each request is what some page makes a browser send, or an attempt to look like one. Want is the token by which it
// counts.
func TestWhenACookieCounts(t *testing.T) {
	t.Parallel()
	const (
		read, change = "GET /clusters/edge-1/api HTTP/1.1\r\nHost: hub.example.com\r\n", "POST /v1/session HTTP/1.1\r\nHost: hub.example.com\r\n"
		cookie       = "Cookie: __Host-fairlead=good\r\n"
		own          = "Origin: https://hub.example.com\r\n"
		socket       = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		marked       = "Fairlead-Csrf: 1\r\n"
	)
	tests := map[string]struct{ raw, want string }{
		"a page of the hub reads": {read + cookie + "Sec-Fetch-Site: same-origin\r\n", "good"},
		"and changes something": {
			change + cookie + own + marked + "Sec-Fetch-Site: same-origin\r\n", "good",
		},
		"an older browser":       {change + cookie + own + marked, "good"},
		"Connect's client":       {change + cookie + own + "Connect-Protocol-Version: 1\r\n", "good"},
		"the client of gRPC-web": {change + cookie + own + "X-Grpc-Web: 1\r\n", "good"},
		"a page of an allowed origin": {
			change + cookie + "Origin: https://ui.example.com\r\nSec-Fetch-Site: same-site\r\n" + marked, "good",
		},
		"behind a proxy that gives another host": {
			strings.Replace(change, "hub.example.com", "10.0.0.1:7400", 1) + cookie + own + marked +
				"Sec-Fetch-Site: same-origin\r\n",
			"good",
		},
		"a page of the hub opens a socket": {read + cookie + own + socket, "good"},
		"other cookies beside it":          {read + "Cookie: a=b; __Host-fairlead=good; c=d\r\n" + own, "good"},
		"cookie and token":                 {change + cookie + "Authorization: Bearer token\r\n", "token"},
		"cookie and an empty token":        {change + cookie + own + marked + "Authorization:\r\n", ""},
		"cookie and another scheme": {
			change + cookie + own + marked + "Authorization: Basic YTpi\r\n", "",
		},
		"a script of the hub reads": {
			read + cookie + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: empty\r\n", "good",
		},
		"a script of the hub opens a socket": {
			read + cookie + own + socket + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: websocket\r\n", "good",
		},
		"a page of the hub is led there": {
			read + cookie + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: document\r\n", "",
		},
		"a frame": {
			read + cookie + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: iframe\r\n", "",
		},
		"a script that is to run": {
			read + cookie + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: script\r\n", "",
		},
		"a service worker": {
			read + cookie + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: serviceworker\r\nService-Worker: script\r\n",
			"",
		},
		"two destinations": {
			read + cookie + "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Dest: empty\r\nSec-Fetch-Dest: script\r\n", "",
		},
		"nobody's page reads":                 {read + cookie, ""},
		"another site reads":                  {read + cookie + "Sec-Fetch-Site: cross-site\r\n", ""},
		"a neighbour, or another port, reads": {read + cookie + "Sec-Fetch-Site: same-site\r\n", ""},
		"a link in a mail":                    {read + cookie + "Sec-Fetch-Site: none\r\n", ""},
		"another site reads with its origin":  {read + cookie + "Origin: https://evil.example\r\n", ""},
		"an origin that begins as ours": {
			read + cookie + "Origin: https://hub.example.com.evil.example\r\n", "",
		},
		"an origin that ends as ours": {read + cookie + "Origin: https://evilhub.example.com\r\n", ""},
		"ours without TLS":            {read + cookie + "Origin: http://hub.example.com\r\n", ""},
		"ours at another port":        {read + cookie + "Origin: https://hub.example.com:8443\r\n", ""},
		"a sandboxed frame":           {change + cookie + marked + "Origin: null\r\n", ""},
		"a sandboxed frame that claims more": {
			change + cookie + marked + "Origin: null\r\nSec-Fetch-Site: same-origin\r\n", "",
		},
		"two origins": {
			change + cookie + marked + own + "Origin: https://evil.example\r\n", "",
		},
		"a list of origins": {
			change + cookie + marked + "Origin: https://hub.example.com https://evil.example\r\n", "",
		},
		"two sites": {
			read + cookie + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: same-origin\r\n", "",
		},
		"an empty origin":    {read + cookie + "Origin:\r\n", ""},
		"everybody's origin": {read + cookie + "Origin: *\r\n", ""},
		"a referer alone": {
			change + cookie + marked + "Referer: https://hub.example.com/\r\n", "",
		},
		"a form of another site": {
			change + cookie + "Origin: https://evil.example\r\nContent-Type: text/plain\r\n", "",
		},
		"a form of the hub's": {
			change + cookie + own + "Content-Type: application/x-www-form-urlencoded\r\n", "",
		},
		"a change without the header":   {change + cookie + own, ""},
		"a change with an empty header": {change + cookie + own + "Fairlead-Csrf:\r\n", ""},
		"a method by another name":      {strings.Replace(change, "POST", "get", 1) + cookie + own, ""},
		"another site opens a socket":   {read + cookie + socket + "Origin: https://evil.example\r\n", ""},
		"a neighbour opens a socket": {
			read + cookie + socket + "Origin: https://evil.example.com\r\nSec-Fetch-Site: same-site\r\n", "",
		},
		"a socket from nowhere":   {read + cookie + socket, ""},
		"a socket without origin": {read + cookie + socket + "Sec-Fetch-Site: same-origin\r\n", ""},
		"another cookie": {
			read + own + "Cookie: fairlead=good; __host-fairlead=good; token=good\r\n", "",
		},
		"the cookie twice": {
			read + own + "Cookie: __Host-fairlead=good; __Host-fairlead=evil\r\n", "",
		},
		"the cookie in two headers": {read + own + cookie + "Cookie: __Host-fairlead=evil\r\n", ""},
		"a cookie in the query": {
			"GET /?__Host-fairlead=good HTTP/1.1\r\nHost: hub.example.com\r\n" + own, "",
		},
		"an absolute URL of another site's origin": {
			"GET https://evil.example/clusters/edge-1/api HTTP/1.1\r\nHost: hub.example.com\r\n" + cookie + own, "",
		},
	}
	browser := identity.Browser{Secure: true, Origins: []string{"*", "https://*.example.com", "https://ui.example.com"}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := counts(t, browser, tt.raw); got != tt.want {
				t.Errorf("counts by %q, want %q", got, tt.want)
			}
		})
	}
	if got := counts(t, identity.Browser{}, read+cookie+own); got != "" {
		t.Errorf("without TLS it counts by %q", got)
	}
}

// counts returns the token by which a raw request is somebody's.
func counts(t *testing.T, browser identity.Browser, raw string) (token string) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw + "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	v := verifierFunc(func(text string) (identity.Identity, error) {
		token = text
		return identity.Identity{Kind: identity.KindUser, Name: "kim", ExpiresAt: time.Now().Add(time.Hour)}, nil
	})
	reached := false
	w := httptest.NewRecorder()
	browser.Handler(identity.Middleware(v, identity.RoleUser,
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			reached = true
			if r.Header["Cookie"] != nil {
				t.Errorf("the cookie travels on: %v", r.Header)
			}
			if identity.FromBrowser(r.Context()) != (token == "good") {
				t.Errorf("counts by %s, but from a browser is %t", token, identity.FromBrowser(r.Context()))
			}
		}))).ServeHTTP(w, r)
	if reached != (token != "") || !reached && w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized {
		t.Errorf("reached %t, answered %d %s", reached, w.Code, w.Body)
	}
	return token
}

// A request with a cookie that doesn't count gets what any request may have, too; and no handler sees that cookie.
func TestOpenDoorsStayOpen(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	r.Header.Set("Cookie", identity.SessionCookie+"=stolen; other=x")
	w := httptest.NewRecorder()
	identity.Browser{Secure: true}.Handler(identity.Middleware(nil, identity.RoleOpen,
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header["Cookie"] != nil || r.Header["Authorization"] != nil {
				t.Errorf("sees %v", r.Header)
			}
		}))).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if r.Header.Get("Cookie") == "" {
		t.Error("the caller's request was changed")
	}
}

func TestSessionIsWorthNoMoreThanItsLogin(t *testing.T) {
	t.Parallel()
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	login, parent, err := keys.Sign(identity.Identity{Kind: identity.KindUser, Name: "kim", Groups: []string{"dev"}},
		30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	verifier := func(revoked ...identity.Revocation) *identity.BundleVerifier {
		v, err := identity.NewBundleVerifier(identity.Bundle{Keys: keys.PublicJWKS(), Revocations: revoked})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, session, err := keys.Session(parent)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verifier().Verify(first)
	if err != nil || verified.Parent != parent.TokenID || !verified.Until.Equal(parent.ExpiresAt) ||
		!verified.ExpiresAt.Equal(parent.ExpiresAt) || !verified.Final {
		t.Errorf("%+v, %v", verified, err)
	}
	second, renewed, err := keys.Session(verified)
	if err != nil || renewed.TokenID != session.TokenID || renewed.TokenID == parent.TokenID ||
		!renewed.Until.Equal(parent.ExpiresAt) || second == first {
		t.Errorf("renewed: %+v, %v", renewed, err)
	}
	if _, _, err := keys.Renew(renewed, time.Hour); err == nil {
		t.Error("becomes a token for longer")
	}
	for name, r := range map[string]identity.Revocation{
		"login": {TokenID: parent.TokenID}, "session": {TokenID: session.TokenID},
		"user": {Subject: "user:kim", At: parent.BeganAt},
	} {
		for _, token := range []string{first, second} {
			if _, err := verifier(r).Verify(token); err == nil {
				t.Errorf("%s is revoked, the session goes on", name)
			}
		}
		if !r.Covers(renewed) {
			t.Errorf("%s is revoked, the session is renewed", name)
		}
	}
	if _, err := verifier(identity.Revocation{TokenID: session.TokenID}).Verify(login); err != nil {
		t.Errorf("who logs out of the browser is out everywhere: %v", err)
	}
	// Of an API token, and not only of the hour that it was exchanged for.
	_, exchanged, err := keys.Sign(identity.Identity{Kind: identity.KindUser, Name: "kim", Parent: "api", Final: true},
		time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	of, _, err := keys.Session(exchanged)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier(identity.Revocation{TokenID: "api"}).Verify(of); err == nil {
		t.Error("the API token is revoked, the session goes on")
	}
	over := renewed
	over.Until = time.Now()
	if _, _, err := keys.Session(over); err == nil {
		t.Error("renewed after its end")
	}
}
