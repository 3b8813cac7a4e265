package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Recording is what somebody saw of a shell in a pod, without what that was.
type Recording struct {
	ID      string
	Cluster string // name
	Subject string // user:ada
	Begin   time.Time
	// Update is the time of the last piece. End is zero while it goes on, and for good if its tunnel was killed.
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

// ErrFull is of a recording that has no room for a piece.
var ErrFull = errors.New("the recording is full")

const recordingColumns = "id, cluster, subject, begin_time, update_time, end_time, bytes, incomplete, data"

func scanRecording(row scanner) (r Recording, err error) {
	var begin, update, end int64
	var data string
	if err := row.Scan(&r.ID, &r.Cluster, &r.Subject, &begin, &update, &end, &r.Bytes, &r.Incomplete, &data); err != nil {
		return r, notFound(err)
	}
	r.Begin, r.Update, r.End = FromMicros(begin), FromMicros(update), FromMicros(end)
	return r, json.Unmarshal([]byte(data), &r.RecordingData)
}

// Recording returns a recording, or ErrNotFound.
func (v View) Recording(ctx context.Context, id string) (Recording, error) {
	return scanRecording(v.q.QueryRowContext(ctx, "SELECT "+recordingColumns+" FROM recordings WHERE id = $1", withoutNUL(id)))
}

// Recordings returns up to limit recordings before an id (empty: the newest ones), the newest first. A cluster and a subject that are not empty choose.
func (v View) Recordings(ctx context.Context, cluster, subject, before string, limit int) ([]Recording, error) {
	rows, err := v.q.QueryContext(ctx, "SELECT "+recordingColumns+" FROM recordings WHERE (CAST($1 AS TEXT) = '' OR id < CAST($1 AS TEXT))"+
		" AND (CAST($2 AS TEXT) = '' OR cluster = CAST($2 AS TEXT)) AND (CAST($3 AS TEXT) = '' OR subject = CAST($3 AS TEXT)) ORDER BY id DESC LIMIT $4", before, cluster, subject, limit)
	return collect(rows, err, func(rows *sql.Rows) (Recording, error) { return scanRecording(rows) })
}

// Pieces returns up to limit pieces of a recording behind a sequence, in order.
func (v View) Pieces(ctx context.Context, id string, after int64, limit int) ([]Piece, error) {
	rows, err := v.q.QueryContext(ctx, "SELECT seq, data FROM recording_pieces WHERE recording_id = $1 AND seq > $2 ORDER BY seq LIMIT $3", id, after, limit)
	return collect(rows, err, func(rows *sql.Rows) (p Piece, err error) {
		err = rows.Scan(&p.Sequence, &p.Data)
		return p, err
	})
}

// transactLane is transact in the lane of statuses: a person's write waits for one of them at most.
func (s *Store) transactLane(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	leave, err := s.enterLane(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.transact(ctx, fn)
}

// BeginRecording makes an empty recording; one that is there stays as it is.
func (s *Store) BeginRecording(ctx context.Context, r Recording) error {
	data, err := json.Marshal(r.RecordingData)
	if err != nil {
		return fmt.Errorf("encode recording: %w", err)
	}
	return s.transactLane(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO recordings ("+recordingColumns+") VALUES ($1, $2, $3, $4, $5, 0, 0, '', $6) ON CONFLICT (id) DO NOTHING",
			r.ID, r.Cluster, r.Subject, Micros(r.Begin), Micros(r.Begin), string(data))
		if err != nil {
			return fmt.Errorf("begin recording: %w", err)
		}
		return nil
	})
}

// AppendRecording adds a piece of so many bytes before it was sealed, durably; one that is there is passed over. ErrNotFound when there is no such recording,
// ErrFull when more than most bytes would be in it: it is complete without the piece then.
func (s *Store) AppendRecording(ctx context.Context, id string, p Piece, bytes, most int64, end bool, incomplete string) error {
	return s.transactLane(ctx, func(ctx context.Context, tx *sql.Tx) error {
		r, err := View{tx, &s.dialect}.Recording(ctx, id)
		if err != nil {
			return err
		}
		if r.Bytes+bytes > most {
			return ErrFull
		}
		now, ended := s.clock(), r.End
		if end {
			ended = now
		}
		if bytes > 0 {
			res, err := tx.ExecContext(ctx, "INSERT INTO recording_pieces (recording_id, seq, data) VALUES ($1, $2, $3) ON CONFLICT (recording_id, seq) DO NOTHING", id, p.Sequence, p.Data)
			if err != nil {
				return fmt.Errorf("append to recording: %w", err)
			}
			if n, err := res.RowsAffected(); err != nil || n == 0 {
				return err
			}
		}
		if incomplete == "" {
			incomplete = r.Incomplete
		}
		if _, err := tx.ExecContext(ctx, "UPDATE recordings SET update_time = $2, end_time = $3, bytes = bytes + $4, incomplete = $5 WHERE id = $1",
			id, Micros(now), Micros(ended), bytes, incomplete); err != nil {
			return fmt.Errorf("append to recording: %w", err)
		}
		return nil
	})
}

// TrimRecordings removes recordings that began before a time, and the oldest ones as long as all together have more than most bytes. It returns how many.
func (s *Store) TrimRecordings(ctx context.Context, before time.Time, most int64) (removed int, err error) {
	for {
		again := false
		err = s.transactLane(ctx, func(ctx context.Context, tx *sql.Tx) error {
			var total, begin int64
			var id string
			if err := tx.QueryRowContext(ctx, "SELECT COALESCE(SUM(bytes), 0) FROM recordings").Scan(&total); err != nil {
				return fmt.Errorf("measure recordings: %w", err)
			}
			err := tx.QueryRowContext(ctx, "SELECT id, begin_time FROM recordings ORDER BY id LIMIT 1").Scan(&id, &begin)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("find the oldest recording: %w", err)
			}
			if begin >= Micros(before) && total <= most {
				return nil
			}
			for _, stmt := range []string{"DELETE FROM recording_pieces WHERE recording_id = $1", "DELETE FROM recordings WHERE id = $1"} {
				if _, err := tx.ExecContext(ctx, stmt, id); err != nil {
					return fmt.Errorf("remove recording: %w", err)
				}
			}
			again = true
			return nil
		})
		if err != nil || !again {
			return removed, err
		}
		removed++
	}
}
