package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/server/internal/socket"
	"fairlead.dev/platform/shares"
)

const (
	// handshakeTimeout bounds how long a TLS handshake waits for the other side's bytes.
	handshakeTimeout = 10 * time.Second
	// lineTimeout bounds how long a connection waits for those of its network before it, and turnTimeout all the waits
	// of its handshake for turns to compute. Clients of ours give a handshake 30 s, so that who is let in has time
	// left. With a line as long as the patience of those in it, each would be let in the moment it gives up: in a storm
	// all work would be in vain.
	lineTimeout = 10 * time.Second
	turnTimeout = 10 * time.Second
	// handshakesPerCPU compute at a time. Calls of those who are in compete with them: with one per CPU, a few
	// thousand calls would leave next to nothing to who wants in.
	handshakesPerCPU = 4
	// strangersPerNetwork bounds the connections of one network on which nobody has shown an identity; one more cuts
	// the oldest. The first request of who has one comes with the connection.
	strangersPerNetwork = 1024
	// newPerNetwork bounds the connections of one network that are new: from before the handshake until an identity is
	// shown, for newTime at most, and for slowTime while it is this process that is late. More wait for their
	// handshake. Without that, a crowd that comes at once (10,000 agents behind one address) has more strangers than
	// strangersPerNetwork before their first requests are read, and those that are cut have requests under way; and a
	// process that is busy begins more handshakes than it ends, until each takes longer than its caller waits. newTime
	// is as short as it is so that a crowd which shows nothing lets 256 others in per second.
	newPerNetwork = 512
	newTime       = 2 * time.Second
	slowTime      = 10 * time.Second
	// A network has half of the door for handshakes, and half for strangers. A door with fewer places than fewPlaces
	// gives strangers a quarter: one network that takes both shares does not fill it.
	fewPlaces = 128
	// noShares is a door with too few places to share them.
	noShares = 16
	// sayFullEvery bounds how often connections that are turned away are mentioned.
	sayFullEvery = 10 * time.Second
	// agePause is between two looks at a connection that is new for longer than newTime.
	agePause = 250 * time.Millisecond
	// acceptPause is before the next try after accepting failed, for want of descriptors most likely.
	acceptPause = 50 * time.Millisecond
)

// door lets connections in. There may be so many at once; one more is hung up on at once, so that who
// called can try elsewhere, and those who are in are served on. TLS handshakes are made here, before
// the HTTP server sees the connection: few compute at a time, so that a storm of them leaves time for the calls
// of those who are in, and the large stack that one takes is not kept for the connection's life.
type door struct {
	net.Listener
	tls   *tls.Config // nil: clear text
	log   *slog.Logger
	limit int64
	turns chan struct{} // taken by who computes a handshake
	// shaking are the connections of a network in their handshake: the newest is turned away where it has half of the
	// door. strangers are those after it on which nobody has shown an identity.
	shaking   *shares.Shares
	arrivals  *shares.Line // of networks, in connections that are new
	newTime   time.Duration
	lineTime  time.Duration
	strangers *shares.Room
	callers   callerShares // of the connections that are no stranger's any more
	trusted   proxies      // callers for others, and no strangers

	open   atomic.Int64 // connections
	ready  chan net.Conn
	failed chan struct{} // closed when Accept fails for good; then err is set
	err    error

	ctx    context.Context // of handshakes
	cancel context.CancelFunc
	all    sync.WaitGroup // the goroutines of this door

	mu     sync.Mutex // guards what follows
	away   int        // turned away since it was said last
	saidAt time.Time
}

// places are the bounds of a door.
type places struct {
	connections int64         // of all
	perNetwork  int64         // of one network without an identity
	newTime     time.Duration // after which a connection is new no more
	lineTime    time.Duration // that a connection waits for those before it
}

