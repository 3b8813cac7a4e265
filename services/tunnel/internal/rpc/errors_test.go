package rpc

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/tunnel/internal/session"
)

// An agent that is told to come again later does so; one of a version that the hub does not know stops.
func TestEachEndOfASessionBecomesACode(t *testing.T) {
	t.Parallel()
	left, leave := context.WithCancelCause(t.Context())
	leave(session.ErrDraining)
	for name, c := range map[string]struct {
		ctx   context.Context // nil: that of the test
		err   error
		want  connect.Code
		words string
		after string // Retry-After
	}{
		"too many":              {err: &refusal.Error{Reason: refusal.Exhausted, Message: "too many", RetryAfter: 2 * time.Second}, want: connect.CodeResourceExhausted, words: "too many", after: "2"},
		"a broken protocol":     {err: &mux.ProtocolError{Text: "no"}, want: connect.CodeInvalidArgument, words: "tunnel protocol: no"},
		"another version":       {err: &mux.VersionError{}, want: connect.CodeFailedPrecondition, words: (&mux.VersionError{}).Error()},
		"an agent that left":    {ctx: left, err: errors.New("cut"), want: connect.CodeUnavailable, words: session.ErrDraining.Error()},
		"a broken connection":   {err: errors.New("cut"), want: connect.CodeUnavailable, words: "cut"},
		"a replica that drains": {err: session.ErrDraining, want: connect.CodeUnavailable, words: session.ErrDraining.Error()},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		told := codeOf(ctx, c.err)
		if after := told.Meta().Get("Retry-After"); told.Code() != c.want || told.Message() != c.words || after != c.after {
			t.Errorf("%s: %v, to come again after %q s", name, told, after)
		}
	}
}
