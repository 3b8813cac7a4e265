// Package resource is the form of resources: the specs of kinds without a status, as JSON in the database, and what a
// spec of any kind may say. A check refuses a spec or brings it into the form that is stored; references are the
// resources that its fields name.
//
// Sources, clusters and services are read by package state, and checked here. The folders below kinds describe the API
// of kinds; a kind that no engine reads has its spec there.
//
// Checks see one resource, and ask nobody. Package catalog writes resources and keeps references whole.
package resource

import (
	"context"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Of is a resource of a kind that has no status of its own.
type Of[S any] struct {
	Meta state.Meta
	Spec S
}

// Type is such a kind.
type Type[S any] struct {
	Kind store.Kind
	// Check says what is wrong, and brings the rest into the form that is stored. nil: nothing can be.
	Check func(*Of[S]) error
	// Refs are the resources that it names. nil: none.
	Refs func(S) []Reference
}

// Decode reads what is stored.
func (t Type[S]) Decode(r store.Resource) (out Of[S], err error) {
	out.Meta = state.MetaOf(r)
	err = state.Decode(r, &out.Spec)
	return out, err
}

// Load reads resources.
func (t Type[S]) Load(_ context.Context, _ store.View, rows []store.Resource) ([]Of[S], error) {
	out := make([]Of[S], len(rows))
	for i, r := range rows {
		var err error
		if out[i], err = t.Decode(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}
