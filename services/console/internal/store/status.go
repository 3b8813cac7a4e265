package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Heads is what the fetcher of a source published.
type Heads struct {
	// Epoch is of the last claim; 0: nobody claimed the source yet.
	Epoch int64
	Owner string
	// State is JSON.
	State []byte
}

// Report is what a cluster said last about a service.
type Report struct {
	Service string // uid
	Cluster string // uid
	// Sequence orders the reports of a service from a cluster.
	Sequence    int64
	ReceiveTime time.Time
	// State is JSON.
	State []byte
	// Basis is what the caller went by, for PutReports; nil: nothing.
	Basis *Basis
	// Value is what State was made of, for those who are told of the report; it is not kept.
	Value any

	text any // State as it is written, from before others wait; set by PutReports unless the dialect has Arrays
}

// Basis is what is kept of a service as the writer of a report knows it: it may be old, or another console may have
// written meanwhile.
type Basis struct {
	// Revision is that of the service.
	Revision int64
	// Sequence is that of the report that is kept; NoReport: there is none.
	Sequence int64
}

// NoReport is the sequence of a report that there is not.
const NoReport = -1

// Seen is a cluster's last sign of life.
type Seen struct {
	Cluster string // uid
	// JoinTime is zero if no agent joined.
	JoinTime time.Time
	// SeenTime is zero if the cluster was never seen.
	SeenTime time.Time
	// LostTime is when a stream of its agent broke last; zero: none did.
	LostTime time.Time
	// LeaveTime is when the cluster left; zero: it did not, or has joined again.
	LeaveTime time.Time
	// ReuseTime is when a token of its agents was used that had been renewed before, and Reuse how, in words; zero:
	// none was.
	ReuseTime time.Time
	Reuse     string
	// State is JSON.
	State []byte
}

// Heads returns the heads of sources, by uid.
func (v View) Heads(ctx context.Context, uids []string) (map[string]Heads, error) {
	return database.ByKey(ctx, v.db, "SELECT source_uid, epoch, owner, state FROM heads WHERE source_uid IN ", uids, func(rows *sql.Rows) (uid string, h Heads, err error) {
		return uid, h, rows.Scan(&uid, &h.Epoch, &h.Owner, &h.State)
	})
}

// ReportKey is a service and a cluster, by uid.
type ReportKey struct{ Service, Cluster string }

// Reports returns the reports about services, from any cluster.
func (v View) Reports(ctx context.Context, services []string) (map[ReportKey]Report, error) {
	return database.ByKey(ctx, v.db, selectReports+" IN ", services, scanReport)
}

// ReportsWithin returns the reports about all services whose uids are in a range.
func (v View) ReportsWithin(ctx context.Context, uids Range) (map[ReportKey]Report, error) {
	return within(ctx, v, selectReports, uids, scanReport)
}

const selectReports = "SELECT service_uid, cluster_uid, sequence, receive_time, state FROM reports WHERE service_uid"

func scanReport(rows *sql.Rows) (k ReportKey, r Report, err error) {
	var us int64
	err = rows.Scan(&r.Service, &r.Cluster, &r.Sequence, &us, database.UnpackInto(&r.State))
	r.ReceiveTime = database.FromMicros(us)
	return ReportKey{r.Service, r.Cluster}, r, err
}

// Seen returns the signs of life of clusters, by uid.
func (v View) Seen(ctx context.Context, uids []string) (map[string]Seen, error) {
	return database.ByKey(ctx, v.db, "SELECT cluster_uid, join_time, seen_time, lost_time, leave_time, reuse_time, reuse, state FROM seen WHERE cluster_uid IN ", uids,
		func(rows *sql.Rows) (uid string, s Seen, err error) {
			var joined, seen, lost, left, reused int64
			err = rows.Scan(&s.Cluster, &joined, &seen, &lost, &left, &reused, &s.Reuse, &s.State)
			s.JoinTime, s.SeenTime, s.LostTime, s.LeaveTime = database.FromMicros(joined), database.FromMicros(seen), database.FromMicros(lost), database.FromMicros(left)
			s.ReuseTime = database.FromMicros(reused)
			return s.Cluster, s, err
		})
}

