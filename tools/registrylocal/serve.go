package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"

	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

const (
	username, password = "deployer", "hush-hush"
	issuer, service    = "registrylocal", "registry.test"
	// certLife of the certificate that each start makes.
	certLife = 24 * time.Hour
	// tokenLife of the tokens that the token service gives.
	tokenLife = 5 * time.Minute
)

// ready is the line on stdout once it serves, and FOLDER/ready.json for the clients.
type ready struct {
	Host     string `json:"host"` // host:port
	Plain    bool   `json:"plain"`
	CA       string `json:"ca"`
	Username string `json:"username"`
	Password string `json:"password"`
	Tokens   string `json:"tokens"` // host:port of the token service
	Control  string `json:"control"`
}

// journal is what was asked, one request a line.
type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// wrap notes each request: method, path with query, status, and how it was authorized.
func (j *journal) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(s, r)
		how, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		j.add(strings.TrimSpace(fmt.Sprintf("%s %s %d %s", r.Method, r.URL.RequestURI(), s.code, how)))
	})
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func serve(ctx context.Context, folder string, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	auth := flags.String("auth", "none", "none, basic or token")
	plain := flags.Bool("plain", false, "HTTP without TLS")
	notify := flags.String("notify", "", "URL that is told of pushes")
	host := flags.String("listen", "127.0.0.1", "address of the registry and of its token service")
	token := flags.String("token", "", "what notifications bring in their Authorization header")
	if err := flags.Parse(args); err != nil {
		return err
	}
	address, err := netip.ParseAddr(*host)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	authority, err := newAuthority(folder, address)
	if err != nil {
		return err
	}
	// The registry's own listener comes first: its address is part of what is configured.
	registry, err := net.Listen("tcp", net.JoinHostPort(*host, "0"))
	if err != nil {
		return err
	}
	tokens, err := net.Listen("tcp", net.JoinHostPort(*host, "0"))
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config, err := configure(folder, *auth, "https://"+tokens.Addr().String()+"/token", *notify, *token)
	if err != nil {
		return err
	}
	log := &journal{}
	logrus.SetOutput(io.Discard)
	app := log.wrap(handlers.NewApp(ctx, config))
	if !*plain {
		registry = tls.NewListener(registry, authority.config)
	}
	failed := make(chan error, 3)
	start := func(l net.Listener, h http.Handler) {
		s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { failed <- s.Serve(l) }()
	}
	start(registry, app)
	start(tls.NewListener(tokens, authority.config), log.wrap(http.HandlerFunc(authority.giveToken)))
	start(control, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		log.mu.Lock()
		defer log.mu.Unlock()
		_, _ = io.WriteString(w, strings.Join(log.lines, "\n"))
	}))
	is, err := json.Marshal(ready{
		Host: registry.Addr().String(), Plain: *plain, CA: authority.pem, Username: username, Password: password,
		Tokens: tokens.Addr().String(), Control: "http://" + control.Addr().String(),
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "ready.json"), is, 0o600); err != nil {
		return err
	}
	fmt.Println(string(is))
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func configure(folder, auth, realm, notify, token string) (*configuration.Configuration, error) {
	secret := rand.Text()
	var b strings.Builder
	fmt.Fprintf(&b, "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {inmemory: {}, delete: {enabled: true}}\nhttp: {secret: %s}\n", secret)
	switch auth {
	case "none":
	case "basic":
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(folder, "htpasswd")
		if err := os.WriteFile(file, []byte(username+":"+string(hash)+"\n"), 0o600); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "auth: {htpasswd: {realm: registrylocal, path: %q}}\n", file)
	case "token":
		fmt.Fprintf(&b, "auth: {token: {realm: %q, service: %q, issuer: %q, rootcertbundle: %q}}\n", realm, service, issuer, filepath.Join(folder, "cert.pem"))
	default:
		return nil, fmt.Errorf("-auth %q is none of none, basic and token", auth)
	}
	if notify != "" {
		fmt.Fprintf(&b, "notifications: {endpoints: [{name: fairlead, url: %q, headers: {Authorization: [%q]}, timeout: 5s, threshold: 3, backoff: 1s}]}\n", notify, "Bearer "+token)
	}
	return configuration.Parse(strings.NewReader(b.String()))
}

// authority is the certificate of this run, which signs tokens, too.
type authority struct {
	pem    string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	config *tls.Config
}

func newAuthority(folder string, address netip.Addr) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: issuer}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{address.AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err := os.WriteFile(filepath.Join(folder, "cert.pem"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return &authority{text, key, cert, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}}, nil
}

// giveToken is the token service of the distribution specification: GET /token?service=&scope=.
func (a *authority) giveToken(w http.ResponseWriter, r *http.Request) {
	if user, pass, _ := r.BasicAuth(); user != username || pass != password {
		http.Error(w, "wrong username or password", http.StatusUnauthorized)
		return
	}
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	rights := []access{}
	for _, scope := range r.URL.Query()["scope"] {
		for one := range strings.FieldsSeq(scope) {
			kind, rest, _ := strings.Cut(one, ":")
			if at := strings.LastIndex(rest, ":"); at > 0 {
				rights = append(rights, access{kind, rest[:at], strings.Split(rest[at+1:], ",")})
			}
		}
	}
	text, err := a.sign(map[string]any{
		"iss": issuer, "aud": r.URL.Query().Get("service"), "sub": username, "access": rights,
		"nbf": time.Now().Add(-time.Minute).Unix(), "iat": time.Now().Unix(), "exp": time.Now().Add(tokenLife).Unix(),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": text, "expires_in": int(tokenLife.Seconds())})
}

func (a *authority) sign(claims map[string]any) (string, error) {
	key := jose.JSONWebKey{Key: a.key, Certificates: []*x509.Certificate{a.cert}}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("x5c", []string{encode(a.cert.Raw)})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key.Key}, options)
	if err != nil {
		return "", errors.Join(errors.New("make a signer"), err)
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}
