package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/wildcard"
)

// Recordings are kept by the console.
type Recordings interface {
	BeginRecording(context.Context, *consolev1.BeginRecordingRequest) (*consolev1.BeginRecordingResponse, error)
	AppendRecording(context.Context, *consolev1.AppendRecordingRequest) (*consolev1.AppendRecordingResponse, error)
}

const (
	// sendEvery is how old what was shown may be before it is sent: that much is lost with the tunnel.
	sendEvery = 500 * time.Millisecond
	// goesOnEvery is how often the console hears of a session that shows nothing, so that it can tell a session that
	// goes on from one whose tunnel was killed.
	goesOnEvery = 10 * time.Second
	// sendBytes is how much is sent at once.
	sendBytes = 512 << 10
	// maxUnsent bounds what a session shows before the console has it, and maxUnsentAll what all sessions of a tunnel
	// do together. A session may always have ownUnsent: a busy one holds up no prompt of another.
	maxUnsent, maxUnsentAll, ownUnsent = 2 << 20, 64 << 20, 32 << 10
	// stallAfter is how long a piece may be under way before a session that has to be recorded shows nothing more.
	stallAfter = time.Second
	// sendTimeout bounds one try, and sendPatience all tries for one piece.
	sendTimeout, sendPatience = 5 * time.Second, 20 * time.Second
	sendPause                 = 250 * time.Millisecond
	// sizeBytes bounds the message that says how large a screen is.
	sizeBytes = 64
)

// unrecordedError ends a session that has to be recorded and can't be any more.
type unrecordedError struct{ why error }

func (e unrecordedError) Error() string {
	return fmt.Sprintf("the session has to be recorded, and its recording can't go on: %v", e.why)
}

// recordingMode is what projects say of shells in a namespace of a cluster: the strictest of them; empty: any
// namespace.
func (x *exchange) recordingMode(cluster *consolev1.Cluster, namespace string) (strictest consolev1.RecordingMode) {
	for _, p := range x.handler.Catalog.Projects() {
		mode, namespaces := p.GetSpec().GetRecording(), p.GetSpec().GetNamespaces()
		if mode == consolev1.RecordingMode_RECORDING_MODE_UNSPECIFIED ||
			strictest == consolev1.RecordingMode_RECORDING_MODE_REQUIRED || !choosesCluster(p.GetSpec().GetClusters(), cluster) {
			continue
		}
		if namespace == "" || len(namespaces) == 0 || wildcard.Any(namespaces, namespace) {
			strictest = mode
		}
	}
	return strictest
}

// choosesCluster tells whether a project is about a cluster.
func choosesCluster(s *consolev1.ClusterSelector, cluster *consolev1.Cluster) bool {
	if s.GetAll() {
		return true
	}
	for _, name := range s.GetNames() {
		if name == cluster.GetMetadata().GetName() {
			return true
		}
	}
	for key, value := range s.GetLabels() {
		if is, ok := cluster.GetMetadata().GetLabels()[key]; !ok || is != value {
			return false
		}
	}
	return len(s.GetLabels()) > 0
}

// beginRecording begins the recording of a session before the cluster is asked, if a project wants one. Nil and nil:
// none does, or it goes on without.
func (x *exchange) beginRecording(r *http.Request) (*cast, *kubehttp.Error) {
	if x.relayed || x.handler.Recordings == nil { // the replica that is asked by the user records
		return nil, nil
	}
	cluster, ok := x.handler.Catalog.Cluster(x.cluster)
	if !ok {
		return nil, nil
	}
	if x.info.Subresource == "proxy" && x.info.Resource == "nodes" || x.info.Group == "" && x.info.Resource == "proxy" {
		if x.recordingMode(cluster, "") == consolev1.RecordingMode_RECORDING_MODE_REQUIRED {
			return nil, &kubehttp.Error{Code: http.StatusForbidden, Message: fmt.Sprintf(
				"cluster %q: a project has shells here recorded, and a node's own API gives shells that can't be: use exec and attach", x.cluster)}
		}
		return nil, nil
	}
	shell := x.info.Resource == "pods" && x.info.Group == "" && (x.info.Subresource == "exec" || x.info.Subresource == "attach")
	if !shell || !muxhttp.IsUpgrade(r.Header) {
		return nil, nil
	}
	mode := x.recordingMode(cluster, x.info.Namespace)
	if mode == consolev1.RecordingMode_RECORDING_MODE_UNSPECIFIED {
		return nil, nil
	}
	if required := mode == consolev1.RecordingMode_RECORDING_MODE_REQUIRED; required && !offerRecordable(r.Header) {
		return nil, x.unrecordableError() // before the command begins
	}
	c := newCast(x, mode == consolev1.RecordingMode_RECORDING_MODE_REQUIRED)
	ctx, cancel := context.WithTimeout(r.Context(), sendTimeout)
	defer cancel()
	begun, err := x.handler.Recordings.BeginRecording(ctx, &consolev1.BeginRecordingRequest{Recording: &consolev1.Recording{
		Id: c.id, Cluster: x.cluster, Namespace: x.info.Namespace, Pod: x.info.Name, Container: x.query.Get("container"), Verb: x.info.Subresource,
		Subject: x.user.Subject(), Request: x.requestID, BeginTime: timestamppb.New(c.began),
	}})
	if err != nil {
		if c.required {
			return nil, x.untakenError(err)
		}
		x.handler.Log.WarnContext(r.Context(), "session is not recorded", "cluster", x.cluster, "err", err)
		return nil, nil
	}
	title := fmt.Sprintf("%s %s/%s at %s by %s", x.info.Subresource, x.info.Namespace, x.info.Name, x.cluster, x.user.Name)
	c.maxBytes = begun.GetMaxBytes()
	c.appendLines(headOf(c.began, title, strings.Join(x.query["command"], " ")))
	go c.sendPieces(context.WithoutCancel(r.Context()))
	return c, nil
}

