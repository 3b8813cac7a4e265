package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/backup"
)

const (
	packedDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	packedState  = `{"source":"one","ref":"refs/heads/main","digest":"` + packedDigest + `"}`
	packedID     = "01a220bcc4028e5bc8f423ad96cd6a1d"
)

// openAt opens the database of a file.
func openAt(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.New(url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// putState makes a service with a truth of the hub, and returns its uid.
func putState(t *testing.T, s *store.Store) string {
	t.Helper()
	var list []store.Resource
	err := s.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = tx.Create(ctx, store.Draft{Kind: store.KindService, Name: "web", Spec: []byte(packedState)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	uid := list[0].UID
	begin(t, s, uid, nil)
	return uid
}

// begin delivers packedDigest to a service whose truth was read, and says so in the audit trail.
func begin(t *testing.T, s *store.Store, uid string, read map[string][]byte) {
	t.Helper()
	event := audittrail.Event{ID: packedID, Time: time.Now(), Actor: "user:ada", Action: "catalog.create", Event: []byte(packedState)}
	if err := s.AppendAudit(t.Context(), []audittrail.Event{event}); err != nil {
		t.Fatal(err)
	}
	begun := []store.Deployment{{Service: uid, Digest: packedDigest, State: []byte(packedState), DeliverTime: time.Now()}}
	stepsOf := func(store.Report) ([]store.Step, error) { return nil, nil }
	_, err := s.PutHub(t.Context(), map[string][]byte{uid: []byte(packedState)}, read, nil, begun, stepsOf)
	if err != nil {
		t.Fatal(err)
	}
}

func sameStates(t *testing.T, s *store.Store, uid string) {
	t.Helper()
	err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		hub, err := v.Hub(ctx, []string{uid})
		if err != nil || string(hub[uid]) != packedState {
			t.Errorf("the hub's truth is %s, %v", hub[uid], err)
		}
		past, err := v.Revisions(ctx, uid, 2)
		if err != nil || len(past) != 1 || string(past[0].Spec) != packedState {
			t.Errorf("the history is %v, %v", past, err)
		}
		last, err := v.LastDeployments(ctx, []string{uid})
		if err != nil || string(last[uid].State) != packedState || last[uid].Digest != packedDigest {
			t.Errorf("the deployment is %v, %v", last, err)
		}
		trail, err := v.AuditAfter(ctx, audittrail.Filter{Action: "catalog.create"}, 0, 2)
		if err != nil || len(trail) != 1 || trail[0].ID != packedID {
			t.Errorf("the audit trail is %v, %v", trail, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// sameVolume checks that the audit trail's volume is that of its rows.
func sameVolume(t *testing.T, s *store.Store) {
	t.Helper()
	db := s.Databases()["catalog"]
	var counted, is int64
	err := db.QueryRowContext(t.Context(), "SELECT bytes, (SELECT CAST(SUM(LENGTH(event) + 256) AS BIGINT) FROM audit) FROM audit_volume").Scan(&counted, &is)
	if err != nil || counted != is {
		t.Errorf("the audit trail is said to take %d bytes, and takes %d, %v", counted, is, err)
	}
}

func typeOf(t *testing.T, db *sql.DB, query string) (kind string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT typeof("+query).Scan(&kind); err != nil {
		t.Fatal(err)
	}
	return kind
}

// Who upgraded a console may go back to the earlier one, which reads plain JSON only.
func TestOnlyADatabaseThatBeginsWithThisReleaseIsPacked(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "new.db")
	s := openAt(t, url)
	uid := putState(t, s)
	db := s.Databases()["catalog"]
	for _, column := range []string{"state) FROM hub", "spec) FROM revisions", "state) FROM deployments", "digest) FROM deployments", "id) FROM audit"} {
		if got := typeOf(t, db, column); got != "blob" {
			t.Errorf("%s is a %s", column, got)
		}
	}
	sameStates(t, s, uid)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, url)
	sameStates(t, s, uid)
	sameVolume(t, s)
	kept := &bytes.Buffer{}
	if err := backup.Write(t.Context(), s, kept); err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(kept.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(packed)
	if want := strings.ReplaceAll(packedState, `"`, `\"`); err != nil || strings.Count(string(text), want) != 5 {
		t.Errorf("a backup has to be plain: %s, %v", text, err)
	}

	// One that came from elsewhere is not.
	for name, to := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "restored.db"), "postgres": postgres.Database(t),
	} {
		restored, err := store.New(to, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = restored.Close() })
		if err := backup.Restore(t.Context(), restored, restoring(bytes.NewReader(kept.Bytes()))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sameStates(t, restored, uid)
		sameVolume(t, restored)
		if name == "sqlite" {
			db := restored.Databases()["catalog"]
			if got := typeOf(t, db, "state) FROM hub"); got != "text" {
				t.Errorf("a restored database has a %s", got)
			}
		}
	}
}

// What a cluster has is not delivered to it again, and what the audit trail has is not told again, also where a backup
// replaced what was packed.
func TestDigestsAreKnownAgain(t *testing.T) {
	t.Parallel()
	s := openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))
	uid := putState(t, s)
	check := func() {
		t.Helper()
		begin(t, s, uid, map[string][]byte{uid: []byte(packedState)})
		sameStates(t, s, uid)
		err := s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			if list, err := v.Deployments(ctx, uid, 0, 2); err != nil || len(list) != 1 {
				t.Errorf("the deployments are %v, %v", list, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	check()
	kept := &bytes.Buffer{}
	if err := backup.Write(t.Context(), s, kept); err != nil {
		t.Fatal(err)
	}
	again := restoring(kept)
	again.Replace = true
	if err := backup.Restore(t.Context(), s, again); err != nil {
		t.Fatal(err)
	}
	check()
}

// Plain and packed states stand side by side where a console went back and forth.
func TestATruthIsReplacedPlainOrPacked(t *testing.T) {
	t.Parallel()
	s := openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))
	uid := putState(t, s)
	replace := func(read, with string) []string {
		t.Helper()
		lost, err := s.PutHub(t.Context(), map[string][]byte{uid: []byte(with)}, map[string][]byte{uid: []byte(read)}, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	if lost := replace(`{"digest":"other"}`, `{}`); len(lost) != 1 {
		t.Error("a truth was replaced that nobody had read")
	}
	if lost := replace(packedState, packedState); len(lost) != 0 {
		t.Error("a packed truth was not replaced")
	}
	db := s.Databases()["catalog"]
	if _, err := db.ExecContext(t.Context(), "UPDATE hub SET state = $1", packedState); err != nil {
		t.Fatal(err)
	}
	if lost := replace(packedState, packedState); len(lost) != 0 {
		t.Error("a plain truth was not replaced")
	}
	// A list with other words packs the same text in another way; this one had none of them.
	if _, err := db.ExecContext(t.Context(), "UPDATE hub SET state = $1", []byte("\x01"+packedState)); err != nil {
		t.Fatal(err)
	}
	sameStates(t, s, uid)
	if lost := replace(packedState, `{}`); len(lost) != 0 {
		t.Error("a truth that another release packed was not replaced")
	}
}
