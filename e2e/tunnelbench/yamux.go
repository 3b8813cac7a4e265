package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/hashicorp/yamux"
)

// The plainest reverse tunnel: the agent dials the hub, and each connection that the hub gets becomes a stream
// to the agent and a connection to the backend. Bytes are not looked at; there are no users and no rules.

func yamuxConfig() *yamux.Config {
	config := yamux.DefaultConfig()
	config.MaxStreamWindowSize = 4 << 20 // its default of 256 KiB would hold bulk back
	config.LogOutput = io.Discard
	return config
}

// yamuxHub takes the agent at one address and users at the other.
func yamuxHub(ctx context.Context, agentAddr, userAddr string) error {
	return withAgent(ctx, agentAddr, userAddr, func(session *yamux.Session, users net.Listener) error {
		for {
			user, err := users.Accept()
			if err != nil {
				return err
			}
			go func() {
				stream, err := session.Open()
				if err != nil {
					_ = user.Close()
					return
				}
				pipe(user, stream)
			}()
		}
	})
}

// yamuxProxy is yamuxHub with net/http's server and reverse proxy instead of pipes: what it takes to read requests at
// all, before anything is verified, decided or recorded.
func yamuxProxy(ctx context.Context, agentAddr, userAddr string) error {
	return withAgent(ctx, agentAddr, userAddr, func(session *yamux.Session, users net.Listener) error {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "backend"})
		proxy.Transport = &http.Transport{
			DialContext:         func(context.Context, string, string) (net.Conn, error) { return session.Open() },
			MaxIdleConnsPerHost: 64, DisableCompression: true,
		}
		return serveAt(ctx, users, proxy)
	})
}

// withAgent serves users once the agent is there.
func withAgent(ctx context.Context, agentAddr, userAddr string, serve func(*yamux.Session, net.Listener) error) error {
	agents, err := (&net.ListenConfig{}).Listen(ctx, "tcp", agentAddr)
	if err != nil {
		return err
	}
	users, err := (&net.ListenConfig{}).Listen(ctx, "tcp", userAddr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _, _ = agents.Close(), users.Close() })
	defer stop()
	conn, err := agents.Accept()
	if err != nil {
		return unless(ctx, err)
	}
	session, err := yamux.Client(conn, yamuxConfig())
	if err != nil {
		return err
	}
	defer session.Close()
	return unless(ctx, serve(session, users))
}

// yamuxAgent dials the hub and leads to the backend.
func yamuxAgent(ctx context.Context, hub, backend string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", hub)
	if err != nil {
		return err
	}
	session, err := yamux.Server(conn, yamuxConfig())
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	for {
		stream, err := session.Accept()
		if err != nil {
			return unless(ctx, err)
		}
		go func() {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", backend)
			if err != nil {
				_ = stream.Close()
				return
			}
			pipe(conn, stream)
		}()
	}
}

// pipe copies both ways until one of them ends.
func pipe(a, b net.Conn) {
	var wg sync.WaitGroup
	closeBoth := sync.OnceFunc(func() { _, _ = a.Close(), b.Close() })
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			defer closeBoth()
			_, _ = io.Copy(way[0], way[1])
		})
	}
	wg.Wait()
}

func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
