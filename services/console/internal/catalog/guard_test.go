package catalog

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// What the guard let go counts for ten minutes, and against its own global service only.
func TestTheGuardCountsDeletionsOfTenMinutes(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	now := begin
	s, err := store.New("sqlite:"+filepath.Join(t.TempDir(), "console.db"),
		store.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	global := resource.GlobalService{Meta: state.Meta{Name: "logs"}, Spec: resource.GlobalSpec{MaxDeletions: 5}}
	for after, gone := range map[time.Duration]int{0: 2, 4 * time.Minute: 3} {
		now = begin.Add(after)
		if err := s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
			return tx.CountDeletions(ctx, "logs-uid", gone, begin.Add(-time.Hour))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		uid   string
		after time.Duration
		want  int
	}{
		{"logs-uid", 4 * time.Minute, 0},
		{"logs-uid", 10*time.Minute - time.Second, 0},
		{"logs-uid", 10 * time.Minute, 2},
		{"logs-uid", 14*time.Minute - time.Second, 2},
		{"logs-uid", 14 * time.Minute, 5},
		{"other-uid", 4 * time.Minute, 5},
	} {
		if err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			got, err := budget(ctx, v, tc.uid, global, begin.Add(tc.after))
			if got != tc.want {
				t.Errorf("of %s %d may go after %v, want %d", tc.uid, got, tc.after, tc.want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
