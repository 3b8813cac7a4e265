package fetch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestTransportsAreSharedAndBounded(t *testing.T) {
	t.Parallel()
	ts := newTransports(nil, nil)
	defer ts.close()
	get := func(r Remote) *http.Transport {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, "https://git.example.com/x", nil)
		got, err := ts.of(r, req)
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
