package catalog_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store/storetest"
)

// A hold and a pin whose times have come end together, and nobody is warned of a lever that stays.
func TestLeversThatEndTogetherLeaveNoWarning(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	now := time.Now()
	c := catalog.New(authz.New(s, nil), catalog.Deps{
		Store: s, Box: box, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now },
	})
	by := catalog.Self("test")
	source := state.Source{Meta: state.Meta{Name: "shop"}}
	source.Spec.Git.URL = "https://git.example.com/shop"
	if _, err := c.PutAll(t.Context(), by, []catalog.Edit{
		drafted(catalog.DraftSource(&source, whatever)), cluster("edge-1"),
		drafted(catalog.DraftService(&state.Service{
			Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{Source: "shop", Cluster: "edge-1"},
		}, whatever)),
	}, false); err != nil {
		t.Fatal(err)
	}
	until := now.Add(time.Hour)
	if _, err := c.Hold(t.Context(), by, "web", state.ModeHold, "the sale", until); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pin(t.Context(), by, "web", strings.Repeat("a", 40), "", false, until); err != nil {
		t.Fatal(err)
	}
	now = until
	if err := c.EndLevers(t.Context()); err != nil {
		t.Fatal(err)
	}
	web, err := c.GetService(t.Context(), "web")
	if levers := state.LeversOf(&web); err != nil || levers != nil && (levers.Mode != nil || levers.Pin != nil) {
		t.Errorf("levers stay: %+v, %v", levers, err)
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("warned of:\n%s", log.String())
	}
}
