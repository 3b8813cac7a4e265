package tunnel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// steadyWatch follows an object that changes all the time, and goes on where it was when a watch ends.
type steadyWatch struct {
	h      *hub
	client *http.Client

	written, last atomic.Int64 // numbers that were written and seen
	quit          chan struct{}

	once sync.Once
	// Of run alone, until it has returned:
	resumed int
	gap     time.Duration // the longest time from the end of a watch to the first byte of the next
}

const counterPath = "/api/v1/namespaces/straight/configmaps/counter"

func newSteadyWatch(t testing.TB, h *hub, client *http.Client) *steadyWatch {
	t.Helper()
	w := &steadyWatch{h: h, client: client, quit: make(chan struct{})}
	other, err := world.hub.client()
	if err != nil {
		t.Fatal(err)
	}
	defer other.CloseIdleConnections()
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"counter"},"data":{"number":"0"}}`
	code, answer, err := post(t.Context(), other, world.hub.base("x1")+"/api/v1/namespaces/straight/configmaps",
		world.hub.token, body)
	if err != nil || code != http.StatusCreated {
		t.Fatal(code, answer, err)
	}
	return w
}

func (w *steadyWatch) seen() int64 { return w.last.Load() }
func (w *steadyWatch) stop()       { w.once.Do(func() { close(w.quit) }) }

// write changes the object through the hub that nobody restarts.
func (w *steadyWatch) write(ctx context.Context, t testing.TB) {
	client, err := world.hub.client()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.CloseIdleConnections()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.quit:
			return
		case <-ticks.C:
		}
		n := w.written.Load() + 1
		body := fmt.Sprintf(`{"data":{"number":"%d"}}`, n)
		code, answer, err := patch(ctx, client, world.hub.base("x1")+counterPath, world.hub.token, body)
		if ctx.Err() != nil {
			return
		}
		if err != nil || code != http.StatusOK {
			t.Errorf("write: %d %s %v", code, answer, err)
			return
		}
		w.written.Store(n)
	}
}

type watchEvent struct {
	Type   string
	Object struct {
		Metadata struct{ ResourceVersion string }
		Data     struct{ Number string }
		Message  string
	}
}

// run watches until all that was written has been seen. Events must come one after the other: none twice, none lost.
func (w *steadyWatch) run(ctx context.Context, t testing.TB) {
	version, ended := "0", time.Time{}
	for {
		next, err := w.follow(ctx, version, &ended)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Errorf("watch from %s: %v", version, err)
			return
		}
		version = next
		w.resumed++
	}
}

// follow is one watch until its clean end; it returns where the next goes on.
func (w *steadyWatch) follow(ctx context.Context, version string, ended *time.Time) (string, error) {
	url := w.h.base("nginx") + "/api/v1/namespaces/straight/configmaps?watch=true&fieldSelector=metadata.name%3Dcounter&resourceVersion=" + version
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return version, err
	}
	req.Header.Set("Authorization", "Bearer "+w.h.token)
	resp, err := w.client.Do(req)
	if err != nil {
		return version, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return version, fmt.Errorf("answered with %s", resp.Status)
	}
	if !ended.IsZero() {
		w.gap = max(w.gap, time.Since(*ended))
	}
	events := json.NewDecoder(resp.Body)
	for events.More() {
		var e watchEvent
		if err := events.Decode(&e); err != nil {
			return version, fmt.Errorf("the watch was cut, and did not end: %w", err)
		}
		n, err := strconv.ParseInt(e.Object.Data.Number, 10, 64)
		first := version == "0" // as the object is by now
		if err != nil || e.Type == "ERROR" || n != w.last.Load()+1 && !first {
			return version, fmt.Errorf("after number %d came %+v", w.last.Load(), e)
		}
		w.last.Store(n)
		version = e.Object.Metadata.ResourceVersion
	}
	*ended = time.Now()
	return version, nil
}
