// Package store keeps the console's durable state in SQL: the catalog with its change log here, in a database of package
// database, and what stands apart from it in rooms beside this one. Specs and statuses are JSON that the store doesn't
// look into.
//
// Callers rely on these, with either database, and on those of package database; package storetest tests them:
//
//   - Write is atomic: all of it happened, or nothing. Once it returned nil, it survives kill -9.
//     Writes that wait at the same time share a commit; one that fails takes no other with it.
//   - Writes to the catalog happen one after the other, over all consoles. Each change has a
//     number, without gaps, and whoever sees change n sees every change before n: numbers are
//     given under a lock that is held until the commit, so commits can't overtake each other.
//   - The change log names resources and doesn't copy them. Changes returns a resource once, at
//     its last change; an older change of the same resource is passed over.
//   - Statuses (reports, hub truths, signs of life) don't touch the change log nor its lock.
//   - The log is bounded. A follower that resumes at a change that is gone, or that this history never had, gets false
//     from Reaches and begins again with Snapshot.
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/database"
)

// The errors of any call.
var (
	ErrNotFound    = database.ErrNotFound
	ErrUnavailable = database.ErrUnavailable
	ErrDiskFull    = database.ErrDiskFull
)

const (
	// readAllTimeout bounds one look at the whole catalog: followers give a silent stream up after 45 s.
	readAllTimeout = 40 * time.Second
	// defaultLogLimit is how many changes the log reaches back: hours of a busy catalog,
	// under 20 MB. A follower that was away for longer begins with a snapshot.
	defaultLogLimit = 100_000
	// maxRevisions is how many revisions of one resource are kept.
	maxRevisions = 1000
)

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
	AuditTrimmed func(now time.Time, dropped int64) audittrail.Event
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log is told of a file with the URL that can't be used as it is; nil: nobody is.
	Log *slog.Logger
}

// Store is the state in one database.
type Store struct {
	*database.DB
	shownStore
	trailStore
	recordingsStore
	now      func() time.Time
	logLimit int64

	membersBytes int64

	touched func(Touched)                    // nil: nobody wants to know
	told    func()                           // nil: nobody wants to know
	healthy func(d Deployment, trace string) // nil: nobody wants to know
	gather  func([]Event) []Event            // nil: events are kept as they come
	written atomic.Int64                     // number of the last change that was committed here

	statusRows atomic.Int64 // the result of StatusRows; 0: no status was written yet

	writers sync.WaitGroup // the goroutine that runs writes, while there are any

	mu      sync.Mutex // guards what follows
	wake    func()
	queue   []*write // that nobody has begun
	writing bool     // whether somebody works on the queue
}

// New prepares a store for a database URL, as database.New does.
func New(url string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	db, err := database.New(url, opts.Now)
	if err != nil {
		return nil, err
	}
	return newStore(db, opts), nil
}

// Open is New with the URL in a file, as database.Open reads it.
func Open(path string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	db, err := database.Open(path, opts.Now, opts.Log)
	if err != nil {
		return nil, err
	}
	return newStore(db, opts), nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.MembersBytes = cmp.Or(o.MembersBytes, defaultMembersBytes)
	o.LogLimit = cmp.Or(o.LogLimit, defaultLogLimit)
	return o
}

func newStore(db *database.DB, opts Options) *Store {
	return &Store{
		DB: db, shownStore: shownStore{DB: db}, recordingsStore: recordingsStore{DB: db},
		trailStore: audittrail.New(db, opts.AuditBytes, opts.AuditTrimmed),
		now:        opts.Now, logLimit: opts.LogLimit, membersBytes: opts.MembersBytes,
	}
}

// Migrate brings the schema up to date, and ends a restore. Call it before anything else but Use; several consoles may
// do so at once.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.DB.Migrate(ctx); err != nil {
		return err
	}
	return s.endRestore(ctx)
}

// RestoredTable is there from when a backup is loaded until all of the restore has happened.
const RestoredTable = "restored"

