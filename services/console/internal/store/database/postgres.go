package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"fairlead.dev/platform/retry"
)

const (
	channel = "fairlead_catalog"
	// auditLock is the number of an advisory lock: a table lock would keep autovacuum away.
	auditLock = 0x66616972
	// eventLock is the one of events.
	eventLock = 0x66616973
	// deploymentLock is the one of deployments and what clusters say of them.
	deploymentLock = 0x66616974
	// viewLock is the one of views.
	viewLock = 0x66616975
	// connectTimeout bounds one attempt to reach the database.
	connectTimeout = 5 * time.Second
	// connMaxIdle lets connections go that a busy moment opened.
	connMaxIdle = 5 * time.Minute
	// serverPatience has the server end the session of a console that it hears nothing of: 15 s of silence and three
	// probes, or bytes that nobody acknowledges. Until then such a session keeps its locks, and all consoles wait for
	// that of the catalog; the server's own default is more than two hours. A transaction in which a process that
	// stands still waits ends, too: opTimeout ends those of one that works.
	serverPatience = "SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '30s'; " +
		"SET idle_in_transaction_session_timeout = '30s'"
	// Probes of the console's own, for connections on which it only listens.
	silentIdle, silentInterval, silentProbes = 15 * time.Second, 5 * time.Second, 3
	// relistenMin and relistenMax bound the wait before LISTEN is tried again.
	relistenMin, relistenMax = 200 * time.Millisecond, 10 * time.Second
)

func (d *DB) usePostgres(urls func() []string) error {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silentIdle, Interval: silentInterval, Count: silentProbes}}
	l := &logins{urls: urls, prepare: func(cfg *pgx.ConnConfig) {
		cfg.ConnectTimeout = connectTimeout
		cfg.RuntimeParams["application_name"] = "fairlead-console"
		// Each statement is planned for what it is about. A plan that was kept from when the tables were
		// small looks at every service for each list of names, until the server's next ANALYZE.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		cfg.DialFunc = dialer.DialContext
	}}
	for _, url := range urls() {
		if _, err := l.config(url); err != nil {
			return err
		}
	}
	// Not startup parameters: a pooler in between refuses those that it does not know.
	l.options = append(l.options, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, serverPatience).ReadAll()
		return err
	}))
	d.write = sql.OpenDB(l)
	d.write.SetMaxOpenConns(maxConns)
	d.write.SetMaxIdleConns(maxConns) // a session costs the server more than a query
	d.write.SetConnMaxIdleTime(connMaxIdle)
	d.read = d.write
	d.Dialect = Dialect{
		goose:  goose.DialectPostgres,
		folder: "postgres",
		kind:   "postgresql",
		about:  "SELECT current_setting('server_version'), pg_database_size(current_database())",
		// The lock on this row is released after the commit became visible, so that the next
		// writer's number is higher and its commit later. Sequences don't give that.
		LockLog:    "SELECT seq FROM log FOR UPDATE",
		Notify:     "SELECT pg_notify('" + channel + "', '')",
		LockAudit:  fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", auditLock),
		LockEvents: fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", eventLock),
		LockViews:  fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", viewLock),
		LockBegun:  fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", deploymentLock),
		LockSteps:  fmt.Sprintf("SELECT pg_advisory_xact_lock_shared(%d)", deploymentLock),
		check:      checkPostgres,
		listen:     func(ctx context.Context, wake func()) error { return listenPostgres(ctx, l, wake) },
		InsertRows: 100, // each statement is a round trip
		numbered:   true,
		Arrays:     true,
		tables:     "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name",
		Clear:      postgresClear,
		OwnNumbers: "OVERRIDING SYSTEM VALUE",
		alone:      postgresAlone,
		Numbers: []string{
			"SELECT setval(pg_get_serial_sequence('events', 'seq'), (SELECT MAX(n) FROM (SELECT COALESCE(MAX(seq), 0) AS n FROM events UNION ALL SELECT seq FROM events_gone) ends) + 1, false)",
			"SELECT setval(pg_get_serial_sequence('audit', 'seq'), (SELECT COALESCE(MAX(seq), 0) FROM audit) + 1, false)",
		},
		unhurried:   "SET LOCAL idle_in_transaction_session_timeout = 0",
		Now:         "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT)",
		unavailable: postgresUnavailable,
		full:        postgresFull,
	}
	return nil
}

