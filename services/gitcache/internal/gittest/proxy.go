package gittest

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Proxy is an HTTP proxy that understands CONNECT and leads everybody to one address, whatever host they name.
type Proxy struct {
	*httptest.Server
	to   string
	life context.Context // of tunnels

	mu      sync.Mutex // guards what follows
	asked   []*http.Request
	want    string // header
	answers int
	tunnels sync.WaitGroup
}

// NewProxy starts a proxy to an address; it ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	life, end := context.WithCancel(context.Background()) // t.Context ends before other cleanups, whose clients may use a tunnel
	p := &Proxy{to: to, life: life, answers: http.StatusOK}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		end() // an idle client would keep its tunnel open for minutes
		p.Close()
		p.mu.Lock() // Close does not wait for tunnels, but all have begun
		defer p.mu.Unlock()
		p.tunnels.Wait()
	})
	return p
}

// RequireLogin makes the proxy want this user.
func (p *Proxy) RequireLogin(user, pass string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+pass))
}

// Answer makes the proxy answer everybody with a status.
func (p *Proxy) Answer(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = code
}

// Asked are the requests so far.
func (p *Proxy) Asked() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.asked...)
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r)
	want, code := p.want, p.answers
	p.tunnels.Add(1)
	defer p.tunnels.Done()
	p.mu.Unlock()
	switch {
	case r.Method != http.MethodConnect:
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
	case want != "" && r.Header.Get("Proxy-Authorization") != want:
		http.Error(w, "who are you", http.StatusProxyAuthRequired)
	case code != http.StatusOK:
		http.Error(w, "no", code)
	default:
		p.tunnel(w, r)
	}
}

func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", p.to)
	if err != nil {
		http.Error(w, "not there", http.StatusBadGateway)
		return
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	stop := context.AfterFunc(p.life, func() { //nolint:contextcheck // a tunnel outlives its request
		_ = here.Close()
		_ = there.Close()
	})
	defer stop()
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{here, there}, {there, here}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		})
	}
	both.Wait()
}
