package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"

	"fairlead.dev/services/console/internal/store/database"
)

// HubRef is a ref of a source, by its uid.
type HubRef struct{ Source, Ref string }

// Hub returns the hub truths of services, as JSON by uid.
func (v View) Hub(ctx context.Context, uids []string) (map[string][]byte, error) {
	return database.ByKey(ctx, v.db, selectHub+" IN ", uids, scanHub)
}

// HubWithin returns the hub truths of all services whose uids are in a range, as JSON by uid.
func (v View) HubWithin(ctx context.Context, uids Range) (map[string][]byte, error) {
	return within(ctx, v, selectHub, uids, scanHub)
}

const selectHub = "SELECT service_uid, state FROM hub WHERE service_uid"

func scanHub(rows *sql.Rows) (uid string, state []byte, err error) {
	err = rows.Scan(&uid, database.UnpackInto(&state))
	return uid, state, err
}

// HubRefs returns what is known of all refs of sources, by uid, as JSON.
func (v View) HubRefs(ctx context.Context, sources []string) (map[HubRef][]byte, error) {
	return database.ByKey(ctx, v.db, "SELECT source_uid, ref, state FROM hub_refs WHERE source_uid IN ", sources, func(rows *sql.Rows) (k HubRef, state []byte, err error) {
		return k, state, rows.Scan(&k.Source, &k.Ref, &state)
	})
}

// PutHub keeps hub truths, by service uid, in one commit with the deployments that they begin, how far these are by
// what stepsOf makes of reports that are here already, and events about them. A truth is kept in the place of the one
// that the caller has read, nil for none; lost are the services of which somebody else has written another one
// meanwhile, or which events tell of as they were before another write, without what belongs to them. values are what
// OnTouch is told of truths.
func (s *Store) PutHub(ctx context.Context, states, read map[string][]byte, values map[string]any, begun []Deployment,
	stepsOf func(Report) ([]Step, error), events ...Event,
) (lost []string, err error) {
	if len(states) == 0 {
		return nil, nil
	}
	uids, texts, begun := database.SortedKeys(states), map[string]any{}, slices.Clone(begun)
	if !s.Dialect.Arrays { // others wait to write from the first statement on
		for uid, state := range states {
			texts[uid] = s.Dialect.Text(state)
		}
		for i := range begun {
			begun[i].text = s.Dialect.Text(begun[i].State)
		}
	}
	var healthy []became
	var wrote []Touch
	touched := Touched{Services: uids}
	err = s.status(ctx, &touched, events, func(ctx context.Context, tx database.Tx) (kept map[ReportKey]bool, err error) {
		if len(begun) > 0 { // before any row: a console of an earlier version that writes the same ones takes it first
			if err := tx.Lock(ctx, s.Dialect.LockBegun); err != nil {
				return nil, err
			}
		}
		changed, err := viewOver(tx.View()).toldAsBefore(ctx, events)
		if err != nil {
			return nil, err
		}
		same := slices.DeleteFunc(slices.Clone(uids), func(uid string) bool { return changed[uid] })
		if kept, wrote, err = s.putHub(ctx, tx, same, states, texts, read); err != nil {
			return nil, err
		}
		ours := slices.DeleteFunc(slices.Clone(begun), func(d Deployment) bool { return !kept[ReportKey{Service: d.Service}] })
		healthy, err = s.beginDeployments(ctx, tx, ours, stepsOf)
		lost = slices.DeleteFunc(slices.Clone(uids), func(uid string) bool { return kept[ReportKey{Service: uid}] })
		touched = hubsTold(uids, kept, values)
		touched.Own = wrote
		return kept, err
	})
	if err == nil {
		s.tellHealthy(healthy)
	}
	return lost, err
}

// toldAsBefore returns the services that have another revision than events say. No lock is taken for it: a write of
// the catalog that ends at this very moment may be missed.
func (v View) toldAsBefore(ctx context.Context, events []Event) (changed map[string]bool, err error) {
	told := map[string]int64{}
	for _, e := range events {
		if e.Revision != 0 {
			told[e.Of.Service] = e.Revision
		}
	}
	is, err := database.ByKey(ctx, v.db, "SELECT uid, revision FROM resources WHERE uid IN ", database.SortedKeys(told),
		func(rows *sql.Rows) (uid string, revision int64, err error) {
			err = rows.Scan(&uid, &revision)
			return uid, revision, err
		})
	changed = map[string]bool{}
	for uid, revision := range told {
		changed[uid] = is[uid] != revision
	}
	return changed, err
}

