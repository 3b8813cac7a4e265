package identity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
)

func secret() *hubsecret.File { return hubsecret.Text(hubSecret) }

// runCredential runs a credential until the returned function is called.
func runCredential(t *testing.T, dir string, client consolev1connect.IdentityServiceClient,
	log *slog.Logger,
) (*identity.ServiceCredential, func()) {
	t.Helper()
	k, err := identity.NewServiceCredential(identity.ServiceCredentialConfig{Dir: dir, Service: identity.ServiceGitcache, Secret: secret()},
		client, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	return k, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (c *console) counts() (exchanges, renewals, polls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchanges, c.renewals, c.polls
}

func ready(t *testing.T, k *identity.ServiceCredential) {
	t.Helper()
	began := time.Now()
	for k.Ready() != nil {
		if time.Since(began) > 90*time.Second { // the longest pause between two tries, and a poll
			t.Fatal(k.Ready())
		}
		<-time.After(10 * time.Millisecond)
	}
}

// unavailable returns a new error each time: connect changes the ones it carries.
func unavailable() error {
	return connect.NewError(connect.CodeUnavailable, errors.New("console is down"))
}

func TestServiceCredentialGetsReadyAndKeepsItsTokenFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		k, stop := runCredential(t, t.TempDir(), c.serve(t), discard())
		defer stop()
		// A call that comes first waits for the token.
		if _, err := k.Token(t.Context()); err != nil {
			t.Error(err)
		}
		ready(t, k)
		for range 2 * 24 {
			<-time.After(time.Hour)
			token, err := k.Token(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id, err := k.Verify(token)
			if err != nil || id.Subject() != "service:gitcache" {
				t.Fatalf("own token: %+v, %v", id, err)
			}
			if left := time.Until(id.ExpiresAt); left < identity.ServiceLifetime*2/3-2*time.Minute {
				t.Errorf("token has only %s left", left)
			}
		}
		exchanges, renewals, polls := c.counts()
		if exchanges != 1 || renewals < 5 || renewals > 9 {
			t.Errorf("%d exchanges and %d renewals in two days", exchanges, renewals)
		}
		if perHour := polls / (2 * 24); perHour < 300 || perHour > 400 {
			t.Errorf("%d polls an hour", perHour)
		}
	})
}

func TestRevocationIsSeenWithin30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		k, stop := runCredential(t, t.TempDir(), c.serve(t), discard())
		defer stop()
		ready(t, k)
		agent := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
		if _, err := k.Verify(agent); err != nil {
			t.Fatal(err)
		}
		c.change(func() {
			c.revoked = append(c.revoked, identity.Revocation{Subject: "agent:edge-1", At: time.Now()})
		})
		// The rest of the 30 s belongs to a slow call and to the next check of a stream.
		<-time.After(30*time.Second - 5*time.Second - identity.RecheckInterval)
		if _, err := k.Verify(agent); !errors.Is(err, identity.ErrRevoked) {
			t.Errorf("after 15 s: %v", err)
		}
	})
}

func TestServiceCredentialWorksFromDiskWithTheConsoleDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		client := c.serve(t)
		dir := filepath.Join(t.TempDir(), "identity")
		k, stop := runCredential(t, dir, client, discard())
		ready(t, k)
		agent := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
		bad := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-2"}, time.Hour)
		c.change(func() { c.revoked = []identity.Revocation{{Subject: "agent:edge-2", At: time.Now()}} })
		<-time.After(20 * time.Second)
		stop()
		for _, name := range []string{"token", "trust-bundle.json"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("folder: %v, %v", info, err)
		}
		// A file that a crash within a write leaves behind goes.
		left := filepath.Join(dir, ".trust-bundle.json.tmp-123")
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}

		c.change(func() { c.down = unavailable })
		k, stop = runCredential(t, dir, client, discard())
		defer stop()
		if err := k.Ready(); err != nil {
			t.Fatalf("at once: %v", err)
		}
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("temporary file: %v", err)
		}
		<-time.After(10 * time.Minute)
		if _, err := k.Verify(agent); err != nil {
			t.Error(err)
		}
		if _, err := k.Verify(bad); !errors.Is(err, identity.ErrRevoked) {
			t.Errorf("revoked before the restart: %v", err)
		}
		token, err := k.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Verify(token); err != nil {
			t.Errorf("own token: %v", err)
		}
		if err := k.Ready(); err != nil {
			t.Error(err)
		}
	})
}

func TestServiceCredentialStartsBeforeTheConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		c.change(func() { c.down = unavailable })
		k, stop := runCredential(t, t.TempDir(), c.serve(t), discard())
		defer stop()
		agent := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
		if _, err := k.Verify(agent); !errors.Is(err, identity.ErrNotReady) {
			t.Errorf("verify: %v", err)
		}
		began := time.Now()
		if _, err := k.Token(t.Context()); !errors.Is(err, identity.ErrNoToken) ||
			!strings.Contains(err.Error(), "console is down") {
			t.Errorf("token: %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a call waited %s for its token", took)
		}
		if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "console is down") {
			t.Errorf("ready: %v", err)
		}
		<-time.After(10 * time.Second)
		c.change(func() { c.down = nil })
		ready(t, k)
	})
}

func TestServiceCredentialKnowsARotatedKeyBeforeItSigns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		k, stop := runCredential(t, t.TempDir(), c.serve(t), discard())
		defer stop()
		ready(t, k)
		c.change(func() {
			var err error
			if c.keys, _, err = c.keys.Rotate(); err != nil {
				t.Error(err)
			}
		})
		for range 100 {
			token := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
			if _, err := k.Verify(token); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
	})
}

// The console lost its keys (make up ARGS=--empty): services come back by themselves, soon.
func TestServiceCredentialSurvivesANewConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		dir := t.TempDir()
		k, stop := runCredential(t, dir, c.serve(t), discard())
		ready(t, k)
		stop()
		other := newConsole(t)
		k, stop = runCredential(t, dir, other.serve(t), discard())
		defer stop()
		agent := other.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
		<-time.After(30 * time.Second)
		if _, err := k.Verify(agent); err != nil {
			t.Errorf("the new console's tokens: %v", err)
		}
		if exchanges, _, _ := other.counts(); exchanges != 1 {
			t.Errorf("%d exchanges", exchanges)
		}
	})
}

// Anybody can make up tokens with unknown keys: they cost the console one poll a second at most.
func TestUnknownKeysDoNotFloodTheConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, stranger := newConsole(t), newConsole(t)
		k, stop := runCredential(t, t.TempDir(), c.serve(t), discard())
		defer stop()
		ready(t, k)
		_, _, before := c.counts()
		token := stranger.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
		for range 10_000 { // 100 s
			if _, err := k.Verify(token); !errors.Is(err, identity.ErrInvalid) {
				t.Fatal(err)
			}
			<-time.After(10 * time.Millisecond)
		}
		_, _, after := c.counts()
		if polls := after - before; polls < 20 || polls > 101 {
			t.Errorf("%d polls in 100 s", polls)
		}
	})
}

func TestServiceCredentialWithTheWrongSecretSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		var log bytes.Buffer
		const wrong = "not the hub's secret at all"
		k, err := identity.NewServiceCredential(identity.ServiceCredentialConfig{
			Dir: t.TempDir(), Service: identity.ServiceTunnel, Secret: hubsecret.Text(wrong),
		}, c.serve(t), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		<-time.After(10 * time.Minute)
		if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "hub secret") ||
			strings.Contains(err.Error(), wrong) {
			t.Errorf("ready: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if exchanges, _, _ := c.counts(); exchanges > 40 {
			t.Errorf("%d exchanges in 10 minutes", exchanges)
		}
		if strings.Contains(log.String(), wrong) || strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("log:\n%s", &log)
		}
	})
}

