// Package recordings keeps what was shown of shells in pods. The views and the store of package store have these.
package recordings

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/database"
)

// View reads at one moment.
type View struct{ database.View }

// Store writes by itself.
type Store struct{ *database.DB }

// Recording is what somebody saw of a shell in a pod, without what that was.
type Recording struct {
	ID      string
	Cluster string // name
	Subject string // user:ada
	Begin   time.Time
	// Update is when the tunnel last sent something. End is zero while it goes on, and for good if its tunnel was
	// killed.
	Update, End time.Time
	Bytes       int64
	// Incomplete is why it does not hold all that was shown; empty: it does.
	Incomplete string
	RecordingData
}

// RecordingData is what nothing is looked for by.
type RecordingData struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Verb      string `json:"verb,omitempty"`
	Request   string `json:"request,omitempty"`
}

// Piece is a part of a recording.
type Piece struct {
	Sequence int64
	Data     []byte // sealed
}

// Errors of the bounds of recordings.
var (
	// ErrFull is of a recording that has no room for a piece.
	ErrFull = errors.New("the recording is full")
	// ErrPersonFull is of a person whose young recordings have all the room of one person.
	ErrPersonFull = errors.New("the person's recordings have no room")
	// ErrAllFull is of recordings that have all the room there is.
	ErrAllFull = errors.New("there is no room for recordings")
)

// Bounds bound recordings, in bytes before they were sealed.
type Bounds struct {
	// One is of one recording, Person of the young ones of one person, All of all.
	One, Person, All int64
	// Young is when the oldest young one began, to the day: recordings of that day and later ones are not removed for
	// room.
	Young time.Time
	// Idle is since when nothing has come for a recording without an end that counts as over: its tunnel was killed.
	Idle time.Time
}

// RecordingPiece is a piece on its way into a recording.
type RecordingPiece struct {
	ID string
	Piece
	// Bytes are those of the piece before it was sealed.
	Bytes int64
	// End says that it is the last one.
	End        bool
	Incomplete string
}

const dayMicros = 24 * 60 * 60 * 1_000_000

// dayOf is a time as recording_usage has it.
func dayOf(t time.Time) int64 { return database.Micros(t) / dayMicros }

const recordingColumns = "id, cluster, subject, begin_time, update_time, end_time, bytes, incomplete, data"

func scanRecording(row database.Row) (r Recording, err error) {
	var begin, update, end int64
	var data string
	if err := row.Scan(&r.ID, &r.Cluster, &r.Subject, &begin, &update, &end, &r.Bytes, &r.Incomplete, &data); err != nil {
		return r, database.NotFound(err)
	}
	r.Begin, r.Update, r.End = database.FromMicros(begin), database.FromMicros(update), database.FromMicros(end)
	return r, json.Unmarshal([]byte(data), &r.RecordingData)
}

// Recording returns a recording, or database.ErrNotFound.
func (v View) Recording(ctx context.Context, id string) (Recording, error) {
	return scanRecording(v.QueryRowContext(ctx, "SELECT "+recordingColumns+" FROM recordings WHERE id = $1", database.WithoutNUL(id)))
}

// Recordings returns up to limit recordings before an id (empty: the newest ones), the newest first. A cluster and a
// subject that are not empty choose.
func (v View) Recordings(ctx context.Context, cluster, subject, before string, limit int) ([]Recording, error) {
	rows, err := v.QueryContext(ctx, "SELECT "+recordingColumns+" FROM recordings WHERE (CAST($1 AS TEXT) = '' OR id < CAST($1 AS TEXT))"+
		" AND (CAST($2 AS TEXT) = '' OR cluster = CAST($2 AS TEXT)) AND (CAST($3 AS TEXT) = '' OR subject = CAST($3 AS TEXT)) ORDER BY id DESC LIMIT $4", before, cluster, subject, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (Recording, error) { return scanRecording(rows) })
}

// Pieces returns up to limit pieces of a recording behind a sequence, in order.
func (v View) Pieces(ctx context.Context, id string, after int64, limit int) ([]Piece, error) {
	rows, err := v.QueryContext(ctx, "SELECT seq, data FROM recording_pieces WHERE recording_id = $1 AND seq > $2 ORDER BY seq LIMIT $3", id, after, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (p Piece, err error) {
		err = rows.Scan(&p.Sequence, &p.Data)
		return p, err
	})
}

// BeginRecording makes an empty recording; one that is there stays as it is. ErrPersonFull and ErrAllFull when there is
// no room for another one.
func (s Store) BeginRecording(ctx context.Context, r Recording, bounds Bounds) error {
	data, err := json.Marshal(r.RecordingData)
	if err != nil {
		return fmt.Errorf("encode recording: %w", err)
	}
	return s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
		usage := recordingUsage{View: View{tx.View()}, bounds: bounds}
		if err := usage.room(ctx, r, 1); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO recordings ("+recordingColumns+") VALUES ($1, $2, $3, $4, $5, 0, 0, '', $6) ON CONFLICT (id) DO NOTHING",
			r.ID, r.Cluster, r.Subject, database.Micros(r.Begin), database.Micros(r.Begin), string(data))
		if err != nil {
			return fmt.Errorf("begin recording: %w", err)
		}
		return nil
	})
}