// checkPostgres refuses a server that acknowledges a commit before it is durable.
func checkPostgres(ctx context.Context, db *sql.DB) error {
	for _, setting := range []string{"synchronous_commit", "fsync"} {
		var value string
		if err := db.QueryRowContext(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			return err
		}
		if value == "off" {
			return fmt.Errorf("PostgreSQL has %s = off: a write that was acknowledged could be lost. Set it to on", setting)
		}
	}
	return nil
}

func newMigrationLock() (lock.SessionLocker, error) {
	// Another console migrates: look every second, for as long as a large migration may take.
	return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600))
}

// listenPostgres waits for notifications, on a connection of its own, and dials again when it is lost.
func listenPostgres(ctx context.Context, l *logins, wake func()) error {
	wait := relistenMin
	for ctx.Err() == nil {
		start := time.Now()
		// The error is not logged: whoever reads the catalog meets the same one and says so.
		_ = listenOnce(ctx, l, wake)
		if time.Since(start) > relistenMax {
			wait = relistenMin
		}
		retry.Sleep(ctx, retry.Between(0, wait))
		wait = min(2*wait, relistenMax)
	}
	return nil
}

func listenOnce(ctx context.Context, l *logins, wake func()) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = conn.Close(ctx) // nothing to lose
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	wake() // for what happened before
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("wait for notification: %w", err)
		}
		wake()
	}
}

func postgresFull(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "53100"
}

func postgresUnavailable(err error) bool {
	var netErr net.Error
	var connErr *pgconn.ConnectError
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.As(err, &connErr) || errors.As(err, &netErr) {
		return true
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		// 08 connection, 25006 read-only (a standby), 40 rolled back, 53 resources, 57 stopped by
		// an operator, 58 system.
		for _, class := range []string{"08", "25006", "40", "53", "57", "58"} {
			if strings.HasPrefix(pgErr.Code, class) {
				return true
			}
		}
		return false
	}
	// A connection that broke in the middle: pgx has no type for it, but knows that it is closed.
	return strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "unexpected EOF")
}

// Awaits says whether an error is one that ends by itself, so that a start may wait for it: the database is not there
// yet, or not for now. A server that refuses the login, or does not have the database, needs a person.
func (d *DB) Awaits(err error) bool {
	if !d.Shared() || !errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) {
		return false
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || !strings.HasPrefix(refused.Code, "28") && !strings.HasPrefix(refused.Code, "3D")
}

// postgresClear empties tables, also those that keep their rows. The lock that it takes keeps everybody else out.
func postgresClear(ctx context.Context, tx Tx, tables []string) error {
	var stmts []string
	for _, table := range tables {
		stmts = append(stmts, "ALTER TABLE "+table+" DISABLE TRIGGER USER")
	}
	stmts = append(stmts, "TRUNCATE "+strings.Join(tables, ", "))
	for _, table := range tables {
		stmts = append(stmts, "ALTER TABLE "+table+" ENABLE TRIGGER USER")
	}
	for _, stmt := range stmts {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

const (
	// leaveTime is how long a console that has ended may seem to be connected: its backends live on for a moment.
	leaveTime  = 5 * time.Second
	leavePause = 50 * time.Millisecond
)

// postgresAlone is an error when a console is connected.
func postgresAlone(ctx context.Context, db *sql.DB) error {
	for until := time.Now().Add(leaveTime); ; {
		var others int
		err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'fairlead-console' AND pid <> pg_backend_pid()").Scan(&others)
		switch {
		case err != nil || others == 0:
			return err
		case time.Now().After(until):
			return ErrInUse
		}
		if !retry.Sleep(ctx, leavePause) {
			return ctx.Err()
		}
	}
}
