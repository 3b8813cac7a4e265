// Package storetest holds a store to the contract of package store, and opens one for the tests of other packages.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

// Open returns another store on one and the same new database, as another console would have.
type Open func(opts store.Options) *store.Store

// SQLite returns a store over a new database.
func SQLite(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Run runs the suite. open makes a new database for a test.
func Run(t *testing.T, open func(t *testing.T) Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"CreateGetUpdateDelete":                testLifecycle,
		"ListPagesInByteOrder":                 testList,
		"FailedWriteLeavesNothing":             testRollback,
		"FailedPartLeavesTheRest":              testParts,
		"ReferencesAreFound":                   testReferences,
		"HistoryIsKeptAndBounded":              testHistory,
		"ChangesComeOnceAndInOrder":            testChanges,
		"RecreatedResourceIsDeletedFirst":      testRecreated,
		"HistoryIsOfTheResourceThatIsThere":    testHistoryOfRecreated,
		"CursorOfAnotherHistoryIsNotReached":   testForeignCursor,
		"LogIsBounded":                         testLogBound,
		"StatusesStayOutOfTheLog":              testChatter,
		"OnlyOneClaimGetsAnEpoch":              testClaim,
		"LatestReportWins":                     testReports,
		"AReportKeepsToItsBasis":               testReportsOnABasis,
		"WhatWasReportedBeforeIsInADeployment": testDeploymentsThatWereReportedBefore,
		"SeenKeepsTheLatest":                   testSeen,
		"JoinTokenWorksOnce":                   testJoinToken,
		"RevocationsExpire":                    testRevocations,
		"TimeOfAWriteIsUnderItsLock":           testTimeUnderLock,
		"SigningKeysAreReplaced":               testSigningKeys,
		"ConcurrentWritersLeaveNoGap":          testConcurrentWriters,
		"WaitingWritersDoNotHarmEachOther":     testWaitingWriters,
		"ConcurrentMigrationsAreDoneOnce":      testConcurrentMigrations,
		"CancelledContextEndsTheCall":          testCancelled,
		"WakesAfterCommit":                     testWake,
		"StrangeTextIsKept":                    testStrangeText,
		"DeletedResourceTakesItsStatusesAway":  testDeleteStatuses,
		"RefsOfTheHubAreKeptWithTheirSource":   testHubRefs,
		"StatusesOfWhatIsGoneAreSweptAway":     testSweep,
		"StatusesOfNeighboursAreReadTogether":  testWithin,
		"AuditIsFilteredAndPaged":              testAudit,
		"AuditKeepsWhatIsThere":                testAuditKeeps,
		"AuditFollowerMissesNothing":           testAuditFollower,
		"AuditIsBounded":                       testAuditVolume,
		"APITokensAreFoundAndRevoked":          testAPITokens,
		"LoginsAreListedAndNoted":              testLoginList,
		"LoginsAreOnce":                        testLogins,
		"DetailsReplaceThoseBefore":            testDetails,
		"TestRunsKeepTheirEnds":                testTestRuns,
		"TestsAreNoDeploymentsOfTheirOwn":      testTestsOfDeployments,
		"DeploymentsOutliveADeletionForAWhile": testDeletedServices,
		"PlacesGoWithTheirBackend":             testPlaces,
		"OneSendsToASinkAtATime":               testSinks,
		"ConsolesAreThereWhileTheySaySo":       testConsoles,
		"EventsComeOnceAndWithWhatTheyTell":    testEvents,
		"EventFollowerMissesNothing":           testEventFollower,
		"StatusesAreToldAndFound":              testTouch,
		"EventsComeWithTheStatusThatIsWritten": testEventsOfStatuses,
		"HeavyEventsAreBounded":                testHeavyEvents,
		"AccessRequestsAreFoundAndForgotten":   testAccessRequests,
		"RecordingsGrowAndAreBounded":          testRecordings,
		"RecordingsMakeRoomByWhoTakesTheMost":  testRecordingRoom,
		"RecordingsAreRemovedOnce":             testRecordingRemovedOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// patience bounds waits for what happens at once on a machine that has time.
const patience = 3 * time.Minute

// answered calls until the database answers, and says how often: on a busy machine a write may wait for
// longer than the store lets it.
func answered(call func() error) (tries int64, err error) {
	for began := time.Now(); ; {
		tries++
		if err = call(); !errors.Is(err, store.ErrUnavailable) || time.Since(began) > patience {
			return tries, err
		}
	}
}

func draft(kind store.Kind, name, spec string, refs ...store.Ref) store.Draft {
	return store.Draft{Kind: kind, Name: name, Labels: map[string]string{"team": "web"}, Spec: []byte(spec), Refs: refs}
}

func write(t *testing.T, s *store.Store, fn func(context.Context, *store.Tx) error) {
	t.Helper()
	if err := s.Write(t.Context(), "user:ada", fn); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, s *store.Store, d store.Draft) (r store.Resource) {
	t.Helper()
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.Create(ctx, d)
		if err == nil {
			r = list[0]
		}
		return err
	})
	return r
}

func update(t *testing.T, s *store.Store, d store.Draft) (r store.Resource) {
	t.Helper()
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		current, err := tx.Get(ctx, d.Kind, d.Name)
		if err != nil {
			return err
		}
		r, err = tx.Update(ctx, current, d)
		return err
	})
	return r
}

func remove(t *testing.T, s *store.Store, r store.Resource) {
	t.Helper()
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		current, err := tx.Get(ctx, r.Kind, r.Name)
		if err != nil {
			return err
		}
		return tx.Delete(ctx, current)
	})
}

