package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/platform/refusal"
)

// inside is what no caller reads.
const inside = "open /data/mirrors/1234: input/output error"

// Each error about a source becomes a code. A caller reads the words of a refusal, and nothing of what went wrong
// inside, which is in the log.
func TestEachErrorAboutASourceBecomesACode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		want   connect.Code
		words  string // all that the caller reads
		logged bool   // the log has the inside
	}{
		"a wrong filter":            {err: refusal.New(refusal.Invalid, "filter: no"), want: connect.CodeInvalidArgument, words: "filter: no"},
		"no such file":              {err: refusal.New(refusal.NotFound, "no file"), want: connect.CodeNotFound, words: "no file"},
		"a file too large":          {err: refusal.New(refusal.Exhausted, "2 MiB"), want: connect.CodeResourceExhausted, words: "2 MiB"},
		"a revision on its way":     {err: refusal.New(refusal.Unavailable, "later"), want: connect.CodeUnavailable, words: "later"},
		"a revision that is barred": {err: refusal.New(refusal.Precondition, "not signed"), want: connect.CodeFailedPrecondition, words: "not signed"},
		"a refusal within": {
			err:  fmt.Errorf("%s: %w", inside, refusal.New(refusal.NotFound, "no file")),
			want: connect.CodeNotFound, words: "no file",
		},
		"anything else": {
			err: errors.New(inside), want: connect.CodeInternal, logged: true,
			words: "the mirror can't be read. Ask again; what is wrong is in the log of the gitcache",
		},
	} {
		var log bytes.Buffer
		s := &Sources{Log: slog.New(slog.NewTextHandler(&log, nil))}
		told, ok := errors.AsType[*connect.Error](s.toConnect(t.Context(), c.err))
		if !ok || told.Code() != c.want || told.Message() != c.words {
			t.Errorf("%s: %v, want %s with %q", name, told, c.want, c.words)
		}
		if logged := strings.Contains(log.String(), inside); logged != c.logged {
			t.Errorf("%s: the log has the inside: %t: %s", name, logged, log.String())
		}
	}
	if err := (&Sources{}).toConnect(t.Context(), nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := (&Sources{}).toConnect(left, errors.New(inside)); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
}

func TestEachErrorAboutAShardBecomesACode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		want  connect.Code
		words string
	}{
		"no such replica":   {err: refusal.New(refusal.NotFound, "no replica"), want: connect.CodeNotFound, words: "no replica"},
		"another step":      {err: refusal.New(refusal.Precondition, "drains"), want: connect.CodeFailedPrecondition, words: "drains"},
		"later":             {err: refusal.New(refusal.Unavailable, "nobody owns it"), want: connect.CodeUnavailable, words: "nobody owns it"},
		"another's refusal": {err: connect.NewError(connect.CodeFailedPrecondition, errors.New("theirs")), want: connect.CodeFailedPrecondition, words: "theirs"},
		"anything else":     {err: errors.New("dial"), want: connect.CodeUnavailable, words: "dial"},
	} {
		told, ok := errors.AsType[*connect.Error](shardError(c.err))
		if !ok || told.Code() != c.want || told.Message() != c.words {
			t.Errorf("%s: %v, want %s with %q", name, told, c.want, c.words)
		}
	}
}
