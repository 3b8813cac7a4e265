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

// maxDeployments is how many deployments of one service are kept.
const maxDeployments = 1000

// Deployment is one content of a service on its way into its cluster.
type Deployment struct {
	Service string // uid
	// Number counts from 1. Filled in by the store.
	Number int64
	Digest string
	// Content is its digest without what is said of tests; empty: as Digest.
	Content string
	// Replaces is the content of the current deployment if that is of the same but for levers, and gets the new
	// digests; empty: Content.
	Replaces string
	// State is JSON.
	State []byte
	// Times are zero for what was not reached. EndTime is when the next one came.
	DeliverTime, ApplyTime, HealthyTime, EndTime time.Time
	// Outcome is what the cluster said last; empty: nothing yet.
	Outcome, Message string
	// Tests is JSON of the last run of its tests; empty: there was none.
	Tests []byte
	// Value is what State was made of, for those who are told of the deployment; nil where it was read.
	Value any

	text any // State as it is written, from before others wait; set by PutHub unless the dialect has Arrays
}

// Step is what a cluster says of the deployment of a digest.
type Step struct {
	Service, Digest string
	// Apply and Healthy are when it got there; zero: it did not.
	Apply, Healthy   time.Time
	Outcome, Message string
	// Trace is the context of the commit's; it is not kept.
	Trace string
	// Of is the report that says it, for PutReports.
	Of ReportKey
}

const deploymentColumns = "service_uid, number, digest, state, deliver_time, apply_time, healthy_time, end_time, outcome, message, content_digest, tests"

func scanDeployment(rows *sql.Rows) (d Deployment, err error) {
	var delivered, applied, healthy, ended int64
	err = rows.Scan(&d.Service, &d.Number, database.UnpackInto(&d.Digest), database.UnpackInto(&d.State), &delivered, &applied, &healthy, &ended, &d.Outcome, &d.Message,
		database.UnpackInto(&d.Content), &d.Tests)
	d.DeliverTime, d.ApplyTime, d.HealthyTime, d.EndTime = database.FromMicros(delivered), database.FromMicros(applied), database.FromMicros(healthy), database.FromMicros(ended)
	d.Content = cmp.Or(d.Content, d.Digest)
	return d, err
}

// Deployments returns up to limit deployments of a service below a number, the newest first; 0: from the newest on.
func (v View) Deployments(ctx context.Context, service string, before int64, limit int) ([]Deployment, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT "+deploymentColumns+
		" FROM deployments WHERE service_uid = $1 AND (CAST($2 AS BIGINT) = 0 OR number < CAST($2 AS BIGINT)) ORDER BY number DESC LIMIT $3", service, before, limit)
	return database.Collect(rows, err, scanDeployment)
}

// LastDeployments returns the newest deployment of each service, by uid.
func (v View) LastDeployments(ctx context.Context, services []string) (map[string]Deployment, error) {
	return database.ByKey(ctx, v.db, "SELECT "+deploymentColumns+" FROM deployments WHERE end_time = 0 AND service_uid IN ", services, func(rows *sql.Rows) (string, Deployment, error) {
		d, err := scanDeployment(rows)
		return d.Service, d, err
	})
}