func read[T any](t *testing.T, s *store.Store, fn func(context.Context, store.View) (T, error)) (v T) {
	t.Helper()
	if err := s.Read(t.Context(), func(ctx context.Context, view store.View) (err error) {
		v, err = fn(ctx, view)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

func get(t *testing.T, s *store.Store, kind store.Kind, name string) (store.Resource, error) {
	t.Helper()
	var r store.Resource
	err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
		r, err = v.Get(ctx, kind, name)
		return err
	})
	return r, err
}

func changes(t *testing.T, s *store.Store, after int64, limit int) (list []store.Change, end store.Cursor) {
	t.Helper()
	list = read(t, s, func(ctx context.Context, v store.View) ([]store.Change, error) {
		var l []store.Change
		var err error
		l, end, err = v.Changes(ctx, after, limit)
		return l, err
	})
	return list, end
}

func testLifecycle(t *testing.T, open Open) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 123456789, time.UTC)
	s := open(store.Options{Now: func() time.Time { return now }})
	r := create(t, s, draft(store.KindSource, "shop", `{"url":"https://git.example.com/shop"}`))
	if r.Revision != 1 || r.UID == "" || !r.CreateTime.Equal(now.Truncate(time.Microsecond)) {
		t.Fatalf("created %+v", r)
	}
	got, err := get(t, s, store.KindSource, "shop")
	if err != nil || got.ETag() != r.ETag() || string(got.Spec) != string(r.Spec) || got.Labels["team"] != "web" || !got.CreateTime.Equal(r.CreateTime) {
		t.Fatalf("got %+v, %v; want %+v", got, err, r)
	}
	now = now.Add(time.Minute)
	updated := update(t, s, draft(store.KindSource, "shop", `{"url":"https://git.example.com/shop2"}`))
	if updated.Revision != 2 || updated.UID != r.UID || updated.ETag() == r.ETag() ||
		!updated.CreateTime.Equal(r.CreateTime) || !updated.UpdateTime.After(r.UpdateTime) {
		t.Fatalf("updated %+v", updated)
	}
	remove(t, s, updated)
	if _, err := get(t, s, store.KindSource, "shop"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("after delete: %v", err)
	}
	again := create(t, s, draft(store.KindSource, "shop", `{}`))
	if again.UID == r.UID || again.ETag() == r.ETag() {
		t.Fatalf("recreated with the same identity: %+v", again)
	}
	if _, err := get(t, s, store.KindCluster, "shop"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("other kind of the same name: %v", err)
	}
}

func testList(t *testing.T, open Open) {
	s := open(store.Options{})
	want := []string{"a", "a-b", "a0", "ab", "b", "z9"} // byte order; a locale would ignore the dash
	for _, name := range []string{"b", "ab", "z9", "a", "a0", "a-b"} {
		create(t, s, draft(store.KindCluster, name, `{}`))
	}
	create(t, s, draft(store.KindSource, "aa", `{}`))
	var got []string
	for after := ""; ; {
		page := read(t, s, func(ctx context.Context, v store.View) ([]store.Resource, error) {
			return v.List(ctx, store.KindCluster, after, 2)
		})
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.Name)
		}
		after = got[len(got)-1]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	named := read(t, s, func(ctx context.Context, v store.View) (map[string]store.Resource, error) {
		return v.Named(ctx, store.KindCluster, []string{"ab", "nope", "b"})
	})
	if len(named) != 2 || named["ab"].Name != "ab" || named["b"].Name != "b" {
		t.Fatalf("named %v", named)
	}
}

func testRollback(t *testing.T, open Open) {
	s := open(store.Options{})
	boom := errors.New("boom")
	err := s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Create(ctx, draft(store.KindSource, "shop", `{}`)); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if _, err := get(t, s, store.KindSource, "shop"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("half a write is there: %v", err)
	}
	if r := create(t, s, draft(store.KindSource, "shop", `{}`)); r.Seq != 1 {
		t.Fatalf("the failed write left a gap: next change is %d", r.Seq)
	}
}

