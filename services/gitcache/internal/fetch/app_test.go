package fetch_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// otherAuthority is one that has signed nothing.
func otherAuthority(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// enterprise is a GitHub Enterprise server: repositories, and an API that gives tokens.
type enterprise struct {
	*gittest.Server
	t   *testing.T
	key *rsa.PrivateKey

	mu      sync.Mutex // guards what follows
	life    time.Duration
	fault   gittest.Fault // of the API
	asked   int
	tokens  map[string]string // the repository that each is for
	proof   string
	wrong   []string
	unknown bool // all tokens are refused
}

func newEnterprise(t *testing.T) *enterprise {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e := &enterprise{Server: gittest.NewTLSServer(t), t: t, key: key, life: time.Hour, tokens: map[string]string{}}
	e.SetFault(e.answer)
	return e
}

func (e *enterprise) answer(w http.ResponseWriter, r *http.Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.URL.Path == "/api/v3/app/installations/42/access_tokens" && r.Method == http.MethodPost {
		e.asked++
		if e.fault != nil && e.fault(w, r) {
			return true
		}
		token := fmt.Sprintf("ghs_t0ken%d", e.asked)
		e.tokens[token] = e.check(r)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":%q,"expires_at":%q,"permissions":{"contents":"read"}}`, token,
			time.Now().Add(e.life).UTC().Format(time.RFC3339))
		return true
	}
	user, pass, _ := r.BasicAuth()
	repository, known := e.tokens[pass]
	if user != "x-access-token" || !known || !strings.HasPrefix(r.URL.Path, "/"+repository+".git/") || e.unknown {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	return false
}

// check looks at a request for a token as GitHub does, and tells which repository it is for.
func (e *enterprise) check(r *http.Request) (repository string) {
	e.proof, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	parsed, err := jwt.ParseSigned(e.proof, []jose.SignatureAlgorithm{jose.RS256})
	var claims jwt.Claims
	if err == nil {
		err = parsed.Claims(e.key.Public(), &claims)
	}
	now := time.Now()
	if err != nil || claims.Issuer != "7" || claims.IssuedAt.Time().After(now.Add(-30*time.Second)) ||
		claims.Expiry.Time().After(now.Add(10*time.Minute)) || claims.Expiry.Time().Before(now.Add(time.Minute)) {
		e.wrong = append(e.wrong, fmt.Sprintf("proof %+v: %v", claims, err))
	}
	var body struct {
		Repositories []string
		Permissions  map[string]string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Permissions) != 1 ||
		body.Permissions["contents"] != "read" || len(body.Repositories) != 1 {
		e.wrong = append(e.wrong, fmt.Sprintf("asks for %+v: %v", body, err))
		return ""
	}
	return body.Repositories[0]
}

func (e *enterprise) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// tokensAsked tells how many tokens were given or refused.
func (e *enterprise) tokensAsked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.wrong {
		e.t.Error(w)
	}
	return e.asked
}

func (e *enterprise) remote(path string) upstream.Remote {
	e.t.Helper()
	r := remote(e.t, e.URL+path)
	r.Secret = "app"
	r.Credentials = upstream.Credentials{CA: authority(e.Server), GitHubApp: upstream.GitHubApp{
		ID: "7", InstallationID: "42",
		PrivateKey: string(pem.EncodeToMemory(&pem.Block{
			Type:  "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(e.key),
		})),
	}}
	return r
}

func TestAGitHubAppFetches(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	repo := e.NewRepo(t, "shop.git")
	commit := repo.Commit("one", gittest.Files{"a": "1"})
	f, r := newFetcher(t, upstream.Options{}), e.remote("/shop.git")
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), r, l, []git.Hash{git.HashOf(commit)}, newMirror(t)); err != nil {
		t.Fatal(err)
	}
	if n := e.tokensAsked(); n != 1 {
		t.Errorf("%d tokens for a poll and a fetch", n)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(e.key)
	if err != nil {
		t.Fatal(err)
	}
	r.Credentials.GitHubApp.PrivateKey = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	if _, err := f.List(t.Context(), r, gitwire.Names{}); err != nil {
		t.Errorf("with a key in PKCS 8: %v", err)
	}
}

func TestATokenIsForOneRepositoryOfTheInstallation(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	f := newFetcher(t, upstream.Options{})
	for _, name := range []string{"shop", "payroll"} {
		e.NewRepo(t, name+".git")
		if _, err := f.List(t.Context(), e.remote("/"+name+".git"), gitwire.Names{}); err != nil {
			t.Error(err)
		}
	}
	if n := e.tokensAsked(); n != 2 {
		t.Errorf("%d tokens for two repositories", n)
	}
}

func TestSourcesOfOneRepositoryShareATokenUntilItIsOld(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	e.NewRepo(t, "shop.git")
	f := newFetcher(t, upstream.Options{})
	all := func() {
		var polls sync.WaitGroup
		for range 8 {
			polls.Go(func() {
				if _, err := f.List(t.Context(), e.remote("/shop.git"), gitwire.Names{}); err != nil {
					t.Error(err)
				}
			})
		}
		polls.Wait()
	}
	e.set(func() { e.life = 4 * time.Minute }) // too short to be used again
	all()
	first := e.tokensAsked()
	if first > 8 {
		t.Errorf("%d tokens for 8 polls", first)
	}
	e.set(func() { e.life = time.Hour })
	all()
	all()
	if n := e.tokensAsked() - first; n != 1 {
		t.Errorf("%d tokens for 16 polls", n)
	}
}

func TestARefusedTokenIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	repo := e.NewRepo(t, "shop.git")
	commit := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	f, r := newFetcher(t, upstream.Options{}), e.remote("/shop.git")
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	e.set(func() { clear(e.tokens) }) // revoked
	if _, err := f.List(t.Context(), r, gitwire.Names{}); err != nil {
		t.Errorf("after the token was revoked: %v", err)
	}
	e.set(func() { clear(e.tokens) })
	if _, err := f.Fetch(t.Context(), r, l, []git.Hash{commit}, newMirror(t)); err != nil {
		t.Errorf("a fetch after the token was revoked: %v", err)
	}
	if n := e.tokensAsked(); n != 3 {
		t.Errorf("%d tokens", n)
	}
	// A host that takes no token at all is not asked for ever.
	e.set(func() { e.unknown = true })
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "401 from", `GitHub App in secret "app" is installed`)
	if n := e.tokensAsked(); n != 4 {
		t.Errorf("%d tokens", n)
	}
}

func TestGitHubAPITroubleIsSaidInWords(t *testing.T) {
	t.Parallel()
	for words, tt := range map[string]struct {
		fault gittest.Fault
		kind  upstream.Kind
	}{
		"401 from 127.0.0.1":             {gittest.Status(401), upstream.KindCredentials},
		"no such installation":           {gittest.Status(404), upstream.KindCredentials},
		"not suspended":                  {gittest.Status(403), upstream.KindCredentials},
		"may read contents":              {gittest.Status(422), upstream.KindCredentials},
		"500 from 127.0.0.1":             {gittest.Status(500), upstream.KindServer},
		"429 from 127.0.0.1":             {gittest.Status(429, "Retry-After", "60"), upstream.KindThrottled},
		"403 from 127.0.0.1":             {gittest.Status(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Minute).Unix())), upstream.KindThrottled},
		"redirects":                      {gittest.Redirect("https://169.254.169.254"), upstream.KindRefused},
		"as GitHub's API does. Check":    {gittest.Status(201), upstream.KindNotGit},
		"does not answer as GitHub's AP": {endless, upstream.KindNotGit},
	} {
		e := newEnterprise(t)
		e.set(func() { e.fault = tt.fault })
		r := e.remote("/shop.git")
		_, err := newFetcher(t, upstream.Options{}).List(t.Context(), r, gitwire.Names{})
		t.Log(err)
		wantError(t, err, tt.kind, words)
		e.mu.Lock()
		if e.proof != "" && strings.Contains(err.Error(), e.proof) {
			t.Errorf("%q gives the proof away", err)
		}
		e.mu.Unlock()
	}
}

// endless is an answer of the API that never ends.
func endless(w http.ResponseWriter, r *http.Request) bool {
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"token":"`))
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
			return true
		}
	}
	return true
}

func TestWhoGivesUpOnATokenLeavesTheOthersInPeace(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	e.NewRepo(t, "shop.git")
	arrived, resume := make(chan struct{}), make(chan struct{})
	e.set(func() {
		e.fault = func(http.ResponseWriter, *http.Request) bool {
			close(arrived)
			<-resume
			e.fault = nil
			return false
		}
	})
	f := newFetcher(t, upstream.Options{})
	impatient, giveUp := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := f.List(impatient, e.remote("/shop.git"), gitwire.Names{}); first <- err }()
	<-arrived
	go func() { _, err := f.List(t.Context(), e.remote("/shop.git"), gitwire.Names{}); second <- err }()
	giveUp()
	if err := <-first; err != context.Canceled { //nolint:errorlint // exactly the context's
		t.Errorf("who gave up got %v", err)
	}
	close(resume)
	if err := <-second; err != nil {
		t.Errorf("the other got %v", err)
	}
}

func TestTheAppsTokenStaysWithItsHost(t *testing.T) {
	t.Parallel()
	e := newEnterprise(t)
	e.NewRepo(t, "shop.git")
	f, r := newFetcher(t, upstream.Options{RootCAs: roots(t, e.Server)}), e.remote("/shop.git")
	if _, err := f.List(t.Context(), r, gitwire.Names{}); err != nil {
		t.Fatal(err)
	}
	// The same App, named by a source of another host: neither the token nor the key goes there.
	other := gittest.NewTLSServer(t)
	var mu sync.Mutex
	var leaked []string
	other.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		h := req.Header.Get("Authorization")
		if _, pass, _ := req.BasicAuth(); pass != "" || strings.Contains(h, "ghs_") || strings.Contains(h, "PRIVATE") {
			leaked = append(leaked, h)
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	r.URL = remote(t, other.URL+"/shop.git").URL
	_, err := f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "no such installation")
	mu.Lock()
	defer mu.Unlock()
	if len(leaked) > 0 {
		t.Errorf("the other host got %q", leaked)
	}
}