// addDeployments begins deployments, each of which ends the one before. One of the digest that the service has already
// is passed over, and of one with the same content the current one gets the digest. What only later deployments of a
// service need is left out of its first one: a fleet that comes all at once has hundreds of thousands of these.
// addDeployments returns the services whose first one it wrote, with how far that is: the others are at their beginning.
func addDeployments(ctx context.Context, v View, tx database.Tx, list []Deployment) (first map[string]bool, err error) {
	last, err := v.lastNumbers(ctx, list)
	if err != nil {
		return nil, err
	}
	list = slices.SortedFunc(slices.Values(list), func(a, b Deployment) int { return cmp.Compare(a.Service, b.Service) }) // one order for all consoles
	for i, d := range list {
		if i > 0 && d.Service == list[i-1].Service { // a later one here
			last[d.Service] = maxDeployments
		}
	}
	first, err = addFirst(ctx, tx, slices.DeleteFunc(slices.Clone(list), func(d Deployment) bool { return last[d.Service] > 0 }))
	if err != nil {
		return nil, fmt.Errorf("write first deployments: %w", err)
	}
	list = slices.DeleteFunc(list, func(d Deployment) bool { return last[d.Service] == 0 })
	for _, step := range []struct {
		from int64 // number of a service's last deployment before, at least
		text string
		args func(d *Deployment) []any
	}{
		{
			1, "UPDATE deployments SET digest = $2, content_digest = $5, state = $4 WHERE service_uid = $1 AND end_time = 0 AND digest <> $2" +
				" AND (content_digest = $3 OR content_digest = '' AND digest = $3)",
			func(d *Deployment) []any {
				short := v.db.Dialect.Short
				return []any{d.Service, short(d.Digest), short(cmp.Or(d.Replaces, d.Content, d.Digest)), v.db.Dialect.Text(d.State), short(cmp.Or(d.Content, d.Digest))}
			},
		},
		{
			1, "INSERT INTO deployments (service_uid, number, digest, state, deliver_time, content_digest)" +
				" SELECT $1, (SELECT COALESCE(MAX(number), 0) + 1 FROM deployments WHERE service_uid = $1), $2, $3, CAST($4 AS BIGINT), $5" +
				" WHERE EXISTS (SELECT 1 FROM resources WHERE uid = $1)" +
				" AND NOT EXISTS (SELECT 1 FROM deployments WHERE service_uid = $1 AND end_time = 0 AND digest = $2) ON CONFLICT DO NOTHING",
			func(d *Deployment) []any {
				return []any{d.Service, v.db.Dialect.Short(d.Digest), v.db.Dialect.Text(d.State), database.Micros(d.DeliverTime), v.db.Dialect.Short(d.content())}
			},
		},
		{
			1, "UPDATE deployments SET end_time = CAST($2 AS BIGINT) WHERE service_uid = $1 AND end_time = 0 AND number < (SELECT MAX(number) FROM deployments WHERE service_uid = $1)",
			func(d *Deployment) []any { return []any{d.Service, database.Micros(d.DeliverTime)} },
		},
		{
			maxDeployments, "DELETE FROM deployments WHERE service_uid = $1 AND number <= (SELECT MAX(number) FROM deployments WHERE service_uid = $1) - CAST($2 AS BIGINT)",
			func(d *Deployment) []any { return []any{d.Service, maxDeployments} },
		},
	} {
		of := slices.DeleteFunc(slices.Clone(list), func(d Deployment) bool { return last[d.Service] < step.from })
		if err := database.ExecEach(ctx, tx, len(of), step.text, func(i int) []any { return step.args(&of[i]) }); err != nil {
			return nil, fmt.Errorf("write deployments: %w", err)
		}
	}
	return first, nil
}

