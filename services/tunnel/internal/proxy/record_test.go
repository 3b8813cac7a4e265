package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// keeper is a console that takes pieces, or does not.
type keeper struct {
	away atomic.Bool

	mu   sync.Mutex // guards what follows
	text strings.Builder
	last time.Time // something came
}

func (k *keeper) BeginRecording(context.Context, *consolev1.BeginRecordingRequest) (*consolev1.BeginRecordingResponse, error) {
	return nil, errors.ErrUnsupported
}

func (k *keeper) AppendRecording(_ context.Context,
	req *consolev1.AppendRecordingRequest,
) (*consolev1.AppendRecordingResponse, error) {
	if k.away.Load() {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text.Write(req.GetData())
	k.last = time.Now()
	return &consolev1.AppendRecordingResponse{}, nil
}

func (k *keeper) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// begin makes a recording of a session that is under way at a tunnel.
func begin(t *testing.T, h *Handler, required bool, maxBytes int64) *cast {
	t.Helper()
	c := newCast(&exchange{handler: h}, required)
	c.maxBytes = maxBytes
	c.down, c.up = &socketFrames{}, &socketFrames{}
	go c.sendPieces(t.Context())
	return c
}

// output is what a cluster sends for a screen.
func output(text string) []byte {
	return append([]byte{
		0x82, 127, 0, 0, 0, 0, 0, byte((len(text) + 1) >> 16), byte((len(text) + 1) >> 8),
		byte(len(text) + 1), channelOut,
	}, text...)
}

func handlerWith(k *keeper) *Handler {
	return New(Deps{Recordings: k, Log: slog.New(slog.DiscardHandler)})
}

// While the console is away a session that has to be recorded shows what a person sees within a second and a half, and
// nothing more until the console is back.
func TestASessionWaitsForItsRecording(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		h := handlerWith(k)
		c := begin(t, h, true, 0)
		k.away.Store(true)
		if err := c.takeShown(output("before")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sendEvery + stallAfter + sendPause) //nolint:forbidigo // fake time
		synctest.Wait()
		var passed atomic.Bool
		shown := make(chan error, 1)
		go func() {
			err := c.takeShown(output("after"))
			passed.Store(true)
			shown <- err
		}()
		time.Sleep(5 * time.Second) //nolint:forbidigo // fake time
		synctest.Wait()
		if passed.Load() {
			t.Error("it shows what the console has not taken for seconds")
		}
		k.away.Store(false)
		if err := <-shown; err != nil {
			t.Error(err)
		}
		c.endRecording()
		if text := k.String(); !strings.Contains(text, "before") || !strings.Contains(text, "after") {
			t.Errorf("recorded %q", text)
		}
		if n := h.unsent.Load(); n != 0 {
			t.Errorf("%d bytes count as unsent", n)
		}
	})
}

// Output that sessions show before the console has it is bounded over all of them; each has room for a prompt anyway.
func TestUnsentRecordingsAreBoundedOverAllSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		k.away.Store(true)
		h := handlerWith(k)
		const sessions, piece = 40, 16 << 10
		var casts []*cast
		for range sessions {
			c := begin(t, h, false, 0)
			casts = append(casts, c)
			for range maxUnsent / piece {
				if err := c.takeShown(output(strings.Repeat("x", piece))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := h.unsent.Load(); n > maxUnsentAll+sessions*(ownUnsent+2*piece) || n < maxUnsentAll/2 {
			t.Errorf("%d bytes are unsent, and the bound is %d", n, maxUnsentAll)
		}
		quiet := begin(t, h, true, 0)
		if err := quiet.takeShown(output("$ ")); err != nil { // does not wait
			t.Error(err)
		}
		k.away.Store(false)
		for _, c := range append(casts, quiet) {
			c.endRecording()
		}
		if n := h.unsent.Load(); n != 0 {
			t.Errorf("%d bytes count as unsent once all is over", n)
		}
		if casts[0].incomplete == "" && casts[sessions-1].incomplete == "" || !strings.Contains(k.String(), `"$ "`) {
			t.Errorf("incomplete: %q and %q", casts[0].incomplete, casts[sessions-1].incomplete)
		}
	})
}

// A session whose console stays away ends, and gives its room back.
func TestASessionEndsWhenItsConsoleStaysAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		k.away.Store(true)
		h := handlerWith(k)
		c := begin(t, h, true, 0)
		var err error
		for range 3 {
			if err = c.takeShown(output("x")); err != nil {
				break
			}
			time.Sleep(stallAfter) //nolint:forbidigo // fake time
		}
		if _, ok := errors.AsType[unrecordedError](err); !ok {
			t.Errorf("it goes on: %v", err)
		}
		if n := h.unsent.Load(); n != 0 {
			t.Errorf("%d bytes count as unsent", n)
		}
		c.endRecording()
	})
}

// A recording that may be incomplete stops at its bound, and says so; its session goes on.
func TestAnOptionalRecordingEndsAtItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		c := begin(t, handlerWith(k), false, 100)
		for _, text := range []string{"one", strings.Repeat("x", 100), "two"} {
			if err := c.takeShown(output(text)); err != nil {
				t.Fatal(err)
			}
		}
		c.endRecording()
		if text := k.String(); !strings.Contains(text, "one") || strings.Contains(text, "two") ||
			!strings.Contains(c.incomplete, "full") {
			t.Errorf("recorded %q, incomplete: %q", text, c.incomplete)
		}
	})
}

// The console hears of a session that shows nothing as long as it goes on, and one that is away ends no such session.
func TestTheConsoleHearsOfAQuietSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		c := begin(t, handlerWith(k), true, 0)
		if err := c.takeShown(output("$ ")); err != nil {
			t.Fatal(err)
		}
		quiet := func(d time.Duration) (silent time.Duration) {
			time.Sleep(d) //nolint:forbidigo // fake time
			synctest.Wait()
			k.mu.Lock()
			defer k.mu.Unlock()
			return time.Since(k.last)
		}
		if silent := quiet(time.Hour); silent > goesOnEvery+sendEvery {
			t.Errorf("the console has heard nothing for %s", silent)
		}
		k.away.Store(true)
		quiet(time.Hour)
		k.away.Store(false)
		if silent := quiet(goesOnEvery + sendEvery); silent > goesOnEvery+sendEvery {
			t.Errorf("the console is back, and has heard nothing for %s", silent)
		}
		if err := c.takeShown(output("more")); err != nil {
			t.Errorf("the session ended: %v", err)
		}
		c.endRecording()
		if text := k.String(); !strings.Contains(text, "more") {
			t.Errorf("recorded %q", text)
		}
	})
}
