package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/mux/muxhttp"
)

func (c *console) BeginRecording(_ context.Context,
	req *consolev1.BeginRecordingRequest,
) (*consolev1.BeginRecordingResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
	}
	if c.noRoom {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("no room for another recording"))
	}
	c.recordings = append(c.recordings, req.GetRecording())
	return &consolev1.BeginRecordingResponse{MaxBytes: c.maxBytes}, nil
}

func (c *console) AppendRecording(_ context.Context,
	req *consolev1.AppendRecordingRequest,
) (*consolev1.AppendRecordingResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full && len(req.GetData()) > 0 {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the recording is full"))
	}
	bytes := int64(len(req.GetData()))
	for _, p := range c.pieces {
		bytes += int64(len(p.GetData()))
	}
	if c.maxBytes > 0 && bytes > c.maxBytes {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the recording is full"))
	}
	c.pieces = append(c.pieces, req)
	return &consolev1.AppendRecordingResponse{}, nil
}

// cast is all that has been recorded, its lines in order.
func (c *console) cast() (text string, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pieces {
		text, ended = text+string(p.GetData()), ended || p.GetEnd()
	}
	return text, ended
}

func (c *console) setProject(mode consolev1.RecordingMode, namespaces ...string) {
	c.Put(&consolev1.Change{Change: &consolev1.Change_Project{Project: &consolev1.Project{
		Metadata: consoletest.Meta("shop"), Spec: &consolev1.ProjectSpec{
			Clusters: &consolev1.ClusterSelector{Names: []string{"edge-1"}}, Namespaces: namespaces, Recording: mode,
		},
	}}})
}

// socketFrame is a message of WebSocket on a channel; masked as clients do it.
func socketFrame(masked bool, channel byte, text string) []byte {
	payload := append([]byte{channel}, text...)
	frame := []byte{0x82}
	bit := byte(0)
	if masked {
		bit = 0x80
	}
	if len(payload) < 126 {
		frame = append(frame, bit|byte(len(payload)))
	} else {
		frame = binary.BigEndian.AppendUint16(append(frame, bit|126), uint16(len(payload)))
	}
	if masked {
		mask := []byte{1, 2, 3, 4}
		frame = append(frame, mask...)
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
	}
	return append(frame, payload...)
}

// spdyFrame is data of a stream of SPDY.
func spdyFrame(stream uint32, text string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, stream)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	return append(frame, text...)
}

