package call

import (
	"context"
	"net/http"
	"time"
)

// SendTimeout is how long a follower may take to take a message in before it is cut off.
const SendTimeout = 30 * time.Second

type deadlineKey struct{}

// WithDeadlines lets a stream's handler bound its sends, which Connect has no word for.
func WithDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), deadlineKey{}, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Bounded sends with a deadline: a follower that doesn't read loses its stream.
func Bounded(ctx context.Context, timeout time.Duration, send func() error) error {
	control, ok := ctx.Value(deadlineKey{}).(*http.ResponseController)
	if !ok || control.SetWriteDeadline(time.Now().Add(timeout)) != nil {
		return send() // not a connection with deadlines
	}
	err := send()
	_ = control.SetWriteDeadline(time.Time{}) // the deadline could be set, so it can be lifted
	return err
}
