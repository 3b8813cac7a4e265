package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
)

// HubRef is a ref of a source, by its uid.
type HubRef struct{ Source, Ref string }

// Hub returns the hub truths of services, as JSON by uid.
func (v View) Hub(ctx context.Context, uids []string) (map[string][]byte, error) {
	return byKey(ctx, v, "SELECT service_uid, state FROM hub WHERE service_uid IN ", uids, func(rows *sql.Rows) (uid string, state []byte, err error) {
		return uid, state, rows.Scan(&uid, &state)
	})
}

// HubRefs returns what is known of all refs of sources, by uid, as JSON.
func (v View) HubRefs(ctx context.Context, sources []string) (map[HubRef][]byte, error) {
	return byKey(ctx, v, "SELECT source_uid, ref, state FROM hub_refs WHERE source_uid IN ", sources, func(rows *sql.Rows) (k HubRef, state []byte, err error) {
		return k, state, rows.Scan(&k.Source, &k.Ref, &state)
	})
}

// PutHub keeps hub truths, by service uid, in one commit with the deployments that they begin, how far these are by what stepsOf
// makes of reports that are here already, and events about them.
func (s *Store) PutHub(ctx context.Context, states map[string][]byte, begun []Deployment, stepsOf func(Report) ([]Step, error), events ...Event) error {
	if len(states) == 0 {
		return nil
	}
	uids := sortedKeys(states)
	var healthy []became
	err := s.status(ctx, Touched{Services: uids}, events, func(ctx context.Context, tx *sql.Tx) (err error) {
		if healthy, err = s.beginDeployments(ctx, tx, begun, stepsOf); err != nil {
			return err
		}
		return s.putHub(ctx, tx, uids, states)
	})
	if err == nil {
		s.tellHealthy(healthy)
	}
	return err
}

// PutHubRefs keeps what is known of refs. Those of sources that are gone are passed over.
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
	return s.eachStatus(ctx, touched, len(refs), "INSERT INTO hub_refs (source_uid, ref, state, touch_time) SELECT $1, $2, $3, "+s.dialect.now+" WHERE EXISTS (SELECT 1 FROM resources WHERE uid = $1)"+
		" ON CONFLICT (source_uid, ref) DO UPDATE SET state = excluded.state, touch_time = excluded.touch_time",
		func(i int) []any {
			return []any{refs[i].Source, refs[i].Ref, string(states[refs[i]])}
		})
}

// putHub writes hub truths, as putReports does reports.
func (s *Store) putHub(ctx context.Context, tx *sql.Tx, uids []string, states map[string][]byte) error {
	const put, over = "INSERT INTO hub (service_uid, state, touch_time) ", " ON CONFLICT (service_uid) DO UPDATE SET state = excluded.state, touch_time = excluded.touch_time"
	if !s.dialect.arrays {
		return each(ctx, tx, len(uids), put+"VALUES ($1, $2, "+s.dialect.now+")"+over, func(i int) []any { return []any{uids[i], string(states[uids[i]])} })
	}
	texts := make([]string, len(uids))
	for i, uid := range uids {
		texts[i] = string(states[uid])
	}
	_, err := tx.ExecContext(ctx, put+"SELECT uid, said, "+s.dialect.now+" FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[])) AS new (uid, said)"+over, uids, texts)
	return err
}