// addFirst begins the first deployments of services, which are sorted, as far as they are, and returns the services of
// those that it wrote.
func addFirst(ctx context.Context, tx database.Tx, list []Deployment) (wrote map[string]bool, err error) {
	wrote = make(map[string]bool, len(list))
	if len(list) == 0 {
		return wrote, nil
	}
	const into = "INSERT INTO deployments (service_uid, number, digest, state, deliver_time, content_digest, apply_time, healthy_time, outcome, message) "
	if !tx.Dialect.Arrays {
		const row = into + "SELECT $1, 1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE EXISTS (SELECT 1 FROM resources WHERE uid = $1) ON CONFLICT DO NOTHING"
		return wrote, database.Prepared(ctx, tx, row, func(stmt *sql.Stmt) error {
			for _, d := range list {
				written, err := hasWritten(stmt.ExecContext(ctx, d.Service, tx.Dialect.Short(d.Digest), d.text, database.Micros(d.DeliverTime),
					tx.Dialect.Short(d.content()), database.Micros(d.ApplyTime), database.Micros(d.HealthyTime), d.Outcome, d.Message))
				if err != nil {
					return err
				}
				if written {
					wrote[d.Service] = true
				}
			}
			return nil
		})
	}
	var services, digests, states, contents, outcomes, messages []string
	var delivered, applied, healthy []int64
	for _, d := range list {
		services, digests, states = append(services, d.Service), append(digests, d.Digest), append(states, string(d.State))
		delivered, contents = append(delivered, database.Micros(d.DeliverTime)), append(contents, d.content())
		applied, healthy = append(applied, database.Micros(d.ApplyTime)), append(healthy, database.Micros(d.HealthyTime))
		outcomes, messages = append(outcomes, d.Outcome), append(messages, d.Message)
	}
	rows, err := tx.QueryContext(ctx, into+"SELECT p.service, 1, p.digest, p.said, p.delivered, p.content, p.applied, p.healthy, p.outcome, p.message"+
		" FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[]), CAST($4 AS BIGINT[]), CAST($5 AS TEXT[]),"+
		" CAST($6 AS BIGINT[]), CAST($7 AS BIGINT[]), CAST($8 AS TEXT[]), CAST($9 AS TEXT[]))"+
		" AS p (service, digest, said, delivered, content, applied, healthy, outcome, message)"+
		" JOIN resources r ON r.uid = p.service ORDER BY p.service ON CONFLICT DO NOTHING RETURNING service_uid",
		services, digests, states, delivered, contents, applied, healthy, outcomes, messages)
	return database.Keyed(rows, err, wrote, func(rows *sql.Rows) (uid string, _ bool, err error) {
		err = rows.Scan(&uid)
		return uid, true, err
	})
}

// content is the digest of the content as it is stored: most have that of the deployment.
func (d *Deployment) content() string {
	if d.Content == d.Digest {
		return ""
	}
	return d.Content
}

// lastNumbers returns the number of the last deployment of each service that has one.
func (v View) lastNumbers(ctx context.Context, of []Deployment) (map[string]int64, error) {
	uids := make([]string, len(of))
	for i, d := range of {
		uids[i] = d.Service
	}
	return database.ByKeys(ctx, v.db, "SELECT service_uid, CAST(MAX(number) AS BIGINT) FROM deployments WHERE service_uid IN ", uids, " GROUP BY service_uid", func(rows *sql.Rows) (uid string, number int64, err error) {
		err = rows.Scan(&uid, &number)
		return uid, number, err
	})
}

// keepDeployments ends the deployments of a service that is deleted, and notes since when they are kept for a resource
// that continues them.
func (t *Tx) keepDeployments(ctx context.Context, service string) error {
	for _, stmt := range []string{
		"UPDATE deployments SET end_time = CAST($2 AS BIGINT) WHERE service_uid = $1 AND end_time = 0",
		"INSERT INTO deleted_services (uid, delete_time) VALUES ($1, $2) ON CONFLICT (uid) DO NOTHING",
	} {
		if _, err := t.tx.ExecContext(ctx, stmt, service, database.Micros(t.tx.Now)); err != nil {
			return fmt.Errorf("keep deployments: %w", err)
		}
	}
	return nil
}

// forgetServices is how many deleted services ForgetDeleted forgets in one transaction: others write in between.
const forgetServices = 20