// shell answers upgrades with a greeting, and with what says when it was asked; it ends with its client.
func shell(upgrade, protocol string, greeting []byte, asked *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !muxhttp.IsUpgrade(r.Header) {
			return
		}
		there, here := duplexPipe()
		go func() {
			_, _ = here.Write(greeting)
			_, _ = io.Copy(io.Discard, here)
			_ = here.Close()
		}()
		header := http.Header{"Upgrade": {upgrade}}
		if protocol != "" {
			header["Sec-Websocket-Protocol"] = []string{protocol}
		}
		if _, _, err := muxhttp.Splice(r.Context(), w, &http.Response{StatusCode: 101, Header: header, Body: there}); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// pipeEnd is one end of a connection in memory.
type pipeEnd struct {
	*io.PipeReader
	*io.PipeWriter
}

func (p pipeEnd) CloseWrite() error { return p.PipeWriter.Close() }
func (p pipeEnd) Close() error      { return errors.Join(p.PipeReader.Close(), p.PipeWriter.Close()) }

func duplexPipe() (a, b pipeEnd) {
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	return pipeEnd{ar, aw}, pipeEnd{br, bw}
}

// exec opens a shell as a person's client.
func (h *hub) exec(upgrade, offers string) (io.ReadWriteCloser, *http.Response) {
	h.t.Helper()
	conn := h.dialTLS()
	if offers != "" {
		offers = "Sec-WebSocket-Protocol: " + offers + "\r\n"
	}
	fmt.Fprintf(conn, "GET /clusters/edge-1/api/v1/namespaces/x/pods/web-0/exec?command=sh&command=-c&container=web HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%sAuthorization: Bearer %s\r\n\r\n", upgrade, offers, h.user())
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return struct {
		io.Reader
		io.WriteCloser
	}{reader, conn}, resp
}

// Output of the cluster is at the console while the session goes on, whatever becomes of the tunnel then; what is typed
// never is.
func TestShellsAreRecordedWhileTheyRun(t *testing.T) {
	t.Parallel()
	spdy := bytes.Join([][]byte{
		{0x80, 3, 0, 2, 0, 0, 0, 3},
		[]byte("zip"), spdyFrame(3, "hello é\n"),
		spdyFrame(5, "wrong\n"), spdyFrame(1, `{"metadata":{},"status":"Success"}`),
	}, nil)
	socket := bytes.Join([][]byte{
		socketFrame(false, 1, "hello é\n"),
		{0x89, 1, 'p'},
		socketFrame(false, 2, "wrong\n"),
		socketFrame(false, 1, strings.Repeat("x", 200)), socketFrame(false, 3, `{"status":"Success"}`),
	}, nil)
	const size = `{"Width":132,"Height":43}`
	for name, p := range map[string]struct {
		upgrade, protocol string
		greeting, typed   []byte
	}{
		"SPDY":      {"SPDY/3.1", "", spdy, bytes.Join([][]byte{spdyFrame(3, "my password\n"), spdyFrame(7, size)}, nil)},
		"WebSocket": {"websocket", "v5.channel.k8s.io", socket, bytes.Join([][]byte{socketFrame(true, 0, "my password\n"), socketFrame(true, 4, size)}, nil)},
	} {
		for _, at := range []string{"here", "relayed"} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				h := newHub(t, "edge-1")
				asked := &atomic.Int32{}
				user := h
				if at == "relayed" {
					user = h.another()
				}
				h.connect("edge-1", shell(p.upgrade, p.protocol, p.greeting, asked))
				h.setProject(consolev1.RecordingMode_RECORDING_MODE_REQUIRED, "x")
				h.await("the project is known", func() bool {
					resp, _ := user.do(user.request("GET", "/clusters/edge-1/api/v1/nodes/n/proxy/runningpods/", nil))
					return resp.StatusCode == http.StatusForbidden
				})
				conn, resp := user.exec(p.upgrade, p.protocol)
				if resp.StatusCode != http.StatusSwitchingProtocols {
					t.Fatal(resp.Status)
				}
				got := make([]byte, len(p.greeting))
				if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, p.greeting) {
					t.Fatalf("it got %q, %v", got, err)
				}
				if _, err := conn.Write(p.typed); err != nil {
					t.Fatal(err)
				}
				h.await("output and size at the console", func() bool {
					text, ended := h.cast()
					return !ended && hasAll(text, `"o", "hello é\n"`, `"o", "wrong\n"`, `"r", "132x43"`)
				})
				_ = conn.Close()
				h.await("its end", func() bool { _, ended := h.cast(); return ended })
				text, _ := h.cast()
				if strings.Contains(text, "password") || strings.Contains(text, "Success") {
					t.Errorf("recorded: %s", text)
				}
				for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
					var head struct {
						Version int
						Command string
					}
					var event [3]any
					if i == 0 && (json.Unmarshal([]byte(line), &head) != nil || head.Version != 2 || head.Command != "sh -c") || i > 0 && json.Unmarshal([]byte(line), &event) != nil {
						t.Errorf("line %d: %s", i, line)
					}
				}
				h.await("the begin of the session in the trail",
					func() bool { return len(h.audited("tunnel.request.begin")) == 1 })
				request := h.audited("tunnel.request.begin")[0].GetRequest()
				h.mu.Lock()
				defer h.mu.Unlock()
				if request == "" || len(h.recordings) != 1 || h.recordings[0].GetRequest() != request {
					t.Errorf("recordings %v, and request %q in the trail", h.recordings, request)
				}
				if len(h.recordings) != 1 || h.recordings[0].GetPod() != "web-0" ||
					h.recordings[0].GetNamespace() != "x" || h.recordings[0].GetContainer() != "web" ||
					h.recordings[0].GetSubject() != "user:alice" || h.recordings[0].GetVerb() != "exec" {
					t.Errorf("recordings %v", h.recordings)
				}
			})
		}
	}
}

// A session that has to be recorded ends where its recording is full, and its person saw nothing that is not in the
// recording.
func TestNothingIsShownThatHasNoRoomInTheRecording(t *testing.T) {
	t.Parallel()
	const protocol, lines = "v5.channel.k8s.io", 400
	var greeting []byte
	for i := range lines {
		greeting = append(greeting, socketFrame(false, 1,
			fmt.Sprintf("line %03d of the screen %s\n", i, strings.Repeat("x", 1<<10)))...)
	}
	h := newHub(t, "edge-1")
	h.mu.Lock()
	h.maxBytes = 100_000
	h.mu.Unlock()
	h.connect("edge-1", shell("websocket", protocol, greeting, &atomic.Int32{}))
	h.setProject(consolev1.RecordingMode_RECORDING_MODE_REQUIRED)
	h.await("the project is known", func() bool {
		resp, _ := h.do(h.request("GET", "/clusters/edge-1/api/v1/nodes/n/proxy/runningpods/", nil))
		return resp.StatusCode == http.StatusForbidden
	})
	conn, resp := h.exec("websocket", protocol)
	defer conn.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	shown, err := io.ReadAll(conn) // the connection breaks off
	if len(shown) == 0 || len(shown) == len(greeting) {
		t.Fatalf("%d of %d bytes were shown, %v", len(shown), len(greeting), err)
	}
	h.await("the end of the recording", func() bool { _, ended := h.cast(); return ended })
	text, _ := h.cast()
	for i := range lines {
		line := fmt.Sprintf("line %03d of the screen", i)
		if bytes.Contains(shown, []byte(line)) && !strings.Contains(text, line) {
			t.Fatalf("%q was shown, and is not in the recording of %d bytes", line, len(text))
		}
	}
	h.mu.Lock()
	incomplete := h.pieces[len(h.pieces)-1].GetIncomplete()
	h.mu.Unlock()
	if incomplete != "" || int64(len(text)) > h.maxBytes || int64(len(text)) < h.maxBytes/2 {
		t.Errorf("%d bytes of at most %d, incomplete: %q", len(text), h.maxBytes, incomplete)
	}
	h.await("the reason in the trail", func() bool {
		return slices.ContainsFunc(h.audited("tunnel.request.end"),
			func(e *consolev1.AuditEvent) bool { return strings.Contains(e.GetReason(), "recording is full") })
	})
}

