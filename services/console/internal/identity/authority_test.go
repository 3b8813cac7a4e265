package identity

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/hubsecret"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
)

const secret = "the hub secret of this test"

func newAuthority(t *testing.T) (*Authority, *store.Store) {
	t.Helper()
	return newAuthorityAt(t, time.Now)
}

// newAuthorityAt is newAuthority with a clock.
func newAuthorityAt(t *testing.T, now func() time.Time) (*Authority, *store.Store) {
	t.Helper()
	dir := t.TempDir()
	s, err := store.New("sqlite:"+filepath.Join(dir, "console.db"), store.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	box, err := seal.Ensure(filepath.Join(dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	a := New(s, box, hubsecret.Text(secret), log, now)
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, s
}

// A database that hangs must not keep hub services from their tokens and their trust bundle.
func TestAHungDatabaseKeepsNobodyFromWhatIsKnown(t *testing.T) {
	t.Parallel()
	a, s := newAuthority(t)
	pool := s.Databases()["catalog_read"]
	most := pool.Stats().MaxOpenConnections

	// Every connection is busy for as long as the test likes.
	release := make(chan struct{})
	var busy sync.WaitGroup
	for range most {
		busy.Go(func() {
			_ = s.Read(context.WithoutCancel(t.Context()), func(context.Context, store.View) error {
				<-release
				return nil
			})
		})
	}
	reloaded := make(chan error, 1)
	defer func() {
		close(release)
		busy.Wait()
		if err := <-reloaded; err != nil {
			t.Error(err)
		}
	}()
	until := time.Now().Add(time.Minute)
	for pool.Stats().InUse < most && time.Now().Before(until) {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the pool tells nobody
	}
	go func() { reloaded <- a.Reload(context.WithoutCancel(t.Context())) }()
	for pool.Stats().WaitCount == 0 && time.Now().Before(until) {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the pool tells nobody
	}

	done := make(chan error, 1)
	go func() {
		_, err := a.ExchangeHubSecret(t.Context(), audit.Who{}, "peer", secret, platform.Identity{
			Kind: platform.KindService, Name: platform.ServiceTunnel,
		})
		if len(a.Bundle().Keys) == 0 {
			t.Error("no keys")
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("waits for the database")
	}
}

func TestFirstLinkIsGoodOnlyUntilSomebodyHasLoggedIn(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	first, _, err := a.FirstLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, _, err := a.FirstLink(t.Context()) // of a console that starts at the same time
	if err != nil {
		t.Fatal(err)
	}
	if late != first {
		t.Errorf("another console prints %q, the first one %q", late, first)
	}
	made, err := a.CreateLoginLink(t.Context(), audit.Console(), "kim", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", first); err != nil {
		t.Fatal(err)
	}
	if _, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", late); err == nil {
		t.Error("a link that was printed is good after somebody has logged in")
	}
	if after, _, err := a.FirstLink(t.Context()); err != nil || after != "" {
		t.Errorf("after a login the console prints %q, %v", after, err)
	}
	if _, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", made); err != nil {
		t.Errorf("a link that an administrator made: %v", err)
	}
}

// A test of an installation right after it was made logs in before any person does.
func TestLoginOfAProgramDoesNotEndTheFirstLink(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	first, _, err := a.FirstLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	as := platform.Identity{Kind: platform.KindUser, Name: "helm-test", Groups: []string{platform.AdminsGroup}}
	token, err := a.LogInProgram(t.Context(), audit.Who{}, "peer", secret, as)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Verify(token.Text); err != nil || got.Name != "helm-test" {
		t.Errorf("the program's token: %v, %v", got, err)
	}
	if after, _, err := a.FirstLink(t.Context()); err != nil || after != first {
		t.Errorf("after a program's login the console prints %q, before %q, %v", after, first, err)
	}
	if _, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", first); err != nil {
		t.Error(err)
	}
}

func TestFirstLinkIsGoodForTenMinutes(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	a, _ := newAuthorityAt(t, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })
	first, _, err := a.FirstLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(3 * time.Minute))
	if later, good, err := a.FirstLink(t.Context()); err != nil || later == first || good != linkLifetime {
		t.Errorf("a restart has the link of before: %v, good for %s", err, good)
	}
	passed.Store(int64(10*time.Minute + time.Second))
	if _, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", first); err == nil {
		t.Error("a link that makes an administrator of anybody is good after 10 minutes")
	}
}

