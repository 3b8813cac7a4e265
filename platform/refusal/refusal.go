// Package refusal is what a service refuses, in the words that a person reads, with the reason that chooses the code of
// an answer. An error of another type is a failure of the service.
//
// Packages of all layers refuse by New. The handlers of a service find the Error below other errors, by errors.AsType,
// and make an answer of its words and the code of its reason. Reasons are no labels of metrics and no values of
// messages: errors that are counted or sent by their kind have types of their own.
package refusal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Reason says what kind of refusal an Error is.
type Reason int

// The reasons.
const (
	// Invalid: a field is wrong.
	Invalid Reason = iota + 1
	// NotFound: there is no such thing.
	NotFound
	// Conflict: somebody else was first.
	Conflict
	// Precondition: something else has to be done before.
	Precondition
	// Forbidden: the caller is known, and may not.
	Forbidden
	// Exhausted: a bound is reached.
	Exhausted
	// Unauthenticated: the credential is wrong.
	Unauthenticated
	// Unavailable: the same may be answered later, or by another replica.
	Unavailable
)

// Code is the code of an answer that refuses for a reason.
func (r Reason) Code() connect.Code {
	switch r {
	case Invalid:
		return connect.CodeInvalidArgument
	case NotFound:
		return connect.CodeNotFound
	case Conflict:
		return connect.CodeAborted
	case Precondition:
		return connect.CodeFailedPrecondition
	case Forbidden:
		return connect.CodePermissionDenied
	case Exhausted:
		return connect.CodeResourceExhausted
	case Unauthenticated:
		return connect.CodeUnauthenticated
	case Unavailable:
		return connect.CodeUnavailable
	}
	return connect.CodeInternal
}

// Error is a refusal in a person's words.
type Error struct {
	Reason  Reason
	Message string
	// RetryAfter is when to come again; 0: that is not known.
	RetryAfter time.Duration
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
	// Kind and Name are of the resource.
	Kind, Name string
	Err        *Error
}

// shownFaults is how many refusals the message of one for all repeats.
const shownFaults = 10

// Together makes one refusal of all.
func Together(faults []Fault) error {
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

// New makes a refusal.
func New(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Is tells whether an error is a refusal for a reason.
func Is(err error, reason Reason) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Reason == reason
}

// Missing is the refusal of a resource that does not exist.
func Missing[Kind ~string](kind Kind, name string) error {
	return New(NotFound, "%s %q does not exist", kind, name)
}