// A shell that has to be recorded and can't be is refused before the cluster is asked, or ends; others go on.
func TestAShellThatCanNotBeRecorded(t *testing.T) {
	t.Parallel()
	const required, optional = consolev1.RecordingMode_RECORDING_MODE_REQUIRED, consolev1.RecordingMode_RECORDING_MODE_OPTIONAL
	greeting := socketFrame(false, 1, "hello\n")
	for name, tc := range map[string]struct {
		mode     consolev1.RecordingMode
		protocol string
		away     bool
		full     bool
		noRoom   bool
		status   int
		ends     bool
		asked    int32
	}{
		"required, the console is away":   {required, "v5.channel.k8s.io", true, false, false, http.StatusServiceUnavailable, false, 0},
		"optional, the console is away":   {optional, "v5.channel.k8s.io", true, false, false, http.StatusSwitchingProtocols, false, 1},
		"required, a protocol of another": {required, "base64.channel.k8s.io", false, false, false, http.StatusForbidden, false, 0},
		"required, version 4 in base64":   {required, "v4.base64.channel.k8s.io", false, false, false, http.StatusForbidden, false, 0},
		"optional, a protocol of another": {optional, "base64.channel.k8s.io", false, false, false, http.StatusSwitchingProtocols, false, 1},
		"required, the recording is full": {required, "v5.channel.k8s.io", false, true, false, http.StatusSwitchingProtocols, true, 1},
		"required, no room for another":   {required, "v5.channel.k8s.io", false, false, true, http.StatusForbidden, false, 0},
		"optional, no room for another":   {optional, "v5.channel.k8s.io", false, false, true, http.StatusSwitchingProtocols, false, 1},
		"optional, the recording is full": {optional, "v5.channel.k8s.io", false, true, false, http.StatusSwitchingProtocols, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "edge-1")
			asked := &atomic.Int32{}
			h.connect("edge-1", shell("websocket", tc.protocol, greeting, asked))
			h.setProject(required) // every namespace; seen by what it refuses
			h.await("the project is known", func() bool {
				resp, _ := h.do(h.request("GET", "/clusters/edge-1/api/v1/nodes/n/proxy/runningpods/", nil))
				return resp.StatusCode == http.StatusForbidden
			})
			before := asked.Load()
			if tc.mode == optional {
				h.setProject(optional)
				h.await("the project is changed", func() bool {
					resp, _ := h.do(h.request("GET", "/clusters/edge-1/api/v1/nodes/n/proxy/runningpods/", nil))
					return resp.StatusCode == http.StatusOK
				})
				before = asked.Load()
			}
			h.setAway(tc.away)
			h.mu.Lock()
			h.full, h.noRoom = tc.full, tc.noRoom
			h.mu.Unlock()
			conn, resp := h.exec("websocket", tc.protocol)
			defer conn.Close()
			if resp.StatusCode != tc.status || asked.Load()-before != tc.asked {
				t.Fatalf("%s, asked %d times", resp.Status, asked.Load()-before)
			}
			if tc.status != http.StatusSwitchingProtocols {
				if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "recorded") {
					t.Errorf("%s, %v", body, err)
				}
				return
			}
			if tc.ends {
				if _, err := io.Copy(io.Discard, conn); err == nil {
					t.Log("it ended")
				}
				h.await("the reason in the trail", func() bool {
					for _, e := range h.audited("tunnel.request.end") {
						if strings.Contains(e.GetReason(), "recording is full") {
							return true
						}
					}
					return false
				})
				return
			}
			got := make([]byte, len(greeting))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, greeting) {
				t.Errorf("it got %q, %v", got, err)
			}
		})
	}
}
