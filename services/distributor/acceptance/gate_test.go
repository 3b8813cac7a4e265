package acceptance

import (
	"net"
	"sync"
	"testing"
)

// gate holds an address for the whole test, so that nobody else takes it while its server is away: what
// is dialed then is hung up on.
type gate struct {
	net.Listener

	mu   sync.Mutex
	door *door // of the server that is there; nil: none; guarded by mu
}

func openGate(t *testing.T) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.run()
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return g
}

func (g *gate) run() {
	for {
		c, err := g.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		d := g.door
		g.mu.Unlock()
		if d == nil || !d.pass(c) {
			_ = c.Close()
		}
	}
}

// listen is the listener for a server, until that closes it.
func (g *gate) listen() net.Listener {
	d := &door{gate: g, conns: make(chan net.Conn), closed: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.door = d
	return d
}

// door is one server's time at the gate.
type door struct {
	gate   *gate
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (d *door) pass(c net.Conn) bool {
	select {
	case d.conns <- c:
		return true
	case <-d.closed:
		return false
	}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.once.Do(func() {
		d.gate.mu.Lock()
		defer d.gate.mu.Unlock()
		if d.gate.door == d {
			d.gate.door = nil
		}
		close(d.closed)
	})
	return nil
}

func (d *door) Addr() net.Addr { return d.gate.Addr() }
