package mux_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a live session over a pipe.
type pair struct {
	hub, agent       *mux.Session
	hubLine          *muxtest.Carrier
	agentLine        *muxtest.Carrier
	hubErr, agentErr chan error
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{hubErr: make(chan error, 1), agentErr: make(chan error, 1)}
	p.hubLine, p.agentLine = muxtest.Pipe()
	var err error
	if p.hub, err = mux.NewOpener(p.hubLine, map[string]string{"replica": "a"}); err != nil {
		t.Fatal(err)
	}
	if p.agent, err = mux.NewAcceptor(p.agentLine, map[string]string{"version": "v1"}); err != nil {
		t.Fatal(err)
	}
	go func() { p.hubErr <- p.hub.Run(context.Background()) }()
	go func() { p.agentErr <- p.agent.Run(context.Background()) }()
	t.Cleanup(func() {
		p.hub.Close(mux.CodeNone, "")
		p.agent.Close(mux.CodeNone, "")
		<-p.hub.Done()
		<-p.agent.Done()
	})
	<-p.hub.Ready()
	<-p.agent.Ready()
	return p
}

// open opens a stream and takes it on the other side.
func (p *pair) open(t *testing.T, part mux.Part) (hub, agent *mux.Stream) {
	t.Helper()
	hub, err := p.hub.Open([]byte("hello"), part)
	if err != nil {
		t.Fatal(err)
	}
	agent, err = p.agent.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	t.Cleanup(agent.Close)
	return hub, agent
}

func TestHandshakeTellsProperties(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if got := p.hub.Peer().Properties["version"]; got != "v1" {
		t.Errorf("hub sees version %q", got)
	}
	if got := p.agent.Peer().Properties["replica"]; got != "a" {
		t.Errorf("agent sees replica %q", got)
	}
}

func TestExchangeWithTrailers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{Headers: []byte("GET"), Data: []byte("question"), End: true})
	if string(agent.Opening()) != "hello" {
		t.Errorf("OPEN payload %q", agent.Opening())
	}
	if h, err := agent.ReadHeaders(); err != nil || string(h) != "GET" {
		t.Fatalf("headers %q, %v", h, err)
	}
	if b, err := io.ReadAll(agent); err != nil || string(b) != "question" {
		t.Fatalf("data %q, %v", b, err)
	}
	if err := agent.Send(mux.Part{Headers: []byte("103")}); err != nil {
		t.Fatal(err)
	}
	if err := agent.Send(mux.Part{Headers: []byte("200"), Data: []byte("answer"), End: true, Trailers: []byte("bye")}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"103", "200"} {
		if h, err := hub.ReadHeaders(); err != nil || string(h) != want {
			t.Fatalf("headers %q, %v, want %q", h, err, want)
		}
	}
	if b, err := io.ReadAll(hub); err != nil || string(b) != "answer" || string(hub.Trailers()) != "bye" {
		t.Fatalf("data %q, trailers %q, %v", b, hub.Trailers(), err)
	}
	hub.Close()
	agent.Close()
	waitStreams(t, p)
}

// waitStreams waits until both sides have no stream left.
func waitStreams(t *testing.T, p *pair) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for p.hub.Stats().Streams+p.agent.Stats().Streams > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("hub has %d streams, agent %d, want none", p.hub.Stats().Streams, p.agent.Stats().Streams)
		}
		runtime.Gosched()
	}
}

func TestBulkArrivesWholeBothWays(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{})
	const size = 8 << 20
	want := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(r.Uint32())
	}
	var wg sync.WaitGroup
	for _, st := range []*mux.Stream{hub, agent} {
		wg.Go(func() {
			for p := want; len(p) > 0; {
				n := min(len(p), 1+rand.IntN(100_000))
				if _, err := st.Write(p[:n]); err != nil {
					t.Error(err)
					return
				}
				p = p[n:]
			}
			if err := st.CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			got, err := io.ReadAll(st)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %d bytes, %v: not what was sent", len(got), err)
			}
		})
	}
	wg.Wait()
}

func TestStalledReaderDoesNotSlowOthers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	// 30 streams whose reader never reads, each filled until its writer waits.
	var full sync.WaitGroup
	var writers sync.WaitGroup
	for range 30 {
		_, agent := p.open(t, mux.Part{})
		full.Add(1)
		writers.Go(func() {
			var sent int
			buf := make([]byte, 16<<10)
			for {
				if sent == 128<<10 {
					full.Done() // window and send buffer are full: the next Write waits
				}
				n, err := agent.Write(buf)
				sent += n
				if err != nil {
					return
				}
				if sent > 256<<10 {
					t.Error("a stalled stream took more than its window")
					return
				}
			}
		})
	}
	full.Wait()
	for i := range 200 {
		hub, agent := p.open(t, mux.Part{Data: []byte("ping"), End: true})
		if b, err := io.ReadAll(agent); err != nil || string(b) != "ping" {
			t.Fatalf("%d: %q, %v", i, b, err)
		}
		if err := agent.Send(mux.Part{Data: []byte("pong"), End: true}); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(hub); err != nil || string(b) != "pong" {
			t.Fatalf("%d: %q, %v", i, b, err)
		}
		hub.Close()
		agent.Close()
	}
	p.hub.Close(mux.CodeNone, "")
	writers.Wait()
}

