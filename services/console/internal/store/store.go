// Package store keeps the console's durable state in SQL: SQLite in the console's own folder, or
// a PostgreSQL that several consoles share. Specs and statuses are JSON that it doesn't look into.
//
// Callers rely on these, with either database; package storetest tests them:
//
//   - Write is atomic: all of it happened, or nothing. Once it returned nil, it survives kill -9.
//     Writes that wait at the same time share a commit; one that fails takes no other with it.
//   - Writes to the catalog happen one after the other, over all consoles. Each change has a
//     number, without gaps, and whoever sees change n sees every change before n: numbers are
//     given under a lock that is held until the commit, so commits can't overtake each other.
//   - Read sees one moment: what it reads fits together.
//   - The change log names resources and doesn't copy them. Changes returns a resource once, at
//     its last change; an older change of the same resource is passed over.
//   - Statuses (reports, hub truths, signs of life) don't touch the change log nor its lock.
//   - The log is bounded. A follower that resumes at a change that is gone, or that this history never had, gets false
//     from Reaches and begins again with Snapshot.
//   - A missing row is ErrNotFound. A database that doesn't answer is ErrUnavailable.
//   - A cancelled context ends a call; whether its write happened is then unknown to the caller.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/pressly/goose/v3"

	"fairlead.dev/platform/lockfile"
	"fairlead.dev/services/console/internal/pack"
)

var (
	// ErrNotFound is what a lookup without a result returns.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable wraps errors of a database that doesn't answer or can't write now.
	ErrUnavailable = errors.New("the catalog's database does not answer")
	// ErrDiskFull is within ErrUnavailable: the database answers, and takes no writes.
	ErrDiskFull = errors.New("the disk of the catalog's database is full: make room on it")
)

const (
	// opTimeout bounds one transaction: a hung database must not pile up callers.
	opTimeout = 15 * time.Second
	// readAllTimeout bounds one look at the whole catalog: followers give a silent stream up after 45 s.
	readAllTimeout = 40 * time.Second
	// defaultLogLimit is how many changes the log reaches back: hours of a busy catalog,
	// under 20 MB. A follower that was away for longer begins with a snapshot.
	defaultLogLimit = 100_000
	// maxRevisions is how many revisions of one resource are kept.
	maxRevisions = 1000
	// maxConns bounds the connections of one console to its database.
	maxConns = 16
)

//go:embed migrations
var migrations embed.FS

// Options are for New.
type Options struct {
	// LogLimit is the number of changes that are kept; 0: 100,000.
	LogLimit int64
	// MembersBytes is how many bytes events of many services may take with what is said of each: the oldest events go;
	// 0: 256 MiB.
	MembersBytes int64
	// AuditBytes is about how many bytes the audit trail may take; 0: no bound. AuditTrimmed makes the event which says
	// that so many of the oldest went therefore.
	AuditBytes   int64
	AuditTrimmed func(now time.Time, dropped int64) AuditEvent
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log is told of a file with the URL that can't be used as it is; nil: nobody is.
	Log *slog.Logger
}

// Store is the state in one database.
type Store struct {
	dialect  dialect
	write    *sql.DB // SQLite: one connection
	read     *sql.DB
	now      func() time.Time
	logLimit int64

	membersBytes int64
	auditBytes   int64
	auditTrimmed func(time.Time, int64) AuditEvent

	touched func(Touched)                    // nil: nobody wants to know
	told    func()                           // nil: nobody wants to know
	healthy func(d Deployment, trace string) // nil: nobody wants to know
	gather  func([]Event) []Event            // nil: events are kept as they come
	lock    *lockfile.Lock                   // nil: there is none, or Use was not called
	written atomic.Int64                     // number of the last change that was committed here

	lastWrite   atomic.Pointer[Written] // nil: there was none
	writeFailed atomic.Pointer[Failed]  // nil: the last write did not fail for want of room

	statusRows atomic.Int64 // the result of StatusRows; 0: no status was written yet

	writers sync.WaitGroup // the goroutine that runs writes, while there are any

	// lane is held by the one transaction of statuses that may wait for the only connection for writes; nil: there are
	// several. So a person's write waits for one of them at most, however many there are.
	lane chan struct{}

	mu      sync.Mutex // guards what follows
	wake    func()
	queue   []*write // that nobody has begun
	writing bool     // whether somebody works on the queue
}

