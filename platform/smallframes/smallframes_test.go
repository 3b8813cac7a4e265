package smallframes_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"fairlead.dev/platform/smallframes"
)

const message = 100_000

// frames notes the largest DATA frame that a connection carries each way.
type frames struct {
	mu   sync.Mutex
	seen int
}

func (f *frames) read(r io.Reader) {
	framer := http2.NewFramer(io.Discard, r)
	for {
		frame, err := framer.ReadFrame()
		if err != nil && !errors.As(err, new(http2.StreamError)) {
			return
		}
		if data, ok := frame.(*http2.DataFrame); ok {
			f.mu.Lock()
			f.seen = max(f.seen, len(data.Data()))
			f.mu.Unlock()
		}
	}
}

func (f *frames) largest() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// wire is a connection that is listened to.
type wire struct {
	net.Conn
	in, out *io.PipeWriter
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	_, _ = w.in.Write(p[:n]) // the test ends it
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	_, _ = w.out.Write(p) // the test ends it
	return w.Conn.Write(p)
}

func (w *wire) Close() error {
	return errors.Join(w.in.Close(), w.out.Close(), w.Conn.Close())
}

func TestLargeMessagesTravelInSmallFrames(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n, err := w.Write(got)
		if n != len(got) || err != nil {
			t.Errorf("wrote %d of %d: %v", n, len(got), err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewUnstartedServer(smallframes.Handler(echo))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()

	var sent, got frames
	var listeners sync.WaitGroup
	plain := &http.Transport{Protocols: server.Config.Protocols}
	plain.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		in, inw := io.Pipe()
		out, outw := io.Pipe()
		listeners.Go(func() { got.read(in); _, _ = io.Copy(io.Discard, in) })
		listeners.Go(func() {
			_, _ = io.ReadFull(out, make([]byte, len(http2.ClientPreface)))
			sent.read(out)
			_, _ = io.Copy(io.Discard, out)
		})
		return &wire{conn, inw, outw}, nil
	}
	client := &http.Client{Transport: smallframes.Transport(plain)}
	want := bytes.Repeat([]byte("0123456789"), message/10)
	for _, size := range []int{0, 1, smallframes.Size, smallframes.Size + 1, message} {
		resp, err := client.Post(server.URL, "text/plain", bytes.NewReader(want[:size]))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Equal(answer, want[:size]) {
			t.Errorf("%d bytes came back as %d: %v", size, len(answer), err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	plain.CloseIdleConnections()
	listeners.Wait()
	if n := sent.largest(); n == 0 || n > smallframes.Size {
		t.Errorf("a request's frame had %d bytes", n)
	}
	if n := got.largest(); n == 0 || n > smallframes.Size {
		t.Errorf("an answer's frame had %d bytes", n)
	}
}
