package muxws

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fairlead.dev/platform/mux"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial makes a WebSocket over a real connection and gives both ends.
func dial(t *testing.T) (hub, agent *Conn) {
	t.Helper()
	ends := make(chan *Conn, 1)
	done := make(chan struct{})
	var sockets Acceptor
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := sockets.Accept(w, r)
		if err != nil {
			t.Error(err)
			close(ends)
			return
		}
		ends <- c
		<-done
		c.CloseWith(CodeBase, "")
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	agent, err := Dial(t.Context(), server.Client(), server.URL, http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	return <-ends, agent
}

func TestBatchesOfAllSizesArriveWhole(t *testing.T) {
	t.Parallel()
	hub, agent := dial(t)
	for _, ends := range [][2]*Conn{{hub, agent}, {agent, hub}} {
		sent := make(chan error, 1)
		sizes := []int{0, 1, 125, 126, 4 << 10, 4<<10 + 1, 1<<16 - 1, 1 << 16, mux.MaxBatch}
		go func() {
			for _, n := range sizes {
				if err := ends[0].Send(bytes.Repeat([]byte{byte(n), 1, 2}, n)[:n]); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for _, n := range sizes {
			got, err := ends[1].Receive()
			if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(n), 1, 2}, n)[:n]) {
				t.Fatalf("batch of %d bytes: got %d, %v", n, len(got), err)
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

func TestReasonOfTheHubArrives(t *testing.T) {
	t.Parallel()
	hub, agent := dial(t)
	hub.CloseWith(CodeBase+8, strings.Repeat("ü", 100))
	_, err := agent.Receive()
	var closed *CloseError
	if !errors.As(err, &closed) || closed.Code != CodeBase+8 || closed.Text != strings.Repeat("ü", 61) {
		t.Errorf("agent hears %v", err)
	}
}

func TestCloseEndsReceive(t *testing.T) {
	t.Parallel()
	hub, agent := dial(t)
	for _, c := range []*Conn{hub, agent} {
		ended := make(chan error, 1)
		go func() { _, err := c.Receive(); ended <- err }()
		_ = c.Close()
		if err := <-ended; err == nil {
			t.Error("Receive on a closed connection returned a batch")
		}
	}
}

// end gives a Conn to read what a peer has written.
func end(client bool, wire []byte) *Conn {
	return &Conn{rwc: closer{}, reader: bufio.NewReader(bytes.NewReader(wire)), client: client, pool: newPool()}
}

// closer takes what is written and has nothing to say.
type closer struct{}

func (closer) Read([]byte) (int, error)    { return 0, io.EOF }
func (closer) Write(p []byte) (int, error) { return len(p), nil }
func (closer) Close() error                { return nil }

func frame(op opcode, final, masked bool, payload string) []byte {
	b := appendFrame(nil, op, masked, []byte(payload))
	if !final {
		b[0] &^= finalBit
	}
	return b
}

func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

func TestMessageInPiecesWithAPingBetween(t *testing.T) {
	t.Parallel()
	c := end(false, join(frame(opBinary, false, true, "one "), frame(opPing, true, true, "hi"),
		frame(opContinuation, false, true, strings.Repeat("x", 5000)), frame(opContinuation, true, true, " end")))
	if got, err := c.Receive(); err != nil || string(got) != "one "+strings.Repeat("x", 5000)+" end" {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestBrokenRulesEndTheConnection(t *testing.T) {
	t.Parallel()
	long := make([]byte, mux.MaxBatch)
	cases := map[string][]byte{
		"not masked":                frame(opBinary, true, false, "x"),
		"text":                      frame(1, true, true, "x"),
		"unknown kind":              frame(7, true, true, "x"),
		"extension":                 {0xc2, 0x80, 0, 0, 0, 0},
		"continuation of nothing":   frame(opContinuation, true, true, "x"),
		"message inside of another": join(frame(opBinary, false, true, "x"), frame(opBinary, true, true, "y")),
		"ping in pieces":            frame(opPing, false, true, "x"),
		"long ping":                 frame(opPing, true, true, strings.Repeat("x", 126)),
		"too long":                  frame(opBinary, true, true, string(long)+"x"),
		"too long in pieces":        join(frame(opBinary, false, true, string(long)), frame(opContinuation, true, true, "x")),
		"longer than memory":        {0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"long form of a length":     {0x82, 0xfe, 0, 5, 0, 0, 0, 0, 1, 2, 3, 4, 5},
		"cut short":                 frame(opBinary, true, true, "abc")[:8],
	}
	for name, wire := range cases {
		if got, err := end(false, wire).Receive(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := end(true, frame(opBinary, true, true, "x")).Receive(); err == nil {
		t.Error("a client takes masked frames")
	}
}

func TestWhoIsRefused(t *testing.T) {
	t.Parallel()
	var sockets Acceptor
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := sockets.Accept(w, r); err == nil {
			t.Errorf("%v was taken", r.Header)
			c.CloseWith(CodeBase, "")
		}
	}))
	defer server.Close()
	good := http.Header{
		"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
	}
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"Upgrade", "h2c", http.StatusUpgradeRequired},
		{"Connection", "close", http.StatusUpgradeRequired},
		{"Sec-Websocket-Version", "8", http.StatusBadRequest},
		{"Sec-Websocket-Key", "short", http.StatusBadRequest},
		{"Origin", "https://evil.example", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = good.Clone()
		req.Header.Set(c.name, c.value)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s: %s", c.name, c.value, resp.Status)
		}
	}
}

func TestAnswerOfSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: stale\r\n\r\n")
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_ = conn.Close()
		}
	}()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if c, err := Dial(context.Background(), client, "http://"+listener.Addr().String(), http.Header{}); err == nil {
		_ = c.Close()
		t.Error("an answer to another question was taken")
	}
}

// FuzzReceive holds that whatever a peer sends, what comes out is bounded, and that nothing panics.
func FuzzReceive(f *testing.F) {
	f.Add(frame(opBinary, true, true, "hello"), false)
	f.Add(join(frame(opBinary, false, false, "a"), frame(opPing, true, false, "p"),
		frame(opContinuation, true, false, "b")), true)
	f.Add(frame(opClose, true, true, "\x0f\xa0bye"), false)
	f.Add([]byte{0x82, 0xff, 0, 0, 0, 0, 0, 8, 0, 0, 1, 2, 3, 4}, false)
	f.Fuzz(func(t *testing.T, wire []byte, client bool) {
		c := end(client, wire)
		for {
			got, err := c.Receive()
			if err != nil {
				return
			}
			if len(got) > mux.MaxBatch || len(got) > len(wire) {
				t.Fatalf("%d bytes out of %d", len(got), len(wire))
			}
		}
	})
}

// FuzzFrame holds that what is written is read back.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("x"), true)
	f.Add(make([]byte, 70_000), false)
	f.Fuzz(func(t *testing.T, payload []byte, masked bool) {
		if len(payload) > mux.MaxBatch {
			return
		}
		got, err := end(!masked, appendFrame(nil, opBinary, masked, payload)).Receive()
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes: %d, %v", len(payload), len(got), err)
		}
	})
}
