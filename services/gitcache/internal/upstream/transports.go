package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// maxTransports that are kept: one for each authority and proxy that sources name. Most sources share one; past the
	// bound, the transport that was used least recently gives way.
	maxTransports = 32
	// idleConns per host are as many as one host is asked at once: polls in a row do no handshakes.
	idleConns = hostLists
	// allIdleConns of a transport bound its descriptors.
	allIdleConns = 256
	// idleTime is longer than the usual interval, so that even a single repository's connection is there for
	// the next poll if the host keeps it.
	idleTime = 150 * time.Second
	// A connection over which nothing came for pingAfter is asked whether it is alive (HTTP/2), so that one
	// that was cut in silence does not fail polls until the kernel notices.
	pingAfter = 30 * time.Second
	// maxHeaderBytes of an answer.
	maxHeaderBytes = 256 << 10
)

// transports are the connections to Git hosts and proxies.
type transports struct {
	roots     *x509.CertPool
	addresses *Policy

	mu    sync.Mutex // guards what follows
	byWay map[way]*transport
	uses  int64
}

type transport struct {
	*http.Transport
	used int64
}

// way is what a connection depends on besides the host.
type way struct {
	plain bool // http: this machine only
	// insecure lets http go to other machines, and unverified takes any certificate: the source says so.
	insecure, unverified bool
	ca                   string // PEM
	elsewhere            bool   // not at the source's own place: ca is besides our own authorities
	proxy                string // URL with credentials; empty: none
	// operators tells that the proxy is of the gitcache's environment: the operator's to choose, so no policy
	// is asked.
	operators bool
}

func newTransports(roots *x509.CertPool, addresses *Policy) *transports {
	return &transports{roots: roots, addresses: addresses, byWay: map[way]*transport{}}
}

// transportFor gives what carries a request of a source.
func (t *transports) transportFor(r Remote, req *http.Request) (*http.Transport, error) {
	w, err := t.wayOf(r, req)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uses++
	if known, ok := t.byWay[w]; ok {
		known.used = t.uses
		return known.Transport, nil
	}
	made, err := t.makeTransport(w)
	if errors.Is(err, errNoCertificate) {
		return nil, r.MisfitError("its ca.crt holds no certificate. Put the authority's certificate there, in PEM")
	}
	if err != nil {
		return nil, err
	}
	t.evictOldest()
	t.byWay[w] = &transport{made, t.uses}
	return made, nil
}

func (t *transports) wayOf(r Remote, req *http.Request) (way, error) {
	if req.URL.Scheme != "https" {
		return way{plain: true, insecure: r.Registry.Insecure || r.Bucket.Insecure}, nil
	}
	// Token services and redirects lead to other places, which the source's trust is not for.
	isOwn := SameOrigin(req.URL, r.URL)
	w, proxy := way{ca: r.Credentials.CA, unverified: (r.Registry.Unverified || r.Bucket.Unverified) &&
		isOwn, elsewhere: r.Credentials.CA != "" && (!isOwn || r.Registry.IsMirror)}, r.Proxy
	if proxy == nil {
		var err error
		if proxy, err = http.ProxyFromEnvironment(req); err != nil {
			// The error quotes the URL.
			return w, Refusal("the proxy in the gitcache's environment can't be used. Correct its HTTPS_PROXY")
		}
		w.operators = proxy != nil
	} else if name := r.Credentials.ProxyUsername; name != "" {
		with := *proxy
		with.User = url.UserPassword(name, r.Credentials.ProxyPassword)
		proxy = &with
	}
	if proxy == nil {
		return w, nil
	}
	w.proxy = proxy.String()
	// The proxy resolves names, and may reach more than we do.
	return w, t.addresses.checkHost(req.URL.Hostname())
}

func (t *transports) makeTransport(w way) (*http.Transport, error) {
	made := &http.Transport{
		DialContext: t.addresses.Dial, TLSHandshakeTimeout: dialTime,
		MaxIdleConns: allIdleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	switch {
	case w.plain && w.insecure:
		return made, nil
	case w.plain:
		made.DialContext = t.addresses.dialLocal
		return made, nil
	}
	made.ForceAttemptHTTP2, made.HTTP2 = true, &http.HTTP2Config{SendPingTimeout: pingAfter}
	made.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: t.roots, ClientSessionCache: tls.NewLRUClientSessionCache(0),
		InsecureSkipVerify: w.unverified, //nolint:gosec // the source says so
	}
	if w.ca != "" {
		made.TLSClientConfig.RootCAs = t.basePool(w)
		if !made.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(w.ca)) {
			return nil, errNoCertificate
		}
	}
	if w.proxy == "" {
		return made, nil
	}
	proxy, err := url.Parse(w.proxy)
	if err != nil {
		return nil, Refusal("the proxy's url can't be parsed")
	}
	hint := "Check the proxy in the source"
	if w.operators {
		made.DialContext, hint = dialAny, "Check HTTPS_PROXY in the gitcache's environment"
	}
	made.Proxy = http.ProxyURL(proxy)
	made.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, to *http.Request, resp *http.Response) error {
		return proxyStatus(proxy.Host, to.Host, hint, resp.StatusCode)
	}
	return made, nil
}

// basePool is the authorities that a source's own is added to: at the source's own place none.
func (t *transports) basePool(w way) *x509.CertPool {
	if !w.elsewhere {
		return x509.NewCertPool()
	}
	if t.roots != nil {
		return t.roots.Clone()
	}
	if system, err := x509.SystemCertPool(); err == nil {
		return system
	}
	return x509.NewCertPool()
}

// evictOldest makes room. Exchanges that are under way go on; their connections are closed when they end.
func (t *transports) evictOldest() {
	if len(t.byWay) < maxTransports {
		return
	}
	var least way
	used := t.uses + 1
	for w, known := range t.byWay {
		if known.used < used {
			least, used = w, known.used
		}
	}
	t.byWay[least].CloseIdleConnections()
	delete(t.byWay, least)
}

var errNoCertificate = errors.New("no certificate")

// proxyStatus says what a proxy's answer to CONNECT means.
func proxyStatus(proxy, host, hint string, code int) error {
	switch code {
	case http.StatusOK:
		return nil
	case http.StatusProxyAuthRequired:
		return &Error{Kind: KindCredentials, Message: fmt.Sprintf(
			"407 from the proxy %s: it wants other credentials. %s, and proxyUsername and proxyPassword in its secret", proxy, hint)}
	case http.StatusForbidden:
		return Refusal("403 from the proxy %s: it does not let the gitcache reach %s. %s", proxy, host, hint)
	}
	return &Error{Kind: KindUnreachable, Message: fmt.Sprintf("%d from the proxy %s, asked for %s. %s, and that the host is up", code, proxy, host, hint)}
}

// closeIdle releases idle connections.
func (t *transports) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byWay {
		known.CloseIdleConnections()
	}
}
