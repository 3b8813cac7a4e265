package giturl_test

import (
	"strings"
	"testing"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/loopback"
)

func TestRepositories(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://git.example.com/shop":          "https://git.example.com/shop",
		"https://git.example.com:8443/a/b.git/": "https://git.example.com:8443/a/b.git",
		"https://xn--mller-kva.example.com/a":   "https://xn--mller-kva.example.com/a",
		"https://git1.0xa.example/a":            "https://git1.0xa.example/a",
		"https://10.0.0.1/a":                    "https://10.0.0.1/a",
		"https://[64:ff9b::a00:1]/a":            "https://[64:ff9b::a00:1]/a",
		"HTTPS://git.example.com/shop":          "https://git.example.com/shop",
		"http://127.0.0.1:8080/shop.git":        "http://127.0.0.1:8080/shop.git",
		"http://localhost/shop":                 "http://localhost/shop",
		"http://[::1]:80/shop":                  "http://[::1]:80/shop",
		"ssh://git@git.example.com/shop.git":    "ssh://git@git.example.com/shop.git",
		"ssh://git@git.example.com:2222/a/b/":   "ssh://git@git.example.com:2222/a/b",
		"ssh://git@[fd00::1]:22/shop":           "ssh://git@[fd00::1]:22/shop",
		"ssh://git@git.example.com/~ada/shop":   "ssh://git@git.example.com/~ada/shop",
		"git@git.example.com:shop/web.git":      "ssh://git@git.example.com/shop/web.git",
		"git@[fd00::1]:shop":                    "ssh://git@[fd00::1]/shop",
	} {
		u, err := giturl.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if u.String() != want {
			t.Errorf("%q: got %s, want %s", text, u, want)
		}
	}
}

// An ssh server takes "shop.git" and "/shop.git" for different folders.
func TestPathsOfSSHAreWhatTheServerGets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"git@git.example.com:shop.git": "shop.git", "git@git.example.com:/srv/shop.git": "/srv/shop.git",
		"ssh://git@git.example.com/shop.git": "/shop.git",
	} {
		u, err := giturl.Parse(text)
		if err != nil || u.Path != want || u.Scheme != "ssh" || u.User.Username() != "git" ||
			u.Host != "git.example.com" {
			t.Errorf("%q: got %+v, %v", text, u, err)
		}
	}
}

func TestWhatIsNoRepositorySaysWhy(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		"http://127.0.0.1.example.com/shop":          "loopback",
		"http://git.example.com/shop":                "loopback",
		"http://0.0.0.0/shop":                        "loopback",
		"https://ada@git.example.com/shop":           "into a secret",
		"https://ada:hunter2@git.example.com/shop":   "into a secret",
		"https://@git.example.com/shop":              "into a secret",
		"ssh://git:hunter2@git.example.com/shop":     "must not hold a password",
		"ssh://git:@git.example.com/shop":            "must not hold a password",
		"https://git.example.com/shop?token=hunter2": "query",
		"https://git.example.com/shop?":              "query",
		"https://git.example.com/shop#main":          "fragment",
		"https://git.example.com/shop#":              "fragment",
		"https://git.example.com":                    "names no repository",
		"https://git.example.com/":                   "names no repository",
		"ssh://git@git.example.com/":                 "names no repository",
		"git@git.example.com:":                       "names no repository",
		"git@git.example.com:-x":                     "names no repository",
		"https:///shop":                              "names no host",
		// Others than Go's resolver take these for addresses, which would go past those who judge addresses.
		"https://127.1/shop":                      "names no host",
		"https://2130706433/shop":                 "names no host",
		"https://0x7f.1/shop":                     "names no host",
		"https://10.0.0.0x1./shop":                "names no host",
		"https://127.0.0.1./shop":                 "names no host",
		"https://010.0.0.1/shop":                  "names no host",
		"git@0251.0376.0251.0376:shop":            "names no host",
		"https://１２７.0.0.1/shop":                  "names no host",
		"https://ｌocalhost/shop":                  "names no host",
		"https://müller.example.com/shop":         "names no host",
		"https://-oProxyCommand=id/shop":          "names no host",
		"ssh://git@-oProxyCommand=id/shop":        "names no host",
		"git@-oProxyCommand=id:shop":              "names no host",
		"git@a;b:shop":                            "names no host",
		"ssh://git.example.com/shop":              "names no user",
		"ssh://-l@git.example.com/shop":           "names no user",
		"-l@git.example.com:shop":                 "begin with '-'",
		"ssh://git@git.example.com/a%0ab":         "control characters",
		"git.example.com:shop":                    "must begin with",
		"https://git.example.com/sh op":           "spaces",
		"https://git.example.com/shop\n":          "control characters",
		"ext::sh -c id":                           "spaces",
		"ext::sh":                                 "must begin with",
		"a@ext::sh":                               "can't be parsed",
		"file:///etc":                             "must begin with",
		"git://git.example.com/shop":              "must begin with",
		"--upload-pack=id":                        "begin with '-'",
		"https://git.example.com/%zz":             "can't be parsed",
		"https://ada:hunter2@git.example.com:x/y": "can't be parsed",
		"https:git.example.com/shop":              "names no host",
		"//git.example.com/shop":                  "must begin with",
		"":                                        "must begin with",
		"https://x/" + strings.Repeat("a", 2048):  "longer",
	} {
		u, err := giturl.Parse(text)
		if err == nil {
			t.Errorf("%q was taken as %s", text, u)
			continue
		}
		if !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", text, err, words)
		}
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"http://proxy.example.com:3128", "https://proxy.example.com/", "http://10.0.0.1:3128",
	} {
		if u, err := giturl.ParseProxy(text); err != nil || u.Path != "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, words := range map[string]string{
		"socks5://proxy.example.com":             "must begin with",
		"proxy.example.com:3128":                 "must begin with",
		"http://ada:hunter2@proxy.example.com":   "proxyUsername",
		"http://":                                "names no host",
		"http://proxy.example.com/x":             "more than a host",
		"http://proxy.example.com?hunter2":       "more than a host",
		"http://proxy.example.com:port":          "can't be parsed",
		"http://proxy.example.com\r\nX: hunter2": "control characters",
	} {
		if _, err := giturl.ParseProxy(text); err == nil || !strings.Contains(err.Error(), words) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", text, err, words)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("https://git.example.com/shop")
	f.Add("git@[fd00::1]:shop")
	f.Add("ssh://git@git.example.com:22/~/shop")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = giturl.ParseProxy(text)
		u, err := giturl.Parse(text)
		if err != nil {
			return
		}
		_, password := u.User.Password()
		switch {
		case u.Hostname() == "", strings.HasPrefix(u.Host,
			"-"), password, u.RawQuery != "", u.Fragment != "", u.Path == "", strings.HasPrefix(u.Path, "-"),
			u.Scheme == "https" && u.User != nil,
			u.Scheme == "ssh" && strings.HasPrefix(u.User.Username(), "-"),
			u.Scheme == "http" && !loopback.Host(u.Hostname()),
			u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh":
			t.Fatalf("%q was taken as %+v", text, u)
		}
	})
}

