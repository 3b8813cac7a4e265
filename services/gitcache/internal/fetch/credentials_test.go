package fetch_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func TestASecretThatDoesNotFitSaysSo(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	f := newFetcher(t, upstream.Options{})
	for words, c := range map[string]upstream.Credentials{
		"username without a password": {Username: "ada"},
		"password without a username": {Password: "s3cret"},
		"which is for ssh":            {Identity: "s3cret", KnownHosts: "x"},
		"one is missing":              {GitHubApp: upstream.GitHubApp{ID: "1", PrivateKey: "s3cret"}},
		"also a password":             {Username: "ada", Password: "s3cret", GitHubApp: upstream.GitHubApp{ID: "1", InstallationID: "2", PrivateKey: "s3cret"}},
		"is no number":                {GitHubApp: upstream.GitHubApp{ID: "1", InstallationID: "../s3cret", PrivateKey: "s3cret"}},
		"neither a number nor":        {GitHubApp: upstream.GitHubApp{ID: "1\n", InstallationID: "2", PrivateKey: "s3cret"}},
		"it is not PEM":               {GitHubApp: upstream.GitHubApp{ID: "1", InstallationID: "2", PrivateKey: "s3cret"}},
		"no private RSA key": {GitHubApp: upstream.GitHubApp{
			ID: "1", InstallationID: "2", PrivateKey: "-----BEGIN RSA PRIVATE KEY-----\ns3crets3cret\n-----END RSA PRIVATE KEY-----\n",
		}},
	} {
		r := remote(t, server.URL+"/shop.git")
		r.Secret, r.Credentials = "shop-git", c
		_, err := f.List(t.Context(), r, gitwire.Names{})
		wantError(t, err, upstream.KindCredentials, `secret "shop-git" does not fit`, words)
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q gives a secret away", err)
		}
	}
	if n := len(server.Log()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestUpstreamCannotMakeUsShowCredentials(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	r := remote(t, server.URL+"/shop.git")
	r.Secret, r.Credentials = "shop-git", upstream.Credentials{Username: "ada", Password: "s3cret-and-quite-long"}
	f := newFetcher(t, upstream.Options{})
	for _, pad := range []int{0, 60, 90, 110, 118} { // where messages are cut, too
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			_, pass, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			l := "ERR " + strings.Repeat("x", pad) + " " + pass + " " +
				strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
			_, _ = fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s", len(l)+4, l)
			return true
		})
		_, err := f.List(t.Context(), r, gitwire.Names{})
		wantError(t, err, upstream.KindContent, "upstream says")
		encoded := base64.StdEncoding.EncodeToString([]byte("ada:s3cret-and-quite-long"))
		for _, part := range []string{"s3cret", encoded[:8]} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q gives %q away", err, part)
			}
		}
	}
}

func TestAHostThatDoesNotUnderstandCannotMakeUsShowCredentials(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	r := remote(t, repo.URL())
	r.Secret, r.Credentials = "shop-git", upstream.Credentials{Username: "ada", Password: "s3cret-and-quite-long"}
	f, err := fetch.New(upstream.Options{Addresses: thisMachine(t), Git: fetch.GitBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pad := range []int{0, 90, 110} { // where messages are cut, too
		server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			_, pass, _ := r.BasicAuth()
			http.Error(w, strings.Repeat("x", pad)+" "+pass+" "+r.Header.Get("Authorization"), http.StatusBadRequest)
			return true
		})
		_, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, newMirror(t))
		wantError(t, err, upstream.KindContent, "does not take what Fairlead asks for")
		encoded := base64.StdEncoding.EncodeToString([]byte("ada:s3cret-and-quite-long"))
		for _, part := range []string{"s3cret", encoded[:8]} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q gives %q away", err, part)
			}
		}
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	t.Parallel()
	r := remote(t, "https://git.example.com/shop.git")
	r.Credentials = upstream.Credentials{
		Username: "ada", Password: "s3cret1", Identity: "s3cret2", Passphrase: "s3cret3", ProxyPassword: "s3cret4",
		GitHubApp: upstream.GitHubApp{PrivateKey: "s3cret5"},
	}
	var logs bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logs, nil), slog.NewJSONHandler(&logs, nil)} {
		l := slog.New(h)
		l.Info("x", "remote", r, "pointer", &r, "credentials", r.Credentials, "app", r.Credentials.GitHubApp)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	out := logs.String() + string(text) + fmt.Sprintf("%v %+v %#v %s %q", r, r, r, r.Credentials, r.Credentials) +
		fmt.Sprintf("%v %+v %#v", r.Credentials.GitHubApp, r.Credentials.GitHubApp, r.Credentials.GitHubApp)
	if strings.Contains(out, "s3cret") {
		t.Errorf("credentials are in\n%s", out)
	}
}
