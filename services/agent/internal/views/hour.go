package views

// An hour is counted in steps: what is older than an hour goes step by step, so that figures of the last hour rarely
// change by time alone.
const (
	stepSeconds = 5 * 60
	steps       = 12
)

// hour counts what happened in the last hour.
type hour struct {
	at     int64 // the latest step
	counts [steps]int64
}

// add counts n at a time. An event older than an hour is not counted, and one of the future counts now.
func (h *hour) add(now, at, n int64) {
	h.advance(now)
	step := min(at, now) / stepSeconds
	if age := h.at - step; age < steps {
		h.counts[step%steps] += n
	}
}

// sum is the count of the last hour.
func (h *hour) sum(now int64) (sum int64) {
	h.advance(now)
	for _, n := range h.counts {
		sum += n
	}
	return sum
}

func (h *hour) advance(now int64) {
	step := now / stepSeconds
	for next := max(h.at+1, step-steps+1); next <= step; next++ {
		h.counts[next%steps] = 0
	}
	h.at = max(h.at, step)
}