type notFound struct{}

func (notFound) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	http.NotFound(w, r)
	return w.Result(), nil
}

func TestServiceCredentialSaysThatTheURLIsOfNoConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := consolev1connect.NewIdentityServiceClient(&http.Client{Transport: notFound{}}, "http://distributor")
		k, err := identity.NewServiceCredential(identity.ServiceCredentialConfig{
			Dir: t.TempDir(), Service: identity.ServiceTunnel, Secret: secret(),
		}, client, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		<-time.After(time.Minute)
		if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "--console-url leads to something else") {
			t.Errorf("ready: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestServiceCredentialIgnoresABrokenDisk(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"garbage": "\x00garbage", "empty": "", "no keys": `{"keys":{"keys":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				for _, file := range []string{"token", "trust-bundle.json"} {
					if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				c := newConsole(t)
				k, stop := runCredential(t, dir, c.serve(t), discard())
				defer stop()
				ready(t, k)
			})
		})
	}
}

// The disk refuses (a folder is where the files should be): the service works on from memory.
func TestServiceCredentialWithoutDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, file := range []string{"token", "trust-bundle.json"} {
			if err := os.MkdirAll(filepath.Join(dir, file, "in the way"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c := newConsole(t)
		k, stop := runCredential(t, dir, c.serve(t), discard())
		defer stop()
		<-time.After(time.Minute)
		if err := k.Ready(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "trust-bundle.json")); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second)
		if _, err := os.ReadFile(filepath.Join(dir, "trust-bundle.json")); err != nil {
			t.Errorf("not written once the disk is good again: %v", err)
		}
	})
}

func TestNewServiceCredentialRefuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []identity.ServiceCredentialConfig{
		{Service: identity.ServiceTunnel, Secret: secret()},
		{Dir: "x", Secret: secret()},
		{Dir: "x", Service: "agent", Secret: secret()},
		{Dir: "x", Service: identity.ServiceTunnel},
	} {
		if _, err := identity.NewServiceCredential(cfg, nil, discard()); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func renewer(t *testing.T, c *console, file string,
	obtain func(context.Context) (string, error),
) (*identity.TokenFile, *identity.Renewer, func()) {
	t.Helper()
	tokens := identity.NewTokenFile(file)
	r := identity.NewRenewer(identity.RenewerConfig{Tokens: tokens, Client: c.serve(t), Obtain: obtain, Log: discard()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return tokens, r, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An agent: its token comes from the disk, is renewed at a third of its life, and survives an
// outage of the console that is shorter than the rest.
func TestRenewerOfAnAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		const life = 9 * time.Hour // a week would take long to live through
		c.lifetime = life
		file := filepath.Join(t.TempDir(), "token")
		agent := identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}
		if err := identity.NewTokenFile(file).Store(c.token(agent, life)); err != nil {
			t.Fatal(err)
		}
		_, _, stop := renewer(t, c, file, nil)
		<-time.After(time.Hour)
		if _, renewals, _ := c.counts(); renewals != 0 {
			t.Error("renewed too early")
		}
		stop()
		// The age of a token counts over restarts.
		tokens, r, stop := renewer(t, c, file, nil)
		defer stop()
		<-time.After(life/3 - time.Hour + time.Minute)
		if _, renewals, _ := c.counts(); renewals != 1 {
			t.Errorf("%d renewals after a third of the life", renewals)
		}
		c.change(func() { c.down = unavailable })
		<-time.After(life * 9 / 10)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "console is down") {
			t.Errorf("problem: %v", err)
		}
		c.change(func() { c.down = nil })
		<-time.After(2 * time.Minute)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		token, err := tokens.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.verifier.Verify(token)
		if err != nil || time.Until(id.ExpiresAt) < life-5*time.Minute {
			t.Errorf("token after the outage: %+v, %v", id, err)
		}
		onDisk, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(onDisk)) != token {
			t.Errorf("the file holds another token (%v)", err)
		}
	})
}

func TestRenewerJoinsWhenItHasNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		var joins atomic.Int32
		tokens, r, stop := renewer(t, c, filepath.Join(t.TempDir(), "deep", "token"),
			func(context.Context) (string, error) {
				if joins.Add(1) < 3 {
					return "", fmt.Errorf("join: %w", unavailable())
				}
				return c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour), nil
			})
		defer stop()
		<-time.After(time.Minute)
		if _, err := tokens.Token(t.Context()); err != nil || r.Err() != nil || joins.Load() != 3 {
			t.Errorf("%d joins, %v, %v", joins.Load(), err, r.Err())
		}
	})
}

// A revoked token can't be renewed: the renewer says so, keeps asking slowly, and goes on when it
// was given another.
func TestRenewerOfARevokedAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		file := filepath.Join(t.TempDir(), "token")
		agent := identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}
		if err := identity.NewTokenFile(file).Store(c.token(agent, time.Hour)); err != nil {
			t.Fatal(err)
		}
		c.change(func() { c.revoked = []identity.Revocation{{Subject: "agent:edge-1", At: time.Now()}} })
		tokens, r, stop := renewer(t, c, file, nil)
		defer stop()
		<-time.After(time.Hour)
		if err := r.Err(); connect.CodeOf(err) != connect.CodeUnauthenticated ||
			!strings.Contains(err.Error(), "new join token") {
			t.Errorf("problem: %v", err)
		}
		if err := tokens.Store(c.token(agent, time.Hour)); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	})
}

// brokenConsole answers with something that is no token.
type brokenConsole struct {
	consolev1connect.IdentityServiceClient
	asked int
}

func (b *brokenConsole) RenewToken(context.Context,
	*consolev1.RenewTokenRequest,
) (*consolev1.RenewTokenResponse, error) {
	b.asked++
	return &consolev1.RenewTokenResponse{Token: &consolev1.Token{Token: "garbage"}}, nil
}

func TestRenewerKeepsItsTokenWhenTheAnswerIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t)
		tokens := identity.NewTokenFile(filepath.Join(t.TempDir(), "token"))
		good := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
		if err := tokens.Store(good); err != nil {
			t.Fatal(err)
		}
		broken := &brokenConsole{}
		r := identity.NewRenewer(identity.RenewerConfig{Tokens: tokens, Client: broken, Log: discard()})
		r.Kick()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if token, err := tokens.Token(t.Context()); token != good || err != nil {
			t.Errorf("the good token is gone: %v", err)
		}
		if r.Err() == nil || broken.asked > 300 {
			t.Errorf("asked %d times in an hour: %v", broken.asked, r.Err())
		}
	})
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	tokens := identity.NewTokenFile(file)
	if _, err := tokens.Token(t.Context()); !errors.Is(err, identity.ErrNoToken) {
		t.Errorf("without a file: %v", err)
	}
	for _, bad := range []string{"", "garbage", "a.b.c", strings.Repeat("x", 1<<20)} {
		if err := tokens.Store(bad); err == nil || (len(bad) > 3 && strings.Contains(err.Error(), bad)) {
			t.Errorf("store of %.20q: %v", bad, err)
		}
	}
	token := c.token(identity.Identity{Kind: identity.KindUser, Name: "ann"}, time.Hour)
	// Written by somebody else, with a line's end.
	if err := os.WriteFile(file, []byte(token+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := tokens.Token(t.Context()); got != token || err != nil {
		t.Errorf("%v", err)
	}
	if err := tokens.Store(token); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v", entries, err)
	}
	if got, err := identity.StaticToken(token).Token(t.Context()); got != token || err != nil {
		t.Error(err)
	}
	if _, err := identity.StaticToken("").Token(t.Context()); !errors.Is(err, identity.ErrNoToken) {
		t.Error(err)
	}
}