// hubsTold is what OnTouch is told after truths were written.
func hubsTold(uids []string, kept map[ReportKey]bool, values map[string]any) (t Touched) {
	for _, uid := range uids {
		if kept[ReportKey{Service: uid}] {
			t.Hubs = append(t.Hubs, Hub{uid, values[uid]})
		}
	}
	return t
}

// putHub writes hub truths, as putReports does reports, and returns those that it wrote, where consoles share the
// database with their touches.
func (s *Store) putHub(ctx context.Context, tx database.Tx, uids []string, states map[string][]byte, texts map[string]any,
	read map[string][]byte,
) (kept map[ReportKey]bool, wrote []Touch, err error) {
	kept = make(map[ReportKey]bool, len(uids))
	if s.Dialect.Arrays {
		wrote, err = s.putHubTogether(ctx, tx, uids, states, read)
		for _, t := range wrote {
			kept[ReportKey{Service: t.UID}] = true
		}
		return kept, wrote, err
	}
	// Nobody else writes until the commit. The same truth may be stored in several ways, so the database can't compare.
	stored, err := viewOver(tx.View()).Hub(ctx, slices.DeleteFunc(slices.Clone(uids), func(uid string) bool { return read[uid] == nil }))
	if err != nil {
		return nil, nil, err
	}
	err = database.Prepared(ctx, tx, "INSERT INTO hub (service_uid, state, touch_time) VALUES ($1, $2, "+s.Dialect.Now+")"+
		" ON CONFLICT (service_uid) DO UPDATE SET state = excluded.state, touch_time = excluded.touch_time WHERE $3", func(stmt *sql.Stmt) error {
		for _, uid := range uids {
			was, known := stored[uid]
			if known && !bytes.Equal(was, read[uid]) {
				continue
			}
			written, err := hasWritten(stmt.ExecContext(ctx, uid, texts[uid], known))
			if err != nil {
				return err
			}
			if written {
				kept[ReportKey{Service: uid}] = true
			}
		}
		return nil
	})
	return kept, nil, err
}

// putHubTogether is putHub in a statement for those that are new and one for the others. Rows are locked in the order
// of services, so that consoles can't wait for each other.
func (s *Store) putHubTogether(ctx context.Context, tx database.Tx, uids []string, states, read map[string][]byte) (wrote []Touch, err error) {
	var added, addedStates, changed, changedStates, was []string
	for _, uid := range uids {
		if before, known := read[uid]; known {
			changed, changedStates, was = append(changed, uid), append(changedStates, string(states[uid])), append(was, string(before))
		} else {
			added, addedStates = append(added, uid), append(addedStates, string(states[uid]))
		}
	}
	write := func(statement string, args ...any) error {
		rows, err := tx.QueryContext(ctx, statement+" RETURNING service_uid, touch_time", args...)
		part, err := database.Collect(rows, err, touchIn(hubTable))
		wrote = append(wrote, part...)
		return err
	}
	if len(changed) > 0 {
		err := write("UPDATE hub SET state = new.said, touch_time = "+s.Dialect.Now+
			" FROM (SELECT p.uid, p.said FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[])) AS p (uid, said, was)"+
			" JOIN hub h ON h.service_uid = p.uid AND h.state = p.was ORDER BY h.service_uid FOR UPDATE OF h) new"+
			" WHERE service_uid = new.uid", changed, changedStates, was)
		if err != nil {
			return nil, err
		}
	}
	if len(added) == 0 {
		return wrote, nil
	}
	err = write("INSERT INTO hub (service_uid, state, touch_time) SELECT uid, said, "+s.Dialect.Now+
		" FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[])) AS new (uid, said) ON CONFLICT (service_uid) DO NOTHING", added, addedStates)
	return wrote, err
}

// PutHubRefs keeps what is known of refs. Refs of sources that are gone are passed over.
func (s *Store) PutHubRefs(ctx context.Context, states map[HubRef][]byte) error {
	refs := make([]HubRef, 0, len(states))
	for k := range states {
		refs = append(refs, k)
	}
	slices.SortFunc(refs, func(a, b HubRef) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Ref, b.Ref)) }) // one order for all consoles, so that they can't wait for each other
	var touched Touched
	for _, r := range refs {
		touched.Sources = append(touched.Sources, r.Source)
	}
	return s.eachStatus(ctx, touched, len(refs), "INSERT INTO hub_refs (source_uid, ref, state, touch_time) SELECT $1, $2, $3, "+s.Dialect.Now+" WHERE EXISTS (SELECT 1 FROM resources WHERE uid = $1)"+
		" ON CONFLICT (source_uid, ref) DO UPDATE SET state = excluded.state, touch_time = excluded.touch_time",
		func(i int) []any {
			return []any{refs[i].Source, refs[i].Ref, string(states[refs[i]])}
		})
}