// TestFoldersMayBeTheRoot: a chart repository often is a whole host. Other URLs that a repository of Git may not have,
// it may not have either.
func TestFoldersMayBeTheRoot(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://charts.example.com":          "https://charts.example.com",
		"https://charts.example.com/":         "https://charts.example.com",
		"https://charts.example.com:8443/a//": "https://charts.example.com:8443/a",
		"http://127.0.0.1:8080/charts":        "http://127.0.0.1:8080/charts",
	} {
		u, err := giturl.ParseFolder(text)
		if err != nil || u.String() != want {
			t.Errorf("%s is read as %v, %v", text, u, err)
		}
	}
	for text, word := range map[string]string{
		"http://charts.example.com":            "begins with http://",
		"https://ada:hush@charts.example.com":  "user or password",
		"https://charts.example.com/?a=b":      "a query",
		"https://charts.example.com/#":         "a fragment",
		"git@charts.example.com:charts":        "",
		"ssh://git@charts.example.com/charts":  "must begin with https://",
		"oci://charts.example.com/charts":      "must begin with https://",
		"file:///charts":                       "must begin with https://",
		"https://":                             "names no host",
		"https://127.1/charts":                 "names no host",
		"-https://charts.example.com":          "must not begin",
		"https://charts.example.com/" + "a b":  "spaces",
		"https://" + strings.Repeat("a", 3000): "longer than",
	} {
		if u, err := giturl.ParseFolder(text); err == nil || !strings.Contains(err.Error(), word) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s is read as %v, %v; want an error with %q", text, u, err, word)
		}
	}
}

func TestBucketsHaveURLs(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"s3.eu-central-1.amazonaws.com", "minio.example.com:9000", "[fd00::1]:9000", "127.0.0.1:80",
	} {
		if err := giturl.ParseEndpoint(endpoint); err != nil {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	for _, endpoint := range []string{
		"https://s3.example.com", "s3.example.com/shop", "s3.example.com?a", "s3.example.com#a", "a@s3.example.com",
		"s3.example.com:x", "127.1", "", "a b", "-a",
	} {
		if err := giturl.ParseEndpoint(endpoint); err == nil {
			t.Errorf("%q is taken", endpoint)
		}
	}
	for _, name := range []string{"shop", "Old_Shop", "a.b-c", "123", strings.Repeat("a", 255)} {
		if !giturl.IsBucketName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", "..", "a/b", "a?b", "a%2fb", ".a", "a b", "ab", strings.Repeat("a", 256)} {
		if giturl.IsBucketName(name) {
			t.Errorf("%q is taken", name)
		}
	}
	for want, got := range map[string]string{
		"https://s3.example.com/shop":               giturl.OfBucket("s3.example.com", "shop", "", false),
		"http://s3.example.com:9000/shop/a%20b/%25": giturl.OfBucket("s3.example.com:9000", "shop", "a b/%", true),
	} {
		u, err := giturl.ParseBucket(got)
		if err != nil || got != want || u.String() != want {
			t.Errorf("got %s, want %s, %v", got, want, err)
		}
	}
	for _, text := range []string{
		"oci://s3.example.com/shop", "https://ada:hush@s3.example.com/shop", "https:///shop",
		"https://s3.example.com/shop?a",
	} {
		if u, err := giturl.ParseBucket(text); err == nil {
			t.Errorf("%q is taken for %s", text, u)
		}
	}
}
