package identity_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/identity"
)

// pipeNet is a network in memory, so that real HTTP servers and clients run in a synctest bubble.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeNet) Close() error   { p.close.Do(func() { close(p.done) }); return nil }
func (p *pipeNet) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve runs a handler behind Abortable, and returns a client for it (HTTP/2, or HTTP/1.1).
func serve(t *testing.T, h http.Handler, http2 bool) *http.Client {
	t.Helper()
	p := &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	server := &http.Server{Handler: identity.Abortable(h), Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	transport := &http.Transport{DialContext: p.dial, Protocols: &protocols}
	ended := make(chan struct{})
	go func() { _ = server.Serve(p); close(ended) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-ended
	})
	return &http.Client{Transport: transport}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

const hubSecret = "the hub's secret of this test"

// console is the least of a console: what ServiceCredential and Renewer call.
type console struct {
	consolev1connect.UnimplementedIdentityServiceHandler
	t        *testing.T
	verifier identity.BundleVerifier

	mu        sync.Mutex // guards what follows
	keys      *identity.KeySet
	revoked   []identity.Revocation
	lifetime  time.Duration
	down      func() error
	exchanges int
	renewals  int
	polls     int
}

func newConsole(t *testing.T) *console {
	t.Helper()
	c := &console{t: t, lifetime: identity.ServiceLifetime}
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	c.change(func() { c.keys = keys })
	return c
}

// change changes the console's state and brings its own verifier up to date.
func (c *console) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	if err := c.verifier.Update(c.bundleLocked()); err != nil {
		c.t.Error(err)
	}
}

func (c *console) bundleLocked() identity.Bundle {
	return identity.Bundle{Keys: c.keys.PublicJWKS(), Revocations: c.revoked, IssuedAt: time.Now()}
}

func (c *console) token(id identity.Identity, ttl time.Duration) string {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	token, _, err := c.keys.Sign(id, ttl)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// withProofs is the console's verifier, which accepts agents without a key.
func (c *console) withProofs() identity.Verifier {
	return struct {
		*identity.BundleVerifier
		*identity.Proofs
	}{&c.verifier, &identity.Proofs{Audience: identity.ServiceConsole, AcceptUnbound: true}}
}

func (c *console) issueLocked(id identity.Identity) (*consolev1.Token, error) {
	token, signed, err := c.keys.Sign(id, c.lifetime)
	return &consolev1.Token{Token: token, Id: signed.TokenID, ExpireTime: timestamppb.New(signed.ExpiresAt)}, err
}

func (c *console) ExchangeHubSecret(_ context.Context,
	req *consolev1.ExchangeHubSecretRequest,
) (*consolev1.ExchangeHubSecretResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return nil, c.down()
	}
	c.exchanges++
	if req.GetHubSecret() != hubSecret {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("wrong hub secret"))
	}
	token, err := c.issueLocked(identity.Identity{Kind: identity.KindService, Name: req.GetService()})
	return &consolev1.ExchangeHubSecretResponse{Token: token}, err
}

func (c *console) RenewToken(ctx context.Context,
	_ *consolev1.RenewTokenRequest,
) (*consolev1.RenewTokenResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return nil, c.down()
	}
	c.renewals++
	id, _ := identity.FromContext(ctx)
	token, signed, err := c.keys.Renew(id, c.lifetime)
	return &consolev1.RenewTokenResponse{
		Token:     &consolev1.Token{Token: token, Id: signed.TokenID, ExpireTime: timestamppb.New(signed.ExpiresAt)},
		Endpoints: &consolev1.Endpoints{Console: "https://hub"},
	}, err
}

func (c *console) GetTrustBundle(context.Context,
	*consolev1.GetTrustBundleRequest,
) (*consolev1.GetTrustBundleResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return nil, c.down()
	}
	c.polls++
	return c.bundleLocked().Proto(), nil
}

func (c *console) serve(t *testing.T) consolev1connect.IdentityServiceClient {
	t.Helper()
	policy := identity.Policy{
		consolev1connect.IdentityServiceExchangeHubSecretProcedure: identity.RoleOpen,
		consolev1connect.IdentityServiceRenewTokenProcedure:        identity.RoleAny,
		consolev1connect.IdentityServiceGetTrustBundleProcedure:    identity.RoleHub,
		consolev1connect.IdentityServiceRotateSigningKeyProcedure:  identity.RoleAdmin,
		consolev1connect.IdentityServiceRevokeTokensProcedure:      identity.RoleNone,
	}
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.NewIdentityServiceHandler(c,
		connect.WithInterceptors(identity.Interceptor(c.withProofs(), policy))))
	return consolev1connect.NewIdentityServiceClient(serve(t, mux, true), "http://console")
}

// tunnel is a bidirectional stream that echoes, or waits.
type tunnel struct {
	tunnelv1connect.UnimplementedTunnelServiceHandler
	wait  func(ctx context.Context, s *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error
	ended chan error
}

func (h *tunnel) Connect(ctx context.Context,
	s *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse],
) error {
	if _, err := s.Receive(); err != nil {
		return err
	}
	if err := s.Send(&tunnelv1.ConnectResponse{}); err != nil {
		return err
	}
	err := h.wait(ctx, s)
	h.ended <- err
	return err
}

func (h *tunnel) serve(t *testing.T, v identity.Verifier) tunnelv1connect.TunnelServiceClient {
	t.Helper()
	policy := identity.Policy{tunnelv1connect.TunnelServiceConnectProcedure: identity.RoleAgent}
	mux := http.NewServeMux()
	mux.Handle(tunnelv1connect.NewTunnelServiceHandler(h, connect.WithInterceptors(identity.Interceptor(v, policy)),
		connect.WithCompressMinBytes(1<<30)))
	return tunnelv1connect.NewTunnelServiceClient(serve(t, mux, true), "http://tunnel", connect.WithGRPC())
}

func bearing(ctx context.Context, token string) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer "+token)
	return ctx
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
