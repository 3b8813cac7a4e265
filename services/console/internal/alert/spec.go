package alert

import (
	"context"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/kinds/viewset"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/views"
)

// Spec is what is stored.
type Spec struct {
	Description string             `json:"description,omitempty"`
	Clusters    *resource.Selector `json:"clusters"`
	When        string             `json:"when"`
	For         time.Duration      `json:"forNanos,omitempty"`
	Recover     time.Duration      `json:"recoverNanos"`
	MoreThan    int                `json:"moreThan,omitempty"`
	GroupBy     string             `json:"groupBy,omitempty"`
	// Severity is that of the API; 0: WARNING.
	Severity int32 `json:"severity,omitempty"`
}

// UsualRecover is spec.recover where it is left out.
const UsualRecover = 5 * time.Minute

// Alert is such a resource.
type Alert = resource.Of[Spec]

// most is how many alerts there may be: a round asks each of them about each cluster.
const most = 200

// Hook bounds the number of alerts, and refuses figures that their ViewSets don't count.
type Hook struct{}

// Wrote implements catalog.Hook.
func (Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if after == nil || after.Kind != store.KindAlert {
		return nil
	}
	if err := checkSets(ctx, w.Tx.View, *after); err != nil || before != nil {
		return err
	}
	rows, err := catalog.AllRows(ctx, w.Tx.View, store.KindAlert)
	if err == nil && len(rows) > most {
		err = refusal.New(refusal.Precondition,
			"alert %q: there are %d already, the most that there may be: one alert may group clusters by a label", after.Name, most)
	}
	return err
}

// checkSets refuses a figure that a ViewSet doesn't count. The ViewSet may be written later: the status says so until
// then.
func checkSets(ctx context.Context, v store.View, r store.Resource) error {
	a, err := Kind().Decode(r)
	if err != nil {
		return err
	}
	question, err := views.ParseQuestion(a.Spec.When)
	if err != nil {
		return err // the check of the kind has refused it
	}
	rows, err := v.Named(ctx, store.KindViewSet, question.Sets())
	if err != nil {
		return err
	}
	sets, err := viewset.Messages(rows)
	if err != nil {
		return err
	}
	return refuseMistake(question, sets)
}

// Kind is theirs.
func Kind() resource.Type[Spec] {
	return resource.Type[Spec]{Kind: store.KindAlert, Check: func(a *Alert) error {
		question, err := views.ParseQuestion(a.Spec.When)
		if err != nil {
			return refusal.New(refusal.Invalid, "spec.when: %s", err)
		}
		return refuseMistake(question, nil)
	}}
}

// refuseMistake refuses a question with a figure that no view has, as far as the ViewSets say so.
func refuseMistake(question *views.Question, sets map[string]*consolev1.ViewSet) error {
	if mistake := question.Mistake(sets); mistake != "" {
		return refusal.New(refusal.Invalid, "spec.when: %s", mistake)
	}
	return nil
}

func (s Spec) severity() consolev1.Severity {
	if s.Severity == 0 {
		return consolev1.Severity_SEVERITY_WARNING
	}
	return consolev1.Severity(s.Severity)
}

func (s Spec) rule() Rule { return Rule{For: s.For, Recover: s.Recover, MoreThan: s.MoreThan} }
