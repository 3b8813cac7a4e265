package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/localca"
)

// newDoor has a place for one new connection of a network, which is taken until give is called, and counts the
// handshakes that it computes.
func newDoor(t *testing.T, lineTime time.Duration) (d *door, give func(), computed *atomic.Int64) {
	t.Helper()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	computed = &atomic.Int64{}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			computed.Add(1)
			return nil, nil //nolint:nilnil // the same for all
		},
	}
	d = openDoor(l, config, places{connections: 1000, perNetwork: 1, newTime: patience, lineTime: lineTime}, proxies{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = d.Close() })
	go func() {
		for {
			c, err := d.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() { // as the HTTP server does
				_, _ = io.Copy(io.Discard, c) // until the caller goes
				_ = c.Close()
			}()
		}
	}()
	network := dialpolicy.Network(l.Addr().String())
	if err := d.arrivals.Take(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	return d, func() { d.arrivals.Give(network) }, computed
}

func connectTo(t *testing.T, d *door) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// secure makes a handshake.
func secure(t *testing.T, c net.Conn) error {
	t.Helper()
	return tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}).HandshakeContext(t.Context()) //nolint:gosec // a test
}

// firstFlight is what a client says before the server says anything.
func firstFlight(t *testing.T) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() { _ = secure(t, near) }()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// In a storm callers give up while they wait for their turn. What they said first is there still.
func TestNoHandshakeIsComputedForWhoHasLeft(t *testing.T) {
	t.Parallel()
	const many = 10
	d, give, computed := newDoor(t, patience)
	hello := firstFlight(t)
	for range many {
		left := connectTo(t, d)
		if _, err := left.Write(hello); err != nil {
			t.Fatal(err)
		}
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
	last := connectTo(t, d)
	await.True(t, "all wait", func() bool { return d.open.Load() == many+1 })
	give()
	if err := secure(t, last); err != nil {
		t.Fatal(err)
	}
	_ = last.Close() // its turn goes to those behind it
	await.True(t, "nobody waits any more", func() bool { return d.open.Load() == 0 })
	if n := computed.Load(); n != 1 {
		t.Errorf("%d handshakes are computed, 1 of them for a caller that is there", n)
	}
}

func TestWhoWaitsInVainIsTold(t *testing.T) {
	t.Parallel()
	d, give, _ := newDoor(t, 50*time.Millisecond)
	waits := connectTo(t, d)
	if _, err := waits.Write(firstFlight(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(waits); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	give()
	if err := secure(t, connectTo(t, d)); err != nil {
		t.Errorf("after the one that held the place: %v", err)
	}
}

// A process that is late with its handshakes begins no more of them: all would take longer than their callers wait. A
// caller that says nothing has its place for a short time only.
func TestANewConnectionKeepsItsPlaceWhileItWaitsForThisProcess(t *testing.T) {
	t.Parallel()
	d, give, computed := newDoor(t, patience)
	d.newTime = 10 * time.Millisecond
	for range cap(d.turns) { // others compute
		d.turns <- struct{}{}
	}
	give()
	waits := connectTo(t, d)
	if _, err := waits.Write(firstFlight(t)); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the first is new", func() bool { return d.open.Load() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 4*agePause)
	defer cancel()
	network := dialpolicy.Network(waits.LocalAddr().String())
	if err := d.arrivals.Take(ctx, network); err == nil {
		t.Error("another one is let in, though the first has no answer yet")
	}
	if err := waits.Close(); err != nil {
		t.Fatal(err)
	}
	for range cap(d.turns) {
		<-d.turns
	}
	_ = connectTo(t, d) // which says nothing
	last := connectTo(t, d)
	if err := secure(t, last); err != nil {
		t.Errorf("behind one that says nothing: %v", err)
	}
	if n := computed.Load(); n != 1 {
		t.Errorf("%d handshakes are computed, 1 of them for a caller that is there", n)
	}
}
