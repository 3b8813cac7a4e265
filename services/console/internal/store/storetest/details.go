package storetest

import (
	"context"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/shown"
)

func testDetails(t *testing.T, open Open) {
	s := open(store.Options{})
	hello, other := create(t, s, draft(store.KindService, "hello", `{}`)), create(t, s, draft(store.KindService, "other", `{}`))
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	put := func(kind shown.DetailKind, service, digest string) {
		t.Helper()
		if err := s.PutDetail(t.Context(), kind, service, shown.Detail{Digest: digest, Time: at, Data: []byte("\x00" + digest)}); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(kind shown.DetailKind) map[string]shown.Detail {
		t.Helper()
		return read(t, s, func(ctx context.Context, v store.View) (map[string]shown.Detail, error) {
			return v.Details(ctx, kind, []string{hello.UID, other.UID, "gone"})
		})
	}
	put(shown.DetailObjects, hello.UID, "1")
	put(shown.DetailDiff, hello.UID, "1")
	put(shown.DetailObjects, hello.UID, "2")
	put(shown.DetailObjects, "gone", "1")
	got := kept(shown.DetailObjects)
	if d := got[hello.UID]; len(got) != 1 || d.Digest != "2" || string(d.Data) != "\x002" || !d.Time.Equal(at) {
		t.Errorf("kept %+v", got)
	}
	if got := kept(shown.DetailDiff); len(got) != 1 || got[hello.UID].Digest != "1" {
		t.Errorf("kept %+v", got)
	}
	put(shown.DetailDiff, other.UID, "3")
	write(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.ForgetReports(ctx, other.UID) })
	remove(t, s, hello)
	if objects, diffs := kept(shown.DetailObjects), kept(shown.DetailDiff); len(objects)+len(diffs) > 0 {
		t.Errorf("left over: %v %v", objects, diffs)
	}
}
