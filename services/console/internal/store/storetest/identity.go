package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/login"
)

func testAPITokens(t *testing.T, open Open) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	s := open(store.Options{Now: func() time.Time { return now }})
	add := func(id, subject string, life time.Duration) {
		t.Helper()
		write(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.AddAPIToken(ctx, login.APIToken{
				ID: id, Hash: "hash of " + id, Subject: subject, Groups: []byte(`["dev"]`), Limits: []byte(`{}`),
				Creator: "user:ada", ExpireTime: now.Add(life),
			})
		})
	}
	add("b", "user:bob", time.Hour)
	add("a", "user:bob", time.Minute)
	add("c", "user:serviceaccount:ci", time.Hour)
	get := func(id string) (login.APIToken, error) {
		var out login.APIToken
		err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
			out, err = v.APIToken(ctx, id)
			return err
		})
		return out, err
	}
	got, err := get("b")
	if err != nil || got.Hash != "hash of b" || string(got.Groups) != `["dev"]` || !got.CreateTime.Equal(now) ||
		!got.ExpireTime.Equal(now.Add(time.Hour)) || !got.LastUse.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := get("x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	ids := func(subject, after string, limit int) (out string) {
		for _, a := range read(t, s, func(ctx context.Context, v store.View) ([]login.APIToken, error) {
			return v.APITokens(ctx, subject, after, limit)
		}) {
			out += a.ID
		}
		return out
	}
	if all, page, bob := ids("", "", 10), ids("", "a", 1), ids("user:bob", "", 10); all != "abc" || page != "b" || bob != "ab" {
		t.Errorf("listed %s, %s, %s", all, page, bob)
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.UseAPIToken(ctx, "b"), tx.RevokeAPITokens(ctx, "", "user:bob"),
			tx.LoggedIn(ctx, "bob", "https://idp", "user:bob", []string{"ops"}))
	})
	if got, err := get("b"); err != nil || !got.LastUse.Equal(now) || !got.RevokeTime.Equal(now) || string(got.Groups) != `["ops"]` {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := get("c"); err != nil || !got.RevokeTime.IsZero() || string(got.Groups) != `["dev"]` {
		t.Errorf("somebody else's: %+v, %v", got, err)
	}
	now = now.Add(2 * time.Minute)
	add("d", "user:kim", time.Hour)
	if all := ids("", "", 10); all != "bcd" {
		t.Errorf("left are %s", all)
	}
}

func testLoginList(t *testing.T, open Open) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	s := open(store.Options{Now: func() time.Time { return now }})
	begun := func(id string, ago time.Duration) login.Login {
		return login.Login{
			ID: id, Subject: "user:ada", Client: "browser", Action: "login.link", Parent: "p", Program: "Firefox",
			BeginTime: now.Add(-ago), BeginAddress: "10.0.0.1", ExpireTime: now.Add(time.Hour),
		}
	}
	for _, l := range []login.Login{begun("a", 2*time.Minute), begun("b", time.Minute), begun("c", time.Minute)} {
		write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.AddLogin(ctx, l) })
	}
	other := begun("d", 0)
	other.Subject = "user:bob"
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.AddLogin(ctx, other) })
	list := func(after login.LoginPlace, limit int) (ids string) {
		for _, l := range read(t, s, func(ctx context.Context, v store.View) ([]login.Login, error) {
			return v.Logins(ctx, "user:ada", now, after, limit)
		}) {
			ids += l.ID
		}
		return ids
	}
	if all, page := list(login.LoginPlace{}, 10), list(login.LoginPlace{BeginTime: now.Add(-time.Minute), ID: "b"}, 1); all != "bca" || page != "c" {
		t.Errorf("listed %s and %s", all, page)
	}
	one := func(id string) (login.Login, error) {
		var out login.Login
		err := s.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
			out, err = v.Login(ctx, id)
			return err
		})
		return out, err
	}
	if got, err := one("a"); err != nil || got != begun("a", 2*time.Minute) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, id := range []string{"x", "a\x00"} {
		if _, err := one(id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}

	// A later use counts, an earlier one and an address that is not known do not; what is known of the beginning stays.
	used := begun("a", 0)
	used.Action, used.UseTime, used.UseAddress, used.ExpireTime = "", now.Add(time.Second), "10.0.0.2", now.Add(2*time.Hour)
	before, unknown := used, used
	before.UseTime, before.UseAddress, before.ExpireTime = now, "10.0.0.3", now.Add(time.Minute)
	unknown.UseTime, unknown.UseAddress = now.Add(2*time.Second), ""
	for _, l := range []login.Login{used, before, unknown} {
		write(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.NoteLogins(ctx, []login.Login{l, begun("c", time.Minute)})
		})
	}
	want := begun("a", 2*time.Minute)
	want.UseTime, want.UseAddress, want.ExpireTime = unknown.UseTime, "10.0.0.2", used.ExpireTime
	if got, err := one("a"); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}

	now = now.Add(90 * time.Minute)
	if left := list(login.LoginPlace{}, 10); left != "a" {
		t.Errorf("listed are %s", left)
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.AddLogin(ctx, begun("e", 0)) })
	if _, err := one("b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what has expired is kept: %v", err)
	}
}

