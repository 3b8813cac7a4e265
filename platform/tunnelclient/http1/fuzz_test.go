package http1_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"fairlead.dev/platform/tunnelclient/http1"
)

// canned is a connection on which the server says what it says.
type canned struct{ *bytes.Reader }

func (canned) Write(p []byte) (int, error)      { return len(p), nil }
func (canned) Close() error                     { return nil }
func (canned) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(netip.AddrPort{}) }
func (canned) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(netip.AddrPort{}) }
func (canned) SetDeadline(time.Time) error      { return nil }
func (canned) SetReadDeadline(time.Time) error  { return nil }
func (canned) SetWriteDeadline(time.Time) error { return nil }

// An answer that this client takes for a whole one net/http takes for the same one.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2;a=b\r\nok\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nto the end",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, answer []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		c := &http1.Client{
			Dial: func(context.Context) (net.Conn, error) { return canned{bytes.NewReader(answer)}, nil },
		}
		defer c.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://server.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		theirs := bufio.NewReader(bytes.NewReader(answer))
		for {
			want, err := http.ReadResponse(theirs, r)
			if err != nil {
				t.Fatalf("net/http refuses it: %v", err)
			}
			body, err := io.ReadAll(want.Body)
			_ = want.Body.Close()
			if want.StatusCode < 200 && want.StatusCode != http.StatusSwitchingProtocols {
				continue
			}
			if err != nil || want.StatusCode != resp.StatusCode || !bytes.Equal(body, text) ||
				len(want.Trailer) > len(resp.Trailer) {
				t.Fatalf("%d %q with trailers %v, net/http: %d %q %v %v", resp.StatusCode, text, resp.Trailer,
					want.StatusCode, body, want.Trailer, err)
			}
			return
		}
	})
}
