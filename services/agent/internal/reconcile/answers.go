package reconcile

import (
	"context"
	"time"

	"fairlead.dev/services/agent/internal/answers"
	"fairlead.dev/services/agent/internal/render"
)

// memo is the kept answers of one render.
type memo struct {
	store   *answers.Store
	service string
	// id names the content, applied the one that is in the cluster.
	id, applied string
	// kept is nil until a template calls a random function.
	kept *answers.Kept
	// used are the answers that templates got.
	used []render.Answer
}

// recallAnswers is a render.Recall.
func (m *memo) recallAnswers(ctx context.Context) (_ []render.Answer, err error) {
	if m.kept, err = m.store.Read(ctx, m.service); err != nil {
		return nil, err
	}
	return m.kept.Of(m.id), nil
}

// saveAnswers writes what the render used, before anything of it is applied.
func (m *memo) saveAnswers(ctx context.Context) error {
	if m.kept == nil {
		return nil
	}
	return m.store.Save(ctx, m.kept, m.id, m.applied, m.used)
}

// renewalTime is when the first certificate is to be made again; zero: never.
func (m *memo) renewalTime() time.Time {
	var first time.Time
	for _, answer := range m.used {
		if !answer.Renew.IsZero() && (first.IsZero() || answer.Renew.Before(first)) {
			first = answer.Renew
		}
	}
	return first
}