func testLogins(t *testing.T, open Open) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	s := open(store.Options{Now: func() time.Time { return now }})
	anybody := func() bool {
		t.Helper()
		return read(t, s, func(ctx context.Context, v store.View) (bool, error) { return v.AnybodyLoggedIn(ctx) })
	}
	if anybody() {
		t.Error("somebody has logged in")
	}
	for _, hash := range []string{"one", "two"} {
		write(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.AddLoginLink(ctx, login.LoginLink{Hash: hash, Person: []byte(`{"name":"ada"}`), Expire: now.Add(time.Hour)})
		})
	}
	use := func(hash string) (person []byte, err error) {
		err = s.Write(t.Context(), "", func(ctx context.Context, tx *store.Tx) (err error) {
			person, err = tx.UseLoginLink(ctx, hash)
			return err
		})
		return person, err
	}
	if person, err := use("one"); err != nil || string(person) != `{"name":"ada"}` {
		t.Fatalf("got %s, %v", person, err)
	}
	now = now.Add(time.Hour)
	for _, hash := range []string{"one", "two", "three"} {
		if _, err := use(hash); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", hash, err)
		}
	}
	exchange := func(hash string) (first bool) {
		write(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
			first, err = tx.Exchange(ctx, hash, now.Add(time.Minute))
			return err
		})
		return first
	}
	if !exchange("x") || exchange("x") || !exchange("y") {
		t.Error("a foreign token is exchanged once")
	}
	now = now.Add(time.Hour)
	if !exchange("y") { // the token has expired by then
		t.Error("what has expired is kept")
	}
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.LoggedIn(ctx, "ada", "", "user:ada", nil) })
	if !anybody() {
		t.Error("nobody has logged in")
	}
}

func testAuditVolume(t *testing.T, open Open) {
	var trims []int64
	s := open(store.Options{AuditBytes: 20_000, AuditTrimmed: func(now time.Time, dropped int64) audittrail.Event {
		trims = append(trims, dropped)
		e := event(900_000+len(trims), "service:console", "", "audit.trimmed")
		e.Time = now
		return e
	}})
	volume := func() int64 {
		return read(t, s, func(ctx context.Context, v store.View) (int64, error) { return v.AuditVolume(ctx) })
	}
	const each = 256 + 7 // {"n":1}
	old := func(i int) audittrail.Event {
		e := event(i, "user:ada", "", "x")
		e.Time, e.Event = time.Now().AddDate(0, 0, -8).Add(time.Duration(i)*time.Second), []byte(`{"n":1}`)
		return e
	}
	appendAudit(t, s, old(1), old(2), old(2))
	appendAudit(t, s, old(2))
	if got := volume(); got != 2*each {
		t.Fatalf("two events take %d bytes, want %d", got, 2*each)
	}
	for i := 3; i <= 200; i++ {
		appendAudit(t, s, old(i))
	}
	left := auditIDs(t, s, audittrail.Filter{Action: "x"})
	if got := volume(); got > 20_000+2*each || len(left) == 0 || left[0] != fmt.Sprintf("%016d", 200) || len(trims) == 0 {
		t.Errorf("%d bytes, %d events are left, newest %v, trimmed %v", got, len(left), left[:min(len(left), 1)], trims)
	}
	var gone int64
	for _, n := range trims {
		gone += n
	}
	if told := auditIDs(t, s, audittrail.Filter{Action: "audit.trimmed"}); gone+int64(len(left)) != 200 || len(told) != len(trims) {
		t.Errorf("%d went by %d trims, of which %d were told; %d are left", gone, len(trims), len(told), len(left))
	}
	// An event that is younger than a week stays, whatever it takes.
	for i := 1000; i < 1100; i++ {
		appendAudit(t, s, event(i, "user:ada", "", "young"))
	}
	if young := auditIDs(t, s, audittrail.Filter{Action: "young"}); len(young) != 100 {
		t.Errorf("%d of 100 young events are left", len(young))
	}
}