// ForgetDeleted removes the deployments of services that were deleted before a time.
func (s *Store) ForgetDeleted(ctx context.Context, before time.Time) error {
	for {
		var uids []string
		err := s.Read(ctx, func(ctx context.Context, v View) error {
			rows, err := v.db.QueryContext(ctx, "SELECT uid FROM deleted_services WHERE delete_time < $1 ORDER BY delete_time LIMIT $2", database.Micros(before), forgetServices)
			uids, err = database.Collect(rows, err, func(rows *sql.Rows) (uid string, err error) {
				err = rows.Scan(&uid)
				return uid, err
			})
			return err
		})
		if err != nil || len(uids) == 0 {
			return err
		}
		err = s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
			for _, stmt := range []string{
				"DELETE FROM deployments WHERE service_uid = $1",
				"DELETE FROM deleted_services WHERE uid = $1",
			} {
				if err := database.ExecEach(ctx, tx, len(uids), stmt, func(i int) []any { return []any{uids[i]} }); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("forget deployments of deleted services: %w", err)
		}
	}
}

// beginDeployments adds deployments, with what their clusters said before the hub did: an agent that is quick reports
// first, and never again if it has no more to say. begun is changed.
func (s *Store) beginDeployments(ctx context.Context, tx database.Tx, begun []Deployment, stepsOf func(Report) ([]Step, error)) (healthy []became, err error) {
	if len(begun) == 0 {
		return nil, nil
	}
	if err := tx.Lock(ctx, s.Dialect.LockBegun); err != nil {
		return nil, err
	}
	said, err := saidBefore(ctx, viewOver(tx.View()), begun, stepsOf)
	if err != nil {
		return nil, err
	}
	traces := map[string]string{}
	for i := range begun {
		for _, step := range said[begun[i].Service] {
			if begun[i].reach(step) {
				traces[step.Service] = step.Trace
			}
		}
	}
	first, err := addDeployments(ctx, viewOver(tx.View()), tx, begun)
	if err != nil {
		return nil, err
	}
	var later []Step
	for _, d := range begun {
		switch {
		case !first[d.Service]:
			later = append(later, said[d.Service]...)
			said[d.Service] = nil // a service may come twice
		case !d.HealthyTime.IsZero():
			d.Number, d.Content = 1, cmp.Or(d.Content, d.Digest)
			healthy = append(healthy, became{d, traces[d.Service]})
		}
	}
	more, err := stepDeployments(ctx, tx, later)
	return append(healthy, more...), err
}

// saidBefore is what clusters have said of deployments that begin, by service.
func saidBefore(ctx context.Context, v View, begun []Deployment, stepsOf func(Report) ([]Step, error)) (map[string][]Step, error) {
	since := make(map[string]time.Time, len(begun))
	for _, d := range begun {
		since[d.Service] = d.DeliverTime
	}
	reports, err := v.Reports(ctx, database.SortedKeys(since))
	if err != nil {
		return nil, err
	}
	said := make(map[string][]Step, len(reports))
	for _, r := range reports {
		steps, err := stepsOf(r)
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			step.Apply, step.Healthy = notBefore(step.Apply, since[r.Service]), notBefore(step.Healthy, since[r.Service])
			said[r.Service] = append(said[r.Service], step)
		}
	}
	return said, nil
}

// reach notes how far a deployment is that is not written yet, as stepDeployments does. reach says whether it became
// healthy by that.
func (d *Deployment) reach(step Step) (healthy bool) {
	if step.Digest != d.Digest {
		return false
	}
	healthy = d.HealthyTime.IsZero() && !step.Healthy.IsZero()
	if d.ApplyTime.IsZero() {
		d.ApplyTime = step.Apply
	}
	if d.HealthyTime.IsZero() {
		d.HealthyTime = step.Healthy
	}
	d.Outcome, d.Message = step.Outcome, step.Message
	return healthy
}

// notBefore moves a time, if it is one, to the moment from which it counts.
func notBefore(t, begin time.Time) time.Time {
	if t.IsZero() || t.After(begin) {
		return t
	}
	return begin
}

