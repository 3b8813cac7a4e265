package answers

import (
	"context"
	"time"

	"fairlead.dev/services/agent/internal/render"
)

// Memo is the kept answers of one render. One goroutine uses it.
type Memo struct {
	store   *Store
	service string
	// id names the content, applied the one that is in the cluster.
	id, applied string
	// kept is nil until a template calls a random function.
	kept *kept
	// used are the answers that templates got.
	used []render.Answer
}

// Memo returns that of a render of a service: id names the content, applied the one that is in the cluster.
func (s *Store) Memo(service, id, applied string) *Memo {
	return &Memo{store: s, service: service, id: id, applied: applied}
}

// Recall is a render.Recall.
func (m *Memo) Recall(ctx context.Context) (_ []render.Answer, err error) {
	if m.kept, err = m.store.readKept(ctx, m.service); err != nil {
		return nil, err
	}
	return m.kept.contents[m.id].Answers, nil
}

// Note takes the answers that templates got.
func (m *Memo) Note(used []render.Answer) { m.used = used }

// Used are the answers that templates got.
func (m *Memo) Used() []render.Answer { return m.used }

// Save writes what the render used, before anything of it is applied.
func (m *Memo) Save(ctx context.Context) error {
	if m.kept == nil {
		return nil
	}
	return m.store.saveKept(ctx, m.kept, m.id, m.applied, m.used)
}

// Renewal is when the first certificate is to be made again; zero: never.
func (m *Memo) Renewal() time.Time {
	var first time.Time
	for _, answer := range m.used {
		if !answer.Renew.IsZero() && (first.IsZero() || answer.Renew.Before(first)) {
			first = answer.Renew
		}
	}
	return first
}
