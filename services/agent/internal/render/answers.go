package render

import (
	"context"
	"encoding/json"
	"time"
)

// MaxAnswers bounds what is kept for one content of a service, in bytes of values: three of them fit into a Secret.
const MaxAnswers = 200 << 10

// Call names a call of a random or time function in a render. Calls with equal names have equal answers, as long as
// these are kept.
type Call struct {
	Function string `json:"function"`
	// Arguments is a sum of them: they may be secret.
	Arguments string `json:"arguments"`
	// Template is the one that was rendered, whatever it included.
	Template string `json:"template"`
	// Nth of the calls that have all this in common, from 0.
	Nth int `json:"nth,omitempty"`
}

// Answer is what a random or time function gave.
type Answer struct {
	Call

	Value json.RawMessage `json:"value"`
	// Renew is when a certificate is to be made again, well before it ends; zero: never.
	Renew time.Time `json:"renew,omitzero"`
}

// Due tells that a certificate is to be made again.
func (a Answer) Due(now time.Time) bool { return !a.Renew.IsZero() && !now.Before(a.Renew) }

// Size is about what the answer takes where it is kept, in bytes.
func (a Answer) Size() int {
	const rest = 200 // names of fields, function, arguments, time
	return len(a.Value) + len(a.Template) + rest
}

// Recall gives the answers that are kept for the content that is rendered. Recall is asked once at most, by the first
// template that calls a random or time function.
type Recall func(ctx context.Context) ([]Answer, error)
