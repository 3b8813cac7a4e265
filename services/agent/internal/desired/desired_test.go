package desired_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/services/agent/internal/desired"
)

func open(t *testing.T, dir string) *desired.Store {
	t.Helper()
	store, err := desired.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestWhatIsWantedSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Update([]desired.Service{{Name: "a", Digest: "1"}, {Name: "b", Digest: "1"}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := store.Update([]desired.Service{{Name: "a", Digest: "2"}}, []string{"b"}, 0); err != nil {
		t.Fatal(err)
	}
	store = open(t, dir)
	if a, want := store.Get("a"); want != desired.Apply || a.Digest != "2" {
		t.Errorf("a: %v %v", a, want)
	}
	if _, want := store.Get("b"); want != desired.Remove {
		t.Errorf("b: %v", want)
	}
	if digests := store.Digests(); len(digests) != 1 || digests["a"] != "2" {
		t.Errorf("the agent claims to have %v", digests)
	}
	if err := store.Forget("b"); err != nil {
		t.Fatal(err)
	}
	if _, want := open(t, dir).Get("b"); want != desired.Nothing {
		t.Errorf("b after it was forgotten: %v", want)
	}
}

func TestServiceThatIsWantedAgainIsNotRemoved(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	for _, err := range []error{
		store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0), store.Update(nil, []string{"a"}, 0),
		store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0), store.Forget("a"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, want := store.Get("a"); want != desired.Apply {
		t.Errorf("a: %v", want)
	}
}

func TestDamagedRecordIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "desired.json"), []byte(`{"services":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if names := open(t, dir).Names(); len(names) != 0 {
		t.Errorf("got %v", names)
	}
	if _, err := os.Stat(filepath.Join(dir, "desired.json.damaged")); err != nil {
		t.Error(err)
	}
}