// untakenError refuses a session that has to be recorded because the console does not take its recording.
func (x *exchange) untakenError(err error) *kubehttp.Error {
	why := err.Error()
	if connectErr, ok := errors.AsType[*connect.Error](err); ok {
		why = connectErr.Message()
	}
	refused := &kubehttp.Error{Code: http.StatusServiceUnavailable, RetryAfterSeconds: 5, Message: fmt.Sprintf(
		"cluster %q: a project has shells here recorded, and the console does not take the recording: %s", x.cluster, why)}
	if connect.CodeOf(err) == connect.CodeResourceExhausted { // not over in a moment: clients need not try again
		refused.Code, refused.RetryAfterSeconds = http.StatusForbidden, 0
		return refused
	}
	refused.Message += ". Try again in a moment"
	return refused
}

// cast is a recording on its way to the console. Passing bytes are read as they go. A session that has to be recorded
// waits for the console while there is no room for what it shows, or a piece has been under way for stallAfter; nothing
// of it is shown that has no room in the recording.
type cast struct {
	exchange *exchange
	id       string
	began    time.Time
	required bool
	maxBytes int64  // of the recording; 0: an older console, which counts alone
	down, up frames // each used by one direction
	size     []byte // of the message that may say how large the screen is; used by the direction up
	rest     []byte // of a character; used by the direction down

	wake       chan struct{}
	stop, done chan struct{}

	mu         sync.Mutex // guards what follows
	room       *sync.Cond // there is some, or no need for it
	pending    []byte     // whole lines that wait to be sent
	sending    int        // bytes of the piece that is under way
	stalled    bool       // the piece has been under way for long
	bytes      int64      // of all lines
	full       error      // no more lines fit
	incomplete string
	failed     error
	ended      bool
}

func newCast(x *exchange, required bool) *cast {
	c := &cast{
		exchange: x, id: audit.NewID(), began: time.Now(), required: required,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.room = sync.NewCond(&c.mu)
	return c
}

// offerRecordable has a request offer only what can be recorded, and tells whether that is anything: the command begins
// with the answer.
func offerRecordable(h http.Header) bool {
	const name = "Sec-Websocket-Protocol"
	if isRecordable(h.Get("Upgrade"), "") {
		return true
	}
	var offers []string
	for offer := range strings.SplitSeq(strings.Join(h[name], ","), ",") {
		if offer = strings.TrimSpace(offer); isRecordable(h.Get("Upgrade"), offer) {
			offers = append(offers, offer)
		}
	}
	h[name] = []string{strings.Join(offers, ", ")}
	return len(offers) > 0
}

func isRecordable(upgrade, protocol string) bool {
	down, _ := framesOf(upgrade, protocol, "")
	return down != nil
}

// unrecordableError refuses a client whose protocol can't be recorded.
func (x *exchange) unrecordableError() *kubehttp.Error {
	return &kubehttp.Error{Code: http.StatusForbidden, Message: fmt.Sprintf(
		"cluster %q: a project has shells here recorded, and this client's protocol can't be: use SPDY/3.1 or WebSocket with v5.channel.k8s.io or v4.channel.k8s.io, as kubectl does", x.cluster)}
}

// attachTo has the recording see what passes. attach refuses what can't be read, if that has to be recorded.
func (c *cast) attachTo(resp *http.Response) *kubehttp.Error {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	conn, ok := resp.Body.(tapped)
	c.down, c.up = framesOf(resp.Header.Get("Upgrade"), resp.Header.Get("Sec-Websocket-Protocol"), resp.Header.Get("Sec-Websocket-Extensions"))
	if !ok || c.down == nil {
		c.mu.Lock()
		c.incomplete = "the session's protocol is none that can be recorded"
		c.mu.Unlock()
		if !c.required {
			return nil
		}
		return c.exchange.unrecordableError()
	}
	resp.Body = &tap{conn, c}
	return nil
}

// tapped is an upgraded connection.
type tapped interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// tap shows a recording what passes.
type tap struct {
	tapped
	cast *cast
}

// Read is what the cluster sends.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.tapped.Read(p)
	if n > 0 {
		if failed := t.cast.takeShown(p[:n]); failed != nil {
			return 0, failed
		}
	}
	return n, err
}

