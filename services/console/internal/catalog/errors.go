package catalog

import (
	"fmt"
	"strings"

	"fairlead.dev/services/console/internal/store"
)

// Reason says what kind of refusal an Error is.
type Reason int

// The reasons.
const (
	// Invalid: a field is wrong.
	Invalid Reason = iota + 1
	// NotFound: there is no such resource.
	NotFound
	// Conflict: somebody else was first.
	Conflict
	// Precondition: something else has to be done before.
	Precondition
	// Forbidden: the caller may not.
	Forbidden
	// Exhausted: a bound is reached.
	Exhausted
)

// Error is a refusal in a person's words.
type Error struct {
	Reason  Reason
	Message string
	// Faults are set if it is about several resources.
	Faults []Fault
	// Confirmation is what the caller has to send back to have it done all the same, and Consequences what would come
	// of it. Empty: no confirmation helps.
	Confirmation string
	Consequences []string
	// Absent: something that it names does not exist.
	Absent bool
}

// Fault is what is wrong with one resource of many.
type Fault struct {
	// Index of the edit.
	Index int
	Ref   store.Ref
	Err   *Error
}

// Refuse makes a refusal for hooks.
func Refuse(reason Reason, format string, args ...any) error { return refuse(reason, format, args...) }

// shownFaults is how many refusals the message of one for all repeats.
const shownFaults = 10

// together makes one refusal of all.
func together(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	first := faults[0].Err
	if len(faults) == 1 {
		return &Error{Reason: first.Reason, Message: first.Message, Faults: faults}
	}
	var lines []string
	for _, f := range faults[:min(len(faults), shownFaults)] {
		lines = append(lines, f.Err.Message)
	}
	if more := len(faults) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return &Error{Reason: first.Reason, Message: strings.Join(lines, "\n"), Faults: faults}
}

func (e *Error) Error() string { return e.Message }

func refuse(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func missing(kind store.Kind, name string) error {
	return refuse(NotFound, "%s %q does not exist", kind, name)
}

// listing is for a person: `service "a", service "b" and more`.
func listing(refs []store.Ref, more bool) string {
	var parts []string
	for _, r := range refs {
		parts = append(parts, fmt.Sprintf("%s %q", r.Kind, r.Name))
	}
	text := strings.Join(parts, ", ")
	if more {
		text += " and more"
	}
	return text
}
