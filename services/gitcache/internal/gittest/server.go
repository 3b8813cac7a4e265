// Package gittest is a real Git server for tests: git http-backend behind a handler that keeps a log of
// requests and can be told to misbehave.
package gittest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cgi" //nolint:gosec // what it warns of was mended in Go 1.6.3
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Request is a line of the server's log.
type Request struct {
	Method string
	Path   string
	// Service is "list" for a list of refs, "look" for what the server can do, and "fetch" for the transfer of a pack.
	Service string
	// Bytes of the answer's body.
	Bytes int64
	// Authorized tells whether the request carried any credentials.
	Authorized bool
}

// Fault answers a request instead of Git, or declines.
type Fault func(w http.ResponseWriter, r *http.Request) (handled bool)

// Server serves the repositories below one folder.
type Server struct {
	*httptest.Server
	dir string

	mu    sync.Mutex // guards what follows
	log   []Request
	fault Fault
	user  string
	pass  string
}

// NewServer starts a server that ends with the test.
func NewServer(t testing.TB) *Server { return start(t, (*httptest.Server).Start) }

// NewTLSServer is NewServer with https; its certificate is trusted by s.Client() only.
func NewTLSServer(t testing.TB) *Server { return start(t, (*httptest.Server).StartTLS) }

func start(t testing.TB, listen func(*httptest.Server)) *Server {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("find git: %v", err)
	}
	s := &Server{dir: t.TempDir()}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: append(environment(),
			"GIT_PROJECT_ROOT="+s.dir, "GIT_HTTP_EXPORT_ALL=1"),
		InheritEnv: []string{"PATH"},
		Stderr:     os.Stderr,
	}
	s.Server = httptest.NewUnstartedServer(s.handler(backend))
	listen(s.Server)
	t.Cleanup(s.Close)
	return s
}

func (s *Server) handler(backend http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, authorized := r.BasicAuth()
		line := Request{r.Method, r.URL.Path, Service(r), 0, authorized}
		s.mu.Lock()
		s.log = append(s.log, line)
		at := len(s.log) - 1
		counted := &counting{ResponseWriter: w, count: func(p []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.log[at].Bytes == 0 && bytes.HasPrefix(p, []byte("000eversion 2\n")) {
				s.log[at].Service = "look" // the list comes with the next request
			}
			s.log[at].Bytes += int64(len(p))
		}}
		w = counted
		fault, ok := s.fault, s.user == "" || (user == s.user && pass == s.pass)
		s.mu.Unlock()
		if fault != nil && fault(w, r) {
			return
		}
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
}

// counting shows each part of an answer's body that was sent.
type counting struct {
	http.ResponseWriter
	count func([]byte)
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.count(p[:n])
	return n, err
}

// Flush implements http.Flusher.
func (c *counting) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

// Unwrap gives http.ResponseController what it needs.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// listCommand is how a request for refs begins in version 2 of the protocol, where it goes where fetches go.
const listCommand = "0014command=ls-refs\n"

// Service is what a request is for: "list" or "fetch". The kind of answer to a "list" shows only in the log.
func Service(r *http.Request) string {
	switch {
	case strings.HasSuffix(r.URL.Path, "/info/refs"):
		return "list"
	case !strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		return "other"
	}
	begin := make([]byte, len(listCommand))
	n, _ := io.ReadFull(r.Body, begin)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin[:n]), r.Body), r.Body}
	if string(begin[:n]) == listCommand {
		return "list"
	}
	return "fetch"
}

// RequireLogin makes every request need this user.
func (s *Server) RequireLogin(user, pass string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.pass = user, pass
}

// SetFault makes the server misbehave; nil heals it.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Log returns the requests so far.
func (s *Server) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// Count returns how many requests of a service ("list", "fetch") there were.
func (s *Server) Count(service string) int {
	n := 0
	for _, r := range s.Log() {
		if r.Service == service {
			n++
		}
	}
	return n
}

// Status is a fault that answers everything with a status and headers.
func Status(code int, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		http.Error(w, http.StatusText(code), code)
		return true
	}
}

// Redirect is a fault that sends every list elsewhere.
func Redirect(base string) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, base+r.URL.RequestURI(), http.StatusFound) //nolint:gosec // the very fault that a test asks for
		return true
	}
}

// HangOnFetch is a fault that answers lists and then leaves fetches without an answer.
func HangOnFetch() Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if Service(r) != "fetch" {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices when the client goes
		<-r.Context().Done()
		return true
	}
}

// StallFetch is a fault that sends the beginning of a pack and then nothing, until resume closes.
// started gets a value when a fetch has begun to stall.
func StallFetch(started chan<- struct{}, resume <-chan struct{}) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if Service(r) != "fetch" {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = w.Write([]byte(PackBegins(r) + "0011\x01PACK\x00\x00\x00\x02\x00\x00\x00\x05"))
		w.(http.Flusher).Flush()
		select {
		case started <- struct{}{}:
		default:
		}
		select {
		case <-r.Context().Done():
		case <-resume:
		}
		return true
	}
}

// PackBegins is what comes before the pack in the answer to a request.
func PackBegins(r *http.Request) string {
	if r.Header.Get("Git-Protocol") == "version=2" {
		return "000dpackfile\n"
	}
	return "0008NAK\n"
}

// TruncateFetch is a fault that cuts every pack after n bytes of the answer.
func (s *Server) TruncateFetch(n int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if Service(r) != "fetch" {
			return false
		}
		rec := httptest.NewRecorder()
		s.mu.Lock()
		fault := s.fault
		s.fault = nil
		s.mu.Unlock()
		s.Config.Handler.ServeHTTP(rec, r)
		s.SetFault(fault)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		body := rec.Body.Bytes()
		_, _ = w.Write(body[:min(n, len(body))])
		return true
	}
}