func TestLoginLinkIsGoodForTenMinutesAtMost(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	a, _ := newAuthorityAt(t, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })
	for _, test := range []struct {
		asked, good, bad time.Duration
	}{
		{0, 10*time.Minute - time.Second, 10*time.Minute + time.Second},
		{time.Hour, 10*time.Minute - time.Second, 10*time.Minute + time.Second},
		{time.Minute, time.Minute - time.Second, time.Minute + time.Second},
	} {
		for after, want := range map[time.Duration]bool{test.good: true, test.bad: false} {
			passed.Store(0)
			made, err := a.CreateLoginLink(t.Context(), audit.Console(), "kim", nil, test.asked)
			if err != nil {
				t.Fatal(err)
			}
			passed.Store(int64(after))
			if _, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", made); (err == nil) != want {
				t.Errorf("asked for %s, used after %s: %v", test.asked, after, err)
			}
		}
	}
}

// A login by an identity provider is over after 12 hours, though its owner has also logged in by a link since: the
// provider may have shut the person out.
func TestALoginByAProviderIsOverAfterTwelveHours(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	a, _ := newAuthorityAt(t, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })
	login, err := a.LogIn(t.Context(), audit.Who{}, Command, Foreign{
		Name: "kim", Issuer: "https://idp.example.com", Unique: "1", Expire: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	code, err := a.CreateLoginLink(t.Context(), audit.Console(), "kim", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	byLink, err := a.UseLoginLink(t.Context(), audit.Who{}, Command, "peer", code)
	if err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(11 * time.Hour))
	renewed, err := a.Renew(t.Context(), login.Identity, Loan{})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(renewed.Identity.ExpiresAt); left > time.Hour {
		t.Errorf("after 11 hours it was renewed for %s", left)
	}
	passed.Store(int64(12 * time.Hour))
	_, err = a.Renew(t.Context(), renewed.Identity, Loan{})
	if !refusal.Is(err, refusal.Unauthenticated) || !strings.Contains(err.Error(), "the login is over") {
		t.Errorf("after 12 hours: %v", err)
	}
	if _, err := a.Renew(t.Context(), byLink.Identity, Loan{}); err != nil {
		t.Errorf("the login by a link: %v", err)
	}
}

// An API token of a person has an end of its own: until then it is lent, and a session that it began goes on, though the
// person's login is over.
func TestAnAPITokenOutlivesTheLogin(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	a, _ := newAuthorityAt(t, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })
	login, err := a.LogIn(t.Context(), audit.Who{}, Command, Foreign{
		Name: "kim", Issuer: "https://idp.example.com", Unique: "1", Expire: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := a.CreateAPIToken(t.Context(), audit.Who{Identity: login.Identity}, login.Identity, nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(13 * time.Hour))
	program, err := a.Verify(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(t.Context(), program, Loan{Lifetime: time.Minute}); err != nil {
		t.Errorf("it is not lent: %v", err)
	}
	session, err := a.Session(t.Context(), audit.Who{}, program, ActionSession)
	if err == nil {
		_, err = a.Session(t.Context(), audit.Who{}, session.Identity, ActionSession)
	}
	if err != nil {
		t.Errorf("the session that it begins does not go on: %v", err)
	}
	if _, err := a.Renew(t.Context(), login.Identity, Loan{Lifetime: time.Minute}); err == nil {
		t.Error("the token of the login is lent")
	}
}

func TestTokenOfOtherBytesIsRefusedAndCounted(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	for range failureBurst {
		if _, err := a.VerifyFrom("192.0.2.1:99", apiTokenPrefix+"\xff_"); !errors.Is(err, platform.ErrInvalid) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := a.VerifyFrom("192.0.2.1:99", apiTokenPrefix+"\xff_"); !errors.Is(err, platform.ErrThrottled) {
		t.Errorf("got %v", err)
	}
}

// Consoles of one database that start at the same moment tell people one link.
func TestConsolesThatStartAtOncePrintOneLink(t *testing.T) {
	t.Parallel()
	a, s := newAuthority(t)
	const consoles = 4
	links := make([]string, consoles)
	var starting sync.WaitGroup
	for i := range consoles {
		starting.Go(func() {
			other := New(s, a.box, a.hubSecret, a.log, nil)
			code, _, err := other.FirstLink(t.Context())
			if err != nil {
				t.Error(err)
			}
			links[i] = code
		})
	}
	starting.Wait()
	for _, link := range links {
		if link != links[0] || link == "" {
			t.Errorf("the links are %q", links)
			break
		}
	}
}
