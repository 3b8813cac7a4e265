package kubehttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"fairlead.dev/platform/mux/kubehttp"
)

func TestKeyOfExtraInformationIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"scopes", "example.com/scopes", "Scopes", "a:b@c =d", "%41", "a_b", "ünï", "-a-B-"} {
		field := kubehttp.ExtraField(key)
		if field != http.CanonicalHeaderKey(field) || strings.ContainsAny(field, ":@ =_/") {
			t.Errorf("%q: the field %q changes on its way", key, field)
		}
		if got, ok, err := kubehttp.ExtraKey(field); got != key || !ok || err != nil {
			t.Errorf("%q: read as %q, %v, %v", key, got, ok, err)
		}
	}
	if key, ok, err := kubehttp.ExtraKey("Impersonate-Extra-SCOPES"); key != "scopes" || !ok || err != nil {
		t.Error(key, ok, err)
	}
	if _, ok, _ := kubehttp.ExtraKey("Impersonate-User"); ok {
		t.Error("a user is no extra information")
	}
	if _, ok, err := kubehttp.ExtraKey("Impersonate-Extra-%zz"); !ok || err == nil {
		t.Error("broken escapes are read")
	}
}

func TestCheckPath(t *testing.T) {
	t.Parallel()
	good := []string{
		"/", "/api/v1/namespaces", "/apis/apps/v1/deployments",
		"/api/v1/namespaces/x/services/https:web:443/proxy/a%2Fb",
		"/api/v1/nodes/n/proxy/run%20this", "/a..b/c...d/.hidden/..more", "/100%25", "/50%25%20off", "//double",
		"/%E2%82%AC",
	}
	for _, p := range good {
		if err := kubehttp.CheckPath(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	bad := []string{
		"", "api", "/..", "/.", "/a/../b", "/a/./b", "/%2e%2e/b", "/%2E%2E/b", "/.%2e/b", "/a%2f..%2fb", "/a%2F%2e%2e",
		"/%252e%252e/b",
		"/%25252e%25252e/b", "/%2525252525252e", "/a\\..\\b", "/a%5c..%5cb", "/..;/b", "/..;x=1/b", "/%00",
		"/a%0d%0aHost:x", "/%zz",
	}
	for _, p := range bad {
		if err := kubehttp.CheckPath(p); err == nil {
			t.Errorf("%q passes", p)
		}
	}
}

// FuzzCheckPath holds that whatever passes has no dot segment after any number of unescapes.
func FuzzCheckPath(f *testing.F) {
	f.Add("/a/%2e%2e/b")
	f.Add("/a%2f%252e/b")
	f.Fuzz(func(t *testing.T, p string) {
		if kubehttp.CheckPath(p) != nil {
			return
		}
		for range 10 {
			for s := range strings.SplitSeq(strings.ReplaceAll(p, "\\", "/"), "/") {
				if s == ".." || s == "." {
					t.Fatalf("%q passes", p)
				}
			}
			next, err := url.PathUnescape(p)
			if err != nil {
				return
			}
			p = next
		}
	})
}

func TestStripRequest(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Accept":                    {"application/json"},
		"User-Agent":                {"kubectl"},
		"Accept-Encoding":           {"gzip"},
		"Authorization":             {"Bearer x"},
		"Cookie":                    {"a=b"},
		"Impersonate-User":          {"root"},
		"Impersonate-Group":         {"system:masters"},
		"Impersonate-Uid":           {"1"},
		"Impersonate-Extra-Scopes":  {"all"},
		"impersonate-user":          {"root"},
		"IMPERSONATE-GROUP":         {"system:masters"},
		"Impersonate_User":          {"root"},
		"X-Remote-User":             {"root"},
		"X-Remote-Extra-Foo":        {"bar"},
		"X_Remote_User":             {"root"},
		"X-Forwarded-For":           {"127.0.0.1"},
		"Forwarded":                 {"for=127.0.0.1"},
		"Proxy-Authorization":       {"x"},
		"Proxy-Connection":          {"keep-alive"},
		"Connection":                {"close, X-Named", " x-other "},
		"X-Named":                   {"1"},
		"X-Other":                   {"1"},
		"Expect":                    {"100-continue"},
		"X-Custom-But-Fine":         {"1"},
		"X-Original-Url":            {"/secrets"},
		"Fairlead-User":             {"root"},
		"Sec-Websocket-Protocol":    {"base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io", "Base64URL.bearer.authorization.k8s.io.c2VjcmV0", "v4.channel.k8s.io"},
		"X-Impersonate-Not-A-Thing": {"1"},
	}
	kubehttp.StripRequest(h)
	for _, k := range []string{
		"Accept", "User-Agent", "Accept-Encoding", "X-Custom-But-Fine",
		"X-Impersonate-Not-A-Thing",
	} {
		if _, ok := h[k]; !ok {
			t.Errorf("%s was removed", k)
		}
		delete(h, k)
	}
	if got := h["Sec-Websocket-Protocol"]; len(got) != 1 || got[0] != "v5.channel.k8s.io, v4.channel.k8s.io" {
		t.Errorf("WebSocket protocols: %q", got)
	}
	delete(h, "Sec-Websocket-Protocol")
	delete(h, "Connection") // hop by hop, removed on sending
	if len(h) > 0 {
		t.Errorf("left: %v", h)
	}
}

func TestInfoIsWhatAnAPIServerMakesOfARequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, target string
		want           kubehttp.Info
	}{
		{"GET", "/api/v1/namespaces", kubehttp.Info{Verb: "list", Version: "v1", Resource: "namespaces"}},
		{"GET", "/api/v1/namespaces/shop", kubehttp.Info{Verb: "get", Version: "v1", Namespace: "shop", Resource: "namespaces", Name: "shop"}},
		{"GET", "/api/v1/pods?watch=true", kubehttp.Info{Verb: "watch", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch", kubehttp.Info{Verb: "watch", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=yes&watch=false", kubehttp.Info{Verb: "watch", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=False", kubehttp.Info{Verb: "list", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/pods?watch=0&watch=1", kubehttp.Info{Verb: "list", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/nodes/n?watch=true", kubehttp.Info{Verb: "get", Version: "v1", Resource: "nodes", Name: "n"}},
		{"GET", "/api/v1/watch/nodes/n", kubehttp.Info{Verb: "watch", Version: "v1", Resource: "nodes", Name: "n"}},
		{"GET", "/api/v1/watch/pods", kubehttp.Info{Verb: "watch", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/namespaces/shop/pods/web/log", kubehttp.Info{Verb: "get", Version: "v1", Namespace: "shop", Resource: "pods", Name: "web", Subresource: "log"}},
		{"PATCH", "/apis/apps/v1/namespaces/shop/deployments/web", kubehttp.Info{Verb: "patch", Group: "apps", Version: "v1", Namespace: "shop", Resource: "deployments", Name: "web"}},
		{"DELETE", "/apis/apps/v1/namespaces/shop/deployments", kubehttp.Info{Verb: "deletecollection", Group: "apps", Version: "v1", Namespace: "shop", Resource: "deployments"}},
		{"PUT", "/api/v1/namespaces/shop/finalize", kubehttp.Info{Verb: "update", Version: "v1", Namespace: "shop", Resource: "namespaces", Name: "shop", Subresource: "finalize"}},
		{"GET", "/version", kubehttp.Info{Verb: "get"}},
		{"GET", "/", kubehttp.Info{Verb: "get"}},
		{"GET", "/apis/apps/v1", kubehttp.Info{Verb: "get"}},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := kubehttp.InfoOf(tt.method, u.Path, u.Query()); got != tt.want {
			t.Errorf("%s %s: %+v, want %+v", tt.method, tt.target, got, tt.want)
		}
	}
}

func TestWriteErrorIsAStatus(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	kubehttp.WriteError(w, &kubehttp.Error{Code: 429, Message: `cluster "a": busy`, RetryAfterSeconds: 1})
	want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"cluster \"a\": busy","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}`
	if w.Code != 429 || w.Body.String() != want || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestWriteErrorWarns(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	kubehttp.WriteError(w, &kubehttp.Error{Code: 503, Message: "cluster \"a\\b\"\r\nis away"})
	if got, want := w.Header().Get("Warning"), `299 - "cluster \"a\\b\"  is away"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
