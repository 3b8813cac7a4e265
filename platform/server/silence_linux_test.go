package server

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
)

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
