package acceptance

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
)

// awaitSealed waits until a key file alone opens everything.
func (h *hub) awaitSealed(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	box, err := seal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		left := 0
		err := s.RenewSealed(ctx, func(v store.Sealed) ([]byte, error) {
			// Of another purpose: damaged, it says, if only the key is known.
			if _, err := box.Renew("", v.Value); err != nil {
				left++
			}
			return nil, nil
		})
		if err == nil && left == 0 {
			return
		}
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d values are still sealed with the older key: %v", left, err)
		case <-ticker.C:
		}
	}
}

func TestMasterKeyIsRotated(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db)
			file := filepath.Join(h.dir, "master.key")
			files := t.TempDir()
			put(t, files, "a.yaml", "pw: hunter5\n")
			r := h.withFiles(t, files)
			r.admin(t).must(t, newSource("shop"), newCluster("edge-1"), newSecret("pw", "password", "hunter2"),
				newBackend("files"),
				configured(newService("web", "shop",
					"edge-1"), nil, settings{
					"own": secretOf("hunter3"), "pw": refTo("pw", "password"),
					"file": fromBackend("files", "a.yaml", "pw"),
				}))
			await.True(t, "the file is read", func() bool { return r.admin(t).revisions(t)["web"] != "held" })
			revision := r.admin(t).revisions(t)["web"]
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			next := base64.StdEncoding.EncodeToString([]byte("another key of thirty-two bytes!")) + "\n"
			r.stop()
			if err := os.WriteFile(file, append([]byte(next), old...), 0o600); err != nil {
				t.Fatal(err)
			}
			r = h.start(t) // without the files: what was read of them is kept
			r.admin(t).must(t, newSecret("meanwhile", "a", "hunter4"))
			h.awaitSealed(t, next)
			r.stop()
			if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
				t.Fatal(err)
			}
			r = h.start(t)
			got, err := r.admin(t).services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
			if err != nil || got.GetService().GetStatus().GetConfigRevision() != revision {
				t.Fatalf("got %v, %v", got, err)
			}
			values := r.service(t, identity.ServiceDistributor).values(t, got.GetService().GetMetadata().GetUid(),
				revision)
			if values["own"] != "hunter3" || values["pw"] != "hunter2" || values["file"] != "hunter5" {
				t.Errorf("got %v", values)
			}
			admin := r.admin(t)
			admin.must(t, configured(newService("late", "shop",
				"edge-1"), nil, settings{"file": fromBackend("files", "a.yaml", "pw")}))
			if got := admin.current(t, r.service(t, identity.ServiceDistributor), "late")["file"]; got != "hunter5" {
				t.Errorf("what was read before opens as %q", got)
			}
		})
	}
}
