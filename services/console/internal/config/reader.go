package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/places"
)

const (
	// lookEvery is how soon a place is read that configuration begins to name.
	lookEvery = time.Second
	// defaultInterval is how often a backend is read.
	defaultInterval = time.Minute
	// retryInterval is how soon one is read again that could not be.
	retryInterval = 15 * time.Second
	// passTimeout bounds one reading of all places of a backend, and claimFor is how long no other console begins one:
	// there is time left for the one write of what was read.
	passTimeout = 45 * time.Second
	claimFor    = time.Minute
	// parallelReads of one backend.
	parallelReads = 8
	// noteTimeout bounds how long what was read is written when the console stops. Else it has as long as other writes.
	noteTimeout = 5 * time.Second
)

// Reader reads backends: each by one console at a time, every interval and as soon as something new is wanted of it.
// The last values are kept sealed until others are read, so that a backend that is away holds up nothing. Its
// goroutines end with Run.
type Reader struct {
	Resolver *Resolver
	// Open connects to backends.
	Open Opener
	// ID of this console among those of a database.
	ID  string
	Log *slog.Logger
	Now func() time.Time

	passes sync.WaitGroup
	mu     sync.Mutex        // guards what follows
	busy   map[string]bool   // backends, by uid
	opened map[string]opened // by uid
}

// opened is a connection, and what it was made of.
type opened struct {
	state   string
	backend backend.Backend
}

// Run reads until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	defer r.passes.Wait()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.Log.DebugContext(ctx, "backends are read later", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look begins to read what is due.
func (r *Reader) look(ctx context.Context) error {
	var due []places.Reading
	var kept map[string]places.Reading
	connected := r.connected()
	err := r.Resolver.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if due, err = v.DueReadings(ctx, r.Now()); err == nil && len(connected) > 0 {
			kept, err = v.Readings(ctx, connected)
		}
		return err
	})
	if err == nil {
		r.disconnect(connected, kept)
	}
	for _, of := range due {
		if !r.begin(of.Backend) {
			continue
		}
		r.passes.Go(func() {
			defer r.end(of.Backend)
			if err := r.pass(ctx, of.Backend); err != nil && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "what a backend has is not known anew", "backend_uid", of.Backend, "err", err)
			}
		})
	}
	return err
}

// connected are the backends that connections are kept to.
func (r *Reader) connected() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.opened))
}

// disconnect lets go of connections to backends that were deleted, with the logins in them.
func (r *Reader) disconnect(connected []string, kept map[string]places.Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range connected {
		if _, ok := kept[uid]; !ok {
			delete(r.opened, uid)
		}
	}
}

func (r *Reader) begin(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy, r.opened = map[string]bool{}, map[string]opened{}
	}
	if r.busy[uid] {
		return false
	}
	r.busy[uid] = true
	return true
}

func (r *Reader) end(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, uid)
}

// task is a reading of one backend.
type task struct {
	of      resource.Backend
	secret  map[string]string
	locked  error  // why the values of the Secret are not known; nil: they are
	state   string // of what a connection is made of
	kept    map[string]places.Place
	wanted  []string
	claimed time.Time // when the next would begin without us
}

// pass reads all places of a backend, and gives services what has changed.
func (r *Reader) pass(ctx context.Context, uid string) error {
	reading, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	t, err := r.claim(reading, uid)
	if err != nil || t == nil {
		return err
	}
	// After the claim: what is wanted from then on has the next reading begin at once.
	err = r.Resolver.store.Read(reading, func(ctx context.Context, v store.View) error { return r.prepare(ctx, v, uid, t) })
	if errors.Is(err, store.ErrNotFound) {
		return nil // the backend is gone
	}
	if err != nil {
		return err
	}
	results, problem := r.readBackend(reading, t)
	noting, stop := noteContext(ctx)
	defer stop()
	err = r.note(noting, t, results, problem)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The cause may be what the write is about, and not the database.
	return r.note(noting, t, nil, fmt.Errorf("what was read can not be given to services: %w", err))
}

// noteContext is for writing what was read, also when the console stops meanwhile: others wait for claimFor else.
func noteContext(ctx context.Context) (context.Context, context.CancelFunc) {
	noting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(noteTimeout, cancel) })
	return noting, func() { stop(); cancel() }
}

// claim takes a reading on, unless another console has.
func (r *Reader) claim(ctx context.Context, uid string) (*task, error) {
	t := &task{kept: map[string]places.Place{}}
	mine := false
	err := r.Resolver.store.Write(ctx, author, func(ctx context.Context, tx *store.Tx) error {
		readings, err := tx.Readings(ctx, []string{uid})
		if err != nil {
			return err
		}
		of, ok := readings[uid]
		now := r.Now()
		if mine = ok && !of.Next.After(now); !mine {
			return nil
		}
		of.Next, of.Reader = now.Add(claimFor).Truncate(time.Microsecond), r.ID
		t.claimed = of.Next
		return tx.PutReading(ctx, of)
	})
	if err != nil || !mine {
		return nil, err
	}
	return t, nil
}

