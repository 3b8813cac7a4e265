package http1

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"
)

// handshakeTimeout bounds TLS' handshake.
const handshakeTimeout = 10 * time.Second

// New returns a client of the server at a URL, which is dialled with dial. For https, config is asked for each
// connection, as roots and certificates may change; nil, or nil from it: the system's roots.
func New(server *url.URL, config func() (*tls.Config, error), dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Client {
	port := server.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[server.Scheme]
	}
	addr := net.JoinHostPort(server.Hostname(), port)
	return &Client{Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx, "tcp", addr)
		if err != nil || server.Scheme != "https" {
			return conn, err
		}
		secure, err := handshake(ctx, conn, server.Hostname(), config)
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("shake hands with %s: %w", addr, err)
		}
		return secure, nil
	}}
}

func handshake(ctx context.Context, conn net.Conn, name string, config func() (*tls.Config, error)) (net.Conn, error) {
	own := &tls.Config{MinVersion: tls.VersionTLS12}
	if config != nil {
		given, err := config()
		if err != nil {
			return nil, err
		}
		if given != nil {
			own = given.Clone()
		}
	}
	own.NextProtos = []string{"http/1.1"}
	if own.ServerName == "" {
		own.ServerName = name
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secure := tls.Client(conn, own)
	return secure, secure.HandshakeContext(ctx)
}