func TestResetReachesTheOtherSide(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{Data: []byte("x")})
	agent.Reset(mux.CodeUpstream, "API server went away")
	var reset *mux.ResetError
	if _, err := io.ReadAll(hub); !errors.As(err, &reset) || reset.Code != mux.CodeUpstream ||
		reset.Text != "API server went away" {
		t.Errorf("hub read error %v", err)
	}
	<-hub.Context().Done()
	if _, err := hub.Write([]byte("y")); !errors.As(err, &reset) {
		t.Errorf("hub write error %v", err)
	}
	if _, err := agent.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("agent read after own reset: %v", err)
	}
}

func TestContextThatIsAskedForLateHasEnded(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{Data: []byte("x")})
	agent.Reset(mux.CodeUpstream, "API server went away")
	if _, err := io.ReadAll(hub); err == nil {
		t.Fatal("the stream ended well")
	}
	var reset *mux.ResetError
	if err := context.Cause(hub.Context()); !errors.As(err, &reset) || reset.Code != mux.CodeUpstream {
		t.Errorf("context ended with %v", err)
	}
}

func TestResetAfterCleanEndKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{Headers: []byte("POST")}) // the body never ends
	answer := bytes.Repeat([]byte("a"), 50_000)
	if err := agent.Send(mux.Part{Headers: []byte("413"), Data: answer, End: true}); err != nil {
		t.Fatal(err)
	}
	agent.Close() // not interested in the rest of the question
	<-hub.Context().Done()
	if h, err := hub.ReadHeaders(); err != nil || string(h) != "413" {
		t.Fatalf("headers %q, %v", h, err)
	}
	if b, err := io.ReadAll(hub); err != nil || !bytes.Equal(b, answer) {
		t.Fatalf("answer of %d bytes, %v", len(b), err)
	}
	if _, err := hub.Write([]byte("more")); err == nil {
		t.Error("the question still goes on after the peer said stop")
	}
	hub.Close()
	waitStreams(t, p)
}

func TestLostSessionIsAnErrorNotTheEnd(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{})
	if _, err := agent.Write([]byte("half an ans")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if _, err := hub.Read(buf); err != nil {
		t.Fatal(err)
	}
	_ = p.agentLine.Close()
	if _, err := hub.Read(buf); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read after the line broke: %v", err)
	}
	if err := <-p.hubErr; err == nil {
		t.Error("Run returned no error")
	}
}

func TestResetStormLeaksNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	var wg, openers sync.WaitGroup
	wg.Go(func() {
		for {
			st, err := p.agent.Accept(context.Background())
			if err != nil {
				return
			}
			wg.Go(func() {
				defer st.Close()
				_, _ = st.Write(make([]byte, 10_000))
				<-st.Context().Done()
			})
		}
	})
	for range 4 {
		openers.Go(func() {
			for i := range 5_000 {
				st, err := p.hub.Open([]byte("x"), mux.Part{Headers: []byte("h"), Data: make([]byte, i%100)})
				if errors.Is(err, mux.ErrTooManyStreams) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				if i%3 == 0 {
					_, _ = st.Read(make([]byte, 1))
				}
				st.Close()
			}
		})
	}
	openers.Wait()
	waitStreams(t, p)
	p.hub.Close(mux.CodeNone, "done")
	wg.Wait()
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	var open []*mux.Stream
	for {
		st, err := p.hub.Open(nil, mux.Part{})
		if errors.Is(err, mux.ErrTooManyStreams) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if open = append(open, st); len(open) > 2000 {
			t.Fatal("no bound on streams")
		}
	}
	for _, st := range open {
		st.Close()
	}
	if _, err := p.hub.Open(nil, mux.Part{}); err != nil {
		t.Errorf("open after the others closed: %v", err)
	}
}

