package gitcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/gitserver"
)

// Request is a line of a Git host's log.
type Request struct {
	Time time.Time
	Repo string
	Pack bool   // a pack was asked for, else the list of refs
	Look bool   // the host's capabilities were asked for, and the list of refs comes with the next request
	By   string // the program at the other end of the connection; empty: it is gone
	// Bytes of the answer, without its header.
	Bytes int64
}

// Host is a Git host: `git http-backend` behind a log that says who asked for what.
type Host struct {
	dir  string
	addr string
	git  *gitserver.Server
	// The function who names the program that has the other end of a connection.
	who func(local, remote net.Addr) string

	mu     sync.Mutex // guards what follows
	log    []Request
	server *http.Server  // nil: stopped
	ended  chan struct{} // when server has
}

func newHost(dir, addr string, who func(local, remote net.Addr) string) (*Host, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	git, err := gitserver.New(gitserver.Config{Dir: dir, Listen: addr, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &Host{dir: dir, addr: addr, git: git, who: who}, nil
}

// Start listens, under the same address each time.
func (h *Host) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.addr)
	if err != nil {
		return fmt.Errorf("start the Git host: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ConnContext: h.remember}
	h.server, h.ended = server, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = server.Serve(l) // Stop ends it
	}(h.ended)
	return nil
}

// Stop cuts all connections off.
func (h *Host) Stop() {
	h.mu.Lock()
	server, ended := h.server, h.ended
	h.server = nil
	h.mu.Unlock()
	if server != nil {
		_ = server.Close()
		<-ended
	}
}

// callerKey is where a connection keeps who is at its other end.
type callerKey struct{}

// remember looks the caller up while it certainly has the connection.
func (h *Host) remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, h.who(c.LocalAddr(), c.RemoteAddr()))
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	by, _ := r.Context().Value(callerKey{}).(string)
	name, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	line := Request{Time: time.Now(), Repo: name, Pack: what == "git-upload-pack" && !listsRefs(r), By: by}
	if strings.HasPrefix(name, OldPrefix) {
		r.Header.Set("Git-Protocol", "version=1")
	}
	counted := &counting{ResponseWriter: w}
	h.git.ServeHTTP(counted, r)
	line.Bytes, line.Look = counted.n.Load(), counted.look
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, line)
}

// OldPrefix begins the names of repositories that are served as by a host that knows no later version of Git's
// protocol than 1.
const OldPrefix = "old-"

// listsRefs tells whether a request asks for refs in version 2, where it goes where fetches go.
func listsRefs(r *http.Request) bool {
	begin := make([]byte, len("0014command=ls-refs\n"))
	n, _ := io.ReadFull(r.Body, begin)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin[:n]), r.Body), r.Body}
	return string(begin[:n]) == "0014command=ls-refs\n"
}

type counting struct {
	http.ResponseWriter
	n    atomic.Int64
	look bool // the answer says what the host can do in version 2
}

func (c *counting) Write(p []byte) (int, error) {
	if c.n.Load() == 0 {
		c.look = bytes.HasPrefix(p, []byte("000eversion 2\n"))
	}
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// Unwrap lets the handler flush.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Log returns the requests since a time, in the order in which they were answered.
func (h *Host) Log(since time.Time) []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []Request
	for _, l := range h.log {
		if !l.Time.Before(since) {
			lines = append(lines, l)
		}
	}
	return lines
}

// URL of a repository.
func (h *Host) URL(name string) string { return "http://" + h.addr + "/" + name + ".git" }

// Alias serves a repository under one more name.
func (h *Host) Alias(name string, r *Repo) error {
	err := os.Symlink(r.dir, filepath.Join(h.dir, name+".git"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
