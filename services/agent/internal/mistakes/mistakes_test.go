package mistakes_test

import (
	"errors"
	"fmt"
	"testing"

	"fairlead.dev/services/agent/internal/mistakes"
)

// Each of several mistakes is a sentence in a line of its own; those after the fifth are counted.
func TestEachMistakeIsASentence(t *testing.T) {
	t.Parallel()
	var many []error
	for i := range 6 {
		many = append(many, fmt.Errorf("m%d", i))
	}
	for want, err := range map[string]error{
		"one.":                errors.New("one."),
		"one: two and three.": fmt.Errorf("one: %w and %w", errors.New("two"), errors.New("three")),
		"one.\ntwo.\nthree.":  errors.Join(errors.New("one"), errors.Join(errors.New("two."), errors.New("three"))),
		"m0.\nm1.\nm2.\nm3.\nm4.\nThere are 8 more mistakes.": errors.Join(
			errors.Join(many...), errors.Join(errors.New("other"), mistakes.MoreError(6))),
		"Job shop/load failed.":          errors.New("Job shop/load failed: "),
		"one.\nThere is 1 more mistake.": errors.Join(errors.New("one"), mistakes.MoreError(1)),
	} {
		if got := mistakes.EndSentence(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
