// Package client makes the one HTTP client with which every part of Fairlead calls the others.
//
// The client speaks HTTP/2 (with TLS for https, in clear text for http URLs) and HTTP/1.1 where an https server offers
// nothing newer, or where a request asks for an upgrade. The client has no overall timeout, because streams live long:
// bound calls by their context. The client never follows a redirect, because a credential must not follow one.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/identity"
)

const (
	// A hub is near or it is down; a second address of the same name still gets its turn.
	dialTimeout         = 10 * time.Second
	tlsHandshakeTimeout = 30 * time.Second // as long as the hub lets it wait for its turn in a storm
	// A peer whose machine or network is gone is found by the kernel's probes.
	silentIdle, silentInterval, silentProbes = 15 * time.Second, 5 * time.Second, 3
	idleConnTimeout                          = 90 * time.Second
	// A connection is asked for a sign of life by HTTP/2 after this silence, and given up after that wait: that is for
	// processes that hang. Streams that have heartbeats have them more often: a ping would be one more thing to do.
	pingAfter = time.Minute
	pingWait  = 15 * time.Second
	// A peer that takes no byte at all for this long is gone.
	writeStall = 60 * time.Second
	// The window is what may be in flight unread. Per connection it is so many times a stream's that streams which
	// nobody reads never stop the others; the memory is bounded by the number of streams.
	connectionWindow = 1 << 30
	streamWindow     = 4 << 20
	// So much of what requests have in their fields a server remembers per connection, to not get it again: an agent's
	// token, its proof and what comes with them (1.2 KiB; with less room than that nothing of it would be found again).
	// The fields of 10,000 agents would else take 70 MiB of a hub.
	rememberedFields = 1536
	// Far above any other header we send or accept.
	maxResponseHeaderBytes = 64 << 10

	// ReadMaxBytes bounds one message of an answer: a page of a thousand resources with their
	// statuses is the largest there is.
	ReadMaxBytes = 64 << 20
)

// Config says whom to trust. The zero value trusts the system's authorities. Where authorities are given
// only they are trusted: part of the hub's addresses come from Redis, where a forger could name any host
// with a public certificate to get a token sent to it.
type Config struct {
	CAFile string // PEM file of the authorities to trust. Read once.
	CAPEM  []byte // The same as bytes.
}

// New returns a client for any number of servers. CloseIdleConnections ends its connections.
func New(cfg Config) (*http.Client, error) {
	roots, err := rootsOf(cfg)
	if err != nil {
		return nil, err
	}
	secure := newTransport(roots)
	secure.Protocols.SetHTTP1(true)
	secure.Protocols.SetHTTP2(true)
	rt := &byScheme{https: newDialOnce(secure), http: newTransport(roots), upgrade: newTransport(roots)}
	rt.http.Protocols.SetUnencryptedHTTP2(true)
	rt.upgrade.Protocols.SetHTTP1(true)
	return &http.Client{Transport: propagating{rt}}, nil
}

// Options returns what every Connect client is made with, besides WithToken: bounded answers, and
// no compression, which costs more than it saves between the parts of a hub and delays streams.
func Options() []connect.ClientOption {
	return []connect.ClientOption{
		connect.WithReadMaxBytes(ReadMaxBytes),
		connect.WithAcceptCompression("gzip", nil, nil),
	}
}

func rootsOf(cfg Config) (*x509.CertPool, error) {
	pem := cfg.CAPEM
	if cfg.CAFile != "" {
		fromFile, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA file: %w", err)
		}
		pem = append(append([]byte{}, pem...), fromFile...)
	}
	if len(pem) == 0 {
		return nil, nil // The system's.
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		if cfg.CAFile == "" {
			return nil, errors.New("CA certificates: no PEM certificate found")
		}
		return nil, fmt.Errorf("CA file %s: no PEM certificate found", cfg.CAFile)
	}
	return roots, nil
}

// rememberedSessions is of how many hosts the last TLS session is kept: those of the hub, and some.
const rememberedSessions = 16

