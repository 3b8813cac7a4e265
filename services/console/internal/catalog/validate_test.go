package catalog

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"fairlead.dev/platform/loopback"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"https://git.example.com/shop":            true,
		"https://git.example.com:8443/a/b.git":    true,
		"http://127.0.0.1:8080/shop.git":          true,
		"http://localhost/shop":                   true,
		"http://[::1]:80/shop":                    true,
		"http://127.0.0.1.example.com/shop":       false,
		"http://git.example.com/shop":             false,
		"http://0.0.0.0/shop":                     false,
		"https://ada@git.example.com/shop":        false,
		"https://@git.example.com/shop":           false,
		"https://git.example.com/shop?token=x":    false,
		"https://git.example.com/shop?":           false,
		"https://git.example.com/shop#main":       false,
		"https://git.example.com":                 false,
		"https://git.example.com/":                false,
		"https:///shop":                           false,
		"https://-oProxyCommand=id/shop":          false,
		"https://git.example.com/sh op":           false,
		"https://git.example.com/shop\n":          false,
		"ssh://git@git.example.com/shop":          false,
		"git@git.example.com:shop":                false,
		"ext::sh -c id":                           false,
		"file:///etc":                             false,
		"git://git.example.com/shop":              false,
		"-https://git.example.com/shop":           false,
		"HTTPS://git.example.com/shop":            true,
		"https://git.example.com/%zz":             false,
		"https:git.example.com/shop":              false,
		"//git.example.com/shop":                  false,
		"https://ada:hunter2@exa mple.com/x":      false,
		"https://git.example.com:port/shop":       false,
		"https://xn--bcher-kva.example.com/b%C3%": false,
	} {
		err := validateURL(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %v", err)
		}
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	for ref, ok := range map[string]bool{
		"": true, "HEAD": true, "main": true, "release/1.x": true, "refs/heads/main": true, "refs/tags/v1.0": true,
		strings.Repeat("a", 40): true, "feature/ümläut": true,
		"refs/pull/1/head": false, "refs/": false, "-main": false, "a..b": false, "a b": false, "a~1": false, "a^": false, "a:b": false,
		"a?": false, "a*": false, "a[": false, `a\b`: false, "a@{1}": false, "@": false, "a/": false, "/a": false, "a//b": false,
		".a": false, "a/.b": false, "a.lock": false, "a.lock/b": false, "a.": false, "a\x00": false, "a\n": false,
	} {
		if err := validateRef(ref); (err == nil) != ok {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", ".": "", "./": "", "deploy": "deploy", "deploy/": "deploy", "./deploy/a": "deploy/a", "a b/ü": "a b/ü", "..a": "..a"} {
		if got, err := cleanPath(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"/", "/deploy", "../x", "a/../b", "a/..", "a//b", "a/./b", `a\b`, "a\x00", ".git", "a/.GIT/hooks", "a//"} {
		if got, err := cleanPath(in); err == nil {
			t.Errorf("%q: became %q", in, got)
		}
	}
}

func FuzzValidateURL(f *testing.F) {
	f.Add("https://git.example.com/shop")
	f.Add("http://127.0.0.1/x")
	f.Fuzz(func(t *testing.T, text string) {
		if validateURL(text) != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.User != nil || u.Host == "" || strings.HasPrefix(text, "-") || strings.HasPrefix(u.Hostname(), "-") ||
			u.Scheme != "https" && (u.Scheme != "http" || !loopback.Host(u.Hostname())) {
			t.Fatalf("%q was accepted", text)
		}
	})
}

func FuzzCleanPath(f *testing.F) {
	f.Add("./deploy/")
	f.Add("a/../b")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := cleanPath(in)
		if err != nil {
			return
		}
		if again, err := cleanPath(got); err != nil || again != got {
			t.Fatalf("%q became %q, and that %q, %v", in, got, again, err)
		}
		if got != "" && (path.Clean("/"+got) != "/"+got || strings.HasPrefix(got, "/")) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}

func FuzzValidateRef(f *testing.F) {
	f.Add("refs/heads/main")
	f.Fuzz(func(t *testing.T, ref string) {
		if validateRef(ref) == nil && (strings.HasPrefix(ref, "-") || strings.Contains(ref, "..") || strings.ContainsAny(ref, "\x00 \n:^~")) {
			t.Fatalf("%q was accepted", ref)
		}
	})
}
