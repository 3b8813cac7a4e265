// Package gitserver is a small Git host for one machine: bare repositories over smart HTTP through
// `git http-backend`, for `fairlead up` and tests.
//
// With CreateOnPush the first push to a name makes its repository, and the branch of that push is the default one.
//
// Without an Account it listens on loopback only, and everybody on this machine may read and push; with one it listens
// anywhere, over TLS, and wants that account's name and password. Web pages can't read or push: a request with an
// Origin, or for a host that is not loopback (a rebound DNS name), is refused, and so is every path but the four of the
// smart protocol.
package gitserver

import (
	"compress/gzip"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // what it warns of was mended in Go 1.6.3
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/loopback"
)

const (
	readHeaderTimeout = 10 * time.Second
	// drainLimit lets a clone or push finish when the server ends.
	drainLimit = 5 * time.Second
	// maxPushBytes bounds one push (of compressed objects), and the temporary file it may need.
	maxPushBytes = 512 << 20
	// maxProcesses bounds how many git processes run at once; more requests wait.
	maxProcesses = 8
)

// Config says what is served where.
type Config struct {
	Dir    string // Holds the repositories, as NAME.git.
	Listen string // Loopback host:port; port 0 takes a free one. With an Account: any host.
	Log    *slog.Logger
	// Account lets other machines in; nil: nobody but this one.
	Account *Account
	// CreateOnPush makes a repository by the first push to its name; only without an Account.
	CreateOnPush bool
	// AfterPush is told the name of a repository that was pushed to; it must not block.
	AfterPush func(name string)
}

// Account is the only one of a server, which has a certificate then.
type Account struct{ User, Password, CertFile, KeyFile string }

// admits says whether a request has the account's name and password.
func (a *Account) admits(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && subtle.ConstantTimeCompare([]byte(user+":"+password), []byte(a.User+":"+a.Password)) == 1
}

// Server is the host. New, Create as needed, Listen, Run.
type Server struct {
	cfg       Config
	git       string
	http      *http.Server
	listener  net.Listener
	processes chan struct{} // As many tokens as processes run.

	creating sync.Mutex // one repository is made at a time
}

// validName is what a repository may be called: nothing that a path or an option could be made of.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// New looks for git and puts the server together.
func New(cfg Config) (*Server, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if ip := net.ParseIP(host); err != nil || cfg.Account == nil && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("git server: listen address %q: must be 127.0.0.1:PORT, because it has no accounts", cfg.Listen)
	}
	if a := cfg.Account; a != nil && (a.User == "" || a.Password == "" || a.CertFile == "" || a.KeyFile == "") {
		return nil, errors.New("git server: an account needs a name, a password and a TLS certificate")
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("git server: no git in PATH: install git")
	}
	if git, err = filepath.Abs(git); err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	// git runs in the folder, and would look for a relative one below it.
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	s := &Server{cfg: cfg, git: git, processes: make(chan struct{}, maxProcesses)}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Listen binds the address. After it URL answers.
func (s *Server) Listen() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("git server: %w", err)
	}
	s.listener = listener
	return nil
}

// Close gives the address back if Run is not to be called after Listen.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	return s.listener.Close()
}

// URL of a repository.
func (s *Server) URL(name string) string {
	scheme := "http://"
	if s.cfg.Account != nil {
		scheme = "https://"
	}
	return scheme + s.listener.Addr().String() + "/" + name + ".git"
}

// Run serves until ctx ends, then lets requests finish for a moment.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() {
		if a := s.cfg.Account; a != nil {
			served <- s.http.ServeTLS(s.listener, a.CertFile, a.KeyFile)
			return
		}
		served <- s.http.Serve(s.listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("git server: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	if s.http.Shutdown(drain) != nil {
		_ = s.http.Close() // Cuts off what did not finish.
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
		_, _ = io.WriteString(w, "ok\n") // fails if the caller is gone
		return
	}
	if a := s.cfg.Account; a != nil {
		if !a.admits(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "this Git server wants its account's name and password", http.StatusUnauthorized)
			return
		}
	} else if !fromThisMachine(r) {
		http.Error(w, "this Git server is for git on this machine only", http.StatusForbidden)
		return
	}
	name, service, ok := route(r)
	if !ok {
		http.Error(w, notRouted(r), http.StatusNotFound)
		return
	}
	if err := s.ensure(r.Context(), name, service); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	select {
	case s.processes <- struct{}{}:
		defer func() { <-s.processes }()
	case <-r.Context().Done():
		return
	}
	s.serve(w, r, name, service)
}

