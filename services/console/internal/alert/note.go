package alert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/store"
)

const (
	// tries bounds how often what a person says is tried against rounds that come between.
	tries = 5
	// longestSilence bounds a silence.
	longestSilence = 366 * 24 * time.Hour
)

// Acknowledge notes that somebody works on what an alert found, in one group or (empty) in all.
func (k *Evaluator) Acknowledge(ctx context.Context, a Alert, group, actor, reason string) error {
	note := Note{Author: actor, Reason: reason, Time: k.Now()}
	return k.change(ctx, a, func(s *State) (events []store.Event, err error) {
		found := false
		for _, name := range slices.Sorted(maps.Keys(s.Groups)) {
			g := s.Groups[name]
			if g.Begin().IsZero() || group != "" && group != name {
				continue
			}
			if found = true; g.Ack.says(note) {
				continue
			}
			g.Ack = &note
			events = append(events, event.AlertNoted(event.AlertAcknowledged, a.Meta.Name, name, actor, reason, note.Time))
		}
		if len(events) > mostGroups {
			events = []store.Event{event.AlertNoted(event.AlertAcknowledged, a.Meta.Name, "", actor, reason, note.Time)}
		}
		if !found {
			return nil, refusal.New(refusal.Precondition,
				"alert %q fires nowhere that could be acknowledged: see `fairlead describe alert %s`", a.Meta.Name, a.Meta.Name)
		}
		return events, nil
	})
}

// says tells whether a note says the same as another one.
func (n *Note) says(other Note) bool {
	return n != nil && n.Author == other.Author && n.Reason == other.Reason && n.Until.Equal(other.Until)
}

// Silence has an alert record nothing that begins until a time; zero: the silence ends.
func (k *Evaluator) Silence(ctx context.Context, a Alert, until time.Time, actor, reason string) error {
	now := k.Now()
	switch {
	case until.IsZero():
		return k.change(ctx, a, func(s *State) ([]store.Event, error) {
			if s.Silence == nil {
				return nil, nil
			}
			s.Silence = nil
			return []store.Event{event.AlertNoted(event.AlertUnsilenced, a.Meta.Name, "", actor, "The silence ended before its time.", now)}, nil
		})
	case !until.After(now):
		return refusal.New(refusal.Invalid, "until_time: is over")
	case until.Sub(now) > longestSilence:
		return refusal.New(refusal.Invalid, "until_time: is more than a year away")
	case reason == "":
		return refusal.New(refusal.Invalid, "reason: is missing: say why, for those who wonder")
	}
	note := Note{Author: actor, Reason: reason, Time: now, Until: until}
	return k.change(ctx, a, func(s *State) ([]store.Event, error) {
		if s.Silence.says(note) {
			return nil, nil
		}
		s.Silence = &note
		how := fmt.Sprintf("Until %s: %s", until.UTC().Format(time.RFC3339), reason)
		return []store.Event{event.AlertNoted(event.AlertSilenced, a.Meta.Name, "", actor, how, now)}, nil
	})
}

// change has what a person says change the state of an alert.
func (k *Evaluator) change(ctx context.Context, a Alert, do func(s *State) ([]store.Event, error)) error {
	for range tries {
		is, err := k.standing(ctx)
		if err != nil {
			return err
		}
		of := is.states[a.Meta.UID]
		s, err := decode(of)
		if err != nil {
			return err
		}
		events, err := do(&s.State)
		if err != nil || len(events) == 0 {
			return err
		}
		s.Name, s.Severity, of.Alert = a.Meta.Name, a.Spec.severity(), a.Meta.UID
		change := store.AlertChange{Events: events}
		if change.AlertState, _, err = s.encode(of); err != nil {
			return err
		}
		if kept, err := k.Store.ChangeAlerts(ctx, []store.AlertChange{change}); err != nil || kept[0] {
			return err
		}
	}
	return refusal.New(refusal.Conflict, "alert %q was evaluated in between: try again", a.Meta.Name)
}