// stepDeployments notes how far the current deployments of services are. The first time counts. stepDeployments returns
// the deployments that became healthy.
func stepDeployments(ctx context.Context, tx database.Tx, steps []Step) (healthy []became, err error) {
	if len(steps) == 0 {
		return nil, nil
	}
	steps = slices.SortedStableFunc(slices.Values(steps), func(a, b Step) int { return cmp.Compare(a.Service, b.Service) })
	if tx.Dialect.Arrays && !stepsTwice(steps) {
		return stepTogether(ctx, tx, steps)
	}
	var well []Step // which may have become healthy
	err = database.Prepared(ctx, tx, "UPDATE deployments SET apply_time = CASE WHEN apply_time = 0 THEN CAST($3 AS BIGINT) ELSE apply_time END,"+
		" healthy_time = CASE WHEN healthy_time = 0 THEN CAST($4 AS BIGINT) ELSE healthy_time END, outcome = CAST($5 AS TEXT), message = CAST($6 AS TEXT)"+
		" WHERE service_uid = $1 AND digest = $2 AND end_time = 0"+
		" AND (apply_time = 0 AND CAST($3 AS BIGINT) <> 0 OR healthy_time = 0 AND CAST($4 AS BIGINT) <> 0 OR outcome <> CAST($5 AS TEXT) OR message <> CAST($6 AS TEXT))",
		func(stmt *sql.Stmt) error {
			for _, p := range steps {
				written, err := hasWritten(stmt.ExecContext(ctx, p.Service, tx.Dialect.Short(p.Digest), database.Micros(p.Apply), database.Micros(p.Healthy), p.Outcome, p.Message))
				if err != nil {
					return fmt.Errorf("write deployment: %w", err)
				}
				if written && !p.Healthy.IsZero() {
					well = append(well, p)
				}
			}
			return nil
		})
	if err != nil || len(well) == 0 {
		return nil, err
	}
	uids := make([]string, len(well))
	for i, p := range well {
		uids[i] = p.Service
	}
	now, err := viewOver(tx.View()).LastDeployments(ctx, uids)
	for _, p := range well {
		if d := now[p.Service]; d.Digest == p.Digest && d.HealthyTime.Equal(database.FromMicros(database.Micros(p.Healthy))) {
			healthy = append(healthy, became{d, p.Trace})
		}
	}
	return healthy, err
}

