package event

import (
	"context"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// A report of the last apply, which comes after the deletion, is about no removal. And a removal that failed may last
// longer than the event of the deletion is kept.
func TestARemovalThatFailedEndsAfterTheDeletionWasTrimmed(t *testing.T) {
	t.Parallel()
	w := newWebService(t)
	remove := func(name string) {
		t.Helper()
		w.ok(w.catalog.DeleteService(t.Context(), w.by, name, "", ""))
	}
	said := func(phase state.Phase, digest, message string, want ...string) {
		t.Helper()
		w.reports++
		_, err := w.intake.RecordReports(t.Context(), []intake.ClusterReports{{Cluster: "edge-1", Reports: []state.Report{{
			Service: "web", Sequence: w.reports, Phase: phase, Digest: digest, Message: message, ObservedTime: w.now,
		}}}})
		w.ok(err)
		var got []string
		w.ok(w.store.Read(t.Context(), func(ctx context.Context, v store.View) error {
			rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
			for _, row := range rows {
				if row.Type == ServiceDeleted || row.Type == ServiceRemovalFailed || row.Type == ServicePruned {
					got = append(got, row.Service+" "+row.Type)
				}
			}
			return err
		}))
		if !slices.Equal(got, want) {
			t.Errorf("events are %q, want %q", got, want)
		}
	}
	deleted, failed := "web "+ServiceDeleted, "web "+ServiceRemovalFailed
	remove("web")
	said(state.PhaseFailed, "d1", "The folder has no objects.", deleted)
	w.now = w.now.Add(6 * 24 * time.Hour)
	said(state.PhaseFailed, "", "A hook failed.", deleted, failed)
	w.now = w.now.Add(2 * 24 * time.Hour)
	_, _, err := w.catalog.UpdateService(t.Context(), w.by, state.Service{
		Meta: state.Meta{Name: "other"}, Spec: state.ServiceSpec{Source: "shop", Cluster: "edge-1", Path: "web"},
	}, upsert())
	w.ok(err)
	remove("other") // the event trims those that are too old
	other := "other " + ServiceDeleted
	said(state.PhaseRemoved, "", "", failed, other, "web "+ServicePruned)
	said(state.PhaseRemoved, "", "", failed, other, "web "+ServicePruned)
}
