package refusal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/services/console/internal/refusal"
	"fairlead.dev/services/console/internal/store"
)

func fault(n int, reason refusal.Reason) refusal.Fault {
	name := fmt.Sprintf("web-%d", n)
	return refusal.Fault{
		Index: n, Ref: store.Ref{Kind: store.KindService, Name: name},
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
	err := fmt.Errorf("apply: %w", refusal.Missing(store.KindCluster, "edge"))
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

func TestResourcesAreListedForAPerson(t *testing.T) {
	t.Parallel()
	a, b := store.Ref{Kind: store.KindService, Name: "a"}, store.Ref{Kind: store.KindSource, Name: "b"}
	for want, got := range map[string]string{
		"":                                 refusal.List(nil, false),
		`service "a"`:                      refusal.List([]store.Ref{a}, false),
		`service "a", source "b"`:          refusal.List([]store.Ref{a, b}, false),
		`service "a", source "b" and more`: refusal.List([]store.Ref{a, b}, true),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
