package apply

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"fairlead.dev/platform/retry"
)

const (
	// firstWidth, minWidth and maxWidth bound the requests of all services under way together.
	firstWidth, minWidth, maxWidth = 8, 1, 32
	// slowdown is how much slower than the quickest an answer may be for the width to grow.
	slowdown = 2
	// longestPause bounds what an API server may ask for.
	longestPause = time.Minute
	// round is how long one refusal speaks for those that come with it.
	round = 100 * time.Millisecond
	// forget lets the floor of the latency rise again, by a part of the difference with each answer.
	forget = 64
)

// Width is how many requests may be under way. The width grows while the API server answers about as fast as it can, is
// halved when it throttles, is away or times out, and pauses for as long as it asks for. A failure of a webhook or of
// another server behind the API server changes nothing. A Width is safe for concurrent use.
type Width struct {
	slots *semaphore.Weighted // of maxWidth; those above the limit are kept taken
	now   func() time.Time

	mu    sync.Mutex // guards what follows
	limit int
	most  int // of limit
	taken int // by nobody, to keep the limit
	// floor is the latency of an API server that is at ease.
	floor time.Duration
	// since counts answers since the limit changed: it grows when as many came.
	since int
	// narrowed is when the limit was halved last.
	narrowed time.Time
	// until is the end of the pause.
	until time.Time
}

// NewWidth returns a width that nothing is known of yet.
func NewWidth() *Width {
	w := &Width{slots: semaphore.NewWeighted(maxWidth), now: time.Now, limit: firstWidth, most: maxWidth}
	w.settleSlots()
	return w
}

// Take waits for a turn. Without an error give must be called.
func (w *Width) Take(ctx context.Context) (give func(), err error) {
	if err := w.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	for {
		w.mu.Lock()
		pause := w.until.Sub(w.now())
		w.mu.Unlock()
		if pause <= 0 {
			return w.giveSlot, nil
		}
		if !retry.Sleep(ctx, pause) {
			w.giveSlot()
			return nil, ctx.Err()
		}
	}
}

// giveSlot ends a turn. Its slot is kept if there are too many.
func (w *Width) giveSlot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken < maxWidth-w.limit {
		w.taken++
		return
	}
	w.slots.Release(1)
}

// settleSlots takes slots away, as far as they are free, or gives some back. The caller holds mu, if there is another.
func (w *Width) settleSlots() {
	for w.taken < maxWidth-w.limit && w.slots.TryAcquire(1) {
		w.taken++
	}
	for w.taken > maxWidth-w.limit {
		w.slots.Release(1)
		w.taken--
	}
}

// Narrow bounds the width; 0: by nothing but its own bound.
func (w *Width) Narrow(most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most = maxWidth; most > 0 {
		w.most = max(minWidth, min(most, maxWidth))
	}
	w.limit = min(w.limit, w.most)
	w.settleSlots()
}

// Limit is the width now.
func (w *Width) Limit() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit
}

// Wrap lets the width see what the API server answers to changes, and every refusal to answer.
func (w *Width) Wrap(next http.RoundTripper) http.RoundTripper {
	return observed{next: next, width: w}
}

type observed struct {
	next  http.RoundTripper
	width *Width
}

func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := o.width.now()
	answer, err := o.next.RoundTrip(r)
	switch {
	case err != nil:
		ended := r.Context().Err()
		if ended == nil || r.Method != http.MethodGet && errors.Is(ended, context.DeadlineExceeded) {
			o.width.narrowWidth(0)
		}
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= http.StatusInternalServerError:
		if overloaded(answer) {
			seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
			o.width.narrowWidth(time.Duration(seconds) * time.Second)
		}
	case r.Method == http.MethodPatch:
		o.width.noteAnswer(o.width.now().Sub(begin))
	}
	return answer, err
}

// overloaded says whether an answer of 429 or 5xx is about the API server itself, by the beginning of its body, which
// is left in place. The API server answers for admission and conversion webhooks, aggregated APIs and kubelets, too.
func overloaded(answer *http.Response) bool {
	const beginning = 4 << 10 // bytes
	body := bufio.NewReaderSize(answer.Body, beginning)
	head, _ := body.Peek(beginning) // the body's reader gets the error
	answer.Body = struct {
		io.Reader
		io.Closer
	}{body, answer.Body}
	text := string(head)
	for _, other := range []string{
		"admission webhook ", "failed calling webhook ", "conversion webhook ", "error trying to reach service: ",
	} {
		if strings.Contains(text, other) {
			return false
		}
	}
	switch answer.StatusCode {
	case http.StatusServiceUnavailable:
		return strings.TrimSpace(text) != "service unavailable" // an aggregated API is
	case http.StatusInternalServerError:
		return answer.Header.Get("Retry-After") != "" || strings.Contains(text, "etcdserver: ")
	}
	return true
}

// WrappedRoundTripper is what client-go looks through.
func (o observed) WrappedRoundTripper() http.RoundTripper { return o.next }

func (w *Width) narrowWidth(pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	again := now.Before(w.until) || now.Sub(w.narrowed) < round
	if until := now.Add(min(pause, longestPause)); until.After(w.until) {
		w.until = until
	}
	if again {
		return // The others that were under way say nothing new.
	}
	w.limit, w.since, w.narrowed = max(w.limit/2, minWidth), 0, now
	w.settleSlots()
}

func (w *Width) noteAnswer(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.floor == 0 || took < w.floor {
		w.floor = took
	} else {
		w.floor += (took - w.floor) / forget
	}
	w.since++
	if took <= slowdown*w.floor && w.since >= w.limit && w.limit < w.most {
		w.limit, w.since = w.limit+1, 0
		w.settleSlots()
	}
}
