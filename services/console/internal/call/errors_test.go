package call_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/login"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
)

// inside is what no caller reads: a driver's error has the address of the database, and more.
const inside = `dial tcp 10.1.2.3:5432: password of "fairlead" refused`

// Each error becomes a code. A caller reads the words of a refusal, and nothing of what went wrong inside, which is in
// the log.
func TestEachErrorBecomesACodeAndTellsNothingOfTheInside(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	for name, c := range map[string]struct {
		ctx    context.Context // nil: that of the test
		err    error
		want   connect.Code
		words  string // that the caller reads
		logged bool   // the log has the inside
	}{
		"a wrong field":      {err: refusal.New(refusal.Invalid, "spec.path: must be a folder"), want: connect.CodeInvalidArgument, words: "spec.path: must be a folder"},
		"nothing there":      {err: refusal.New(refusal.NotFound, "no web"), want: connect.CodeNotFound, words: "no web"},
		"another was first":  {err: refusal.New(refusal.Conflict, "changed"), want: connect.CodeAborted, words: "changed"},
		"something before":   {err: refusal.New(refusal.Precondition, "first that"), want: connect.CodeFailedPrecondition, words: "first that"},
		"not allowed":        {err: refusal.New(refusal.Forbidden, "you may not"), want: connect.CodePermissionDenied, words: "you may not"},
		"a bound":            {err: refusal.New(refusal.Exhausted, "too many"), want: connect.CodeResourceExhausted, words: "too many"},
		"a refusal within":   {err: fmt.Errorf("%s: %w", inside, refusal.New(refusal.Invalid, "no")), want: connect.CodeInvalidArgument, words: "no"},
		"a wrong credential": {err: refusal.New(refusal.Unauthenticated, "unknown token"), want: connect.CodeUnauthenticated, words: "unknown token"},
		"a login refused":    {err: refusal.New(refusal.Unauthenticated, "not in a group"), want: connect.CodeUnauthenticated, words: "not in a group"},
		"no provider":        {err: fmt.Errorf("%w: %s", login.ErrAway, inside), want: connect.CodeUnavailable, words: login.ErrAway.Error(), logged: true},
		"full disk":          {err: fmt.Errorf("%w: %w: %s", store.ErrUnavailable, store.ErrDiskFull, inside), want: connect.CodeUnavailable, words: "make room", logged: true},
		"no database":        {err: fmt.Errorf("%w: %s", store.ErrUnavailable, inside), want: connect.CodeUnavailable, words: "try again later", logged: true},
		"a stream that ends": {err: fmt.Errorf("%w: %s", feed.ErrStopped, inside), want: connect.CodeUnavailable, words: feed.ErrStopped.Error()},
		"a stale list":       {err: fmt.Errorf("%w: %s", index.ErrBehind, inside), want: connect.CodeUnavailable, words: index.ErrBehind.Error()},
		"a list that begins": {err: index.ErrBegins, want: connect.CodeUnavailable, words: index.ErrBegins.Error()},
		"no time":            {ctx: over, err: errors.New(inside), want: connect.CodeDeadlineExceeded, words: "deadline"},
		"a caller that left": {err: fmt.Errorf("%s: %w", inside, context.Canceled), want: connect.CodeCanceled, words: "canceled"},
		"a code already":     {err: connect.NewError(connect.CodeUnimplemented, errors.New("not here")), want: connect.CodeUnimplemented, words: "not here"},
		"anything else":      {err: errors.New(inside), want: connect.CodeInternal, words: "see its log", logged: true},
	} {
		var said bytes.Buffer
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		got := call.Fail(ctx, slog.New(slog.NewTextHandler(&said, nil)), &outage.Outage{}, c.err)
		if code := connect.CodeOf(got); code != c.want || !strings.Contains(got.Error(), c.words) {
			t.Errorf("%s: %v, want %s with %q", name, got, c.want, c.words)
		}
		if strings.Contains(got.Error(), "10.1.2.3") {
			t.Errorf("%s tells of the inside: %v", name, got)
		}
		if logged := strings.Contains(said.String(), "10.1.2.3"); logged != c.logged {
			t.Errorf("%s: the log has the inside: %t: %s", name, logged, said.String())
		}
	}
	if err := call.Fail(t.Context(), nil, nil, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// A refusal has what a program needs: when to come again, what is wrong with which resource, and what a person has to
// confirm.
func TestRefusalsHaveWhatAProgramNeeds(t *testing.T) {
	t.Parallel()
	fail := func(err error) *connect.Error {
		t.Helper()
		got, ok := errors.AsType[*connect.Error](call.Fail(t.Context(), slog.New(slog.DiscardHandler), &outage.Outage{}, err))
		if !ok {
			t.Fatalf("%v is no error of Connect", err)
		}
		return got
	}
	throttled := fail(&refusal.Error{Reason: refusal.Exhausted, Message: "too many", RetryAfter: 1500 * time.Millisecond})
	if after := throttled.Meta().Get("Retry-After"); throttled.Code() != connect.CodeResourceExhausted || after != "2" {
		t.Errorf("%v, to come again after %q s", throttled, after)
	}
	refused := fail(&refusal.Error{
		Reason: refusal.Invalid, Message: "two are wrong", Confirmation: "word", Consequences: []string{"deletes web"},
		Faults: []refusal.Fault{
			{Index: 1, Kind: "service", Name: "web", Err: &refusal.Error{Message: `service "web": spec.sources[0].path: must be a folder`}},
			{Index: 2, Kind: "cluster", Name: "edge", Err: &refusal.Error{Message: "no field"}},
		},
	})
	var got []proto.Message
	for _, d := range refused.Details() {
		m, err := d.Value()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	want := []proto.Message{
		&consolev1.ApplyProblems{Problems: []*consolev1.ApplyProblem{
			{
				Index: 1, Kind: consolev1.Kind_KIND_SERVICE, Name: "web", Field: "spec.sources[0].path",
				Message: `service "web": spec.sources[0].path: must be a folder`,
			},
			{Index: 2, Kind: consolev1.Kind_KIND_CLUSTER, Name: "edge", Message: "no field"},
		}},
		&consolev1.ConfirmationWanted{Confirmation: "word", Consequences: []string{"deletes web"}},
	}
	if len(got) != len(want) {
		t.Fatalf("details %v, want %v", got, want)
	}
	for i := range want {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("detail %v, want %v", got[i], want[i])
		}
	}
}
