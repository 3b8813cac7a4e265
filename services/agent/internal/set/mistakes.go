package set

import (
	"errors"
	"slices"

	"fairlead.dev/services/agent/internal/kubeyaml"
)

// mistakes keeps the first errors of a check, and counts the others.
type mistakes struct {
	first []error
	more  int
}

func (m *mistakes) add(err error) {
	if len(m.first) == maxMistakes {
		m.more++
		return
	}
	m.first = append(m.first, err)
}

// join returns the errors as one, which ends with the count of the others.
func (m *mistakes) join() error {
	if m.more == 0 {
		return errors.Join(m.first...)
	}
	return errors.Join(append(slices.Clip(m.first), kubeyaml.MoreError(m.more))...)
}
