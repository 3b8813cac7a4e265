package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"fairlead.dev/platform/flags"
)

// mostURLs bounds the URLs in a file: the one that is used and the one that comes next, with room.
const mostURLs = 4

// urlsOf returns the URLs in a file, one a line: what readURLs gives, or while that fails what it gave before. Content
// that names another database than at first is not used either: some connections, and some consoles, would read there
// while others still write here.
func urlsOf(path string, log *slog.Logger) (func() []string, error) {
	good, err := readURLs(path)
	if err != nil {
		return nil, err
	}
	database, err := databaseOf(good)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var (
		mu      sync.Mutex // guards good and refused
		refused []string   // URLs that were reported already
	)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		now, err := readURLs(path)
		if err != nil || slices.Equal(now, good) {
			return good
		}
		other, err := databaseOf(now)
		if err == nil && other == database {
			good, refused = now, nil
			return good
		}
		if !slices.Equal(now, refused) {
			refused = now
			log.Error("the new content of the file with the database URL is not used: it names another database, which takes a restart of all consoles", "file", path, "err", err)
		}
		return good
	}, nil
}

// databaseOf is where the URLs lead, without users and passwords. All of them lead to the same database.
func databaseOf(urls []string) (database string, err error) {
	for i, url := range urls {
		of := url
		if isPostgres(url) {
			cfg, err := pgx.ParseConfig(url)
			if err != nil {
				return "", errBadURL()
			}
			hosts := []string{net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))}
			for _, f := range cfg.Fallbacks {
				hosts = append(hosts, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
			}
			of = strings.Join(slices.Compact(hosts), ",") + "/" + cfg.Database
		}
		if i > 0 && of != database {
			return "", errors.New("its lines name different databases: host, port and database must be the same in all of them")
		}
		database = of
	}
	return database, nil
}

// errBadURL repeats nothing of the URL, as pgx does in its error: it may hold the password.
func errBadURL() error {
	return errors.New("database URL: not a valid PostgreSQL URL, such as postgres://user:password@host:5432/fairlead")
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

// logins connects with the URLs as they are at that moment, the first of them that the server takes the user and
// password of. So a password is changed without a stop: the file has the URL with the new one, too, before the server
// does.
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
		return nil, errBadURL()
	}
	l.prepare(cfg)
	return cfg, nil
}

// refusesLogin says whether the server knows no such user or password.
func refusesLogin(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(pgErr.Code, "28")
}
