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
)

// Error is a refusal in a person's words.
type Error struct {
	Reason  Reason
	Message string
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