func testReferences(t *testing.T, open Open) {
	s := open(store.Options{})
	source := store.Ref{Kind: store.KindSource, Name: "shop"}
	for _, name := range []string{"b", "a", "c"} {
		create(t, s, draft(store.KindService, name, `{}`, source, store.Ref{Kind: store.KindCluster, Name: "edge"}))
	}
	update(t, s, draft(store.KindService, "b", `{"x":1}`, store.Ref{Kind: store.KindSource, Name: "other"}))
	got := read(t, s, func(ctx context.Context, v store.View) ([]store.Ref, error) { return v.Referrers(ctx, source, 10) })
	if want := []store.Ref{{Kind: store.KindService, Name: "a"}, {Kind: store.KindService, Name: "c"}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, name := range []string{"a", "c"} {
		r, err := get(t, s, store.KindService, name)
		if err != nil {
			t.Fatal(err)
		}
		remove(t, s, r)
	}
	if got := read(t, s, func(ctx context.Context, v store.View) ([]store.Ref, error) { return v.Referrers(ctx, source, 10) }); len(got) != 0 {
		t.Fatalf("deleted resources still refer: %v", got)
	}
}

func testHistory(t *testing.T, open Open) {
	s := open(store.Options{})
	r := create(t, s, store.Draft{Kind: store.KindSecret, Name: "git", Spec: []byte(`{"keys":["token"]}`), Sealed: []byte("sealed-value")})
	r = update(t, s, store.Draft{Kind: store.KindSecret, Name: "git", Spec: []byte(`{"keys":["password"]}`), Sealed: []byte("sealed-value-2")})
	if string(r.Sealed) != "sealed-value-2" {
		t.Fatalf("sealed %q", r.Sealed)
	}
	remove(t, s, r)
	history := read(t, s, func(ctx context.Context, v store.View) ([]store.Revision, error) { return v.Revisions(ctx, r.UID, 10) })
	var got []string
	for _, h := range history {
		got = append(got, fmt.Sprintf("%d %s %s %s", h.Revision, h.Action, h.Author, h.Spec))
	}
	want := []string{`3 deleted user:ada {}`, `2 updated user:ada {"keys":["password"]}`, `1 created user:ada {"keys":["token"]}`}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// A part of a write that fails leaves nothing, and takes no number.
func testParts(t *testing.T, open Open) {
	s := open(store.Options{})
	errPart := errors.New("no")
	creating := func(name string, err error) func(context.Context, *store.Tx) error {
		return func(ctx context.Context, tx *store.Tx) error {
			_, failed := tx.Create(ctx, draft(store.KindCluster, name, `{}`))
			return errors.Join(failed, err)
		}
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := creating("a", nil)(ctx, tx); err != nil {
			return err
		}
		if refused, err := tx.Try(ctx, "console", creating("b", errPart)); err != nil || !errors.Is(refused, errPart) {
			t.Errorf("refused %v, %v", refused, err)
		}
		if refused, err := tx.Try(ctx, "console", creating("c", nil)); err != nil || refused != nil {
			t.Errorf("refused %v, %v", refused, err)
		}
		return creating("d", nil)(ctx, tx)
	})
	list, end := changes(t, s, 0, 10)
	if len(list) != 3 || list[1].Name != "c" || list[2].Name != "d" || end.Seq != 3 {
		t.Errorf("got %+v, %+v", list, end)
	}
	var authors []string
	for _, c := range list {
		past := read(t, s, func(ctx context.Context, v store.View) ([]store.Revision, error) { return v.Revisions(ctx, c.UID, 1) })
		authors = append(authors, past[0].Author)
	}
	if !slices.Equal(authors, []string{"user:ada", "console", "user:ada"}) {
		t.Errorf("by %q", authors)
	}
}

func testChanges(t *testing.T, open Open) {
	s := open(store.Options{})
	a := create(t, s, draft(store.KindSource, "a", `{"v":1}`)) // 1
	create(t, s, draft(store.KindCluster, "b", `{}`))          // 2
	update(t, s, draft(store.KindSource, "a", `{"v":2}`))      // 3
	list, end := changes(t, s, 0, 10)
	if len(list) != 2 || list[0].Name != "b" || list[1].Name != "a" || string(list[1].Resource.Spec) != `{"v":2}` || end.Seq != 3 || end.Nonce == "" {
		t.Fatalf("got %+v, %+v", list, end)
	}
	// Paging passes over what is old, and still goes on.
	list, end = changes(t, s, 0, 1)
	if len(list) != 0 || end.Seq != 1 {
		t.Fatalf("first page: %+v, %+v", list, end)
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error { // 4
		source, err := tx.Get(ctx, store.KindSource, "a")
		if err != nil {
			return err
		}
		if _, err := tx.Claim(ctx, source, "gitcache-0"); err != nil {
			return err
		}
		return tx.Publish(ctx, source, []byte(`{"heads":1}`)) // 5
	})
	list, end = changes(t, s, 3, 10)
	if len(list) != 1 || list[0].Heads.Epoch != 1 || list[0].Heads.Owner != "gitcache-0" ||
		string(list[0].Heads.State) != `{"heads":1}` || list[0].Resource.Revision != 2 || end.Seq != 5 {
		t.Fatalf("heads: %+v, %+v", list, end)
	}
	remove(t, s, a) // 6
	list, end = changes(t, s, 5, 10)
	if len(list) != 1 || !list[0].Deleted || list[0].UID != a.UID || list[0].Name != "a" || end.Seq != 6 {
		t.Fatalf("deleted: %+v, %+v", list, end)
	}
	if list, end = changes(t, s, 6, 10); len(list) != 0 || end.Seq != 6 {
		t.Fatalf("at the end: %+v, %+v", list, end)
	}
	var at store.Cursor
	all := read(t, s, func(ctx context.Context, v store.View) (l []store.Change, err error) {
		l, at, err = v.Snapshot(ctx)
		return l, err
	})
	if len(all) != 1 || all[0].Name != "b" || all[0].Kind != store.KindCluster || at.Seq != 6 {
		t.Fatalf("snapshot: %+v, %+v", all, at)
	}
}

func testRecreated(t *testing.T, open Open) {
	s := open(store.Options{})
	a := create(t, s, draft(store.KindSource, "a", `{}`))
	remove(t, s, a)
	b := create(t, s, draft(store.KindSource, "a", `{}`))
	list, _ := changes(t, s, a.Seq, 10)
	if len(list) != 2 || !list[0].Deleted || list[0].UID != a.UID || list[1].Deleted || list[1].UID != b.UID {
		t.Fatalf("got %+v", list)
	}
}

// A clock that is behind writes the new resource with earlier times than those of the deleted one.
func testHistoryOfRecreated(t *testing.T, open Open) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	s := open(store.Options{Now: func() time.Time { return now }})
	ref := store.Ref{Kind: store.KindSource, Name: "shop"}
	of := func() (uids []string) {
		for _, r := range read(t, s, func(ctx context.Context, v store.View) ([]store.Revision, error) { return v.History(ctx, ref, 0, 10) }) {
			uids = append(uids, r.UID)
		}
		return uids
	}
	a := create(t, s, draft(ref.Kind, ref.Name, `{}`))
	remove(t, s, a)
	if got, want := of(), []string{a.UID, a.UID}; !slices.Equal(got, want) {
		t.Errorf("the history of what is gone is of %q, want %q", got, want)
	}
	now = now.Add(-time.Hour)
	b := create(t, s, draft(ref.Kind, ref.Name, `{}`))
	if got, want := of(), []string{b.UID}; !slices.Equal(got, want) {
		t.Errorf("the history of what is there is of %q, want %q", got, want)
	}
}

