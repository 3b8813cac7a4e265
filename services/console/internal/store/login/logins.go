package login

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/services/console/internal/store/database"
)

// Login is how a person is known from one place: a session in a browser, or a token with what it was renewed to.
type Login struct {
	// ID is that of its tokens.
	ID      string
	Subject string
	// Client is what it is used by.
	Client string
	// Action is that of its beginning in the audit trail; empty: it began before logins were kept.
	Action string
	// Parent is the token that a session was begun with; empty: this is no session.
	Parent string
	// Program is what the program that logged in calls itself.
	Program      string
	BeginTime    time.Time
	BeginAddress string
	// UseTime is zero before the first use.
	UseTime    time.Time
	UseAddress string
	// ExpireTime is that of its newest token.
	ExpireTime time.Time
}

// LoginPlace is a place in a list of logins, the newest first. The zero value is before the first one.
type LoginPlace struct {
	BeginTime time.Time
	ID        string
}

// LoginsKept is how long a login is kept beyond the end that the database knows. A console that renews a login writes
// the new end down within minutes.
const LoginsKept = 5 * time.Minute

const loginColumns = "id, subject, client, action, parent, program, begin_time, begin_address, use_time, use_address, expire_time"

func scanLogin(row database.Row) (l Login, err error) {
	var began, used, expires int64
	err = row.Scan(&l.ID, &l.Subject, &l.Client, &l.Action, &l.Parent, &l.Program, &began, &l.BeginAddress, &used, &l.UseAddress, &expires)
	l.BeginTime, l.UseTime, l.ExpireTime = database.FromMicros(began), database.FromMicros(used), database.FromMicros(expires)
	return l, database.NotFound(err)
}

// Login returns a login by its id, or database.ErrNotFound.
func (v View) Login(ctx context.Context, id string) (Login, error) {
	if strings.ContainsRune(id, 0) || !utf8.ValidString(id) { // no id is like this, and PostgreSQL takes no such text
		return Login{}, database.ErrNotFound
	}
	return scanLogin(v.QueryRowContext(ctx, "SELECT "+loginColumns+" FROM logins WHERE id = $1", id))
}

// Logins returns up to limit logins of a subject that have not expired, the newest first, from a place on.
func (v View) Logins(ctx context.Context, subject string, now time.Time, after LoginPlace, limit int) ([]Login, error) {
	before := int64(math.MaxInt64)
	if !after.BeginTime.IsZero() {
		before = database.Micros(after.BeginTime)
	}
	rows, err := v.QueryContext(ctx, "SELECT "+loginColumns+" FROM logins WHERE subject = $1 AND expire_time > $2 AND (begin_time < $3 OR begin_time = $3 AND id > $4)"+
		" ORDER BY begin_time DESC, id LIMIT $5", subject, database.Micros(now), before, after.ID, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (Login, error) { return scanLogin(rows) })
}

// AddLogin keeps a login, and forgets those that have expired.
func (t Tx) AddLogin(ctx context.Context, l Login) error {
	if _, err := t.ExecContext(ctx, "DELETE FROM logins WHERE expire_time <= $1", database.Micros(t.Now.Add(-LoginsKept))); err != nil {
		return fmt.Errorf("trim logins: %w", err)
	}
	return t.NoteLogins(ctx, []Login{l})
}

// NoteLogins notes when and from where logins were used, and until when their tokens are good. A login that is not
// known yet is kept as it is. No two of a list have the same id.
func (t Tx) NoteLogins(ctx context.Context, list []Login) error {
	if len(list) == 0 {
		return nil
	}
	var rows []string
	var values []any
	for _, l := range list {
		row := []any{
			l.ID, l.Subject, l.Client, l.Action, l.Parent, l.Program, database.Micros(l.BeginTime), l.BeginAddress,
			database.Micros(l.UseTime), l.UseAddress, database.Micros(l.ExpireTime),
		}
		places := make([]string, len(row))
		for i := range row {
			places[i] = "$" + strconv.Itoa(len(values)+i+1)
		}
		rows, values = append(rows, "("+strings.Join(places, ", ")+")"), append(values, row...)
	}
	_, err := t.ExecContext(ctx, "INSERT INTO logins ("+loginColumns+") VALUES "+strings.Join(rows, ", ")+
		" ON CONFLICT (id) DO UPDATE SET"+
		" use_address = CASE WHEN excluded.use_time >= logins.use_time AND excluded.use_address <> '' THEN excluded.use_address ELSE logins.use_address END,"+
		" use_time = CASE WHEN excluded.use_time > logins.use_time THEN excluded.use_time ELSE logins.use_time END,"+
		" expire_time = CASE WHEN excluded.expire_time > logins.expire_time THEN excluded.expire_time ELSE logins.expire_time END", values...)
	if err != nil {
		return fmt.Errorf("note logins: %w", err)
	}
	return nil
}

// LoggedIn notes a login, and gives the person's API tokens the groups that it has now.
func (t Tx) LoggedIn(ctx context.Context, name, provider, subject string, groups []string) error {
	if _, err := t.ExecContext(ctx, "INSERT INTO people (name, provider, login_time) VALUES ($1, $2, $3)"+
		" ON CONFLICT (name) DO UPDATE SET provider = excluded.provider, login_time = excluded.login_time", name, provider, database.Micros(t.Now)); err != nil {
		return fmt.Errorf("note login: %w", err)
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return fmt.Errorf("encode groups: %w", err)
	}
	if _, err := t.ExecContext(ctx, "UPDATE api_tokens SET member_of = $1 WHERE subject = $2", string(text), subject); err != nil {
		return fmt.Errorf("note groups: %w", err)
	}
	return nil
}

// AnybodyLoggedIn tells whether any person ever has.
func (v View) AnybodyLoggedIn(ctx context.Context) (bool, error) {
	var name string
	err := v.QueryRowContext(ctx, "SELECT name FROM people LIMIT 1").Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Provider is the issuer of a person's last login; empty: there was none, or it was by a link or the hub secret.
func (v View) Provider(ctx context.Context, name string) (provider string, err error) {
	err = v.QueryRowContext(ctx, "SELECT provider FROM people WHERE name = $1", name).Scan(&provider)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return provider, err
}