// dialect is where the two databases differ.
type dialect struct {
	goose   goose.Dialect
	folder  string
	lockLog string // reads the log's row and keeps it until the commit
	notify  string // tells other consoles of the commit; empty: there are none
	// lockAudit keeps other consoles from adding audit events until the commit; empty: there are none.
	lockAudit string
	// lockEvents is the same for events.
	lockEvents string
	// lockViews is the same for views.
	lockViews string
	// lockBegun is for deployments that begin, lockSteps for what clusters say of deployments: one of two that come at
	// the same time sees what the other wrote.
	lockBegun, lockSteps string

	check  func(context.Context, *sql.DB) error
	listen func(ctx context.Context, wake func()) error
	// tables lists the names of all tables, in order; clear empties tables; numbers sets what numbers rows behind the
	// last one.
	tables  string
	clear   func(context.Context, *sql.Tx, []string) error
	numbers []string
	// ownNumbers lets an insert say the number of a row.
	ownNumbers string
	// lockFile is locked by the one process that may use the database; empty: several may.
	lockFile string
	// makeFile makes the file of such a database if it is missing.
	makeFile func() error
	// alone is an error while a console uses the database; nil: the lock tells.
	alone func(context.Context, *sql.DB) error
	// unhurried lets a transaction wait for as long as it likes between two statements; empty: all may.
	unhurried string
	// now is the database's time in microseconds: clocks of consoles differ.
	now string
	// insertRows is how many rows one statement inserts.
	insertRows int
	// packs says that the JSON of states is written packed, and packed finds that out of a database, which may have no
	// tables yet; nil: it never is.
	packs  bool
	packed func(ctx context.Context, db *sql.DB, isNew bool) (bool, error)
	// arrays says that one statement takes the rows of many services: each statement is a round trip.
	arrays bool
	// kind is what people call the database, and about reads its version and how many bytes it takes.
	kind, about string
	// numbered says that placeholders in lists have numbers.
	numbered bool
	// unavailable says whether an error is about the database as a whole.
	unavailable func(error) bool
	// full says whether an error is that the disk is.
	full func(error) bool
}