// openDoor takes the listener over. Close ends all that goes on in it.
func openDoor(l net.Listener, config *tls.Config, bounds places, trusted proxies, log *slog.Logger) *door {
	ctx, cancel := context.WithCancel(context.Background())
	limit := bounds.connections
	shaking, perNetwork, strangers := limit/2, min(bounds.perNetwork, limit/2), limit-limit/4
	switch {
	case limit < noShares:
		shaking, perNetwork, strangers = limit, limit, limit
	case limit < fewPlaces:
		perNetwork = limit / 4
	}
	d := &door{
		Listener: l, tls: config, log: log, limit: limit, turns: make(chan struct{}, handshakesPerCPU*runtime.GOMAXPROCS(0)),
		shaking: shares.New(shaking), arrivals: shares.NewLine(int(min(newPerNetwork, perNetwork))),
		newTime: bounds.newTime, lineTime: bounds.lineTime, strangers: shares.NewRoom(int(perNetwork), int(strangers)), callers: newCallerShares(limit), trusted: trusted,
		ready: make(chan net.Conn), failed: make(chan struct{}), ctx: ctx, cancel: cancel,
	}
	d.all.Go(d.accept)
	return d
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.ready:
		return c, nil
	case <-d.failed:
		return nil, d.err
	}
}

// Close implements net.Listener. Connections whose handshake is not done are closed, too.
func (d *door) Close() error {
	err := d.Listener.Close()
	d.cancel()
	d.all.Wait()
	return err
}

func (d *door) accept() {
	for {
		c, err := d.Listener.Accept()
		switch {
		case err == nil:
			d.enter(c)
		case d.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			d.err = err
			close(d.failed)
			return
		default:
			d.log.Warn("a connection can't be accepted: raise the process' limit of open files, or run more replicas", "err", err, "open", d.open.Load())
			retry.Sleep(d.ctx, acceptPause)
		}
	}
}

func (d *door) enter(c net.Conn) {
	if d.open.Add(1) > d.limit {
		d.open.Add(-1)
		d.turnAway(c)
		return
	}
	counted := &guest{door: d}
	counted.TCPConn, _ = c.(*net.TCPConn) // The connection is one: we listen with TCP only.
	if at, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && !d.trusted.trust(at.Addr()) {
		counted.network = dialpolicy.Network(c.RemoteAddr().String())
	}
	if counted.network != "" && !d.shaking.Take(counted.network, 1) {
		_ = counted.SetLinger(0)
		_ = counted.Close()
		return
	}
	d.all.Go(func() {
		arrived := d.arrive(counted)
		if counted.network != "" {
			d.shaking.Give(counted.network, 1)
		}
		if arrived != nil {
			d.meet(counted)
			d.hand(arrived)
		}
	})
}

// meet counts a connection as a stranger's until somebody shows an identity on it.
func (d *door) meet(g *guest) {
	if g.network != "" {
		g.place.Store(d.strangers.Enter(g.network, func() { _ = g.TCPConn.Close() })) // the server closes the guest then
	}
}

// arrive makes a handshake where there is one, after those of the connection's network that are new already; nil: it
// failed. A connection that waits in vain is reset: its caller learns at once that it may try elsewhere, or later.
func (d *door) arrive(g *guest) net.Conn {
	if g.network == "" {
		return d.handshake(g)
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.lineTime)
	defer cancel()
	if err := d.arrivals.Take(ctx, g.network); err != nil {
		_ = g.SetLinger(0)
		_ = g.Close()
		return nil
	}
	g.begin(d.newTime)
	return d.handshake(g)
}

// hand gives a connection to the HTTP server.
func (d *door) hand(c net.Conn) {
	select {
	case d.ready <- c:
	case <-d.ctx.Done():
		_ = c.Close()
	}
}

// turnAway resets a connection: who called learns at once, and nothing of it stays with us.
func (d *door) turnAway(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away++
	if time.Since(d.saidAt) < sayFullEvery {
		return
	}
	d.log.Warn("too many connections: new ones are turned away. Raise the process' limit of open files, or run more replicas",
		"open", d.open.Load(), "limit", d.limit, "turned_away", d.away)
	d.away, d.saidAt = 0, time.Now()
}

// handshake returns nil if it failed, and the connection itself in clear text.
func (d *door) handshake(c *guest) net.Conn {
	if d.tls == nil {
		return c
	}
	ctx, cancel := context.WithTimeout(d.ctx, handshakeTimeout+turnTimeout)
	defer cancel()
	turn := &turning{guest: c, ctx: ctx, patience: handshakeTimeout}
	secure := tls.Server(turn, d.tls)
	err := secure.HandshakeContext(ctx)
	turn.over()
	if err != nil {
		d.log.Debug("TLS handshake", "remote", c.RemoteAddr().String(), "err", err)
		if clear, ok := errors.AsType[tls.RecordHeaderError](err); ok && clear.Conn != nil && looksLikeHTTP(clear.RecordHeader) {
			_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\nThis port wants TLS: use https.\n") // The caller may be gone.
		}
		_ = c.Close()
		return nil
	}
	return secure
}