func TestGoAwayLetsRunningStreamsFinish(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{Data: []byte("q"), End: true})
	drained := make(chan struct{})
	go func() { defer close(drained); p.hub.Drain(context.Background(), "replica restarts") }()
	<-p.agent.Gone()
	if _, err := p.hub.Open(nil, mux.Part{}); !errors.Is(err, mux.ErrGoAway) {
		t.Errorf("open while draining: %v", err)
	}
	if err := agent.Send(mux.Part{Data: []byte("late answer"), End: true}); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(hub); err != nil || string(b) != "late answer" {
		t.Fatalf("%q, %v", b, err)
	}
	select {
	case <-drained:
		t.Error("drain did not wait for the stream")
	default:
	}
	_, _ = io.ReadAll(agent)
	hub.Close()
	agent.Close()
	<-drained
	var gone *mux.GoAwayError
	if err := <-p.agentErr; !errors.As(err, &gone) || gone.Text != "replica restarts" {
		t.Errorf("agent's session ended with %v", err)
	}
}

// An agent that hears of a drain dials a replacement at once. A session that is ended is no drain: something is wrong.
func TestCloseIsNoDrain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.hub.Close(mux.CodeNone, "over")
	<-p.agent.Done()
	select {
	case <-p.agent.Gone():
		t.Error("the agent takes the end for a drain")
	default:
	}
}

func TestAgentGoAwayRefusesWhatItHasNotSeen(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.agent.GoAway("agent stops")
	<-p.hub.Gone()
	if _, err := p.hub.Open(nil, mux.Part{}); !errors.Is(err, mux.ErrGoAway) {
		t.Errorf("open: %v", err)
	}
}

func TestSilentPeerIsFoundWithinFifteenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(7 * time.Second) //nolint:forbidigo // fake time
		start := time.Now()
		p.agentLine.Darken()
		err := <-p.hubErr
		if !errors.Is(err, mux.ErrDead) {
			t.Errorf("hub's session ended with %v", err)
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("found after %v", d)
		}
	})
}

func TestIdleSessionLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(time.Hour) //nolint:forbidigo // fake time
		if st := p.hub.Stats(); !st.Usable || st.RoundTrip == 0 {
			t.Errorf("after an hour: %+v", st)
		}
	})
}

func TestMissingHelloEndsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line, other := muxtest.Pipe()
		defer other.Close()
		s, err := mux.NewOpener(line, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "HELLO") {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestStuckLineIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		hub, _ := p.open(t, mux.Part{})
		p.agentLine.Darken()
		go func() {
			for {
				if _, err := hub.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		}()
		<-p.hub.Done()
	})
}

func TestContextEndsRun(t *testing.T) {
	t.Parallel()
	line, other := muxtest.Pipe()
	defer other.Close()
	s, err := mux.NewAcceptor(line, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if err := s.Run(ctx); !errors.Is(err, why) {
		t.Errorf("Run: %v", err)
	}
}

// script runs a session against frames that a test writes by hand and returns why it ended.
func script(t *testing.T, session func(mux.Carrier, map[string]string) (*mux.Session, error),
	batches ...[]byte,
) (lastWords mux.Frame, ended error) {
	t.Helper()
	line, other := muxtest.Pipe()
	s, err := session(line, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	go func() {
		for _, b := range batches {
			_ = other.Send(b)
		}
	}()
	for {
		b, err := other.Receive()
		if err != nil {
			break
		}
		for len(b) > 0 {
			f, rest, err := mux.DecodeFrame(b)
			if err != nil {
				t.Fatal(err)
			}
			lastWords, b = f, rest
		}
		if lastWords.Type == mux.TypeGoAway {
			_ = other.Close()
			break
		}
	}
	return lastWords, <-done
}

func hello(minV, maxV uint8) []byte {
	h := mux.Hello{MinVersion: minV, MaxVersion: maxV, Window: 1 << 16, MaxStreams: 10}
	return mux.AppendFrame(nil, mux.TypeHello, 0, h.Append(nil))
}

func TestVersionsThatDoNotMeet(t *testing.T) {
	t.Parallel()
	last, err := script(t, mux.NewOpener, hello(7, 9))
	if _, ok := errors.AsType[*mux.VersionError](err); !ok || last.Type != mux.TypeGoAway {
		t.Errorf("ended with %v, last words %v", err, last.Type)
	}
	_, err = script(t, mux.NewOpener, hello(1, 200), mux.AppendFrame(nil, mux.TypeOpen, 1, nil))
	if _, ok := errors.AsType[*mux.ProtocolError](err); !ok {
		t.Errorf("a newer peer that still speaks version 1: %v", err)
	}
}

func TestProtocolViolationsEndTheSession(t *testing.T) {
	t.Parallel()
	open := mux.AppendFrame(nil, mux.TypeOpen, 1, []byte("o"))
	data := func(n int) []byte { return mux.AppendFrame(nil, mux.TypeData, 1, make([]byte, n)) }
	half := mux.AppendFrame(nil, mux.TypeHalfClose, 1, nil)
	cat := func(p ...[]byte) []byte { return bytes.Join(p, nil) }
	tests := map[string][][]byte{
		"not a HELLO first":         {open},
		"garbage":                   {[]byte("GET / HTTP/1.1\r\n\r\n")},
		"HELLO of something else":   {mux.AppendFrame(nil, mux.TypeHello, 0, []byte("NOPE56789012345"))},
		"second HELLO":              {hello(1, 1), hello(1, 1)},
		"frame on a stream unknown": {hello(1, 1), data(1)},
		"OPEN of an id used":        {hello(1, 1), open, open},
		"beyond the window":         {hello(1, 1), cat(open, data(60<<10)), data(60 << 10)},
		"DATA after the end":        {hello(1, 1), cat(open, half, data(1))},
		"two ends":                  {hello(1, 1), cat(open, half, half)},
		"HEADERS after DATA":        {hello(1, 1), cat(open, data(1), mux.AppendFrame(nil, mux.TypeHeaders, 1, nil))},
		"unknown type":              {hello(1, 1), mux.AppendFrame(nil, 99, 1, nil)},
		"half a frame":              {hello(1, 1), open[:6]},
		"stream frame on stream 0":  {hello(1, 1), mux.AppendFrame(nil, mux.TypeData, 0, []byte("x"))},
		"empty DATA":                {hello(1, 1), cat(open, data(0))},
		"huge batch":                {hello(1, 1), make([]byte, mux.MaxBatch+1)},
		"credit overflow":           {hello(1, 1), cat(open, mux.AppendFrame(nil, mux.TypeWindow, 1, []byte{0x7f, 0xff, 0xff, 0xff}))},
	}
	for name, batches := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last, err := script(t, mux.NewAcceptor, batches...)
			if _, ok := errors.AsType[*mux.ProtocolError](err); !ok {
				t.Errorf("ended with %v", err)
			}
			if last.Type != mux.TypeGoAway {
				t.Errorf("last words: %v", last.Type)
			}
		})
	}
}