// Range is all uids from one to another, both included. Neighbours in a table are read in one go, where each of a list
// of uids is looked for.
type Range struct{ First, Last string }

// within reads the rows of a range of the column that the query ends with.
func within[K comparable, V any](ctx context.Context, v View, query string, uids Range,
	scan func(*sql.Rows) (K, V, error),
) (map[K]V, error) {
	rows, err := v.db.QueryContext(ctx, query+" BETWEEN $1 AND $2", uids.First, uids.Last)
	return database.Keyed(rows, err, map[K]V{}, scan)
}

// Claim gives a source's next epoch to owner.
func (t *Tx) Claim(ctx context.Context, source Resource, owner string) (Heads, error) {
	var h Heads
	err := t.tx.QueryRowContext(ctx, "UPDATE heads SET epoch = epoch + 1, owner = $1 WHERE source_uid = $2 RETURNING epoch, owner, state",
		owner, source.UID).Scan(&h.Epoch, &h.Owner, &h.State)
	if err != nil {
		return Heads{}, fmt.Errorf("claim source: %w", database.NotFound(err))
	}
	return h, t.touch(ctx, source)
}

// Publish writes a source's state. The caller has compared the epoch in the same Tx.
func (t *Tx) Publish(ctx context.Context, source Resource, state []byte) error {
	if _, err := t.tx.ExecContext(ctx, "UPDATE heads SET state = $1 WHERE source_uid = $2", string(state), source.UID); err != nil {
		return fmt.Errorf("publish heads: %w", err)
	}
	return t.touch(ctx, source)
}

// touch makes a change of the catalog out of a change of a status.
func (t *Tx) touch(ctx context.Context, r Resource) error {
	seq, err := t.change(ctx, r, false)
	if err != nil {
		return err
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE resources SET seq = $1 WHERE uid = $2", seq, r.UID); err != nil {
		return fmt.Errorf("number change: %w", err)
	}
	return nil
}

// touchAll is touch of many, with few statements: others wait to write meanwhile.
func (t *Tx) touchAll(ctx context.Context, list []Resource) error {
	if len(list) == 1 {
		return t.touch(ctx, list[0]) // a database that knows little of the log would look at all resources
	}
	before := t.seq
	list = slices.Clone(list)
	for i := range list {
		list[i].Seq = t.number()
	}
	if err := t.log(ctx, false, list...); err != nil {
		return err
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE resources SET seq = c.seq FROM changes c WHERE c.seq > $1 AND c.uid = resources.uid", before); err != nil {
		return fmt.Errorf("number changes: %w", err)
	}
	return nil
}

// ForgetReports removes what clusters said about a service: it moved.
func (t *Tx) ForgetReports(ctx context.Context, service string) error {
	for _, table := range []string{"reports", "service_details", "test_runs"} {
		if _, err := t.tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE service_uid = $1", service); err != nil { //nolint:gosec // table is one of these constants
			return fmt.Errorf("delete from %s: %w", table, err)
		}
	}
	return nil
}

// PutReports keeps each report whose sequence is above the kept one's and whose basis is what is kept, all in one
// commit with how far deployments are and events about them. What belongs to a report goes with it, steps and the
// events that are Of it: of two calls that say the same at the same time one writes it. PutReports returns the reports
// that were written.
func (s *Store) PutReports(ctx context.Context, reports []Report, steps []Step, events ...Event) (kept map[ReportKey]bool, err error) {
	if len(reports) == 0 {
		return nil, nil
	}
	// One order for all consoles, so that they can't wait for each other.
	reports = slices.SortedFunc(slices.Values(reports), func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Sequence, b.Sequence))
	})
	now := database.Micros(s.Clock())
	var touched Touched
	for i, r := range reports {
		touched.Services = append(touched.Services, r.Service)
		if !s.Dialect.Arrays { // others wait to write from the first statement on
			reports[i].text = s.Dialect.Text(r.State)
		}
	}
	var healthy []became
	var own []Touch
	err = s.status(ctx, &touched, events, func(ctx context.Context, tx database.Tx) (_ map[ReportKey]bool, err error) {
		if len(steps) > 0 {
			if err := tx.Lock(ctx, s.Dialect.LockSteps); err != nil {
				return nil, err
			}
		}
		standing, err := viewOver(tx.View()).standing(ctx, reports)
		if err != nil {
			return nil, err
		}
		if kept, own, err = s.putReports(ctx, tx, standing, now); err != nil {
			return nil, err
		}
		touched = told(reports, kept, now)
		touched.Own = own
		ours := slices.DeleteFunc(slices.Clone(steps), func(p Step) bool { return p.Of != ReportKey{} && !kept[p.Of] })
		healthy, err = stepDeployments(ctx, tx, ours)
		return kept, err
	})
	if err != nil {
		return nil, err
	}
	s.tellHealthy(healthy)
	return kept, nil
}

