package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Sending is how far a sink is with the events, and how sending to it goes.
type Sending struct {
	Sink string // uid
	// Seq is the number of an event: all up to it are sent, given up, or not for the sink.
	Seq int64
	// Next is when something may be sent again, by the database's clock.
	Next time.Time
	// Due says that it is, and that nobody else is at it. Of Sendings only.
	Due bool
	// Sender is who sends, or sent last.
	Sender string
	// Attempts that failed, since the last that did not.
	Attempts int
	// Rejections are how often the oldest event was itself not taken, alone.
	Rejections int
	// Waiting is how many events waited at the last attempt, and Oldest the time of the oldest.
	Waiting int
	Oldest  time.Time
	// SendTime is when something was taken last; zero: never.
	SendTime time.Time
	// Sent and Dropped count events.
	Sent, Dropped int64
	// Problem is why the last attempt failed; empty: it did not.
	Problem     string
	ProblemTime time.Time
	// Earlier is what KeepFilters was given.
	Earlier string
}

const sendingColumns = "sink_uid, seq, next_time, sender, attempts, rejections, waiting, oldest_time, send_time, sent, dropped, problem, problem_time, filters"

func scanSending(row database.Row, more ...any) (s Sending, err error) {
	var next, oldest, send, problem int64
	err = row.Scan(append([]any{
		&s.Sink, &s.Seq, &next, &s.Sender, &s.Attempts, &s.Rejections, &s.Waiting, &oldest,
		&send, &s.Sent, &s.Dropped, &s.Problem, &problem, &s.Earlier,
	}, more...)...)
	s.Next, s.Oldest, s.SendTime, s.ProblemTime = database.FromMicros(next), database.FromMicros(oldest), database.FromMicros(send), database.FromMicros(problem)
	return s, err
}

// Sendings returns how sending goes to all sinks, by uid.
func (v View) Sendings(ctx context.Context) (map[string]Sending, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT "+sendingColumns+", CASE WHEN next_time <= "+v.db.Dialect.Now+
		" AND lease_time <= "+v.db.Dialect.Now+" THEN 1 ELSE 0 END FROM sinks")
	list, err := database.Collect(rows, err, func(rows *sql.Rows) (Sending, error) {
		var due int
		s, err := scanSending(rows, &due)
		s.Due = due == 1
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read sinks: %w", err)
	}
	out := make(map[string]Sending, len(list))
	for _, s := range list {
		out[s.Sink] = s
	}
	return out, nil
}

// Sending returns how sending to a sink goes.
func (v View) Sending(ctx context.Context, sink string) (Sending, error) {
	s, err := scanSending(v.db.QueryRowContext(ctx, "SELECT "+sendingColumns+" FROM sinks WHERE sink_uid = $1", sink))
	if err != nil {
		return s, fmt.Errorf("read sink: %w", database.NotFound(err))
	}
	return s, nil
}

// BeginSending has a new sink begin with what happens from now on, and one that is there tried at once.
func (t *Tx) BeginSending(ctx context.Context, sink string) error {
	end, err := t.EventsEnd(ctx)
	if err != nil {
		return err
	}
	_, err = t.tx.ExecContext(ctx, "INSERT INTO sinks (sink_uid, seq, next_time) VALUES ($1, $2, "+t.tx.Dialect.Now+")"+
		" ON CONFLICT (sink_uid) DO UPDATE SET rejections = 0,"+
		// Another time than that of a claim that runs, also within the clock's step: it is how PutSending knows of the
		// change.
		" next_time = CASE WHEN sinks.next_time <= excluded.next_time THEN sinks.next_time - 1 ELSE excluded.next_time END", sink, end)
	if err != nil {
		return fmt.Errorf("write sink: %w", err)
	}
	return nil
}

// KeepFilters keeps, as a text of the caller's, which events were for a sink before.
func (t *Tx) KeepFilters(ctx context.Context, sink, filters string) error {
	if _, err := t.tx.ExecContext(ctx, "UPDATE sinks SET filters = $2 WHERE sink_uid = $1", sink, filters); err != nil {
		return fmt.Errorf("write sink: %w", err)
	}
	return nil
}

// ClaimSending takes sending to a sink on for some time, unless it is not due or another sender has. Clocks of consoles
// differ: the database's counts.
func (s *Store) ClaimSending(ctx context.Context, sink, sender string, lease time.Duration) (of Sending, mine bool, err error) {
	err = s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		now := s.Dialect.Now
		of, err = scanSending(tx.QueryRowContext(ctx, "UPDATE sinks SET sender = $2, lease_time = "+now+" + $3"+
			" WHERE sink_uid = $1 AND next_time <= "+now+" AND lease_time <= "+now+" RETURNING "+sendingColumns, sink, sender, lease.Microseconds()))
		if mine = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return of, false, fmt.Errorf("claim sink: %w", err)
	}
	return of, mine, nil
}

