package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/localca"
)

// Request is what came to a proxy.
type Request struct {
	// Verb is get, list, watch, create, update, patch, apply, dryrun, delete, or discover for what is about no object.
	Verb string
	// Resource is the plural, with the subresource if there is one; Group is where it is from.
	Group, Resource, Namespace, Name string
	// Status is the answer's; 0: there is none yet, or the API server was away.
	Status int
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s/%s/%s/%s: %d", r.Verb, r.Group, r.Resource, r.Namespace, r.Name, r.Status)
}

// writes tells whether it changes anything.
func (r Request) writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "apply", "delete":
		return true
	}
	return false
}

// In tells whether it is about a namespace or something in it.
func (r Request) In(namespace string) bool {
	return r.Namespace == namespace || r.Resource == "namespaces" && r.Name == namespace
}

// bookkeeping tells the agent's own objects from those of services.
func (r Request) bookkeeping() bool { return r.In("fairlead-system") }

// Answer is what a fault makes of a request; the zero value lets it through.
type Answer struct {
	Status     int
	RetryAfter int // seconds
}

// Fault looks at a request before the API server does.
type Fault func(r Request) Answer

// Proxy stands before an API server, which takes all that comes through it for the administrator's. The proxy counts,
// and does what a test says.
type Proxy struct {
	Kubeconfig string // through the proxy

	server *http.Server
	ended  chan struct{}

	mu      sync.Mutex // guards what follows
	seen    []*Request
	faults  map[int]Fault
	next    int
	watches map[*Request]context.CancelFunc
	expired int
	keeps   bool
	bodies  map[*Request][]byte
}

// StartProxy serves a proxy on loopback, with TLS and HTTP/2 as an API server does.
func StartProxy(ctx context.Context, dir string, kube *Kube) (*Proxy, error) {
	target, err := url.Parse(kube.url)
	if err != nil {
		return nil, err
	}
	files, err := localca.Ensure(filepath.Join(dir, "tls"), "127.0.0.1")
	if err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{ended: make(chan struct{}), faults: map[int]Fault{}, watches: map[*Request]context.CancelFunc{}, bodies: map[*Request][]byte{}}
	if p.Kubeconfig, err = writeKubeconfig(listener.Addr().String(), files.CAFile); err != nil {
		return nil, err
	}
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      kube.http.Transport,
		FlushInterval:  -1,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ModifyResponse: p.answered,
		// As when nobody listens at the API server's address.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{
		Handler:           p.count(reverse),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000}, // 300 kinds are 300 watches; the API server allows as many by more connections
	}
	go func() {
		defer close(p.ended)
		_ = p.server.ServeTLS(listener, "", "") // until Stop
	}()
	return p, nil
}

// writeKubeconfig writes a kubeconfig without a user beside the authority.
func writeKubeconfig(address, caFile string) (string, error) {
	file := filepath.Join(filepath.Dir(caFile), "kubeconfig-"+strings.ReplaceAll(address, ":", "-"))
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n",
		"https://"+address, caFile)
	return file, os.WriteFile(file, []byte(content), 0o600)
}

// Stop ends the proxy.
func (p *Proxy) Stop() {
	_ = p.server.Close()
	<-p.ended
}

type requestKey struct{}

func (p *Proxy) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := parse(r)
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), requestKey{}, &seen))
		defer cancel()
		p.mu.Lock()
		p.seen = append(p.seen, &seen)
		var answer Answer
		for _, fault := range p.faults {
			if answer.Status == 0 {
				answer = fault(seen)
			}
		}
		if seen.Verb == "watch" {
			p.watches[&seen] = cancel
		}
		keeps := p.keeps && seen.Verb == "apply"
		p.mu.Unlock()
		if keeps {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has gone
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			p.mu.Lock()
			p.bodies[&seen] = body
			p.mu.Unlock()
		}
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.watches, &seen)
		}()
		if answer.Status != 0 {
			p.refuse(w, &seen, answer)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuse answers as the API server does when it has too much to do.
func (p *Proxy) refuse(w http.ResponseWriter, seen *Request, answer Answer) {
	p.mu.Lock()
	seen.Status = answer.Status
	p.mu.Unlock()
	if answer.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(answer.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Status)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the test says no","code":%d}`, answer.Status)
}

func (p *Proxy) answered(resp *http.Response) error {
	seen := resp.Request.Context().Value(requestKey{}).(*Request)
	p.mu.Lock()
	defer p.mu.Unlock()
	seen.Status = resp.StatusCode
	if resp.StatusCode == http.StatusGone {
		p.expired++
	}
	if seen.Verb == "watch" {
		resp.Body = &watched{ReadCloser: resp.Body, proxy: p}
	}
	return nil
}

// watched looks for what the API server says, inside of a stream, to who comes back too late.
type watched struct {
	io.ReadCloser

	proxy *Proxy
}

func (b *watched) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if bytes.Contains(into[:n], []byte("too old resource version")) {
		b.proxy.mu.Lock()
		b.proxy.expired++
		b.proxy.mu.Unlock()
	}
	return n, err
}

// Expired counts the answers that a version is too old to go on from.
func (p *Proxy) Expired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expired
}

// Inject adds a fault, until it is healed.
func (p *Proxy) Inject(fault Fault) (heal func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next
	p.next++
	p.faults[id] = fault
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.faults, id)
	}
}

// CutWatches ends all open watches.
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.watches {
		cancel()
	}
}

// Mark is a point in the log of requests, for Since.
func (p *Proxy) Mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// Since lists the requests since a mark for which all conditions hold.
func (p *Proxy) Since(mark int, conditions ...func(Request) bool) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Request
	for _, one := range p.seen[mark:] {
		if !slices.ContainsFunc(conditions, func(holds func(Request) bool) bool { return !holds(*one) }) {
			found = append(found, *one)
		}
	}
	return found
}

// KeepBodies has the bodies of all applies kept from now on, for Applied.
func (p *Proxy) KeepBodies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = true
}

// Applied lists the bodies of the applies since a mark that went well and for which a condition holds.
func (p *Proxy) Applied(mark int, holds func(Request) bool) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found [][]byte
	for _, one := range p.seen[mark:] {
		if body, ok := p.bodies[one]; ok && one.Status < http.StatusMultipleChoices && holds(*one) {
			found = append(found, body)
		}
	}
	return found
}

// in is a condition for Since.
func in(namespace string) func(Request) bool {
	return func(r Request) bool { return r.In(namespace) }
}

// parse reads a request as the API server would.
func parse(r *http.Request) Request {
	query := r.URL.Query()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var seen Request
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		seen.Group, parts = parts[1], parts[3:]
	default:
		return Request{Verb: "discover", Name: r.URL.Path}
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		seen.Namespace, parts = parts[1], parts[2:]
	}
	seen.Resource = parts[0]
	if len(parts) > 1 {
		seen.Name = parts[1]
	}
	if len(parts) > 2 {
		seen.Resource += "/" + parts[2]
	}
	switch {
	case r.Method == http.MethodGet && query.Get("watch") != "" && query.Get("watch") != "false":
		seen.Verb = "watch"
	case r.Method == http.MethodGet && seen.Name == "":
		seen.Verb = "list"
	case r.Method != http.MethodGet && query.Has("dryRun"):
		seen.Verb = "dryrun"
	case r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply-patch"):
		seen.Verb = "apply"
	default:
		seen.Verb = map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[r.Method]
	}
	return seen
}

// tally sums requests up by verb, for people.
func tally(requests []Request) string {
	counts := map[string]int{}
	for _, r := range requests {
		counts[r.Verb]++
	}
	var parts []string
	for verb, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, verb))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
