package acceptance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// readyz is the answer of a gitcache to a service of the hub, nil if it is ready.
func readyz(t *testing.T, f *fixture, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = identitytest.Header(t, identity.ServiceGitcache,
		f.console.token(t, identity.KindService, identity.ServiceDistributor), consoletest.HubSecret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	return err
}

// A replica whose disk was lost is ready once it has something again, and not before.
func TestALostDiskIsNotReadyUntilItIsFilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	commit := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	first := f.one()
	f.published("HEAD", commit)
	first.stop()

	started, resume := make(chan struct{}, 8), make(chan struct{})
	f.git.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost { // a list
			return false
		}
		started <- struct{}{}
		<-resume
		return false
	})
	s, err := gitcache.New(f.config(t.TempDir()), gitcache.Deps{
		Log:       slog.New(slog.NewTextHandler(logWriter{t}, nil)),
		Telemetry: telemetry.Discard(),
	})
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-started
	if err := readyz(t, f, s.URL()); err == nil || !strings.Contains(err.Error(), "fetched or copied") {
		t.Errorf("with nothing on its disk: %v", err)
	}
	close(resume)
	await.NoError(t, "the replica is ready", func() error { return readyz(t, f, s.URL()) })
	http.DefaultClient.CloseIdleConnections()
}