// told is what there is to tell of reports that were written.
func told(reports []Report, kept map[ReportKey]bool, now int64) (t Touched) {
	for _, r := range reports {
		switch {
		case !kept[ReportKey{r.Service, r.Cluster}]:
		case r.Value == nil:
			t.Services = append(t.Services, r.Service)
		default:
			r.State, r.text, r.Basis, r.ReceiveTime = nil, nil, nil, database.FromMicros(now)
			t.Reports = append(t.Reports, r)
		}
	}
	return t
}

// standing returns the reports whose service is the one that they are based on, and whose cluster is there.
func (v View) standing(ctx context.Context, reports []Report) ([]Report, error) {
	named := make(map[string]int64, len(reports))
	for _, r := range reports {
		if r.Basis != nil {
			named[r.Service], named[r.Cluster] = 0, 0
		}
	}
	revisions, err := v.revisionsOf(ctx, database.SortedKeys(named))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(reports), func(r Report) bool {
		if r.Basis == nil {
			return false
		}
		_, there := revisions[r.Cluster]
		return revisions[r.Service] != r.Basis.Revision || !there && r.Cluster != ""
	}), nil
}

// revisionsOf returns the revisions of the resources that are there, by uid.
func (v View) revisionsOf(ctx context.Context, uids []string) (map[string]int64, error) {
	return database.ByKey(ctx, v.db, "SELECT uid, revision FROM resources WHERE uid IN ", uids, func(rows *sql.Rows) (uid string, revision int64, err error) {
		err = rows.Scan(&uid, &revision)
		return uid, revision, err
	})
}

// putReports writes reports that are sorted: one by one where a statement costs no round trip, else all in few.
// putReports returns the reports that were written, where consoles share the database with their touches.
func (s *Store) putReports(ctx context.Context, tx database.Tx, reports []Report, now int64) (kept map[ReportKey]bool, own []Touch, err error) {
	kept = make(map[ReportKey]bool, len(reports))
	if s.Dialect.Arrays {
		own, err = s.putReportsTogether(ctx, tx, reports, now, kept)
		return kept, own, err
	}
	query := putReport("VALUES ($1, $2, $3, $4, $5, "+s.Dialect.Now+")") + " AND ($6 IS NULL OR reports.sequence = $6)"
	err = database.Prepared(ctx, tx, query, func(stmt *sql.Stmt) error {
		for _, r := range reports {
			var before any // NULL: any
			if r.Basis != nil {
				before = r.Basis.Sequence
			}
			written, err := hasWritten(stmt.ExecContext(ctx, r.Service, r.Cluster, r.Sequence, now, r.text, before))
			if err != nil {
				return err
			}
			if written {
				kept[ReportKey{r.Service, r.Cluster}] = true
			}
		}
		return nil
	})
	return kept, nil, err
}