// PutSending keeps what came of a claim, with events about it, and ends the claim. The next one is due after wait, or
// at once if the sink was changed meanwhile. false: the claim was lost, or the sink is gone, and nothing is kept.
func (s *Store) PutSending(ctx context.Context, of Sending, wait time.Duration, events ...Event) (kept bool, err error) {
	return s.PutStatuses(ctx, of, wait, nil, nil, events...)
}

// PutStatuses is PutSending that also keeps statuses that the sink has set, and forgets those of the contexts in gone.
func (s *Store) PutStatuses(ctx context.Context, of Sending, wait time.Duration, set []CommitStatus, gone []string, events ...Event) (kept bool, err error) {
	err = s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE sinks SET lease_time = 0, next_time = CASE WHEN next_time = $3 THEN "+s.Dialect.Now+" + $4 ELSE next_time END,"+
			" seq = $5, attempts = $6, waiting = $7, oldest_time = $8, send_time = $9, sent = $10, dropped = $11, problem = $12, problem_time = $13, rejections = $14"+
			" WHERE sink_uid = $1 AND sender = $2", of.Sink, of.Sender, database.Micros(of.Next), wait.Microseconds(),
			of.Seq, of.Attempts, of.Waiting, database.Micros(of.Oldest), database.Micros(of.SendTime), of.Sent, of.Dropped, of.Problem, database.Micros(of.ProblemTime), of.Rejections)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if kept = n == 1; err != nil || !kept {
			return err
		}
		if err := putCommitStatuses(ctx, tx, of.Sink, set, gone); err != nil {
			return err
		}
		return s.insertEvents(ctx, tx, events)
	})
	if err != nil {
		return false, fmt.Errorf("write sink: %w", err)
	}
	if kept {
		s.tellEvents(events)
	}
	return kept, nil
}

// CommitStatusKey is the name of a status of commits, and the ref that its services follow.
type CommitStatusKey struct{ Context, Ref string }

// CommitStatus is the last status of a commit that a sink set at a Git host, by its key.
type CommitStatus struct {
	CommitStatusKey
	Repository string
	Commit     string
	// Digest of the content that came with the commit; empty: the hub can't deliver the commit.
	Digest      string
	State       string
	Description string
}

// CommitStatuses returns the last statuses of a sink by these names, and whatever ref.
func (v View) CommitStatuses(ctx context.Context, sink string, contexts []string) (map[CommitStatusKey]CommitStatus, error) {
	found := make(map[CommitStatusKey]CommitStatus, len(contexts))
	for chunk := range slices.Chunk(contexts, database.ChunkSize) {
		rows, err := v.db.QueryContext(ctx, "SELECT context, ref, repository, commit_id, digest, state, description FROM commit_statuses WHERE sink_uid = $1 AND context IN "+
			v.db.Dialect.Placeholders(2, len(chunk)), database.Anys(chunk, sink)...)
		if _, err := database.Collect(rows, err, func(rows *sql.Rows) (c CommitStatus, err error) {
			err = rows.Scan(&c.Context, &c.Ref, &c.Repository, &c.Commit, &c.Digest, &c.State, &c.Description)
			found[c.CommitStatusKey] = c
			return c, err
		}); err != nil {
			return nil, fmt.Errorf("read statuses of commits: %w", err)
		}
	}
	return found, nil
}

// putCommitStatuses keeps statuses that a sink has set, and forgets those of the contexts in gone. A sink that is gone
// keeps none.
func putCommitStatuses(ctx context.Context, tx database.Tx, sink string, set []CommitStatus, gone []string) error {
	err := database.ExecEach(ctx, tx, len(gone), "DELETE FROM commit_statuses WHERE sink_uid = $1 AND context = $2", func(i int) []any { return []any{sink, gone[i]} })
	if err == nil {
		err = database.ExecEach(ctx, tx, len(set), "INSERT INTO commit_statuses (sink_uid, context, ref, repository, commit_id, digest, state, description)"+
			" SELECT sink_uid, CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS TEXT) FROM sinks WHERE sink_uid = $1"+
			" ON CONFLICT (sink_uid, context, ref) DO UPDATE SET repository = excluded.repository, commit_id = excluded.commit_id, digest = excluded.digest,"+
			" state = excluded.state, description = excluded.description", func(i int) []any {
			c := set[i]
			return []any{sink, c.Context, c.Ref, c.Repository, c.Commit, c.Digest, c.State, c.Description}
		})
	}
	if err != nil {
		return fmt.Errorf("write statuses of commits: %w", err)
	}
	return nil
}
