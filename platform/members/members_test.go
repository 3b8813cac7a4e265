package members_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/members"
)

const hubSecret = "the secret of this hub"

func open(t *testing.T, url string) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func config() members.Config {
	return members.Config{
		Secret: hubsecret.Text(hubSecret), Plain: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	}
}

// listed are the ids in a group as a service sees it.
func listed(t *testing.T, c coordination.Coordinator, group string) string {
	t.Helper()
	all, err := c.Members(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range all {
		if ids = append(ids, m.ID); m.MAC != "" || m.Expires != 0 {
			t.Errorf("%s: the signature is listed, too", m.ID)
		}
	}
	return strings.Join(ids, " ")
}

func join(t *testing.T, c coordination.Coordinator, group string, m coordination.Member) {
	t.Helper()
	if err := c.Join(t.Context(), group, m, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// The store's password is no more than the right to write hints: what is in Redis is believed for its signature.
func TestWhoCanWriteToTheStoreForgesNoMember(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "Redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := ""
			if name == "Redis" {
				url = redistest.Start(t).URL()
			}
			store := open(t, url)
			hub := members.Authenticate(store, config())
			join(t, hub, "gitcache", coordination.Member{
				ID: "g1", URL: "https://g1", Meta: map[string]string{"a": "b", "c": "d"},
			})
			stored, err := store.Members(t.Context(), "gitcache")
			if err != nil || len(stored) != 1 || stored[0].MAC == "" {
				t.Fatalf("stored %+v, %v", stored, err)
			}
			copied := func(change func(*coordination.Member)) coordination.Member {
				m := stored[0]
				m.Meta = map[string]string{"a": "b", "c": "d"}
				change(&m)
				return m
			}
			for what, forged := range map[string]coordination.Member{
				"unsigned":    {ID: "evil", URL: "https://evil"},
				"another id":  copied(func(m *coordination.Member) { m.ID = "g2" }),
				"another URL": copied(func(m *coordination.Member) { m.ID, m.URL = "g1", "https://evil" }),
				"no URL":      copied(func(m *coordination.Member) { m.URL = "" }),
				"longer":      copied(func(m *coordination.Member) { m.Expires += 3600_000 }),
				"draining":    copied(func(m *coordination.Member) { m.Meta["draining"] = "1" }),
				"parts run together": copied(func(m *coordination.Member) {
					m.Meta = map[string]string{"a": "bc", "": "d"}
				}),
				"half a signature": copied(func(m *coordination.Member) { m.MAC = m.MAC[:20] }),
				"no base64":        copied(func(m *coordination.Member) { m.MAC = "!" }),
			} {
				group := "gitcache/" + what // a group for each; the copied signature is of another one
				join(t, store, group, forged)
				if got := listed(t, hub, group); got != "" {
					t.Errorf("%s: %s is listed", what, got)
				}
				if forged.ID == "g1" {
					join(t, store, "gitcache", forged)
					if got := listed(t, hub, "gitcache"); got != "" {
						t.Errorf("%s: %s is listed", what, got)
					}
				}
			}
			join(t, store, "tunnel", stored[0])
			if got := listed(t, hub, "tunnel"); got != "" {
				t.Errorf("a gitcache's record makes the tunnel %s", got)
			}
			join(t, hub, "gitcache", coordination.Member{ID: "g1", URL: "https://g1"})
			if got := listed(t, hub, "gitcache"); got != "g1" {
				t.Errorf("the service itself is listed as %q", got)
			}
		})
	}
}

func TestARecordThatWasKeptIsWorthNothingOnceItHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := open(t, "")
		hub := members.Authenticate(store, config())
		join(t, hub, "tunnel", coordination.Member{ID: "t1", URL: "https://t1"})
		kept, err := store.Members(t.Context(), "tunnel")
		if err != nil || len(kept) != 1 {
			t.Fatal(kept, err)
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{time.Minute, "t1"}, {2 * time.Minute, ""}} { // a minute for clocks
			<-time.After(step.after)
			join(t, store, "tunnel", kept[0])
			if got := listed(t, hub, "tunnel"); got != step.want {
				t.Errorf("written again after %s: %q", step.after, got)
			}
		}
	})
}

