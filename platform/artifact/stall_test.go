package artifact_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/artifact"
)

// oneConn is a listener for one connection.
type oneConn struct {
	conn chan net.Conn
	done chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l oneConn) Close() error   { close(l.done); return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// A client that takes nothing for a minute is cut off, so that it holds no file and no memory for ever. A client that
// takes a little now and then gets all of it, and the connection can be used again.
func TestStalledReaderIsCutOffAndASlowOneIsNot(t *testing.T) {
	t.Parallel()
	for _, enc := range []string{"zstd", "gzip", "identity"} {
		t.Run(enc, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, t.TempDir(), 0)
			d := put(t, s, noise(1, 1<<20))
			synctest.Test(t, func(t *testing.T) {
				near, ended, stop := dialHandler(s.Handler(allowAll))
				get(t, near, d, enc)
				<-time.After(2 * time.Minute)
				select {
				case <-ended:
				default:
					t.Error("the stalled reader is waited for")
				}
				stop()

				near, ended, stop = dialHandler(s.Handler(allowAll))
				var taken atomic.Int64
				go func() { // 64 KiB in half a minute
					for err := error(nil); err == nil; <-time.After(30 * time.Second) {
						var n int64
						n, err = io.CopyN(io.Discard, near, 64<<10)
						taken.Add(n)
					}
				}()
				get(t, near, d, enc)
				<-ended
				<-time.After(10 * time.Minute)
				if taken.Load() < 1<<20 {
					t.Errorf("the slow reader got %d bytes", taken.Load())
				}
				before := taken.Load()
				get(t, near, d, enc)
				<-ended
				<-time.After(10 * time.Minute)
				if more := taken.Load() - before; more < 1<<20 {
					t.Errorf("and %d over the same connection", more)
				}
				stop()
				<-time.After(time.Minute) // for the reader's end

				// A request that was ended, for its token was revoked, does not go on.
				ending, cancel := context.WithCancel(t.Context())
				near, ended, stop = dialHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s.Handler(allowAll).ServeHTTP(w, r.WithContext(ending))
				}))
				get(t, near, d, enc)
				if _, err := io.CopyN(io.Discard, near, 64<<10); err != nil {
					t.Fatal(err)
				}
				cancel()
				if n, _ := io.Copy(io.Discard, near); n > 256<<10 {
					t.Errorf("%d bytes came after the end", n)
				}
				<-ended
				stop()
			})
		})
	}
}

func get(t *testing.T, to io.Writer, d artifact.Digest, enc string) {
	t.Helper()
	if _, err := fmt.Fprintf(to, "GET %s%s HTTP/1.1\r\nHost: x\r\nAccept-Encoding: %s\r\n\r\n", artifact.Path, d,
		enc); err != nil {
		t.Fatal(err)
	}
}

// dialHandler is a connection to a server with this handler; ended tells of each request that has.
func dialHandler(h http.Handler) (near net.Conn, ended chan struct{}, stop func()) {
	near, far := net.Pipe()
	l := oneConn{conn: make(chan net.Conn, 1), done: make(chan struct{})}
	l.conn <- far
	ended = make(chan struct{}, 10)
	srv := &http.Server{
		ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- struct{}{} }()
			h.ServeHTTP(w, r)
		}),
	}
	go func() { _ = srv.Serve(l) }()
	return near, ended, func() { _ = near.Close(); _ = srv.Close() }
}