// author is how the history names what comes of reading backends.
const author = "console"

func (r *Reader) prepare(ctx context.Context, v store.View, uid string, t *task) error {
	row, err := v.WithUID(ctx, uid)
	if err != nil {
		return err
	}
	if t.of, err = resource.Backends().Decode(row); err != nil {
		return err
	}
	t.state = row.ETag()
	if name := t.of.Spec.Secret(); name != "" {
		secret, err := v.Get(ctx, store.KindSecret, name)
		if err != nil {
			return err
		}
		if t.secret, err = r.Resolver.catalog.ValuesOf(secret); errors.Is(err, seal.ErrSealed) {
			t.locked = errLogin
		} else if err != nil {
			return err
		}
		t.state += " " + secret.ETag()
	}
	list, err := v.AllPlaces(ctx, uid)
	if err != nil {
		return err
	}
	for _, p := range list {
		t.kept[p.Path] = p
	}
	users, err := usersOf(ctx, v, row.Name)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, u := range users {
		for _, path := range u.paths {
			if backend.Allowed(t.of.Spec.Paths, path) {
				wanted[path] = true
			}
		}
	}
	t.wanted = slices.Sorted(maps.Keys(wanted))
	return nil
}

// user is a resource that takes values of a backend.
type user struct {
	ref   store.Ref
	paths []string
}

func usersOf(ctx context.Context, v store.View, name string) ([]user, error) {
	refs, err := v.Referrers(ctx, store.Ref{Kind: store.KindBackend, Name: name}, maxReferrers)
	if err != nil {
		return nil, err
	}
	byKind := map[store.Kind][]string{}
	for _, ref := range refs {
		if ref.Kind != store.KindGlobalService { // its services do
			byKind[ref.Kind] = append(byKind[ref.Kind], ref.Name)
		}
	}
	var out []user
	for kind, names := range byKind {
		rows, err := v.Named(ctx, kind, names)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			places, err := resource.PlacesOf(&row)
			if err != nil {
				return nil, err
			}
			u := user{ref: store.Ref{Kind: kind, Name: row.Name}}
			for _, at := range places {
				if at.Backend == name {
					u.paths = append(u.paths, at.Path)
				}
			}
			out = append(out, u)
		}
	}
	return out, nil
}

// result is what came of reading a place.
type result struct {
	values backend.Values
	err    error
}

// readBackend asks a backend. problem is why it can't be read, if it can't.
func (r *Reader) readBackend(ctx context.Context, t *task) (results []result, problem error) {
	results = make([]result, len(t.wanted))
	at, err := r.connect(t)
	if err == nil && len(t.wanted) == 0 {
		err = at.Check(ctx)
	}
	if err != nil {
		for i := range results {
			results[i].err = err
		}
		return results, err
	}
	var group errgroup.Group
	group.SetLimit(parallelReads)
	for i, path := range t.wanted {
		group.Go(func() error {
			results[i].values, results[i].err = at.Read(ctx, path)
			return nil // told with the place
		})
	}
	_ = group.Wait() // the functions return no error
	for _, res := range results {
		if !isAnswer(res.err) {
			return results, res.err
		}
	}
	return results, nil
}

// isAnswer says whether a backend could be read, whatever it had.
func isAnswer(err error) bool {
	return err == nil || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPath) || errors.Is(err, backend.ErrTooLarge)
}

// connect keeps connections, with their logins, while what they are made of is the same.
func (r *Reader) connect(t *task) (backend.Backend, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.locked != nil {
		return nil, t.locked
	}
	if was, ok := r.opened[t.of.Meta.UID]; ok && was.state == t.state {
		return was.backend, nil
	}
	at, err := r.Open(t.of.Spec, t.secret)
	if err != nil {
		delete(r.opened, t.of.Meta.UID)
		return nil, err
	}
	r.opened[t.of.Meta.UID] = opened{t.state, at}
	return at, nil
}

// note keeps what was read, if something was, and computes anew what services get whose places have others values.
func (r *Reader) note(ctx context.Context, t *task, results []result, problem error) error {
	var was places.Reading
	err := r.Resolver.store.Write(ctx, author, func(ctx context.Context, tx *store.Tx) error {
		readings, err := tx.Readings(ctx, []string{t.of.Meta.UID})
		if err != nil {
			return err
		}
		is, ok := readings[t.of.Meta.UID]
		if was = is; !ok || is.Reader != r.ID {
			return nil // the backend is gone, or another console took us for gone
		}
		if errors.Is(problem, context.Canceled) { // the console stops, which says nothing of the backend
			is.Next = tx.Now() // another console reads it now
			return tx.PutReading(ctx, is)
		}
		if is.Next.Equal(t.claimed) { // else something new is wanted
			is.Next = tx.Now().Add(r.pause(t.of.Spec, problem))
		}
		if problem == nil {
			is.ReadTime, is.Problem, is.ProblemTime = tx.Now(), "", time.Time{}
		} else if is.Problem == "" {
			is.ProblemTime = tx.Now()
		}
		if problem != nil {
			is.Problem = problem.Error()
		}
		if err := tx.PutReading(ctx, is); err != nil || results == nil {
			return err
		}
		return r.keep(ctx, tx, t, results)
	})
	if err == nil {
		r.tell(ctx, t, was.Problem, problem)
	}
	return err
}