// lock runs the statement of a lock that ends with the transaction; empty: none is needed.
func (d *dialect) lock(ctx context.Context, tx *sql.Tx, statement string) error {
	if statement == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// text is the JSON of a state as it is written.
func (d *dialect) text(json []byte) any {
	if d.packs {
		return pack.Pack(json)
	}
	return string(json)
}

// short is a digest or an id as it is written. One database has all of them packed or none: they are compared there.
func (d *dialect) short(text string) any {
	if d.packs && text != "" {
		return pack.Short(text)
	}
	return text
}

// unpackInto reads the JSON of a state, a digest or an id, packed or not.
func unpackInto[T string | []byte](text *T) unpacking[T] { return unpacking[T]{text} }

type unpacking[T string | []byte] struct{ text *T }

// Scan implements sql.Scanner.
func (u unpacking[T]) Scan(value any) error {
	switch value := value.(type) {
	case nil:
		var none T
		*u.text = none
	case string:
		*u.text = T(value)
	case []byte:
		text, err := pack.Unpack(value)
		if err != nil {
			return err
		}
		*u.text = T(text)
	default:
		return fmt.Errorf("read a packed text: it is a %T", value)
	}
	return nil
}

// New prepares a store for a database URL: sqlite:<file> or postgres://... New connects to nothing.
func New(url string, opts Options) (*Store, error) {
	return open(func() []string { return []string{url} }, opts)
}

// Open is New with the URL in a file. For PostgreSQL the file may have several of one database, one a line, and is read
// again for each connection.
func Open(path string, opts Options) (*Store, error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	urls, err := urlsOf(path, log)
	if err != nil {
		return nil, err
	}
	return open(urls, opts)
}

func open(urls func() []string, opts Options) (*Store, error) {
	s := &Store{
		now: opts.Now, logLimit: opts.LogLimit, membersBytes: opts.MembersBytes,
		auditBytes: opts.AuditBytes, auditTrimmed: opts.AuditTrimmed,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.membersBytes == 0 {
		s.membersBytes = defaultMembersBytes
	}
	if s.logLimit == 0 {
		s.logLimit = defaultLogLimit
	}
	var err error
	switch url := urls()[0]; {
	case strings.HasPrefix(url, "sqlite:"):
		err = s.useSQLite(strings.TrimPrefix(url, "sqlite:"))
	case isPostgres(url):
		err = s.usePostgres(urls)
	default:
		// The URL may hold a password: it is not repeated.
		err = errors.New("database URL must begin with sqlite: or postgres://")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Use keeps others from a database that only one process may use, until Close. ErrInUse: another one does.
func (s *Store) Use() error {
	if s.dialect.lockFile == "" {
		return nil
	}
	lock, err := lockfile.Try(s.dialect.lockFile)
	if errors.Is(err, lockfile.ErrHeld) {
		return ErrInUse
	}
	if err != nil {
		return err
	}
	s.lock = lock
	return s.dialect.makeFile()
}

// Migrate brings the schema up to date, and ends a restore. Call it before anything else but Use; several consoles may
// do so at once.
func (s *Store) Migrate(ctx context.Context) error {
	if s.dialect.check != nil {
		if err := s.dialect.check(ctx, s.write); err != nil {
			return fmt.Errorf("open database: %w", s.classify(err))
		}
	}
	files, err := fs.Sub(migrations, "migrations/"+s.dialect.folder)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if s.dialect.packed != nil {
		tables, err := View{s.write, &s.dialect}.tables(ctx)
		if err == nil {
			s.dialect.packs, err = s.dialect.packed(ctx, s.write, len(tables) == 0)
		}
		if err != nil {
			return fmt.Errorf("open database: %w", s.classify(err))
		}
	}
	if err := s.migrate(ctx, files); err != nil {
		return err
	}
	return s.endRestore(ctx)
}

func (s *Store) migrate(ctx context.Context, files fs.FS) error {
	// Out of order: of two that were written at the same time the one with the lower number may come later.
	opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithAllowOutofOrder(true)}
	if s.dialect.goose == goose.DialectPostgres {
		locker, err := newMigrationLock()
		if err != nil {
			return fmt.Errorf("prepare migration lock: %w", err)
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(s.dialect.goose, s.write, files, opts...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", s.classify(err))
	}
	return nil
}

// Close ends all connections, once the writes that run have ended.
func (s *Store) Close() error {
	s.writers.Wait()
	err := errors.Join(s.read.Close(), s.write.Close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.Release())
	}
	return err
}

// Ping is nil when the database answers a query.
func (s *Store) Ping(ctx context.Context) error {
	var seq int64
	if err := s.read.QueryRowContext(ctx, "SELECT seq FROM log").Scan(&seq); err != nil {
		return fmt.Errorf("read database: %w", s.classify(err))
	}
	return nil
}

// Written is a write that was committed.
type Written struct {
	Time time.Time
	// Took is from the begin of the transaction to the end of its commit.
	Took time.Duration
}

// About is what is known of the database itself.
type About struct {
	// Kind is sqlite or postgresql.
	Kind    string
	Version string
	Bytes   int64
	// LastWrite is the last one of this console; zero: there was none.
	LastWrite Written
	// WriteFailed says that writes fail with a database that answers reads; Problem is nil: they do not.
	WriteFailed Failed
}

// Failed is why writes fail, and since when.
type Failed struct {
	Since   time.Time
	Problem error
}

// About returns what is known of the database. Kind and LastWrite are known with the database away, too.
func (s *Store) About(ctx context.Context) (About, error) {
	out := About{Kind: s.dialect.kind}
	if last := s.lastWrite.Load(); last != nil {
		out.LastWrite = *last
	}
	if failed := s.writeFailed.Load(); failed != nil {
		out.WriteFailed = *failed
	}
	if err := s.read.QueryRowContext(ctx, s.dialect.about).Scan(&out.Version, &out.Bytes); err != nil {
		return out, fmt.Errorf("read size of database: %w", s.classify(err))
	}
	return out, nil
}

// Databases are the pools, for metrics.
func (s *Store) Databases() map[string]*sql.DB {
	if s.read == s.write {
		return map[string]*sql.DB{"catalog": s.write}
	}
	return map[string]*sql.DB{"catalog": s.write, "catalog_read": s.read}
}

// Listen calls wake after each change of the catalog, by this console or another one, until ctx
// ends. Listen may call wake without cause, and may miss a change while the connection to the database is lost: look by
// yourself now and then. wake must not block.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	s.setWake(wake)
	defer s.setWake(nil)
	if s.dialect.listen == nil {
		<-ctx.Done()
		return nil
	}
	return s.dialect.listen(ctx, wake)
}

func (s *Store) setWake(wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
}

func (s *Store) changed() {
	s.mu.Lock()
	wake := s.wake
	s.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// View reads at one moment.
type View struct {
	q       querier
	dialect *dialect
}

type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// Read calls fn with a view on one moment.
func (s *Store) Read(ctx context.Context, fn func(context.Context, View) error) error {
	return s.readFor(ctx, opTimeout, fn)
}

// ReadAll is Read for a look at everything, which takes a large catalog a while.
func (s *Store) ReadAll(ctx context.Context, fn func(context.Context, View) error) error {
	return s.readFor(ctx, readAllTimeout, fn)
}

func (s *Store) readFor(ctx context.Context, limit time.Duration, fn func(context.Context, View) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin read: %w", s.classify(err))
	}
	defer func() { _ = tx.Rollback() }() // nothing to keep; also ends what a panic left open
	return s.classify(ended(ctx, fn(ctx, View{reading{tx}, &s.dialect})))
}

// reading is a transaction that reads, by what callers ask for. PostgreSQL takes no text with a NUL, or that is no
// UTF-8, which no row has: with other characters in their place nothing is found, as in SQLite.
type reading struct{ tx *sql.Tx }

// QueryContext implements querier.
func (r reading) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.tx.QueryContext(ctx, query, readable(args)...)
}

// QueryRowContext implements querier.
func (r reading) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.tx.QueryRowContext(ctx, query, readable(args)...)
}

// readable returns the arguments of a query with texts that any database takes.
func readable(args []any) []any {
	for i, arg := range args {
		text, ok := arg.(string)
		if !ok || utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
			continue
		}
		args = slices.Clone(args)
		args[i] = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	}
	return args
}

