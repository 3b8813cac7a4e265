package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// RequestState is what became of an AccessRequest.
type RequestState string

// The states. A request that waits is approved, denied, revoked or lapses; one that is approved ends or is revoked.
const (
	RequestWaiting  RequestState = "waiting"
	RequestApproved RequestState = "approved"
	RequestDenied   RequestState = "denied"
	RequestEnded    RequestState = "ended"
	RequestRevoked  RequestState = "revoked"
	RequestLapsed   RequestState = "lapsed"
)

// AccessRequest asks for a role at a cluster for a while.
type AccessRequest struct {
	ID      string
	Subject string // user:ada
	Cluster string // name
	State   RequestState
	// Due is when it lapses or ends by itself; zero: it is over. End is when it was over.
	Due, End time.Time
	RequestData
}

// RequestData is what nothing is looked for by.
type RequestData struct {
	Role       string        `json:"role"`
	For        time.Duration `json:"for"`
	Reason     string        `json:"reason"`
	CreateTime time.Time     `json:"createTime"`

	Decider        string    `json:"decider,omitempty"`
	DecisionReason string    `json:"decisionReason,omitempty"`
	DecideTime     time.Time `json:"decideTime,omitzero"`
	// Until is when what was lent ends, or ended, by its time.
	Until time.Time `json:"until,omitzero"`

	Revoker          string    `json:"revoker,omitempty"`
	RevocationReason string    `json:"revocationReason,omitempty"`
	RevokeTime       time.Time `json:"revokeTime,omitzero"`

	// Grant is the name of the one that lends it; empty: there is none any more.
	Grant string `json:"grant,omitempty"`
}

const requestColumns = "id, subject, cluster, state, due_time, end_time, data"

func scanRequest(row database.Row) (r AccessRequest, err error) {
	var due, end int64
	var data string
	if err := row.Scan(&r.ID, &r.Subject, &r.Cluster, &r.State, &due, &end, &data); err != nil {
		return r, database.NotFound(err)
	}
	r.Due, r.End = database.FromMicros(due), database.FromMicros(end)
	return r, json.Unmarshal([]byte(data), &r.RequestData)
}

// AccessRequest returns a request, or ErrNotFound.
func (v View) AccessRequest(ctx context.Context, id string) (AccessRequest, error) {
	return scanRequest(v.db.QueryRowContext(ctx, "SELECT "+requestColumns+" FROM access_requests WHERE id = $1", database.WithoutNUL(id)))
}

// AccessRequests returns up to limit requests before an id (empty: the newest ones), the newest first; open ones only,
// or all.
func (v View) AccessRequests(ctx context.Context, all bool, before string, limit int) ([]AccessRequest, error) {
	query := "SELECT " + requestColumns + " FROM access_requests WHERE (CAST($1 AS TEXT) = '' OR id < CAST($1 AS TEXT))"
	if !all {
		query += " AND due_time > 0"
	}
	rows, err := v.db.QueryContext(ctx, query+" ORDER BY id DESC LIMIT $2", before, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (AccessRequest, error) { return scanRequest(rows) })
}

// OpenRequests returns the requests of somebody that wait or are lent.
func (v View) OpenRequests(ctx context.Context, subject string) ([]AccessRequest, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT "+requestColumns+" FROM access_requests WHERE due_time > 0 AND subject = $1 ORDER BY id", subject)
	return database.Collect(rows, err, func(rows *sql.Rows) (AccessRequest, error) { return scanRequest(rows) })
}

// RequestsSince counts the requests of somebody from an id on.
func (v View) RequestsSince(ctx context.Context, subject, from string) (n int, err error) {
	err = v.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM access_requests WHERE id >= $1 AND subject = $2", from, subject).Scan(&n)
	return n, err
}

// DueRequests returns the requests whose time has come, the first ones first.
func (v View) DueRequests(ctx context.Context, now time.Time, limit int) ([]AccessRequest, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT "+requestColumns+
		" FROM access_requests WHERE due_time > 0 AND due_time <= $1 ORDER BY due_time LIMIT $2", database.Micros(now), limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (AccessRequest, error) { return scanRequest(rows) })
}

// PutAccessRequest keeps a request, and forgets those that were over before a time.
func (t *Tx) PutAccessRequest(ctx context.Context, r AccessRequest, forget time.Time) error {
	data, err := json.Marshal(r.RequestData)
	if err != nil {
		return fmt.Errorf("encode access request: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM access_requests WHERE end_time > 0 AND end_time < $1", database.Micros(forget)); err != nil {
		return fmt.Errorf("trim access requests: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO access_requests ("+requestColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7)"+
		" ON CONFLICT (id) DO UPDATE SET state = excluded.state, due_time = excluded.due_time, end_time = excluded.end_time, data = excluded.data",
		r.ID, r.Subject, r.Cluster, r.State, database.Micros(r.Due), database.Micros(r.End), string(data)); err != nil {
		return fmt.Errorf("keep access request: %w", err)
	}
	return nil
}