// putReportsTogether is putReports in a statement for reports that are the first of their services, one for those that
// follow another, and one for those without a basis. Rows are locked in the order of services, so that consoles can't
// wait for each other.
func (s *Store) putReportsTogether(ctx context.Context, tx database.Tx, reports []Report, now int64, kept map[ReportKey]bool) (own []Touch, err error) {
	var first, next, free []Report
	for i, r := range reports {
		switch {
		case i+1 < len(reports) && reports[i+1].Service == r.Service && reports[i+1].Cluster == r.Cluster: // overtaken: one statement writes a row once
		case r.Basis == nil:
			free = append(free, r)
		case r.Basis.Sequence == NoReport:
			first = append(first, r)
		default:
			next = append(next, r)
		}
	}
	const said = " FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[]), CAST($3 AS BIGINT[]), CAST($5 AS TEXT[]), CAST($6 AS BIGINT[])) AS p (service, cluster, number, said, before)"
	rows := "SELECT service, cluster, number, CAST($4 AS BIGINT), said, " + s.Dialect.Now + said
	for _, part := range []struct {
		of   []Report
		text string
	}{
		{next, "UPDATE reports SET sequence = new.number, receive_time = CAST($4 AS BIGINT), state = new.said, touch_time = " + s.Dialect.Now +
			" FROM (SELECT p.*" + said + " JOIN reports r ON r.service_uid = p.service AND r.cluster_uid = p.cluster AND r.sequence = p.before AND r.sequence < p.number" +
			" ORDER BY r.service_uid, r.cluster_uid FOR UPDATE OF r) new WHERE service_uid = new.service AND cluster_uid = new.cluster"},
		{first, "INSERT INTO reports (service_uid, cluster_uid, sequence, receive_time, state, touch_time) " + rows + " ON CONFLICT (service_uid, cluster_uid) DO NOTHING"},
		{free, putReport(rows)},
	} {
		if len(part.of) == 0 {
			continue
		}
		n := len(part.of)
		services, clusters, states, numbers, before := make([]string, n), make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
		for i, r := range part.of {
			services[i], clusters[i], numbers[i], states[i] = r.Service, r.Cluster, r.Sequence, string(r.State)
			if r.Basis != nil {
				before[i] = r.Basis.Sequence
			}
		}
		rows, err := tx.QueryContext(ctx, part.text+" RETURNING service_uid, cluster_uid, touch_time", services, clusters, numbers, now, states, before)
		wrote, err := database.Collect(rows, err, func(rows *sql.Rows) (Touch, error) {
			t, cluster := Touch{Table: reportTable}, ""
			err := rows.Scan(&t.UID, &cluster, &t.Time)
			kept[ReportKey{t.UID, cluster}] = true
			return t, err
		})
		if err != nil {
			return nil, err
		}
		own = append(own, wrote...)
	}
	return own, nil
}