// A peer that pings without reading the answers must not fill our memory.
func TestPingFloodWithoutReadingIsCut(t *testing.T) {
	t.Parallel()
	line, other := muxtest.Pipe()
	s, err := mux.NewAcceptor(line, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	_ = other.Send(hello(1, 1))
	flood := bytes.Repeat(mux.AppendFrame(nil, mux.TypePing, 0, make([]byte, 8)), 10_000)
	for range 100 {
		if other.Send(flood) != nil {
			break
		}
	}
	select {
	case err := <-done:
		if _, ok := errors.AsType[*mux.ProtocolError](err); !ok {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("still alive")
	}
	_ = other.Close()
}

// Heads come without credit; a peer that opens many streams with large ones is held to a budget.
func TestHeadsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	big := make([]byte, mux.MaxHead)
	var refused int
	for range 400 {
		st, err := p.hub.Open(big, mux.Part{})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		go func() { _, _ = st.Write(nil) }()
	}
	// Each stream is either accepted or refused; taken together they hold to the budget.
	accepted := 0
	for accepted < 128 {
		st, err := p.agent.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		accepted++
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.agent.Accept(ctx); err == nil {
		t.Errorf("more than 16 MiB of heads were taken (%d refused)", refused)
	}
}

func ExampleSession() {
	a, b := muxtest.Pipe()
	hub, _ := mux.NewOpener(a, nil)
	agent, _ := mux.NewAcceptor(b, nil)
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Go(func() { _ = hub.Run(ctx) })
	wg.Go(func() { _ = agent.Run(ctx) })
	wg.Go(func() {
		st, _ := agent.Accept(ctx)
		defer st.Close()
		q, _ := io.ReadAll(st)
		_ = st.Send(mux.Part{Data: []byte("you said " + string(q)), End: true})
	})
	<-hub.Ready()
	st, _ := hub.Open(nil, mux.Part{Data: []byte("ahoy"), End: true})
	answer, _ := io.ReadAll(st)
	st.Close()
	fmt.Println(string(answer))
	hub.Close(mux.CodeNone, "")
	wg.Wait()
	// Output: you said ahoy
}

func TestBothSidesMayCloseAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		start := time.Now()
		p.hub.Close(mux.CodeNone, "bye")
		p.agent.Close(mux.CodeNone, "bye")
		<-p.hub.Done()
		<-p.agent.Done()
		if d := time.Since(start); d > 0 {
			t.Errorf("took %v", d)
		}
	})
}

// Data that was sent before Close arrives, also when the line is slower than the words.
func TestCloseLosesNothingThatWasSent(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	hub, agent := p.open(t, mux.Part{End: true})
	want := bytes.Repeat([]byte("x"), 60_000)
	if err := agent.Send(mux.Part{Data: want, End: true}); err != nil {
		t.Fatal(err)
	}
	agent.Close()
	p.agent.Drain(context.Background(), "agent stops")
	if got, err := io.ReadAll(hub); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
