package oci_test

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/oci"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// FuzzDecode: a manifest that is taken has layers that can be asked for.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [{"digest": "`+digest+
		`", "size": 3}]}`), "application/vnd.oci.image.manifest.v1+json")
	f.Add([]byte(`{"manifests": [{"digest": "`+digest+`"}]}`), "application/vnd.oci.image.index.v1+json; charset=utf-8")
	f.Add([]byte(`{"layers": [{"digest": "sha256:../x", "size": -1, "urls": ["x"]}]}`),
		"application/vnd.docker.distribution.manifest.v2+json")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		m, child, err := oci.Decode(body, contentType)
		if err != nil {
			return
		}
		if (m == nil) == (child == "") {
			t.Fatalf("manifest %v and child %q", m, child)
		}
		if m == nil {
			return
		}
		for _, l := range m.Layers {
			if again, err := oci.ParseDigest(string(l.Digest)); err != nil || again != l.Digest || l.Size < 0 {
				t.Errorf("layer %+v", l)
			}
		}
		_, _ = m.Chart()
		_, _ = m.Content("")
	})
}

// FuzzAnswers: what a registry says in headers and small documents is read or refused.
func FuzzAnswers(f *testing.F) {
	f.Add(`Bearer realm="https://auth.example.com/token?a=b",service="x,y",scope="a:b:pull"`)
	f.Add(`Basic realm="a \"b\"", Bearer realm=https://x`)
	f.Add(`</v2/x/tags/list?last=a>; rel="next", <x>; rel=prev`)
	f.Add(`{"token": "abc", "expires_in": 1e300}`)
	f.Add(`{"auths": {"https://r.example.com/v1/": {"auth": "YTpi"}}}`)
	page := &url.URL{Scheme: "https", Host: "r.example.com", Path: "/v2/x/tags/list"}
	f.Fuzz(func(t *testing.T, text string) {
		oci.ParseChallenges([]string{text})
		if next, err := oci.NextPage(page, []string{text}); err == nil && next != nil &&
			!strings.EqualFold(next.Host, page.Host) {
			t.Errorf("the next page is at %s", next)
		}
		if token, life, err := oci.DecodeToken([]byte(text)); err == nil && (token == "" || life <= 0) {
			t.Errorf("token %q for %s", token, life)
		}
		if user, password, err := oci.DockerLogin(text, "r.example.com", "/x"); err == nil &&
			(user == "" || password == "") {
			t.Errorf("login %q", user)
		}
		_, _ = oci.DecodeTags([]byte(text))
	})
}

// FuzzUnpack: whatever a layer is, there is an error or a commit whose pack is read.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("a: 1\n"), "a.yaml")
	f.Add([]byte("\x1f\x8b\x08"), "")
	f.Add(make([]byte, 1024), "empty.tar")
	f.Fuzz(func(t *testing.T, body []byte, title string) {
		u, err := oci.Unpack(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Add(t.Context(), bytes.NewReader(body), oci.Layer{Size: int64(len(body)), Title: title}); err != nil {
			u.Close()
			return
		}
		objects, err := u.Commit("x 1")
		if err != nil {
			t.Fatal(err)
		}
		defer objects.Close()
		r, err := objects.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r); err != nil || !strings.HasPrefix(b.String(), "PACK") {
			t.Errorf("the pack can't be read: %v", err)
		}
	})
}

// TestChallengesAreRead as registries write them.
func TestChallengesAreRead(t *testing.T) {
	t.Parallel()
	bearer := oci.Challenge{Bearer: true, Realm: "https://auth.example.com/token", Service: "r,1"}
	for header, want := range map[string]*oci.Challenge{
		`Bearer realm="https://auth.example.com/token",service="r,1",scope="repository:a:pull,push"`: &bearer,
		`Basic realm="x y", bearer Realm="https://auth.example.com/token", service="r,1"`:            &bearer,
		`Basic realm="x"`:  {},
		`Negotiate`:        nil,
		`Bearer service=x`: nil,
		``:                 nil,
	} {
		got, ok := oci.ParseChallenges([]string{header})
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%s: %+v, %t", header, got, ok)
		}
	}
}

// TestDockerLoginIsThatOfTheRepository: the longest entry that it begins with.
func TestDockerLoginIsThatOfTheRepository(t *testing.T) {
	t.Parallel()
	config := `{"auths": {
		"r.example.com": {"username": "all", "password": "1"}, "r.example.com/team/": {"auth": "dGVhbToy"},
		"https://index.docker.io/v1/": {"username": "hub", "password": "3"}, "helper.example.com": {}, "acr.example.com": {"identitytoken": "x"}}}`
	for at, want := range map[[2]string]string{
		{"r.example.com", "/shop"}: "all", {"r.example.com", "/team/shop"}: "team",
		{"r.example.com", "/teams/shop"}: "all", {oci.DockerHub, "/library/x"}: "hub",
	} {
		if user, _, err := oci.DockerLogin(config, at[0], at[1]); err != nil || user != want {
			t.Errorf("%v: %q, %v, want %q", at, user, err, want)
		}
	}
	for host, word := range map[string]string{
		"other.example.com":  "no entry",
		"helper.example.com": "credential helper", "acr.example.com": "identity token",
		"r.example.com.evil.com": "no entry",
	} {
		if _, _, err := oci.DockerLogin(config, host, "/x"); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// FuzzSignatures: what is taken of manifests of signatures and lists of referrers is bounded and can be asked for.
func FuzzSignatures(f *testing.F) {
	f.Add([]byte(`{"layers": [{"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest": "` + digest +
		`", "size": 3, "annotations": {"dev.cosignproject.cosign/signature": "eA=="}}]}`))
	f.Add([]byte(`{"manifests": [{"digest": "` + digest +
		`", "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json"}, {"digest": "x"}]}`))
	f.Add([]byte(`{"layers": [{"mediaType": "application/jose+json", "digest": "` + digest + `", "size": 3}], "manifests": [{"digest": "` + digest +
		`", "artifactType": "application/vnd.cncf.notary.signature"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, form := range []oci.SignatureForm{oci.FormCosign, oci.FormNotation} {
			layers, _, err := oci.DecodeSignatures(body, form)
			if err == nil && len(layers) > oci.MaxSignatures {
				t.Errorf("%d signatures", len(layers))
			}
			for _, l := range layers {
				if _, err := oci.ParseDigest(string(l.Digest)); err != nil || l.Size < 0 ||
					l.Size > oci.MaxSignatureBytes {
					t.Errorf("signature %+v", l)
				}
			}
			manifests, _, err := oci.DecodeReferrers(body, form)
			if err == nil && len(manifests) > oci.MaxSignatures {
				t.Errorf("%d manifests", len(manifests))
			}
			for _, m := range manifests {
				if _, err := oci.ParseDigest(string(m)); err != nil {
					t.Errorf("manifest %q", m)
				}
			}
		}
	})
}
