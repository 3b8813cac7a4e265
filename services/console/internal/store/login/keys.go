package login

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Revocation makes tokens invalid: one, or all that were issued to a subject up to Time.
type Revocation struct {
	TokenID string
	Subject string
	Time    time.Time
	// Expire is when no token is left that it could be about.
	Expire time.Time
}

// SigningKeys returns the set of signing keys, sealed, or database.ErrNotFound.
func (v View) SigningKeys(ctx context.Context) (sealed []byte, err error) {
	err = v.QueryRowContext(ctx, "SELECT sealed FROM signing_keys").Scan(&sealed)
	return sealed, database.NotFound(err)
}

// Revocations returns those that have not expired.
func (v View) Revocations(ctx context.Context, now time.Time) ([]Revocation, error) {
	rows, err := v.QueryContext(ctx, "SELECT token_id, subject, revoke_time, expire_time FROM revocations WHERE expire_time > $1 ORDER BY revoke_time, token_id, subject", database.Micros(now))
	return database.Collect(rows, err, func(rows *sql.Rows) (Revocation, error) {
		var r Revocation
		var at, expire int64
		err := rows.Scan(&r.TokenID, &r.Subject, &at, &expire)
		r.Time, r.Expire = database.FromMicros(at), database.FromMicros(expire)
		return r, err
	})
}

// PutSigningKeys replaces the set of signing keys.
func (t Tx) PutSigningKeys(ctx context.Context, sealed []byte) error {
	if _, err := t.ExecContext(ctx, "INSERT INTO signing_keys (id, sealed) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed", sealed); err != nil {
		return fmt.Errorf("write signing keys: %w", err)
	}
	return nil
}

// Revoke keeps a revocation, and forgets those that have expired.
func (t Tx) Revoke(ctx context.Context, r Revocation) error {
	if _, err := t.ExecContext(ctx, "INSERT INTO revocations (token_id, subject, revoke_time, expire_time) VALUES ($1, $2, $3, $4)"+
		" ON CONFLICT (token_id, subject) DO UPDATE SET revoke_time = excluded.revoke_time, expire_time = excluded.expire_time",
		r.TokenID, r.Subject, database.Micros(r.Time), database.Micros(r.Expire)); err != nil {
		return fmt.Errorf("insert revocation: %w", err)
	}
	if _, err := t.ExecContext(ctx, "DELETE FROM revocations WHERE expire_time <= $1", database.Micros(t.Now)); err != nil {
		return fmt.Errorf("trim revocations: %w", err)
	}
	return nil
}

// HasTokens says whether a login, an API token, or a line of tokens of an agent is kept that has an id or is a subject's.
func (v View) HasTokens(ctx context.Context, id, subject string) (has bool, err error) {
	err = v.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM logins WHERE id = $1 OR subject = $2)"+
		" OR EXISTS (SELECT 1 FROM api_tokens WHERE id = $1 OR subject = $2)"+
		" OR EXISTS (SELECT 1 FROM agent_tokens WHERE family = $1)", id, subject).Scan(&has)
	if err != nil {
		return false, fmt.Errorf("look for tokens: %w", err)
	}
	return has, nil
}
