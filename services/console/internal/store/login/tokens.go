// Package login keeps who may log in, and by what: API tokens, logins, links, and what signs and revokes tokens. The
// views and writes of package store have these.
package login

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/services/console/internal/store/database"
)

// View reads at one moment.
type View struct{ database.View }

// Tx is a write to the catalog.
type Tx struct{ database.Tx }

// APIToken is a long-lived credential of a user or a service account. The token itself is kept by nobody but its owner.
type APIToken struct {
	ID string
	// Hash is SHA-256 of the token, in hex.
	Hash    string
	Subject string
	// Groups of a user, in JSON, as Limits are.
	Groups, Limits []byte
	Description    string
	Creator        string
	CreateTime     time.Time
	ExpireTime     time.Time
	// LastUse is zero before the first one.
	LastUse time.Time
	// RevokeTime is zero unless it was revoked.
	RevokeTime time.Time
}

// LoginLink lets one person log in.
type LoginLink struct {
	Hash string
	// Person is JSON.
	Person []byte
	Expire time.Time
}

const tokenColumns = "id, hash, subject, member_of, limits, description, creator, create_time, expire_time, last_use_time, revoke_time" //nolint:gosec // names of columns, no credentials

func scanToken(row database.Row) (t APIToken, err error) {
	var created, expires, used, revoked int64
	err = row.Scan(&t.ID, &t.Hash, &t.Subject, &t.Groups, &t.Limits, &t.Description, &t.Creator, &created, &expires, &used, &revoked)
	t.CreateTime, t.ExpireTime, t.LastUse, t.RevokeTime = database.FromMicros(created), database.FromMicros(expires), database.FromMicros(used), database.FromMicros(revoked)
	return t, database.NotFound(err)
}

// APIToken returns a token by its id, or database.ErrNotFound.
func (v View) APIToken(ctx context.Context, id string) (APIToken, error) {
	if strings.ContainsRune(id, 0) || !utf8.ValidString(id) { // no id is like this, and PostgreSQL takes no such text
		return APIToken{}, database.ErrNotFound
	}
	return scanToken(v.QueryRowContext(ctx, "SELECT "+tokenColumns+" FROM api_tokens WHERE id = $1", id))
}

// APITokens returns up to limit tokens of a subject (empty: of all) whose ids come behind after, in the order of ids.
func (v View) APITokens(ctx context.Context, subject, after string, limit int) ([]APIToken, error) {
	rows, err := v.QueryContext(ctx, "SELECT "+tokenColumns+
		" FROM api_tokens WHERE ($1 = '' OR subject = $1) AND id > $2 ORDER BY id LIMIT $3", subject, after, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (APIToken, error) { return scanToken(rows) })
}

// AddAPIToken keeps a token, and forgets those that have expired.
func (t Tx) AddAPIToken(ctx context.Context, a APIToken) error {
	if _, err := t.ExecContext(ctx, "DELETE FROM api_tokens WHERE expire_time <= $1", database.Micros(t.Now)); err != nil {
		return fmt.Errorf("trim tokens: %w", err)
	}
	if _, err := t.ExecContext(ctx, "INSERT INTO api_tokens ("+tokenColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0)",
		a.ID, a.Hash, a.Subject, string(a.Groups), string(a.Limits), a.Description, a.Creator, database.Micros(t.Now), database.Micros(a.ExpireTime)); err != nil {
		return fmt.Errorf("insert token: %w", err)
	}
	return nil
}

// UseAPIToken notes that a token was used.
func (t Tx) UseAPIToken(ctx context.Context, id string) error {
	if _, err := t.ExecContext(ctx, "UPDATE api_tokens SET last_use_time = $1 WHERE id = $2", database.Micros(t.Now), id); err != nil {
		return fmt.Errorf("note use of token: %w", err)
	}
	return nil
}

// RevokeAPITokens revokes a token by its id, or all of a subject.
func (t Tx) RevokeAPITokens(ctx context.Context, id, subject string) error {
	if _, err := t.ExecContext(ctx, "UPDATE api_tokens SET revoke_time = $1 WHERE (id = $2 OR subject = $3) AND revoke_time = 0", database.Micros(t.Now), id, subject); err != nil {
		return fmt.Errorf("revoke tokens: %w", err)
	}
	return nil
}

// AddLoginLink keeps a link, and forgets those that have expired.
func (t Tx) AddLoginLink(ctx context.Context, l LoginLink) error {
	if _, err := t.ExecContext(ctx, "DELETE FROM login_links WHERE expire_time <= $1", database.Micros(t.Now)); err != nil {
		return fmt.Errorf("trim login links: %w", err)
	}
	if _, err := t.ExecContext(ctx, "INSERT INTO login_links (hash, person, author, create_time, expire_time, use_time) VALUES ($1, $2, $3, $4, $5, 0)",
		l.Hash, string(l.Person), t.Author, database.Micros(t.Now), database.Micros(l.Expire)); err != nil {
		return fmt.Errorf("insert login link: %w", err)
	}
	return nil
}

// LoginLinks returns the links that are neither used nor expired, the newest first.
func (t Tx) LoginLinks(ctx context.Context) ([]LoginLink, error) {
	rows, err := t.QueryContext(ctx, "SELECT hash, person, expire_time FROM login_links WHERE use_time = 0 AND expire_time > $1 ORDER BY create_time DESC, hash", database.Micros(t.Now))
	return database.Collect(rows, err, func(rows *sql.Rows) (l LoginLink, err error) {
		var expires int64
		err = rows.Scan(&l.Hash, &l.Person, &expires)
		l.Expire = database.FromMicros(expires)
		return l, err
	})
}

// UseLoginLink uses a link up and returns whose it is. database.ErrNotFound for one that is unknown, used or expired.
func (t Tx) UseLoginLink(ctx context.Context, hash string) (person []byte, err error) {
	err = t.QueryRowContext(ctx, "UPDATE login_links SET use_time = $1 WHERE hash = $2 AND use_time = 0 AND expire_time > $1 RETURNING person", database.Micros(t.Now), hash).Scan(&person)
	if err != nil {
		return nil, fmt.Errorf("use login link: %w", database.NotFound(err))
	}
	return person, nil
}

// Exchange notes that a foreign token was exchanged; false: it was so before.
func (t Tx) Exchange(ctx context.Context, hash string, expire time.Time) (first bool, err error) {
	if _, err := t.ExecContext(ctx, "DELETE FROM exchanged WHERE expire_time <= $1", database.Micros(t.Now)); err != nil {
		return false, fmt.Errorf("trim exchanged tokens: %w", err)
	}
	res, err := t.ExecContext(ctx, "INSERT INTO exchanged (hash, expire_time) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING", hash, database.Micros(expire))
	if err != nil {
		return false, fmt.Errorf("insert exchanged token: %w", err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
