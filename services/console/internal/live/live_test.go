package live

import (
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}

// What another console writes while this one can't look, for however long, is not missed.
func TestStatusesOfLongAgoAreTakenIn(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := catalog.New(s, box, slog.New(slog.DiscardHandler), nil)
	cluster, _, err := c.UpdateCluster(t.Context(), catalog.Self("test"), catalog.Cluster{Meta: catalog.Meta{Name: "edge-1"}}, catalog.Expectation{AllowMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	uid := cluster.Meta.UID
	if err := s.PutSeen(t.Context(), map[string]store.Seen{uid: {SeenTime: time.Now(), State: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "UPDATE seen SET touch_time = touch_time - $1", (4 * store.MaxWrite).Microseconds()); err != nil {
		t.Fatal(err)
	}
	b := New(Deps{Store: s, Catalog: c, Log: slog.New(slog.DiscardHandler)})
	b.byUID[uid] = &row{kind: store.KindCluster, name: "edge-1", uid: uid}
	b.looked = b.Now().Add(-4 * store.MaxWrite)
	b.look(t.Context())
	if at := (store.Ref{Kind: store.KindCluster, Name: "edge-1"}); !b.later[at] {
		t.Errorf("to be read anew are %v", b.later)
	}
}