// Write is what the client sends.
func (t *tap) Write(p []byte) (int, error) {
	t.cast.takeSent(p)
	return t.tapped.Write(p)
}

// success is what ends a command that ended well; it is not for a screen.
const success = `{"metadata":{},"status":"Success"}`

// takeShown takes in what the cluster sends. The error ends the session.
func (c *cast) takeShown(p []byte) error {
	var lines []byte
	c.down.feedFrames(p, func(part []byte, _ bool) {
		if len(part) == 0 || string(part) == success {
			return
		}
		text, rest := splitText(append(c.rest, part...))
		c.rest = bytes.Clone(rest)
		if len(text) > 0 {
			lines = append(lines, castLine(time.Since(c.began), "o", string(text))...)
		}
	})
	err := c.addLines(lines)
	if err != nil {
		c.endSession(err)
	}
	return err
}

// takeSent takes in what the client sends, for the size of the screen.
func (c *cast) takeSent(p []byte) {
	c.up.feedFrames(p, func(part []byte, begin bool) {
		if begin {
			c.size = c.size[:0]
		}
		if len(c.size)+len(part) > sizeBytes {
			c.size = append(c.size[:0], make([]byte, sizeBytes)...) // is no size, whatever follows
			return
		}
		c.size = append(c.size, part...)
		if !bytes.HasPrefix(c.size, []byte(`{"Width":`)) || !bytes.HasSuffix(bytes.TrimSpace(c.size), []byte{'}'}) {
			return
		}
		var size struct{ Width, Height uint16 }
		if json.Unmarshal(c.size, &size) == nil {
			_ = c.addLines(castLine(time.Since(c.began), "r", strconv.Itoa(int(size.Width))+"x"+strconv.Itoa(int(size.Height)))) // the cluster's output finds out
		}
	})
}

// addLines puts lines on their way. A session that has to be recorded waits for room, and the error ends it.
func (c *cast) addLines(lines []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.required && c.failed == nil && c.full == nil && !c.ended && !c.hasRoom() {
		c.room.Wait()
	}
	if failed := cmp.Or(c.failed, c.full); failed != nil && c.required {
		return failed // nothing more is shown
	}
	switch {
	case c.failed != nil || c.full != nil || c.ended || len(lines) == 0:
		return nil
	case c.maxBytes > 0 && c.bytes+int64(len(lines)) > c.maxBytes:
		c.full = unrecordedError{fmt.Errorf("the recording is full: it may have %d KiB", c.maxBytes>>10)}
		if c.required {
			return c.full // the recording has all that was shown
		}
		c.incomplete = fmt.Sprintf("it is full: it may have %d KiB", c.maxBytes>>10)
		return nil
	case !c.hasRoom():
		c.incomplete = "more was shown at once than the console took"
		return nil
	}
	c.appendLines(lines)
	if len(c.pending) >= sendBytes {
		c.wakeSender()
	}
	return nil
}

// appendLines is called with the lock held, or before there are others.
func (c *cast) appendLines(lines []byte) {
	c.pending = append(c.pending, lines...)
	c.bytes += int64(len(lines))
	c.exchange.handler.unsent.Add(int64(len(lines)))
}

// hasRoom is called with the lock held. A session that has to wait has something that is or will be under way: it looks
// again when that was taken.
func (c *cast) hasRoom() bool {
	if c.required && c.stalled {
		return false
	}
	own := len(c.pending) + c.sending
	return own <= ownUnsent || own <= maxUnsent && c.exchange.handler.unsent.Load() <= maxUnsentAll
}

