package attack

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"fairlead.dev/e2e/process"
)

// installation is the API of a Git host that hands out tokens of a GitHub App, each for the repositories that were asked for.
type installation struct {
	mu    sync.Mutex // guards asked
	asked []string   // the repositories of each token, as they were asked for
}

// ServeHTTP implements http.Handler.
func (i *installation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Repositories []string
		Permissions  map[string]string
	}
	const longest = 64 << 10
	if err := json.NewDecoder(io.LimitReader(r.Body, longest)).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	names := strings.Join(want.Repositories, ",")
	i.mu.Lock()
	i.asked = append(i.asked, fmt.Sprint(names, " ", want.Permissions))
	i.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"token":"token-for-%s","expires_at":"2099-01-01T00:00:00Z"}`, names) // the gitcache says what it makes of it
}

// appToken has a repository of a GitHub App's installation name two more as submodules: one of the same owner, and one of another owner that the installation
// covers, too.
func (t *Try) appToken(ctx context.Context) (string, error) {
	const name = "git-app"
	var modules strings.Builder
	entries := []entry{}
	for _, module := range []string{"bank/payroll", "studio/lib"} {
		path := strings.ReplaceAll(module, "/", "-")
		fmt.Fprintf(&modules, "[submodule %q]\n\tpath = %s\n\turl = %s/%s.git\n", path, path, t.world.git.URL, module)
		entries = append(entries, entry{"160000", path, ""})
	}
	if err := t.bare(ctx, name, append([]entry{{"100644", ".gitmodules", modules.String()}}, entries...)); err != nil {
		return "", err
	}
	target, err := url.Parse(t.world.GitURL)
	if err != nil {
		return "", err
	}
	real := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		r.Out.URL.Path = "/" + name + ".git" + strings.TrimPrefix(r.In.URL.Path, "/studio/app.git")
		r.Out.Header.Del("Authorization")
	}}
	var mu sync.Mutex
	sent := map[string][]string{} // the tokens that repositories got
	answer := func(w http.ResponseWriter, r *http.Request) {
		repository, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git")
		_, password, ok := r.BasicAuth()
		mu.Lock()
		sent[repository] = append(sent[repository], password)
		mu.Unlock()
		switch {
		case !ok:
			w.Header().Set("Www-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case repository == "studio/app":
			real.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}
	api := &installation{}
	t.world.git.at("studio", answer)
	t.world.git.at("bank", answer)
	t.world.git.at("api", api.ServeHTTP)
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return "", err
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	secret := "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: " + name + "}\ndata:\n  githubAppID: \"7\"\n  githubAppInstallationID: \"42\"\n  githubAppPrivateKey: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(private), "\n", "\n    ") + "\n---\n"
	told, err := t.want(ctx, name, "url: '"+t.world.git.URL+"/studio/app.git', secret: "+name+", submodules: true", secret)
	if err != nil {
		return told, err
	}
	// The submodules are asked for one by one; each may be what is said to be wrong first.
	err = process.Await(ctx, "the repository is read by the App's token", func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(sent["studio/app"], "token-for-app") {
			return fmt.Errorf("it was sent %q, so that this tries nothing", sent["studio/app"])
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	api.mu.Lock()
	defer api.mu.Unlock()
	for repository, tokens := range sent {
		for _, token := range tokens {
			if own := "token-for-" + repository[strings.Index(repository, "/")+1:]; token != "" && (token != own || strings.HasPrefix(repository, "bank/")) {
				err = errors.Join(err, fmt.Errorf("%s was sent %q", repository, token))
			}
		}
	}
	for _, asked := range api.asked {
		if asked != "app map[contents:read]" && asked != "lib map[contents:read]" {
			err = errors.Join(err, fmt.Errorf("a token was asked for %q", asked))
		}
	}
	return fmt.Sprintf("tokens asked for %q; %s", slices.Compact(slices.Sorted(slices.Values(api.asked))), told), errors.Join(err, silentOf(told, "token-for", "PRIVATE"))
}
