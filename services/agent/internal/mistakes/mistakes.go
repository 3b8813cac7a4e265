// Package mistakes puts several errors of one look into words: the first ones one by one, the others as a count.
package mistakes

import (
	"errors"
	"slices"
	"strings"

	"fairlead.dev/platform/plural"
)

// most bounds how many mistakes are reported one by one.
const most = 5

// MoreError counts mistakes of a list that are not in the list themselves.
type MoreError int

func (n MoreError) Error() string { return "and " + plural.Of(int(n), "more mistake") }

// List keeps the first mistakes of a look, and counts the others. The zero List is empty.
type List struct {
	first []error
	more  int
}

// Add adds a mistake.
func (l *List) Add(err error) {
	if len(l.first) == most {
		l.more++
		return
	}
	l.first = append(l.first, err)
}

// Err returns the mistakes as one error, which ends with the count of the others; nil if there are none.
func (l *List) Err() error {
	if l.more == 0 {
		return errors.Join(l.first...)
	}
	return errors.Join(append(slices.Clip(l.first), MoreError(l.more))...)
}

// EndSentence makes a sentence of an error. Joined errors make a line each, and those after the first ones a count.
func EndSentence(err error) string {
	var lines []string
	more := 0
	for _, one := range Split(err) {
		count, isCount := errors.AsType[MoreError](one)
		switch {
		case isCount:
			more += int(count)
		case len(lines) == most:
			more++
		default:
			lines = append(lines, EndText(one.Error()))
		}
	}
	if more > 0 {
		lines = append(lines, "There "+plural.Are(more)+" "+plural.Of(more, "more mistake")+".")
	}
	return strings.Join(lines, "\n")
}

// EndText ends a text as a sentence; a colon that nothing follows goes.
func EndText(text string) string { return strings.TrimRight(text, ". :\n") + "." }

// Split returns the errors that errors.Join has made one of.
func Split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, Split(one)...)
	}
	return all
}