func newTransport(roots *x509.CertPool) *http.Transport {
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silentIdle, Interval: silentInterval, Count: silentProbes},
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(rememberedSessions)},
		TLSHandshakeTimeout:    tlsHandshakeTimeout,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		DisableCompression:     true, // A caller that wants compressed bytes asks for them.
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingWait,
			WriteByteTimeout:              writeStall,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxEncoderHeaderTableSize:     rememberedFields,
		},
	}
}

// byScheme exists because a transport that may speak HTTP/1.1 never tries HTTP/2 in clear text, and because only
// HTTP/1.1 has connections that become something else.
type byScheme struct {
	https         *dialOnce
	http, upgrade *http.Transport
}

func (t *byScheme) RoundTrip(req *http.Request) (*http.Response, error) {
	var transport http.RoundTripper = t.https
	switch {
	case req.Header.Get("Upgrade") != "":
		transport = t.upgrade
	case req.URL.Scheme == "http":
		transport = t.http
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return refuseRedirect(resp)
}

// refuseRedirect works here and not in http.Client.CheckRedirect, whose errors repeat the target with
// whatever password is in it.
func refuseRedirect(resp *http.Response) (*http.Response, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return resp, nil
	}
	_ = resp.Body.Close() // A redirect says all in its header.
	target := "another place"
	if location, err := resp.Location(); err == nil {
		target = location.Scheme + "://" + location.Host
	}
	return nil, fmt.Errorf("redirect to %s is not followed: use the right URL", target)
}

func (t *byScheme) CloseIdleConnections() {
	t.https.next.CloseIdleConnections()
	t.http.CloseIdleConnections()
	t.upgrade.CloseIdleConnections()
}

// propagating hands the caller's trace on.
type propagating struct{ *byScheme }

func (t propagating) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(req.Context()).IsValid() {
		ctx := req.Context()
		req = req.Clone(ctx)
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	}
	return t.byScheme.RoundTrip(req)
}

// WithToken sends the token of src with every call and stream. A call fails with Unauthenticated
// when there is no token to be had.
func WithToken(src identity.TokenSource) connect.ClientOption {
	return connect.WithInterceptors(tokenInterceptor{src})
}

// Authorize returns a transport that sends the token of src with every request that has no
// Authorization yet.
func Authorize(rt http.RoundTripper, src identity.TokenSource) http.RoundTripper {
	return authorizing{rt, src}
}

type authorizing struct {
	http.RoundTripper
	src identity.TokenSource
}

func (t authorizing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" {
		return t.RoundTripper.RoundTrip(req)
	}
	token, err := t.src.Token(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // As http.RoundTripper demands.
		}
		return nil, fmt.Errorf("get token: %w", err)
	}
	header := req.Header.Clone()
	if err := setToken(req.Context(), t.src, token, header); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header = header
	return t.RoundTripper.RoundTrip(req)
}

func (t authorizing) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type tokenInterceptor struct{ src identity.TokenSource }

func (i tokenInterceptor) authorize(ctx context.Context, header http.Header) error {
	token, err := i.src.Token(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("get token: %w", err))
	}
	if err := setToken(ctx, i.src, token, header); err != nil {
		return connect.NewError(connect.CodeUnauthenticated, err)
	}
	return nil
}

// setToken sets a token, and what its source wants beside it.
func setToken(ctx context.Context, src identity.TokenSource, token string, header http.Header) error {
	if more, ok := src.(identity.HeaderSource); ok {
		if err := more.SetHeader(ctx, token, header); err != nil {
			return err
		}
	}
	header.Set("Authorization", "Bearer "+token)
	return nil
}

func (i tokenInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			if err := i.authorize(ctx, req.Header()); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

func (i tokenInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		if err := i.authorize(ctx, conn.RequestHeader()); err != nil {
			return failedConn{conn, err}
		}
		return conn
	}
}

func (i tokenInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// failedConn is a stream that never began.
type failedConn struct {
	connect.StreamingClientConn
	err error
}

func (c failedConn) Send(any) error       { return c.err }
func (c failedConn) Receive(any) error    { return c.err }
func (c failedConn) CloseRequest() error  { return nil }
func (c failedConn) CloseResponse() error { return nil }