// pause is how long until the next reading, with jitter, so that backends are not all asked at once.
func (r *Reader) pause(spec resource.BackendSpec, problem error) time.Duration {
	interval := spec.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	if problem != nil {
		interval = min(interval, retryInterval)
	}
	return retry.Between(interval-interval/10, interval)
}

// tell logs when a backend goes away and comes back.
func (r *Reader) tell(ctx context.Context, t *task, was string, problem error) {
	switch {
	case errors.Is(problem, context.Canceled):
	case problem != nil && was == "": // the text of the problem may differ from time to time
		r.Log.WarnContext(ctx, "a backend can't be read: services keep what they have", "backend", t.of.Meta.Name, "err", problem)
	case problem == nil && was != "":
		r.Log.InfoContext(ctx, "a backend can be read again", "backend", t.of.Meta.Name)
	}
}

// keep writes what has changed, and gives it to the services that it is for.
func (r *Reader) keep(ctx context.Context, tx *store.Tx, t *task, results []result) error {
	changed := map[string]bool{}
	var put []places.Place
	// As they are now: what was sealed may have been renewed while the backend was read.
	kept, err := tx.Places(ctx, t.of.Meta.UID, t.wanted)
	if err != nil {
		return err
	}
	for i, path := range t.wanted {
		was := kept[path]
		next, other, err := r.place(tx, t, was, path, results[i])
		if err != nil {
			return err
		}
		changed[path] = other
		if other || next.Problem != was.Problem {
			put = append(put, next)
		}
		delete(t.kept, path)
	}
	if err := tx.ForgetPlaces(ctx, t.of.Meta.UID, slices.Sorted(maps.Keys(t.kept))); err != nil {
		return err
	}
	if len(put) == 0 {
		return nil
	}
	if err := tx.PutPlaces(ctx, put); err != nil {
		return err
	}
	users, err := usersOf(ctx, tx.View, t.of.Meta.Name)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, u := range users {
		if !slices.ContainsFunc(u.paths, func(path string) bool { return changed[path] }) {
			continue
		}
		if u.ref.Kind == store.KindService {
			names[u.ref.Name] = true
			continue
		}
		services, err := touched(ctx, tx.View, &store.Resource{Kind: u.ref.Kind, Name: u.ref.Name})
		if err != nil {
			return err
		}
		for _, name := range services {
			names[name] = true
		}
	}
	return r.Resolver.again(ctx, tx, slices.Sorted(maps.Keys(names)))
}

// place is what is kept of a place from now on, and whether services get something else than before: while there are
// values that can be opened, why they can't be read again is not their business.
func (r *Reader) place(tx *store.Tx, t *task, was places.Place, path string, got result) (next places.Place, other bool, err error) {
	next = places.Place{Backend: t.of.Meta.UID, Path: path, Sealed: was.Sealed, ReadTime: was.ReadTime}
	before, damaged := r.Resolver.openPlace(was)
	there := was.Sealed != nil && damaged == nil
	switch {
	case got.err == nil:
		if there && maps.Equal(before, got.values) {
			break
		}
		plain, err := json.Marshal(got.values)
		if err != nil {
			return next, false, fmt.Errorf("encode values of backend %q: %w", t.of.Meta.Name, err)
		}
		next.Sealed, next.ReadTime = r.Resolver.box.Seal(placePurpose(placeID(t.of.Meta.UID, path)), plain), tx.Now()
		other = true
	case errors.Is(got.err, backend.ErrNotFound):
		if was.Sealed != nil || was.ReadTime.IsZero() {
			next.Sealed, next.ReadTime, other = nil, tx.Now(), true
		}
	default:
		next.Problem = got.err.Error()
	}
	if !there && (next.Problem == "") != (was.Problem == "") {
		other = true // services wait for it, or for another reason
	}
	return next, other, nil
}

// placeID names a place among all of them, and placePurpose binds its values to it.
func placeID(backend, path string) string { return backend + "/" + path }

func placePurpose(id string) string { return "config/place/" + id }

// openPlace returns what was read of a place; nil: nothing.
func (r *Resolver) openPlace(p places.Place) (backend.Values, error) {
	if p.Sealed == nil {
		return nil, nil
	}
	plain, err := r.box.Open(placePurpose(placeID(p.Backend, p.Path)), p.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open values of a backend: %w", err)
	}
	values := backend.Values{}
	if json.Unmarshal(plain, &values) != nil {
		return nil, errors.New("open values of a backend: they are damaged") // the decoder may quote them
	}
	return values, nil
}
