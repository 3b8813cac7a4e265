package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/identity"
)

const webSocketRequest = "GET /socket HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// dialWebSocket asks for a WebSocket and returns the connection with the answer's first line.
func dialWebSocket(t *testing.T, s *running) (net.Conn, string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, webSocketRequest)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return conn, strings.TrimSpace(answer)
}

// net/http's goroutine ends when a WebSocket begins, but the context of the handler goes on, and the drain waits for it.
func TestAWebSocketOutlivesTheGoroutineOfItsRequest(t *testing.T) {
	t.Parallel()
	began, left := make(chan context.Context, 1), make(chan struct{})
	stack := make(chan string, 1)
	srv, log := newServer(t, Config{}, HTTP("GET /socket", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("write beside the connection: %v", err)
		}
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
			t.Errorf("deadline of a connection that was taken over: %v", err)
		}
		one, err := rw.ReadByte() // the client has its answer: the goroutine of its request may have ended
		if err != nil || one != 'a' {
			t.Errorf("read %q: %v", one, err)
		}
		text := make([]byte, 64<<10)
		stack <- string(text[:runtime.Stack(text, false)])
		began <- r.Context()
		<-r.Context().Done()
		close(left)
	}), identity.RoleUser))
	srv.drainLimit = 0
	s := run(t, srv, log)
	conn, answer := dialWebSocket(t, s)
	if answer != "HTTP/1.1 101 Switching Protocols" {
		t.Fatal(answer)
	}
	fmt.Fprint(conn, "a")
	if frames := <-stack; strings.Contains(frames, "net/http.(*conn).serve(") {
		t.Errorf("the handler runs on net/http's goroutine:\n%s", frames)
	}
	if ctx := <-began; ctx.Err() != nil {
		t.Errorf("context of a WebSocket that goes on: %v", ctx.Err())
	}
	s.stop()
	<-left
	ended(t, s)
}

// Whatever is answered instead of a WebSocket is answered as ever, and so is a handler that panics.
func TestARequestForAWebSocketThatIsRefusedIsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) }, "HTTP/1.1 409 Conflict"},
		"panics":  {func(http.ResponseWriter, *http.Request) { panic("no") }, "HTTP/1.1 500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{}, HTTP("GET /socket", c.serve, identity.RoleUser))
			if _, answer := dialWebSocket(t, s); answer != c.want {
				t.Errorf("got %q, want %q", answer, c.want)
			}
		})
	}
}

// A client that leaves before the connection is taken over ends the handler's context, as for any other request.
func TestAClientThatLeavesBeforeItsWebSocketEndsTheRequest(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	s := start(t, Config{}, HTTP("GET /socket", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	}), identity.RoleUser))
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, webSocketRequest)
	<-entered
	conn.Close()
	<-left
}
