package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

const (
	// EventsKeep is how long events are kept, and maxEvents how many at most.
	EventsKeep = 7 * 24 * time.Hour
	maxEvents  = 250_000
	// defaultMembersBytes is for Options.MembersBytes: one event of many services is up to 40 KiB.
	defaultMembersBytes = 256 << 20
	// maxMembersRead is how much of that one read returns, in bytes.
	maxMembersRead = 8 << 20
	// eventTrim is how many that are older go with each batch that comes, and eventsOver how many of those that are too
	// many: a batch has fewer, and the first one after an upgrade that lowers maxEvents ends in time.
	eventTrim  = 1000
	eventsOver = 5000
)

// Event is something that happened.
type Event struct {
	// Seq is the order in which events became visible. Filled in by the store.
	Seq int64
	// ID is the same however often the event is told; only the first one is kept.
	ID      string
	Time    time.Time
	Type    string
	Cluster string
	Service string
	// Event is all of it, in JSON.
	Event []byte
	// Members are the events of single services of which this is one, as the caller keeps them; nil: it is about one
	// service, or none.
	Members []byte
	// Draft is what Event is still to be made of by what GatherEvents set; it is not kept.
	Draft any
	// Of is the status that it is about: the event is kept if that status was written with it. Zero: it is kept anyway.
	Of ReportKey
	// Revision of the service that a hub truth is about, as the event tells of it: the truth and the event are lost if
	// the service has another one by then. 0: any.
	Revision int64
}

// EventID is the id of what these parts tell from all else.
func EventID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// NewEventID is one that no other event has.
func NewEventID() string { return database.NewID() }

// OnEvents has told called after each commit of events by this console. told must not block.
func (s *Store) OnEvents(told func()) { s.told = told }

// GatherEvents sets what makes the events of a commit of statuses out of those that are about what was written. Call it
// before anything is written.
func (s *Store) GatherEvents(gather func([]Event) []Event) { s.gather = gather }

func (s *Store) tellEvents(events []Event) {
	if s.told != nil && len(events) > 0 {
		s.told()
	}
}

// Tell adds events with what else is written: they are there if that is.
func (t *Tx) Tell(events ...Event) { t.telling = append(t.telling, events...) }

// AddEvents adds events but for those whose id is there.
func (s *Store) AddEvents(ctx context.Context, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	err := s.Transact(ctx, func(ctx context.Context, tx database.Tx) error { return s.insertEvents(ctx, tx, events) })
	if err == nil {
		s.tellEvents(events)
	}
	return err
}

// insertEvents comes last in a transaction: the lock is one that others wait for, with locks on rows of their own.
func (s *Store) insertEvents(ctx context.Context, tx database.Tx, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	// Until the commit: numbers are then visible in their order, and who read up to one has all before it.
	if err := tx.Lock(ctx, s.Dialect.LockEvents); err != nil {
		return err
	}
	t := s.txOver(tx)
	weight, err := t.membersWeight(ctx)
	if err != nil {
		return err
	}
	err = database.Insert(ctx, t.tx, "INSERT INTO events (id, time, type, cluster, service, event, members, weight) VALUES ON CONFLICT (id) DO NOTHING", events, func(e Event) []any {
		weight += int64(len(e.Members))
		return []any{e.ID, database.Micros(e.Time), e.Type, e.Cluster, e.Service, s.Dialect.Text(e.Event), e.Members, weight}
	})
	if err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	if err := t.trimMembers(ctx, weight); err != nil {
		return err
	}
	return t.trimEvents(ctx, s.Clock())
}

// membersWeight is how many bytes of members came up to the last event that has some. The weight of the kept events is
// the difference of two of these.
func (t *Tx) membersWeight(ctx context.Context) (bytes int64, err error) {
	err = t.tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(weight), 0) FROM events WHERE members IS NOT NULL").Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("weigh events: %w", err)
	}
	return bytes, nil
}