func TestPlainHTTPIsForServicesThatAreReachedSoThemselves(t *testing.T) {
	t.Parallel()
	store := open(t, "")
	secure, local := config(), config()
	local.Plain = func() bool { return true }
	for id, url := range map[string]string{
		"1-https": "https://g1:7401", "2-loopback": "http://127.0.0.1:7401", "3-other": "http://10.0.0.1:7401",
		"4-user": "https://u:p@g1", "5-name": "http://127.0.0.1.evil.example",
		"6-nothing": "https://", "7-entry": "",
	} {
		join(t, members.Authenticate(store, secure), "gitcache", coordination.Member{ID: id, URL: url})
	}
	if got := listed(t, members.Authenticate(store, secure), "gitcache"); got != "1-https 7-entry" {
		t.Errorf("with TLS: %q", got)
	}
	if got := listed(t, members.Authenticate(store, local), "gitcache"); got != "1-https 2-loopback 7-entry" {
		t.Errorf("on loopback: %q", got)
	}
}

// The switch is for one upgrade: with it what has no signature counts, and nothing that has a wrong one.
func TestTheSwitchForUnsignedMembersCloses(t *testing.T) {
	t.Parallel()
	store := open(t, "")
	upgrading := config()
	upgrading.Unsigned = true
	otherSecret := config()
	otherSecret.Secret = hubsecret.Text("the secret of another hub")
	join(t, store, "gitcache", coordination.Member{ID: "old", URL: "https://old"})
	join(t, members.Authenticate(store,
		otherSecret), "gitcache", coordination.Member{ID: "other", URL: "https://other"})
	join(t, members.Authenticate(store, config()), "gitcache", coordination.Member{ID: "new", URL: "https://new"})
	if got := listed(t, members.Authenticate(store, upgrading), "gitcache"); got != "new old" {
		t.Errorf("on: %q", got)
	}
	if got := listed(t, members.Authenticate(store, config()), "gitcache"); got != "new" {
		t.Errorf("off: %q", got)
	}
}

// An attacker who can write one record can write ten thousand, and again.
func TestIgnoredRecordsAreWarnedOfOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := open(t, "")
		var log bytes.Buffer
		cfg := config()
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		hub := members.Authenticate(store, cfg)
		for _, id := range []string{"a", "b", "c"} {
			if err := store.Join(context.Background(), "gitcache", coordination.Member{ID: id, URL: "https://evil"},
				time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		lines := func() int { return strings.Count(log.String(), "\n") }
		for range 100 {
			listed(t, hub, "gitcache")
		}
		if lines() != 1 || !strings.Contains(log.String(), "ignored=3") ||
			!strings.Contains(log.String(), "https://evil") || !strings.Contains(log.String(), "not signed") {
			t.Errorf("logged %s", log.String())
		}
		<-time.After(11 * time.Minute)
		listed(t, hub, "gitcache")
		if lines() != 2 {
			t.Errorf("later logged %s", log.String())
		}
	})
}

// Old services know no signatures: records of new ones must come out as what they can read.
func TestOldServicesReadSignedRecords(t *testing.T) {
	t.Parallel()
	store := open(t, redistest.Start(t).URL())
	join(t, members.Authenticate(store,
		config()), "gitcache", coordination.Member{
		ID: "g1", URL: "https://g1", Meta: map[string]string{"draining": "1"},
	})
	all, err := store.Members(t.Context(), "gitcache")
	if err != nil || len(all) != 1 || all[0].ID != "g1" || all[0].URL != "https://g1" ||
		all[0].Meta["draining"] != "1" {
		t.Errorf("an old service reads %+v, %v", all, err)
	}
}
