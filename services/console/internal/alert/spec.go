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

// Hook bounds the number of alerts, and refuses figures that no view has.
type Hook struct {
	// Sees says what the caller in ctx sees; nil from it: everything.
	Sees func(context.Context) (func(store.Resource) bool, error)
}

// Wrote implements catalog.Hook.
func (h Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if after == nil || after.Kind != store.KindAlert {
		return nil
	}
	if err := h.checkFigures(ctx, w.Tx.View, before, *after); err != nil || before != nil {
		return err
	}
	rows, err := catalog.AllRows(ctx, w.Tx.View, store.KindAlert)
	if err == nil && len(rows) > most {
		err = refusal.New(refusal.Precondition,
			"alert %q: there are %d already, the most that there may be: one alert may group clusters by a label", after.Name, most)
	}
	return err
}

// checkFigures refuses a question with a figure that no view has. Of a ViewSet that is not there yet, or that the
// caller may not see, any figure may come: the status of the alert says what is wrong. A question that was there before
// stays: a ViewSet may have lost the figure since, and the rest of the alert can be changed all the same.
func (h Hook) checkFigures(ctx context.Context, v store.View, before *store.Resource, after store.Resource) error {
	is, err := Kind().Decode(after)
	if err != nil {
		return err
	}
	if before != nil {
		was, err := Kind().Decode(*before)
		if err != nil || was.Spec.When == is.Spec.When {
			return err
		}
	}
	question, err := views.ParseQuestion(is.Spec.When)
	if err != nil {
		return err // the check of the kind has refused it
	}
	rows, err := v.Named(ctx, store.KindViewSet, question.Sets())
	if err != nil {
		return err
	}
	sees, err := h.Sees(ctx)
	if err != nil {
		return err
	}
	sets, err := viewset.Messages(rows, sees)
	if err != nil {
		return err
	}
	if mistake := question.Mistake(sets); mistake != "" {
		return refusal.New(refusal.Invalid, "spec.when: %s", mistake)
	}
	return nil
}

// Kind is theirs.
func Kind() resource.Type[Spec] {
	return resource.Type[Spec]{Kind: store.KindAlert, Check: func(a *Alert) error {
		if _, err := views.ParseQuestion(a.Spec.When); err != nil {
			return refusal.New(refusal.Invalid, "spec.when: %s", err)
		}
		return nil
	}}
}

func (s Spec) severity() consolev1.Severity {
	if s.Severity == 0 {
		return consolev1.Severity_SEVERITY_WARNING
	}
	return consolev1.Severity(s.Severity)
}

func (s Spec) rule() Rule { return Rule{For: s.For, Recover: s.Recover, MoreThan: s.MoreThan} }