// trimMembers removes the oldest events while those of many services take too much, up to eventsOver of them.
func (t *Tx) trimMembers(ctx context.Context, weight int64) error {
	if weight <= t.store.membersBytes {
		return nil
	}
	// By the index of weights, which grow with the numbers: the greatest number would be looked for in every row.
	var gone int64
	err := t.tx.QueryRowContext(ctx, "SELECT seq FROM events WHERE members IS NOT NULL AND weight <= $1 "+
		"ORDER BY weight DESC LIMIT 1", weight-t.store.membersBytes).Scan(&gone)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find heavy events: %w", err)
	}
	var first int64
	if err := t.tx.QueryRowContext(ctx, "SELECT MIN(seq) FROM events").Scan(&first); err != nil {
		return fmt.Errorf("find the first event: %w", err)
	}
	upTo := min(gone, first+eventsOver)
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM events WHERE seq <= $1", upTo); err != nil {
		return fmt.Errorf("trim heavy events: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE events_gone SET seq = $1 WHERE seq < $1", upTo); err != nil {
		return fmt.Errorf("note trim of events: %w", err)
	}
	return nil
}

// trimEvents removes what is too old, and the oldest if there are too many. Numbers are about in the order of times:
// what goes is all up to a number.
func (t *Tx) trimEvents(ctx context.Context, now time.Time) error {
	var last sql.NullInt64
	err := t.tx.QueryRowContext(ctx, "SELECT MAX(seq) FROM (SELECT seq FROM events WHERE time < $1 ORDER BY time LIMIT $2) old", database.Micros(now.Add(-EventsKeep)), eventTrim).Scan(&last)
	if err != nil {
		return fmt.Errorf("find old events: %w", err)
	}
	end, err := t.EventsEnd(ctx)
	if err != nil {
		return err
	}
	var first sql.NullInt64
	if err := t.tx.QueryRowContext(ctx, "SELECT MIN(seq) FROM events").Scan(&first); err != nil {
		return fmt.Errorf("find the first event: %w", err)
	}
	over := min(end-maxEvents, first.Int64+eventsOver)
	gone := max(last.Int64, over)
	if gone <= 0 {
		return nil
	}
	res, err := t.tx.ExecContext(ctx, "DELETE FROM events WHERE seq <= $1 AND (time < $2 OR seq <= $3)", gone, database.Micros(now.Add(-EventsKeep)), over)
	if err != nil {
		return fmt.Errorf("trim events: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE events_gone SET seq = $1 WHERE seq < $1", gone); err != nil {
		return fmt.Errorf("note trim of events: %w", err)
	}
	return nil
}

// EventsEnd is the number of the last event that was there; 0: there was none.
func (v View) EventsEnd(ctx context.Context) (seq int64, err error) {
	if err = v.db.QueryRowContext(ctx, "SELECT MAX(seq) FROM (SELECT MAX(seq) AS seq FROM events UNION ALL SELECT seq FROM events_gone) ends").Scan(&seq); err != nil {
		return 0, fmt.Errorf("read end of events: %w", err)
	}
	return seq, nil
}

// EventsGone is the number of the last event that was trimmed.
func (v View) EventsGone(ctx context.Context) (seq int64, err error) {
	if err = v.db.QueryRowContext(ctx, "SELECT seq FROM events_gone").Scan(&seq); err != nil {
		return 0, fmt.Errorf("read beginning of events: %w", err)
	}
	return seq, nil
}

// EventQuery is what of a question the database can answer; the rest is the caller's.
type EventQuery struct {
	// Type, Cluster and Service that events have; empty: any. Events of many services may be of any cluster and
	// service: all of them are returned.
	Type, Cluster, Service string
	Since                  time.Time
}

func (q EventQuery) where(first string, seq int64) (string, []any) {
	where, args := first, []any{seq}
	for _, c := range []struct{ column, value string }{{"type", q.Type}, {"cluster", q.Cluster}, {"service", q.Service}} {
		if c.value != "" {
			args = append(args, c.value)
			where += fmt.Sprintf(" AND %s = $%d", c.column, len(args))
		}
	}
	if !q.Since.IsZero() {
		args = append(args, database.Micros(q.Since))
		where += fmt.Sprintf(" AND time >= $%d", len(args))
	}
	return where, args
}

// EventsBefore returns up to limit events before a number, the newest first, and whether there may be more: there are
// fewer where they are heavy.
func (v View) EventsBefore(ctx context.Context, q EventQuery, seq int64, limit int) (list []Event, more bool, err error) {
	return v.eventsOf(ctx, q, "seq < $1", " ORDER BY seq DESC", func(a, b Event) int { return cmp.Compare(b.Seq, a.Seq) }, seq, limit)
}

// LastEvent returns the newest event about one service in a cluster that has one of some types; nil: there is none.
func (v View) LastEvent(ctx context.Context, cluster, service string, types ...string) (*Event, error) {
	args := []any{service, cluster}
	for _, typ := range types {
		args = append(args, typ)
	}
	list, _, err := v.events(ctx, lastEvent(len(types)), args, 1)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// lastEvent chooses events of a service, a cluster and some types. No database has reason to read the index of clusters
// or of types, which have many more: a text that is put together is in no index.
func lastEvent(types int) string {
	places := make([]string, types)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", 3+i)
	}
	return "service = $1 AND cluster || '' = $2 AND members IS NULL AND type || '' IN (" + strings.Join(places, ", ") + ")" +
		" ORDER BY seq DESC"
}

// LastOfClusters returns the newest event of each cluster that has one of some types, if that is of the first type.
func (v View) LastOfClusters(ctx context.Context, first string, others ...string) ([]Event, error) {
	args, places := []any{first}, "$1"
	for _, typ := range others {
		args = append(args, typ)
		places += fmt.Sprintf(", $%d", len(args))
	}
	where := "type = $1 AND seq IN (SELECT MAX(seq) FROM events WHERE type IN (" + places + ") AND members IS NULL GROUP BY cluster)"
	list, _, err := v.events(ctx, where, args, maxEvents)
	return list, err
}

// EventsAfter returns up to limit events behind a number, in their order, and whether there may be more.
func (v View) EventsAfter(ctx context.Context, q EventQuery, seq int64, limit int) (list []Event, more bool, err error) {
	return v.eventsOf(ctx, q, "seq > $1", " ORDER BY seq", func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) }, seq, limit)
}

