package resource

import (
	"path"
	"strings"
	"testing"
)

func TestRefs(t *testing.T) {
	t.Parallel()
	for ref, ok := range map[string]bool{
		"": true, "HEAD": true, "main": true, "release/1.x": true, "refs/heads/main": true, "refs/tags/v1.0": true,
		strings.Repeat("a", 40): true, "feature/ümläut": true,
		"semver:^1.4": true, "semver:>=2.0.0 <3": true, "semver:~1.2-0": true, "semver:1.x || 3.x": true,
		"semver:v1": true, "semver:*": true,
		"semver:": false, "semver: ": false, "semver:latest": false, "semver:^1.4\n": false,
		"semver:refs/tags/v1": false, "Semver:1": false,
		"refs/pull/1/head": false, "refs/": false, "-main": false, "a..b": false, "a b": false, "a~1": false,
		"a^": false, "a:b": false,
		"a?": false, "a*": false, "a[": false, `a\b`: false, "a@{1}": false, "@": false, "a/": false, "/a": false,
		"a//b": false,
		".a":   false, "a/.b": false, "a.lock": false, "a.lock/b": false, "a.": false, "a\x00": false, "a\n": false,
	} {
		if err := validateRef(ref); (err == nil) != ok {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", ".": "", "./": "", "deploy": "deploy", "deploy/": "deploy",
		"./deploy/a": "deploy/a", "a b/ü": "a b/ü", "..a": "..a",
	} {
		if got, err := cleanFolder("path", in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"/", "/deploy", "../x", "a/../b", "a/..", "a//b", "a/./b", `a\b`, "a\x00", ".git",
		"a/.GIT/hooks", "a//",
	} {
		if got, err := cleanFolder("path", in); err == nil {
			t.Errorf("%q: became %q", in, got)
		}
	}
}

func FuzzCleanPath(f *testing.F) {
	f.Add("./deploy/")
	f.Add("a/../b")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := cleanFolder("path", in)
		if err != nil {
			return
		}
		if again, err := cleanFolder("path", got); err != nil || again != got {
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
		if validateRef(ref) == nil && !strings.HasPrefix(ref, "semver:") &&
			(strings.HasPrefix(ref, "-") || strings.Contains(ref, "..") || strings.ContainsAny(ref, "\x00 \n:^~")) {
			t.Fatalf("%q was accepted", ref)
		}
	})
}

func FuzzCheckKey(f *testing.F) {
	f.Add("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIHUHnxUgHaXdc3Pw6wxXfJNKWSmoWYPxVJCKuEQmfhp ada")
	f.Add("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n-----END PGP PUBLIC KEY BLOCK-----")
	f.Fuzz(func(t *testing.T, text string) {
		if err := checkKey(text); err == nil && strings.Contains(text, "PRIVATE KEY") {
			t.Error("a private key was taken")
		}
	})
}