func testForeignCursor(t *testing.T, open Open) {
	s := open(store.Options{})
	reaches := func(c store.Cursor) bool {
		return read(t, s, func(ctx context.Context, v store.View) (bool, error) { return v.Reaches(ctx, c) })
	}
	if !reaches(store.Cursor{}) {
		t.Error("an empty log does not reach its beginning")
	}
	create(t, s, draft(store.KindSource, "a", `{}`))
	_, end := changes(t, s, 0, 10)
	for c, want := range map[store.Cursor]bool{
		end:                                true,
		{}:                                 true,
		{Nonce: "x"}:                       false,
		{Seq: end.Seq, Nonce: "other"}:     false, // the same number in a history that was lost
		{Seq: end.Seq + 1, Nonce: "other"}: false,
		{Seq: -1}:                          false,
	} {
		if got := reaches(c); got != want {
			t.Errorf("Reaches(%+v) = %v, want %v", c, got, want)
		}
	}
}

func testLogBound(t *testing.T, open Open) {
	s := open(store.Options{LogLimit: 3})
	create(t, s, draft(store.KindSource, "a", `{}`))
	_, first := changes(t, s, 0, 1)
	for i := range 5 {
		update(t, s, draft(store.KindSource, "a", fmt.Sprintf(`{"v":%d}`, i)))
	}
	for c, want := range map[store.Cursor]bool{first: false, {}: false} {
		if got := read(t, s, func(ctx context.Context, v store.View) (bool, error) { return v.Reaches(ctx, c) }); got != want {
			t.Errorf("Reaches(%+v) = %v, want %v", c, got, want)
		}
	}
	end := read(t, s, func(ctx context.Context, v store.View) (store.Cursor, error) { return v.End(ctx) })
	if got := read(t, s, func(ctx context.Context, v store.View) (bool, error) { return v.Reaches(ctx, end) }); !got || end.Seq != 6 {
		t.Errorf("the end %+v is not reached", end)
	}
}

func testChatter(t *testing.T, open Open) {
	s := open(store.Options{})
	svc := create(t, s, draft(store.KindService, "web", `{}`))
	before := read(t, s, func(ctx context.Context, v store.View) (store.Cursor, error) { return v.End(ctx) })
	err := errors.Join(
		putReports(t, s, store.Report{Service: svc.UID, Cluster: "c1", Sequence: 1, State: []byte(`{}`)}),
		putHub(t, s, map[string][]byte{svc.UID: []byte(`{}`)}, nil, nil),
		s.PutSeen(t.Context(), map[string]store.Seen{"c1": {SeenTime: time.Now(), State: []byte(`{}`)}}))
	if err != nil {
		t.Fatal(err)
	}
	after := read(t, s, func(ctx context.Context, v store.View) (store.Cursor, error) { return v.End(ctx) })
	if before != after {
		t.Fatalf("log went from %+v to %+v", before, after)
	}
}

