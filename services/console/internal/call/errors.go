package call

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/login"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
	clusterviews "fairlead.dev/services/console/internal/views"
)

// Fail is the one place where errors become codes. An unexpected error is logged here, and its text is not shown: the
// text may tell about the inside.
func Fail(ctx context.Context, log *slog.Logger, away *outage.Outage, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return encodeRefusal(refused)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded) // the caller's own
	case errors.Is(err, login.ErrAway):
		log.WarnContext(ctx, "identity provider does not answer", "err", err)
		return connect.NewError(connect.CodeUnavailable, login.ErrAway)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	case errors.Is(err, feed.ErrStopped):
		return connect.NewError(connect.CodeUnavailable, feed.ErrStopped)
	case errors.Is(err, feed.ErrStale):
		return connect.NewError(connect.CodeUnavailable, feed.ErrStale)
	case errors.Is(err, index.ErrBegins):
		return connect.NewError(connect.CodeUnavailable, index.ErrBegins)
	case errors.Is(err, clusterviews.ErrBegins):
		return connect.NewError(connect.CodeUnavailable, clusterviews.ErrBegins)
	case errors.Is(err, index.ErrBehind):
		return connect.NewError(connect.CodeUnavailable, index.ErrBehind)
	case errors.Is(err, store.ErrDiskFull):
		away.Failed(ctx, log, time.Now(), "writes are refused: the disk of the database is full", err)
		return connect.NewError(connect.CodeUnavailable, store.ErrDiskFull)
	case errors.Is(err, store.ErrUnavailable):
		away.Failed(ctx, log, time.Now(), "requests are refused: the database does not answer", err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the catalog's database does not answer: try again later"))
	}
	if already, ok := errors.AsType[*connect.Error](err); ok {
		return already
	}
	log.ErrorContext(ctx, "request failed", "err", err)
	return connect.NewError(connect.CodeInternal, errors.New("something went wrong in the console: see its log"))
}

// encodeRefusal returns a refusal with what a program can use of it.
func encodeRefusal(e *refusal.Error) error {
	out := connect.NewError(e.Reason.Code(), e)
	if e.RetryAfter > 0 {
		out.Meta().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())+1))
	}
	var details []proto.Message
	if len(e.Faults) > 0 {
		details = append(details, &consolev1.ApplyProblems{Problems: descriptor.Each(e.Faults, Problem)})
	}
	if e.Confirmation != "" {
		details = append(details, &consolev1.ConfirmationWanted{Confirmation: e.Confirmation, Consequences: e.Consequences})
	}
	for _, m := range details {
		if d, err := connect.NewErrorDetail(m); err == nil { // a message of ours can be written
			out.AddDetail(d)
		}
	}
	return out
}

// aboutField finds the field that a refusal begins with: spec.git.url: must be ...
var aboutField = regexp.MustCompile(`^(?:\w+ "[^"]*": )?((?:metadata|spec|data)(?:[\w.]|\[(?:\d+|"(?:[^"\\]|\\.)*")\])*)(?: "(?:[^"\\]|\\.)*")?: `)

// Problem says which field of which resource a fault is about.
func Problem(f refusal.Fault) *consolev1.ApplyProblem {
	out := &consolev1.ApplyProblem{Index: int32(f.Index), Kind: descriptor.Number(store.Kind(f.Kind)), Name: f.Name, Message: f.Err.Message}
	if m := aboutField.FindStringSubmatch(f.Err.Message); m != nil {
		out.Field = m[1]
	}
	return out
}
