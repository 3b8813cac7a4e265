// Package githost is a Git host that says what the attacks have it say.
package githost

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Host answers the requests to each repository as it was told to, and notes them.
type Host struct {
	*httptest.Server
	mu      sync.Mutex // guards what follows
	answers map[string]http.HandlerFunc
	seen    map[string][]string // Authorization of the requests to a repository, "" for none
}

// New starts a host.
func New() *Host {
	h := newHost()
	h.Server = httptest.NewServer(h)
	return h
}

// NewTLS starts a host that is asked by https, with a certificate that nobody trusts.
func NewTLS() *Host {
	h := newHost()
	h.Server = httptest.NewTLSServer(h)
	return h
}

func newHost() *Host {
	return &Host{answers: map[string]http.HandlerFunc{}, seen: map[string][]string{}}
}

// ServeHTTP implements http.Handler: the first word of the path is the repository.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	h.mu.Lock()
	answer := h.answers[name]
	h.seen[name] = append(h.seen[name], r.Header.Get("Authorization"))
	h.mu.Unlock()
	if answer == nil {
		http.NotFound(w, r)
		return
	}
	answer(w, r)
}

// At has the host answer the requests to a repository.
func (h *Host) At(name string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[name] = answer
}

// Asked are the credentials that came with the requests to a repository, "" for none.
func (h *Host) Asked(name string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[name]
}

// Seen are the credentials that came with all requests, by repository.
func (h *Host) Seen() map[string][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.seen)
}