// stepsTwice says whether there are two steps of one deployment: they have to come one after the other.
func stepsTwice(steps []Step) bool {
	seen := make(map[[2]string]bool, len(steps))
	for _, p := range steps {
		key := [2]string{p.Service, p.Digest}
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// stepTogether is stepDeployments in one statement. Rows are locked in the order of services, so that consoles can't
// wait for each other.
func stepTogether(ctx context.Context, tx database.Tx, steps []Step) (healthy []became, err error) {
	var services, digests, outcomes, messages []string
	var applies, healths []int64
	of := make(map[[2]string]Step, len(steps))
	for _, p := range steps {
		services, digests, outcomes, messages = append(services, p.Service), append(digests, p.Digest), append(outcomes, p.Outcome), append(messages, p.Message)
		applies, healths = append(applies, database.Micros(p.Apply)), append(healths, database.Micros(p.Healthy))
		of[[2]string{p.Service, p.Digest}] = p
	}
	rows, err := tx.QueryContext(ctx, "UPDATE deployments SET apply_time = CASE WHEN apply_time = 0 THEN step.applied ELSE apply_time END,"+
		" healthy_time = CASE WHEN healthy_time = 0 THEN step.well ELSE healthy_time END, outcome = step.said, message = step.words"+
		" FROM (SELECT p.*, d.number AS nth FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]), CAST($5 AS TEXT[]), CAST($6 AS TEXT[]))"+
		" AS p (service, content, applied, well, said, words) JOIN deployments d ON d.service_uid = p.service AND d.digest = p.content AND d.end_time = 0"+
		" ORDER BY d.service_uid, d.number FOR UPDATE OF d) step"+
		" WHERE service_uid = step.service AND number = step.nth"+
		" AND (apply_time = 0 AND step.applied <> 0 OR healthy_time = 0 AND step.well <> 0 OR outcome <> step.said OR message <> step.words)"+
		" RETURNING "+deploymentColumns, services, digests, applies, healths, outcomes, messages)
	changed, err := database.Collect(rows, err, scanDeployment)
	if err != nil {
		return nil, fmt.Errorf("write deployments: %w", err)
	}
	for _, d := range changed {
		p := of[[2]string{d.Service, d.Digest}]
		if !d.HealthyTime.IsZero() && d.HealthyTime.Equal(database.FromMicros(database.Micros(p.Healthy))) {
			healthy = append(healthy, became{d, p.Trace})
		}
	}
	return healthy, nil
}

// became is a deployment that is healthy for the first time, and the trace context of what said so.
type became struct {
	Deployment
	trace string
}

// OnHealthy has healthy called with each deployment of which this console wrote that it is healthy for the first time,
// and with the trace context of what the cluster said. healthy must not block. Call it before anything is written.
func (s *Store) OnHealthy(healthy func(d Deployment, trace string)) { s.healthy = healthy }

// LastRevisions returns who wrote services last, and how, by uid: Author and Action only.
func (v View) LastRevisions(ctx context.Context, services []string) (map[string]Revision, error) {
	return database.ByKey(ctx, v.db, "SELECT r.uid, v.author, v.action FROM resources r JOIN revisions v ON v.uid = r.uid AND v.revision = r.revision WHERE r.uid IN ", services,
		func(rows *sql.Rows) (uid string, last Revision, err error) {
			err = rows.Scan(&uid, &last.Author, &last.Action)
			return uid, last, err
		})
}

// History returns up to limit revisions of the resource that has a name, or had it last, below a revision and the
// newest first; 0: from the newest on.
func (v View) History(ctx context.Context, ref Ref, before int64, limit int) ([]Revision, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT uid, revision, action, author, time, labels, spec FROM revisions"+
		" WHERE uid = COALESCE((SELECT uid FROM resources WHERE kind = $1 AND name = $2),"+
		" (SELECT uid FROM revisions WHERE kind = $1 AND name = $2 ORDER BY time DESC, revision DESC LIMIT 1))"+
		" AND (CAST($3 AS BIGINT) = 0 OR revision < CAST($3 AS BIGINT)) ORDER BY revision DESC LIMIT $4", ref.Kind, ref.Name, before, limit)
	return database.Collect(rows, err, scanRevision)
}

// releasing asks in the words of the index resources_releasing: without it, each push reads all services of its source.
const releasing = "SELECT " + resourceColumns + " FROM refs f JOIN resources r ON r.uid = f.uid" +
	` WHERE f.kind = $1 AND f.name = $2 AND r.kind = 'service' AND r.spec LIKE '%"unpinAfter":%' ORDER BY r.name`

// Releasing returns the services of a source whose pin goes by itself.
func (v View) Releasing(ctx context.Context, source string) ([]Resource, error) {
	rows, err := v.db.QueryContext(ctx, releasing, KindSource, source)
	return database.Collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
}

// ending asks in the words of the index resources_ending.
const ending = "SELECT " + resourceColumns + ` FROM resources r WHERE r.kind IN ('service', 'project', 'cluster') AND r.spec LIKE '%"until":%' ORDER BY r.name`

// Ending returns the services, projects and clusters with a lever that ends by its own time, and maybe others.
func (v View) Ending(ctx context.Context) ([]Resource, error) {
	rows, err := v.db.QueryContext(ctx, ending)
	return database.Collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
}

// Waiting returns the services of a cluster whose text names a service behind dependsOn: those that wait for it, and
// maybe others.
func (v View) Waiting(ctx context.Context, cluster, name string) ([]Resource, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT "+resourceColumns+" FROM refs f JOIN resources r ON r.uid = f.uid"+
		" WHERE f.kind = $1 AND f.name = $2 AND r.kind = 'service' AND r.spec LIKE $3 ORDER BY r.name", KindCluster, cluster, `%"dependsOn":%"`+name+`"%`)
	return database.Collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
}
