package alert

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/views"
)

const (
	// lookEvery is between two rounds, by whichever console.
	lookEvery = 5 * time.Second
	// askEvery is how often a console asks whether a round is due.
	askEvery = time.Second
)

// Deps is what an Evaluator works with.
type Deps struct {
	Store *store.Store
	Views *views.Board
	Now   func() time.Time
	Log   *slog.Logger
}

// Evaluator evaluates alerts, and keeps what people say of them. An Evaluator is safe for concurrent use.
type Evaluator struct{ Deps }

// Run evaluates until ctx ends.
func (k *Evaluator) Run(ctx context.Context) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	var away outage.Outage
	for {
		switch err := k.round(ctx); {
		case err == nil:
			away.Over(ctx, k.Log, k.Now(), "alerts are evaluated again")
		case ctx.Err() == nil && !errors.Is(err, views.ErrBegins):
			away.Failed(ctx, k.Log, k.Now(), "alerts are evaluated later", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// standing is what there is of alerts: the resources, and what was found.
type standing struct {
	rows   []store.Resource
	states map[string]store.AlertState
}

func (k *Evaluator) standing(ctx context.Context) (out standing, err error) {
	err = k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if out.rows, err = catalog.AllRows(ctx, v, store.KindAlert); err == nil {
			out.states, err = v.AlertStates(ctx)
		}
		return err
	})
	return out, err
}

// subject is a cluster in a round, with its labels.
type subject struct {
	views.Subject
	labels map[string]string
}

// round evaluates all alerts if that is due, and no other console does.
func (k *Evaluator) round(ctx context.Context) error {
	due := false
	err := k.Store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		due, err = v.AlertsDue(ctx)
		return err
	})
	if err != nil || !due {
		return err
	}
	clusters, err := k.Views.Subjects(ctx)
	if err != nil {
		return err // and the round is left to a console that has read the views
	}
	if mine, err := k.Store.ClaimAlerts(ctx, lookEvery); err != nil || !mine {
		return err
	}
	is, err := k.standing(ctx)
	if err != nil {
		return err
	}
	subjects := make([]subject, len(clusters))
	for i, c := range clusters {
		subjects[i] = subject{c, c.Labels()}
	}
	var ends, changes []store.AlertChange
	for _, r := range is.rows {
		if change, err := k.evaluate(r, is.states[r.UID], subjects); err != nil {
			k.Log.WarnContext(ctx, "an alert is not evaluated", "alert", r.Name, "err", err)
		} else {
			changes = append(changes, change)
		}
		delete(is.states, r.UID)
	}
	for _, of := range is.states {
		if change, err := k.end(of); err != nil {
			k.Log.WarnContext(ctx, "the state of an alert that is gone stays", "err", err)
		} else {
			ends = append(ends, change)
		}
	}
	// An alert that was made again fires under the name of the one that is gone: the end comes first.
	_, err = k.Store.ChangeAlerts(ctx, append(ends, changes...)) // a state that a person changed meanwhile is evaluated in the next round
	return err
}

// evaluate is what a round makes of an alert.
func (k *Evaluator) evaluate(r store.Resource, of store.AlertState, subjects []subject) (out store.AlertChange, err error) {
	a, err := Kind().Decode(r)
	if err != nil {
		return out, err
	}
	question, err := views.ParseQuestion(a.Spec.When)
	if err != nil {
		return out, fmt.Errorf("spec.when: %w", err) // of a later version
	}
	s, err := decode(of)
	if err != nil {
		return out, err
	}
	now := k.Now()
	var seen []Seen
	for _, c := range subjects {
		if !a.Spec.Clusters.Fits(c.Name(), c.labels) {
			continue
		}
		one := Seen{Cluster: c.Name()}
		if a.Spec.GroupBy != "" {
			one.Group = c.labels[a.Spec.GroupBy]
		}
		one.Holds, one.Unknown = c.Answer(question, now)
		seen = append(seen, one)
	}
	for _, t := range s.Look(a.Spec.rule(), seen, now) {
		switch how := t.words(r.Name, a.Spec); {
		case t.Flaps:
			out.Events = append(out.Events, event.AlertFlaps(r.Name, r.UID, t.Group, a.Spec.severity(), how, t.Clusters, t.Since, now))
		case t.Fires:
			out.Events = append(out.Events, event.AlertFires(r.Name, r.UID, t.Group, a.Spec.severity(), how, t.Clusters, t.Since, now))
		default:
			out.Events = append(out.Events, event.AlertEnds(r.Name, r.UID, t.Group, a.Spec.severity(), how, t.Since, now))
		}
	}
	s.Name, s.Severity = r.Name, a.Spec.severity()
	of.Alert = r.UID
	out.AlertState, out.Same, err = s.encode(of)
	return out, err
}

// end ends what an alert that is gone has found.
func (k *Evaluator) end(of store.AlertState) (out store.AlertChange, err error) {
	s, err := decode(of)
	if err != nil {
		return out, err
	}
	out.AlertState, out.Gone = of, true
	tell := func(group string, g *Group) {
		out.Events = append(out.Events, event.AlertEnds(s.Name, of.Alert, group, s.Severity, "The alert was deleted.", g.Begin(), k.Now()))
	}
	for name, g := range s.Groups {
		if g.isTold() {
			tell(name, g)
		}
	}
	if s.Others != nil {
		tell(OtherGroups, s.Others)
	}
	slices.SortFunc(out.Events, func(a, b store.Event) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// stored is a State, with what is needed of the alert when that is gone.
type stored struct {
	State
	Name     string             `json:"name,omitempty"`
	Severity consolev1.Severity `json:"severity,omitempty"`
}

func decode(of store.AlertState) (s stored, err error) {
	if of.Version > 0 {
		if err := json.Unmarshal(of.State, &s); err != nil {
			return s, fmt.Errorf("decode the state of alert %s: %w", of.Alert, err)
		}
	}
	s.Looked, s.Unknown = of.Looked, of.Unknown
	return s, nil
}

// encode puts a state in the place of the one that it was made of. same: it says what that said.
func (s stored) encode(of store.AlertState) (out store.AlertState, same bool, err error) {
	text, err := json.Marshal(s) // with maps in order
	if err != nil {
		return of, false, fmt.Errorf("encode the state of alert %s: %w", of.Alert, err)
	}
	same = of.Version > 0 && bytes.Equal(text, of.State)
	of.State, of.Looked, of.Unknown = text, s.Looked, s.Unknown
	return of, same, nil
}

// StateOf is what is stored of an alert; nothing of one that was not evaluated yet.
func StateOf(of store.AlertState) (State, error) {
	s, err := decode(of)
	return s.State, err
}