func testClaim(t *testing.T, open Open) {
	source := create(t, open(store.Options{}), draft(store.KindSource, "a", `{}`))
	const claims = 20
	var mu sync.Mutex
	epochs := map[int64]bool{}
	var wg sync.WaitGroup
	for i := range claims {
		s := open(store.Options{})
		wg.Go(func() {
			err := s.Write(t.Context(), "service:gitcache", func(ctx context.Context, tx *store.Tx) error {
				h, err := tx.Claim(ctx, source, fmt.Sprintf("gitcache-%d", i))
				mu.Lock()
				defer mu.Unlock()
				epochs[h.Epoch] = true
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(epochs) != claims {
		t.Fatalf("%d claims got %d epochs", claims, len(epochs))
	}
	s := open(store.Options{})
	remove(t, s, source)
	err := s.Write(t.Context(), "x", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Claim(ctx, source, "late")
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("claim of a deleted source: %v", err)
	}
}

func putReports(t *testing.T, s *store.Store, reports ...store.Report) error {
	t.Helper()
	_, err := s.PutReports(t.Context(), reports, nil)
	return err
}

func testReportsOnABasis(t *testing.T, open Open) {
	s, other := open(store.Options{}), open(store.Options{})
	svc := create(t, s, draft(store.KindService, "web", `{}`))
	cluster := create(t, s, draft(store.KindCluster, "edge", `{}`))
	key := store.ReportKey{Service: svc.UID, Cluster: cluster.UID}
	put := func(at *store.Store, want bool, sequence, before, revision int64) {
		t.Helper()
		r := store.Report{Service: key.Service, Cluster: key.Cluster, Sequence: sequence, State: []byte("{}")}
		r.Basis = &store.Basis{Revision: revision, Sequence: before}
		steps := []store.Step{{Service: key.Service, Digest: "d", Outcome: fmt.Sprint(sequence), Of: key}}
		kept, err := at.PutReports(t.Context(), []store.Report{r}, steps)
		if err != nil || kept[key] != want {
			t.Errorf("report %d after %d of revision %d: written %v, %v", sequence, before, revision, kept, err)
		}
	}
	begin := []store.Deployment{{Service: svc.UID, Digest: "d", State: []byte("{}"), DeliverTime: time.Now()}}
	said := func(store.Report) ([]store.Step, error) { return nil, nil }
	if err := putHub(t, s, map[string][]byte{svc.UID: []byte(`{}`)}, begin, said); err != nil {
		t.Fatal(err)
	}
	put(s, true, 3, store.NoReport, svc.Revision)
	put(other, false, 4, store.NoReport, svc.Revision) // it does not know of 3
	put(other, true, 4, 3, svc.Revision)
	put(s, false, 5, 3, svc.Revision)   // it does not know of 4
	put(s, false, 4, 4, svc.Revision)   // nothing new
	put(s, false, 5, 4, svc.Revision+1) // of another service
	key.Cluster = "gone"
	put(s, false, 5, store.NoReport, svc.Revision)
	last := read(t, s, func(ctx context.Context, v store.View) (map[string]store.Deployment, error) {
		return v.LastDeployments(ctx, []string{svc.UID})
	})
	if got := last[svc.UID].Outcome; got != "4" {
		t.Errorf("the deployment is at %q, want what the last report that was written says", got)
	}
	remove(t, s, svc)
	key.Cluster = cluster.UID
	put(s, false, 5, 4, svc.Revision)
	put(s, false, 5, store.NoReport, svc.Revision)
}

func testDeploymentsThatWereReportedBefore(t *testing.T, open Open) {
	s := open(store.Options{})
	var told []string
	s.OnHealthy(func(d store.Deployment, trace string) {
		told = append(told, fmt.Sprintf("%s %d %s %s %s", d.Service, d.Number, d.Content, trace, d.State))
	})
	begin := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	applied, well := begin.Add(time.Second), begin.Add(2*time.Second)
	quick, early, other, gone := create(t, s, draft(store.KindService, "quick", `{}`)), create(t, s, draft(store.KindService, "early", `{}`)),
		create(t, s, draft(store.KindService, "other", `{}`)), create(t, s, draft(store.KindService, "gone", `{}`))
	remove(t, s, gone)
	said := map[string]store.Step{
		quick.UID: {Digest: "d1", Apply: applied, Healthy: well, Outcome: "healthy", Message: "fine", Trace: "trace"},
		early.UID: {Digest: "d1", Apply: begin.Add(-time.Minute), Outcome: "progressing"}, // by a clock that is behind
		other.UID: {Digest: "d0", Apply: applied, Healthy: well, Outcome: "healthy"},
		gone.UID:  {Digest: "d1", Apply: applied, Healthy: well, Outcome: "healthy"},
	}
	stepsOf := func(r store.Report) ([]store.Step, error) {
		step := said[r.Service]
		step.Service = r.Service
		return []store.Step{step}, nil
	}
	var deployments []store.Deployment
	states := map[string][]byte{}
	for uid := range said {
		if err := putReports(t, s, store.Report{Service: uid, Cluster: "c", Sequence: 1, State: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		states[uid] = []byte(`{}`)
		deployments = append(deployments, store.Deployment{Service: uid, Digest: "d1", State: []byte(`{"of":1}`), DeliverTime: begin})
	}
	if err := putHub(t, s, states, deployments, stepsOf); err != nil {
		t.Fatal(err)
	}
	if want := []string{quick.UID + ` 1 d1 trace {"of":1}`}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
	last := func() map[string]store.Deployment {
		return read(t, s, func(ctx context.Context, v store.View) (map[string]store.Deployment, error) {
			return v.LastDeployments(ctx, slices.Collect(maps.Keys(said)))
		})
	}
	got := last()
	if d := got[quick.UID]; !d.ApplyTime.Equal(applied) || !d.HealthyTime.Equal(well) || d.Outcome != "healthy" || d.Message != "fine" || d.Number != 1 {
		t.Errorf("what was reported before: %+v", d)
	}
	if d := got[early.UID]; !d.ApplyTime.Equal(begin) || !d.HealthyTime.IsZero() || d.Outcome != "progressing" {
		t.Errorf("applied before it was delivered: %+v", d)
	}
	if d := got[other.UID]; !d.ApplyTime.IsZero() || !d.HealthyTime.IsZero() || d.Outcome != "" || d.Digest != "d1" {
		t.Errorf("reported with another content: %+v", d)
	}
	if _, has := got[gone.UID]; has {
		t.Error("a service that is gone has a deployment")
	}
	// The second deployment of a service.
	told, said[quick.UID] = nil, store.Step{Digest: "d2", Apply: applied, Healthy: well, Outcome: "healthy"}
	next := []store.Deployment{{Service: quick.UID, Digest: "d2", State: []byte(`{"of":2}`), DeliverTime: begin}}
	if err := putHub(t, s, map[string][]byte{quick.UID: []byte(`{"now":2}`)}, next, stepsOf); err != nil {
		t.Fatal(err)
	}
	if d := last()[quick.UID]; d.Number != 2 || !d.HealthyTime.Equal(well) || len(told) != 1 {
		t.Errorf("the second deployment: %+v, told of %q", d, told)
	}
}

func testReports(t *testing.T, open Open) {
	s := open(store.Options{})
	put := func(reports ...store.Report) {
		t.Helper()
		if _, err := s.PutReports(t.Context(), reports, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(store.Report{Service: "s", Cluster: "c", Sequence: 5, State: []byte(`"five"`)},
		store.Report{Service: "s", Cluster: "other", Sequence: 9, State: []byte(`"else"`)})
	put(store.Report{Service: "s", Cluster: "c", Sequence: 4, State: []byte(`"four"`)})
	put(store.Report{Service: "s", Cluster: "c", Sequence: 5, State: []byte(`"five again"`)})
	check := func(sequence int64, state string) {
		t.Helper()
		got := read(t, s, func(ctx context.Context, v store.View) (map[store.ReportKey]store.Report, error) {
			return v.Reports(ctx, []string{"s"})
		})
		r := got[store.ReportKey{Service: "s", Cluster: "c"}]
		if len(got) != 2 || r.Sequence != sequence || string(r.State) != state {
			t.Fatalf("got %+v, want %d %s", got, sequence, state)
		}
	}
	check(5, `"five"`)
	put(store.Report{Service: "s", Cluster: "c", Sequence: 7, State: []byte(`"seven"`)},
		store.Report{Service: "s", Cluster: "c", Sequence: 6, State: []byte(`"six"`)})
	check(7, `"seven"`)
}

func testSeen(t *testing.T, open Open) {
	s := open(store.Options{})
	late := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, seen := range []store.Seen{
		{SeenTime: late, State: []byte(`"late"`)},
		{SeenTime: late.Add(-time.Minute), State: []byte(`"early"`)},
		{SeenTime: late.Add(time.Minute), State: []byte(`{}`)},
	} {
		if err := s.PutSeen(t.Context(), map[string]store.Seen{"c": seen}); err != nil {
			t.Fatal(err)
		}
	}
	for _, lost := range []time.Time{late, late.Add(-time.Minute)} {
		if err := s.PutLost(t.Context(), map[string]time.Time{"c": lost, "d": lost}); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, s, func(ctx context.Context, v store.View) (map[string]store.Seen, error) {
		return v.Seen(ctx, []string{"c", "d"})
	})
	if len(got) != 1 || !got["c"].LostTime.Equal(late) || !got["c"].SeenTime.Equal(late.Add(time.Minute)) ||
		string(got["c"].State) != `"late"` || !got["c"].JoinTime.IsZero() {
		t.Fatalf("got %+v", got)
	}
}

func testJoinToken(t *testing.T, open Open) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	clock := store.Options{Now: func() time.Time { return now }}
	s := open(clock)
	cluster := create(t, s, draft(store.KindCluster, "edge", `{}`))
	for _, hash := range []string{"h1", "h2"} {
		write(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.AddJoinToken(ctx, store.JoinToken{Hash: hash, Cluster: cluster.UID, Expire: now.Add(time.Minute)})
		})
	}
	use := func(s *store.Store, hash string) error {
		return s.Write(t.Context(), "", func(ctx context.Context, tx *store.Tx) error {
			c, err := tx.UseJoinToken(ctx, hash)
			if err == nil && c.Name != "edge" {
				t.Errorf("joined as %q", c.Name)
			}
			return err
		})
	}
	if err := use(s, "unknown"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("unknown token: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 10 {
		s := open(clock)
		wg.Go(func() {
			err := use(s, "h1")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Fatalf("the token worked %d times", won)
	}
	seen := read(t, s, func(ctx context.Context, v store.View) (map[string]store.Seen, error) {
		return v.Seen(ctx, []string{cluster.UID})
	})
	if !seen[cluster.UID].JoinTime.Equal(now) || !seen[cluster.UID].SeenTime.IsZero() {
		t.Fatalf("seen %+v", seen)
	}
	now = now.Add(time.Minute)
	if err := use(s, "h2"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("expired token: %v", err)
	}
}

func testRevocations(t *testing.T, open Open) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	s := open(store.Options{Now: func() time.Time { return now }})
	revoke := func(r login.Revocation) {
		t.Helper()
		write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.Revoke(ctx, r) })
	}
	revoke(login.Revocation{TokenID: "t1", Time: now, Expire: now.Add(time.Minute)})
	revoke(login.Revocation{Subject: "agent:edge", Time: now, Expire: now.Add(time.Hour)})
	revoke(login.Revocation{Subject: "agent:edge", Time: now.Add(time.Second), Expire: now.Add(2 * time.Hour)}) // again: later wins
	list := func() []login.Revocation {
		return read(t, s, func(ctx context.Context, v store.View) ([]login.Revocation, error) { return v.Revocations(ctx, now) })
	}
	if got := list(); len(got) != 2 || got[1].Subject != "agent:edge" || !got[1].Time.Equal(now.Add(time.Second)) {
		t.Fatalf("got %+v", got)
	}
	now = now.Add(time.Minute)
	if got := list(); len(got) != 1 || got[0].TokenID != "" {
		t.Fatalf("got %+v", got)
	}
}

// A revocation that waited for the write of a token must not be older than the token.
func testTimeUnderLock(t *testing.T, open Open) {
	var locked, early atomic.Bool
	s := open(store.Options{Now: func() time.Time {
		early.CompareAndSwap(false, locked.Load())
		return time.Now()
	}})
	var second sync.WaitGroup
	write(t, s, func(context.Context, *store.Tx) error {
		locked.Store(true)
		defer locked.Store(false)
		//nolint:contextcheck // the second write is somebody else's
		second.Go(func() { _ = s.Write(t.Context(), "user:bob", func(context.Context, *store.Tx) error { return nil }) })
		until := time.Now().Add(200 * time.Millisecond)
		for time.Now().Before(until) && !early.Load() {
			runtime.Gosched()
		}
		return nil
	})
	second.Wait()
	if early.Load() {
		t.Error("a write has a time from before it had the lock")
	}
}

func testSigningKeys(t *testing.T, open Open) {
	s := open(store.Options{})
	keys := func() (sealed []byte, err error) {
		err = s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
			sealed, err = v.SigningKeys(ctx)
			return err
		})
		return sealed, err
	}
	if _, err := keys(); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("new database: %v", err)
	}
	for _, sealed := range []string{"\x00\x01\xff", "second"} {
		write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.PutSigningKeys(ctx, []byte(sealed)) })
		if got, err := keys(); err != nil || string(got) != sealed {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// testConcurrentWriters follows the log while writers of several consoles write: every change that is
// the last of its resource must come, in order, and no resource twice in the same state.
func testConcurrentWriters(t *testing.T, open Open) {
	const writers, rounds = 4, 15
	done := make(chan struct{})
	var again atomic.Int64 // writes that were tried again: they may have been committed
	var wg sync.WaitGroup
	for w := range writers {
		s := open(store.Options{})
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprintf("r%d", (w+i)%5)
				tries, err := answered(func() error {
					return s.Write(t.Context(), "x", func(ctx context.Context, tx *store.Tx) error {
						current, err := tx.Get(ctx, store.KindCluster, name)
						switch {
						case errors.Is(err, store.ErrNotFound):
							_, err = tx.Create(ctx, draft(store.KindCluster, name, `{}`))
						case err == nil && i%7 == 6:
							err = tx.Delete(ctx, current)
						case err == nil:
							_, err = tx.Update(ctx, current, draft(store.KindCluster, name, fmt.Sprintf(`{"v":"%d-%d"}`, w, i)))
						}
						return err
					})
				})
				if err != nil {
					t.Error(err)
				}
				again.Add(tries - 1)
			}
		})
	}
	go func() { wg.Wait(); close(done) }()

	s := open(store.Options{})
	model := map[string]string{} // name -> etag
	var at int64
	for finished := false; ; {
		list, end := changes(t, s, at, 3)
		for _, c := range list {
			if c.Cursor.Seq <= at {
				t.Fatalf("change %d came behind %d", c.Cursor.Seq, at)
			}
			if c.Deleted {
				delete(model, c.Name)
				continue
			}
			if model[c.Name] == c.Resource.ETag() {
				t.Fatalf("%s came twice as %s", c.Name, c.Resource.ETag())
			}
			model[c.Name] = c.Resource.ETag()
		}
		if end.Seq == at && finished {
			break
		}
		at = end.Seq
		select {
		case <-done:
			finished = true
		default:
		}
	}
	if at < writers*rounds || at > writers*rounds+again.Load() {
		t.Errorf("%d writes gave %d changes", writers*rounds, at)
	}
	for _, r := range read(t, s, func(ctx context.Context, v store.View) ([]store.Resource, error) {
		return v.List(ctx, store.KindCluster, "", 100)
	}) {
		if model[r.Name] != r.ETag() {
			t.Errorf("%s is %s, and the log told %q", r.Name, r.ETag(), model[r.Name])
		}
		delete(model, r.Name)
	}
	if len(model) != 0 {
		t.Errorf("the log told of what is not there: %v", model)
	}
}

func testConcurrentMigrations(t *testing.T, open Open) {
	var wg sync.WaitGroup
	for range 3 {
		s := open(store.Options{})
		wg.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func testCancelled(t *testing.T, open Open) {
	s := open(store.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Write(ctx, "x", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Create(ctx, draft(store.KindSource, "a", `{}`))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	create(t, s, draft(store.KindSource, "a", `{}`)) // and the store goes on
}

func testWake(t *testing.T, open Open) {
	listener, writer := open(store.Options{}), open(store.Options{})
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- listener.Listen(ctx, func() { woken <- struct{}{} }) }()
	// The listener's own writes always wake it, those of other consoles where there can be any.
	await := func(s *store.Store) {
		t.Helper()
		deadline := time.After(patience)
		for i := 0; ; i++ {
			create(t, s, draft(store.KindSource, fmt.Sprintf("%p-%d", s, i), `{}`))
			select {
			case <-woken:
				return
			case <-deadline:
				t.Fatal("nobody was woken")
			case <-time.After(100 * time.Millisecond): // Listen may have begun just now
			}
		}
	}
	await(listener)
	if listener.Shared() {
		for len(woken) > 0 {
			<-woken
		}
		await(writer)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func testStrangeText(t *testing.T, open Open) {
	s := open(store.Options{})
	d := store.Draft{
		Kind: store.KindService, Name: "o'brien",
		Labels: map[string]string{"ключ": `a"b\c'; DROP TABLE resources; -- 😀`}, Spec: []byte(`{"a":"\u0000 ' \" é"}`),
	}
	create(t, s, d)
	got, err := get(t, s, d.Kind, d.Name)
	if err != nil || got.Labels["ключ"] != d.Labels["ключ"] || string(got.Spec) != string(d.Spec) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func testDeleteStatuses(t *testing.T, open Open) {
	s := open(store.Options{})
	svc := create(t, s, draft(store.KindService, "web", `{}`))
	if _, err := s.PutReports(t.Context(), []store.Report{{Service: svc.UID, Cluster: "c1", Sequence: 1, State: []byte(`{}`)}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := putHub(t, s, map[string][]byte{svc.UID: []byte(`{}`)}, nil, nil); err != nil {
		t.Fatal(err)
	}
	remove(t, s, svc)
	reports := read(t, s, func(ctx context.Context, v store.View) (map[store.ReportKey]store.Report, error) {
		return v.Reports(ctx, []string{svc.UID})
	})
	hub := read(t, s, func(ctx context.Context, v store.View) (map[string][]byte, error) {
		return v.Hub(ctx, []string{svc.UID})
	})
	if len(reports) != 0 || len(hub) != 0 {
		t.Fatalf("left behind: %v %v", reports, hub)
	}
}

func testSweep(t *testing.T, open Open) {
	s := open(store.Options{})
	svc, cluster := create(t, s, draft(store.KindService, "web", `{}`)), create(t, s, draft(store.KindCluster, "edge", `{}`))
	here := store.Report{Service: svc.UID, Cluster: cluster.UID, Sequence: 1, State: []byte(`{}`)}
	reports := []store.Report{here}
	uids := []string{svc.UID}
	for i := range 3000 { // more than are swept at once, on both sides of the one that stays
		gone := here
		if gone.Service = fmt.Sprintf("%04x-gone", 20*i); i%3 == 0 {
			gone.Service, gone.Cluster = svc.UID, gone.Service
		}
		reports, uids = append(reports, gone), append(uids, gone.Service)
	}
	if _, err := s.PutReports(t.Context(), reports, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSeen(t.Context(), map[string]store.Seen{cluster.UID: {}, "gone": {}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(uids, 500) {
		left := read(t, s, func(ctx context.Context, v store.View) (map[store.ReportKey]store.Report, error) {
			return v.Reports(ctx, part)
		})
		delete(left, store.ReportKey{Service: svc.UID, Cluster: cluster.UID})
		if len(left) > 0 {
			t.Fatalf("%d reports are left", len(left))
		}
	}
	if left := read(t, s, func(ctx context.Context, v store.View) (map[store.ReportKey]store.Report, error) {
		return v.Reports(ctx, []string{svc.UID})
	}); len(left) != 1 {
		t.Fatalf("kept %d reports of what is there", len(left))
	}
}

func testWithin(t *testing.T, open Open) {
	s := open(store.Options{})
	var services []store.Resource
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		svc := create(t, s, draft(store.KindService, name, `{}`))
		services = append(services, svc)
		report := store.Report{Service: svc.UID, Cluster: "edge", Sequence: 1, State: []byte(`{"of":"` + name + `"}`)}
		if _, err := s.PutReports(t.Context(), []store.Report{report}, nil); err != nil {
			t.Fatal(err)
		}
		if err := putHub(t, s, map[string][]byte{svc.UID: []byte(`{"of":"` + name + `"}`)}, nil, nil); err != nil {
			t.Fatal(err)
		}
		write(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.PutConfigs(ctx, []store.ServiceConfig{{Service: svc, Config: store.Config{Revision: name}}})
		})
	}
	slices.SortFunc(services, func(a, b store.Resource) int { return strings.Compare(a.UID, b.UID) })
	some := services[1:4]
	uids := []string{some[0].UID, some[1].UID, some[2].UID}
	of := store.Range{First: uids[0], Last: uids[2]}
	read(t, s, func(ctx context.Context, v store.View) (struct{}, error) {
		hub, err := v.Hub(ctx, uids)
		hubWithin, err2 := v.HubWithin(ctx, of)
		reports, err3 := v.Reports(ctx, uids)
		reportsWithin, err4 := v.ReportsWithin(ctx, of)
		configs, err5 := v.Configs(ctx, uids)
		configsWithin, err6 := v.ConfigsWithin(ctx, of)
		if len(hub) != 3 || !reflect.DeepEqual(hubWithin, hub) {
			t.Errorf("hub truths of %v: %s, not %s", uids, hubWithin, hub)
		}
		if len(reports) != 3 || !reflect.DeepEqual(reportsWithin, reports) {
			t.Errorf("reports of %v: %v, not %v", uids, reportsWithin, reports)
		}
		if len(configs) != 3 || !reflect.DeepEqual(configsWithin, configs) {
			t.Errorf("configurations of %v: %v, not %v", uids, configsWithin, configs)
		}
		return struct{}{}, errors.Join(err, err2, err3, err4, err5, err6)
	})
}

func testHubRefs(t *testing.T, open Open) {
	s := open(store.Options{})
	source := create(t, s, draft(store.KindSource, "shop", `{}`))
	main, head := store.HubRef{Source: source.UID, Ref: "refs/heads/main"}, store.HubRef{Source: source.UID, Ref: "HEAD"}
	kept := func() map[store.HubRef][]byte {
		return read(t, s, func(ctx context.Context, v store.View) (map[store.HubRef][]byte, error) {
			return v.HubRefs(ctx, []string{source.UID, "gone"})
		})
	}
	for _, state := range []string{`{"a":1}`, `{"a":2}`} {
		if err := s.PutHubRefs(t.Context(), map[store.HubRef][]byte{main: []byte(state), head: []byte(`{}`), {Source: "gone", Ref: "HEAD"}: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if got := kept(); len(got) != 2 || string(got[main]) != state {
			t.Fatalf("kept %s", got)
		}
	}
	remove(t, s, source)
	if got := kept(); len(got) != 0 {
		t.Fatalf("left behind: %s", got)
	}
}
