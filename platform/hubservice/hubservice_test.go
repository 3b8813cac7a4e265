package hubservice_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
)

// newReplica makes one whose console can't be reached.
func newReplica(t *testing.T) *hubservice.Replica {
	t.Helper()
	r, err := hubservice.New(identity.ServiceTunnel, hubservice.Config{
		Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: t.TempDir(), ConsoleURL: "http://127.0.0.1:1",
		HubSecretFile: "/nowhere",
	}, hubservice.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two processes in one folder damage each other's files.
func TestADataFolderIsForOneReplica(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (*hubservice.Replica, error) {
		return hubservice.New(identity.ServiceTunnel, hubservice.Config{
			Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: dir, ConsoleURL: "http://127.0.0.1:1", HubSecretFile: "/nowhere",
		}, hubservice.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), dir+": another process works in it. End that process") {
		t.Errorf("a second replica: %v", err)
	}
	if err := first.Serve(nil, first.Ready); err != nil {
		t.Fatal(err)
	}
	ended := errors.New("ended")
	if err := first.Run(t.Context(), func(context.Context) error { return ended }); !errors.Is(err, ended) {
		t.Error(err)
	}
	if _, err := open(); err != nil {
		t.Errorf("after the first one: %v", err)
	}
}

func TestWhatFailsBehindTheListenerEndsAll(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	if err := r.Serve(nil, r.Ready); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	ended := false
	err := r.Run(t.Context(),
		func(context.Context) error { return broken },
		func(ctx context.Context) error {
			<-ctx.Done()
			ended = true
			return nil
		})
	if !errors.Is(err, broken) || !ended {
		t.Errorf("ended with %v, the other has ended: %v", err, ended)
	}
}

func TestWhatIsBehindTheListenerOutlivesIt(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	ctx, stop := context.WithCancel(t.Context())
	entered := make(chan struct{})
	var behind context.Context
	slow := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(entered)
		<-server.Draining(req.Context())
		if behind.Err() != nil {
			t.Error("ended before the last request")
		}
	})
	if err := r.Serve(nil, nil, server.HTTP("GET /slow", slow, identity.RoleOpen)); err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	started, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.Run(ctx, func(inner context.Context) error {
			behind = inner
			close(started)
			<-inner.Done()
			return nil
		})
	}()
	<-started
	answered := make(chan int, 1)
	go func() {
		res, err := http.Get(r.Advertised() + "/slow")
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	<-entered
	stop()
	if got := <-answered; got != http.StatusOK {
		t.Errorf("the last request got %d", got)
	}
	if err := <-done; err != nil || behind.Err() == nil {
		t.Errorf("ended with %v, what was behind with %v", err, behind.Err())
	}
}

func TestItLeavesWhileItServes(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{}, 1)
	quick := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served <- struct{}{} })
	if err := r.Serve(nil, nil, server.HTTP("GET /quick", quick, identity.RoleOpen)); err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	var behind context.Context
	left := false
	r.Leave = func(leaving context.Context) {
		left = true
		if deadline, ok := leaving.Deadline(); !ok || time.Until(deadline) > hubservice.LeaveTime {
			t.Error("it may take its time")
		}
		res, err := http.Get(r.Advertised() + "/quick")
		if err != nil {
			t.Errorf("not served any more: %v", err)
			return
		}
		res.Body.Close()
		<-served
		if behind.Err() != nil || leaving.Err() != nil {
			t.Error("what is behind the listener has ended")
		}
	}
	started := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, func(inner context.Context) error {
			behind = inner
			close(started)
			<-inner.Done()
			return nil
		})
	}()
	<-started
	stop()
	if err := <-done; err != nil || !left {
		t.Errorf("ended with %v, has left: %t", err, left)
	}
}

func TestWhoFailsDoesNotLeave(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	if err := r.Serve(nil, r.Ready); err != nil {
		t.Fatal(err)
	}
	r.Leave = func(context.Context) { t.Error("it hands over what it can't vouch for") }
	broken := errors.New("broken")
	if err := r.Run(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
}

func TestWithoutTheConsoleANewReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	if err := newReplica(t).Ready(); err == nil {
		t.Error("ready without identity and catalog")
	}
}

// Redis that refuses the login leaves a replica ready for what it has: whoever looks is told.
func TestAReplicaThatRedisRefusesSaysSo(t *testing.T) {
	t.Parallel()
	const scraper = "what Prometheus was given"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(scraper), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	for url, want := range map[string]string{
		redis.URL(): "ok\n",
		strings.Replace(redis.URL(), "unix://", "unix://fairlead:wrong@",
			1): "ok, but it can't agree with the other replicas: redis refuses the login: WRONGPASS",
	} {
		r, err := hubservice.New(identity.ServiceGitcache, hubservice.Config{
			Server: server.Config{Listen: "127.0.0.1:0", MetricsTokenFile: token}, DataDir: t.TempDir(),
			ConsoleURL: "http://127.0.0.1:1", HubSecretFile: "/nowhere", RedisURL: url,
		}, hubservice.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Serve(nil, func() error { return nil }), r.Listen()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+scraper)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(body), want) {
			t.Errorf("with %s: got %q, want %q", url, body, want)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	good := hubservice.Config{DataDir: "d", HubSecretFile: "s", ConsoleURL: "https://hub.example.com"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, spoil := range map[string]func(*hubservice.Config){
		"--data-dir":        func(c *hubservice.Config) { c.DataDir = "" },
		"--hub-secret-file": func(c *hubservice.Config) { c.HubSecretFile = "" },
		"--console-url":     func(c *hubservice.Config) { c.ConsoleURL = "https://user:hunter2@hub" },
		"--advertise-url":   func(c *hubservice.Config) { c.AdvertiseURL = "hub:7402" },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