// Restored is what is left to do once the schema of a backup is that of this release.
type Restored struct {
	// Reason is why removals are held from then on.
	Reason string
	// Audit and Events are added to what was restored.
	Audit  audittrail.Event
	Events []Event
}

// Note has the next Migrate do what is left to do.
func (r Restored) Note(ctx context.Context, tx database.Tx) error {
	left, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode what is left to do: %w", err)
	}
	for _, stmt := range []string{"DROP TABLE IF EXISTS " + RestoredTable, "CREATE TABLE " + RestoredTable + " (todo TEXT NOT NULL)"} {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("note what is left to do: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+RestoredTable+" (todo) VALUES ($1)", string(left)); err != nil {
		return fmt.Errorf("note what is left to do: %w", err)
	}
	return nil
}

// endRestore does what a restore left to do, if there was one: also after one that was killed, when a console starts.
func (s *Store) endRestore(ctx context.Context) error {
	return s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		t := s.txOver(tx)
		if err := tx.QueryRowContext(ctx, s.Dialect.LockLog).Scan(&t.seq); err != nil {
			return fmt.Errorf("lock catalog: %w", err)
		}
		tables, err := tx.View().Tables(ctx)
		if err != nil || !slices.Contains(tables, RestoredTable) {
			return err
		}
		var text string
		var left Restored
		if err := tx.QueryRowContext(ctx, "SELECT todo FROM "+RestoredTable).Scan(&text); err != nil {
			return fmt.Errorf("read what is left to do: %w", err)
		}
		if err := json.Unmarshal([]byte(text), &left); err != nil {
			return fmt.Errorf("decode what is left to do: %w", err)
		}
		// Events that were packed in the database that was backed up are plain here, and the other way round.
		for _, stmt := range append(slices.Clone(s.Dialect.Numbers), audittrail.Recount, "DROP TABLE "+RestoredTable) {
			if _, err := tx.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("end restore: %w", err)
			}
		}
		if _, err := t.HoldRemovals(ctx, left.Reason); err != nil {
			return err
		}
		return errors.Join(audittrail.Insert(ctx, tx, []audittrail.Event{left.Audit}), s.insertEvents(ctx, tx, left.Events))
	})
}

// Close ends all connections, once the writes that run have ended.
func (s *Store) Close() error {
	s.writers.Wait()
	return s.DB.Close()
}

// Listen calls wake after each change of the catalog, by this console or another one, until ctx
// ends. Listen may call wake without cause, and may miss a change while the connection to the database is lost: look by
// yourself now and then. wake must not block.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	s.setWake(wake)
	defer s.setWake(nil)
	return s.DB.Listen(ctx, wake)
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

// Read calls fn with a view on one moment.
func (s *Store) Read(ctx context.Context, fn func(context.Context, View) error) error {
	return s.readFor(ctx, database.MaxWrite, fn)
}

// ReadAll is Read for a look at everything, which takes a large catalog a while.
func (s *Store) ReadAll(ctx context.Context, fn func(context.Context, View) error) error {
	return s.readFor(ctx, readAllTimeout, fn)
}

func (s *Store) readFor(ctx context.Context, limit time.Duration, fn func(context.Context, View) error) error {
	return s.DB.Read(ctx, limit, func(ctx context.Context, v database.View) error { return fn(ctx, viewOver(v)) })
}

// Tx is a write to the catalog: nobody else writes to it until it ends.
type Tx struct {
	View
	guardTx
	loginTx
	placesTx
	tx      database.Tx
	store   *Store
	seq     int64
	changed bool
	events  []audittrail.Event // of the write that runs, for the audit trail
	telling []Event            // of the write that runs
	touched Touched
	healthy []became
	// reconfigured are the services that get another configuration by this write.
	reconfigured []Reconfigured
}

// Audit adds events with what else is written: they are there if that is. Events are inserted together at the end of
// the write: a thousand services are a thousand events.
func (t *Tx) Audit(_ context.Context, events ...audittrail.Event) error {
	t.events = append(t.events, events...)
	return nil
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