func looksLikeHTTP(begin [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PRI *"}, string(begin[:]))
}

// guest is a connection that counts until it is closed.
type guest struct {
	*net.TCPConn
	door *door
	gone atomic.Bool

	network string                       // "": it does not count
	reads   atomic.Bool                  // a goroutine waits for bytes of the caller
	begun   time.Time                    // when it became new
	arrival atomic.Pointer[time.Timer]   // ends the time in which it is new; nil: it is not
	place   atomic.Pointer[shares.Place] // among strangers
	seat    seat                         // in the share of a caller
}

// begin counts a connection, for which a turn was taken, as new for so long at most, or while it waits for this
// process.
func (g *guest) begin(newTime time.Duration) {
	g.begun = time.Now()
	// The time starts once the timer is stored: settle gives the turn back only if it finds the timer.
	timer := time.AfterFunc(time.Hour, g.age)
	g.arrival.Store(timer)
	timer.Reset(newTime)
}

// age ends the time in which a connection is new, unless its caller waits for this process.
func (g *guest) age() {
	timer := g.arrival.Load()
	if timer != nil && g.isOwed() && time.Since(g.begun) < slowTime {
		timer.Reset(agePause)
		return
	}
	g.settle()
}

// isOwed tells whether bytes of the caller are not read yet, or not answered.
func (g *guest) isOwed() bool { return !g.reads.Load() || socket.HasUnread(g.TCPConn) }

// settle takes a connection out of the count of those that are new.
func (g *guest) settle() {
	if timer := g.arrival.Swap(nil); timer != nil {
		timer.Stop()
		g.door.arrivals.Give(g.network)
	}
}

// known takes a connection out of the strangers' count.
func (g *guest) known() {
	g.settle()
	if p := g.place.Swap(nil); p != nil {
		g.door.strangers.Leave(p)
	}
}

type guestKey struct{}

// withGuest lets handlers find the connection.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if turn, ok := c.(*turning); ok {
		c = turn.guest
	}
	if g, ok := c.(*guest); ok {
		return context.WithValue(ctx, guestKey{}, g)
	}
	return ctx
}

// Read implements net.Conn.
func (g *guest) Read(p []byte) (int, error) {
	g.reads.Store(true)
	n, err := g.TCPConn.Read(p)
	g.reads.Store(false)
	return n, err
}

func (g *guest) Close() error {
	if !g.gone.Swap(true) {
		g.door.open.Add(-1)
		g.known()
		g.seat.close()
	}
	return g.TCPConn.Close()
}

// turning is a connection during and after its handshake. In it, a turn is held from when something was read
// until more is waited for: that is when it computes. The goroutine of the handshake is the only one that
// reads, until it is over.
type turning struct {
	*guest
	ctx  context.Context // of the handshake
	held bool
	done bool
	// patience is how much longer the handshake waits for bytes.
	patience time.Duration
}

func (t *turning) Read(p []byte) (int, error) {
	if !t.done {
		return t.readInTurn(p)
	}
	return t.guest.Read(p)
}

// readInTurn is Read during the handshake, apart from what stays on the stack of who reads the connection for all its
// life.
//
//go:noinline
func (t *turning) readInTurn(p []byte) (int, error) {
	t.release()
	begin := time.Now()
	if err := t.SetReadDeadline(begin.Add(t.patience)); err != nil {
		return 0, err
	}
	n, err := t.guest.Read(p)
	t.patience -= time.Since(begin)
	if err == nil {
		err = t.take()
	}
	return n, err
}

// errLeft: nothing is computed for a caller that has gone.
var errLeft = errors.New("the caller has left while it waited for its turn")

func (t *turning) take() error {
	select {
	case t.door.turns <- struct{}{}:
		t.held = true
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
	if socket.HasLeft(t.TCPConn) {
		return errLeft
	}
	return nil
}

func (t *turning) release() {
	if t.held {
		<-t.door.turns
		t.held = false
	}
}

// over ends the handshake's time.
func (t *turning) over() {
	t.release()
	t.done = true
	t.ctx = nil
	_ = t.SetReadDeadline(time.Time{}) // if it fails, so does the next read
}