// eventsOf returns events that fit, in an order. Events of one service or cluster and events of many are found by an
// index each.
func (v View) eventsOf(ctx context.Context, q EventQuery, first, order string, compare func(a, b Event) int, seq int64,
	limit int,
) (list []Event, more bool, err error) {
	if q.Cluster == "" && q.Service == "" {
		where, args := q.where(first, seq)
		return v.events(ctx, where+order, args, limit)
	}
	where, args := q.where(first+" AND members IS NULL", seq)
	list, more, err = v.events(ctx, where+order, args, limit)
	if err != nil {
		return nil, false, err
	}
	q.Cluster, q.Service = "", ""
	where, args = q.where(first+" AND members IS NOT NULL", seq)
	many, cut, err := v.events(ctx, where+order, args, limit)
	if err != nil {
		return nil, false, err
	}
	// Behind the last one of either there may be others, which come with the next read.
	var lastOne, lastMany *Event
	if more {
		lastOne = &list[len(list)-1]
	}
	if cut {
		lastMany = &many[len(many)-1]
	}
	list = slices.DeleteFunc(append(slices.Clone(list), many...), func(e Event) bool {
		return lastOne != nil && compare(e, *lastOne) > 0 || lastMany != nil && compare(e, *lastMany) > 0
	})
	slices.SortFunc(list, compare)
	return list[:min(len(list), limit)], more || cut || len(list) > limit, nil
}

// events returns up to limit events, at least one if there is one and else no more than maxMembersRead of members, and
// whether there may be more.
func (v View) events(ctx context.Context, where string, args []any, limit int) (list []Event, more bool, err error) {
	rows, err := v.db.QueryContext(ctx, fmt.Sprintf("SELECT seq, id, time, type, cluster, service, event, members FROM events WHERE %s LIMIT %d", where, limit), args...)
	if err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close() // Err has what is wrong
	for weight := 0; weight <= maxMembersRead && rows.Next(); {
		var e Event
		var at int64
		if err := rows.Scan(&e.Seq, &e.ID, &at, &e.Type, &e.Cluster, &e.Service, database.UnpackInto(&e.Event), &e.Members); err != nil {
			return nil, false, fmt.Errorf("read events: %w", err)
		}
		e.Time = database.FromMicros(at)
		list = append(list, e)
		if weight += len(e.Members); weight > maxMembersRead {
			more = true
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	return list, more || len(list) == limit, nil
}