// AppendRecordings adds pieces in one transaction, durably; one that is there is passed over. refused has an error for
// each piece, or nil: database.ErrNotFound when there is no such recording, ErrFull, ErrPersonFull or ErrAllFull when there is
// no room for it.
func (s Store) AppendRecordings(ctx context.Context, pieces []RecordingPiece, bounds Bounds) (refused []error, err error) {
	// Consoles that write the same recordings lock their rows in one order.
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(pieces[a].ID, pieces[b].ID) })
	err = s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
		refused = make([]error, len(pieces))
		usage := recordingUsage{View: View{tx.View()}, bounds: bounds}
		for _, i := range order {
			err := usage.append(ctx, tx, pieces[i], s.Clock())
			switch {
			case errors.Is(err, database.ErrNotFound), errors.Is(err, ErrFull), errors.Is(err, ErrPersonFull), errors.Is(err, ErrAllFull):
				refused[i] = err
			case err != nil:
				return fmt.Errorf("append to recording: %w", err)
			}
		}
		return usage.flush(ctx, tx)
	})
	return refused, err
}

// recordingUsage is what recordings take as a transaction sees and changes it.
type recordingUsage struct {
	View
	bounds Bounds

	known   map[string]int64   // the bytes of a subject's young recordings; the empty one: all
	changes map[usageKey]int64 // changes that are not in the database yet
}

type usageKey struct {
	subject string
	day     int64
}

// young tells whether a recording is not removed for room.
func (b Bounds) young(r Recording) bool { return dayOf(r.Begin) >= dayOf(b.Young) }

// room refuses bytes of a recording that have none.
func (u *recordingUsage) room(ctx context.Context, r Recording, bytes int64) error {
	for _, of := range []struct {
		subject string
		day     int64
		most    int64
		full    error
	}{{r.Subject, dayOf(u.bounds.Young), u.bounds.Person, ErrPersonFull}, {"", 0, u.bounds.All, ErrAllFull}} {
		if of.subject != "" && !u.bounds.young(r) {
			continue
		}
		held, known := u.known[of.subject]
		if !known {
			err := u.QueryRowContext(ctx, "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM recording_usage WHERE subject = $1 AND day >= $2", of.subject, of.day).Scan(&held)
			if err != nil {
				return fmt.Errorf("measure recordings: %w", err)
			}
			if u.known == nil {
				u.known = map[string]int64{}
			}
			u.known[of.subject] = held
		}
		if held+bytes > of.most {
			return of.full
		}
	}
	return nil
}

// add counts bytes that came, or went (less than 0), of a recording.
func (u *recordingUsage) add(r Recording, bytes int64) {
	if u.changes == nil {
		u.changes = map[usageKey]int64{}
	}
	u.changes[usageKey{r.Subject, dayOf(r.Begin)}] += bytes
	u.changes[usageKey{}] += bytes
	if _, known := u.known[""]; known {
		u.known[""] += bytes
	}
	if _, known := u.known[r.Subject]; known && u.bounds.young(r) {
		u.known[r.Subject] += bytes
	}
}

// flush writes what changed, in the same order in all transactions.
func (u *recordingUsage) flush(ctx context.Context, tx database.Tx) error {
	keys := slices.SortedFunc(maps.Keys(u.changes), func(a, b usageKey) int {
		return cmp.Or(strings.Compare(a.subject, b.subject), cmp.Compare(a.day, b.day))
	})
	for _, key := range keys {
		_, err := tx.ExecContext(ctx, "INSERT INTO recording_usage (subject, day, bytes) VALUES ($1, $2, $3) ON CONFLICT (subject, day) DO UPDATE SET bytes = recording_usage.bytes + excluded.bytes",
			key.subject, key.day, u.changes[key])
		if err != nil {
			return fmt.Errorf("count recordings: %w", err)
		}
	}
	return nil
}

