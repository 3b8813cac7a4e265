package server

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/localca"
)

// A person may pause a terminal for as long as they like: the kernel would take that for a peer that is gone.
func TestUpgradedConnectionMayPause(t *testing.T) {
	t.Parallel()
	patience := make(chan int, 2)
	ask := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if secure, ok := conn.(*tls.Conn); ok {
			conn = secure.NetConn()
		}
		raw, err := conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		if err := raw.Control(func(fd uintptr) {
			millis, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if err != nil {
				t.Error(err)
			}
			patience <- millis
		}); err != nil {
			t.Error(err)
		}
	})
	mount := Raw("/upgrade/", ask, identity.RoleOpen)
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	hc := http1Client(t, &tls.Config{InsecureSkipVerify: true})
	for _, s := range []*running{
		start(t, Config{}, mount),
		start(t, Config{CertFile: files.CertFile, KeyFile: files.KeyFile}, mount),
	} {
		if resp, err := hc.Get(s.URL() + "/upgrade/x"); err == nil {
			_ = resp.Body.Close()
			t.Error("it was not hung up on")
		}
		if millis := <-patience; millis != 0 {
			t.Errorf("%s: given up after %d ms", s.URL(), millis)
		}
	}
}

// The kernel's bound is the only one on a peer that takes no byte.
func TestKernelGivesUpAPeerThatTakesNothing(t *testing.T) {
	t.Parallel()
	patience := make(chan int, 1)
	ask := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g, ok := r.Context().Value(guestKey{}).(*guest)
		if !ok {
			t.Error("the connection is not known")
			return
		}
		raw, err := g.SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		if err := raw.Control(func(fd uintptr) {
			millis, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if err != nil {
				t.Error(err)
			}
			patience <- millis
		}); err != nil {
			t.Error(err)
		}
	})
	s := start(t, Config{}, HTTP("GET /ask", ask, identity.RoleOpen))
	for name, hc := range map[string]*http.Client{
		"HTTP/1.1": http1Client(t, nil),
		"HTTP/2":   httpClient(t, client.Config{}),
	} {
		resp, err := hc.Get(s.URL() + "/ask")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if millis := <-patience; millis != int(writeStall.Milliseconds()) {
			t.Errorf("%s: given up after %d ms", name, millis)
		}
	}
}

func TestReaderThatStallsLeavesLittleInTheKernel(t *testing.T) {
	t.Parallel()
	taken := make(chan int, 1)
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const stalled = time.Second
		piece, deadlines := make([]byte, 16<<10), http.NewResponseController(w)
		for total := 0; ; {
			_ = deadlines.SetWriteDeadline(time.Now().Add(stalled)) // a write without one would tell
			n, err := w.Write(piece)
			if total += n; err != nil {
				taken <- total
				return
			}
		}
	})
	s := start(t, Config{}, HTTP("GET /endless", endless, identity.RoleOpen))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /endless HTTP/1.1\r\nHost: "+conn.RemoteAddr().String()+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20 // with what the reader's own kernel takes
	select {
	case n := <-taken:
		if n > most {
			t.Errorf("%d bytes were taken for a reader that reads none", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("all is taken")
	}
}