// Tx is a write to the catalog: nobody else writes to it until it ends.
type Tx struct {
	View
	tx      *sql.Tx
	store   *Store
	author  string
	now     time.Time
	seq     int64
	changed bool
	events  []AuditEvent // of the write that runs, for the audit trail
	telling []Event      // of the write that runs
	touched Touched
	healthy []became
	// reconfigured are the services that get another configuration by this write.
	reconfigured []Reconfigured
}

// Reconfigured is a service that gets another configuration.
type Reconfigured struct {
	Service Resource
	// Entries that come, go, or have another value, as far as they can be told.
	Entries []string
	// Problem is why the service keeps the values that it has; empty: it gets the new ones.
	Problem string
}

// Reconfigure notes services that get another configuration by this write.
func (t *Tx) Reconfigure(list ...Reconfigured) { t.reconfigured = append(t.reconfigured, list...) }

// Reconfigured are the services that get another configuration by this write.
func (t *Tx) Reconfigured() []Reconfigured { return t.reconfigured }

// transact runs fn in a transaction on the writer.
func (s *Store) transact(ctx context.Context, fn func(context.Context, *sql.Tx) error) (err error) {
	defer func() {
		if errors.Is(err, ErrDiskFull) {
			s.writeFailed.CompareAndSwap(nil, &Failed{Since: s.clock(), Problem: ErrDiskFull})
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin write: %w", s.classify(ended(ctx, err)))
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(ctx, tx); err != nil {
		return s.classify(ended(ctx, err))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", s.classify(ended(ctx, err)))
	}
	s.writeFailed.Store(nil)
	return nil
}

// closedStatement is what database/sql says of a prepared statement whose transaction is done; there is no value for
// it.
const closedStatement = "sql: statement is closed"

// ended returns why the context of a transaction ended instead of what the transaction says of it: a transaction is
// rolled back at that moment, and a statement or a commit behind it says that the transaction is done. Any other error
// stays.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil || err == nil {
		return err
	}
	done := errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled) || strings.Contains(err.Error(), closedStatement)
	switch {
	case !done:
		return err
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded): // of a group, too, which is canceled
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// enterLane waits for the turn of a transaction of statuses, which ends with leave.
func (s *Store) enterLane(ctx context.Context) (leave func(), err error) {
	if s.lane == nil {
		return func() {}, nil
	}
	select {
	case s.lane <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("begin write: %w", s.classify(ctx.Err()))
	}
	leave = func() { <-s.lane }
	if err := ctx.Err(); err != nil { // the caller waits no more
		leave()
		return nil, fmt.Errorf("begin write: %w", s.classify(err))
	}
	return leave, nil
}

// classify marks errors that are about the database as a whole.
func (s *Store) classify(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || errors.Is(err, context.Canceled) {
		return err
	}
	if s.dialect.full(err) {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrDiskFull, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || s.dialect.unavailable(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// clock is now in the precision that is stored.
func (s *Store) clock() time.Time {
	return s.now().UTC().Truncate(time.Microsecond)
}

// Micros is a time as it is stored; 0: none.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the time of Micros.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// uidText writes bytes in the order of their values.
var uidText = base32.HexEncoding.WithPadding(base32.NoPadding) //nolint:gochecknoglobals // a constant in all but name

// newUID is a name of a resource: when it was created, how many were created before in the same write, and 80 random
// bits. Uids of what was created together are neighbours, so that a cluster's services stand on few pages of an index
// and not on one each: with random ones each status of a fleet that comes at once wrote a page of its own.
func newUID(created time.Time, nth int) string {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:8], uint64(created.UnixMicro()+int64(nth))) // after 1970
	_, _ = rand.Read(b[8:])                                                   // never fails
	return strings.ToLower(uidText.EncodeToString(b[:]))
}

// newID is a random name of 130 bits.
func newID() string {
	return strings.ToLower(rand.Text())
}

// Shared says whether other consoles may use the same database.
func (s *Store) Shared() bool { return s.dialect.listen != nil }
