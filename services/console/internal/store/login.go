package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"fairlead.dev/platform/flags"
)

// mostURLs bounds the URLs in a file: the one that is used and the one that comes next, with room.
const mostURLs = 4

// urlsOf returns the URLs in a file, one a line: what readURLs gives, or while that fails what it gave before.
func urlsOf(path string) (func() []string, error) {
	var mu sync.Mutex
	good, err := readURLs(path)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		if now, err := readURLs(path); err == nil {
			good = now
		}
		return good
	}, err
}

// readURLs reads a file with URLs of one database, one a line.
func readURLs(path string) ([]string, error) {
	text, err := flags.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	var urls []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			urls = append(urls, line)
		}
	}
	if len(urls) > mostURLs {
		return nil, fmt.Errorf("%s has %d lines: at most %d URLs of the database are possible, one a line", path, len(urls), mostURLs)
	}
	for _, url := range urls {
		if len(urls) > 1 && !isPostgres(url) {
			return nil, fmt.Errorf("%s has several lines: each must be a URL that begins with postgres://", path)
		}
	}
	return urls, nil
}

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// logins connects with the URLs as they are at that moment, the first of them that the server takes the user and password of. So a
// password is changed without a stop: the file has the URL with the new one, too, before the server does.
type logins struct {
	urls    func() []string
	prepare func(*pgx.ConnConfig)
	options []stdlib.OptionOpenDB
}

// Connect implements driver.Connector.
func (l *logins) Connect(ctx context.Context) (conn driver.Conn, err error) {
	err = l.try(func(cfg *pgx.ConnConfig) (err error) {
		conn, err = stdlib.GetConnector(*cfg, l.options...).Connect(ctx)
		return err
	})
	return conn, err
}

// Driver implements driver.Connector.
func (l *logins) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// dial connects apart from the pool.
func (l *logins) dial(ctx context.Context) (conn *pgx.Conn, err error) {
	err = l.try(func(cfg *pgx.ConnConfig) (err error) {
		conn, err = pgx.ConnectConfig(ctx, cfg)
		return err
	})
	return conn, err
}

func (l *logins) try(connect func(*pgx.ConnConfig) error) error {
	var refused error
	for _, url := range l.urls() {
		cfg, err := l.config(url)
		if err == nil {
			err = connect(cfg)
			if err == nil || !refusesLogin(err) {
				return err
			}
		}
		if refused == nil {
			refused = err // of the first: that is the one which should do
		}
	}
	return refused
}

func (l *logins) config(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// pgx puts the URL in its error, and that may hold the password.
		return nil, errors.New("database URL: not a valid PostgreSQL URL, such as postgres://user:password@host:5432/fairlead")
	}
	l.prepare(cfg)
	return cfg, nil
}

// refusesLogin says whether the server knows no such user or password.
func refusesLogin(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(pgErr.Code, "28")
}