func (c *cast) wakeSender() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// endRecording sends what is left, and says that there is no more.
func (c *cast) endRecording() {
	if c == nil {
		return
	}
	close(c.stop)
	<-c.done
}

// sendPieces hands pieces to the console until the end.
func (c *cast) sendPieces(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	heard := time.Now()
	for sequence, over := int64(1), false; !over; {
		select {
		case <-c.wake:
		case <-ticker.C:
		case <-c.stop:
			over = true
		}
		for {
			piece, incomplete, last := c.takePiece(over)
			if len(piece) == 0 && !last {
				break
			}
			err := c.putPiece(ctx, &consolev1.AppendRecordingRequest{Id: c.id, Sequence: sequence, Data: piece, End: last, Incomplete: incomplete})
			if err != nil {
				c.failRecording(ctx, err)
				<-c.stop
				return
			}
			c.noteTaken()
			heard = time.Now()
			sequence++
			if last {
				return
			}
		}
		if !over && time.Since(heard) >= goesOnEvery {
			c.goOn(ctx, sequence)
			heard = time.Now()
		}
	}
}

// goOn tells the console that the session goes on. A console that is away hears of the session later: only what is
// shown has to reach it.
func (c *cast) goOn(ctx context.Context, sequence int64) {
	try, cancel := context.WithTimeout(ctx, stallAfter) // output meanwhile waits for it
	defer cancel()
	if _, err := c.exchange.handler.Recordings.AppendRecording(try, &consolev1.AppendRecordingRequest{Id: c.id, Sequence: sequence}); err != nil {
		c.exchange.handler.Log.DebugContext(ctx, "console does not hear that a recorded session goes on", "cluster", c.exchange.cluster, "recording", c.id, "err", err)
	}
}

// takePiece returns the next piece, of whole lines; last: there is none behind it.
func (c *cast) takePiece(over bool) (piece []byte, incomplete string, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.pending)
	if n > sendBytes {
		n = bytes.LastIndexByte(c.pending[:sendBytes], '\n') + 1
	}
	piece, c.pending = c.pending[:n:n], c.pending[n:]
	if len(c.pending) == 0 {
		c.pending = nil // sessions that wait for their person hold no memory
	}
	c.sending = n
	last = over && len(c.pending) == 0
	c.ended = c.ended || last
	return piece, c.incomplete, last
}

// noteTaken says that the console has the piece that was under way.
func (c *cast) noteTaken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchange.handler.unsent.Add(-int64(c.sending))
	c.sending, c.stalled = 0, false
	c.room.Broadcast()
}

// noteStall says that the console has not taken the piece that is under way for long.
func (c *cast) noteStall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = c.sending > 0
}

// putPiece gives a piece to the console, again while it does not answer.
func (c *cast) putPiece(ctx context.Context, piece *consolev1.AppendRecordingRequest) error {
	defer time.AfterFunc(stallAfter, c.noteStall).Stop()
	for deadline := time.Now().Add(sendPatience); ; {
		try, cancel := context.WithTimeout(ctx, sendTimeout)
		_, err := c.exchange.handler.Recordings.AppendRecording(try, piece)
		cancel()
		switch connect.CodeOf(err) {
		case connect.CodeFailedPrecondition, connect.CodeNotFound, connect.CodeInvalidArgument:
			return err
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if !retry.Sleep(ctx, sendPause) {
			return err
		}
	}
}

// failRecording ends the recording before its session, and the session if it has to be recorded.
func (c *cast) failRecording(ctx context.Context, why error) {
	c.exchange.handler.Log.WarnContext(ctx, "recording of a session ended before it", "cluster", c.exchange.cluster, "recording", c.id, "err", why)
	if connectErr, ok := errors.AsType[*connect.Error](why); ok {
		why = errors.New(connectErr.Message())
	}
	c.mu.Lock()
	c.failed = unrecordedError{why}
	c.exchange.handler.unsent.Add(-int64(len(c.pending) + c.sending))
	c.pending, c.sending = nil, 0
	c.room.Broadcast()
	c.mu.Unlock()
	try, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	// The last piece says so if it can; without it the recording has no end.
	_, _ = c.exchange.handler.Recordings.AppendRecording(try, &consolev1.AppendRecordingRequest{Id: c.id, Sequence: 1_000_000, End: true, Incomplete: why.Error()})
	c.endSession(unrecordedError{why})
}

// endSession ends a session that has to be recorded and can't be any more, with a reason for the audit trail.
func (c *cast) endSession(why error) {
	if !c.required || c.exchange.lasting == nil {
		return
	}
	c.exchange.handler.standing.endRequest(c.exchange.lasting, why)
}
