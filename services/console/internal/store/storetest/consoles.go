package storetest

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

func testConsoles(t *testing.T, open Open) {
	s := open(store.Options{})
	started := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	one := database.Console{ID: "1", Name: "b:7400", Version: "v2", Started: started}
	other := database.Console{ID: "2", Name: "a:7400", Version: "v1", Started: started.Add(time.Hour)}
	keep := func(c database.Console) {
		t.Helper()
		if err := s.KeepConsole(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want ...database.Console) {
		t.Helper()
		got, err := s.Consoles(t.Context())
		if err != nil || !slices.EqualFunc(got, want, func(a, b database.Console) bool {
			return a.ID == b.ID && a.Name == b.Name && a.Version == b.Version && a.Started.Equal(b.Started)
		}) {
			t.Errorf("%s: got %+v, %v, want %+v", what, got, err, want)
		}
	}
	rows := func() (n int) {
		t.Helper()
		if err := s.Databases()["catalog"].QueryRowContext(t.Context(), "SELECT COUNT(*) FROM consoles").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	want("none has said so")
	keep(one)
	keep(other)
	keep(one)
	want("both", other, one)
	// The other one was killed: it has said nothing for a minute.
	if _, err := s.Databases()["catalog"].ExecContext(t.Context(), "UPDATE consoles SET seen_time = seen_time - 60000000 WHERE id = '2'"); err != nil {
		t.Fatal(err)
	}
	want("one is killed", one)
	keep(one)
	if n := rows(); n != 1 {
		t.Errorf("%d rows are left", n)
	}
	keep(other)
	want("it is back", other, one)
	if err := s.RemoveConsole(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	want("one has ended", other)
	if about, err := s.About(t.Context()); err != nil || !about.LastWrite.Time.IsZero() {
		t.Errorf("signs of life count as writes: %+v, %v", about.LastWrite, err)
	}
}
