// Package balancer spreads connections over the replicas of a service, knowing nothing of what they carry.
package balancer

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Balancer gives each connection to the next backend that accepts it.
type Balancer struct {
	listener net.Listener
	ended    sync.WaitGroup

	mu       sync.Mutex // guards what follows
	backends []string
	next     int
	open     map[net.Conn]struct{}
	closed   bool
}

// Start listens at an address, and leads its connections to the addresses of the backends.
func Start(ctx context.Context, listen string, backends []string) (*Balancer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: l, backends: backends, open: map[net.Conn]struct{}{}}
	b.ended.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.ended.Go(func() { b.serve(conn) })
		}
	})
	return b, nil
}

// Addr is the address that it listens at.
func (b *Balancer) Addr() string { return b.listener.Addr().String() }

// Close ends it with all its connections.
func (b *Balancer) Close() error {
	err := b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for conn := range b.open {
		err = errors.Join(err, ignoreClosed(conn.Close()))
	}
	b.mu.Unlock()
	b.ended.Wait()
	return err
}

func (b *Balancer) serve(conn net.Conn) {
	defer b.drop(conn)
	if !b.keep(conn) {
		return
	}
	backend := b.dial()
	if backend == nil {
		return
	}
	defer b.drop(backend)
	if !b.keep(backend) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, backend}, {backend, conn}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either side may end it
			if tcp, ok := way[0].(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
		})
	}
	both.Wait()
}

// dial tries each backend once, the next one first.
func (b *Balancer) dial() net.Conn {
	b.mu.Lock()
	first := b.next
	b.next++
	b.mu.Unlock()
	for i := range b.backends {
		addr := b.backends[(first+i)%len(b.backends)]
		if conn, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // Close ends it
			return conn
		}
	}
	return nil
}

func (b *Balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[conn] = struct{}{}
	return !b.closed
}

func (b *Balancer) drop(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, conn)
	_ = conn.Close() // the connection may be closed already
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
