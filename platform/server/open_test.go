package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
)

const openPath = "/fairlead.delivery.v1.DeliveryService/Sync" // The test's policy asks for no identity there.

// beginBody sends the head of a request to an open procedure, and as much of a body as the server takes.
func beginBody(t *testing.T, s *running, path string, announced int, body []byte) net.Conn {
	t.Helper()
	conn := dial(t, s)
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n", path, announced); err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write(body) // The server may refuse the rest.
	return conn
}

func openSync(t *testing.T, s *running) error {
	t.Helper()
	_, err := deliveryv1connect.NewDeliveryServiceClient(httpClient(t, client.Config{}), s.URL()).Sync(t.Context(),
		&deliveryv1.SyncRequest{})
	return err
}

// served holds for the answer of the handler, which implements nothing.
func served(err error) bool { return connect.CodeOf(err) == connect.CodeUnimplemented }

func TestHalfSentBodiesBeforeALoginTakeNoMemory(t *testing.T) { // alone: the heap is measured
	s := start(t, Config{}, rpcMounts(fine)...)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	half := make([]byte, 3<<20)
	before := heap()
	for range 60 {
		beginBody(t, s, openPath, 4<<20, half)
	}
	if grown := int64(heap()) - int64(before); grown > 16<<20 {
		t.Errorf("60 half-sent bodies hold %d MiB", grown>>20)
	}
	if err := openSync(t, s); !served(err) {
		t.Errorf("others get %v", err)
	}
}

func TestBodyBeforeALoginIsSmall(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	resp, text := request(t, http1Client(t, nil), http.MethodPost, s.URL()+openPath, "",
		strings.Repeat("a", openBodyBytes+1), "Content-Type", "application/proto")
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "at most 16 KiB") {
		t.Errorf("got %s %s", resp.Status, text)
	}
}

func TestCompressedMessageBeforeALoginIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for header, kind := range map[string]string{
		"Content-Encoding": "application/proto", "Grpc-Encoding": "application/grpc-web+proto",
		"Connect-Content-Encoding": "application/proto",
	} {
		resp, text := request(t, httpClient(t, client.Config{}), http.MethodPost, s.URL()+openPath, "", bomb.String(),
			"Content-Type", kind, header, "gzip")
		if text += resp.Header.Get("Grpc-Message"); !strings.Contains(text, "uncompressed") {
			t.Errorf("%s: got %q", header, text)
		}
	}
	_, text := request(t, httpClient(t, client.Config{}), http.MethodGet,
		s.URL()+openPath+"?connect=v1&encoding=proto&compression=gzip&message=", "", "")
	if !strings.Contains(text, "uncompressed") {
		t.Errorf("by GET: %q", text)
	}
	small := deliveryv1connect.NewDeliveryServiceClient(httpClient(t, client.Config{}), s.URL(), connect.WithSendGzip())
	if _, err := small.Sync(t.Context(), &deliveryv1.SyncRequest{}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
}

func TestNewBodyCutsTheOldestOfItsNetwork(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a wait of 5 s")
	s := start(t, Config{}, append(rpcMounts(fine), HTTP("POST /once", http.NotFoundHandler(), identity.RoleOpen))...)
	first := beginBody(t, s, openPath, 1000, nil)
	for i := range openBodiesPerNetwork {
		path := openPath
		if i%2 == 0 {
			path = "/once"
		}
		beginBody(t, s, path, 1000, []byte("a"))
	}
	resp, err := http.ReadResponse(bufio.NewReader(first), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), "too long") {
		t.Errorf("got %s %s", resp.Status, text)
	}
	if err := openSync(t, s); !served(err) {
		t.Errorf("who sends at once gets %v", err)
	}
}

func TestSlowBodyBeforeALoginIsCut(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a wait of 5 s")
	b := newBodies()
	b.patience = 1
	s := start(t, Config{}, HTTP("POST /slow", b.handler(http.NotFoundHandler()), identity.RoleAny|identity.RoleOpen))
	resp, err := http.ReadResponse(bufio.NewReader(beginBody(t, s, "/slow", 1000, []byte("a"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %s", resp.Status)
	}
}

func TestTheTimeOfABodyBeforeALoginIsShort(t *testing.T) {
	t.Parallel()
	if b := newBodies(); b.patience > 10*time.Second {
		t.Errorf("%s", b.patience)
	}
}
