package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestTheEndOfALogIsKept(t *testing.T) {
	t.Parallel()
	for _, chunk := range []int{1, 1000, 100_000, 2_000_000} {
		var s sink
		var all strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&all, "line %d\n", i)
		}
		for rest := all.String(); rest != ""; {
			n := min(chunk, len(rest))
			if _, err := s.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		text, isCut := s.maskedTail(plainMask)
		if !isCut || !strings.HasSuffix(text, "line 99998\nline 99999\n") || len(text) > maxLog ||
			len(text) < maxLog/2 || cap(s.end) > 8*maxLog {
			t.Errorf("in chunks of %d: %d bytes, %d in memory, cut %t", chunk, len(text), cap(s.end), isCut)
		}
	}
	var s sink
	_, _ = s.Write([]byte("a\nb\xff"))
	if text, isCut := s.maskedTail(plainMask); text != "a\nb\uFFFD" || isCut {
		t.Errorf("got %q, %t", text, isCut)
	}
}

// A secret at the place where a log is cut is not told in part.
func TestNoPartOfASecretIsLeftWhereALogIsCut(t *testing.T) {
	t.Parallel()
	const secret = "swordfish-of-the-harbour"
	mask := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	for length := maxLog; length < maxLog+2*slack; length += 1000 {
		var s sink
		for at := 0; at < length; at += len(secret) {
			_, _ = s.Write([]byte(secret))
		}
		if text, _ := s.maskedTail(mask); strings.Trim(text, "*") != "" {
			t.Fatalf("of %d bytes is left %q", length, strings.Trim(text, "*")[:20])
		}
	}
}

// Output of a container until it was not followed any more may end within a secret.
func TestNoPartOfASecretIsLeftWhereALogStops(t *testing.T) {
	t.Parallel()
	const secret = "swordfish-of-the-harbour"
	mask := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	for _, one := range []struct{ log, open, whole string }{
		{"a\npassword: " + secret[:20], "a\n", "a\npassword: " + secret[:20]},
		{"a\npassword: " + secret + "\n", "a\npassword: ***\n", "a\npassword: ***\n"},
		{secret[:20], "", secret[:20]},
	} {
		var s sink
		_, _ = s.Write([]byte(one.log))
		if got, _ := s.maskedTail(mask); got != one.whole {
			t.Errorf("of a whole log: got %q, want %q", got, one.whole)
		}
		s.isOpen = true
		if got, _ := s.maskedTail(mask); got != one.open {
			t.Errorf("got %q, want %q", got, one.open)
		}
	}
	var s sink
	_, _ = s.Write([]byte(strings.Repeat("x", maxLog) + secret[:20]))
	s.isOpen = true
	if got, _ := s.maskedTail(mask); len(got) < maxLog-2*slack || strings.Contains(got, "s") {
		t.Errorf("of one long line %d bytes are left", len(got))
	}
}

func TestAReportAheadOfALongLog(t *testing.T) {
	t.Parallel()
	var s sink
	const text = "<testsuite><testcase name='a'/></testsuite>"
	for _, part := range []string{"x <tests", text[6:], strings.Repeat("y", 2*maxReport)} {
		_, _ = s.Write([]byte(part))
	}
	if got := s.readReports(plainMask); got.passed != 1 || len(s.reports) > maxReport {
		t.Errorf("got %v from %d bytes", got, len(s.reports))
	}
	s = sink{}
	_, _ = s.Write([]byte("<testsuite is no report" + strings.Repeat("y", 2*maxReport) + text))
	if got := s.readReports(plainMask); got.passed != 1 {
		t.Errorf("got %v", got)
	}
}

func TestSharesOfTheRoom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sizes, want []int
	}{
		{nil, []int{}},
		{[]int{10, 20}, []int{10, 20}},
		{[]int{10, 500, 0}, []int{10, 90, 0}},
		{[]int{500, 20, 500}, []int{40, 20, 40}},
		{[]int{500, 500, 500}, []int{33, 33, 33}},
		{[]int{100}, []int{100}},
	} {
		if got := shareRoom(100, slices.Clone(test.sizes)); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.sizes, got, test.want)
		}
	}
}
