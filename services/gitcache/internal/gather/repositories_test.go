package gather

import (
	"net/url"
	"testing"

	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// lent is what a repository gets of a source at from, whose spec names repositories of others.
func lent(t *testing.T, from, at string, allowed ...string) upstream.Remote {
	t.Helper()
	parse := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	g := NewSubmodules(Deps{}, upstream.Remote{URL: parse(from), Secret: "login", Credentials: upstream.Credentials{
		Username: "ada", Password: "s3cret", CA: "authority", KnownHosts: "keys", ProxyUsername: "way",
		ProxyPassword: "out",
	}}, source.Source{SubmoduleRepositories: allowed})
	return g.remoteOf(parse(at))
}

// A commit names its submodules, and its author may read less than the source's credentials do. A name of a repository
// that merely begins like an allowed one is another owner's.
func TestCredentialsAreLentInTheFolderOfTheSourceAndWhereItSaysSo(t *testing.T) {
	t.Parallel()
	const from = "https://git.example.com/team/shop.git"
	for _, tc := range []struct {
		from, at, allowed string
		want              bool
	}{
		{from: from, at: "https://git.example.com/team/libs", want: true},
		{from: from, at: "https://git.example.com/team/below/deep/libs.git", want: true},
		{from: from, at: "https://git.example.com/teams/libs"},
		{from: from, at: "https://git.example.com/other/libs"},
		{from: from, at: "https://git.example.com/other/team/libs"},
		{from: from, at: "https://git.example.com/libs"},
		{from: from, at: "https://git.example.com/team/../other/libs"},
		{from: from, at: "https://git.example.com/team/%2e%2e/other/libs"},
		{from: from, at: "https://git.example.com/team/%252e%252e/other/libs"},
		{from: from, at: `https://git.example.com/team/..\other/libs`},
		{from: from, at: "https://git.example.com:8443/team/libs"},
		{from: from, at: "http://git.example.com/team/libs"},
		{from: from, at: "https://git.example.org/team/libs"},
		{from: "https://git.example.com/group/team/shop", at: "https://git.example.com/group/libs"},
		{from: "https://git.example.com/shop", at: "https://git.example.com/libs", want: true},
		{from: "https://git.example.com/shop", at: "https://git.example.com/team/libs"},

		{from: from, at: "https://git.example.com/platform/charts.git", allowed: "platform/charts", want: true},
		{from: from, at: "https://git.example.com/platform/charts", allowed: "platform/charts.git", want: true},
		{from: from, at: "https://git.example.com/platform/charts/below", allowed: "platform/charts"},
		{from: from, at: "https://git.example.com/platform/charts2", allowed: "platform/charts"},
		{from: from, at: "https://git.example.com/platform/charts", allowed: "platform/*", want: true},
		{from: from, at: "https://git.example.com/platform/below/deep/charts", allowed: "platform/*", want: true},
		{from: from, at: "https://git.example.com/platform", allowed: "platform/*"},
		{from: from, at: "https://git.example.com/platforms/charts", allowed: "platform/*"},
		{from: from, at: "https://git.example.com/my/platform/charts", allowed: "platform/*"},
		{from: from, at: "https://git.example.org/platform/charts", allowed: "platform/*"},
	} {
		r := lent(t, tc.from, tc.at, tc.allowed)
		if got := r.Secret == "login" && r.Credentials.Username == "ada" && r.Credentials.Password == "s3cret"; got != tc.want {
			t.Errorf("%s of %s, which allows %q: lent is %t", tc.at, tc.from, tc.allowed, got)
		}
		if !tc.want && (r.Secret != "" || r.Credentials.Username != "" || r.Credentials.Password != "") {
			t.Errorf("%s of %s, which allows %q: a part is lent", tc.at, tc.from, tc.allowed)
		}
	}
}

// What a host is known by goes with the host, and what is for the proxy with each request.
func TestWhatAHostIsKnownByStaysThere(t *testing.T) {
	t.Parallel()
	const from = "https://git.example.com/team/shop"
	way := upstream.Credentials{ProxyUsername: "way", ProxyPassword: "out"}
	if got := lent(t, from, "https://git.example.org/team/libs").Credentials; got != way {
		t.Errorf("another host gets %+v", got)
	}
	way.CA, way.KnownHosts = "authority", "keys"
	if got := lent(t, from, "https://git.example.com/other/libs").Credentials; got != way {
		t.Errorf("another owner's repository gets %+v", got)
	}
}

// Charts that others depend on are asked for without the source's login: authors of charts may be allowed to read less
// than it does.
func TestARepositoryOfDependenciesGetsTheAuthorityOfItsOwnOriginOnly(t *testing.T) {
	t.Parallel()
	proxy := &url.URL{Scheme: "http", Host: "proxy.example.com:3128"}
	d := &dependencies{p: &Poll{Remote: upstream.Remote{
		URL: &url.URL{Scheme: "https", Host: "charts.example.com", Path: "/stable"}, Secret: "login", Proxy: proxy,
		Credentials: upstream.Credentials{
			Username: "ada", Password: "s3cret", CA: "authority", ProxyUsername: "way",
			ProxyPassword: "out",
		},
	}}}
	for at, want := range map[string]string{
		"https://charts.example.com/other":      "authority",
		"https://charts.example.com:8443/other": "",
		"https://charts.example.org/stable":     "",
		"oci://charts.example.com/other":        "authority",
		"oci://registry.example.com/charts":     "",
	} {
		r, err := d.remoteOf(t.Context(), repository{url: at})
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		if wants := (upstream.Credentials{CA: want, ProxyUsername: "way", ProxyPassword: "out"}); r.Secret != "" ||
			r.Credentials != wants {
			t.Errorf("%s gets %+v, want %+v", at, r.Credentials, wants)
		}
		if r.URL.Scheme != "https" || r.Registry.Insecure || r.Proxy != proxy {
			t.Errorf("%s is asked at %s by way of %v", at, r.URL, r.Proxy)
		}
	}
	for at, want := range map[string]string{
		"oci://127.0.0.1:5000/charts": "http",
		"oci://10.0.0.1:5000/charts":  "https",
	} {
		r, err := d.remoteOf(t.Context(), repository{url: at})
		if err != nil || r.URL.Scheme != want || r.Registry.Insecure != (want == "http") ||
			(r.Proxy == nil) != (want == "http") {
			t.Errorf("%s is asked at %v by way of %v, %v", at, r.URL, r.Proxy, err)
		}
	}
}
