package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// JoinToken lets one agent join as a cluster. The token itself is kept by nobody but its owner.
type JoinToken struct {
	// Hash is SHA-256 of the token, in hex.
	Hash    string
	Cluster string // uid
	Expire  time.Time
}

// Revocation makes tokens invalid: one, or all that were issued to a subject up to Time.
type Revocation struct {
	TokenID string
	Subject string
	Time    time.Time
	// Expire is when no token is left that it could be about.
	Expire time.Time
}

// SigningKeys returns the set of signing keys, sealed, or ErrNotFound.
func (v View) SigningKeys(ctx context.Context) (sealed []byte, err error) {
	err = v.db.QueryRowContext(ctx, "SELECT sealed FROM signing_keys").Scan(&sealed)
	return sealed, database.NotFound(err)
}

// Revocations returns those that have not expired.
func (v View) Revocations(ctx context.Context, now time.Time) ([]Revocation, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT token_id, subject, revoke_time, expire_time FROM revocations WHERE expire_time > $1 ORDER BY revoke_time, token_id, subject", database.Micros(now))
	return database.Collect(rows, err, func(rows *sql.Rows) (Revocation, error) {
		var r Revocation
		var at, expire int64
		err := rows.Scan(&r.TokenID, &r.Subject, &at, &expire)
		r.Time, r.Expire = database.FromMicros(at), database.FromMicros(expire)
		return r, err
	})
}

// PutSigningKeys replaces the set of signing keys.
func (t *Tx) PutSigningKeys(ctx context.Context, sealed []byte) error {
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO signing_keys (id, sealed) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed", sealed); err != nil {
		return fmt.Errorf("write signing keys: %w", err)
	}
	return nil
}

// Revoke keeps a revocation, and forgets those that have expired.
func (t *Tx) Revoke(ctx context.Context, r Revocation) error {
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO revocations (token_id, subject, revoke_time, expire_time) VALUES ($1, $2, $3, $4)"+
		" ON CONFLICT (token_id, subject) DO UPDATE SET revoke_time = excluded.revoke_time, expire_time = excluded.expire_time",
		r.TokenID, r.Subject, database.Micros(r.Time), database.Micros(r.Expire)); err != nil {
		return fmt.Errorf("insert revocation: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM revocations WHERE expire_time <= $1", database.Micros(t.tx.Now)); err != nil {
		return fmt.Errorf("trim revocations: %w", err)
	}
	return nil
}

// HasTokens says whether a login, an API token, or a line of tokens of an agent is kept that has an id or is a subject's.
func (v View) HasTokens(ctx context.Context, id, subject string) (has bool, err error) {
	err = v.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM logins WHERE id = $1 OR subject = $2)"+
		" OR EXISTS (SELECT 1 FROM api_tokens WHERE id = $1 OR subject = $2)"+
		" OR EXISTS (SELECT 1 FROM agent_tokens WHERE family = $1)", id, subject).Scan(&has)
	if err != nil {
		return false, fmt.Errorf("look for tokens: %w", err)
	}
	return has, nil
}

// AddJoinToken keeps a join token, and forgets those that have expired.
func (t *Tx) AddJoinToken(ctx context.Context, j JoinToken) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM join_tokens WHERE expire_time <= $1", database.Micros(t.tx.Now)); err != nil {
		return fmt.Errorf("trim join tokens: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO join_tokens (hash, cluster_uid, author, create_time, expire_time, use_time) VALUES ($1, $2, $3, $4, $5, 0)",
		j.Hash, j.Cluster, t.tx.Author, database.Micros(t.tx.Now), database.Micros(j.Expire)); err != nil {
		return fmt.Errorf("insert join token: %w", err)
	}
	return nil
}

// DropJoinTokens forgets those of a cluster.
func (t *Tx) DropJoinTokens(ctx context.Context, cluster string) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM join_tokens WHERE cluster_uid = $1", cluster); err != nil {
		return fmt.Errorf("drop join tokens: %w", err)
	}
	return nil
}

// UseJoinToken uses a token up and returns its cluster, with the time as its time of joining.
// ErrNotFound for a token that is unknown, used or expired, and for a cluster that is gone.
func (t *Tx) UseJoinToken(ctx context.Context, hash string) (Resource, error) {
	var uid string
	err := t.tx.QueryRowContext(ctx, "UPDATE join_tokens SET use_time = $1 WHERE hash = $2 AND use_time = 0 AND expire_time > $1 RETURNING cluster_uid",
		database.Micros(t.tx.Now), hash).Scan(&uid)
	if err != nil {
		return Resource{}, fmt.Errorf("use join token: %w", database.NotFound(err))
	}
	cluster, err := scanResource(t.db.QueryRowContext(ctx, "SELECT "+resourceColumns+" FROM resources r WHERE uid = $1", uid))
	if err != nil {
		return Resource{}, fmt.Errorf("read cluster: %w", database.NotFound(err))
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO seen (cluster_uid, join_time, seen_time, state, touch_time) VALUES ($1, $2, 0, '{}', "+t.tx.Dialect.Now+")"+ //nolint:gosec // one of two constants
		" ON CONFLICT (cluster_uid) DO UPDATE SET join_time = excluded.join_time, leave_time = 0, touch_time = excluded.touch_time", uid, database.Micros(t.tx.Now)); err != nil {
		return Resource{}, fmt.Errorf("record join: %w", err)
	}
	t.touched.Clusters = append(t.touched.Clusters, uid)
	return cluster, nil
}
