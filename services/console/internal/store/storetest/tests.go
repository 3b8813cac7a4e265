package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
)

// begin delivers a digest of a service.
func begin(t *testing.T, s *store.Store, service store.Resource, digest, content string, at time.Time) {
	t.Helper()
	d := store.Deployment{Service: service.UID, Digest: digest, Content: content, State: []byte(`{}`), DeliverTime: at}
	steps := func(store.Report) ([]store.Step, error) { return nil, nil }
	if err := putHub(t, s, map[string][]byte{service.UID: []byte(`{}`)}, []store.Deployment{d}, steps); err != nil {
		t.Fatal(err)
	}
}

func deploymentsOf(t *testing.T, s *store.Store, service store.Resource) (out []string) {
	t.Helper()
	list := read(t, s, func(ctx context.Context, v store.View) ([]store.Deployment, error) {
		return v.Deployments(ctx, service.UID, 0, 10)
	})
	for _, d := range list {
		out = append(out, fmt.Sprintf("%d %s %s %s ended %v", d.Number, d.Digest, d.Content, d.Tests, !d.EndTime.IsZero()))
	}
	return out
}

func testDeletedServices(t *testing.T, open Open) {
	s := open(store.Options{})
	web, other := create(t, s, draft(store.KindService, "web", `{}`)), create(t, s, draft(store.KindService, "other", `{}`))
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, service := range []store.Resource{web, other} {
		begin(t, s, service, "one", "", at)
		begin(t, s, service, "two", "", at.Add(time.Minute))
		remove(t, s, service)
	}
	kept := []string{"2 two two  ended true", "1 one one  ended true"}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetDeleted(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, service := range []store.Resource{web, other} {
		if got := deploymentsOf(t, s, service); !slices.Equal(got, kept) {
			t.Errorf("kept of %s %q, want %q", service.Name, got, kept)
		}
	}
	continued := draft(store.KindService, "web", `{}`)
	continued.Continues, continued.Action = web.UID, "undeleted"
	again := create(t, s, continued)
	if got := deploymentsOf(t, s, again); again.Revision != 3 || !slices.Equal(got, kept) {
		t.Errorf("revision %d, deployments %q, want %q", again.Revision, got, kept)
	}
	if got := deploymentsOf(t, s, web); len(got) != 0 {
		t.Errorf("left of the one of before: %q", got)
	}
	if err := s.ForgetDeleted(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := deploymentsOf(t, s, other); len(got) != 0 {
		t.Errorf("kept for longer than asked: %q", got)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := deploymentsOf(t, s, again); !slices.Equal(got, kept) {
		t.Errorf("of the one that continues: %q, want %q", got, kept)
	}
}

func testTestRuns(t *testing.T, open Open) {
	s := open(store.Options{})
	web, other := create(t, s, draft(store.KindService, "web", `{}`)), create(t, s, draft(store.KindService, "other", `{}`))
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	put := func(service, id, text string, began, seen int, ended bool) {
		t.Helper()
		r := store.TestRun{
			Service: service, ID: id, Start: at.Add(time.Duration(began) * time.Minute),
			Time: at.Add(time.Duration(seen) * time.Minute), Data: []byte("\x00" + text),
		}
		if ended {
			r.End = r.Time
		}
		if err := s.PutTestRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(of store.Resource) (out []string) {
		t.Helper()
		for _, r := range read(t, s, func(ctx context.Context, v store.View) ([]store.TestRun, error) {
			return v.TestRuns(ctx, of.UID, "", 2*store.KeptTestRuns)
		}) {
			out = append(out, fmt.Sprintf("%s%q %v", r.ID, r.Data, r.End.IsZero()))
		}
		return out
	}
	put(web.UID, "a", "1", 0, 1, false)
	put(web.UID, "a", "2", 0, 3, false)
	put(web.UID, "a", "late", 0, 2, false)
	want := []string{`a"\x002" true`}
	if got := kept(web); !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	put(web.UID, "a", "end", 0, 2, true) // by a clock that is behind
	put(web.UID, "a", "running", 0, 9, false)
	put(web.UID, "b", "next", 5, 6, false)
	put("gone", "a", "1", 0, 1, false)
	want = []string{`b"\x00next" true`, `a"\x00end" false`}
	if got := kept(web); !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	chosen := read(t, s, func(ctx context.Context, v store.View) ([]store.TestRun, error) {
		return v.TestRuns(ctx, web.UID, "a", 1)
	})
	newest := read(t, s, func(ctx context.Context, v store.View) ([]store.TestRun, error) {
		return v.TestRuns(ctx, web.UID, "", 1)
	})
	if len(chosen) != 1 || chosen[0].ID != "a" || len(newest) != 1 || newest[0].ID != "b" {
		t.Errorf("one run: %v, the newest: %v", chosen, newest)
	}
	for i := range 2 * store.KeptTestRuns {
		put(web.UID, fmt.Sprint("many-", i), "", 10+i, 10+i, i%2 == 0)
	}
	if got := kept(web); len(got) != store.KeptTestRuns || got[0] != `many-39"\x00" true` {
		t.Errorf("%d are kept: %q", len(got), got)
	}
	put(other.UID, "a", "1", 0, 1, true)
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.ForgetReports(ctx, other.UID) })
	remove(t, s, web)
	if got := append(kept(web), kept(other)...); len(got) > 0 {
		t.Errorf("left over: %q", got)
	}
}

func testTestsOfDeployments(t *testing.T, open Open) {
	s := open(store.Options{})
	web := create(t, s, draft(store.KindService, "web", `{}`))
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	put := func(id, digest, summary string, began int, ended bool) {
		t.Helper()
		r := store.TestRun{
			Service: web.UID, ID: id, Digest: digest, Start: at.Add(time.Duration(began) * time.Minute),
			Summary: []byte(summary), Data: []byte("x"),
		}
		if r.Time = r.Start; ended {
			r.Time = r.Start.Add(time.Second)
			r.End = r.Time
		}
		if err := s.PutTestRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		if got := deploymentsOf(t, s, web); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	begin(t, s, web, "one", "", at)
	begin(t, s, web, "one", "", at)
	begin(t, s, web, "one+a", "one", at) // a person asked for tests
	check("1 one+a one  ended false")
	put("a", "one", "begun", 1, false)
	put("a", "one", "passed", 1, true)
	put("a", "one", "begun", 1, false)
	check("1 one+a one passed ended false")
	begin(t, s, web, "one+b", "one", at)
	begin(t, s, web, "two", "two-content", at)
	put("b", "one", "late", 2, true)
	put("before", "one", "old", 0, true)
	put("c", "none", "of nothing", 4, true)
	check("2 two two-content  ended false", "1 one+b one late ended true")
	begin(t, s, web, "one", "", at) // back again, without tests
	put("d", "one", "again", 5, true)
	check("3 one one again ended false", "2 two two-content  ended true", "1 one+b one late ended true")
}
