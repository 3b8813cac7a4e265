package server

import (
	"net/http"
	"runtime"
)

// stackBytes is more than what a call of ours takes on its goroutine's stack, from the server's first handler to where
// its message is validated or encoded.
const stackBytes = 8 << 10

// roomy goes around all of a server's handlers, outermost: a stack that grows is copied, frame by frame, so it grows
// where there are fewest of them. Streams keep the stack that they have, thousands of them for hours.
type roomy struct {
	unary map[string]struct{} // procedures
	next  http.Handler
}

func (h *roomy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.unary[r.URL.Path]; ok {
		growStack(false)
	}
	h.next.ServeHTTP(w, r)
}

func (s *Server) roomy(next http.Handler) http.Handler {
	h := &roomy{unary: map[string]struct{}{}, next: next}
	for _, p := range s.procedures {
		if p.unary() {
			h.unary[p.Name] = struct{}{}
		}
	}
	return h
}

// growStack makes the goroutine's stack as large as a call needs, at once and while there is little on it. Each
// call has a goroutine of its own, which begins with the smallest stack: growing it step by step, ever
// deeper, took an eighth of all the CPU time of a short call.
//
// The room is never used, so it is not cleared either: that its frame must have place is enough.
//
//go:noinline
func growStack(never bool) {
	if never {
		var room [stackBytes]byte
		runtime.KeepAlive(&room)
	}
}