// fromThisMachine keeps out web pages, which may send requests to loopback as well: an image of a page has no Origin,
// but a browser tells where any request comes from.
func fromThisMachine(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return loopback.Host(strings.Trim(host, "[]")) && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}

// notRouted is why a request is not of a repository.
func notRouted(r *http.Request) string {
	if path, ok := strings.CutSuffix(r.URL.Path, "/info/refs"); ok && r.URL.Query().Has("service") { // git's first request
		name := strings.TrimSuffix(strings.TrimPrefix(path, "/"), ".git")
		switch {
		case !validName.MatchString(name):
			return fmt.Sprintf("repositories here are called NAME.git, without folders: NAME has lower-case letters, digits and '-', and %q has others", name)
		case !strings.HasSuffix(path, ".git"):
			return fmt.Sprintf("repositories here are called NAME.git: write %s.git", name)
		}
	}
	return "no such repository, or not a request of git's smart protocol"
}

// route takes a request of the smart protocol apart.
func route(r *http.Request) (name, service string, ok bool) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	if !ok || !validName.MatchString(name) {
		return "", "", false
	}
	switch {
	case r.Method == http.MethodGet && rest == "info/refs":
		service = r.URL.Query().Get("service")
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/x-"+rest+"-request":
		service = rest
	}
	return name, service, service == "git-upload-pack" || service == "git-receive-pack"
}

func (s *Server) path(name string) string { return filepath.Join(s.cfg.Dir, name+".git") }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, name, service string) {
	r.Body = http.MaxBytesReader(w, r.Body, maxPushBytes)
	spooled, err := s.spool(r)
	if err != nil {
		http.Error(w, "the push can't be taken in: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	defer spooled()
	backend := cgi.Handler{
		Path: s.git,
		Args: []string{"http-backend"},
		Dir:  s.cfg.Dir,
		Env: append(s.environment(),
			"GIT_PROJECT_ROOT="+s.cfg.Dir,
			"GIT_HTTP_EXPORT_ALL=1",
			"GIT_PROTOCOL="+protocol(r.Header.Get("Git-Protocol")),
		),
		Logger: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
		Stderr: io.Discard, // Git's words to its client are in the answer.
	}
	backend.ServeHTTP(w, r)
	if service == "git-receive-pack" && r.Method == http.MethodPost {
		s.pushed(r.Context(), name)
	}
}

// pushed is what follows a push.
func (s *Server) pushed(ctx context.Context, name string) {
	if err := s.pointHead(ctx, name); err != nil {
		s.cfg.Log.Warn("the default branch stays", "repository", name, "err", err)
	}
	if s.cfg.AfterPush != nil {
		s.cfg.AfterPush(name)
	}
}

// protocol passes on what git knows: version=1 or version=2.
func protocol(header string) string {
	if header == "version=2" || header == "version=1" {
		return header
	}
	return ""
}

// spool gives a body of unknown length, which CGI can't take, a length through a file. Git sends such
// bodies for pushes above 1 MB.
func (s *Server) spool(r *http.Request) (cleanup func(), err error) {
	nothing := func() {}
	if r.ContentLength >= 0 {
		return nothing, nil
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(r.Body); err != nil {
			return nothing, err
		}
		r.Header.Del("Content-Encoding")
	}
	file, err := os.CreateTemp(s.cfg.Dir, ".push-*")
	if err != nil {
		return nothing, err
	}
	cleanup = func() { _, _ = file.Close(), os.Remove(file.Name()) }
	size, err := io.Copy(file, io.LimitReader(body, maxPushBytes))
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		cleanup()
		return nothing, err
	}
	r.Body, r.ContentLength, r.TransferEncoding = file, size, nil
	return cleanup, nil
}

// environment keeps the user's and the machine's git configuration out: what it says is not meant for a
// server.
func (s *Server) environment() []string {
	return []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "HOME=" + s.cfg.Dir, "LC_ALL=C"}
}
