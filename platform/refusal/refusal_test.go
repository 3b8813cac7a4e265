package refusal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/platform/refusal"
)

func fault(n int, reason refusal.Reason) refusal.Fault {
	name := fmt.Sprintf("web-%d", n)
	return refusal.Fault{
		Index: n, Kind: "service", Name: name,
		Err: &refusal.Error{Reason: reason, Message: fmt.Sprintf("service %q: no source", name)},
	}
}

// A person who applies many resources reads what is wrong with the first ten, and how many more there are; a program
// finds each of them.
func TestManyRefusalsAreOne(t *testing.T) {
	t.Parallel()
	if err := refusal.Together(nil); err != nil {
		t.Errorf("of none: %v", err)
	}
	for _, n := range []int{1, 2, 10, 11, 500} {
		var faults []refusal.Fault
		for i := range n {
			faults = append(faults, fault(i, refusal.NotFound))
		}
		err := refusal.Together(faults)
		refused, ok := errors.AsType[*refusal.Error](err)
		if !ok || refused.Reason != refusal.NotFound || len(refused.Faults) != n {
			t.Fatalf("%d: %#v", n, err)
		}
		lines := strings.Split(err.Error(), "\n")
		if want := min(n, 11); len(lines) != want {
			t.Errorf("%d: %d lines, want %d", n, len(lines), want)
		}
		if want := fmt.Sprintf("and %d more", n-10); n > 10 && lines[10] != want {
			t.Errorf("%d: the last line is %q, want %q", n, lines[10], want)
		}
		if !strings.HasPrefix(lines[0], `service "web-0": `) {
			t.Errorf("%d: the first line is %q", n, lines[0])
		}
	}
}

// The reason of the first fault is that of all: the code of an answer is one.
func TestTheFirstReasonCounts(t *testing.T) {
	t.Parallel()
	err := refusal.Together([]refusal.Fault{fault(0, refusal.Conflict), fault(1, refusal.Invalid)})
	if !refusal.Is(err, refusal.Conflict) || refusal.Is(err, refusal.Invalid) {
		t.Errorf("%#v", err)
	}
}

func TestAReasonIsFoundBelowOtherErrors(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("apply: %w", refusal.Missing("cluster", "edge"))
	if !refusal.Is(err, refusal.NotFound) || refusal.Is(err, refusal.Forbidden) {
		t.Errorf("%v", err)
	}
	if want := `apply: cluster "edge" does not exist`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if refusal.Is(errors.New("the disk is full"), refusal.NotFound) || refusal.Is(nil, refusal.NotFound) {
		t.Error("a failure is taken for a refusal")
	}
}

// Callers act on codes, and versions of both sides differ: a reason never changes its own.
func TestEachReasonHasItsCode(t *testing.T) {
	t.Parallel()
	for reason, want := range map[refusal.Reason]connect.Code{
		refusal.Invalid:         connect.CodeInvalidArgument,
		refusal.NotFound:        connect.CodeNotFound,
		refusal.Conflict:        connect.CodeAborted,
		refusal.Precondition:    connect.CodeFailedPrecondition,
		refusal.Forbidden:       connect.CodePermissionDenied,
		refusal.Exhausted:       connect.CodeResourceExhausted,
		refusal.Unauthenticated: connect.CodeUnauthenticated,
		refusal.Unavailable:     connect.CodeUnavailable,
		0:                       connect.CodeInternal,
	} {
		if got := reason.Code(); got != want {
			t.Errorf("reason %d: %s, want %s", reason, got, want)
		}
	}
}
