package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
)

// eventServer sends an event of a watch for everything that comes.
func eventServer(t *testing.T, next <-chan int) http.HandlerFunc {
	t.Helper()
	others := apiServer(t)
	return func(w http.ResponseWriter, r *http.Request) {
		if muxhttp.IsUpgrade(r.Header) {
			others(w, r)
			return
		}
		if r.URL.Query().Get("watch") != "true" {
			_, _ = io.WriteString(w, "answer")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case n := <-next:
				// In two pieces, as a big event comes.
				_, _ = fmt.Fprintf(w, `{"object":{"text":"}{\""},`)
				w.(http.Flusher).Flush()
				_, _ = fmt.Fprintf(w, `"n":%d}`+"\n", n)
				w.(http.Flusher).Flush()
			}
		}
	}
}

// readEvents reads a watch to its end.
func readEvents(r io.Reader, each func(n int)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %q: %w", line, err)
		}
		var event struct{ N int }
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("event %q: %w", line, err)
		}
		each(event.N)
	}
}

// The agent stops: watches end between two events at both replicas, and its drain does not wait for them.
func TestWatchesEndWellWhenTheAgentStops(t *testing.T) {
	t.Parallel()
	here := newHub(t, "edge-1")
	there := here.another()
	next := make(chan int)
	a := here.connect("edge-1", eventServer(t, next))
	var ends sync.WaitGroup
	var seen atomic.Int32
	for _, h := range []*hub{here, there} {
		resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		ends.Go(func() {
			if err := readEvents(resp.Body, func(int) { seen.Add(1) }); err != nil {
				t.Errorf("the watch did not end well: %v", err)
			}
		})
	}
	next <- 1
	here.await("an event", func() bool { return seen.Load() == 1 })
	limit, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.session.Drain(limit, "the agent is stopping")
	if limit.Err() != nil {
		t.Error("the drain has waited for the watches")
	}
	ends.Wait()
}

// Of two replicas one goes: watches end between two events, at whichever replica their readers are, requests find the
// session at the other one, and somebody's shell goes on until its end.
func TestDrainSendsEverybodyElsewhere(t *testing.T) {
	t.Parallel()
	going := newHub(t, "edge-1")
	stays := going.another()
	next, more := make(chan int), make(chan int)
	a := going.connect("edge-1", eventServer(t, next))
	shell, resp := going.upgrade("/clusters/edge-1/api/v1/namespaces/x/pods/y/exec?command=sh")
	if resp.StatusCode != 101 {
		t.Fatal(resp.Status)
	}
	var ends sync.WaitGroup
	for _, h := range []*hub{going, stays} {
		resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		seen := make(chan int, 10)
		ends.Go(func() {
			if err := readEvents(resp.Body, func(n int) { seen <- n }); err != nil {
				t.Errorf("the watch did not end well: %v", err)
			}
		})
		next <- 1
		next <- 2
		select {
		case <-seen:
		case <-time.After(patience):
			t.Fatal("no event came")
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- going.stop() }()
	<-a.session.Gone()
	// The agent has not dialled yet: requests wait for it.
	waiting := make(chan string, 2)
	for _, h := range []*hub{going, stays} {
		go func() {
			resp, err := h.client().Do(h.request("GET", "/clusters/edge-1/api", nil))
			if err != nil {
				waiting <- err.Error()
				return
			}
			b, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			waiting <- fmt.Sprint(resp.StatusCode, " ", string(b), err)
		}()
	}
	stays.connect("edge-1", eventServer(t, more))
	for range 2 {
		if got := <-waiting; got != "200 answer<nil>" {
			t.Errorf("a request while the agent dials: %s", got)
		}
	}
	ends.Wait()
	// Both watches are over, and the shell is not.
	if _, err := io.WriteString(shell, "still here\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 11)
	if _, err := io.ReadFull(shell, buf); err != nil || string(buf) != "still here\n" {
		t.Errorf("%q, %v", buf, err)
	}
	if err := shell.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(shell); err != nil || len(b) > 0 {
		t.Errorf("the shell's end: %q, %v", b, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	var gone *mux.GoAwayError
	if err := <-a.done; !errors.As(err, &gone) {
		t.Errorf("the agent's session ended with %v", err)
	}
	if resp, body := stays.do(stays.request("GET", "/clusters/edge-1/api", nil)); resp.StatusCode != 200 {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestReplicaThatGoesIsNotReadyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	began, finish := make(chan struct{}), make(chan struct{})
	h.connect("edge-1", func(http.ResponseWriter, *http.Request) {
		close(began)
		<-finish
	})
	client := h.client()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		h.do(h.request("GET", "/clusters/edge-1/api", nil))
	}()
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- h.stop() }()
	h.await("not ready while a request runs", func() bool {
		resp, err := client.Get(h.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	close(finish)
	<-answered
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