// append adds one piece.
func (u *recordingUsage) append(ctx context.Context, tx database.Tx, p RecordingPiece, now time.Time) error {
	// The write that changes nothing locks the row: without it another console could remove the recording between the
	// read and the piece, which would be of none and be counted for good.
	r, err := scanRecording(tx.QueryRowContext(ctx, "UPDATE recordings SET bytes = bytes WHERE id = $1 RETURNING "+recordingColumns, database.WithoutNUL(p.ID)))
	if err != nil {
		return err
	}
	if p.Bytes > 0 {
		var there int
		err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM recording_pieces WHERE recording_id = $1 AND seq = $2", p.ID, p.Sequence).Scan(&there)
		if err != nil || there > 0 {
			return err
		}
		if r.Bytes+p.Bytes > u.bounds.One {
			return ErrFull
		}
		if err := u.room(ctx, r, p.Bytes); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, "INSERT INTO recording_pieces (recording_id, seq, data) VALUES ($1, $2, $3) ON CONFLICT (recording_id, seq) DO NOTHING", p.ID, p.Sequence, p.Data)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 { // a console of before this lock was first
			return err
		}
		u.add(r, p.Bytes)
	}
	ended := r.End
	if p.End {
		ended = now
	}
	_, err = tx.ExecContext(ctx, "UPDATE recordings SET update_time = $2, end_time = $3, bytes = bytes + $4, incomplete = $5 WHERE id = $1",
		p.ID, database.Micros(now), database.Micros(ended), p.Bytes, cmp.Or(p.Incomplete, r.Incomplete))
	return err
}

// over chooses recordings that don't go on: they have an end, or had no piece since the time that is $1.
const over = "(end_time > 0 OR update_time < $1)"

// TrimRecordings removes recordings that began before a time, and recordings that are not young while all have more
// than a number of bytes: of the person whose recordings that are not young take the most, the oldest one first. A
// recording that goes on is not removed. event makes the entry in the audit trail of one that is removed for room.
// removed counts the removed recordings.
func (s Store) TrimRecordings(ctx context.Context, before time.Time, most int64, bounds Bounds,
	event func(now time.Time, r Recording) audittrail.Event,
) (removed int, err error) {
	for {
		again, gone := false, false
		err = s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
			v := View{tx.View()}
			r, err := scanRecording(tx.QueryRowContext(ctx, "SELECT "+recordingColumns+" FROM recordings WHERE "+over+" AND begin_time < $2 ORDER BY begin_time LIMIT 1",
				database.Micros(bounds.Idle), database.Micros(before)))
			forRoom := errors.Is(err, database.ErrNotFound)
			if forRoom {
				r, err = v.surplus(ctx, most, bounds)
			}
			if errors.Is(err, database.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("find a recording to remove: %w", err)
			}
			again = true
			gone, err = removeRecording(ctx, tx, r, forRoom, event)
			return err
		})
		if err != nil || !again {
			return removed, err
		}
		if gone {
			removed++
		}
	}
}

// surplus is the recording that goes next while all have more than a number of bytes, or database.ErrNotFound.
func (v View) surplus(ctx context.Context, most int64, bounds Bounds) (Recording, error) {
	var total int64
	if err := v.QueryRowContext(ctx, "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM recording_usage WHERE subject = '' AND day = 0").Scan(&total); err != nil || total <= most {
		return Recording{}, cmp.Or(err, database.ErrNotFound)
	}
	rows, err := v.QueryContext(ctx, "SELECT subject FROM recording_usage WHERE subject <> '' AND day < $1 AND bytes > 0 GROUP BY subject ORDER BY SUM(bytes) DESC, subject", dayOf(bounds.Young))
	subjects, err := database.Collect(rows, err, func(rows *sql.Rows) (subject string, err error) {
		err = rows.Scan(&subject)
		return subject, err
	})
	if err != nil {
		return Recording{}, err
	}
	for _, subject := range subjects {
		r, err := scanRecording(v.QueryRowContext(ctx, "SELECT "+recordingColumns+" FROM recordings WHERE "+over+" AND subject = $2 AND begin_time < $3 AND bytes > 0 ORDER BY begin_time LIMIT 1",
			database.Micros(bounds.Idle), subject, dayOf(bounds.Young)*dayMicros))
		if !errors.Is(err, database.ErrNotFound) {
			return r, err
		}
	}
	return Recording{}, database.ErrNotFound
}

// removeRecording returns false if another console has removed the recording since it was read.
func removeRecording(ctx context.Context, tx database.Tx, r Recording, forRoom bool,
	event func(time.Time, Recording) audittrail.Event,
) (removed bool, err error) {
	// The recording goes before its pieces: its row is what consoles wait for, and it may have grown since it was read.
	err = tx.QueryRowContext(ctx, "DELETE FROM recordings WHERE id = $1 RETURNING bytes", r.ID).Scan(&r.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM recording_pieces WHERE recording_id = $1", r.ID)
	}
	if err != nil {
		return false, fmt.Errorf("remove recording: %w", err)
	}
	usage := recordingUsage{View: View{tx.View()}}
	usage.add(r, -r.Bytes)
	if err := usage.flush(ctx, tx); err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM recording_usage WHERE subject IN ('', $1) AND bytes <= 0", r.Subject); err != nil {
		return false, fmt.Errorf("count recordings: %w", err)
	}
	if !forRoom {
		return true, nil
	}
	return true, audittrail.Insert(ctx, tx, []audittrail.Event{event(tx.Now, r)})
}