// hasWritten says whether a statement wrote a row.
func hasWritten(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// putReport is the statement that keeps reports from some rows.
func putReport(rows string) string {
	return "INSERT INTO reports (service_uid, cluster_uid, sequence, receive_time, state, touch_time) " + rows +
		" ON CONFLICT (service_uid, cluster_uid) DO UPDATE SET sequence = excluded.sequence, receive_time = excluded.receive_time, state = excluded.state, touch_time = excluded.touch_time" +
		" WHERE excluded.sequence > reports.sequence"
}

// PutReport keeps a report with what a write did, if its sequence is above the kept one's, and how far deployments are.
func (t *Tx) PutReport(ctx context.Context, r Report, steps []Step) error {
	if _, err := t.tx.ExecContext(ctx, putReport("VALUES ($1, $2, $3, $4, $5, "+t.tx.Dialect.Now+")"), r.Service, r.Cluster, r.Sequence, database.Micros(t.tx.Now), t.tx.Dialect.Text(r.State)); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	healthy, err := stepDeployments(ctx, t.tx, steps)
	if err != nil {
		return err
	}
	t.touched.Services = append(t.touched.Services, r.Service)
	t.healthy = append(t.healthy, healthy...)
	return nil
}

func (s *Store) tellHealthy(list []became) {
	if s.healthy == nil {
		return
	}
	for _, h := range list {
		s.healthy(h.Deployment, h.trace)
	}
}

// PutSeen keeps the later of the kept and the given time, and its state; an empty one ({}) leaves the
// kept one. JoinTime and LostTime are not looked at.
func (s *Store) PutSeen(ctx context.Context, seen map[string]Seen) error {
	uids := database.SortedKeys(seen)
	return s.eachStatus(ctx, Touched{Clusters: uids}, len(uids), "INSERT INTO seen (cluster_uid, join_time, seen_time, state, touch_time) VALUES ($1, 0, $2, $3, "+s.Dialect.Now+")"+
		" ON CONFLICT (cluster_uid) DO UPDATE SET seen_time = excluded.seen_time, touch_time = excluded.touch_time,"+
		" state = CASE excluded.state WHEN '{}' THEN seen.state ELSE excluded.state END WHERE excluded.seen_time > seen.seen_time",
		func(i int) []any {
			return []any{uids[i], database.Micros(seen[uids[i]].SeenTime), string(seen[uids[i]].State)}
		})
}

// PutLost keeps the later of the kept and the given time per cluster that was seen.
func (s *Store) PutLost(ctx context.Context, lost map[string]time.Time) error {
	uids := database.SortedKeys(lost)
	return s.eachStatus(ctx, Touched{Clusters: uids}, len(uids), "UPDATE seen SET lost_time = $2, touch_time = "+s.Dialect.Now+" WHERE cluster_uid = $1 AND lost_time < $2",
		func(i int) []any { return []any{uids[i], database.Micros(lost[uids[i]])} })
}

// eachStatus runs one statement for n rows in one commit.
func (s *Store) eachStatus(ctx context.Context, touched Touched, n int, query string, args func(int) []any) error {
	if n == 0 {
		return nil
	}
	return s.status(ctx, &touched, nil, func(ctx context.Context, tx database.Tx) (map[ReportKey]bool, error) {
		return nil, database.ExecEach(ctx, tx, n, query, args)
	})
}

const (
	// One transaction writes mostRows statuses at most, and fewer, down to leastRows, where their statements take
	// longer than statusTime: a person's write waits for one transaction of statuses. The time of the commit is the
	// disk's, and much the same for a row as for many.
	mostRows, leastRows = 500, 100
	statusTime          = 60 * time.Millisecond
)

// StatusRows is of how many services the next transaction of statuses should be.
func (s *Store) StatusRows() int {
	if rows := s.statusRows.Load(); rows > 0 {
		return int(rows)
	}
	return mostRows
}

// fitRows learns from a transaction of so many statuses, whose statements took so long.
func (s *Store) fitRows(n int, took time.Duration) {
	rows := s.StatusRows()
	switch {
	case took > statusTime && n > rows/2:
		s.statusRows.Store(int64(max(rows/2, leastRows)))
	case took < statusTime/2 && n >= rows:
		s.statusRows.Store(int64(min(2*rows, mostRows)))
	}
}

// status writes statuses in one commit with events about them. write returns those that it wrote, and may change
// touched to what was.
func (s *Store) status(ctx context.Context, touched *Touched, events []Event, write func(context.Context, database.Tx) (kept map[ReportKey]bool, err error)) error {
	n := len(touched.Services)
	events, took, err := s.writeStatus(ctx, events, write)
	s.fitRows(n, took)
	if err != nil {
		return err
	}
	s.tellTouched(*touched)
	s.tellEvents(events)
	return nil
}

func (s *Store) writeStatus(ctx context.Context, events []Event,
	write func(context.Context, database.Tx) (map[ReportKey]bool, error),
) (told []Event, took time.Duration, err error) {
	gathered := s.gathered(events) // before others wait: mostly all is written
	err = s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
		begin := time.Now() // others wait from here on
		defer func() { took = time.Since(begin) }()
		of := ctx
		if s.Dialect.InsertRows == 1 {
			// SQLite's driver has a goroutine watch the context of each statement. These take microseconds, and none
			// runs after ctx: the transaction ends with it.
			of = context.WithoutCancel(ctx)
		}
		kept, err := write(of, tx)
		if err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		told = gathered
		if left := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Of != ReportKey{} && !kept[e.Of] }); len(left) < len(events) {
			told = s.gathered(left)
		}
		return s.insertEvents(ctx, tx, told)
	})
	return told, took, err
}

func (s *Store) gathered(events []Event) []Event {
	if s.gather == nil {
		return events
	}
	return s.gather(events)
}
