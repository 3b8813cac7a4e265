// Package shown keeps what clusters show beyond reports: views with their curves, and long lists about services. The
// views and the store of package store have these.
package shown

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// View reads at one moment.
type View struct{ database.View }

// Store writes by itself.
type Store struct{ *database.DB }

// ClusterView is what the agent of a cluster saw last.
type ClusterView struct {
	Cluster        string // uid
	Term, Sequence uint64
	// Number grows with every write of a view, in the order of commits.
	Number  int64
	Receive time.Time
	// Data is the view, as the agent's pushes add up to. Receive is zero if none of them was kept.
	Data []byte
	// Refusal is why the pushes since RefuseTime were refused; empty: the last one was kept.
	Refusal    string
	RefuseTime time.Time
}

const viewColumns = "cluster_uid, term, sequence, number, receive_time, data, refusal, refuse_time"

func scanView(rows *sql.Rows) (v ClusterView, err error) {
	var term, sequence, received, refused int64
	err = rows.Scan(&v.Cluster, &term, &sequence, &v.Number, &received, &v.Data, &v.Refusal, &refused)
	v.Term, v.Sequence, v.Receive, v.RefuseTime = uint64(term), uint64(sequence), database.FromMicros(received), database.FromMicros(refused)
	if v.Receive.After(v.RefuseTime) { // kept since, by a console of an earlier version that knows no refusals
		v.Refusal, v.RefuseTime = "", time.Time{}
	}
	return v, err
}

// ClusterViews returns up to limit views that were written after a number, in the order of their writes.
func (v View) ClusterViews(ctx context.Context, after int64, limit int) ([]ClusterView, error) {
	rows, err := v.QueryContext(ctx, "SELECT "+viewColumns+" FROM views WHERE number > $1 ORDER BY number LIMIT $2", after, limit)
	list, err := database.Collect(rows, err, scanView)
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	return list, nil
}

// ViewedClusters returns the uids of the clusters that have a view.
func (v View) ViewedClusters(ctx context.Context) ([]string, error) {
	rows, err := v.QueryContext(ctx, "SELECT cluster_uid FROM views")
	return database.Collect(rows, err, func(rows *sql.Rows) (uid string, err error) {
		err = rows.Scan(&uid)
		return uid, err
	})
}

// ChangeViews has change make new views of those of some clusters, in one transaction: nobody else writes a view
// meanwhile. ChangeViews returns the written views, numbered. Views are no part of the change log, and their lock is no
// other's.
func (s Store) ChangeViews(ctx context.Context, clusters []string,
	change func(current map[string]ClusterView) ([]ClusterView, error),
) (written []ClusterView, err error) {
	err = s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
		if err := tx.Lock(ctx, s.Dialect.LockViews); err != nil {
			return err
		}
		v := View{tx.View()}
		current, err := database.ByKey(ctx, v.View, "SELECT "+viewColumns+" FROM views WHERE cluster_uid IN ", clusters, func(rows *sql.Rows) (string, ClusterView, error) {
			one, err := scanView(rows)
			return one.Cluster, one, err
		})
		if err != nil {
			return fmt.Errorf("read views: %w", err)
		}
		if written, err = change(current); err != nil || len(written) == 0 {
			return err
		}
		slices.SortFunc(written, func(a, b ClusterView) int { return strings.Compare(a.Cluster, b.Cluster) })
		var last int64
		if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(number), 0) FROM views").Scan(&last); err != nil {
			return fmt.Errorf("number views: %w", err)
		}
		now := s.Clock()
		last = max(last, database.Micros(now)) // the view with the highest number may have gone with its cluster
		for i := range written {
			last++
			w := &written[i]
			w.Number = last
			switch {
			case w.Refusal == "":
				w.Receive, w.RefuseTime = now, time.Time{}
			case w.RefuseTime.IsZero():
				w.RefuseTime = now
				if w.Receive.After(now) { // by the clock of another console
					w.RefuseTime = w.Receive
				}
			}
		}
		return database.ExecEach(ctx, tx, len(written), "INSERT INTO views ("+viewColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"+
			" ON CONFLICT (cluster_uid) DO UPDATE SET term = excluded.term, sequence = excluded.sequence, number = excluded.number,"+
			" receive_time = excluded.receive_time, data = excluded.data, refusal = excluded.refusal, refuse_time = excluded.refuse_time", func(i int) []any {
			w := written[i]
			return []any{w.Cluster, int64(w.Term), int64(w.Sequence), w.Number, database.Micros(w.Receive), w.Data, w.Refusal, database.Micros(w.RefuseTime)}
		})
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// CurveTable has the curves. No backup has them.
const CurveTable = "view_curves"

// ClusterCurve is what a cluster's figures were in the last 24 hours, encoded.
type ClusterCurve struct {
	Cluster string // uid
	Data    []byte
}

func scanCurve(rows *sql.Rows) (c ClusterCurve, err error) {
	err = rows.Scan(&c.Cluster, &c.Data)
	return c, err
}

// ClusterCurves returns up to limit curves of clusters behind a uid, in the order of uids.
func (v View) ClusterCurves(ctx context.Context, after string, limit int) ([]ClusterCurve, error) {
	rows, err := v.QueryContext(ctx, "SELECT cluster_uid, data FROM "+CurveTable+" WHERE cluster_uid > $1 ORDER BY cluster_uid LIMIT $2", after, limit)
	list, err := database.Collect(rows, err, scanCurve)
	if err != nil {
		return nil, fmt.Errorf("read curves: %w", err)
	}
	return list, nil
}

// ChangeCurves has change make new curves of those of some clusters, in one transaction. Another console may write the
// same ones meanwhile: what the last one lacks of the other it writes in a later step.
func (s Store) ChangeCurves(ctx context.Context, clusters []string, change func(current map[string][]byte) []ClusterCurve) error {
	return s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
		current, err := database.ByKey(ctx, tx.View(), "SELECT cluster_uid, data FROM "+CurveTable+" WHERE cluster_uid IN ", clusters,
			func(rows *sql.Rows) (string, []byte, error) {
				one, err := scanCurve(rows)
				return one.Cluster, one.Data, err
			})
		if err != nil {
			return fmt.Errorf("read curves: %w", err)
		}
		written := change(current)
		slices.SortFunc(written, func(a, b ClusterCurve) int { return strings.Compare(a.Cluster, b.Cluster) }) // as every console does
		return database.ExecEach(ctx, tx, len(written), "INSERT INTO "+CurveTable+" (cluster_uid, data) VALUES ($1, $2)"+
			" ON CONFLICT (cluster_uid) DO UPDATE SET data = excluded.data", func(i int) []any {
			return []any{written[i].Cluster, written[i].Data}
		})
	})
}
